/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int output_open(struct output *o, const char *path, struct err *err)
{
    *o = (struct output){.path = path};
    if (!path) {
        return 0;
    }
    size_t size = strlen(path) + sizeof(".partial");
    o->temporary = malloc(size);
    if (!o->temporary) {
        return err_nomem(err);
    }
    snprintf(o->temporary, size, "%s.partial", path);
    o->file = fopen(o->temporary, "w");
    if (!o->file) {
        int rc = -errno;
        err_at(err, o->temporary, 0, 0);
        free(o->temporary);
        o->temporary = NULL;
        return err_set(err, rc, "cannot create: %s", strerror(-rc));
    }
    return 0;
}

int output_commit(struct output *o, struct err *err)
{
    if (!o->file) {
        return 0;
    }
    int failed = ferror(o->file);
    failed |= fclose(o->file) != 0;
    o->file = NULL;
    if (!failed && rename(o->temporary, o->path) == 0) {
        free(o->temporary);
        o->temporary = NULL;
        return 0;
    }
    int rc = errno ? -errno : -EIO;
    err_at(err, o->path, 0, 0);
    output_discard(o);
    return err_set(err, rc, "cannot write: %s", strerror(-rc));
}

void output_discard(struct output *o)
{
    if (o->file) {
        fclose(o->file);
        o->file = NULL;
    }
    if (o->temporary) {
        unlink(o->temporary);
        free(o->temporary);
        o->temporary = NULL;
    }
}
