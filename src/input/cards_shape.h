/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the readers of model cards and of HuggingFace config.json share. Internal to input/. */
#ifndef DUALPATH_INPUT_CARDS_SHAPE_H
#define DUALPATH_INPUT_CARDS_SHAPE_H

#include "base/err.h"
#include "input/json_fields.h"
#include "model/card.h"

/* A file and the table it was read by, so that a complaint about a card's member names its key. */
struct card_source {
    const struct json_file *file;
    const struct json_field *fields;
    size_t n_fields;
};

/* Whether the shapes make a model; -EINVAL with err naming the key that is wrong or missing. */
int card_check_shapes(const struct card_source *src, const struct model_card *card,
                      struct err *err);

/* True when a JSON object looks like a HuggingFace config.json rather than a card of ours. */
bool card_is_hf(const struct json_file *f);

/* Reads a HuggingFace config.json; the supported families and their defaults are in cards_hf.c. */
int card_read_hf(const struct json_file *f, struct model_card *ret_card, struct err *err);

#endif
