/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conservation, checked at the end of every run: bytes, tokens, room. */
#include <errno.h>
#include <inttypes.h>

#include "plan/simulation.h"

static int equal(struct err *err, const char *what, uint64_t got, uint64_t expected)
{
    if (got == expected) {
        return 0;
    }
    err_field(err, "conservation");
    return err_set(err, -EPROTO, "%s: found %" PRIu64 ", expected %" PRIu64, what, got, expected);
}

static int check_bytes(const struct simulation *s, struct err *err)
{
    char what[160];
    if (sim_dp_check_conserved(&s->dp, what, sizeof(what))) {
        err_field(err, "conservation");
        return err_set(err, -EPROTO, "%s", what);
    }
    for (unsigned c = 0; c < DP_N_CLASSES; c++) {
        const struct dp_account *a = &s->dp.dp.accounts[c];
        int rc = equal(err, dp_class_name((enum dp_class)c), a->bytes_out, a->bytes_in);
        if (rc) {
            return rc;
        }
    }
    uint64_t per_tok = s->cluster.stored.layer_tok_bytes * s->cluster.stored.n_layers, kept_tok = 0;
    for (uint32_t i = 0; i < s->n_decode; i++) {
        kept_tok += s->decode[i].kept_counts.hit_tok;
    }
    int rc = equal(err, "transfers in flight", s->dp.dp.n_in_flight, 0);
    return rc ? rc
              : equal(err, "bytes read from storage", s->dp.dp.accounts[DP_CLASS_READ].bytes_out,
                      (s->client.totals.hit_tok - kept_tok) * per_tok);
}

/* Of a storage of finite capacity: what was written is there, or was evicted or written over. */
static int check_stored(const struct stored *st, uint64_t persisted, struct err *err)
{
    if (st->capacity_blocks == 0) {
        return 0;
    }
    int rc = equal(err, "blocks that came to storage", st->written, persisted);
    return rc ? rc
              : equal(err, "blocks in storage, evicted and overwritten",
                      st->blocks + st->evicted + st->overwritten, persisted);
}

/* What reads found in the pools and in storage is what hit. */
static int check_tier(const struct simulation *s, struct err *err)
{
    const struct dram_tier *t = &s->tier;
    char what[160];
    if (!s->dp.tier) {
        return 0;
    }
    if (dram_tier_check(t, what, sizeof(what))) {
        err_field(err, "conservation");
        return err_set(err, -EPROTO, "%s", what);
    }
    uint64_t from_nic = 0, found = 0;
    for (uint32_t n = 0; n < cluster_nodes(&s->cluster); n++) {
        from_nic += s->dp.nodes[n].snic.bytes_out[0];
    }
    for (unsigned i = 0; i < DRAM_TIER_N_SOURCES; i++) {
        found += t->read_bytes[i];
    }
    int rc = equal(err, "bytes read from DRAM pools and storage", found,
                   s->dp.dp.accounts[DP_CLASS_READ].bytes_out);
    return rc || s->dp.config.free_transfers
               ? rc
               : equal(err, "bytes that the DRAM pools left to storage",
                       t->read_bytes[DRAM_TIER_STORAGE], from_nic);
}

static int check_tokens(const struct simulation *s, struct err *err)
{
    const struct client_totals *t = &s->client.totals;
    uint64_t computed = 0, generated = 0, persisted = 0;
    for (uint32_t i = 0; i < s->n_prefill; i++) {
        computed += s->prefill[i].computed_tok;
    }
    for (uint32_t i = 0; i < s->n_decode; i++) {
        generated += s->decode[i].generated_tok;
        persisted += s->decode[i].persisted_blocks;
    }
    int rc = equal(err, "requests served", t->requests_over, s->n_turns);
    rc = rc ? rc : equal(err, "prompt tokens served", t->served_prompt_tok, t->prompt_tok);
    rc = rc ? rc : equal(err, "tokens generated", t->served_gen_tok, t->gen_tok);
    rc = rc ? rc : equal(err, "tokens computed by prefill", computed, t->prompt_tok - t->hit_tok);
    rc = rc ? rc : equal(err, "tokens from decode steps", generated, t->gen_tok - t->requests);
    rc = rc ? rc : equal(err, "blocks persisted", persisted, s->recorder.expected_blocks);
    return rc ? rc : check_stored(&s->client.stored, persisted, err);
}

static int check_space(const struct space *sp, const char *what, struct err *err)
{
    int rc = equal(err, what, sp->used, sp->idle); /* what is kept for turns that did not come */
    return rc ? rc : equal(err, what, sp->given_total + sp->idle, sp->taken_total);
}

static int check_room(const struct simulation *s, struct err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->n_prefill && rc == 0; i++) {
        rc = check_space(&s->prefill[i].dram, "prefill DRAM buffer in use", err);
        rc = rc ? rc
                : equal(err, "requests left at a prefill node", s->prefill[i].requests.n_used, 0);
        for (uint32_t g = 0; g < s->cluster.gpus_per_node && rc == 0; g++) {
            const struct prefill_engine *e = &s->prefill[i].engines[g];
            rc = check_space(&e->direct, "prefill HBM in use", err);
            rc = rc ? rc : check_space(&e->hbm, "prefill HBM for whole prompts in use", err);
            rc = rc ? rc : equal(err, "spans of prefill HBM in use", slots_used(&e->hbm_slots), 0);
        }
    }
    for (uint32_t i = 0; i < s->n_decode && rc == 0; i++) {
        const struct decode_node *dn = &s->decode[i];
        rc = check_space(&dn->dram, "decode DRAM buffer in use", err);
        rc = rc ? rc : check_space(&dn->staging, "persist buffer in use", err);
        for (uint32_t g = 0; g < s->cluster.gpus_per_node && rc == 0; g++) {
            rc = check_space(&dn->hbm[g], "decode HBM blocks in use", err);
        }
        rc = rc ? rc : equal(err, "requests left at a decode node", dn->requests.n_used, 0);
        rc = rc ? rc : equal(err, "blocks left at a decode node", dn->block_copies.n_used, 0);
    }
    rc = rc ? rc : equal(err, "requests left at the scheduler", s->central.requests.n_used, 0);
    return rc ? rc : equal(err, "requests left at the client", s->client.requests.n_used, 0);
}

int simulation_check(const struct simulation *s, struct err *err)
{
    int rc = check_bytes(s, err);
    rc = rc ? rc : check_tier(s, err);
    rc = rc ? rc : check_tokens(s, err);
    return rc ? rc : check_room(s, err);
}
