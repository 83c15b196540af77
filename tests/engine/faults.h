/* What the scenarios of test_faults share: where files lie, how an outcome is noted. */
#ifndef TESTS_ENGINE_FAULTS_H
#define TESTS_ENGINE_FAULTS_H
#include "base/mem.h"
#include "hasten/text.h"

struct fault_paths {
    const char *folder, *model, *qwen2, *mixtral, *bert, *model_folder;
};
extern struct fault_paths paths;

/* Appends to out what a run came to; ends the faults, as this memory is the test's own. */
void note(struct hasten_bytes *out, const void *data, size_t len);

/* Opens, works, notes, closes; must give the same bytes each time. */
typedef hasten_status (*scenario_fn)(struct hasten_bytes *out, struct hasten_error *err);
struct scenario {
    const char *name;
    scenario_fn fn;
    const char *written;    /* the file that it writes, or NULL */
    bool shows_what_it_can; /* a file that cannot be read makes the result smaller, and is no failure */
    bool one_error;         /* EIO stands for all errors of files: another scenario writes the same way */
};

/* fault_files.c */
void fault_files_write(void); /* what they read, into paths.folder */
extern char quantized_path[600];
hasten_status fault_folder(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_split(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_embed(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_adapter(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_sampling(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_imatrix(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_quantize(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_profile(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_cache(struct hasten_bytes *out, struct hasten_error *err);

/* fault_snapshots.c */
void fault_snapshots_write(void);
extern char snapshot_path[600];
hasten_status fault_save(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_restore(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_disk(struct hasten_bytes *out, struct hasten_error *err);
hasten_status fault_store(struct hasten_bytes *out, struct hasten_error *err);

#endif
