/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A resolved scenario: every key has a value, and the table in scenario_keys.c says for each where
 * the default comes from. JSON in, plain C values out; nothing here refers to a backend.
 */
#ifndef DUALPATH_INPUT_SCENARIO_H
#define DUALPATH_INPUT_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/card.h"
#include "model/gpu.h"
#include "model/timing.h"

enum scheduler_kind { SCHEDULER_ADAPTIVE, SCHEDULER_ROUND_ROBIN };
enum packing_kind { PACKING_QUOTA, PACKING_TOKENS };
enum path_policy { PATH_SHORTER_QUEUE, PATH_PREFILL, PATH_DECODE, PATH_ROUND_ROBIN, PATH_SPLIT };
enum decode_buffer { DECODE_BUFFER_DRAM, DECODE_BUFFER_HBM };
enum hbm_promise { HBM_PROMISE_ASSIGNMENT, HBM_PROMISE_PREFILL, HBM_PROMISE_ADMISSION };
enum buffer_answer { BUFFER_ANSWER_AT_ONCE, BUFFER_ANSWER_WITH_STEP };
enum decode_reuse { DECODE_REUSE_NONE, DECODE_REUSE_HBM, DECODE_REUSE_DRAM };
enum restore_kind {
    RESTORE_BY_KV,
    RESTORE_BY_HIDDEN_STATES,
    RESTORE_BY_COMPRESSED,
    RESTORE_BY_GPU_DIRECT
};
enum fidelity { FIDELITY_AUTO, FIDELITY_LAYER, FIDELITY_PACKET };
enum fetch_kind { FETCH_AT_FORWARD, FETCH_PERIODIC };
enum qos_mode { QOS_SPEC, QOS_LOW_ONLY, QOS_NONE };
enum qos_other { QOS_OTHER_SAME, QOS_OTHER_SPEC, QOS_OTHER_LOW_ONLY, QOS_OTHER_NONE };
enum submit_kind { SUBMIT_RDMA_BATCHED, SUBMIT_RDMA, SUBMIT_CUDA_MEMCPY };
enum arrival_kind { ARRIVAL_OFFLINE, ARRIVAL_POISSON, ARRIVAL_RECORDED };

struct storage_profile {
    char name[64];
    double latency_median_s; /* per I/O, lognormal; 0 = none */
    double latency_sigma;
    double efficiency_max;  /* share of the SNIC's line rate reached by very large I/O */
    double half_size_bytes; /* I/O of size s reaches e = efficiency_max * s/(s + half) */
    /* What one request in service, a read or a write, reaches at most for each GPU of its engine: a
     * line rate, and so many I/Os in flight, each for latency_median_s. 0 = no limit. */
    double stream_Bps;
    uint32_t stream_ios;
    uint32_t read_queues; /* of a node; a GPU reads through that of its number, modulo; 0 = 1 */
    uint32_t reads_in_service; /* FIFO queue of which this many are read, processor sharing */
    uint32_t writes_in_service;
    double cluster_Bps;      /* aggregate limit of the storage cluster; 0 = none */
    uint64_t capacity_bytes; /* of the storage, for KV; 0 = no limit */
    char source[256];
};

struct scenario_cluster {
    uint32_t prefill_nodes, decode_nodes, gpus_per_node;
    struct gpu_profile gpu;
    double cnic_Bps;            /* goodput of one compute NIC, each direction */
    double snic_Bps;            /* line rate of one node's storage NIC */
    double dram_Bps;            /* half-duplex: reads + writes */
    uint64_t dram_buffer_bytes; /* KV staging buffer per node */
    uint64_t dram_cache_bytes;  /* per node, beside the buffer: cache of KV blocks; 0 = none */
    uint64_t hbm_bytes;         /* per GPU; written as 0 = the GPU profile's */
    struct storage_profile storage;
};

struct scenario_system {
    char preset[32];
    bool layerwise, dual_path, free_transfers; /* free_transfers: the oracle */
    enum scheduler_kind scheduler;
    enum path_policy path_policy;
    enum decode_buffer decode_buffer; /* where a decode node gathers a prompt's KV */
    enum hbm_promise hbm_promise;     /* when HBM counts as taken for the scheduler */
    enum buffer_answer buffer_answer; /* when decode engines answer who is about to read */
    enum decode_reuse decode_reuse;   /* where it keeps a context for the agent's next turn */
    enum fidelity fidelity;
    enum packing_kind packing; /* what ends a prefill forward's batch */
    double quota_s;            /* predicted attention time per forward and GPU */
    uint32_t forward_tok;      /* new tokens per forward and GPU, PACKING_TOKENS */
    double alpha_s, beta_s;    /* horizons of the read-queue and token limits */
    enum fetch_kind fetch;     /* when prefill leaders fetch */
    double fetch_period_s;     /* leaders' fetch */
    uint32_t decode_lag_steps; /* steps between admission to a decode engine and the first step */
    double message_latency_s;  /* control plane, one way */
    double scheduler_cost_s; /* central scheduler's work per assignment, charged in virtual time */
    double transfer_latency_s; /* RDMA post to completion, beyond the bytes' own time */
    enum qos_mode qos;         /* at the NIC's port... */
    enum qos_other qos_switch, qos_loopback; /* ...at the switch's egress, and in loopback */
    double kv_queue_pairs;                   /* of a KV transfer */
    bool qos_pcie;                           /* ...and on a GPU's PCIe link, past its NIC */
    enum restore_kind restore;               /* what is stored, and how it comes back */
    double restore_ratio, restore_expand_Bps;
    enum submit_kind submit;
    double submit_rdma_s, submit_batched_s, submit_doorbell_s, submit_cuda_s; /* each */
    uint32_t submit_batch;                    /* work requests per doorbell */
    uint32_t submit_threads;                  /* per GPU */
    uint32_t tp_gpus;                         /* GPUs of an engine; 1 = no tensor parallelism */
    uint32_t prefill_ep_gpus, decode_ep_gpus; /* EP group sizes in GPUs; 1 = no expert parallelism;
                                               * written as 0 = chosen by scenario_read() */
    uint32_t redundant_experts;               /* per layer and EP group */
    uint32_t block_tok;                       /* tokens per KV block */
    double hbm_reserve_frac;                  /* of HBM, for activations and the runtime... */
    double decode_reserve_frac;               /* ...and as much more of a decode engine's */
};

struct scenario_workload {
    char trace[256];      /* as written: a path, or a generator's name: "deepseek-coding" */
    char trace_path[512]; /* where it was found: beside the scenario file or from the working
                           * directory; a generator's name is left as it is. Not part of sha256. */
    char format[32];      /* "" = detect */
    uint64_t max_len_tok; /* trajectories are cut here; written as 0 = the model's context
                           * limit, at most 64K for the generator */
    uint32_t agents;      /* 0 = as many as the trace has sessions */
    enum arrival_kind arrival;
    double aps; /* agents per second, Poisson */
    double append_scale, generation_scale, tool_latency_scale;
    double tool_latency_s; /* a pause before every turn but a session's first, beside the trace's */
    uint32_t trace_block_tok; /* 0 = the trace's own */
    bool tolerant;
};

struct scenario_slo {
    double ttft_s, tpot_s;
};

struct scenario_cost {
    double gpu_hour_usd;
};

struct scenario_report {
    double balance_window_s; /* in which balance between nodes is taken */
};

/* A real run on this machine or cluster; the simulator ignores it. */
struct scenario_hw {
    char transport[16];       /* "mem", "tcp" or "verbs" */
    char rdma_device[64];     /* "" = the first with an active port */
    uint32_t service_level;   /* InfiniBand: picks the virtual lane of KV */
    uint32_t traffic_class;   /* RoCE: DSCP << 2 */
    char compute[16];         /* "cpu" or "cuda" */
    char storage[16];         /* "uring" or "usrbio" */
    char storage_dir[256];    /* seen by all nodes; "" = a temporary directory of this machine */
    uint32_t heads;           /* query heads of the attention layer that is really computed */
    uint32_t check_every;     /* outputs compared with the reference: one in so many */
    uint32_t compute_threads; /* per node */
    uint32_t transport_depth, storage_depth;
    bool retry;     /* requests of a node that dies are run again on others */
    double stuck_s; /* no request has finished for so long: the run is given up */
};

struct scenario {
    char path[256];
    char profile[256]; /* calibration profile whose values it took; "" = none */
    char sha256[65];   /* of the canonical resolved scenario */
    uint64_t seed, tie_seed;
    struct model_card model;
    struct timing_config timing;
    struct scenario_cluster cluster;
    struct scenario_system system;
    struct scenario_workload workload;
    struct scenario_slo slo;
    struct scenario_cost cost;
    struct scenario_report report;
    struct scenario_hw hw; /* not part of sha256 */
};

/* Where a key's value came from. */
enum scenario_by {
    SCENARIO_BY_DEFAULT, /* the table's default */
    SCENARIO_BY_PROFILE, /* the model card, GPU or storage profile that was named */
    SCENARIO_BY_PRESET,
    SCENARIO_BY_CALIBRATION, /* the calibration profile, at line and column of its file */
    SCENARIO_BY_RULE,        /* follows from other keys ("auto" values) */
    SCENARIO_BY_FILE,        /* the scenario file, at line and column */
    SCENARIO_BY_SET,         /* --set */
};

struct scenario_origin {
    enum scenario_by by;
    unsigned line, column; /* SCENARIO_BY_FILE and SCENARIO_BY_CALIBRATION */
};

/* What a person wants to know about a reading besides the values. */
struct scenario_notes {
    struct scenario_origin *origins; /* one per row of scenario_keys */
    char **warnings;                 /* sentences: values that look like a mistake of unit, ... */
    size_t n_warnings;
};

/*
 * Reads, resolves and checks a scenario. path is a file, or the name of a shipped scenario (without
 * '/' and ".json"). sets holds the n_sets PATH=VALUE texts of --set, applied in order after the
 * file: a leaf takes the text as it is (with units), a group an object or the name that stands for
 * it ("model=NAME"), which drops what was set inside the group before. Explicit keys win over the
 * preset's. Files named inside are looked for beside the scenario, then from the working directory.
 *
 * Returns 0 with *ret_scenario and *ret_notes (freed with scenario_notes_done()) filled; otherwise
 * a negative errno with err naming file:line:column ("--set" for those), the field, what was found
 * and what was expected; the outputs are then untouched.
 */
int scenario_read(const char *path, const char *const *sets, size_t n_sets,
                  struct scenario *ret_scenario, struct scenario_notes *ret_notes, struct err *err);

/* The same from memory; source is the path that errors name and that relative names start from. */
int scenario_parse(const char *source, const char *text, size_t size, const char *const *sets,
                   size_t n_sets, struct scenario *ret_scenario, struct scenario_notes *ret_notes,
                   struct err *err);
void scenario_notes_done(struct scenario_notes *notes);

/*
 * All keys of a resolved scenario as one JSON object {"path": value} with sorted keys and no white
 * space: what sha256 is taken over. Returned text is freed with free(); NULL when out of memory.
 */
char *scenario_canonical(const struct scenario *sc);

#endif
