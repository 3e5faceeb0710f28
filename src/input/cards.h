/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Readers of the shipped cards and profiles (scenarios/models, gpus, storage) and of HuggingFace
 * config.json files. A name without '/' and without ".json" is looked up among the shipped files: in
 * $DUALPATH_DATA, then beside the executable's source or installation (the list is in cards.c).
 */
#ifndef DUALPATH_INPUT_CARDS_H
#define DUALPATH_INPUT_CARDS_H

#include "base/err.h"
#include "input/scenario.h"
#include "model/card.h"
#include "model/gpu.h"

/* All return 0, or a negative errno with err naming file, line, column and field; an unknown name
 * lists the nearest known one. */
int card_read(const char *name_or_path, struct model_card *ret_card, struct err *err);
int gpu_read(const char *name_or_path, struct gpu_profile *ret_gpu, struct err *err);
int storage_read(const char *name_or_path, struct storage_profile *ret_storage, struct err *err);

/* Sorted names of the shipped files of a kind ("models", "gpus", "storage", "" = scenarios), as a
 * NULL-terminated array freed with cards_names_free(). */
int cards_names(const char *kind, char ***ret_names, struct err *err);
void cards_names_free(char **names);

/* The directory that holds the shipped scenarios, or NULL when it cannot be found. */
const char *cards_data_dir(void);

#endif
