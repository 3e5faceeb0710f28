/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Simulated forwards and decode loops against a plain step-by-step reckoning. */
#include "check_suite.h"
#include "scenario_run.h"

#include <math.h>

#include "sim/sim_compute.h"
#include "sim/virtual_driver.h"

#define N_SEQUENCES 40

struct fixture {
    struct virtual_driver driver;
    struct loop loop;
    struct timing_model tm;
    struct sim_compute compute;
};

static void fixture_init(struct fixture *f, uint32_t gpus, uint32_t stage_layers, uint32_t lag)
{
    struct scenario sc;
    must_read_scenario("quickstart", NULL, &sc);
    f->tm = (struct timing_model){.card = sc.model, .gpu = sc.cluster.gpu, .config = sc.timing};
    f->tm.config.decode_admission_s = 5e-3;
    f->tm.config.decode_sequence_s = 1e-3;
    virtual_driver_init(&f->driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&f->loop, &f->driver.driver, 0), 0);
    const struct sim_compute_config config = {.prefill_groups = 1,
                                              .prefill_group_gpus = gpus,
                                              .decode_groups = 1,
                                              .decode_group_gpus = gpus,
                                              .stage_layers = stage_layers,
                                              .decode_lag_steps = lag};
    ck_assert_int_eq(sim_compute_init(&f->compute, &f->loop, &f->tm, &config), 0);
}

static void fixture_done(struct fixture *f)
{
    sim_compute_done(&f->compute);
    loop_done(&f->loop);
}

/* Decode */

struct member {
    struct compute_sequence sequence;
    struct loop_timer timer;
    struct fixture *f;
    uint64_t join_ns, end_ns;
    uint32_t engine, context_tok, steps, notify_every;
};

static void stepped(struct compute_sequence *s)
{
    struct member *m = container_of(s, struct member, sequence);
    ck_assert_uint_eq(s->steps_done, s->notify_at);
    if (s->steps_done == m->steps) {
        m->end_ns = loop_now_ns(&m->f->loop);
        compute_leave(&m->f->compute.port, s);
        return;
    }
    uint32_t next = s->steps_done + m->notify_every;
    s->notify_at = next < m->steps ? next : m->steps;
}

static void join(struct loop_timer *t)
{
    struct member *m = container_of(t, struct member, timer);
    m->sequence = (struct compute_sequence){
        .engine = m->engine,
        .context_tok = m->context_tok,
        .notify_at = m->notify_every < m->steps ? m->notify_every : m->steps,
        .notify = stepped};
    ck_assert_int_eq(compute_join(&m->f->compute.port, &m->sequence), 0);
}

/* Members in order of joining, with pauses in which the group is idle. */
static void draw_members(struct member *m, uint32_t gpus)
{
    uint64_t at = 1000, state = 9;
    for (int i = 0; i < N_SEQUENCES; i++) {
        uint32_t r[4];
        for (int k = 0; k < 4; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            r[k] = (uint32_t)(state >> 33);
        }
        at += i % 10 == 0 ? 5000000000u : r[0] % 200000000u;
        m[i] = (struct member){.join_ns = at,
                               .engine = r[1] % gpus,
                               .context_tok = r[2] % 30000 + 1,
                               .steps = r[3] % 400 + 1};
    }
}

static void run_members(struct member *m, uint32_t gpus, uint32_t notify_every, uint32_t lag)
{
    struct fixture f;
    fixture_init(&f, gpus, 1, lag);
    for (int i = 0; i < N_SEQUENCES; i++) {
        m[i].f = &f;
        m[i].end_ns = 0;
        m[i].notify_every = notify_every;
        loop_timer_init(&m[i].timer, join);
        loop_arm(&f.loop, &m[i].timer, m[i].join_ns);
    }
    ck_assert_int_eq(loop_run(&f.loop), 0);
    fixture_done(&f);
}

/* Length of a step with done[] steps behind each member; those with none enter with it. */
static double step_ns(const struct timing_model *tm, const struct member *m, const int *done,
                      uint32_t gpus)
{
    double worst = 0, total = 0, fullest = 0, most_enter = 0;
    for (uint32_t gpu = 0; gpu < gpus; gpu++) {
        double batch = 0, context = 0, enter = 0;
        for (int i = 0; i < N_SEQUENCES; i++) {
            if (done[i] >= 0 && done[i] < (int)m[i].steps && m[i].engine == gpu) {
                batch += 1;
                enter += done[i] == 0;
                context += m[i].context_tok + done[i];
            }
        }
        total += batch;
        fullest = fmax(fullest, batch);
        most_enter = fmax(most_enter, enter);
        worst = fmax(worst, batch > 0 ? timing_decode_gpu_ns(tm, batch, context) : 0);
    }
    double gpu_ns = worst + timing_decode_group_ns(tm, total, gpus);
    return hypot(gpu_ns, fullest * 1e6) + most_enter * 5e6;
}

/* Step after step; done -1: not in yet. Who has joined by a boundary takes part from lag boundaries
 * later on, or at once if nobody else does. */
static void reckon(const struct member *m, uint32_t gpus, uint32_t lag, double *ret_end_ns)
{
    struct fixture f;
    int done[N_SEQUENCES], from[N_SEQUENCES], left = N_SEQUENCES, boundary = 0;
    double t = 0;
    fixture_init(&f, gpus, 1, lag);
    for (int i = 0; i < N_SEQUENCES; i++) {
        done[i] = from[i] = -1;
    }
    while (left > 0) {
        int active = 0, others = 0;
        double next_join = INFINITY;
        for (int i = 0; i < N_SEQUENCES; i++) {
            others += done[i] >= 0 && done[i] < (int)m[i].steps;
            from[i] = from[i] < 0 && (double)m[i].join_ns <= t ? boundary + (int)lag : from[i];
        }
        for (int i = 0; i < N_SEQUENCES; i++) {
            bool may = from[i] >= 0 && (from[i] <= boundary || others == 0);
            done[i] = done[i] < 0 && may ? 0 : done[i];
            active += done[i] >= 0 && done[i] < (int)m[i].steps;
            next_join = done[i] < 0 ? fmin(next_join, (double)m[i].join_ns) : next_join;
        }
        if (active == 0) {
            t = next_join;
            continue;
        }
        t += step_ns(&f.tm, m, done, gpus);
        boundary++;
        for (int i = 0; i < N_SEQUENCES; i++) {
            if (done[i] >= 0 && done[i] < (int)m[i].steps && ++done[i] == (int)m[i].steps) {
                ret_end_ns[i] = t;
                left--;
            }
        }
    }
    fixture_done(&f);
}

/* tol_ns: an epoch rounds once; with several GPUs it also keeps its slowest one to its end. */
static void check_decode(uint32_t gpus, uint32_t notify_every, uint32_t lag, double tol_ns)
{
    struct member m[N_SEQUENCES];
    double expected[N_SEQUENCES];
    draw_members(m, gpus);
    reckon(m, gpus, lag, expected);
    run_members(m, gpus, notify_every, lag);
    for (int i = 0; i < N_SEQUENCES; i++) {
        ck_assert_msg(fabs((double)m[i].end_ns - expected[i]) <= tol_ns,
                      "%u GPUs, sequence %d: ended at %.9f s, expected %.9f s", gpus, i,
                      (double)m[i].end_ns * 1e-9, expected[i] * 1e-9);
    }
}

START_TEST(test_decode_one_gpu)
{
    check_decode(1, 1, 0, 2000); /* epochs of one step */
    check_decode(1, 7, 0, 2000);
    check_decode(1, UINT32_MAX, 0, 2000); /* as long as it goes */
}
END_TEST

START_TEST(test_decode_lockstep)
{
    check_decode(4, 1, 0, 2000);
    check_decode(4, UINT32_MAX, 0, 1e6); /* of up to 10 s */
}
END_TEST

/* A sequence that joins a running batch enters it some boundaries later. */
START_TEST(test_decode_lag)
{
    check_decode(1, 1, 2, 2000);
    check_decode(1, UINT32_MAX, 2, 2000);
    check_decode(1, 7, 5, 2000);
    check_decode(4, UINT32_MAX, 2, 1e6);
}
END_TEST

/* One sequence that is told of every step, and what an engine asked in between answers. */
struct asked {
    struct compute_sequence sequence;
    struct loop_timer timer;
    struct fixture *f;
    uint64_t boundary_ns[12], asked_ns, answer_ns;
};

static void note_boundary(struct compute_sequence *s)
{
    struct asked *a = container_of(s, struct asked, sequence);
    a->boundary_ns[s->steps_done - 1] = loop_now_ns(&a->f->loop);
    if (s->steps_done == 12) {
        compute_leave(&a->f->compute.port, s);
    }
    s->notify_at++;
}

static void ask(struct loop_timer *t)
{
    struct asked *a = container_of(t, struct asked, timer);
    a->asked_ns = loop_now_ns(&a->f->loop);
    a->answer_ns = sim_compute_answer_ns(&a->f->compute, 0);
}

/* As late as a sequence would join that comes when it is asked; at once while the loop stands. */
START_TEST(test_answer)
{
    struct fixture f;
    fixture_init(&f, 1, 1, 2);
    struct asked a = {.f = &f};
    a.sequence =
        (struct compute_sequence){.context_tok = 5000, .notify_at = 1, .notify = note_boundary};
    ck_assert_uint_eq(sim_compute_answer_ns(&f.compute, 0), 0);
    ck_assert_int_eq(compute_join(&f.compute.port, &a.sequence), 0);
    double step_ns = timing_decode_step_ns(
        &f.tm, timing_decode_gpu_ns(&f.tm, 1, 5000) + timing_decode_group_ns(&f.tm, 1, 1), 1);
    loop_timer_init(&a.timer, ask);
    loop_arm(&f.loop, &a.timer, (uint64_t)(f.tm.config.decode_admission_s * 1e9 + 3.5 * step_ns));
    ck_assert_int_eq(loop_run(&f.loop), 0);
    /* Asked in the fourth step: its end and two more. */
    ck_assert_uint_gt(a.asked_ns, a.boundary_ns[2]);
    ck_assert_uint_lt(a.asked_ns, a.boundary_ns[3]);
    ck_assert_double_eq_tol((double)(a.asked_ns + a.answer_ns), (double)a.boundary_ns[5], 2000);
    ck_assert_uint_eq(sim_compute_answer_ns(&f.compute, 0), 0);
    fixture_done(&f);
}
END_TEST

/* Forwards */

struct forward {
    struct compute_forward f;
    struct compute_item item;
    uint64_t end_ns;
    struct loop *loop;
};

static void forward_done(struct compute_forward *f)
{
    struct forward *w = container_of(f, struct forward, f);
    ck_assert_int_eq(f->status, 0);
    ck_assert_uint_eq(f->layers_done, f->layers_total);
    w->end_ns = loop_now_ns(w->loop);
}

/* Three GPUs with 100, 4000 and no tokens: all end together, after the slowest's own products and
 * the experts' work on the tokens of all. The balance of attention counts all three, too. */
START_TEST(test_forward_lockstep)
{
    struct fixture f;
    struct forward w[3];
    static const uint32_t new_tok[3] = {100, 4000, 0};
    fixture_init(&f, 3, 30, 0); /* one stage: one rounding */
    for (uint32_t i = 0; i < 3; i++) {
        w[i] =
            (struct forward){.item = {.cached_tok = 1000, .new_tok = new_tok[i]}, .loop = &f.loop};
        w[i].f = (struct compute_forward){.rank = i,
                                          .engine = i,
                                          .items = &w[i].item,
                                          .n_items = new_tok[i] ? 1 : 0,
                                          .layers_total = f.tm.card.n_layers,
                                          .layers_ready = f.tm.card.n_layers,
                                          .done = forward_done};
        ck_assert_int_eq(compute_forward(&f.compute.port, &w[i].f), 0);
    }
    ck_assert_int_eq(loop_run(&f.loop), 0);
    double own = timing_attention_ns(&f.tm, 1000, 4000) + timing_linear_ns(&f.tm, 4000);
    double all = own + timing_experts_ns(&f.tm, 4100, 3);
    all += f.tm.config.forward_fixed_s * 1e9;
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(w[i].end_ns, (uint64_t)llround(all));
    }
    ck_assert_double_eq(w[1].f.attention_ns, timing_attention_ns(&f.tm, 1000, 4000));
    ck_assert_double_eq(w[2].f.attention_ns, 0);
    double most = w[1].f.attention_ns, mean = (w[0].f.attention_ns + most) / 3;
    const struct sim_forward_group *g = &f.compute.forwards[0];
    ck_assert_double_eq(g->attending_ns, (double)w[0].end_ns);
    ck_assert_double_eq_tol(g->attention_max_avg_ns / g->attending_ns, most / mean, 1e-12);
    fixture_done(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compute");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_decode_one_gpu);
    tcase_add_test(tc, test_decode_lockstep);
    tcase_add_test(tc, test_decode_lag);
    tcase_add_test(tc, test_answer);
    tcase_add_test(tc, test_forward_lockstep);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
