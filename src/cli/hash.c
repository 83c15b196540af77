/* Hashes of files (hash.h): the one file of the command that knows libcrypto. */
#include "cli/hash.h"
#include "base/file.h"
#include "base/mem.h"
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define BLOCK (1 << 20)

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "hashing: out of memory");
}

static hasten_status digest_file(EVP_MD_CTX *c, struct file *f, char *data, hash_progress_fn progress,
                                 void *ctx, struct hasten_error *err)
{
    uint64_t done = 0;
    hasten_status st = HASTEN_OK;
    for (size_t got = 1; !st && got > 0; done += got) {
        st = file_read(f, data, BLOCK, &got, err);
        if (!st && !EVP_DigestUpdate(c, data, got))
            st = no_memory(err);
        if (!st && progress && progress(ctx, done + got))
            st = error_set(err, HASTEN_ERR_CANCELLED, "interrupted");
    }
    return st;
}

static hasten_status hash_file(const char *path, const EVP_MD *md, bool as_blob, char *hex,
                               hash_progress_fn progress, void *ctx, struct hasten_error *err)
{
    struct file *f = NULL;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    uint64_t size = 0;
    char *data = mem_alloc(BLOCK), head[64];
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    hasten_status st = data && c && EVP_DigestInit_ex(c, md, NULL) ? HASTEN_OK : no_memory(err);
    if (!st)
        st = file_open(path, FILE_READ, &f, err);
    if (!st && as_blob && !(st = file_size(f, &size, err))) {
        const int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)size);
        st = EVP_DigestUpdate(c, head, (size_t)n + 1) ? HASTEN_OK : no_memory(err); /* with its NUL */
    }
    if (!st)
        st = digest_file(c, f, data, progress, ctx, err);
    if (!st && !EVP_DigestFinal_ex(c, digest, &len))
        st = no_memory(err);
    for (unsigned int i = 0; i < len && !st; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    file_close(f);
    EVP_MD_CTX_free(c);
    mem_free(data);
    return st;
}

hasten_status hash_sha256(const char *path, char hex[65], hash_progress_fn progress, void *ctx,
                          struct hasten_error *err)
{
    return hash_file(path, EVP_sha256(), false, hex, progress, ctx, err);
}

hasten_status hash_git_blob(const char *path, char hex[41], struct hasten_error *err)
{
    return hash_file(path, EVP_sha1(), true, hex, NULL, NULL, err);
}

struct hash {
    EVP_MD_CTX *c;
};

hasten_status hash_begin(struct hash **out, struct hasten_error *err)
{
    struct hash *h = mem_calloc(1, sizeof *h);
    *out = h;
    if (h && (h->c = EVP_MD_CTX_new()) && EVP_DigestInit_ex(h->c, EVP_sha256(), NULL))
        return HASTEN_OK;
    hash_end(h, NULL, NULL);
    *out = NULL;
    return no_memory(err);
}

hasten_status hash_add(struct hash *h, const void *data, size_t size, struct hasten_error *err)
{
    return EVP_DigestUpdate(h->c, data, size) ? HASTEN_OK : no_memory(err);
}

hasten_status hash_end(struct hash *h, char hex[65], struct hasten_error *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    hasten_status st = HASTEN_OK;
    if (h && hex && !EVP_DigestFinal_ex(h->c, digest, &len))
        st = no_memory(err);
    for (unsigned int i = 0; i < len && i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    if (h)
        EVP_MD_CTX_free(h->c);
    mem_free(h);
    return st;
}
