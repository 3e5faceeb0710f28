/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/trace_formats.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool has_json(const struct trace_probe *p, const char *const *names)
{
    return trace_probe_has(p, TRACE_PROBE_JSON, names);
}

static bool has_columns(const struct trace_probe *p, const char *const *names)
{
    return trace_probe_has(p, TRACE_PROBE_TEXT, names);
}

/* The first character of the value of a key, 0 when there is no such key. */
static char value_kind(const struct trace_probe *p, const char *name)
{
    const struct trace_probe_field *f = trace_probe_field(p, name);
    return f ? f->value[0] : 0;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static bool is_dualpath(const struct trace_probe *p)
{
    return has_json(p, NAMES("schema", "block_tok", "sessions"));
}

static bool is_weka(const struct trace_probe *p)
{
    return has_json(p, NAMES("requests", "block_size"));
}

static bool is_bailian(const struct trace_probe *p)
{
    return has_json(p, NAMES("chat_id", "parent_chat_id", "hash_ids"));
}

static bool is_ragpulse(const struct trace_probe *p)
{
    return has_json(p, NAMES("timestamp", "hash_ids")) && value_kind(p, "hash_ids") == '{';
}

static bool is_mooncake(const struct trace_probe *p)
{
    return has_json(p, NAMES("hash_ids")) &&
           (has_json(p, NAMES("input_length")) || has_json(p, NAMES("input_tokens")));
}

static bool is_llmservingsim(const struct trace_probe *p)
{
    return has_json(p, NAMES("sub_requests")) ||
           has_json(p, NAMES("input_toks", "arrival_time_ns"));
}

static bool is_lmcache(const struct trace_probe *p)
{
    return has_json(p, NAMES("session_id", "input", "pre_gap"));
}

static bool is_agent_log(const struct trace_probe *p)
{
    return has_json(p, NAMES("type", "sessionId", "message"));
}

static bool is_dynamo_events(const struct trace_probe *p)
{
    return has_json(p, NAMES("timestamp", "event")) && value_kind(p, "event") == '{';
}

static bool is_azure(const struct trace_probe *p)
{
    return has_columns(p, NAMES("TIMESTAMP", "ContextTokens", "GeneratedTokens"));
}

static bool is_burstgpt(const struct trace_probe *p)
{
    return has_columns(p, NAMES("Timestamp", "Request tokens", "Response tokens"));
}

static bool is_vidur(const struct trace_probe *p)
{
    return has_columns(p, NAMES("arrived_at", "num_prefill_tokens", "num_decode_tokens"));
}

static bool is_splitwise(const struct trace_probe *p)
{
    return has_columns(p, NAMES("arrival_timestamp", "prompt_size", "token_size"));
}

static bool is_tracelab(const struct trace_probe *p)
{
    return has_columns(p,
                       NAMES("session_id", "round_idx", "prefix_len", "input_len", "output_len"));
}

const struct trace_format trace_formats[] = {
    {"dualpath", is_dualpath, trace_read_dualpath, "this project's own traces, JSON lines"},
    {"weka", is_weka, trace_read_weka, "WEKA coding-agent sessions, JSON"},
    {"bailian", is_bailian, trace_read_bailian, "Qwen-Bailian usage trace, JSON lines"},
    {"ragpulse", is_ragpulse, trace_read_ragpulse, "RAGPulse trace, JSON lines"},
    {"mooncake", is_mooncake, trace_read_mooncake, "Mooncake trace, JSON lines"},
    {"llmservingsim", is_llmservingsim, trace_read_llmservingsim,
     "LLMServingSim workload, JSON lines"},
    {"lmcache-agentic", is_lmcache, NULL, "LMCache agentic messages, JSON lines"},
    {"agent-log", is_agent_log, NULL, "log of a coding agent's messages, JSON lines"},
    {"dynamo-events", is_dynamo_events, NULL, "Dynamo request events, JSON lines"},
    {"azure", is_azure, trace_read_azure, "Azure LLM inference trace, CSV"},
    {"burstgpt", is_burstgpt, trace_read_burstgpt, "BurstGPT, CSV"},
    {"vidur", is_vidur, trace_read_vidur, "Vidur arrivals, CSV"},
    {"splitwise", is_splitwise, trace_read_splitwise, "splitwise-sim arrivals, CSV"},
    {"tracelab", is_tracelab, trace_read_tracelab, "TraceLab replay, CSV"},
    {NULL, NULL, NULL, NULL},
};

/* The names of the formats that can be read, for messages. */
static void list_names(char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = '\0';
    for (const struct trace_format *f = trace_formats; f->name; f++) {
        if (f->read && n < size) {
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? ", " : "", f->name);
        }
    }
}

static int detect(const struct trace_probe *probe, const struct trace_format **ret_format,
                  struct err *err)
{
    char names[256];
    list_names(names, sizeof(names));
    if (probe->kind == TRACE_PROBE_GIT_LFS) {
        return err_set(
            err, -EINVAL,
            "this is a git-lfs pointer, not the trace; run git lfs pull where it came from");
    }
    if (probe->kind == TRACE_PROBE_EMPTY) {
        return err_set(err, -EINVAL, "the file is empty, expected a trace");
    }
    for (const struct trace_format *f = trace_formats; f->name; f++) {
        if (f->detect(probe)) {
            *ret_format = f;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "found no known trace format, expected one of: %s", names);
}

static int find_by_name(const char *name, const struct trace_format **ret_format, struct err *err)
{
    for (const struct trace_format *f = trace_formats; f->name; f++) {
        if (strcmp(f->name, name) == 0) {
            *ret_format = f;
            return 0;
        }
    }
    char names[256];
    list_names(names, sizeof(names));
    return err_set(err, -EINVAL, "found trace format \"%s\", expected one of: %s", name, names);
}

int trace_format_find(const char *name, const char *path, const struct trace_format **ret_format,
                      struct err *err)
{
    struct trace_probe probe;
    const struct trace_format *f = NULL;
    struct err local = ERR_INIT;
    int rc = trace_probe_open(&probe, path, &local);
    if (rc == 0) {
        bool by_name = name && probe.kind != TRACE_PROBE_GIT_LFS;
        rc = by_name ? find_by_name(name, &f, &local) : detect(&probe, &f, &local);
        trace_probe_done(&probe);
    }
    if (rc == 0 && !f->read) {
        rc = err_set(&local, -ENOTSUP, "recognised the format \"%s\" (%s), which is not supported",
                     f->name, f->about);
    }
    if (rc < 0) {
        *err = err->set ? *err : local;
        return rc;
    }
    *ret_format = f;
    return 0;
}
