/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/json_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOM "\xef\xbb\xbf"

/* Reads the whole of fp into *ret_text (NUL-terminated). Returns 0 or a negative errno. */
static int read_all(FILE *fp, char **ret_text, size_t *ret_size)
{
    size_t size = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    while (text) {
        size_t n = fread(text + size, 1, capacity - size - 1, fp);
        bool binary = memchr(text + size, '\0', n);
        size += n;
        if (n == 0 || binary) { /* no JSON behind a NUL byte, and a device may never end */
            break;
        }
        if (capacity - size < capacity / 2) {
            char *more = realloc(text, 2 * capacity);
            if (!more) {
                free(text);
                return -ENOMEM;
            }
            text = more;
            capacity *= 2;
        }
    }
    if (!text) {
        return -ENOMEM;
    }
    if (ferror(fp)) {
        int code = errno ? -errno : -EIO;
        free(text);
        return code;
    }
    text[size] = '\0';
    *ret_text = text;
    *ret_size = size;
    return 0;
}

static bool is_blank(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", text[i]) && text[i] != '\0') {
        i++;
    }
    return i == size;
}

/* Takes over text. */
static int parse_owned(const char *source, char *text, size_t size, struct json_file *ret_file,
                       struct err *err)
{
    json_error_t error;
    /* RFC 8259 lets a reader skip a byte-order mark; columns are counted after it. */
    if (size >= 3 && memcmp(text, BOM, 3) == 0) {
        size -= 3;
        memmove(text, text + 3, size + 1);
    }
    if (is_blank(text, size)) {
        free(text);
        err_at(err, source, 0, 0);
        return err_set(err, -EINVAL, "the file is empty, expected a JSON value");
    }
    /* jansson steps over a NUL byte behind a number as if it were not there. */
    if (memchr(text, '\0', size)) {
        unsigned line, column;
        json_place(text, (size_t)((char *)memchr(text, '\0', size) - text), &line, &column);
        free(text);
        err_at(err, source, line, column);
        return err_set(err, -EINVAL, "not valid JSON: a NUL byte");
    }
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root) {
        free(text);
        err_at(err, source, error.line > 0 ? (unsigned)error.line : 1,
               error.column > 0 ? (unsigned)error.column : 1);
        return err_set(err, -EINVAL, "not valid JSON: %s", error.text);
    }
    *ret_file = (struct json_file){.text = text, .size = size, .root = root};
    snprintf(ret_file->source, sizeof(ret_file->source), "%s", source);
    return 0;
}

int json_file_read(const char *path, struct json_file *ret_file, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *fp = fopen(path, "rb");
    int ret = fp ? read_all(fp, &text, &size) : -errno;
    if (fp) {
        fclose(fp);
    }
    if (ret < 0) {
        err_at(err, path, 0, 0);
        return err_set(err, ret, "cannot read the file: %s", strerror(-ret));
    }
    return parse_owned(path, text, size, ret_file, err);
}

int json_file_parse(const char *source, const char *text, size_t size, struct json_file *ret_file,
                    struct err *err)
{
    char *copy = malloc(size + 1);
    if (!copy) {
        return err_nomem(err);
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    return parse_owned(source, copy, size, ret_file, err);
}

void json_file_done(struct json_file *f)
{
    json_decref(f->root);
    free(f->text);
    *f = (struct json_file){0};
}

int json_file_error(const struct json_file *f, const char *path, struct err *err, const char *fmt,
                    ...)
{
    char text[sizeof(err->text)];
    unsigned line = 0, column = 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (err->set) {
        return err->code;
    }
    json_locate(f->text, f->size, path, &line, &column);
    err_at(err, f->source, line, column);
    if (path[0]) {
        err_field(err, "%s", path);
    }
    return err_set(err, -EINVAL, "%s", text);
}

/* Appends text, shortened after max characters and with control characters masked. */
static void quote(char *buf, size_t size, const char *text, size_t max)
{
    size_t at = strlen(buf), taken = 0;
    for (; *text && taken < max && at + 1 < size; text++) {
        unsigned char c = (unsigned char)*text;
        buf[at++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
        /* A cut may only fall before a character, never inside its UTF-8 bytes. */
        taken += ((unsigned char)text[1] & 0xc0) != 0x80;
    }
    snprintf(buf + at, size - at, "%s\"", *text ? "..." : "");
}

void json_describe(const json_t *value, char *buf, size_t size)
{
    if (json_is_string(value)) {
        snprintf(buf, size, "the string \"");
        quote(buf, size, json_string_value(value), 40);
    } else if (json_is_integer(value)) {
        snprintf(buf, size, "the number %" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        snprintf(buf, size, "the number %.12g", json_real_value(value));
    } else {
        snprintf(buf, size, "%s",
                 json_is_object(value)  ? "an object"
                 : json_is_array(value) ? "an array"
                 : json_is_true(value)  ? "true"
                 : json_is_false(value) ? "false"
                 : json_is_null(value)  ? "null"
                                        : "nothing");
    }
}
