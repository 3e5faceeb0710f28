/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An unloaded request's time to first token is the sum of its parts, to the nanosecond. The parts
 * are worked out here from the scenario's numbers: message latencies, the phase of the leaders'
 * fetches, the storage read, layers on their way through the NICs, and the forward's stages.
 */
#include "check_suite.h"
#include "scenario_run.h"

#include <math.h>

#include "plan/compose.h"

#define MAX_LAYERS 128
#define DELAY_NS   20000000123ull

/* One finished turn, from the CSV of requests. */
struct row {
    uint64_t prompt_tok, hit_tok, gen_tok;
    uint64_t arrival_ns, first_ns, last_ns;
    uint64_t sched_ns, alloc_ns, read_ns, prefill_ns, queue_ns;
};

struct world {
    struct scenario sc;
    struct timing_model tm;
    uint32_t n_layers, stage_layers;
    uint64_t layer_tok_bytes;
    uint64_t message_ns, transfer_ns;
};

/* Where the hits come from: decode_tok by way of the decode node, which has kept kept_tok of them;
 * whole blocks. */
struct sides {
    uint64_t decode_tok, kept_tok;
};

static uint64_t to_ns(double s)
{
    return (uint64_t)llround(s * 1e9);
}

static void world_init(struct world *w, const char *name, const char *const *sets)
{
    must_read_scenario(name, sets, &w->sc);
    const struct scenario_system *sys = &w->sc.system;
    w->tm = (struct timing_model){
        .card = w->sc.model, .gpu = w->sc.cluster.gpu, .config = w->sc.timing};
    w->n_layers = w->sc.model.n_layers;
    ck_assert_uint_le(w->n_layers, MAX_LAYERS);
    struct timing_model tm;
    struct cluster cluster;
    struct err err = ERR_INIT;
    ck_assert_int_eq(compose_cluster(&w->sc, &tm, &cluster, &err), 0);
    w->stage_layers = cluster.stage_layers;
    w->layer_tok_bytes = (uint64_t)w->sc.model.kv_bytes_per_tok_layer;
    w->message_ns = to_ns(sys->message_latency_s);
    w->transfer_ns = to_ns(sys->transfer_latency_s);
}

/* When the scheduler hears of the fetch of a group that includes node as its leader. */
static uint64_t next_fetch(const struct world *w, uint32_t leader, uint64_t heard_ns)
{
    const struct scenario_cluster *c = &w->sc.cluster;
    uint64_t period = to_ns(w->sc.system.fetch_period_s);
    uint64_t t = period * leader / (c->prefill_nodes + c->decode_nodes) + w->message_ns;
    while (t < heard_ns) {
        t += period;
    }
    return t;
}

/* Bytes at a rate, from nothing; the event comes with the nanosecond in which the last one is in.
 */
static uint64_t moving_ns(double bytes, double rate_Bps)
{
    return (uint64_t)ceil(bytes / rate_Bps * 1e9);
}

static uint64_t storage_ns(const struct world *w, uint64_t tok)
{
    const struct storage_profile *p = &w->sc.cluster.storage;
    double block = (double)(w->layer_tok_bytes * w->n_layers * w->sc.system.block_tok);
    double efficiency = p->efficiency_max * block / (block + p->half_size_bytes);
    double bytes = (double)(tok * w->layer_tok_bytes * w->n_layers);
    double line_Bps = w->sc.cluster.snic_Bps;
    bool streamed = p->stream_Bps > 0 && p->stream_Bps < line_Bps;
    return moving_ns(bytes / efficiency, streamed ? p->stream_Bps : line_Bps);
}

/* KV of context tokens on its way to the prefill GPU: when layer 1, 2, ... is there, as far as the
 * engine is told (at the first layer of each stage and at the last one). */
struct arrivals {
    uint64_t at_ns[MAX_LAYERS + 1];
};

/* When the decode node knows that it has each layer of the chunk before: of those that were not
 * there when it was asked for them, it is told. 0: all are there. */
struct known {
    uint64_t at_ns[MAX_LAYERS + 1];
};

static const struct known all_known;

/* message_ns: of a push, to the decode node and back; 0 if the KV is in this node. */
static void arrive(const struct world *w, uint64_t start_ns, uint64_t tok, uint64_t message_ns,
                   const struct known *known, struct arrivals *ret)
{
    uint64_t from_ns = start_ns + message_ns + w->transfer_ns;
    uint32_t from = 0;
    double layer = (double)(tok * w->layer_tok_bytes), rate = w->sc.cluster.cnic_Bps;
    for (uint32_t k = 1; k <= w->n_layers; k++) {
        if (known->at_ns[k] > from_ns + moving_ns(layer * (k - 1 - from), rate)) {
            from_ns = known->at_ns[k];
            from = k - 1;
        }
        ret->at_ns[k] =
            tok == 0 ? start_ns : from_ns + moving_ns(layer * (k - from), rate) + message_ns;
    }
}

/* A stream of tok tokens' KV through the prefill GPU's NIC, with the whole of it to itself or
 * half. */
struct flow {
    uint64_t start_ns, tok;
    bool pushed;
};

static double flow_bytes(const struct world *w, const struct flow *f, uint32_t layers)
{
    return (double)(layers * f->tok * w->layer_tok_bytes);
}

/* When so many bytes of a flow are through that has the NIC to itself from start_ns until both_ns,
 * half of it until alone_ns, and all again. */
static uint64_t through_ns(const struct world *w, double bytes, uint64_t start_ns, uint64_t both_ns,
                           uint64_t alone_ns)
{
    double rate = w->sc.cluster.cnic_Bps;
    double first = rate * 1e-9 * (double)(both_ns - start_ns);
    double shared = rate * 0.5e-9 * (double)(alone_ns - both_ns);
    if (bytes <= first) {
        return start_ns + moving_ns(bytes, rate);
    }
    return bytes <= first + shared ? both_ns + moving_ns(bytes - first, rate / 2)
                                   : alone_ns + moving_ns(bytes - first - shared, rate);
}

/* Two flows, the first of which starts no later and is still there when the other one starts. */
static void arrive_both(const struct world *w, const struct flow f[2], struct arrivals ret[2])
{
    uint64_t both = f[1].start_ns, alone = UINT64_MAX / 2, end[2];
    for (int i = 0; i < 2; i++) {
        end[i] = through_ns(w, flow_bytes(w, &f[i], w->n_layers), f[i].start_ns, both, alone);
    }
    ck_assert_uint_gt(end[0], both);
    alone = end[0] < end[1] ? end[0] : end[1];
    for (int i = 0; i < 2; i++) {
        for (uint32_t k = 1; k <= w->n_layers; k++) {
            ret[i].at_ns[k] = through_ns(w, flow_bytes(w, &f[i], k), f[i].start_ns, both, alone) +
                              (f[i].pushed ? w->message_ns : 0);
        }
    }
}

/* When each layer is there of a chunk whose loads start at start_ns: hits from the prefill node's
 * own DRAM, and what the decode node pushes, in two streams if it has kept a part of it. */
static void arrive_all(const struct world *w, uint64_t start_ns, uint64_t hit_tok,
                       uint64_t done_tok, const struct sides *s, const struct known *known,
                       struct arrivals *ret)
{
    struct arrivals a[2];
    uint64_t own = hit_tok - s->decode_tok, pushed = s->decode_tok + done_tok;
    uint64_t push_ns = start_ns + w->message_ns + w->transfer_ns;
    if (own > 0 && pushed > 0) {
        arrive_both(
            w, (struct flow[2]){{start_ns + w->transfer_ns, own, false}, {push_ns, pushed, true}},
            a);
    } else if (s->kept_tok > 0 && pushed > s->kept_tok) {
        arrive_both(
            w,
            (struct flow[2]){{push_ns, s->kept_tok, true}, {push_ns, pushed - s->kept_tok, true}},
            a);
    } else {
        arrive(w, start_ns, own, 0, &all_known, &a[0]);
        arrive(w, start_ns, pushed, w->message_ns, known, &a[1]);
    }
    for (uint32_t k = 1; k <= w->n_layers; k++) {
        ret->at_ns[k] = a[0].at_ns[k] > a[1].at_ns[k] ? a[0].at_ns[k] : a[1].at_ns[k];
    }
}

/* Ends of the stages of a forward that starts at start_ns; returns the end of the last one. */
static uint64_t forward_ends(const struct world *w, uint64_t start_ns, uint64_t cached_tok,
                             uint64_t new_tok, const struct arrivals *in, uint64_t *ret_ends,
                             uint32_t *ret_n)
{
    uint32_t gpus = w->sc.system.prefill_ep_gpus, n = 0;
    double busy = timing_attention_ns(&w->tm, (double)cached_tok, (double)new_tok) +
                  timing_linear_ns(&w->tm, (double)new_tok) +
                  timing_experts_ns(&w->tm, (double)new_tok, gpus);
    double compute = hypot(busy, w->sc.timing.forward_floor_s * 1e9);
    double fixed = timing_forward_fixed_ns(&w->tm);
    uint64_t t = start_ns;
    for (uint32_t layer = 0; layer < w->n_layers; layer += w->stage_layers) {
        uint32_t left = w->n_layers - layer;
        uint32_t layers = left < w->stage_layers ? left : w->stage_layers;
        uint64_t there = in->at_ns[layer + 1];
        t = t > there ? t : there;
        t += (uint64_t)llround(compute * layers / w->n_layers + (layer == 0 ? fixed : 0));
        ret_ends[n++] = t;
    }
    uint64_t last = in->at_ns[w->n_layers] + (uint64_t)llround(compute / w->n_layers);
    ret_ends[n - 1] = last > t ? last : t;
    *ret_n = n;
    return ret_ends[n - 1];
}

/* What the decode node knows, when it is asked at the end of a forward, of the store of tok tokens'
 * KV that follows the stages' ends layer by layer. */
static void learn(const struct world *w, uint64_t tok, const uint64_t *ends, uint32_t n,
                  struct known *ret)
{
    uint64_t t = ends[0] + w->transfer_ns;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = i * w->stage_layers, left = w->n_layers - first;
        uint32_t layers = left < w->stage_layers ? left : w->stage_layers;
        t = t > ends[i] ? t : ends[i];
        t += moving_ns((double)(layers * tok * w->layer_tok_bytes), w->sc.cluster.cnic_Bps);
        for (uint32_t k = first + 1; k <= first + layers; k++) {
            ret->at_ns[k] = t <= ends[n - 1] ? 0 : t + w->message_ns;
        }
    }
}

/* Tokens of the next chunk: as many whole blocks as a forward takes. */
static uint64_t chunk_tok(const struct world *w, uint64_t cached_tok, uint64_t left_tok)
{
    double quota = w->sc.system.quota_s * 1e9;
    uint64_t block = w->sc.system.block_tok, n = block;
    if (w->sc.system.packing == PACKING_TOKENS) {
        uint64_t most = w->sc.system.forward_tok;
        return left_tok <= most ? left_tok : most / block * block;
    }
    if (timing_attention_ns(&w->tm, (double)cached_tok, (double)left_tok) <= quota) {
        return left_tok;
    }
    while (timing_attention_ns(&w->tm, (double)cached_tok, (double)(n + block)) <= quota) {
        n += block;
    }
    return n;
}

/* From "ready" on the prefill node to the end of the last chunk's forward. */
static uint64_t prefill_end(const struct world *w, const struct row *q, const struct sides *sides,
                            uint64_t ready_ns, uint32_t *ret_chunks, uint64_t *ret_queue_ns)
{
    uint64_t own_tok = q->hit_tok - sides->decode_tok; /* hits in the prefill node's own DRAM */
    bool two_nodes = w->sc.system.prefill_ep_gpus > w->sc.cluster.gpus_per_node;
    uint64_t done_tok = 0, miss_tok = q->prompt_tok - q->hit_tok, end = 0;
    uint64_t ends[MAX_LAYERS];
    struct known known = {0};
    uint32_t n;
    *ret_chunks = 0;
    *ret_queue_ns = 0;
    while (done_tok < miss_tok) {
        struct arrivals load = {0};
        uint64_t tok = chunk_tok(w, q->hit_tok + done_tok, miss_tok - done_tok);
        uint64_t start = ready_ns;
        /* Without layer streaming the GPU keeps the prompt's KV between its chunks. */
        bool kept = !w->sc.system.layerwise && done_tok > 0;
        /* Hits read here and earlier chunks: no test has both. */
        ck_assert(kept || own_tok == 0 || done_tok == 0);
        if (kept) {
            arrive(w, start, 0, 0, &all_known, &load);
        } else {
            arrive_all(w, start, q->hit_tok, done_tok, sides, &known, &load);
        }
        if (!w->sc.system.layerwise) {
            start = load.at_ns[w->n_layers];
            *ret_queue_ns = done_tok == 0 ? start - ready_ns : *ret_queue_ns;
        }
        uint64_t elsewhere = ready_ns + (two_nodes ? w->message_ns : 0);
        start = start > elsewhere ? start : elsewhere;
        end = forward_ends(w, start, q->hit_tok + done_tok, tok, &load, ends, &n);
        /* The chunk after it goes on at once; with layer streaming its last layers follow. */
        learn(w, tok + (done_tok == 0 ? own_tok : 0), ends, n, &known);
        ready_ns = end;
        done_tok += tok;
        ++*ret_chunks;
    }
    return end;
}

/* The sides of a turn's hits, by the rules; nothing is queued. before: its session's last turn. */
static struct sides sides_of(const struct world *w, const struct row *q, const struct row *before)
{
    const struct scenario_system *sys = &w->sc.system;
    uint64_t block = sys->block_tok;
    struct sides s = {0};
    if (sys->decode_reuse != DECODE_REUSE_NONE && before) {
        uint64_t there = sys->decode_reuse == DECODE_REUSE_HBM ? q->hit_tok : before->prompt_tok;
        s.kept_tok = there / block * block;
        s.decode_tok = q->hit_tok;
    } else if (sys->path_policy == PATH_SPLIT) {
        s.decode_tok = q->hit_tok / 2 / block * block;
    } else if (sys->dual_path && sys->path_policy == PATH_DECODE) {
        s.decode_tok = q->hit_tok;
    }
    return s;
}

static void check_row(const struct world *w, const struct row *q, const struct row *before,
                      uint32_t least_chunks)
{
    const struct sides sides = sides_of(w, q, before);
    uint64_t heard = q->arrival_ns + w->message_ns;
    uint64_t prefill_fetch = next_fetch(w, 0, heard);
    uint64_t decode_fetch = next_fetch(w, w->sc.cluster.prefill_nodes, heard);
    uint64_t decided = prefill_fetch > decode_fetch ? prefill_fetch : decode_fetch;
    uint64_t sched = decided - heard + to_ns(w->sc.system.scheduler_cost_s);
    /* Both sides read at once. */
    uint64_t here = storage_ns(w, q->hit_tok - sides.decode_tok);
    uint64_t there = storage_ns(w, sides.decode_tok - sides.kept_tok);
    uint64_t read = here > there ? here : there;
    /* start to the decode node, "ready" from there to the prefill node */
    uint64_t ready = heard + sched + w->message_ns + read + w->message_ns;
    uint32_t n_chunks;
    uint64_t queue_ns; /* its engine is idle; later chunks do not count */
    uint64_t first = prefill_end(w, q, &sides, ready, &n_chunks, &queue_ns) + w->message_ns;
    ck_assert_uint_eq(q->sched_ns, sched);
    ck_assert_uint_eq(q->alloc_ns, 0);
    ck_assert_uint_eq(q->read_ns, read);
    ck_assert_uint_ge(n_chunks, least_chunks);
    ck_assert_uint_eq(q->first_ns, first);
    ck_assert_uint_eq(q->prefill_ns, first - q->arrival_ns - sched - read);
    ck_assert_uint_eq(q->queue_ns, queue_ns);
    ck_assert(q->gen_tok > 1 || q->last_ns == q->first_ns);
}

/* Replays one session of two turns and returns their rows. */
static void run_session(struct world *w, const char *trace, struct row rows[2])
{
    char *csv = replayed_requests(&w->sc, trace);
    const char *line = csv;
    for (int i = 0; i < 2; i++) {
        double t[8];
        unsigned prompt, hit, gen;
        line = strchr(line, '\n') + 1;
        ck_assert_int_eq(sscanf(line, "%*u,%*u,%u,%u,%u,%lf,%lf,%*f,%lf,%lf,%lf,%lf,%lf,%lf",
                                &prompt, &hit, &gen, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5],
                                &t[6], &t[7]),
                         11);
        rows[i] = (struct row){prompt,      hit,         gen,         to_ns(t[0]),
                               to_ns(t[1]), to_ns(t[2]), to_ns(t[3]), to_ns(t[4]),
                               to_ns(t[5]), to_ns(t[6]), to_ns(t[7])};
    }
    free(csv);
}

/* Two turns: one without hits, one that hits what the first has left. */
static void check_session(const char *name, const char *const *sets, unsigned first_tok,
                          unsigned second_tok, unsigned gen_tok, uint32_t least_chunks)
{
    struct world w;
    struct row rows[2];
    char trace[512];
    snprintf(trace, sizeof(trace),
             "{\"schema\":\"dualpath/trace/1\",\"block_tok\":0,\"sessions\":1}\n"
             "{\"arrival_ns\":1234567,\"turns\":[{\"prompt_tok\":%u,\"gen_tok\":%u},"
             "{\"prompt_tok\":%u,\"gen_tok\":%u,\"delay_ns\":%llu}]}\n",
             first_tok, gen_tok, second_tok, gen_tok, DELAY_NS);
    world_init(&w, name, sets);
    w.sc.cluster.storage.latency_median_s = 0;
    /* Transfers alone: work requests for nothing, collectives on NVLink (see test_sim_dp.c). */
    w.sc.system.submit_batched_s = w.sc.system.submit_doorbell_s = 0;
    w.sc.cluster.gpu.nvlink_gpus = 64;
    run_session(&w, trace, rows);
    ck_assert_uint_eq(rows[0].arrival_ns, 1234567);
    ck_assert_uint_eq(rows[0].hit_tok, 0);
    ck_assert_uint_eq(rows[1].arrival_ns, rows[0].last_ns + DELAY_NS);
    ck_assert_uint_eq(rows[1].hit_tok, (first_tok + gen_tok - 1) / 64 * 64);
    check_row(&w, &rows[0], NULL, least_chunks);
    check_row(&w, &rows[1], &rows[0], 1);
}

static const char prefill_side[] = "system.path_policy=prefill";
static const char decode_side[] = "system.path_policy=decode";
static const char by_layer[] = "system.fidelity=layer";
static const char stream[] = "cluster.storage.stream_Bps=15GB/s";

START_TEST(test_prefill_side)
{
    check_session("quickstart", SETS(prefill_side), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(prefill_side, by_layer), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(prefill_side), 64, 200, 1, 1);
    check_session("quickstart", SETS(prefill_side, stream), 3000, 3500, 10, 1);
}
END_TEST

/* Long hits and little to compute: layers arrive later than they could be used. */
START_TEST(test_decode_side)
{
    check_session("quickstart", SETS(decode_side), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(decode_side, stream), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(decode_side, by_layer), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(decode_side, by_layer, "cluster.cnic_Bps=1GB/s"), 20000, 20100,
                  2, 1);
    check_session("quickstart", SETS(decode_side, "cluster.cnic_Bps=1GB/s"), 20000, 20100, 2, 1);
}
END_TEST

START_TEST(test_not_layerwise)
{
    check_session("quickstart", SETS("system.layerwise=false", prefill_side), 9000, 9500, 3, 1);
    check_session("quickstart", SETS("system.layerwise=false", decode_side), 9000, 9500, 3, 1);
    check_session("quickstart", SETS("system.preset=basic"), 9000, 9500, 3, 1);
}
END_TEST

/* A limit of forwards, attention time or new tokens, that the first prompt takes several for. */
START_TEST(test_chunks)
{
    check_session("quickstart", SETS(decode_side, "system.quota_s=10ms"), 16000, 16100, 5, 4);
    check_session("quickstart", SETS(prefill_side, by_layer, "system.quota_s=10ms"), 16000, 16100,
                  5, 4);
    check_session("quickstart", SETS("system.layerwise=false", "system.quota_s=10ms"), 16000, 16100,
                  5, 4);
    check_session("quickstart", SETS("system.preset=basic"), 16000, 16100, 5, 2);
    check_session("quickstart",
                  SETS("system.preset=layerwise", by_layer, "system.forward_tok=4000"), 16000,
                  16100, 5, 5);
}
END_TEST

/* An EP group over two nodes: the second one starts a message later. */
START_TEST(test_two_nodes)
{
    check_session("ds660b-2p4d", SETS(decode_side), 4000, 5000, 10, 1);
    check_session("ds660b-2p4d", SETS(prefill_side, by_layer), 4000, 5000, 10, 1);
}
END_TEST

static const char split[] = "system.path_policy=split";

/* Each side reads half: half the time, and the two halves share the prefill GPU's NIC. */
START_TEST(test_split)
{
    check_session("quickstart", SETS(split), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(split, by_layer), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(split), 64, 200, 1, 1); /* one block cannot be split */
    check_session("quickstart", SETS(split), 128, 200, 1, 1);
    check_session("quickstart", SETS(split, "system.layerwise=false"), 9000, 9500, 3, 1);
    check_session("quickstart", SETS(split, "cluster.cnic_Bps=5GB/s"), 20000, 20100, 2, 1);
    check_session("ds660b-2p4d", SETS(split), 4000, 5000, 10, 1);
}
END_TEST

/* Into HBM and out of it the same NICs are passed: the time to the first token stays. */
START_TEST(test_decode_in_hbm)
{
    static const char in_hbm[] = "system.decode_buffer=hbm";
    check_session("quickstart", SETS(in_hbm, decode_side), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(in_hbm, prefill_side, by_layer), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(in_hbm, split), 3000, 3500, 1, 1);
    check_session("quickstart", SETS(in_hbm, decode_side, "system.quota_s=10ms"), 16000, 16100, 5,
                  4);
    check_session("ds660b-2p4d", SETS(in_hbm, decode_side), 4000, 5000, 10, 1);
}
END_TEST

/* What is kept is not read; in DRAM what was generated is not kept. */
START_TEST(test_kept)
{
    static const char hbm[] = "system.decode_reuse=hbm", dram[] = "system.decode_reuse=dram";
    check_session("quickstart", SETS(hbm), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(hbm, by_layer, "cluster.cnic_Bps=1GB/s"), 20000, 20100, 2, 1);
    check_session("quickstart", SETS(hbm, "system.decode_buffer=hbm"), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(hbm, split), 3000, 3500, 300, 1);
    check_session("quickstart", SETS(dram), 3000, 3500, 10, 1);
    check_session("quickstart", SETS(dram, by_layer), 3000, 3500, 300, 1);
    check_session("ds660b-2p4d", SETS(hbm, "system.hbm_promise=assignment"), 4000, 5000, 10, 1);
    check_session("ds660b-2p4d", SETS(dram), 4000, 5000, 200, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unloaded");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_prefill_side);
    tcase_add_test(tc, test_decode_side);
    tcase_add_test(tc, test_not_layerwise);
    tcase_add_test(tc, test_chunks);
    tcase_add_test(tc, test_two_nodes);
    tcase_add_test(tc, test_split);
    tcase_add_test(tc, test_decode_in_hbm);
    tcase_add_test(tc, test_kept);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
