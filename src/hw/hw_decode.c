/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The decode loop: an engine meets its group before each step with the number of its sequences. */
#include <assert.h>

#include "hw/hw_compute_internal.h"

/* The backend's view of a sequence, kept in its private words. */
struct sequence_state {
    int status; /* of the step in progress; the worker's while working */
    bool active;
};

_Static_assert(sizeof(struct sequence_state) <=
                   sizeof(((struct compute_sequence *)0)->private_words),
               "the private words of a sequence are too few");

static struct sequence_state *state_of(struct compute_sequence *s)
{
    return (struct sequence_state *)(void *)s->private_words;
}

static void arrive(struct hw_engine *e)
{
    if (!e->owner->stopping) {
        ep_arrive(e->owner->barrier, &e->member, (uint64_t)e->n_active + e->n_joining);
    }
}

/* Sequences may join from inside notify(): only a resting engine has to be brought to its group. */
static void wake(struct hw_engine *e)
{
    if (e->resting) {
        e->resting = false;
        arrive(e);
    }
}

static int step_sequence(struct hw_engine *e, const struct compute_sequence *s)
{
    struct layer_job job = {.request = s->request,
                            .kv = s->kv,
                            .cached_tok = s->context_tok + s->steps_done,
                            .new_tok = 1,
                            .arrived_tok = s->steps_done == 0 ? s->context_tok : 0};
    uint32_t n_layers = e->owner->attention.content.layout.n_layers;
    int rc = 0;
    for (; rc == 0 && job.layer < n_layers; job.layer++) {
        rc = hw_engine_layer(e, &job);
    }
    return rc;
}

static void run_step(struct work *w)
{
    struct hw_engine *e = container_of(w, struct hw_engine, work);
    list_for_each (pos, &e->active) {
        struct compute_sequence *s = compute_sequence_of(pos);
        state_of(s)->status = step_sequence(e, s);
    }
}

static void step_worked(struct work *w)
{
    struct hw_engine *e = container_of(w, struct hw_engine, work);
    hw_engine_worked(e);
    e->owner->n_steps++;
    e->stepped = true;
    arrive(e);
}

static void tell(struct hw_engine *e, struct compute_sequence *s)
{
    uint32_t before = e->n_active;
    s->notify(s);
    /* If it left, s may be gone. */
    assert(e->n_active < before || (s->status == 0 && s->notify_at > s->steps_done));
    (void)before;
}

/* The step is over everywhere: its tokens count. */
static void count_step(struct hw_engine *e)
{
    e->stepped = false;
    list_for_each_safe (pos, tmp, &e->active) {
        struct compute_sequence *s = compute_sequence_of(pos);
        s->status = state_of(s)->status;
        s->steps_done += s->status == 0;
        if (s->status || s->steps_done >= s->notify_at) {
            tell(e, s);
        }
    }
}

static void admit_joining(struct hw_engine *e)
{
    while (!list_empty(&e->joining)) {
        struct list *node = list_first(&e->joining);
        list_remove(node);
        list_add_tail(&e->active, node);
        state_of(compute_sequence_of(node))->active = true;
    }
    e->n_active += e->n_joining;
    e->n_joining = 0;
}

static void released(struct ep_member *m, uint64_t sum)
{
    struct hw_engine *e = container_of(m, struct hw_engine, member);
    if (e->owner->stopping) {
        return;
    }
    if (e->stepped) {
        count_step(e);
    }
    if (e->owner->stopping) {
        return; /* from inside notify() */
    }
    if (sum == 0) {
        e->resting = true;
        if (e->n_joining > 0) {
            wake(e); /* they came too late for this meeting */
        }
        return;
    }
    admit_joining(e);
    if (e->n_active > 0) {
        hw_engine_work(e);
    } else {
        arrive(e);
    }
}

static void called(struct ep_member *m)
{
    wake(container_of(m, struct hw_engine, member));
}

void hw_decode_engine_init(struct hw_engine *e)
{
    e->member.released = released;
    e->member.called = called;
    e->resting = true;
    e->work = (struct work){.run = run_step, .done = step_worked};
}

int hw_decode_join(struct hw_engine *e, struct compute_sequence *s)
{
    *state_of(s) = (struct sequence_state){0};
    list_add_tail(&e->joining, &s->link);
    e->n_joining++;
    wake(e);
    return 0;
}

void hw_decode_leave(struct hw_engine *e, struct compute_sequence *s)
{
    list_remove(&s->link);
    if (state_of(s)->active) {
        e->n_active--;
    } else {
        e->n_joining--;
    }
}
