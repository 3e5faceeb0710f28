/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * WEKA coding-agent sessions (callanjfox/kv-cache-tester): what trace_weka.c and
 * trace_weka_dialect.c share.
 *
 * Two dialects differ in what the time of a subagent's marker means. v8: a completed subagent's
 * marker stands at its completion, its requests count from its spawn, duration_ms earlier. v7: the
 * marker stands at the spawn and the requests have the times of the whole trace. In both, an
 * async_launched marker stands at the spawn and the parent does not wait.
 */
#ifndef DUALPATH_INPUT_TRACE_WEKA_H
#define DUALPATH_INPUT_TRACE_WEKA_H

#include <jansson.h>
#include <string.h>

#include "base/err.h"
#include "input/json_rows.h"

enum weka_dialect {
    WEKA_ANY, /* no subagents: both readings agree */
    WEKA_V7,
    WEKA_V8,
};

/*
 * The dialect of one trace: the one called name ("v7", "v8"), or, when name is NULL, the one that
 * the trace shows. -EINVAL when it has subagents and nothing tells the dialects apart. Members of a
 * wrong type are no evidence; the reader reports them.
 */
int weka_find_dialect(const struct json_at *trace, const char *name, uint32_t block_tok,
                      enum weka_dialect *ret_dialect, struct err *err);

static inline bool weka_is_subagent(const json_t *request)
{
    const char *type = json_string_value(json_object_get(request, "type"));
    return type && strcmp(type, "subagent") == 0;
}

#endif
