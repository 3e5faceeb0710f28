/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Warnings: values that are allowed, but look like a mistake of unit or cannot work well. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/scenario_derive.h"
#include "input/scenario_reading.h"

/* The value times factor would be usual, so this was probably meant. */
struct mistake {
    enum unit_kind unit;
    double factor;
    const char *meaning;
    bool bare_only; /* a mistake of those only who wrote no unit */
};

static const struct mistake mistakes[] = {
    {UNIT_BPS, 1.0 / 8, "bits taken for bytes", false},
    {UNIT_BPS, 8, "bytes taken for bits", false},
    {UNIT_BPS, 1e9, "the unit GB/s left out", true},
    {UNIT_BPS, 1e9 / 8, "the unit Gb/s left out", true},
    {UNIT_BYTES, 1e9, "the unit GB left out", true},
    {UNIT_BYTES, 1e6, "the unit MB left out", true},
    {UNIT_S, 1e-3, "milliseconds taken for seconds", true},
    {UNIT_S, 1e-6, "microseconds taken for seconds", true},
    {UNIT_S, 1e-9, "nanoseconds taken for seconds", true},
    {UNIT_TOK, 1024, "the unit K left out", true},
    {UNIT_FLOPS, 1e12, "the unit TFLOPS left out", true},
    {UNIT_NONE, 1e9, "a number in billions", true},
};

int scenario_warn(struct scenario_reading *r, const char *fmt, ...)
{
    char text[800];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t n = r->notes.n_warnings;
    char **more = realloc(r->notes.warnings, (n + 1) * sizeof(*more));
    if (!more) {
        return err_nomem(r->err);
    }
    r->notes.warnings = more;
    more[n] = strdup(text);
    if (!more[n]) {
        return err_nomem(r->err);
    }
    r->notes.n_warnings = n + 1;
    return 0;
}

static bool is_usual(const struct scenario_key *key, double value)
{
    return value >= key->usual_min && value <= key->usual_max;
}

static double number_of(const struct scenario_key *key, const struct scenario *sc)
{
    const void *at = (const char *)sc + key->offset;
    return key->type == KEY_NUMBER ? *(const double *)at
           : key->type == KEY_U32  ? *(const uint32_t *)at
                                   : (double)*(const uint64_t *)at;
}

static void format_place(const struct scenario_reading *r, const struct scenario_origin *o,
                         char *buf, size_t size)
{
    if (o->by == SCENARIO_BY_FILE) {
        snprintf(buf, size, "%s:%u:%u: ", r->source, o->line, o->column);
    } else {
        snprintf(buf, size, "%s", o->by == SCENARIO_BY_SET ? "--set: " : "");
    }
}

bool scenario_key_unusual(const struct scenario_key *key, double value, bool with_unit, char *buf,
                          size_t size)
{
    char found[48], low[48], high[48], guess[160] = "";
    if (key->usual_max <= key->usual_min || is_usual(key, value)) {
        return false;
    }
    quantity_format(key->unit, value, found, sizeof(found));
    quantity_format(key->unit, key->usual_min, low, sizeof(low));
    quantity_format(key->unit, key->usual_max, high, sizeof(high));
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        const struct mistake *m = &mistakes[i];
        if (m->unit == key->unit && !(m->bare_only && with_unit) &&
            is_usual(key, value * m->factor)) {
            char meant[48];
            quantity_format(key->unit, value * m->factor, meant, sizeof(meant));
            snprintf(guess, sizeof(guess), "; was %s meant (%s)?", meant, m->meaning);
            break;
        }
    }
    snprintf(buf, size, "%s is unusual (%s to %s)%s", found, low, high, guess);
    return true;
}

/* Units are made of letters, numbers end with a digit or a point. */
static bool is_with_unit(const json_t *json)
{
    const char *text = json_string_value(json);
    size_t n = text ? strlen(text) : 0;
    while (n > 0 && text[n - 1] == ' ') {
        n--;
    }
    return n > 0 && !strchr("0123456789.", text[n - 1]);
}

static int warn_unusual(struct scenario_reading *r, const struct scenario_key *key, double value)
{
    const struct scenario_value *v = &r->values[key - scenario_keys];
    char at[400], text[320];
    if (!scenario_key_unusual(key, value, is_with_unit(v->json), text, sizeof(text))) {
        return 0;
    }
    format_place(r, &v->origin, at, sizeof(at));
    return scenario_warn(r, "%s%s: %s", at, key->path, text);
}

int scenario_check_units(struct scenario_reading *r)
{
    for (size_t i = 0; i < scenario_n_keys; i++) {
        const struct scenario_key *key = &scenario_keys[i];
        enum scenario_by by = r->values[i].origin.by;
        bool set = by == SCENARIO_BY_FILE || by == SCENARIO_BY_SET;
        if (set && key->usual_max > key->usual_min &&
            warn_unusual(r, key, number_of(key, &r->sc)) < 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int warn_too_small(struct scenario_reading *r, const char *what, double bytes, double needed)
{
    char has[48], needs[48];
    quantity_format_short(UNIT_BYTES, bytes, has, sizeof(has));
    quantity_format_short(UNIT_BYTES, needed, needs, sizeof(needs));
    return scenario_warn(r,
                         "workload.max_len_tok: one request of %" PRIu64
                         " tokens takes %s of KV, but %s holds %s",
                         r->sc.workload.max_len_tok, needs, what, has);
}

/* HCache saves bytes with multi-head attention only. */
static int warn_hidden_larger(struct scenario_reading *r)
{
    const struct model_card *card = &r->sc.model;
    uint64_t hidden = card_hidden_bytes_per_tok_layer(card);
    if (r->sc.system.restore != RESTORE_BY_HIDDEN_STATES ||
        (double)hidden <= card->kv_bytes_per_tok_layer) {
        return 0;
    }
    return scenario_warn(r,
                         "system.restore: hidden states of %s take %" PRIu64
                         " bytes per token and layer, its KV %.6g: more has to be read, not less",
                         card->name, hidden, card->kv_bytes_per_tok_layer);
}

/* What cached tokens take cannot be cut: where it fills the quota, a chunk is one block. */
static int warn_quota_too_short(struct scenario_reading *r)
{
    const struct scenario *sc = &r->sc;
    double longest_s = scenario_cached_s(sc);
    if (sc->system.packing != PACKING_QUOTA || longest_s < sc->system.quota_s) {
        return 0;
    }
    return scenario_warn(r,
                         "system.quota_s: %.4g s is no more than what the cached tokens of a "
                         "prompt of %" PRIu64 " take in a forward, %.4g s "
                         "(timing.prefill_cached_tok_layer_s): such a prompt is computed one KV "
                         "block at a time",
                         sc->system.quota_s, sc->workload.max_len_tok, longest_s);
}

static int warn_cache_of_nothing(struct scenario_reading *r, const struct scenario_derived *d)
{
    uint64_t bytes = r->sc.cluster.dram_cache_bytes;
    if (bytes == 0 || bytes >= d->full_block_bytes) {
        return 0;
    }
    char has[48], block[48];
    quantity_format_short(UNIT_BYTES, (double)bytes, has, sizeof(has));
    quantity_format_short(UNIT_BYTES, (double)d->full_block_bytes, block, sizeof(block));
    return scenario_warn(
        r, "cluster.dram_cache_bytes: %s of a node caches nothing: a Full Block takes %s", has,
        block);
}

int scenario_check_unused(struct scenario_reading *r)
{
    const struct scenario_system *s = &r->sc.system;
    bool compressed = s->restore == RESTORE_BY_COMPRESSED;
    bool direct = s->restore == RESTORE_BY_GPU_DIRECT;
    const struct {
        const char *path;
        bool used;
        const char *why;
    } rows[] = {
        {"system.quota_s", s->packing == PACKING_QUOTA, "system.packing is \"tokens\""},
        {"system.forward_tok", s->packing == PACKING_TOKENS, "system.packing is \"quota\""},
        {"system.restore_ratio", compressed, "system.restore is not \"compressed\""},
        {"system.restore_expand_Bps", compressed, "system.restore is not \"compressed\""},
        {"system.restore", !direct || s->path_policy != PATH_DECODE,
         "system.path_policy is \"decode\", and only prefill nodes read straight into GPUs"},
        {"system.qos_pcie", !s->qos_pcie || direct || s->submit == SUBMIT_CUDA_MEMCPY,
         "nothing passes the NIC: that takes system.submit \"cuda_memcpy\" or system.restore "
         "\"gpu_direct\""},
        {"system.dual_path",
         !s->dual_path || s->path_policy != PATH_PREFILL || s->decode_reuse != DECODE_REUSE_NONE,
         "system.path_policy is \"prefill\", so that no read passes a decode node"},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == 0; i++) {
        const struct scenario_origin *o = scenario_origin_of(r, rows[i].path);
        if (!rows[i].used && (o->by == SCENARIO_BY_FILE || o->by == SCENARIO_BY_SET)) {
            char at[400];
            format_place(r, o, at, sizeof(at));
            rc = scenario_warn(r, "%s%s: has no effect: %s", at, rows[i].path, rows[i].why);
        }
    }
    return rc;
}

int scenario_check_fit(struct scenario_reading *r)
{
    const struct scenario *sc = &r->sc;
    struct scenario_derived d;
    double needed;
    int ret = 0;
    scenario_derive(sc, &d);
    needed = (double)d.request_kv_bytes;
    if (sc->workload.max_len_tok > sc->model.max_context_tok) {
        ret = scenario_warn(r,
                            "workload.max_len_tok: %" PRIu64 " tokens are more than the %" PRIu64
                            " of the model %s",
                            sc->workload.max_len_tok, sc->model.max_context_tok, sc->model.name);
    }
    if (ret == 0 && (double)sc->cluster.dram_buffer_bytes < needed) {
        ret = warn_too_small(r, "a node's DRAM buffer", (double)sc->cluster.dram_buffer_bytes,
                             needed);
    }
    if (ret == 0 && (double)d.decode.hbm_kv_bytes < needed) {
        ret = warn_too_small(r, "a decode GPU", (double)d.decode.hbm_kv_bytes, needed);
    }
    if (ret == 0 && !sc->system.layerwise && (double)d.prefill.hbm_kv_bytes < needed) {
        ret = warn_too_small(r, "a prefill GPU without layerwise prefill",
                             (double)d.prefill.hbm_kv_bytes, needed);
    }
    ret = ret ? ret : warn_cache_of_nothing(r, &d);
    ret = ret ? ret : warn_quota_too_short(r);
    return ret ? ret : warn_hidden_larger(r);
}
