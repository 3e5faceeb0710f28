/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "real/agent_report.h"

#include "real/flat_json.h"

#define U64(member) FLAT_FIELD(struct agent_report, FLAT_U64, member)
#define EACH_CLASS(member)                                                                         \
    U64(member[0]), U64(member[1]), U64(member[2]), U64(member[3]), U64(member[4])
#define EACH_GPU(member)                                                                           \
    U64(member[0]), U64(member[1]), U64(member[2]), U64(member[3]), U64(member[4]),                \
        U64(member[5]), U64(member[6]), U64(member[7]), U64(member[8]), U64(member[9]),            \
        U64(member[10]), U64(member[11]), U64(member[12]), U64(member[13]), U64(member[14]),       \
        U64(member[15])

_Static_assert(DP_N_CLASSES == 5 && MSG_MAX_GPUS == 16, "EACH_CLASS and EACH_GPU list them all");

static const struct flat_field fields[] = {
    U64(computed_tok),
    U64(chunks),
    U64(generated_tok),
    U64(persisted_blocks),
    U64(kept_tok),
    EACH_GPU(attention_ns),
    EACH_GPU(gpu_used_ns),
    EACH_CLASS(bytes_in),
    EACH_CLASS(bytes_out),
    EACH_CLASS(ops),
    EACH_CLASS(bytes_failed),
    U64(blocks_read),
    U64(blocks_written),
    U64(rows_verified),
    U64(outputs_checked),
    U64(forwards),
    U64(steps),
    U64(faults),
    U64(in_flight),
    U64(room_used),
    U64(requests_left),
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

char *agent_report_write(const struct agent_report *r)
{
    return flat_json_write(fields, N_FIELDS, r);
}

int agent_report_read(const char *text, struct agent_report *ret, struct err *err)
{
    int rc = flat_json_read(fields, N_FIELDS, text, ret, err);
    if (rc) {
        err_at(err, "an agent's report", 0, 0);
    }
    return rc;
}
