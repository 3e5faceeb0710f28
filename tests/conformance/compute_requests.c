/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "compute_requests.h"

#include <check.h>

/* Forwards */

static void fwd_done(struct compute_forward *f)
{
    struct fwd *x = container_of(f, struct fwd, f);
    x->n_done++;
    world_one_less(x->w);
}

static void fwd_progress(struct compute_forward *f)
{
    struct fwd *x = container_of(f, struct fwd, f);
    ck_assert_uint_eq(x->n_done, 0);
    ck_assert_uint_le(x->n_progress, WORLD_LAYERS);
    x->seen[x->n_progress++] = f->layers_done;
    f->notify_at = f->layers_done + x->step;
    if (x->feeds && x->feeds->f.in_flight && f->layers_done < WORLD_LAYERS) {
        compute_feed(&x->w->hc.port, &x->feeds->f, f->layers_done + 1);
    }
}

void fwd_init(struct fwd *x, struct world *w, uint32_t rank, uint32_t n_items)
{
    *x = (struct fwd){.w = w, .step = 1};
    for (uint32_t i = 0; i < n_items; i++) {
        x->items[i] = (struct compute_item){.request = 100 * rank + i,
                                            .cached_tok = 16 * i,
                                            .new_tok = 70 + i,
                                            .kv = world_kv(w, 1000 + 10 * rank + i, i)};
    }
    x->f = (struct compute_forward){.group = rank / w->hc.config.prefill_ep_gpus,
                                    .rank = rank % w->hc.config.prefill_ep_gpus,
                                    .engine = rank,
                                    .items = x->items,
                                    .n_items = n_items,
                                    .layers_total = WORLD_LAYERS,
                                    .layers_ready = WORLD_LAYERS,
                                    .progress = fwd_progress,
                                    .notify_at = 1,
                                    .done = fwd_done};
}

void fwd_bring_cached(struct fwd *x, uint32_t layer)
{
    for (uint32_t i = 0; i < x->f.n_items; i++) {
        world_bring(x->w, 0, x->f.engine, &x->items[i].kv, layer, x->items[i].cached_tok);
    }
}

void fwd_bring_all_cached(struct fwd *x)
{
    for (uint32_t layer = 0; layer < WORLD_LAYERS; layer++) {
        fwd_bring_cached(x, layer);
    }
}

int fwd_submit(struct fwd *x)
{
    int rc = compute_forward(&x->w->hc.port, &x->f);
    x->w->pending += rc == 0;
    return rc;
}

void fwd_check_done_well(const struct fwd *x)
{
    ck_assert_uint_eq(x->n_done, 1);
    ck_assert_msg(x->f.status == 0, "%s", x->w->faults.last.text);
    ck_assert_uint_eq(x->f.layers_done, WORLD_LAYERS);
    ck_assert(x->f.submit_ns <= x->f.start_ns && x->f.start_ns <= x->f.done_ns);
    for (uint32_t i = 0; i < x->f.n_items; i++) {
        world_check_kv(x->w, 0, x->f.engine, &x->items[i].kv,
                       x->items[i].cached_tok + x->items[i].new_tok);
    }
}

/* Decoding */

void seq_notify(struct compute_sequence *s)
{
    struct seq *q = container_of(s, struct seq, s);
    q->last_steps = s->steps_done;
    if (s->status == 0) {
        ck_assert_uint_lt(q->n_notified, q->n_marks);
        ck_assert_uint_eq(s->steps_done, q->marks[q->n_notified]); /* on the mark, not near it */
    }
    q->n_notified++;
    if (q->then && q->n_notified == 1) {
        seq_join(q->then);
    }
    if (s->status || s->steps_done == q->total) {
        compute_leave(&q->w->hc.port, s);
        world_one_less(q->w);
    } else {
        s->notify_at = q->marks[q->n_notified];
    }
}

void seq_init(struct seq *q, struct world *w, uint32_t gpu, uint32_t span, uint32_t context,
              uint32_t total)
{
    *q = (struct seq){.w = w, .total = total, .marks = {1, 5, total}, .n_marks = 3};
    q->s = (struct compute_sequence){.engine = gpu,
                                     .request = 10 * gpu + span,
                                     .context_tok = context,
                                     .kv = world_kv(w, 50 + 10 * gpu + span, span),
                                     .notify_at = 1,
                                     .notify = seq_notify};
    world_bring_all(w, 1, gpu, &q->s.kv, context);
    w->pending++;
}

void seq_join(struct seq *q)
{
    ck_assert_int_eq(compute_join(&q->w->hc.port, &q->s), 0);
}

void seq_check(const struct seq *q)
{
    ck_assert_msg(q->s.status == 0, "%s", q->w->faults.last.text);
    ck_assert_uint_eq(q->n_notified, q->n_marks);
    ck_assert_uint_eq(q->last_steps, q->total);
    world_check_kv(q->w, 1, q->s.engine, &q->s.kv, q->s.context_tok + q->total);
}
