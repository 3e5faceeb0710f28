/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/run_real.h"

#include <errno.h>

#define JOIN_PATH     "dualpath-join.json"
#define WAIT_LOCAL_S  60
#define WAIT_LAUNCH_S 600

static void note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "dualpath: note: %s\n", text);
}

static void print_launch(const struct scenario *sc, const char *join_path)
{
    unsigned n = sc->cluster.prefill_nodes + sc->cluster.decode_nodes;
    fprintf(
        stderr,
        "Start one agent on each of %u nodes, with %s where all of them can read it (and nobody "
        "else):\n"
        "  srun --nodes=%u --ntasks=%u --ntasks-per-node=1 dualpath-node --join %s\n"
        "  mpirun -np %u --map-by ppr:1:node dualpath-node --join %s\n"
        "  ssh HOST_i dualpath-node --join %s --node i     (for i = 0 .. %u; the first %u "
        "prefill)\n",
        n, join_path, n, n, join_path, n, join_path, join_path, n - 1, sc->cluster.prefill_nodes);
}

int run_real_new(const struct scenario *sc, const struct run_real_args *args,
                 const struct run_real_files *files, const atomic_bool *interrupted,
                 struct real_run **ret, struct err *err)
{
    if (args->print_launch && !args->listen) {
        return err_set(err, -EINVAL,
                       "--print-launch needs --listen, the address that agents reach");
    }
    if (!args->print_launch && (args->join_path || args->listen)) {
        return err_set(err, -EINVAL, "--join-file and --listen go with --print-launch");
    }
    const char *join_path = args->join_path ? args->join_path : JOIN_PATH;
    double wait_s = args->print_launch ? WAIT_LAUNCH_S : WAIT_LOCAL_S;
    const struct real_run_options o = {.interrupted = interrupted,
                                       .note = note,
                                       .requests_csv = files->requests,
                                       .series_csv = files->series,
                                       .decisions_csv = files->decisions,
                                       .join_path = args->print_launch ? join_path : NULL,
                                       .listen = args->listen,
                                       .join_timeout_s = args->wait_s > 0 ? args->wait_s : wait_s};
    int rc = real_run_new(sc, &o, ret, err);
    if (rc == 0 && args->print_launch) {
        print_launch(sc, join_path);
    }
    return rc;
}
