/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e->set) {
        return e->code;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof(e->text), fmt, ap);
    va_end(ap);
    e->set = true;
    e->code = code;
    return code;
}

int err_nomem(struct err *e)
{
    return err_set(e, -ENOMEM, "out of memory");
}

void err_at(struct err *e, const char *source, unsigned line, unsigned column)
{
    if (source && e->source[0] == '\0') {
        snprintf(e->source, sizeof(e->source), "%s", source);
    }
    if (e->line == 0) {
        e->line = line;
        e->column = column;
    }
}

void err_field(struct err *e, const char *fmt, ...)
{
    if (e->field[0] != '\0') {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->field, sizeof(e->field), fmt, ap);
    va_end(ap);
}

size_t err_format(const struct err *e, char *buf, size_t size)
{
    char where[320] = "";
    if (e->line && e->column) {
        snprintf(where, sizeof(where), "%s:%u:%u: ", e->source, e->line, e->column);
    } else if (e->line) {
        snprintf(where, sizeof(where), "%s:%u: ", e->source, e->line);
    } else if (e->source[0]) {
        snprintf(where, sizeof(where), "%s: ", e->source);
    }
    int n = snprintf(buf, size, "%s%s%s%s", where, e->field, e->field[0] ? ": " : "", e->text);
    return n < 0 ? 0 : (size_t)n;
}
