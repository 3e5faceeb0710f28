/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/trace.h"

#include <dirent.h>
#include <errno.h>
#include <nettle/sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "input/trace_build.h"
#include "input/trace_formats.h"

struct paths {
    char **names;
    size_t n, capacity;
};

void trace_done(struct trace *t)
{
    free(t->sessions);
    free(t->turns);
    free(t->ids);
    free(t->waits);
    free(t->file_order);
    *t = (struct trace){0};
}

static struct trace_repair *find_repair(struct trace *t, const char *reason)
{
    for (uint32_t i = 0; i < t->n_repairs; i++) {
        if (strcmp(t->repairs[i].reason, reason) == 0) {
            return &t->repairs[i];
        }
    }
    if (t->n_repairs == TRACE_MAX_REPAIRS) { /* more reasons than the readers know of */
        t->repairs[TRACE_MAX_REPAIRS - 1].reason = "other repairs";
        return &t->repairs[TRACE_MAX_REPAIRS - 1];
    }
    t->repairs[t->n_repairs] = (struct trace_repair){.reason = reason};
    return &t->repairs[t->n_repairs++];
}

void trace_count_repair(struct trace *t, const char *reason, uint64_t n)
{
    if (n > 0) {
        find_repair(t, reason)->count += n;
    }
}

void trace_note_repair(struct trace *t, const char *reason, const char *fmt, ...)
{
    struct trace_repair *r = find_repair(t, reason);
    if (r->count++ == 0) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(r->first, sizeof(r->first), fmt, ap);
        va_end(ap);
    }
}

uint64_t trace_empty_turns(const struct trace *t, const struct trace_turn **ret_first)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < t->n_turns; i++) {
        const struct trace_turn *turn = &t->turns[i];
        if (turn->gen_tok == 0 || turn->prompt_tok == 0) {
            *ret_first = n ? *ret_first : turn;
            n++;
        }
    }
    return n;
}

static int hash_file(struct sha256_ctx *sha, const char *path, struct err *err)
{
    FILE *fp = fopen(path, "rb");
    int rc = fp ? 0 : -errno;
    if (fp) {
        uint8_t buf[16384];
        size_t n;
        while ((n = fread(buf, 1, sizeof(buf), fp)) > 0) {
            sha256_update(sha, n, buf);
        }
        rc = ferror(fp) ? -EIO : 0;
        fclose(fp);
    }
    if (rc < 0) {
        err_at(err, path, 0, 0);
        return err_set(err, rc, "cannot read the file: %s", strerror(-rc));
    }
    return 0;
}

static void hash_text(struct sha256_ctx *sha, char ret_hex[65])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(sha, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
    }
}

static int64_t smallest_time(const struct trace *t)
{
    int64_t base = INT64_MAX;
    for (uint64_t i = 0; i < t->n_turns; i++) {
        int64_t at = (int64_t)t->turns[i].t_ns;
        base = at < base ? at : base;
    }
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        int64_t at = (int64_t)t->sessions[i].arrival_ns;
        base = t->sessions[i].parent == TRACE_NONE && at < base ? at : base;
    }
    return base;
}

static void rebase(struct trace *t)
{
    t->base_ns = smallest_time(t);
    for (uint64_t i = 0; i < t->n_turns; i++) {
        t->turns[i].t_ns -= (uint64_t)t->base_ns;
    }
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        bool root = t->sessions[i].parent == TRACE_NONE;
        t->sessions[i].arrival_ns = root ? t->sessions[i].arrival_ns - (uint64_t)t->base_ns : 0;
    }
}

static void paths_done(struct paths *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->names[i]);
    }
    free(p->names);
}

static int paths_add(struct paths *p, const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path || trace_grow(&p->names, &p->capacity, p->n + 1, sizeof(*p->names)) < 0) {
        free(path);
        return -ENOMEM;
    }
    snprintf(path, size, "%s%s%s", dir, *dir ? "/" : "", name);
    p->names[p->n++] = path;
    return 0;
}

static bool has_trace_suffix(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot &&
           (strcmp(dot, ".json") == 0 || strcmp(dot, ".jsonl") == 0 || strcmp(dot, ".csv") == 0);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_directory(struct trace *t, const char *path, struct paths *p, struct err *err)
{
    DIR *dir = opendir(path);
    int rc = dir ? 0 : -errno;
    const struct dirent *entry;
    while (rc == 0 && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (has_trace_suffix(entry->d_name)) {
            rc = paths_add(p, path, entry->d_name);
        } else {
            trace_count_repair(t, "directory entry without .json, .jsonl or .csv ignored", 1);
        }
    }
    if (dir) {
        closedir(dir);
    }
    if (rc == 0 && p->n == 0) {
        return err_set(err, -ENOENT, "no .json, .jsonl or .csv file in the directory");
    }
    if (rc < 0) {
        return err_set(err, rc, "cannot list the directory: %s", strerror(-rc));
    }
    qsort(p->names, p->n, sizeof(*p->names), compare_names);
    return 0;
}

static int list_paths(struct trace *t, const char *path, struct paths *p, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        int rc = -errno;
        err_at(err, path, 0, 0);
        return err_set(err, rc, "cannot open the file: %s", strerror(-rc));
    }
    if (S_ISDIR(st.st_mode)) {
        err_at(err, path, 0, 0);
        int rc = list_directory(t, path, p, err);
        if (rc == 0) {
            *err = ERR_INIT;
        }
        return rc;
    }
    return paths_add(p, "", path) < 0 ? err_nomem(err) : 0;
}

/* Agents come in order of their times, whatever order a file has them in. Only where rows are
 * requests: sessions may be written in any order. */
static void note_order(struct trace *t, uint32_t first_session, const char *path)
{
    for (uint32_t i = first_session + 1; !t->closed_loop && i < t->n_sessions; i++) {
        const struct trace_session *before = &t->sessions[i - 1], *s = &t->sessions[i];
        if (s->parent == TRACE_NONE && before->parent == TRACE_NONE &&
            (int64_t)s->arrival_ns < (int64_t)before->arrival_ns) {
            trace_note_repair(t, "request earlier than the one before it, put in order of time",
                              "%s: %s", path, s->name);
        }
    }
}

static int read_file(struct trace_build *b, const char *path, const struct trace_format **format,
                     struct sha256_ctx *sha, struct err *err)
{
    const struct trace_format *own;
    int rc = trace_format_find(b->options->format, path, &own, err);
    if (rc < 0) {
        return rc;
    }
    if (*format && *format != own) {
        err_at(err, path, 0, 0);
        return err_set(err, -EINVAL, "this is a %s trace, expected %s as in the files before it",
                       own->name, (*format)->name);
    }
    *format = own;
    rc = hash_file(sha, path, err);
    if (rc < 0) {
        return rc;
    }
    uint32_t first_session = b->t->n_sessions;
    b->line = 0;
    rc = own->read(b, path, err);
    if (rc == 0) {
        note_order(b->t, first_session, path);
    }
    if (rc < 0 && !err->set) {
        err_at(err, path, 0, 0);
        err_set(err, rc, "%s",
                rc == -EOVERFLOW ? "more sessions or waits than 32 bits count" : strerror(-rc));
    }
    return rc;
}

static int read_paths(struct trace_build *b, const struct paths *p, struct err *err)
{
    const struct trace_format *format = NULL;
    struct sha256_ctx sha;
    sha256_init(&sha);
    for (size_t i = 0; i < p->n; i++) {
        int rc = read_file(b, p->names[i], &format, &sha, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (b->t->n_turns == 0) {
        err_at(err, p->names[0], 0, 0);
        const struct trace_repair *r = b->t->n_repairs ? &b->t->repairs[0] : NULL;
        return err_set(err, -EINVAL, "the trace has no requests%s%s%s%s", r ? " left: " : "",
                       r ? r->reason : "", r && r->first[0] ? ", first at " : "",
                       r ? r->first : "");
    }
    for (uint64_t i = 0; p->n > 1 && i < b->t->n_turns; i++) {
        b->t->turns[i].line = 0;
    }
    snprintf(b->t->format, sizeof(b->t->format), "%s", format->name);
    hash_text(&sha, b->t->sha256);
    if (!b->keep_times) {
        rebase(b->t);
    }
    return 0;
}

int trace_read(const char *path, const struct trace_options *options, struct trace *ret_trace,
               struct err *err)
{
    static const struct trace_options defaults = {0};
    struct trace t = {0};
    struct trace_build b = {.t = &t, .options = options ? options : &defaults};
    struct paths p = {0};
    int rc = list_paths(&t, path, &p, err);
    rc = rc < 0 ? rc : read_paths(&b, &p, err);
    paths_done(&p);
    if (rc < 0) {
        trace_done(&t);
        return rc;
    }
    *ret_trace = t;
    return 0;
}
