/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/trace_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/block_lru.h"
#include "datapath/block_trie.h"
#include "input/trace_build.h"

/* Fills session_of[turn]. */
static uint32_t *map_sessions(const struct trace *t)
{
    uint32_t *session_of = malloc((t->n_turns + 1) * sizeof(*session_of));
    for (uint32_t s = 0; session_of && s < t->n_sessions; s++) {
        for (uint32_t k = 0; k < t->sessions[s].n_turns; k++) {
            session_of[t->sessions[s].first_turn + k] = s;
        }
    }
    return session_of;
}

static uint32_t scope_of(const struct trace *t, const uint32_t *session_of, uint64_t turn)
{
    return t->sessions[session_of[turn]].scope;
}

/* The ids known to earlier requests, whatever came before them: a trie one level deep, whose values
 * are the number (from 1) of the last request that had the id. */
static int count_ids(struct block_trie *seen, const struct trace_turn *turn, const uint64_t *ids,
                     uint32_t scope, uint32_t number, struct trace_stats *s)
{
    uint32_t root, node;
    int rc = block_trie_add_root(seen, scope, &root);
    for (uint32_t i = 0; rc == 0 && i < turn->n_ids; i++) {
        rc = block_trie_add_child(seen, root, ids[i], &node);
        if (rc < 0) {
            break;
        }
        uint32_t last = block_trie_value(seen, node);
        s->distinct_blocks += last == 0;
        /* An id twice in one request is known to the second place only from itself. */
        s->any_hit_blocks += last != 0 && last != number;
        block_trie_set_value(seen, node, number);
    }
    return rc;
}

static void count_turn(const struct trace *t, const struct trace_turn *turn, uint32_t hit,
                       struct trace_stats *s)
{
    uint64_t tok = (uint64_t)hit * t->block_tok;
    tok = tok < turn->prompt_tok ? tok : turn->prompt_tok;
    s->input_tok += turn->prompt_tok;
    s->output_tok += turn->gen_tok;
    s->block_refs += turn->n_ids;
    s->hit_blocks += hit;
    s->hit_tok += tok;
    s->full_hit_requests += turn->n_ids > 0 && hit == turn->n_ids;
    s->mean_hit_blocks_frac += turn->n_ids ? (double)hit / turn->n_ids : 0;
    s->mean_hit_tok_frac += turn->prompt_tok ? (double)tok / turn->prompt_tok : 0;
    int64_t at = t->base_ns + (int64_t)turn->t_ns;
    s->first_ns = at < s->first_ns ? at : s->first_ns;
    s->last_ns = at > s->last_ns ? at : s->last_ns;
}

static double ratio(double part, uint64_t whole)
{
    return whole ? part / (double)whole : 0;
}

static int walk(const struct trace *t, const uint32_t *session_of, struct block_trie *trie,
                struct block_trie *seen, struct trace_stats *s)
{
    uint64_t with_ids = 0, with_tok = 0;
    for (uint64_t i = 0; i < t->n_turns; i++) {
        const struct trace_turn *turn = &t->turns[t->file_order[i]];
        const uint64_t *ids = trace_turn_ids(t, turn);
        uint32_t scope = scope_of(t, session_of, t->file_order[i]);
        uint32_t hit = 0;
        if (turn->n_ids > 0) {
            hit = block_trie_match(trie, scope, ids, turn->n_ids, NULL);
            int rc = block_trie_insert(trie, scope, ids, turn->n_ids, NULL);
            rc = rc < 0 ? rc : count_ids(seen, turn, ids, scope, (uint32_t)(i + 1), s);
            if (rc < 0) {
                return rc;
            }
        }
        count_turn(t, turn, hit, s);
        with_ids += turn->n_ids > 0;
        with_tok += turn->prompt_tok > 0;
    }
    s->hit_blocks_frac = ratio((double)s->hit_blocks, s->block_refs);
    s->hit_tok_frac = ratio((double)s->hit_tok, s->input_tok);
    s->mean_hit_blocks_frac = ratio(s->mean_hit_blocks_frac, with_ids);
    s->mean_hit_tok_frac = ratio(s->mean_hit_tok_frac, with_tok);
    return 0;
}

int trace_stats_compute(const struct trace *t, struct trace_stats *ret_stats, struct err *err)
{
    struct trace_stats s = {.requests = t->n_turns,
                            .sessions = t->n_sessions,
                            .first_ns = INT64_MAX,
                            .last_ns = INT64_MIN};
    struct block_trie trie, seen;
    uint32_t *session_of = map_sessions(t);
    if (!session_of) {
        return err_nomem(err);
    }
    block_trie_init(&trie);
    block_trie_init(&seen);
    int rc = walk(t, session_of, &trie, &seen, &s);
    block_trie_done(&trie);
    block_trie_done(&seen);
    free(session_of);
    if (rc < 0) {
        return err_set(err, rc, "the trace's blocks do not fit: %s", strerror(-rc));
    }
    *ret_stats = s;
    return 0;
}

/* The cache: blocks as nodes of a trie, so that a block is its id with the prefix before it. */
struct lru {
    struct block_trie trie;
    struct block_lru blocks;
};

static struct block_key key_of(uint32_t node)
{
    return (struct block_key){.chain = node};
}

static int touch(struct lru *c, uint32_t node, struct trace_lru *lru)
{
    int rc = block_lru_touch(&c->blocks, key_of(node), NULL)
                 ? 0
                 : block_lru_add(&c->blocks, key_of(node), 0);
    if (rc == 0 && c->blocks.n_blocks > lru->capacity_blocks) {
        block_lru_remove_oldest(&c->blocks, NULL);
        lru->evictions++;
    }
    return rc;
}

static int lru_request(struct lru *c, const struct trace_turn *turn, const uint64_t *ids,
                       uint32_t scope, uint32_t *nodes, struct trace_lru *lru)
{
    int rc = block_trie_insert(&c->trie, scope, ids, turn->n_ids, NULL);
    if (rc < 0) {
        return rc;
    }
    block_trie_path(&c->trie, scope, ids, turn->n_ids, nodes);
    uint32_t hit = 0;
    while (hit < turn->n_ids && block_lru_find(&c->blocks, key_of(nodes[hit]), NULL)) {
        hit++;
    }
    lru->hit_blocks += hit;
    for (uint32_t i = 0; rc == 0 && i < turn->n_ids; i++) {
        rc = touch(c, nodes[i], lru);
    }
    return rc;
}

static uint32_t longest_list(const struct trace *t)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < t->n_turns; i++) {
        n = t->turns[i].n_ids > n ? t->turns[i].n_ids : n;
    }
    return n;
}

int trace_lru_compute(const struct trace *t, struct trace_lru *lru, struct err *err)
{
    struct lru c;
    struct trace_lru result = {.capacity_blocks = lru->capacity_blocks};
    uint32_t *session_of = map_sessions(t);
    uint32_t *nodes = malloc((longest_list(t) + (size_t)1) * sizeof(*nodes));
    int rc = session_of && nodes ? 0 : -ENOMEM;
    block_trie_init(&c.trie);
    block_lru_init(&c.blocks);
    for (uint64_t i = 0; rc == 0 && i < t->n_turns; i++) {
        uint64_t at = t->file_order[i];
        const struct trace_turn *turn = &t->turns[at];
        rc = lru_request(&c, turn, trace_turn_ids(t, turn), scope_of(t, session_of, at), nodes,
                         &result);
    }
    block_trie_done(&c.trie);
    block_lru_done(&c.blocks);
    free(session_of);
    free(nodes);
    if (rc < 0) {
        return err_nomem(err);
    }
    *lru = result;
    return 0;
}
