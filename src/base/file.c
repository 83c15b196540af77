/* The file door. Every operation counts itself and can be told to fail, then runs one system call (repeated on
 * EINTR). Messages name the operation and the path.
 *
 * Not here: what is in the files. A map of a file that another process cuts short raises SIGBUS on access; the
 * engine reads weights through maps, so models must not be cut while they are open. The command then ends with a
 * sentence (cli/interrupt.c); a program of its own may copy the file (hasten_model_settings.copy) or catch it. */
#include "base/file.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct file {
    int fd;
    int borrowed; /* standard input: not ours to close */
    char *path;
};

/* ---- fault injection --------------------------------------------------------------------------------------- */

static _Atomic uint64_t n_ops, fail_n, fail_every, fail_ops;
static atomic_int fail_errno;

void file_fail_at(uint64_t n, uint64_t every, int errno_value)
{
    atomic_store(&fail_n, 0);
    atomic_store(&fail_ops, 0);
    atomic_store(&fail_every, every);
    atomic_store(&fail_errno, errno_value);
    atomic_store(&fail_n, n);
}

uint64_t file_op_count(void)
{
    return atomic_load(&n_ops);
}

static _Atomic(file_watch_fn) watch_fn;
static _Atomic(void *) watch_ctx;

void file_watch(file_watch_fn fn, void *ctx)
{
    atomic_store(&watch_ctx, ctx);
    atomic_store(&watch_fn, fn);
}

static void tell(enum file_change change, const char *path, const char *to, const void *data, uint64_t size)
{
    const file_watch_fn fn = atomic_load(&watch_fn);
    if (fn)
        fn(atomic_load(&watch_ctx), &(struct file_event){change, path, to, data, size});
}

enum verdict {
    GO,
    FAIL /* errno is set */,
    SHORT /* transfer at most half */
};

/* Counts one operation and says whether it has been told to fail. */
static enum verdict op_begin(void)
{
    atomic_fetch_add(&n_ops, 1);
    uint64_t n = atomic_load(&fail_n);
    if (n == 0)
        return GO;
    uint64_t every = atomic_load(&fail_every);
    uint64_t op = atomic_fetch_add(&fail_ops, 1) + 1;
    if (op < n || (op > n && (every == 0 || (op - n) % every != 0)))
        return GO;
    errno = atomic_load(&fail_errno);
    return errno ? FAIL : SHORT;
}

/* ---- errors ------------------------------------------------------------------------------------------------ */

static hasten_status status_of_read(int error)
{
    return error == ENOMEM ? HASTEN_ERR_MEMORY : HASTEN_ERR_FILE;
}

static hasten_status status_of_write(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG:
        return HASTEN_ERR_FILE; /* the path is wrong, not the disk */
    case ENOMEM:
        return HASTEN_ERR_MEMORY;
    default:
        return HASTEN_ERR_DISK;
    }
}

/* What the caller should have given instead, where the system's sentence does not say it. */
static const char *remedy(int error)
{
    switch (error) {
    case ENOENT:
        return " (expected an existing path)";
    case ENOTDIR:
        return " (expected a folder)";
    case EISDIR:
        return " (expected a file)";
    case EACCES:
    case EPERM:
        return " (expected permission)";
    case EROFS:
        return " (expected a place that can be written)";
    case ENAMETOOLONG:
        return " (expected a shorter path)";
    case ENOSPC:
    case EDQUOT:
        return " (expected room on the disk)";
    default:
        return "";
    }
}

/* The system's sentence for the current errno. */
static hasten_status fail(struct hasten_error *err, hasten_status status, const char *what, const char *path)
{
    char text[128];
    int error = errno;
    const char *reason = strerror_r(error, text, sizeof text); /* the GNU form: may not use text */
    return error_set(err, status, "%s %s: %s%s", what, path, reason, remedy(error));
}

/* ---- open and close ---------------------------------------------------------------------------------------- */

static struct file *file_new(int fd, const char *path)
{
    struct file *f = mem_alloc(sizeof *f);
    char *copy = mem_strndup(path, strlen(path));
    if (!f || !copy) {
        mem_free(f);
        mem_free(copy);
        return NULL;
    }
    *f = (struct file){.fd = fd, .path = copy};
    return f;
}

/* A descriptor that is not a folder, or -1 with errno. */
static int open_fd(const char *path, enum file_mode mode)
{
    static const int flags[] = {
        [FILE_READ] = O_RDONLY,
        [FILE_WRITE_NEW] = O_WRONLY | O_CREAT | O_EXCL,
        [FILE_WRITE_TRUNC] = O_WRONLY | O_CREAT | O_TRUNC,
        [FILE_APPEND] = O_WRONLY | O_CREAT | O_APPEND,
    };
    struct stat st;
    int fd;
    if (op_begin() == FAIL)
        return -1;
    do
        fd = open(path, flags[mode] | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        errno = EISDIR;
        return -1;
    }
    return fd;
}

hasten_status file_open(const char *path, enum file_mode mode, struct file **out, struct hasten_error *err)
{
    *out = NULL;
    int fd = open_fd(path, mode);
    if (fd < 0)
        return fail(err, mode == FILE_READ ? status_of_read(errno) : status_of_write(errno), "opening", path);
    *out = file_new(fd, path);
    if (!*out) {
        close(fd);
        if (mode == FILE_WRITE_NEW) /* it was made just now */
            unlink(path);
        return error_set(err, HASTEN_ERR_MEMORY, "opening %s: out of memory", path);
    }
    if (mode == FILE_WRITE_NEW || mode == FILE_WRITE_TRUNC)
        tell(FILE_CHANGE_CREATE, path, NULL, NULL, 0);
    return HASTEN_OK;
}

void file_close(struct file *f)
{
    if (!f)
        return;
    if (!f->borrowed)
        close(f->fd);
    mem_free(f->path);
    mem_free(f);
}

hasten_status file_size(struct file *f, uint64_t *out, struct hasten_error *err)
{
    struct stat st;
    if (op_begin() == FAIL || fstat(f->fd, &st) != 0)
        return fail(err, status_of_read(errno), "asking the size of", f->path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, HASTEN_ERR_FILE, "asking the size of %s: not a regular file (expected one)",
                         f->path);
    *out = (uint64_t)st.st_size;
    return HASTEN_OK;
}

/* ---- transfer ---------------------------------------------------------------------------------------------- */

hasten_status file_pread(struct file *f, void *dst, size_t size, uint64_t offset, struct hasten_error *err)
{
    size_t done = 0, limit = size;
    enum verdict v = op_begin();
    if (v == SHORT)
        limit = size / 2;
    while (v != FAIL && done < limit) {
        ssize_t n = pread(f->fd, (char *)dst + done, limit - done, (off_t)(offset + done));
        if (n == 0)
            break;
        if (n > 0)
            done += (size_t)n;
        else if (errno != EINTR)
            v = FAIL;
    }
    if (v == FAIL)
        return fail(err, status_of_read(errno), "reading", f->path);
    if (done < size)
        return error_set(err, HASTEN_ERR_FILE,
                         "reading %s at offset %llu: file ends after %zu bytes (expected %zu)", f->path,
                         (unsigned long long)offset, done, size);
    return HASTEN_OK;
}

hasten_status file_read(struct file *f, void *dst, size_t size, size_t *got, struct hasten_error *err)
{
    ssize_t n = -1;
    *got = 0;
    enum verdict v = op_begin();
    if (v == SHORT && size > 1)
        size /= 2;
    if (v != FAIL)
        do
            n = read(f->fd, dst, size);
        while (n < 0 && errno == EINTR);
    if (n < 0)
        return fail(err, status_of_read(errno), "reading", f->path);
    *got = (size_t)n;
    return HASTEN_OK;
}

hasten_status file_write(struct file *f, const void *src, size_t size, struct hasten_error *err)
{
    size_t done = 0;
    enum verdict v = op_begin();
    while (v != FAIL && done < size) {
        size_t part = v == SHORT && size - done > 1 ? (size - done) / 2 : size - done;
        ssize_t n = write(f->fd, (const char *)src + done, part);
        v = v == SHORT ? GO : v;
        if (n > 0)
            tell(FILE_CHANGE_WRITE, f->path, NULL, (const char *)src + done, (uint64_t)n);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            v = FAIL;
    }
    if (v == FAIL)
        return fail(err, status_of_write(errno), "writing", f->path);
    return HASTEN_OK;
}

hasten_status file_sync(struct file *f, struct hasten_error *err)
{
    const bool told = op_begin() == FAIL;
    if (told || (fsync(f->fd) != 0 && errno != EINVAL)) /* EINVAL: a device or a pipe, which has no disk */
        return fail(err, HASTEN_ERR_DISK, "writing to disk", f->path);
    tell(FILE_CHANGE_SYNC, f->path, NULL, NULL, 0);
    return HASTEN_OK;
}

hasten_status file_truncate(struct file *f, uint64_t size, struct hasten_error *err)
{
    if (op_begin() == FAIL || ftruncate(f->fd, (off_t)size) != 0)
        return fail(err, HASTEN_ERR_DISK, "cutting", f->path);
    tell(FILE_CHANGE_CUT, f->path, NULL, NULL, size);
    return HASTEN_OK;
}

hasten_status file_lock(struct file *f, int *got, struct hasten_error *err)
{
    int rc = -1;
    if (op_begin() != FAIL)
        do
            rc = flock(f->fd, LOCK_EX | LOCK_NB);
        while (rc != 0 && errno == EINTR);
    *got = rc == 0;
    return rc == 0 || errno == EWOULDBLOCK ? HASTEN_OK : fail(err, HASTEN_ERR_DISK, "locking", f->path);
}

/* ---- names ------------------------------------------------------------------------------------------------- */

/* The folder that path lies in; NULL when out of memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strndup(".", 1);
}

/* Makes a rename in the folder of path durable. Folders that cannot be opened or synced are left to the
 * system: the rename itself has succeeded. */
static void sync_folder_of(const char *path)
{
    char *folder = folder_of(path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    mem_free(folder);
}

hasten_status file_rename(const char *from, const char *to, struct hasten_error *err)
{
    if (op_begin() == FAIL || rename(from, to) != 0) {
        char text[128];
        hasten_status status = status_of_write(errno);
        return error_set(err, status, "renaming %s to %s: %s", from, to,
                         strerror_r(errno, text, sizeof text));
    }
    sync_folder_of(to);
    tell(FILE_CHANGE_RENAME, from, to, NULL, 0);
    return HASTEN_OK;
}

hasten_status file_unlink(const char *path, struct hasten_error *err)
{
    if (op_begin() == FAIL || unlink(path) != 0)
        return fail(err, status_of_write(errno), "removing", path);
    tell(FILE_CHANGE_UNLINK, path, NULL, NULL, 0);
    return HASTEN_OK;
}

/* One level: an existing folder is fine. */
static hasten_status mkdir_one(const char *path, struct hasten_error *err)
{
    struct stat st;
    if (op_begin() != FAIL) {
        if (mkdir(path, 0700) == 0)
            return HASTEN_OK;
        int error = errno;
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            return HASTEN_OK;
        errno = error;
    }
    return fail(err, status_of_write(errno), "making folder", path);
}

hasten_status file_mkdirs(const char *path, struct hasten_error *err)
{
    hasten_status status = HASTEN_OK;
    char *copy = mem_strndup(path, strlen(path));
    if (!copy)
        return error_set(err, HASTEN_ERR_MEMORY, "making folder %s: out of memory", path);
    for (char *p = copy + (copy[0] == '/'); *p && status == HASTEN_OK; p++) {
        if (*p != '/' || p[1] == '/' || p[1] == '\0')
            continue;
        *p = '\0';
        status = mkdir_one(copy, err);
        *p = '/';
    }
    if (status == HASTEN_OK)
        status = mkdir_one(copy, err);
    mem_free(copy);
    return status;
}

hasten_status file_rmdir(const char *path, struct hasten_error *err)
{
    if (op_begin() == FAIL || rmdir(path) != 0)
        return fail(err, status_of_write(errno), "removing folder", path);
    return HASTEN_OK;
}

static int add_name(struct file_names *f, const char *name)
{
    if (f->n == f->cap) {
        const size_t cap = f->cap ? 2 * f->cap : 16;
        char **more = mem_realloc(f->names, cap * sizeof *more);
        if (!more)
            return -1;
        f->names = more;
        f->cap = cap;
    }
    f->names[f->n] = mem_strndup(name, strlen(name));
    return f->names[f->n] ? (f->n++, 0) : -1;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static hasten_status list(const char *path, bool if_any, struct file_names *out, struct hasten_error *err)
{
    DIR *d = op_begin() == FAIL ? NULL : opendir(path);
    if (!d && if_any && errno == ENOENT)
        return HASTEN_OK;
    if (!d)
        return fail(err, status_of_read(errno), "listing", path);
    int bad = 0;
    for (const struct dirent *e; !bad && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            bad = add_name(out, e->d_name);
    closedir(d);
    if (bad) {
        file_names_free(out);
        return error_set(err, HASTEN_ERR_MEMORY, "listing %s: out of memory", path);
    }
    if (out->n > 1)
        qsort(out->names, out->n, sizeof *out->names, by_bytes);
    return HASTEN_OK;
}

hasten_status file_list(const char *path, struct file_names *out, struct hasten_error *err)
{
    return list(path, false, out, err);
}

hasten_status file_list_if_any(const char *path, struct file_names *out, struct hasten_error *err)
{
    return list(path, true, out, err);
}

void file_names_free(struct file_names *f)
{
    for (size_t i = 0; i < f->n; i++)
        mem_free(f->names[i]);
    mem_free(f->names);
    *f = (struct file_names){0};
}

int file_exists(const char *path)
{
    struct stat st;
    return op_begin() != FAIL && stat(path, &st) == 0;
}

enum file_kind file_kind(const char *path)
{
    struct stat st;
    if (op_begin() == FAIL || stat(path, &st) != 0)
        return FILE_MISSING;
    return S_ISREG(st.st_mode) ? FILE_REGULAR : S_ISDIR(st.st_mode) ? FILE_FOLDER : FILE_OTHER;
}

uint64_t file_bytes(const char *path)
{
    struct stat st;
    return op_begin() == FAIL || stat(path, &st) != 0 || !S_ISREG(st.st_mode) ? 0 : (uint64_t)st.st_size;
}

hasten_status file_space(const char *path, uint64_t *out, struct hasten_error *err)
{
    struct statvfs v;
    char *folder = folder_of(path);
    if (!folder)
        return error_set(err, HASTEN_ERR_MEMORY, "asking for the room at %s: out of memory", path);
    hasten_status status = HASTEN_OK;
    if (op_begin() == FAIL || statvfs(folder, &v) != 0)
        status = fail(err, status_of_write(errno), "asking for the room in", folder);
    else
        *out = (uint64_t)v.f_bavail * (uint64_t)v.f_frsize;
    mem_free(folder);
    return status;
}

hasten_status file_may_create(const char *path, struct hasten_error *err)
{
    char *folder = folder_of(path);
    if (!folder)
        return error_set(err, HASTEN_ERR_MEMORY, "writing %s: out of memory", path);
    hasten_status status = HASTEN_OK;
    if (op_begin() == FAIL || access(folder, W_OK | X_OK) != 0)
        status = fail(err, status_of_write(errno), "writing into", folder);
    mem_free(folder);
    return status;
}

int file_same(const char *a, const char *b)
{
    struct stat sa, sb;
    return op_begin() != FAIL && stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

/* ---- whole files ------------------------------------------------------------------------------------------- */

hasten_status file_map(struct file *f, const void **data, uint64_t *size, struct hasten_error *err)
{
    hasten_status status = file_size(f, size, err);
    *data = NULL;
    if (status != HASTEN_OK)
        return status;
    if (*size == 0)
        return error_set(err, HASTEN_ERR_FILE, "mapping %s: the file is empty (expected bytes)", f->path);
    if (*size > PTRDIFF_MAX)
        return error_set(err, HASTEN_ERR_LIMIT, "mapping %s: too large for this machine", f->path);
    void *ptr = MAP_FAILED;
    if (op_begin() != FAIL)
        ptr = mmap(NULL, (size_t)*size, PROT_READ, MAP_PRIVATE, f->fd, 0);
    if (ptr == MAP_FAILED)
        return fail(err, status_of_read(errno), "mapping", f->path);
    *data = ptr;
    return HASTEN_OK;
}

void file_unmap(const void *data, uint64_t size)
{
    if (data)
        munmap((void *)(uintptr_t)data, (size_t)size);
}

void file_release(const void *data, uint64_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, begin = (uintptr_t)data & ~page;
    if (size)
        madvise((void *)begin, (size_t)((uintptr_t)data + size - begin), MADV_DONTNEED);
}

#define MAP_PIECE (8u << 20)

/* One piece of a map replaced by a copy of itself. False with errno. */
static bool copy_piece(void *at, size_t n)
{
    void *copy = op_begin() == FAIL
                     ? MAP_FAILED
                     : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return false;
    memcpy(copy, at, n);
    if (mprotect(copy, n, PROT_READ) == 0 && mremap(copy, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at)
        return true;
    const int error = errno;
    munmap(copy, n);
    errno = error;
    return false;
}

static bool lock_piece(void *at, size_t n)
{
    return op_begin() != FAIL && mlock(at, n) == 0;
}

/* Does `piece` to each piece of a map; *done: bytes that went well. */
static hasten_status each_piece(const void *data, uint64_t size, bool (*piece)(void *, size_t),
                                uint64_t *done, file_progress_fn progress, void *ctx, const char *name,
                                struct hasten_error *err)
{
    uint8_t *at = (uint8_t *)(uintptr_t)data;
    for (*done = 0; *done < size;) {
        const size_t n = size - *done < MAP_PIECE ? (size_t)(size - *done) : MAP_PIECE;
        if (!piece(at + *done, n))
            return HASTEN_ERR_MEMORY;
        *done += n;
        if (progress && progress(ctx, *done))
            return error_set(err, HASTEN_ERR_CANCELLED, "reading %s: interrupted", name);
    }
    return HASTEN_OK;
}

hasten_status file_map_copy(const void *data, uint64_t size, const char *name, file_progress_fn progress,
                            void *ctx, struct hasten_error *err)
{
    uint64_t done;
    hasten_status st = each_piece(data, size, copy_piece, &done, progress, ctx, name, err);
    return st == HASTEN_ERR_MEMORY
               ? error_set(err, st, "reading %s into memory: out of memory after %.1f of %.1f MiB", name,
                           (double)done / 1048576.0, (double)size / 1048576.0)
               : st;
}

hasten_status file_map_lock(const void *data, uint64_t size, const char *name, file_progress_fn progress,
                            void *ctx, struct hasten_error *err)
{
    uint64_t done;
    struct rlimit limit = {0};
    char most[64] = "no limit";
    hasten_status st = each_piece(data, size, lock_piece, &done, progress, ctx, name, err);
    if (st != HASTEN_ERR_MEMORY)
        return st;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(most, sizeof most, "a limit of %.1f MiB", (double)limit.rlim_cur / 1048576.0);
    return error_set(err, st, "locking %s: %.1f of %.1f MiB, with %s (expected a higher one: ulimit -l)",
                     name, (double)done / 1048576.0, (double)size / 1048576.0, most);
}

/* Reads to the end into b, at most limit bytes. */
static hasten_status slurp_into(struct file *f, size_t limit, struct buf *b, struct hasten_error *err)
{
    char chunk[16384];
    for (;;) {
        size_t got;
        hasten_status status = file_read(f, chunk, sizeof chunk, &got, err);
        if (status != HASTEN_OK)
            return status;
        if (got > limit - b->len)
            return error_set(err, HASTEN_ERR_LIMIT, "reading %s: longer than %zu bytes", f->path, limit);
        if (buf_put(b, chunk, got))
            return error_set(err, HASTEN_ERR_MEMORY, "reading %s: out of memory after %zu bytes", f->path,
                             b->len);
        if (got == 0)
            return HASTEN_OK;
    }
}

hasten_status file_slurp(const char *path, size_t limit, char **data, size_t *len, struct hasten_error *err)
{
    struct file *f = NULL;
    struct buf b = {0};
    hasten_status status;
    *data = NULL;
    *len = 0;
    if (strcmp(path, "-") == 0) {
        f = file_new(STDIN_FILENO, "standard input");
        if (!f)
            return error_set(err, HASTEN_ERR_MEMORY, "reading standard input: out of memory");
        f->borrowed = 1;
    } else if ((status = file_open(path, FILE_READ, &f, err)) != HASTEN_OK) {
        return status;
    }
    status = slurp_into(f, limit, &b, err);
    file_close(f);
    if (status != HASTEN_OK) {
        buf_free(&b);
        return status;
    }
    *data = b.data;
    *len = b.len;
    return HASTEN_OK;
}
