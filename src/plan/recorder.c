/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/recorder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/units.h"

static double run_s(const struct recorder *r, uint64_t t_ns)
{
    return (double)(t_ns - r->metrics.origin_ns) * 1e-9;
}

static void write_request(struct recorder *r, const struct client_turn *t)
{
    fprintf(r->requests_csv, "%u,%u,%u,%u,%u,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f\n",
            t->session, t->turn, t->prompt_tok, t->hit_tok, t->gen_tok, run_s(r, t->arrival_ns),
            run_s(r, t->first_ns), run_s(r, t->second_ns), run_s(r, t->last_ns),
            (double)t->scheduled_ns * 1e-9, (double)t->alloc_ns * 1e-9, (double)t->read_ns * 1e-9,
            (double)t->prefill_ns * 1e-9, (double)t->queue_ns * 1e-9);
}

static void turn_arrived(void *self)
{
    metrics_turn_arrived(&((struct recorder *)self)->metrics);
}

static void turn_over(void *self, const struct client_turn *t)
{
    struct recorder *r = self;
    uint64_t *end_ns = &r->turn_end_ns[t->session];
    const struct metrics_turn m = {.since_ns = *end_ns ? *end_ns : t->arrival_ns,
                                   .prompt_tok = t->prompt_tok,
                                   .hit_tok = t->hit_tok,
                                   .gen_tok = t->gen_tok,
                                   .arrival_ns = t->arrival_ns,
                                   .first_ns = t->first_ns,
                                   .second_ns = t->second_ns,
                                   .last_ns = t->last_ns,
                                   .sched_ns = t->scheduled_ns,
                                   .alloc_ns = t->alloc_ns,
                                   .read_ns = t->read_ns,
                                   .prefill_ns = t->prefill_ns,
                                   .queue_ns = t->queue_ns};
    metrics_turn_over(&r->metrics, &m);
    *end_ns = t->last_ns;
    uint32_t block = r->cluster->kv.block_tok;
    r->expected_blocks += (t->prompt_tok + t->gen_tok - 1) / block - t->hit_tok / block;
    if (r->requests_csv) {
        write_request(r, t);
    }
}

static void session_over(void *self, uint32_t session, uint64_t arrival_ns, uint64_t end_ns)
{
    struct recorder *r = self;
    struct workload_session ws;
    r->workload->ops->session(r->workload, session, &ws);
    if (ws.parent == WORKLOAD_NONE) {
        struct workload_turn last;
        r->workload->ops->turn(r->workload, session, ws.n_turns - 1, &last);
        metrics_agent_over(&r->metrics, arrival_ns, end_ns,
                           (uint64_t)last.prompt_tok + last.gen_tok);
    }
}

static const char *path_name(const struct msg_start *s)
{
    if (s->kept_tok > 0) {
        return "kept";
    }
    if (s->decode_tok > 0 && s->decode_tok < s->r.hit_tok) {
        return "split";
    }
    return s->read_on_decode ? "decode" : "prefill";
}

static void decided(void *self, const struct msg_start *s)
{
    struct recorder *r = self;
    uint32_t gpus = r->cluster->gpus_per_node;
    fprintf(r->decisions_csv, "%u,%u,%u,%u,%s\n", s->r.session, s->r.turn,
            s->prefill_node * gpus + s->prefill_gpu,
            cluster_decode_engine(r->cluster, s->decode_node, s->decode_gpu), path_name(s));
}

int recorder_start(struct recorder *r, struct loop *loop, const struct metrics_probe *probe)
{
    const struct cluster *c = r->cluster;
    const struct metrics_config config = {
        .n_prefill_nodes = c->prefill_nodes,
        .n_nodes = cluster_nodes(c),
        .balance_window_ns = units_s_to_ns(r->scenario->report.balance_window_s),
    };
    r->turn_end_ns = calloc(r->workload->n_sessions + 1u, sizeof(*r->turn_end_ns));
    int rc = r->turn_end_ns ? metrics_init(&r->metrics, loop, probe, &config) : -ENOMEM;
    if (rc) {
        free(r->turn_end_ns);
        r->turn_end_ns = NULL;
        return rc;
    }
    if (r->requests_csv) {
        fprintf(r->requests_csv, "session,turn,prompt_tok,hit_tok,gen_tok,arrival_s,first_token_s,"
                                 "second_token_s,last_token_s,sched_s,alloc_s,read_s,prefill_s,"
                                 "prefill_queue_s\n");
    }
    if (r->decisions_csv) {
        fprintf(r->decisions_csv, "session,turn,prefill_engine,decode_engine,path\n");
    }
    return 0;
}

void recorder_done(struct recorder *r)
{
    metrics_done(&r->metrics);
    free(r->turn_end_ns);
    r->turn_end_ns = NULL;
}

void recorder_observe_client(struct recorder *r, struct client_observer *ret)
{
    ret->self = r;
    ret->turn_arrived = turn_arrived;
    ret->turn_over = turn_over;
    ret->session_over = session_over;
}

void recorder_observe_central(struct recorder *r, struct central_observer *ret)
{
    *ret = (struct central_observer){.self = r, .decided = r->decisions_csv ? decided : NULL};
}

static void add_slo(const struct recorder *r, struct result *ret)
{
    const struct scenario_slo *slo = &r->scenario->slo;
    ret->slo_ttft_s = slo->ttft_s;
    ret->slo_tpot_s = slo->tpot_s;
    ret->ttft_ok_frac = hist_share_below(&r->metrics.ttft, slo->ttft_s);
    ret->tpot_ok_frac = hist_share_below(&r->metrics.tpot, slo->tpot_s);
    ret->tpot_requests = r->metrics.tpot.count;
    ret->slo_met =
        !ret->unstable && ret->ttft_s.mean <= slo->ttft_s && ret->tpot_s.mean <= slo->tpot_s;
}

static void add_working_set(const struct recorder *r, struct result *ret)
{
    const struct kv_layout *kv = &r->cluster->kv;
    double per_tok = (double)(kv->layer_tok_bytes * kv->n_layers);
    struct metrics_working_set w = metrics_working_set(&r->metrics, 0, r->metrics.n_samples - 1);
    ret->working_set_bytes = w.simulated_tok * per_tok;
    ret->working_set_model_bytes = w.model_tok * per_tok;
}

/* When the last agent comes, whatever rule agents come by; 0 when all are there from the start. */
uint64_t recorder_last_arrival_ns(const struct workload *w)
{
    struct workload_session s;
    uint32_t last = w->n_sessions;
    do {
        w->ops->session(w, --last, &s);
    } while (s.parent != WORKLOAD_NONE);
    return s.arrival_ns;
}

void recorder_result(struct recorder *r, const char *backend, const char *trace_sha256,
                     struct result *ret)
{
    const struct scenario *sc = r->scenario;
    *ret = (struct result){.seed = sc->seed, .prefill_stretch = 1, .decode_stretch = 1};
    metrics_finish(&r->metrics, recorder_last_arrival_ns(r->workload), ret);
    add_slo(r, ret);
    add_working_set(r, ret);
    ret->gpu_hours = cluster_nodes(r->cluster) * sc->cluster.gpus_per_node * ret->jct_s / 3600;
    ret->usd = ret->gpu_hours * sc->cost.gpu_hour_usd;
    snprintf(ret->version, sizeof(ret->version), "%s", DUALPATH_VERSION);
    snprintf(ret->backend, sizeof(ret->backend), "%s", backend);
    snprintf(ret->scenario_sha256, sizeof(ret->scenario_sha256), "%s", sc->sha256);
    snprintf(ret->trace_sha256, sizeof(ret->trace_sha256), "%s", trace_sha256);
}
