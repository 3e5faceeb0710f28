/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/policy.h"

const struct policy_ops *policy_of(enum cluster_scheduler scheduler)
{
    return scheduler == CLUSTER_ADAPTIVE ? &policy_adaptive : &policy_round_robin;
}

bool policy_reads_on_decode(const struct policy_view *v, const struct policy_request *r,
                            uint32_t prefill_node, uint32_t decode_node)
{
    switch (v->cluster->path) {
    case CLUSTER_PREFILL:
        return false;
    case CLUSTER_DECODE:
        return true;
    case CLUSTER_PATH_ROUND_ROBIN:
        return r->ticket % 2 == 1;
    case CLUSTER_SHORTER_QUEUE:
        break;
    }
    return v->nodes[decode_node].read_queue_tok < v->nodes[prefill_node].read_queue_tok;
}
