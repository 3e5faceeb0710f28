/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parsing scenarios from memory, for the tests of the scenario reader. */
#ifndef DUALPATH_TESTS_SCENARIO_TEST_H
#define DUALPATH_TESTS_SCENARIO_TEST_H

#include <check.h>
#include <string.h>

#include "input/scenario.h"
#include "input/scenario_keys.h"

#define MINIMAL                                                                                    \
    "{\"schema\": \"dualpath/scenario/1\", \"model\": \"ds-27b\","                                 \
    " \"workload\": {\"trace\": \"deepseek-coding\", \"max_len_tok\": \"32K\"}}"

static struct scenario sc;
static struct scenario_notes notes;
static char message[1400];

/* Parses text with up to two --set; the error's message is left in message. */
static inline int parse_text(const char *text, const char *set1, const char *set2)
{
    const char *sets[] = {set1, set2};
    struct err err = ERR_INIT;
    scenario_notes_done(&notes);
    int ret = scenario_parse("s.json", text, strlen(text), sets,
                             set2   ? 2
                             : set1 ? 1
                                    : 0,
                             &sc, &notes, &err);
    err_format(&err, message, sizeof(message));
    return ret;
}

static inline void parse_ok(const char *text, const char *set1, const char *set2)
{
    int ret = parse_text(text, set1, set2);
    ck_assert_msg(ret == 0, "%s %s: %s", set1 ? set1 : "", set2 ? set2 : "", message);
}

static inline const struct scenario_origin *origin(const char *path)
{
    return &notes.origins[scenario_key_find(path) - scenario_keys];
}

#endif
