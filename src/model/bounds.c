/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "model/bounds.h"

#include <math.h>

static void fill_terms(const struct bounds_input *in, struct bounds_term *terms)
{
    double g = in->gpus_per_node, s = in->snic_ratio;
    double storage_Bps = s * in->cnic_Bps;
    double pe_write = g > s ? s / (g - s) : INFINITY;
    const struct bounds_term filled[BOUNDS_N_TERMS] = {
        {"pe_cnic_read", BOUNDS_CONDITION, 2 * s / g, "2s/g <= 1", false},
        {"pe_cnic_write", BOUNDS_LOWER, pe_write, "P/D >= s/(g-s)", false},
        {"de_cnic_read", BOUNDS_UPPER, (g - 2 * s) / s, "P/D <= (g-2s)/s", false},
        {"de_cnic_write", BOUNDS_UPPER, (g - s) / (2 * s), "P/D <= (g-s)/(2s)", false},
        {"pe_dram", BOUNDS_CONDITION, 2 * storage_Bps / in->dram_Bps, "2sB/M <= 1", false},
        {"de_dram", BOUNDS_UPPER, (in->dram_Bps / storage_Bps - 3) / 2, "P/D <= (M/(Bs)-3)/2",
         false},
    };
    for (size_t i = 0; i < BOUNDS_N_TERMS; i++) {
        terms[i] = filled[i];
    }
}

static void take_term(const struct bounds_term *term, struct bounds *b)
{
    switch (term->kind) {
    case BOUNDS_LOWER:
        if (!b->binds_min || term->value > b->binds_min->value) {
            b->binds_min = term;
        }
        break;
    case BOUNDS_UPPER:
        if (!b->binds_max || term->value < b->binds_max->value) {
            b->binds_max = term;
        }
        break;
    case BOUNDS_CONDITION:
        if (!b->violated && term->value > 1) {
            b->violated = term;
        }
        break;
    }
}

void bounds_compute(const struct bounds_input *in, struct bounds *ret)
{
    *ret = (struct bounds){0};
    fill_terms(in, ret->terms);
    for (size_t i = 0; i < BOUNDS_N_TERMS; i++) {
        take_term(&ret->terms[i], ret);
    }
    ret->pd_min = ret->binds_min->value;
    ret->pd_max = ret->binds_max->value;
    for (size_t i = 0; i < BOUNDS_N_TERMS; i++) {
        struct bounds_term *t = &ret->terms[i];
        t->binds = (t->kind == BOUNDS_LOWER && t->value == ret->pd_min) ||
                   (t->kind == BOUNDS_UPPER && t->value == ret->pd_max);
    }
    ret->empty = ret->violated || ret->pd_min > ret->pd_max || ret->pd_max <= 0;
}

const char *bounds_kind_name(enum bounds_kind kind)
{
    static const char *const names[] = {
        [BOUNDS_LOWER] = "lower",
        [BOUNDS_UPPER] = "upper",
        [BOUNDS_CONDITION] = "condition",
    };
    return names[kind];
}
