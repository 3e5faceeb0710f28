/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What an agent tells the hub at the end: counters of its node, and what must be zero. Travels as
 * flat JSON. */
#ifndef DUALPATH_REAL_AGENT_REPORT_H
#define DUALPATH_REAL_AGENT_REPORT_H

#include <stdint.h>

#include "base/err.h"
#include "datapath/dp.h"
#include "sched/message.h"

struct agent_report {
    uint64_t computed_tok, chunks;            /* prefill nodes */
    uint64_t generated_tok, persisted_blocks; /* decode nodes */
    uint64_t kept_tok;                        /* decode nodes: hits that had not to be read */
    uint64_t attention_ns[MSG_MAX_GPUS];      /* of forwards, by engine */
    /* As report/result.h counts the use of a GPU: prefill, time in forwards as far as they are
     * full; decode, time for which all the HBM for KV would have been held. */
    uint64_t gpu_used_ns[MSG_MAX_GPUS];
    uint64_t bytes_in[DP_N_CLASSES], bytes_out[DP_N_CLASSES]; /* by traffic class */
    uint64_t bytes_failed[DP_N_CLASSES];
    uint64_t ops[DP_N_CLASSES];
    uint64_t blocks_read, blocks_written;    /* storage, every one verified */
    uint64_t rows_verified, outputs_checked; /* KV rows and attention outputs that were right */
    uint64_t forwards, steps;

    /* Zero after a good run. */
    uint64_t faults;
    uint64_t in_flight;     /* transfers */
    uint64_t room_used;     /* bytes of the buffers and blocks of HBM still taken */
    uint64_t requests_left; /* requests and block writes not forgotten */
};

char *agent_report_write(const struct agent_report *r);
int agent_report_read(const char *text, struct agent_report *ret, struct err *err);

#endif
