/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * JSON for people: jansson's values plus the place of each value in the text, so that an error
 * about a value (not only about syntax) can name file, line and column.
 */
#ifndef DUALPATH_INPUT_JSON_FILE_H
#define DUALPATH_INPUT_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/units.h"

struct json_file {
    char source[256];
    char *text; /* NUL-terminated, owned */
    size_t size;
    json_t *root;
};

/*
 * Reads a whole file as one JSON value of any type (duplicate keys rejected; a byte-order mark is
 * skipped). Returns 0; -EINVAL when it is not JSON, the errno of the failed open or read otherwise.
 * On failure err names the place.
 */
int json_file_read(const char *path, struct json_file *ret_file, struct err *err);
/* The same from memory; text is copied, source names it in errors. */
int json_file_parse(const char *source, const char *text, size_t size, struct json_file *ret_file,
                    struct err *err);
void json_file_done(struct json_file *f);

/*
 * Where the value at path ("a.b[3].c", "" = the root) starts in a JSON text: 1-based line and
 * column. An object member is located at its key. Returns 0 or -ENOENT.
 */
int json_locate(const char *text, size_t size, const char *path, unsigned *ret_line,
                unsigned *ret_column);

/* Line and column, 1-based and in characters, of the byte at offset at of a UTF-8 text. */
void json_place(const char *text, size_t at, unsigned *ret_line, unsigned *ret_column);

/* Fills err with the place of path in f and the message; returns -EINVAL. */
int json_file_error(const struct json_file *f, const char *path, struct err *err, const char *fmt,
                    ...) __attribute__((format(printf, 4, 5)));

/* A short description of a value for messages: "the string \"fast\"", "the number 3", "an
 * object"... */
void json_describe(const json_t *value, char *buf, size_t size);

/* The candidate nearest to word by edit distance, or NULL when none is near enough to suggest. */
const char *nearest_word(const char *word, const char *const *candidates, size_t n);

#endif
