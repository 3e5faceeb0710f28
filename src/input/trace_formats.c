/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/trace_formats.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool has_json(const struct trace_probe *p, const char *const *names)
{
    return trace_probe_has(p, TRACE_PROBE_JSON, names);
}

/* The first character of the value of a key, 0 when there is no such key. */
static char value_kind(const struct trace_probe *p, const char *name)
{
    const struct trace_probe_field *f = trace_probe_field(p, name);
    return f ? f->value[0] : 0;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

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

static bool is_dynamo_events(const struct trace_probe *p)
{
    return has_json(p, NAMES("timestamp", "event")) && value_kind(p, "event") == '{';
}

#define JSON_KEYS(...)   TRACE_PROBE_JSON, NAMES(__VA_ARGS__)
#define CSV_COLUMNS(...) TRACE_PROBE_TEXT, NAMES(__VA_ARGS__)

const struct trace_format trace_formats[] = {
    {"dualpath", JSON_KEYS("schema", "block_tok", "sessions"), NULL, trace_read_dualpath,
     "this project's own traces, JSON lines"},
    {"weka", JSON_KEYS("requests", "block_size"), NULL, trace_read_weka,
     "WEKA coding-agent sessions, JSON"},
    {"bailian", JSON_KEYS("chat_id", "parent_chat_id", "hash_ids"), NULL, trace_read_bailian,
     "Qwen-Bailian usage trace, JSON lines"},
    {"ragpulse", JSON_KEYS("timestamp", "hash_ids"), is_ragpulse, trace_read_ragpulse,
     "RAGPulse trace, JSON lines"},
    {"mooncake", JSON_KEYS("input_length", "output_length", "hash_ids"), is_mooncake,
     trace_read_mooncake, "Mooncake trace, JSON lines"},
    {"llmservingsim", JSON_KEYS("input_toks", "output_toks", "arrival_time_ns"), is_llmservingsim,
     trace_read_llmservingsim, "LLMServingSim workload, JSON lines"},
    {"lmcache-agentic", JSON_KEYS("session_id", "input", "pre_gap"), NULL, NULL,
     "LMCache agentic messages, JSON lines"},
    {"agent-log", JSON_KEYS("type", "sessionId", "message"), NULL, NULL,
     "log of a coding agent's messages, JSON lines"},
    {"dynamo-events", JSON_KEYS("timestamp", "event"), is_dynamo_events, NULL,
     "Dynamo request events, JSON lines"},
    {"azure", CSV_COLUMNS("TIMESTAMP", "ContextTokens", "GeneratedTokens"), NULL, trace_read_azure,
     "Azure LLM inference trace, CSV"},
    {"burstgpt", CSV_COLUMNS("Timestamp", "Request tokens", "Response tokens"), NULL,
     trace_read_burstgpt, "BurstGPT, CSV"},
    {"vidur", CSV_COLUMNS("arrived_at", "num_prefill_tokens", "num_decode_tokens"), NULL,
     trace_read_vidur, "Vidur arrivals, CSV"},
    {"splitwise", CSV_COLUMNS("arrival_timestamp", "prompt_size", "token_size"), NULL,
     trace_read_splitwise, "splitwise-sim arrivals, CSV"},
    {"tracelab", CSV_COLUMNS("session_id", "round_idx", "prefix_len", "input_len", "output_len"),
     NULL, trace_read_tracelab, "TraceLab replay, CSV"},
    {NULL, TRACE_PROBE_EMPTY, NULL, NULL, NULL, NULL},
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

/* How many of the names the file has, and the first one that it lacks (NULL: none). */
static size_t count_fields(const struct trace_probe *p, const char *const *names,
                           const char **ret_lacking)
{
    size_t n = 0;
    *ret_lacking = NULL;
    for (size_t i = 0; names[i]; i++) {
        bool has = trace_probe_field(p, names[i]) != NULL;
        n += has;
        *ret_lacking = has || *ret_lacking ? *ret_lacking : names[i];
    }
    return n;
}

/* The format of which the file has all fields but one, the more the better: it is probably
 * meant. */
static void describe_nearest(const struct trace_probe *p, char *buf, size_t size)
{
    size_t best = 0;
    buf[0] = '\0';
    for (const struct trace_format *f = trace_formats; f->name; f++) {
        const char *lacking;
        size_t n_names = 0, n = count_fields(p, f->fields, &lacking);
        while (f->fields[n_names]) {
            n_names++;
        }
        if (f->read && f->kind == p->kind && n + 1 == n_names && n > best) {
            best = n;
            snprintf(buf, size, "; %s would be nearest, but the %s \"%s\" is missing", f->name,
                     p->kind == TRACE_PROBE_JSON ? "key" : "column", lacking);
        }
    }
}

/* The names of the first fields, control characters masked. */
static void describe_fields(const struct trace_probe *p, char *buf, size_t size)
{
    const size_t most = 6;
    size_t n = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < p->n_fields && i < most && n < size; i++) {
        n += (size_t)snprintf(buf + n, size - n, "%s%.24s", i ? "," : "", p->fields[i].name);
    }
    for (char *c = buf; *c; c++) {
        *c = (unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f ? '?' : *c;
    }
    if (p->n_fields > most && n < size) {
        snprintf(buf + n, size - n, ",...");
    }
}

static int unknown_format(const struct trace_probe *probe, struct err *err)
{
    char names[256], fields[180], nearest[128];
    list_names(names, sizeof(names));
    describe_fields(probe, fields, sizeof(fields));
    describe_nearest(probe, nearest, sizeof(nearest));
    return err_set(
        err, -EINVAL,
        "no known trace format: found %s \"%s\"%s; expected one of: %s, or a format given "
        "by workload.format (of dualpath trace: --trace-format)",
        probe->kind == TRACE_PROBE_JSON ? "an object with the keys" : "a first line", fields,
        nearest, names);
}

static int detect(const struct trace_probe *probe, const struct trace_format **ret_format,
                  struct err *err)
{
    if (probe->kind == TRACE_PROBE_GIT_LFS) {
        return err_set(
            err, -EINVAL,
            "this is a git-lfs pointer, not the trace; run git lfs pull where it came from");
    }
    if (probe->kind == TRACE_PROBE_EMPTY) {
        return err_set(err, -EINVAL, "the file is empty, expected a trace");
    }
    for (const struct trace_format *f = trace_formats; f->name; f++) {
        if (f->detect ? f->detect(probe) : trace_probe_has(probe, f->kind, f->fields)) {
            *ret_format = f;
            return 0;
        }
    }
    return unknown_format(probe, err);
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
