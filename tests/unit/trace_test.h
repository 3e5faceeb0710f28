/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tests of the trace readers share. */
#ifndef DUALPATH_TESTS_TRACE_TEST_H
#define DUALPATH_TESTS_TRACE_TEST_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "input/trace.h"

#define MS 1000000ull
#define S  1000000000ull

/* A temporary file that holds text; the caller removes it. */
static inline void write_temp(char path[64], const void *text, size_t size)
{
    strcpy(path, "/tmp/dualpath-trace-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
    close(fd);
}

static inline int read_text(const char *text, const struct trace_options *options, struct trace *t,
                            struct err *err)
{
    char path[64];
    write_temp(path, text, strlen(text));
    *err = ERR_INIT;
    int rc = trace_read(path, options, t, err);
    unlink(path);
    return rc;
}

/* Reads text that must be valid. */
static inline void must_read(const char *text, const struct trace_options *options, struct trace *t)
{
    struct err err;
    int rc = read_text(text, options, t, &err);
    ck_assert_msg(rc == 0, "line %u: %s: %s", err.line, err.field, err.text);
}

/*
 * Reads text that must be refused with this field and part of the message, pointing at the first
 * place in text that reads `at` (NULL: at no line). Where no column is known, `at` begins the line.
 */
static inline void must_fail(const char *text, const struct trace_options *options, const char *at,
                             const char *field, const char *message)
{
    struct trace t;
    struct err err;
    unsigned line = at ? 1 : 0, column = line;
    const char *place = at ? strstr(text, at) : text;
    ck_assert_ptr_nonnull(place);
    for (const char *c = text; c < place; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    ck_assert_int_lt(read_text(text, options, &t, &err), 0);
    ck_assert_msg(strstr(err.text, message) != NULL, "found \"%s\", expected \"%s\"", err.text,
                  message);
    ck_assert_str_eq(err.field, field);
    ck_assert_uint_eq(err.line, line);
    ck_assert_msg(err.column == column || (err.column == 0 && column == 1),
                  "%s: column %u, expected %u", err.text, err.column, column);
    ck_assert_int_ne(err.source[0], 0);
}

static inline uint64_t repairs(const struct trace *t, const char *part)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < t->n_repairs; i++) {
        n += strstr(t->repairs[i].reason, part) ? t->repairs[i].count : 0;
    }
    return n;
}

static inline const struct trace_turn *turn_of(const struct trace *t, uint32_t session,
                                               uint32_t turn)
{
    ck_assert_uint_lt(session, t->n_sessions);
    ck_assert_uint_lt(turn, t->sessions[session].n_turns);
    return &t->turns[t->sessions[session].first_turn + turn];
}

#endif
