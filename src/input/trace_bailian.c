/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Qwen-Bailian usage traces (alibaba-edu/qwen-bailian-usagetraces-anon), JSON lines. A row:
 * chat_id, parent_chat_id, timestamp (s), input_length (the whole conversation so far),
 * output_length, hash_ids: one per 16 tokens, the partial last block included. An id hashes its
 * block's content alone, so a hit needs the whole prefix (the trie). Open loop: only starts are
 * recorded, and a chat may have several children.
 */
#include "base/units.h"
#include "input/trace_formats.h"
#include "input/trace_rows.h"

#define DEFAULT_BLOCK_TOK 16

static int add_row(struct trace_build *b, const struct json_at *at, uint64_t row, void *arg,
                   struct err *err)
{
    const uint32_t *scope = arg;
    struct trace_turn turn = {0};
    const uint64_t *ids;
    uint32_t n_ids;
    int64_t t_ns = 0;
    int rc = json_at_time(at, "timestamp", NS_PER_S, &t_ns, NULL, err);
    rc = rc < 0 ? rc : json_at_u32(at, "input_length", &turn.prompt_tok, err);
    rc = rc < 0 ? rc : json_at_u32(at, "output_length", &turn.gen_tok, err);
    rc = rc < 0 ? rc : json_at_ids(at, &ids, &n_ids, err);
    rc = rc < 0 ? rc : trace_check_block_count(b, at, turn.prompt_tok, n_ids, err);
    if (rc < 0 || trace_drops_output(b, turn.gen_tok)) {
        return rc;
    }
    turn.t_ns = (uint64_t)t_ns;
    return trace_add_request(b, row, *scope, &turn, ids, n_ids);
}

int trace_read_bailian(struct trace_build *b, const char *path, struct err *err)
{
    uint32_t scope = b->t->n_scopes++;
    int rc = trace_set_block_tok(
        b, b->options->block_tok ? b->options->block_tok : DEFAULT_BLOCK_TOK, err);
    return rc < 0 ? rc : trace_read_json_lines(b, path, add_row, &scope, err);
}
