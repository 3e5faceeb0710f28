/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Readers of the shipped cards and profiles (scenarios/models, gpus, storage) and of HuggingFace
 * config.json files. A name without '/' and without a final ".json" is looked up among the shipped
 * files: in $DUALPATH_DATA when that is set, else in ../share/dualpath/scenarios beside the
 * executable, the source tree it was built from, the installation directory, ./scenarios.
 *
 * The files are JSON objects whose members are called as those of struct model_card, gpu_profile
 * and storage_profile, with "schema": "dualpath/model/1", "dualpath/gpu/1" or "dualpath/storage/1".
 * A number may carry a unit ("3.35TB/s") and its origin ({"value": ..., "source": "..."}). What a
 * model card may leave out: parameter counts (from the shapes), KV bytes (from kv_dtype), members
 * of attention kinds it does not have, n_dense_layers of a dense model. fp8_flops left out means no
 * FP8, fp4_flops no FP4.
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

/* Sorted names of the shipped files of a kind ("models", "gpus", "storage", "profiles", "" =
 * scenarios), as a NULL-terminated array freed with cards_names_free(). */
int cards_names(const char *kind, char ***ret_names, struct err *err);
void cards_names_free(char **names);

/* The directory that holds the shipped scenarios, or NULL when it cannot be found. */
const char *cards_data_dir(void);

#endif
