/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>

#include "input/trace_weka.h"

/* What speaks for v7 and for v8, the strongest kind first. */
enum { EVIDENCE_TIMES, EVIDENCE_LENGTHS, EVIDENCE_FIRST_ID, N_EVIDENCE };

struct evidence {
    const struct json_rows *rows;
    uint32_t block_tok;
    bool v7[N_EVIDENCE], v8[N_EVIDENCE];
    bool subagents;
};

/* A subagent's requests cannot start before its spawn. In v7 that is the marker's own time, and the
 * requests' times are absolute; in v8 they count from 0 and end within the duration. */
static void see_times(struct evidence *e, const json_t *marker)
{
    const json_t *list = json_object_get(marker, "requests");
    const json_t *at = json_object_get(marker, "t");
    const json_t *first = json_object_get(json_array_get(list, 0), "t");
    const json_t *duration = json_object_get(marker, "duration_ms");
    if (json_array_size(list) == 0) {
        return;
    }
    e->subagents = true;
    if (!json_is_number(at) || !json_is_number(first)) {
        return;
    }
    double marker_s = json_number_value(at), first_s = json_number_value(first);
    if (first_s < marker_s) {
        e->v8[EVIDENCE_TIMES] = true;
    } else if (json_is_number(duration) && first_s > json_number_value(duration) / 1000) {
        e->v7[EVIDENCE_TIMES] = true;
    }
}

/* v8 drops a prompt's partial last block, v7 counts it; v8 numbers blocks from 1, v7 from 0. */
static void see_ids(struct evidence *e, const json_t *request)
{
    const json_t *in = json_object_get(request, "in");
    struct json_at at = {e->rows, request, ""};
    struct err ignored = ERR_INIT;
    const uint64_t *ids;
    uint32_t n;
    if (!json_is_integer(in) || json_at_ids(&at, &ids, &n, &ignored) < 0) {
        return;
    }
    json_int_t tok = json_integer_value(in), full = tok / e->block_tok;
    if (tok % e->block_tok != 0) {
        e->v8[EVIDENCE_LENGTHS] |= n == full;
        e->v7[EVIDENCE_LENGTHS] |= n == full + 1;
    }
    for (uint32_t i = 0; i < n && !e->v7[EVIDENCE_FIRST_ID]; i++) {
        e->v7[EVIDENCE_FIRST_ID] = ids[i] == 0;
    }
    e->v8[EVIDENCE_FIRST_ID] |= n > 0 && ids[0] == 1;
}

static void see_requests(struct evidence *e, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *request = json_array_get(list, i);
        if (weka_is_subagent(request)) {
            see_times(e, request);
            see_requests(e, json_object_get(request, "requests"));
        } else {
            see_ids(e, request);
        }
    }
}

int weka_find_dialect(const struct json_at *trace, const char *name, uint32_t block_tok,
                      enum weka_dialect *ret_dialect, struct err *err)
{
    struct evidence e = {.rows = trace->rows, .block_tok = block_tok};
    if (name) {
        bool v7 = strcmp(name, "v7") == 0;
        if (!v7 && strcmp(name, "v8") != 0) {
            return err_set(err, -EINVAL, "found WEKA dialect \"%s\", expected v7 or v8", name);
        }
        *ret_dialect = v7 ? WEKA_V7 : WEKA_V8;
        return 0;
    }
    see_requests(&e, json_object_get(trace->object, "requests"));
    for (int i = 0; i < N_EVIDENCE; i++) {
        if (e.v7[i] != e.v8[i]) {
            *ret_dialect = e.v7[i] ? WEKA_V7 : WEKA_V8;
            return 0;
        }
    }
    *ret_dialect = WEKA_ANY;
    return e.subagents
               ? json_at_error(trace, "requests", err,
                               "nothing tells whether subagent times are of WEKA dialect v7 or v8; "
                               "name the dialect")
               : 0;
}
