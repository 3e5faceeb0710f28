/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath list: the shipped cards and profiles, with the figures that follow from them. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli_args.h"
#include "cli/commands.h"
#include "input/cards.h"
#include "input/scenario_derive.h"

static const char help[] =
    "Usage: dualpath list models|gpus|storage|scenarios [--format text|json]\n"
    "\n"
    "The shipped cards and profiles. Models: KV-cache bytes per token and cache-compute ratio, GB "
    "to\n"
    "load per PFLOP of an append of 429 tokens on 16K and 64K. GPUs: I/O-compute ratio, GB/s of "
    "the\n"
    "NIC per PFLOPS of the highest dense peak. Storage: share of line rate by I/O size.\n";

#define APPEND_TOK   429 /* of table 1 of arXiv 2602.21548 */
#define GB_PER_PFLOP 1e6 /* 1 byte per FLOP */

/* How one kind of file is listed; the functions read the file and may fill err. */
struct list_kind {
    const char *word, *directory;
    const char *heading;
    int (*print)(const char *name, struct err *err);
    json_t *(*to_json)(const char *name, struct err *err); /* NULL with err unset: out of memory */
    int (*footer)(struct err *err);
};

static double ratio_gb_per_pflop(const struct model_card *card, double context_tok)
{
    return GB_PER_PFLOP * card_cache_compute_ratio(card, context_tok, APPEND_TOK);
}

static const char *attention_name(enum attention_kind kind)
{
    static const char *const names[] = {
        [ATTENTION_GQA] = "gqa", [ATTENTION_MLA] = "mla", [ATTENTION_DSA] = "dsa"};
    return names[kind];
}

static int print_model(const char *name, struct err *err)
{
    struct model_card card;
    int ret = card_read(name, &card, err);
    if (ret == 0) {
        printf("%-18s %-4s %6u %9.1f %9.2f %9llu %-5s %8.1f %8.1f\n", name,
               attention_name(card.attention), card.n_layers, card.total_params / 1e9,
               card.active_params / 1e9, (unsigned long long)card_kv_bytes_per_tok(&card),
               card.kv_dtype, ratio_gb_per_pflop(&card, 16384), ratio_gb_per_pflop(&card, 65536));
    }
    return ret;
}

static json_t *model_json(const char *name, struct err *err)
{
    struct model_card card;
    if (card_read(name, &card, err) < 0) {
        return NULL;
    }
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:I, s:s, s:f, s:f, s:s}", "name", name,
                     "attention", attention_name(card.attention), "n_layers",
                     (json_int_t)card.n_layers, "total_params", card.total_params, "active_params",
                     card.active_params, "kv_bytes_per_tok",
                     (json_int_t)card_kv_bytes_per_tok(&card), "kv_dtype", card.kv_dtype,
                     "gb_per_pflop_16k", ratio_gb_per_pflop(&card, 16384), "gb_per_pflop_64k",
                     ratio_gb_per_pflop(&card, 65536), "source", card.source);
}

static double io_compute_ratio(const struct gpu_profile *gpu, const char **ret_dtype)
{
    return GB_PER_PFLOP * gpu->nic_Bps / gpu_peak_flops(gpu, ret_dtype);
}

static int print_gpu(const char *name, struct err *err)
{
    struct gpu_profile gpu;
    const char *dtype;
    int ret = gpu_read(name, &gpu, err);
    if (ret == 0) {
        double peak = gpu_peak_flops(&gpu, &dtype), ratio = io_compute_ratio(&gpu, &dtype);
        printf("%-8s %11.0f %10.0f %-5s %10.2f %9.0f %9.0f %15.2f\n", name, gpu.bf16_flops / 1e12,
               peak / 1e12, dtype, gpu.hbm_Bps / 1e12, gpu.hbm_bytes / 1e9, gpu.nic_Bps / 1e9,
               ratio);
    }
    return ret;
}

static json_t *gpu_json(const char *name, struct err *err)
{
    struct gpu_profile gpu;
    const char *dtype;
    if (gpu_read(name, &gpu, err) < 0) {
        return NULL;
    }
    double peak = gpu_peak_flops(&gpu, &dtype), ratio = io_compute_ratio(&gpu, &dtype);
    return json_pack("{s:s, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:s}", "name", name, "bf16_flops",
                     gpu.bf16_flops, "peak_flops", peak, "peak_dtype", dtype, "hbm_Bps",
                     gpu.hbm_Bps, "hbm_bytes", gpu.hbm_bytes, "nic_Bps", gpu.nic_Bps,
                     "io_compute_gb_per_pflop", ratio, "source", gpu.source);
}

/* The trend that DualPath starts from: Ampere to Blackwell. */
static int print_gpu_trend(struct err *err)
{
    struct gpu_profile from, to;
    const char *from_dtype, *to_dtype;
    int ret = gpu_read("a100", &from, err);
    if (ret == 0) {
        ret = gpu_read("b200", &to, err);
    }
    if (ret < 0) {
        return ret;
    }
    double compute = gpu_peak_flops(&to, &to_dtype) / gpu_peak_flops(&from, &from_dtype);
    double nic = to.nic_Bps / from.nic_Bps;
    printf("\na100 to b200: compute x %.1f (%s to %s), NIC x %.1f, HBM capacity x %.1f, "
           "I/O per compute / %.1f\n",
           compute, from_dtype, to_dtype, nic, to.hbm_bytes / from.hbm_bytes, compute / nic);
    return 0;
}

static int print_storage(const char *name, struct err *err)
{
    struct storage_profile s;
    int ret = storage_read(name, &s, err);
    if (ret == 0) {
        printf("%-12s %12.3f %9.0f%% %9.0f%% %9.0f%% %9u\n", name, s.latency_median_s * 1e3,
               100 * storage_efficiency(&s, 0x1p18), 100 * storage_efficiency(&s, 0x1p20),
               100 * storage_efficiency(&s, 0x1p24),
               s.reads_in_service * (s.read_queues ? s.read_queues : 1));
    }
    return ret;
}

static json_t *storage_json(const char *name, struct err *err)
{
    struct storage_profile s;
    if (storage_read(name, &s, err) < 0) {
        return NULL;
    }
    return json_pack(
        "{s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:s}", "name", name,
        "latency_median_s", s.latency_median_s, "latency_sigma", s.latency_sigma, "efficiency_max",
        s.efficiency_max, "half_size_bytes", s.half_size_bytes, "stream_Bps", s.stream_Bps,
        "stream_ios", (json_int_t)s.stream_ios, "read_queues", (json_int_t)s.read_queues,
        "reads_in_service", (json_int_t)s.reads_in_service, "writes_in_service",
        (json_int_t)s.writes_in_service, "cluster_Bps", s.cluster_Bps, "source", s.source);
}

static int print_scenario(const char *name, struct err *err)
{
    (void)err;
    puts(name);
    return 0;
}

static json_t *scenario_json(const char *name, struct err *err)
{
    (void)err;
    return json_pack("{s:s}", "name", name);
}

static const struct list_kind kinds[] = {
    {"models", "models",
     "model              attn layers   total B  active B    KV B/tok     GB/PFLOP 16K      64K",
     print_model, model_json, NULL},
    {"gpus", "gpus",
     "GPU      bf16 TFLOPS  peak TFLOPS      HBM TB/s    HBM GB  NIC GB/s  GB/s per PFLOPS",
     print_gpu, gpu_json, print_gpu_trend},
    {"storage", "storage", "storage        latency ms     256KiB       1MiB      16MiB  in service",
     print_storage, storage_json, NULL},
    {"scenarios", "", NULL, print_scenario, scenario_json, NULL},
};

static const struct list_kind *find_kind(const char *word)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(word, kinds[i].word) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

static int print_text(const struct list_kind *kind, char **names, struct err *err)
{
    if (kind->heading) {
        puts(kind->heading);
    }
    for (char **name = names; *name; name++) {
        if (kind->print(*name, err) < 0) {
            return cli_bad_input(err);
        }
    }
    if (kind->footer && kind->footer(err) < 0) {
        return cli_bad_input(err);
    }
    return EXIT_OK;
}

static int print_json(const struct list_kind *kind, char **names, struct err *err)
{
    json_t *list = json_array();
    for (char **name = names; *name; name++) {
        json_t *row = kind->to_json(*name, err);
        if (!row) {
            json_decref(list);
            return err->set ? cli_bad_input(err) : cli_print_json(NULL);
        }
        json_array_append_new(list, row);
    }
    return cli_print_json(json_pack("{s:o}", kind->word, list));
}

static int list(const struct list_kind *kind, enum cli_format format)
{
    struct err err = ERR_INIT;
    char **names;
    if (cards_names(kind->directory, &names, &err) < 0) {
        return cli_bad_input(&err);
    }
    int status = format == CLI_JSON ? print_json(kind, names, &err) : print_text(kind, names, &err);
    cards_names_free(names);
    return status;
}

int cmd_list(int argc, char **argv)
{
    static const struct option options[] = {
        {"format", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    enum cli_format format = CLI_TEXT;
    struct err err = ERR_INIT;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return EXIT_OK;
        }
        if (option == '?' || option == ':') {
            return cli_usage(argv[0], "%s: %s", argv[optind - 1],
                             option == ':' ? "a value is missing" : "no such option");
        }
        if (cli_parse_format(optarg, &format, &err) < 0) {
            return cli_bad_input(&err);
        }
    }
    const struct list_kind *kind = optind < argc ? find_kind(argv[optind]) : NULL;
    if (!kind || optind + 1 < argc) {
        return cli_usage(argv[0], "expected one of models, gpus, storage, scenarios");
    }
    return list(kind, format);
}
