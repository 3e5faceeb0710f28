/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "hw/hw_compute_internal.h"

static const char *side_name(const struct hw_engine *e)
{
    return e->member.side == EP_PREFILL ? "prefill" : "decode";
}

static int fail(struct hw_engine *e, const struct layer_job *job, int code, const char *text)
{
    return err_set(&e->error, code, "%s engine %" PRIu32 ", request %" PRIu32 ": %s", side_name(e),
                   e->engine, job->request, text);
}

static int verify_arrived(struct hw_engine *e, const struct layer_job *job, const uint8_t *kv)
{
    const struct hw_compute *hc = e->owner;
    if (!hc->config.verify_kv) {
        return 0;
    }
    struct err why = ERR_INIT;
    struct kv_run run = {job->kv.chain_id, 0, job->arrived_tok};
    int rc = kv_content_verify_layer(&hc->attention.content, &run, job->layer, kv, &why);
    e->counts.rows_verified += job->arrived_tok;
    return rc ? fail(e, job, rc, why.text) : 0;
}

/* Index of the first value that is wrong, or n. */
static uint32_t first_wrong(const struct hw_engine *e, const float *out, uint32_t n,
                            uint32_t context_tok)
{
    const float *expected = e->scratch.out;
    const struct hw_compute *hc = e->owner;
    double tolerance = hc->kernel->exact ? 0 : attention_tolerance(&hc->attention, context_tok);
    uint32_t i = 0;
    if (hc->kernel->exact) {
        while (i < n && memcmp(&out[i], &expected[i], sizeof(float)) == 0) {
            i++;
        }
        return i;
    }
    /* Written so that a NaN is wrong. */
    while (i < n && fabs((double)out[i] - (double)expected[i]) <= tolerance) {
        i++;
    }
    return i;
}

static int check_token(struct hw_engine *e, const struct layer_job *job, uint32_t tok,
                       const float *out)
{
    const struct attention *a = &e->owner->attention;
    attention_reference(a, job->kv.chain_id, tok, job->layer, &e->scratch);
    e->counts.outputs_checked++;
    uint32_t n = attention_out_values(a);
    uint32_t i = first_wrong(e, out, n, tok + 1);
    if (i == n) {
        return 0;
    }
    struct err why = ERR_INIT;
    err_set(&why, -EBADMSG,
            "attention of chain %" PRIu64 ", layer %" PRIu32 ", token %" PRIu32 ": head %" PRIu32
            ", value %" PRIu32 " is %.9g, must be %.9g",
            job->kv.chain_id, job->layer, tok, i / a->value_dim, i % a->value_dim, (double)out[i],
            (double)e->scratch.out[i]);
    return fail(e, job, -EBADMSG, why.text);
}

static int check_slice(struct hw_engine *e, const struct layer_job *job,
                       const struct attention_task *t)
{
    const struct hw_compute *hc = e->owner;
    uint32_t every = hc->config.check_every;
    for (uint32_t i = 0; every > 0 && i < t->n_tok; i++) {
        uint32_t tok = t->first_tok + i;
        if (kv_content_lot(&hc->attention.content, t->chain_id, tok, t->layer) % every != 0) {
            continue;
        }
        int rc =
            check_token(e, job, tok, e->out + (size_t)i * attention_out_values(&hc->attention));
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int attend_slice(struct hw_engine *e, const struct layer_job *job,
                        const struct attention_task *t)
{
    struct attention_kernel *k = e->owner->kernel;
    struct err why = ERR_INIT;
    uint64_t start_ns = wall_now_ns();
    int rc = k->ops->attend(k, e->slot, t, e->out, &why);
    e->attention_ns += (double)(wall_now_ns() - start_ns);
    return rc ? fail(e, job, rc, why.text) : check_slice(e, job, t);
}

int hw_engine_layer(struct hw_engine *e, const struct layer_job *job)
{
    uint8_t *kv = hw_engine_kv(e, &job->kv, job->cached_tok + job->new_tok);
    if (!kv) {
        return fail(e, job, -EFAULT, "its KV has outgrown the HBM");
    }
    int rc = verify_arrived(e, job, kv);
    for (uint32_t done = 0; rc == 0 && done < job->new_tok;) {
        uint32_t left = job->new_tok - done;
        struct attention_task t = {.chain_id = job->kv.chain_id,
                                   .layer = job->layer,
                                   .first_tok = job->cached_tok + done,
                                   .n_tok =
                                       left < HW_COMPUTE_SLICE_TOK ? left : HW_COMPUTE_SLICE_TOK,
                                   .arrived_tok = done == 0 ? job->arrived_tok : 0,
                                   .hbm_offset_bytes = job->kv.hbm_offset_bytes,
                                   .kv = kv};
        rc = attend_slice(e, job, &t);
        done += t.n_tok;
    }
    e->counts.layers++;
    return rc;
}
