/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath qos: what a port's QoS settings come to when given lanes are backlogged. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/commands.h"
#include "input/qos_config.h"
#include "sim/ets.h"
#include "sim/vlarb_share.h"

static const char help[] =
    "Usage: dualpath qos --high-limit N --high VL:W,... --low VL:W,... --active VL,... [OPTIONS]\n"
    "       dualpath qos --opensm FILE --active VL,... [OPTIONS]\n"
    "       dualpath qos --ets TC:PCT|TC:strict,... --active TC,... [OPTIONS]\n"
    "\n"
    "The share of a link that each backlogged virtual lane (InfiniBand) or traffic class (RoCE) "
    "gets, the\n"
    "worst delay of a high-priority packet by other lanes, and settings that starve or have no "
    "effect.\n"
    "\n"
    "  --high VL:W,...      High arbitration table, weights 0..255 of 64 B\n"
    "  --low VL:W,...       Low arbitration table\n"
    "  --high-limit N       bytes of High before Low gets a packet: 0..255 of 4096 B; 0 = one "
    "packet,\n"
    "                       255 = no limit\n"
    "  --max-vls N          data lanes the port operates, 1..15 (default 15)\n"
    "  --opensm FILE        all of these from an opensm options file (options above replace its "
    "values)\n"
    "  --opensm-set SET     ca, sw0, swe, sw2sw or rtr: qos_SET_* before qos_* (default: qos_* "
    "only)\n"
    "  --ets LIST           RoCE: classes 0..7, a percentage (1..100, adding up to 100) or "
    "'strict'\n"
    "  --mlnx-qos FILE      RoCE: the same from the listing that mlnx_qos prints\n"
    "  --active LIST        the lanes or classes that always have something to send\n"
    "  --mode MODE          spec (default), low_only (only the Low table acts) or none (no "
    "arbitration)\n"
    "  --count WHAT         charge packets by their 'bytes' on the wire (default) or rounded up to "
    "64 B\n"
    "                       'units'\n"
    "  --mtu BYTES          payload of a packet: 256, 512, 1024, 2048 or 4096 (default)\n"
    "  --link RATE          default 50GB/s\n"
    "  --format FORMAT      text (default) or json\n";

enum {
    OPT_HIGH = 256,
    OPT_LOW,
    OPT_HIGH_LIMIT,
    OPT_MAX_VLS,
    OPT_OPENSM,
    OPT_OPENSM_SET,
    OPT_ETS,
    OPT_MLNX_QOS,
    OPT_ACTIVE,
    OPT_MODE,
    OPT_COUNT,
    OPT_MTU,
    OPT_LINK,
    OPT_FORMAT,
    OPT_HELP,
    OPT_END,
    N_OPTIONS = OPT_END - OPT_HIGH,
};

/* With the dashes, as messages name them. */
static const char *const flags[N_OPTIONS] = {
    [OPT_HIGH - OPT_HIGH] = "--high",
    [OPT_LOW - OPT_HIGH] = "--low",
    [OPT_HIGH_LIMIT - OPT_HIGH] = "--high-limit",
    [OPT_MAX_VLS - OPT_HIGH] = "--max-vls",
    [OPT_OPENSM - OPT_HIGH] = "--opensm",
    [OPT_OPENSM_SET - OPT_HIGH] = "--opensm-set",
    [OPT_ETS - OPT_HIGH] = "--ets",
    [OPT_MLNX_QOS - OPT_HIGH] = "--mlnx-qos",
    [OPT_ACTIVE - OPT_HIGH] = "--active",
    [OPT_MODE - OPT_HIGH] = "--mode",
    [OPT_COUNT - OPT_HIGH] = "--count",
    [OPT_MTU - OPT_HIGH] = "--mtu",
    [OPT_LINK - OPT_HIGH] = "--link",
    [OPT_FORMAT - OPT_HIGH] = "--format",
    [OPT_HELP - OPT_HIGH] = "--help",
};

static const char *const mode_names[] = {
    [VLARB_SPEC] = "spec", [VLARB_LOW_ONLY] = "low_only", [VLARB_NONE] = "none", NULL};
static const char *const count_names[] = {
    [VLARB_COUNT_BYTES] = "bytes", [VLARB_COUNT_UNITS] = "units", NULL};
static const char *const set_names[] = {"ca", "sw0", "swe", "sw2sw", "rtr", NULL};
static const char *const format_names[] = {"text", "json", NULL};

/* The command line as read: arg[option - OPT_HIGH] is its text, NULL when not given. */
struct args {
    const char *arg[N_OPTIONS];
};

struct question {
    bool roce, json;
    struct vlarb_config config;
    struct ets_config ets;
    uint32_t active;
    unsigned mtu_bytes, packet_bytes;
    double link_Bps;
};

static const char *given(const struct args *a, int option)
{
    return a->arg[option - OPT_HIGH];
}

/* Place of an option's value in error messages: "--high:1:3: ...". */
static struct qos_place place_of(int option)
{
    return (struct qos_place){
        .source = flags[option - OPT_HIGH], .field = "", .line = 1, .column = 1};
}

static int bad_value(const struct args *a, int option, const char *expected, struct err *err)
{
    struct qos_place at = place_of(option);
    err_at(err, at.source, 1, 1);
    return err_set(err, -EINVAL, "found '%.60s', expected %s", given(a, option), expected);
}

static int choose(const struct args *a, int option, const char *const *names, const char *expected,
                  unsigned *ret_index, struct err *err)
{
    if (!given(a, option)) {
        return 0;
    }
    for (unsigned i = 0; names[i]; i++) {
        if (strcmp(names[i], given(a, option)) == 0) {
            *ret_index = i;
            return 0;
        }
    }
    return bad_value(a, option, expected, err);
}

static int read_tables(const struct args *a, struct vlarb_config *c, struct err *err)
{
    struct qos_place high = place_of(OPT_HIGH), low = place_of(OPT_LOW);
    struct qos_place limit = place_of(OPT_HIGH_LIMIT), vls = place_of(OPT_MAX_VLS);
    int rc = 0;
    if (given(a, OPT_HIGH)) {
        rc = qos_parse_table(&high, given(a, OPT_HIGH), &c->high, err);
    }
    if (rc == 0 && given(a, OPT_LOW)) {
        rc = qos_parse_table(&low, given(a, OPT_LOW), &c->low, err);
    }
    if (rc == 0 && given(a, OPT_HIGH_LIMIT)) {
        rc = qos_parse_number(&limit, given(a, OPT_HIGH_LIMIT), 0, 255, &c->high_limit, err);
    }
    if (rc == 0 && given(a, OPT_MAX_VLS)) {
        rc = qos_parse_number(&vls, given(a, OPT_MAX_VLS), 1, 15, &c->n_vls, err);
    }
    return rc;
}

/* Notes on what the file leaves open, and on service levels that lead nowhere. */
static int warn_opensm(const struct opensm_qos *q, struct qos_warnings *w)
{
    int rc = q->enabled
                 ? 0
                 : qos_warn(w, "the opensm file does not say 'qos TRUE': opensm leaves the ports "
                               "as they are");
    for (int f = 0; rc == 0 && f < OPENSM_FIELDS; f++) {
        if (q->defaulted >> f & 1) {
            rc = qos_warn(w, "%s is not in the opensm file: opensm's default %s applies",
                          opensm_field_name((enum opensm_field)f),
                          opensm_field_default((enum opensm_field)f));
        }
    }
    for (unsigned sl = 0; rc == 0 && sl < 16 && !(q->defaulted >> OPENSM_SL2VL & 1); sl++) {
        if (q->sl2vl[sl] == VLARB_MGMT_LANE) {
            rc = qos_warn(w, "sl2vl drops SL%u (VL15)", sl);
        } else if (q->sl2vl[sl] >= q->config.n_vls) {
            rc = qos_warn(w, "sl2vl maps SL%u to VL%u, but the port operates VL0 to VL%u only", sl,
                          q->sl2vl[sl], q->config.n_vls - 1);
        }
    }
    return rc;
}

static int read_lanes_config(const struct args *a, struct question *q, struct qos_warnings *w,
                             struct err *err)
{
    int rc = 0;
    if (given(a, OPT_OPENSM)) {
        struct opensm_qos file;
        const char *set = given(a, OPT_OPENSM_SET) ? given(a, OPT_OPENSM_SET) : "";
        unsigned set_index = 0;
        rc = choose(a, OPT_OPENSM_SET, set_names, "ca, sw0, swe, sw2sw or rtr", &set_index, err);
        rc = rc ? rc : opensm_qos_read(given(a, OPT_OPENSM), set, &file, err);
        if (rc == 0) {
            q->config = file.config;
            rc = warn_opensm(&file, w) ? err_nomem(err) : 0;
        }
    }
    rc = rc ? rc : read_tables(a, &q->config, err);
    unsigned mode = VLARB_SPEC, count = VLARB_COUNT_BYTES;
    rc = rc ? rc : choose(a, OPT_MODE, mode_names, "spec, low_only or none", &mode, err);
    rc = rc ? rc : choose(a, OPT_COUNT, count_names, "bytes or units", &count, err);
    q->config.mode = (enum vlarb_mode)mode;
    q->config.count = (enum vlarb_count)count;
    return rc;
}

static int read_classes_config(const struct args *a, struct question *q, struct err *err)
{
    struct qos_place at = place_of(OPT_ETS);
    if (given(a, OPT_MLNX_QOS)) {
        return mlnx_qos_read(given(a, OPT_MLNX_QOS), &q->ets, err);
    }
    return qos_parse_ets(&at, given(a, OPT_ETS), &q->ets, err);
}

static int read_link(const struct args *a, struct question *q, struct err *err)
{
    q->mtu_bytes = 4096;
    q->link_Bps = 50e9;
    if (given(a, OPT_MTU)) {
        struct qos_place at = place_of(OPT_MTU);
        unsigned m = 0;
        int rc = qos_parse_number(&at, given(a, OPT_MTU), 256, 4096, &m, err);
        if (rc) {
            return rc;
        }
        if ((m & (m - 1)) != 0) {
            return bad_value(a, OPT_MTU, "256, 512, 1024, 2048 or 4096", err);
        }
        q->mtu_bytes = m;
    }
    if (given(a, OPT_LINK) && (units_parse(UNIT_BPS, given(a, OPT_LINK), &q->link_Bps) != 0 ||
                               q->link_Bps < 1e6 || q->link_Bps > 1e15)) {
        return bad_value(a, OPT_LINK, "a rate from 1MB/s to 1000TB/s, e.g. 50GB/s or 400Gb/s", err);
    }
    q->packet_bytes =
        q->mtu_bytes + (q->roce ? ROCE_PACKET_OVERHEAD_BYTES : IB_PACKET_OVERHEAD_BYTES);
    return 0;
}

static int read_question(const struct args *a, struct question *q, struct qos_warnings *w,
                         struct err *err)
{
    struct qos_place active = place_of(OPT_ACTIVE);
    unsigned format = 0;
    q->roce = given(a, OPT_ETS) || given(a, OPT_MLNX_QOS);
    int rc = q->roce ? read_classes_config(a, q, err) : read_lanes_config(a, q, w, err);
    rc = rc ? rc
            : qos_parse_lanes(&active, given(a, OPT_ACTIVE),
                              q->roce ? ETS_CLASSES - 1 : VLARB_MGMT_LANE, &q->active, err);
    rc = rc ? rc : read_link(a, q, err);
    rc = rc ? rc : choose(a, OPT_FORMAT, format_names, "text or json", &format, err);
    q->json = format == 1;
    return rc;
}

static int answer(const struct question *q, struct qos_share *ret_share, struct qos_warnings *w,
                  struct err *err)
{
    uint32_t sizes[VLARB_LANES];
    for (unsigned i = 0; i < VLARB_LANES; i++) {
        sizes[i] = (q->active >> i & 1) ? q->packet_bytes : 0;
    }
    int rc = q->roce ? ets_share(&q->ets, sizes, ret_share, err)
                     : vlarb_share(&q->config, sizes, ret_share, err);
    if (rc) {
        return rc;
    }
    rc = q->roce ? ets_warn(&q->ets, sizes, ret_share, w)
                 : vlarb_warn(&q->config, sizes, ret_share, w);
    return rc ? err_nomem(err) : 0;
}

static const char *mode_text(const struct question *q)
{
    return q->roce ? "ets" : mode_names[q->config.mode];
}

static int print_json(const struct question *q, const struct qos_share *s,
                      const struct qos_warnings *w)
{
    json_t *share = json_object(), *ratio = json_object();
    json_t *warnings = json_array(), *high = json_array();
    for (unsigned i = 0; i < VLARB_LANES; i++) {
        char key[16];
        if (s->high_lanes >> i & 1) {
            json_array_append_new(high, json_integer(i));
        }
        snprintf(key, sizeof(key), "%u", i);
        if (q->active >> i & 1) {
            uint64_t num, den;
            qos_share_ratio(s, i, &num, &den);
            json_object_set_new(share, key, json_real(qos_share_frac(s, i)));
            json_object_set_new(ratio, key, json_pack("[I,I]", (json_int_t)num, (json_int_t)den));
        }
    }
    for (size_t i = 0; i < w->n; i++) {
        json_array_append_new(warnings, json_string(w->text[i]));
    }
    json_t *root =
        json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:I,s:I,s:i,s:i,s:f}", "schema", "dualpath/qos/1",
                  "mode", mode_text(q), "share", share, "share_ratio", ratio, "warnings", warnings,
                  "high_lanes", high, "high_blocked_ns_max",
                  (json_int_t)qos_bytes_to_ns(s->high_blocked_bytes_max, q->link_Bps),
                  "high_blocked_bytes_max", (json_int_t)s->high_blocked_bytes_max, "mtu_bytes",
                  (int)q->mtu_bytes, "packet_bytes", (int)q->packet_bytes, "link_Bps", q->link_Bps);
    if (!root) {
        fprintf(stderr, "dualpath qos: out of memory\n");
        return EXIT_RUN_FAILED;
    }
    json_dumpf(root, stdout, JSON_SORT_KEYS | JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
    return EXIT_OK;
}

static int print_text(const struct question *q, const struct qos_share *s,
                      const struct qos_warnings *w)
{
    const char *kind = q->roce ? "TC" : "VL";
    printf("mode %s, packets of %u B (%u B on the wire), link %g GB/s\n\n", mode_text(q),
           q->mtu_bytes, q->packet_bytes, q->link_Bps / 1e9);
    printf("lane    share %%       GB/s  exact\n");
    for (unsigned i = 0; i < VLARB_LANES; i++) {
        if (q->active >> i & 1) {
            double frac = qos_share_frac(s, i);
            uint64_t num, den;
            qos_share_ratio(s, i, &num, &den);
            printf("%s%-4u %9.4f  %9.4f  %llu/%llu\n", kind, i, 100 * frac,
                   frac * q->link_Bps / 1e9, (unsigned long long)num, (unsigned long long)den);
        }
    }
    if (s->high_lanes == 0) {
        printf("\n%s: none is high-priority.\n",
               q->roce ? "No class is strict" : "No lane has a weight in the High table");
    } else {
        printf("\nA high-priority packet waits at most %llu ns (%llu B) for other lanes.\n",
               (unsigned long long)qos_bytes_to_ns(s->high_blocked_bytes_max, q->link_Bps),
               (unsigned long long)s->high_blocked_bytes_max);
    }
    for (size_t i = 0; i < w->n; i++) {
        printf("warning: %s\n", w->text[i]);
    }
    return EXIT_OK;
}

/* Returns 0, or the exit status of wrong usage; *ret_help when help is asked for. */
static int read_args(int argc, char **argv, struct args *a, bool *ret_help)
{
    struct option options[N_OPTIONS + 1] = {{0}};
    for (int i = 0; i < N_OPTIONS; i++) {
        bool has_value = i != OPT_HELP - OPT_HIGH;
        options[i] =
            (struct option){.name = flags[i] + 2, .has_arg = has_value, .val = OPT_HIGH + i};
    }
    int c;
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (c == OPT_HELP) {
            *ret_help = true;
            return 0;
        }
        if (c < OPT_HIGH) {
            return cli_usage("qos", c == ':' ? "'%s' needs a value" : "unknown option '%s'",
                             argv[optind - 1]);
        }
        if (a->arg[c - OPT_HIGH]) {
            return cli_usage("qos", "'%s' is given twice", place_of(c).source);
        }
        a->arg[c - OPT_HIGH] = optarg;
    }
    return optind < argc ? cli_usage("qos", "unexpected argument '%s'", argv[optind]) : 0;
}

static int check_args(const struct args *a)
{
    bool roce = given(a, OPT_ETS) || given(a, OPT_MLNX_QOS);
    bool lanes = given(a, OPT_HIGH) || given(a, OPT_LOW) || given(a, OPT_HIGH_LIMIT) ||
                 given(a, OPT_OPENSM) || given(a, OPT_MODE) || given(a, OPT_MAX_VLS) ||
                 given(a, OPT_COUNT);
    if (!given(a, OPT_ACTIVE)) {
        return cli_usage("qos",
                         "--active is missing: the lanes that always have something to send");
    }
    if (given(a, OPT_ETS) && given(a, OPT_MLNX_QOS)) {
        return cli_usage("qos", "--ets and --mlnx-qos exclude each other");
    }
    if (roce && lanes) {
        return cli_usage(
            "qos", "traffic classes (--ets, --mlnx-qos) and virtual lanes exclude each other");
    }
    if (given(a, OPT_OPENSM_SET) && !given(a, OPT_OPENSM)) {
        return cli_usage("qos", "--opensm-set needs --opensm");
    }
    bool tableless = given(a, OPT_MODE) && strcmp(given(a, OPT_MODE), "none") == 0;
    if (!roce && !given(a, OPT_OPENSM) && !tableless && !given(a, OPT_LOW) && !given(a, OPT_HIGH)) {
        return cli_usage("qos", "--high and --low, --opensm, --ets or --mlnx-qos is missing");
    }
    if (given(a, OPT_HIGH) && !given(a, OPT_HIGH_LIMIT) && !given(a, OPT_OPENSM)) {
        return cli_usage("qos", "--high needs --high-limit");
    }
    return 0;
}

int cmd_qos(int argc, char **argv)
{
    struct args args = {{NULL}};
    struct question q = {0};
    struct qos_share share;
    struct qos_warnings warnings = {0};
    struct err err = ERR_INIT;
    bool want_help = false;
    int status = read_args(argc, argv, &args, &want_help);
    if (want_help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    status = status ? status : check_args(&args);
    if (status) {
        return status;
    }
    if (read_question(&args, &q, &warnings, &err) || answer(&q, &share, &warnings, &err)) {
        status = cli_bad_input(&err);
    } else {
        status = q.json ? print_json(&q, &share, &warnings) : print_text(&q, &share, &warnings);
    }
    qos_warnings_done(&warnings);
    return status;
}
