/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/packet_mode.h"

#include <errno.h>

#include "model/collectives.h"

struct tokens {
    double copied, computed, generated;
};

static void add_session(struct tokens *sum, const struct workload *w, uint32_t session)
{
    struct workload_session s;
    w->ops->session(w, session, &s);
    uint32_t before = 0;
    for (uint32_t k = 0; k < s.n_turns; k++) {
        struct workload_turn t;
        w->ops->turn(w, session, k, &t);
        sum->copied += 3.0 * t.prompt_tok + t.gen_tok;
        sum->computed += t.prompt_tok > before ? t.prompt_tok - before : t.prompt_tok;
        sum->generated += t.gen_tok;
        before = t.prompt_tok + t.gen_tok;
    }
}

double packet_mode_packets(const struct cluster *c, const struct workload *w)
{
    struct tokens sum = {0};
    for (uint32_t i = 0; i < w->n_sessions; i++) {
        add_session(&sum, w, i);
    }
    const struct timing_model *tm = c->timing;
    uint32_t domain = tm->gpu.nvlink_gpus;
    double bytes =
        sum.copied * (double)(c->kv.layer_tok_bytes * c->kv.n_layers) +
        sum.computed * collective_prefill_bytes_per_tok(&tm->card, c->prefill_ep_gpus, domain) +
        sum.generated * collective_decode_bytes_per_tok(&tm->card, c->decode_ep_gpus, domain);
    return bytes / PACKET_PAYLOAD_BYTES;
}

int packet_mode_check(const struct cluster *c, const struct workload *w, struct err *err)
{
    double packets = packet_mode_packets(c, w);
    if (cluster_nodes(c) <= PACKET_MODE_MAX_NODES && packets <= PACKET_MODE_MAX_PACKETS) {
        return 0;
    }
    err_field(err, "system.fidelity");
    return err_set(err, -E2BIG,
                   "\"packet\" is for small cases: found %u nodes and about %.2g packets, expected "
                   "at most %u nodes and %.2g packets; take \"layer\" or \"auto\"",
                   cluster_nodes(c), packets, PACKET_MODE_MAX_NODES, PACKET_MODE_MAX_PACKETS);
}

int packet_mode_build(struct simulation *s, struct err *err)
{
    const struct sim_isolation_config *qos = &s->dp.config.isolation;
    struct packet_dp_config config = packet_dp_paper_config(qos->port, qos->egress);
    if (qos->port == VLARB_NONE || qos->egress == VLARB_NONE) {
        config.kv_queue_pairs = qos->kv_queue_pairs;
    }
    packet_bursts_init(&s->bursts, &s->packets, PACKET_BURSTS_PERIOD_NS);
    return packet_dp_init(&s->packets, &s->dp, &config, err);
}

void packet_mode_done(struct simulation *s)
{
    if (s->packets.sd) {
        packet_bursts_done(&s->bursts);
        packet_dp_done(&s->packets);
    }
}
