/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The table of every scenario key: where it goes, what it may be, its default and where that comes
 * from. Reading, checking, --explain and the canonical form all walk this table; adding a key is
 * adding a row.
 */
#ifndef DUALPATH_INPUT_SCENARIO_KEYS_H
#define DUALPATH_INPUT_SCENARIO_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/units.h"
#include "input/scenario.h"

enum scenario_key_type {
    KEY_NUMBER, /* double */
    KEY_U32,
    KEY_U64,
    KEY_BOOL,
    KEY_STRING, /* char[size] */
    KEY_ENUM,   /* an enum whose values are the indexes into words */
    KEY_WORD,   /* char[size], one of words */
    KEY_NAME,   /* a card, profile or schema: no place in struct scenario */
};

struct scenario_key {
    const char *path;
    enum scenario_key_type type;
    enum unit_kind unit;
    size_t offset, size;      /* in struct scenario */
    const char *const *words; /* KEY_ENUM, KEY_WORD: NULL-terminated */
    /* The default, as one would write it; NULL: required, or from a profile. */
    const char *fallback;
    bool from_profile;     /* default from the card or profile named by the group's "base" */
    double min, max;       /* numbers: allowed values */
    bool above_min;        /* min itself is not allowed */
    bool stands_for_group; /* a string in place of the group sets this key ("model": "NAME") */
    double usual_min, usual_max; /* outside: warn, probably a mistake of unit; 0, 0 = no opinion */
    bool machine;       /* about the machine that a real run uses: not part of the canonical form */
    const char *source; /* of the default */
    const char *doc;
};

extern const struct scenario_key scenario_keys[];
extern const size_t scenario_n_keys;

/* The switches a preset sets; NULL: it leaves that one alone. */
#define PRESET_N_KEYS 8
struct scenario_preset {
    const char *name;
    const char *values[PRESET_N_KEYS];
};
extern const char *const scenario_preset_keys[PRESET_N_KEYS];
extern const struct scenario_preset scenario_presets[];
extern const size_t scenario_n_presets;

/* The row of a path, or NULL. */
const struct scenario_key *scenario_key_find(const char *path);

/* Writes a value in the unit a person would choose: "48.5 GB/s", "300 ms", "49152 tok". */
void quantity_format(enum unit_kind unit, double value, char *buf, size_t size);

/* The same in four digits, for figures to be read rather than copied. */
void quantity_format_short(enum unit_kind unit, double value, char *buf, size_t size);

/*
 * Whether a value of the key is outside of what is usual; if so, writes "400 GB/s is unusual (...
 * to ...); was 50 GB/s meant (bits taken for bytes)?". with_unit: it was written with one, so that
 * none was left out.
 */
bool scenario_key_unusual(const struct scenario_key *key, double value, bool with_unit, char *buf,
                          size_t size);

/* The key's value in sc as text for a person. */
void scenario_key_format(const struct scenario_key *key, const struct scenario *sc, char *buf,
                         size_t size);

#endif
