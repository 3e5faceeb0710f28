/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The decode loops of sim_compute.h. */
#include "sim/sim_decode.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "model/collectives.h"

static struct list *due_list(struct sim_decode_group *g, uint64_t step)
{
    return &g->due[step % (2 * EPOCH_STEPS)];
}

/* The backend's view of a sequence, kept in its private words. */
struct sequence_state {
    uint64_t joined_step; /* before it has joined: the first step it may join at */
    uint64_t due_step;
};

_Static_assert(sizeof(struct sequence_state) <=
                   sizeof(((struct compute_sequence *)0)->private_words),
               "the private words of a sequence are too few");

static struct sequence_state *state_of(struct compute_sequence *s)
{
    return (struct sequence_state *)(void *)s->private_words;
}

static struct sim_decode_group *group_of(struct sim_compute *sc, const struct compute_sequence *s)
{
    return &sc->decodes[s->engine / sc->config.decode_group_gpus];
}

static struct sim_decode_engine *engine_of(struct sim_decode_group *g,
                                           const struct compute_sequence *s)
{
    return &g->engines[s->engine % g->sc->config.decode_group_gpus];
}

/* Puts it where a scan of the coming steps finds it: at its due step, or as far ahead as the scan
 * goes. */
static void schedule(struct sim_decode_group *g, struct compute_sequence *s)
{
    struct sequence_state *st = state_of(s);
    uint64_t last = g->step + 2 * EPOCH_STEPS - 1;
    uint64_t due = st->joined_step + s->notify_at;
    st->due_step = due > g->step ? due : g->step + 1; /* past: notify_at was lowered */
    list_add_tail(due_list(g, st->due_step < last ? st->due_step : last), &s->link);
}

static void admit_joining(struct sim_decode_group *g)
{
    uint32_t most = 0;
    g->admission_ns = 0;
    if (list_empty(&g->joining)) {
        return;
    }
    for (uint32_t i = 0; i < g->sc->config.decode_group_gpus; i++) {
        g->engines[i].n_joined = 0;
    }
    list_for_each_safe (pos, tmp, &g->joining) {
        struct compute_sequence *s = compute_sequence_of(pos);
        if (g->n_sequences > 0 && state_of(s)->joined_step > g->step) {
            break; /* they are in the order in which they may join */
        }
        list_remove(pos);
        state_of(s)->joined_step = g->step;
        struct sim_decode_engine *e = engine_of(g, s);
        e->batch += 1;
        e->context_tok += s->context_tok;
        e->n_joined++;
        most = e->n_joined > most ? e->n_joined : most;
        g->n_sequences++;
        schedule(g, s);
    }
    g->admission_ns = timing_decode_admission_ns(g->sc->timing, most);
}

static struct sim_gpus decode_gpus(const struct sim_decode_group *g, double batch)
{
    const struct sim_compute_config *c = &g->sc->config;
    uint32_t n = c->decode_group_gpus, domain = g->sc->timing->gpu.nvlink_gpus;
    return (struct sim_gpus){
        .first = c->prefill_groups * c->prefill_group_gpus + (uint32_t)(g - g->sc->decodes) * n,
        .n = n,
        .queue_pairs =
            collective_decode_queue_pairs(&g->sc->timing->card, n, domain, fmax(batch, 1))};
}

/* Adds the delay of collectives that is certain to a step of batch sequences per GPU as
 * price_step() has it alone; they load the NICs until the next call. */
static void enter_links_decode(struct sim_decode_group *g, double batch)
{
    g->wire_ns = 0;
    g->met_links = true;
    const struct sim_links *links = g->sc->config.links;
    const struct timing_model *tm = g->sc->timing;
    uint32_t n_gpus = g->sc->config.decode_group_gpus;
    double bytes = batch * collective_decode_bytes_per_tok(&tm->card, n_gpus, tm->gpu.nvlink_gpus);
    if (!links || bytes <= 0 || g->first_ns <= 0) {
        return;
    }
    struct sim_gpus gpus = decode_gpus(g, batch);
    g->met_links = false;
    g->wire_ns = timing_decode_wire_ns(tm, batch, n_gpus);
    g->expected = links->expected(links->self, &gpus);
    g->stretch = fmax(g->stretch, g->expected);
    double alone_ns = g->first_ns;
    g->first_ns = alone_ns + g->wire_ns * (g->expected - 1);
    links->load(links->self, &gpus, bytes / (alone_ns + g->wire_ns * (g->stretch - 1)) * 1e9);
}

/* The epoch has run its time: how much longer it takes for the KV traffic it met. */
static double meet_links_decode(struct sim_decode_group *g)
{
    const struct sim_links *links = g->sc->config.links;
    if (g->met_links || g->epoch_steps == 0) {
        return 0;
    }
    struct sim_gpus gpus = decode_gpus(g, 0);
    double wire_ns = g->epoch_steps * g->wire_ns;
    g->met_links = true;
    g->stretch = links->met(links->self, &gpus);
    g->sc->decode_collectives.alone_ns += wire_ns;
    g->sc->decode_collectives.stretched_ns += wire_ns * g->stretch;
    g->sc->decode_collectives.late_ns += wire_ns * (g->stretch - 1);
    return wire_ns * (g->stretch - g->expected);
}

/* Length of the coming step and its growth per step. */
static void price_step(struct sim_decode_group *g)
{
    const struct timing_model *tm = g->sc->timing;
    uint32_t n_gpus = g->sc->config.decode_group_gpus;
    const struct sim_decode_engine *slowest = NULL;
    double worst = -1, batch = 0, fullest = 0;
    for (uint32_t i = 0; i < n_gpus; i++) {
        const struct sim_decode_engine *e = &g->engines[i];
        batch += e->batch;
        fullest = fmax(fullest, e->batch);
        double ns = e->batch > 0 ? timing_decode_gpu_ns(tm, e->batch, e->context_tok) : 0;
        if (ns > worst) {
            worst = ns;
            slowest = e;
        }
    }
    double group_ns = timing_decode_group_ns(tm, batch, n_gpus);
    double grown = timing_decode_gpu_ns(tm, slowest->batch, slowest->context_tok + slowest->batch);
    g->first_ns = timing_decode_step_ns(tm, worst + group_ns, fullest);
    g->growth_ns = timing_decode_step_ns(tm, grown + group_ns, fullest) - g->first_ns;
    enter_links_decode(g, batch / n_gpus);
}

static uint64_t boundary_ns(const struct sim_decode_group *g, uint32_t steps)
{
    double n = steps;
    return g->epoch_start_ns +
           (uint64_t)llround(g->admission_ns + n * g->first_ns + g->growth_ns * n * (n - 1) / 2);
}

static bool joins_at(const struct sim_decode_group *g, uint64_t step)
{
    return !list_empty(&g->joining) &&
           state_of(compute_sequence_of(list_first(&g->joining)))->joined_step <= step;
}

static void start_epoch(struct sim_decode_group *g)
{
    uint32_t n = 1;
    while (n < EPOCH_STEPS && list_empty(due_list(g, g->step + n)) && !joins_at(g, g->step + n)) {
        n++;
    }
    price_step(g);
    g->epoch_steps = n;
    g->epoch_start_ns = loop_now_ns(g->sc->loop);
    loop_arm(g->sc->loop, &g->timer, boundary_ns(g, n));
}

/* Tells the sequences whose step has come; the others found here were parked: put them further. */
static void notify_due(struct sim_decode_group *g)
{
    struct list now_due;
    list_init(&now_due);
    struct list *due = due_list(g, g->step);
    while (!list_empty(due)) {
        struct list *node = list_first(due);
        list_remove(node);
        list_add_tail(&now_due, node);
    }
    while (!list_empty(&now_due)) {
        struct list *node = list_first(&now_due);
        list_remove(node);
        struct compute_sequence *s = compute_sequence_of(node);
        if (state_of(s)->due_step > g->step) {
            schedule(g, s);
            continue;
        }
        s->steps_done = (uint32_t)(g->step - state_of(s)->joined_step);
        s->notify(s);
        if (s->joined) {
            assert(s->notify_at > s->steps_done);
            schedule(g, s);
        }
    }
}

static void close_epoch(struct sim_decode_group *g, uint32_t steps)
{
    g->step += steps;
    g->sc->n_steps += steps;
    g->busy_ns += (double)(loop_now_ns(g->sc->loop) - g->epoch_start_ns);
    g->batch_steps += (double)steps * g->n_sequences;
    for (uint32_t i = 0; i < g->sc->config.decode_group_gpus; i++) {
        g->engines[i].context_tok += g->engines[i].batch * steps;
    }
    g->epoch_steps = 0;
}

static void epoch_over(struct loop_timer *t)
{
    struct sim_decode_group *g = container_of(t, struct sim_decode_group, timer);
    double more_ns = meet_links_decode(g);
    if (more_ns >= 1) {
        loop_arm(g->sc->loop, t, loop_after_ns(g->sc->loop, more_ns));
        return;
    }
    if (g->epoch_steps > 0) {
        close_epoch(g, g->epoch_steps);
        notify_due(g);
    }
    admit_joining(g);
    if (g->n_sequences > 0) {
        start_epoch(g);
    } else if (g->sc->config.links && g->wire_ns > 0) {
        g->wire_ns = 0;
        struct sim_gpus gpus = decode_gpus(g, 0);
        g->sc->config.links->load(g->sc->config.links->self, &gpus, 0);
    }
}

/* The running epoch's steps until the next boundary. */
static uint32_t steps_begun(const struct sim_decode_group *g)
{
    uint64_t now = loop_now_ns(g->sc->loop);
    uint32_t n = 1;
    while (n < g->epoch_steps && boundary_ns(g, n) < now) {
        n++;
    }
    return n;
}

/* Ends the running epoch after at most so many steps. */
static void cut_epoch(struct sim_decode_group *g, uint32_t steps)
{
    if (steps < g->epoch_steps) {
        g->epoch_steps = steps;
        loop_arm(g->sc->loop, &g->timer, boundary_ns(g, steps));
    }
}

int sim_decode_join(struct compute_port *port, struct compute_sequence *s)
{
    struct sim_compute *sc = sim_compute_of(port);
    if (s->engine >= sc->config.decode_groups * sc->config.decode_group_gpus) {
        return -EINVAL;
    }
    struct sim_decode_group *g = group_of(sc, s);
    list_add_tail(&g->joining, &s->link);
    state_of(s)->joined_step = g->step;
    if (g->epoch_steps > 0) {
        uint32_t steps = steps_begun(g) + sc->config.decode_lag_steps;
        state_of(s)->joined_step += steps;
        cut_epoch(g, steps);
    } else if (!loop_armed(&g->timer)) {
        loop_post(sc->loop, &g->timer);
    }
    return 0;
}

uint64_t sim_compute_answer_ns(void *self, uint32_t engine)
{
    const struct sim_compute *sc = self;
    const struct sim_decode_group *g = &sc->decodes[engine / sc->config.decode_group_gpus];
    if (g->epoch_steps == 0) {
        return 0;
    }
    uint64_t now = loop_now_ns(sc->loop);
    uint64_t at_ns = boundary_ns(g, steps_begun(g) + sc->config.decode_lag_steps);
    return at_ns > now ? at_ns - now : 0;
}

/* Called from notify(), between two epochs (the engines leave when a sequence's last token is
 * there). */
void sim_decode_leave(struct compute_port *port, struct compute_sequence *s)
{
    struct sim_decode_group *g = group_of(sim_compute_of(port), s);
    struct sim_decode_engine *e = engine_of(g, s);
    list_remove(&s->link);
    e->batch -= 1;
    e->context_tok -= (double)s->context_tok + s->steps_done;
    if (e->batch == 0) {
        e->context_tok = 0;
    }
    g->n_sequences--;
}

int sim_decode_init(struct sim_compute *sc)
{
    sc->decodes = calloc(sc->config.decode_groups, sizeof(*sc->decodes));
    for (uint32_t i = 0; sc->decodes && i < sc->config.decode_groups; i++) {
        struct sim_decode_group *g = &sc->decodes[i];
        g->sc = sc;
        loop_timer_init(&g->timer, epoch_over);
        list_init(&g->joining);
        for (unsigned k = 0; k < 2 * EPOCH_STEPS; k++) {
            list_init(&g->due[k]);
        }
        g->engines = calloc(sc->config.decode_group_gpus, sizeof(*g->engines));
        if (!g->engines) {
            return -ENOMEM;
        }
    }
    return sc->decodes ? 0 : -ENOMEM;
}

void sim_decode_done(struct sim_compute *sc)
{
    for (uint32_t i = 0; sc->decodes && i < sc->config.decode_groups; i++) {
        free(sc->decodes[i].engines);
    }
    free(sc->decodes);
}
