/* The built-in vocabulary of scripted models, written as a GGUF file so that everything reads it as it reads any. */
#include "base/mem.h"
#include "model/script.h"
#include <string.h>

static const char chat_template[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/* All numbers of the format are little-endian, and so are the machines that Hasten runs on. */
static int put_u32(struct buf *b, uint32_t v)
{
    return buf_put(b, &v, sizeof v);
}

static int put_u64(struct buf *b, uint64_t v)
{
    return buf_put(b, &v, sizeof v);
}

static int put_str(struct buf *b, const char *s, size_t len)
{
    return put_u64(b, len) || buf_put(b, s, len);
}

static int key_str(struct buf *b, const char *key, const char *value)
{
    return put_str(b, key, strlen(key)) || put_u32(b, GGUF_STRING) || put_str(b, value, strlen(value));
}

static int key_u32(struct buf *b, const char *key, uint32_t value)
{
    return put_str(b, key, strlen(key)) || put_u32(b, GGUF_U32) || put_u32(b, value);
}

static int key_array(struct buf *b, const char *key, enum gguf_value_type type, uint64_t n)
{
    return put_str(b, key, strlen(key)) || put_u32(b, GGUF_ARRAY) || put_u32(b, type) || put_u64(b, n);
}

/* A byte as byte-level BPE writes it: printable Latin-1 as itself, the others from U+0100 on, in order (GPT-2). */
static bool is_plain(int byte)
{
    return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
}

static int put_byte_token(struct buf *b, int byte, int *n_moved)
{
    const int code = is_plain(byte) ? byte : 256 + (*n_moved)++;
    char text[2] = {(char)code, 0};
    if (code >= 0x80) {
        text[0] = (char)(0xc0 | code >> 6);
        text[1] = (char)(0x80 | (code & 63));
    }
    return put_str(b, text, code < 0x80 ? 1 : 2);
}

static int put_tokens(struct buf *b, int32_t n_vocab)
{
    static const char *const control[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    int moved = 0, bad = key_array(b, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)n_vocab);
    for (int i = 0; i < 256 && !bad; i++)
        bad = put_byte_token(b, i, &moved);
    for (int i = 0; i < 3 && !bad; i++)
        bad = put_str(b, control[i], strlen(control[i]));
    struct buf name = {0};
    for (int32_t i = SCRIPT_MIN_VOCAB; i < n_vocab && !bad; i++) {
        buf_clear(&name);
        bad = buf_printf(&name, "<|unused_%d|>", (int)i) || put_str(b, name.data, name.len);
    }
    buf_free(&name);
    bad = bad || key_array(b, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)n_vocab);
    for (int32_t i = 0; i < n_vocab && !bad; i++)
        bad = put_u32(b, i < 256 ? VOCAB_NORMAL : i < SCRIPT_MIN_VOCAB ? VOCAB_CONTROL : VOCAB_UNUSED);
    return bad;
}

hasten_status script_make_vocab(int32_t n_vocab, int32_t n_ctx, uint8_t **file, size_t *size,
                                struct hasten_error *err)
{
    struct buf b = {0};
    int bad = buf_put(&b, "GGUF", 4) || put_u32(&b, 3) || put_u64(&b, 0) || put_u64(&b, 10);
    bad = bad || key_str(&b, "general.architecture", "scripted") ||
          key_str(&b, "general.name", "scripted model") ||
          key_u32(&b, "scripted.context_length", (uint32_t)n_ctx) ||
          key_str(&b, "tokenizer.ggml.model", "gpt2") || key_str(&b, "tokenizer.ggml.pre", "gpt-2") ||
          put_tokens(&b, n_vocab) || key_array(&b, "tokenizer.ggml.merges", GGUF_STRING, 0) ||
          key_u32(&b, "tokenizer.ggml.eos_token_id", SCRIPT_MIN_VOCAB - 1) ||
          key_str(&b, "tokenizer.chat_template", chat_template);
    if (bad) {
        buf_free(&b);
        return error_set(err, HASTEN_ERR_MEMORY, "opening a scripted model: out of memory");
    }
    *file = (uint8_t *)b.data;
    *size = b.len;
    return HASTEN_OK;
}
