/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Where the shipped files are. Internal to input/; the public part is in input/cards.h. */
#ifndef DUALPATH_INPUT_CARDS_FIND_H
#define DUALPATH_INPUT_CARDS_FIND_H

#include <stddef.h>

#include "base/err.h"

/*
 * The path of a file given as a path (a '/' or a final ".json" in it) or as the name of a shipped
 * file of the kind ("models", "gpus", "storage", "" = scenarios). Returns 0, -ENOENT for an unknown
 * name (err suggests the nearest), -ENAMETOOLONG when buf is too small.
 */
int cards_find(const char *kind, const char *name_or_path, char *buf, size_t size, struct err *err);

#endif
