/* Runs a fuzz target over the files of the folders given: the corpus as an ordinary test. Prints the number of
 * files; none at all is a failure, so that a lost corpus shows. It owns no fuzzing logic. */
#include "base/file.h"
#include "base/mem.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One file; 0, or 1 with a sentence on stderr. */
static int replay_file(const char *path)
{
    struct hasten_error err;
    char *data = NULL;
    size_t len = 0;
    if (file_slurp(path, (size_t)256 << 20, &data, &len, &err) != HASTEN_OK) {
        fprintf(stderr, "replay: %s\n", err.message);
        return 1;
    }
    /* An exact copy, without the NUL of file_slurp, so that the sanitizer sees a read past the end. */
    uint8_t *exact = mem_alloc(len);
    if (!exact) {
        fprintf(stderr, "replay: out of memory for %s\n", path);
        mem_free(data);
        return 1;
    }
    memcpy(exact, data, len);
    mem_free(data);
    LLVMFuzzerTestOneInput(exact, len);
    mem_free(exact);
    return 0;
}

static int replay_folder(const char *folder, int *n_files)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        fprintf(stderr, "replay: cannot open folder %s\n", folder);
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        failed |= replay_file(path);
        (*n_files)++;
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, n_files = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay_folder(argv[i], &n_files);
    printf("replayed %d files\n", n_files);
    if (n_files == 0)
        fprintf(stderr, "replay: no file in the folders given\n");
    return failed || n_files == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
