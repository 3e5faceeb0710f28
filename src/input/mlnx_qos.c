/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "input/qos_config.h"

static int bad(const struct qos_place *at, struct err *err, const char *found, const char *expected)
{
    err_at(err, at->source, at->line, at->column);
    err_field(err, "%s", at->field);
    return err_set(err, -EINVAL, "found '%.40s', expected %s", found, expected);
}

/* The text after "name:" up to the next comma or blank, cut out in place; NULL when missing. */
static char *property(char *line, const char *name, struct qos_place *at)
{
    size_t n = strlen(name);
    char *p = strstr(line, name);
    while (p && p[n] != ':') {
        p = strstr(p + 1, name);
    }
    at->field = name;
    at->column = 1;
    if (!p) {
        return NULL;
    }
    p += n + 1;
    p += strspn(p, " \t");
    p[strcspn(p, ",% \t\r\n")] = '\0';
    at->column = (unsigned)(p - line) + 1;
    return p;
}

static int read_class(char *line, struct qos_place *at, struct ets_config *ets, struct err *err)
{
    unsigned tc = 0, percent = 0;
    /* Cut from the right, so that what is still to be found is not cut off. */
    struct qos_place bw_at = *at, tsa_at = *at;
    char *bw = property(line, "bw", &bw_at);
    char *tsa = property(line, "tsa", &tsa_at);
    char *number = property(line, "tc", at);
    int rc = qos_parse_number(at, number ? number : "", 0, ETS_CLASSES - 1, &tc, err);
    if (rc == 0 && ets->kind[tc] != ETS_UNSET) {
        rc = bad(at, err, number, "each traffic class once");
    }
    if (rc) {
        return rc;
    }
    if (tsa && strcmp(tsa, "strict") == 0) {
        ets->kind[tc] = ETS_STRICT;
        return 0;
    }
    if (!tsa || strcmp(tsa, "ets") != 0) {
        return bad(&tsa_at, err, tsa ? tsa : "", "strict or ets");
    }
    ets->kind[tc] = ETS_WEIGHTED;
    rc = qos_parse_number(&bw_at, bw ? bw : "", 1, 100, &percent, err);
    ets->percent[tc] = (uint8_t)percent;
    return rc;
}

static int read_listing(FILE *f, const char *path, struct ets_config *ets, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    int rc = 0;
    ssize_t length;
    unsigned sum = 0, n = 0;
    for (unsigned line = 1; rc == 0 && (length = getline(&text, &size, f)) >= 0; line++) {
        struct qos_place at = {.source = path, .field = "", .line = line, .column = 1};
        if (strlen(text) != (size_t)length) {
            rc = bad(&at, err, "a NUL byte", "text");
        } else if (strncmp(text + strspn(text, " \t"), "tc:", 3) == 0) {
            rc = read_class(text, &at, ets, err);
        }
    }
    free(text);
    for (unsigned tc = 0; tc < ETS_CLASSES; tc++) {
        sum += ets->percent[tc];
        n += ets->kind[tc] == ETS_WEIGHTED;
    }
    if (rc == 0 && ferror(f)) {
        rc = err_set(err, -EIO, "cannot be read");
    } else if (rc == 0 && n > 0 && sum != 100) {
        rc = err_set(err, -EINVAL, "bw of the ets classes adds up to %u %%, expected 100 %%", sum);
    }
    return rc;
}

int mlnx_qos_read(const char *path, struct ets_config *ret_ets, struct err *err)
{
    FILE *f = fopen(path, "r");
    if (!f) {
        int rc = -errno;
        err_at(err, path, 0, 0);
        return err_set(err, rc, "cannot be opened: %s", strerror(-rc));
    }
    struct ets_config ets = {0};
    int rc = read_listing(f, path, &ets, err);
    fclose(f);
    unsigned n = 0;
    for (unsigned tc = 0; tc < ETS_CLASSES; tc++) {
        n += ets.kind[tc] != ETS_UNSET;
    }
    if (rc == 0 && n == 0) {
        rc = err_set(err, -EINVAL,
                     "found no line 'tc: N ratelimit: ..., tsa: ...', expected at least one");
    }
    if (rc) {
        err_at(err, path, 0, 0);
        return rc;
    }
    *ret_ets = ets;
    return 0;
}
