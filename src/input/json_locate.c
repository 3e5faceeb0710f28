/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A scanner that follows one path through a JSON text. jansson keeps no positions of values, and
 * the text is at hand only when there is an error to report, so the path is looked up then. The
 * text need not be valid: every step checks its bounds and gives up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"

struct scan {
    const char *text;
    size_t size, at;
};

static int peek(const struct scan *s)
{
    return s->at < s->size ? (unsigned char)s->text[s->at] : -1;
}

static void skip_space(struct scan *s)
{
    while (peek(s) == ' ' || peek(s) == '\t' || peek(s) == '\r' || peek(s) == '\n') {
        s->at++;
    }
}

/* Stands on '"'; leaves behind the closing one. */
static bool skip_string(struct scan *s)
{
    for (s->at++; peek(s) >= 0; s->at++) {
        if (peek(s) == '\\') {
            s->at++;
        } else if (peek(s) == '"') {
            s->at++;
            return true;
        }
    }
    return false;
}

/* Leaves behind one value, however deep, without recursion. */
static bool skip_value(struct scan *s)
{
    size_t depth = 0;
    skip_space(s);
    for (; peek(s) >= 0; skip_space(s)) {
        int c = peek(s);
        if (depth == 0 && (c == ',' || c == ']' || c == '}')) {
            return false;
        }
        if (c == '"') {
            if (!skip_string(s)) {
                return false;
            }
        } else if (c == '{' || c == '[') {
            depth++;
            s->at++;
        } else if (c == '}' || c == ']') {
            depth--;
            s->at++;
        } else if (c == ',' || c == ':') {
            s->at++;
        } else { /* a number, true, false, null, or garbage up to the next delimiter */
            while (peek(s) >= 0 && !strchr(" \t\r\n\"{}[],:", peek(s))) {
                s->at++;
            }
            if (peek(s) == 0) {
                return false;
            }
        }
        if (depth == 0) {
            return true;
        }
    }
    return false;
}

/* Bytes of the path taken by the key that starts at s ('"'), 0 when it is not the path's next part.
 */
static size_t key_matches(const struct scan *s, const char *path)
{
    struct scan end = *s;
    if (!skip_string(&end)) {
        return 0;
    }
    json_t *key = json_loadb(s->text + s->at, end.at - s->at, JSON_DECODE_ANY, NULL);
    size_t n = key ? json_string_length(key) : 0;
    bool match = n && strncmp(path, json_string_value(key), n) == 0 && strchr(".[", path[n]);
    json_decref(key);
    return match ? n : 0;
}

/*
 * Stands on '{'. Moves to the member whose key is the longest prefix of the path (a key may itself
 * hold dots); *ret_key is where the key starts, s then stands at the value.
 */
static bool enter_member(struct scan *s, const char **path, size_t *ret_key)
{
    size_t best = 0, best_value = 0;
    s->at++;
    for (skip_space(s); peek(s) == '"'; skip_space(s)) {
        size_t key = s->at, n = key_matches(s, *path);
        if (!skip_string(s)) {
            break;
        }
        skip_space(s);
        if (peek(s) != ':') {
            break;
        }
        s->at++;
        if (n > best) {
            best = n;
            best_value = s->at;
            *ret_key = key;
        }
        if (!skip_value(s)) {
            break;
        }
        skip_space(s);
        if (peek(s) != ',') {
            break;
        }
        s->at++;
    }
    s->at = best_value;
    *path += best;
    return best > 0;
}

/* Stands on '['; moves to the element that "[index]" at the front of the path names. */
static bool enter_element(struct scan *s, const char **path, size_t *ret_start)
{
    char *end;
    if ((*path)[1] < '0' || (*path)[1] > '9') {
        return false;
    }
    unsigned long index = strtoul(*path + 1, &end, 10);
    if (*end != ']') {
        return false;
    }
    s->at++;
    for (; index > 0; index--) {
        if (!skip_value(s)) {
            return false;
        }
        skip_space(s);
        if (peek(s) != ',') {
            return false;
        }
        s->at++;
    }
    skip_space(s);
    *ret_start = s->at;
    *path = end + 1;
    return peek(s) >= 0 && peek(s) != ']';
}

void json_place(const char *text, size_t at, unsigned *ret_line, unsigned *ret_column)
{
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) { /* count characters, not bytes */
            column++;
        }
    }
    *ret_line = line;
    *ret_column = column;
}

int json_locate(const char *text, size_t size, const char *path, unsigned *ret_line,
                unsigned *ret_column)
{
    struct scan s = {.text = text, .size = size};
    skip_space(&s);
    size_t start = s.at;
    while (*path) {
        path += *path == '.';
        skip_space(&s);
        bool found = peek(&s) == '{'                   ? enter_member(&s, &path, &start)
                     : peek(&s) == '[' && *path == '[' ? enter_element(&s, &path, &start)
                                                       : false;
        if (!found) {
            return -ENOENT;
        }
    }
    if (start >= size) {
        return -ENOENT;
    }
    json_place(text, start, ret_line, ret_column);
    return 0;
}
