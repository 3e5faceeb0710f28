/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One request read from both sides at once: each side takes so much that the two queues end
 * together. With p and d tokens queued at the prefill and at the decode node, whose storage NICs
 * are equally fast, and h tokens to read, the decode node takes x of them with
 *     d + x = p + h - x,  x = (h + p - d) / 2,
 * all or nothing when that is beyond h or 0, rounded down to whole Full Blocks: the prefill side,
 * which needs one hop less, gets what is left over. (The DualPath paper leaves splitting a read to
 * future work; the rule follows from its own, the shorter queue.)
 */
#include "sched/policy.h"

uint32_t policy_split_tok(const struct policy_view *v, const struct policy_request *r,
                          uint32_t prefill_node, uint32_t decode_node)
{
    uint64_t here = v->nodes[prefill_node].read_queue_tok + r->hit_tok;
    uint64_t there = v->nodes[decode_node].read_queue_tok;
    if (there >= here) {
        return 0;
    }
    uint64_t tok = (here - there) / 2;
    tok = tok < r->hit_tok ? tok : r->hit_tok;
    return (uint32_t)(tok - tok % v->cluster->kv.block_tok);
}
