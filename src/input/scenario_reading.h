/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Between the files that read a scenario: the reading under way. Not for other rooms. */
#ifndef DUALPATH_INPUT_SCENARIO_READING_H
#define DUALPATH_INPUT_SCENARIO_READING_H

#include <jansson.h>

#include "input/scenario.h"
#include "input/scenario_keys.h"

/* One value on its way to a key. */
struct scenario_value {
    json_t *json; /* owned; NULL: nothing given */
    struct scenario_origin origin;
};

struct scenario_reading {
    const char *source; /* the scenario's path */
    const char *text;   /* its text, for places */
    size_t size;
    const char *above;             /* NULL, or the member of the text below which the keys stand */
    struct scenario_value *values; /* one per row of scenario_keys */
    struct scenario sc;
    struct scenario_notes notes;
    struct err *err;
};

/* Collect the values of the file's root and of one PATH=VALUE into r->values, in this order. Return
 * 0 or a negative errno with r->err filled. */
int scenario_collect(struct scenario_reading *r, json_t *root);
int scenario_collect_set(struct scenario_reading *r, const char *set);

/* As scenario_collect(), where the keys stand below the member of r's text called above. */
int scenario_collect_below(struct scenario_reading *r, const char *above, json_t *root);

/* Adds the values of the calibration profile that the collected values name, if any. */
int scenario_take_profile(struct scenario_reading *r);

/* Drops the values of all keys below a group ("" = all keys). */
void scenario_clear(struct scenario_reading *r, const char *group);

/*
 * Writes the value into the key's place in r->sc. Returns 0, or -EINVAL with r->err saying where it
 * stands, what was found and what was expected.
 */
int scenario_decode(struct scenario_reading *r, const struct scenario_key *key,
                    const struct scenario_value *value);

/* Fills r->err about the key: place from its origin (or that of the preset that set it), field,
 * message. Returns -EINVAL. */
int scenario_key_error(struct scenario_reading *r, const struct scenario_key *key, const char *fmt,
                       ...) __attribute__((format(printf, 3, 4)));

/* The row's origin; path must be in the table. */
struct scenario_origin *scenario_origin_of(struct scenario_reading *r, const char *path);

/* Key text without the ".base" or ".kind" that a name in place of a group leaves unwritten. */
void scenario_key_field(const struct scenario_key *key, char *buf, size_t size);

/* Adds a sentence to the notes. Returns 0 or -ENOMEM. */
int scenario_warn(struct scenario_reading *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Settles what depends on several keys (automatic values), then rejects contradictions and what
 * does not fit. The single keys must have been decoded. */
int scenario_resolve(struct scenario_reading *r);
int scenario_check(struct scenario_reading *r);

/* Warns of values that look like a mistake of unit. */
int scenario_check_units(struct scenario_reading *r);

/* Warns of keys that somebody set and that another key keeps from having an effect. */
int scenario_check_unused(struct scenario_reading *r);

/* Warns of what is allowed but probably not meant. */
int scenario_check_fit(struct scenario_reading *r);

/* Finds a file named in a scenario: beside the scenario, else from the working directory. Returns
 * 0, -ENOENT, or -ENAMETOOLONG. */
int scenario_find_file(const char *scenario_path, const char *name, char *buf, size_t size);

/* SHA-256 of text in hexadecimal. */
void scenario_sha256(const char *text, char ret_hex[65]);

#endif
