/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether path is something that a rename must not replace. */
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static void forget_names(struct output *o)
{
    free(o->target);
    free(o->temporary);
    o->target = o->temporary = NULL;
}

/* The path of a file that need not exist, with the links in it followed where they lead to
 * something. NULL: out of memory. */
static char *real_name(const char *path)
{
    char *whole = realpath(path, NULL);
    if (whole) {
        return whole;
    }
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    char *dir_name = slash ? strndup(path, (size_t)(file - path)) : strdup(".");
    char *dir = dir_name ? realpath(dir_name, NULL) : NULL;
    size_t size = dir ? strlen(dir) + strlen(file) + 2 : 0;
    if (dir && (whole = malloc(size))) {
        snprintf(whole, size, "%s/%s", dir, file);
    } else if (!dir) {
        whole = strdup(path); /* opening it will tell what is wrong */
    }
    free(dir_name);
    free(dir);
    return whole;
}

static int name_files(struct output *o)
{
    o->target = real_name(o->path);
    size_t size = o->target ? strlen(o->target) + sizeof(".partial") : 0;
    o->temporary = size ? malloc(size) : NULL;
    if (!o->temporary) {
        return -ENOMEM;
    }
    snprintf(o->temporary, size, "%s.partial", o->target);
    return 0;
}

int output_open(struct output *o, const char *path, struct err *err)
{
    *o = (struct output){.path = path};
    if (!path) {
        return 0;
    }
    if (path[0] == '\0') {
        return err_set(err, -EINVAL, "an output file has an empty name");
    }
    if (!is_special(path) && name_files(o)) {
        forget_names(o);
        return err_nomem(err);
    }
    o->file = fopen(o->temporary ? o->temporary : path, "w");
    if (!o->file) {
        int rc = -errno;
        err_at(err, path, 0, 0);
        forget_names(o);
        return err_set(err, rc, "cannot create: %s", strerror(-rc));
    }
    return 0;
}

bool output_is_same(const struct output *a, const struct output *b)
{
    return a->target && b->target && strcmp(a->target, b->target) == 0;
}

int output_commit(struct output *o, struct err *err)
{
    if (!o->file) {
        return 0;
    }
    errno = 0;
    bool failed = ferror(o->file);
    failed |= fclose(o->file) != 0;
    o->file = NULL;
    if (!failed && (!o->temporary || rename(o->temporary, o->target) == 0)) {
        forget_names(o);
        return 0;
    }
    int rc = errno ? -errno : -EIO;
    err_at(err, o->path, 0, 0);
    output_discard(o);
    return err_set(err, rc, "cannot write: %s", strerror(-rc));
}

FILE *output_stream(const struct output *o)
{
    return o->file ? o->file : stdout;
}

int output_end(struct output *o, int rc, struct err *err)
{
    return rc ? err_set(err, rc, "cannot write the report") : output_commit(o, err);
}

void output_discard(struct output *o)
{
    if (o->file) {
        fclose(o->file);
        o->file = NULL;
    }
    if (o->temporary) {
        unlink(o->temporary);
        forget_names(o);
    }
}
