/* See many.h. */
#include "cli/many.h"
#include "base/file.h"
#include <string.h>

char *many_model_id(const char *alias, const char *argument)
{
    const char *name = alias ? alias : argument, *slash = strrchr(name, '/');
    const bool is_file = !alias && file_exists(name);
    if (is_file && slash && slash[1])
        name = slash + 1;
    size_t len = strlen(name);
    if (is_file && len > 5 && strcmp(name + len - 5, ".gguf") == 0)
        len -= 5;
    while (len > 1 && name[len - 1] == '/')
        len--;
    return mem_strndup(name, len);
}

void many_adjust(struct model_args *model, int32_t slots, uint64_t kv_size, const struct hasten_model *m,
                 struct hasten_engine_settings *settings)
{
    const int32_t trained = hasten_model_n_ctx_train(m);
    const int64_t n_ctx = settings->n_ctx ? settings->n_ctx : trained < 4096 ? trained : 4096;
    settings->n_seq_max += slots - 1;
    if (hasten_model_is_encoder(m))
        return;
    settings->kv_positions = kv_size ? (int64_t)kv_size : n_ctx * (slots < 4 ? slots : 4);
    if (model->methods.spec[STAGE_STORE].n == 0 && settings->n_methods < METHOD_ARGS_MAX)
        model->methods.use[settings->n_methods++] =
            (struct hasten_method_use){method_stage_name(STAGE_STORE), "apc", NULL};
}
