/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/packet_mode.h"

#include <errno.h>

double packet_mode_packets(const struct cluster *c, const struct workload *w)
{
    double copied_tok = 0;
    for (uint32_t i = 0; i < w->n_sessions; i++) {
        struct workload_session s;
        w->ops->session(w, i, &s);
        for (uint32_t k = 0; k < s.n_turns; k++) {
            struct workload_turn t;
            w->ops->turn(w, i, k, &t);
            copied_tok += 3.0 * t.prompt_tok + t.gen_tok;
        }
    }
    double tok_bytes = (double)(c->kv.layer_tok_bytes * c->kv.n_layers);
    return copied_tok * tok_bytes / PACKET_PAYLOAD_BYTES;
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
    struct packet_dp_config config = packet_dp_paper_config(VLARB_SPEC, VLARB_SPEC);
    return packet_dp_init(&s->packets, &s->dp, &config, err);
}

void packet_mode_done(struct simulation *s)
{
    if (s->packets.sd) {
        packet_dp_done(&s->packets);
    }
}
