/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath-node: the agent of one node of a real run. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "real/agent.h"

enum { EXIT_OK = 0, EXIT_RUN_FAILED = 1, EXIT_BAD_INPUT = 2, EXIT_NO_DEVICE = 77 };

static const char help[] =
    "Usage: dualpath-node --join FILE [--node N] [OPTIONS]\n"
    "\n"
    "The agent of one node of a real run. 'dualpath run --backend real' starts agents by itself, "
    "or prints\n"
    "the line that starts them on a cluster (--print-launch).\n"
    "\n"
    "  --join FILE      the join file that 'dualpath run' has written: where the hub is, and the "
    "keys\n"
    "  --node N         which node this is (default: the rank that srun or mpirun has given)\n"
    "  --host ADDRESS   numeric address to listen at (default: the one that leads to the hub)\n"
    "  --wait SECONDS   give up without a word from the hub for so long (default: 60)\n"
    "  --version, --help\n"
    "\n"
    "Exit status: 0 the node has reported, 1 it has failed, 2 bad input, 77 hardware is missing\n"
    "here.\n";

/* The rank within an srun, Open MPI or PMI launch, or NULL. */
static const char *launch_rank(void)
{
    static const char *const names[] = {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    const char *rank = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !rank; i++) {
        rank = getenv(names[i]);
    }
    return rank;
}

static int usage(const char *what)
{
    fprintf(stderr, "dualpath-node: %s\nTry 'dualpath-node --help'.\n", what);
    return EXIT_BAD_INPUT;
}

static int parse_node(const char *text, uint32_t *ret_node)
{
    char *end;
    errno = 0;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (!text || text[0] < '0' || text[0] > '9' || *end || errno || n >= UINT32_MAX) {
        return -EINVAL;
    }
    *ret_node = (uint32_t)n;
    return 0;
}

static int run(const struct agent_options *o)
{
    struct err err = ERR_INIT;
    if (agent_run(o, &err) == 0) {
        return EXIT_OK;
    }
    char text[1400];
    err_format(&err, text, sizeof(text));
    fprintf(stderr, "dualpath-node: node %u: %s\n", o->node, text);
    if (err.code == -ENODEV) {
        return EXIT_NO_DEVICE;
    }
    return err.code == -EINVAL || err.code == -ENOENT || err.code == -EACCES ? EXIT_BAD_INPUT
                                                                             : EXIT_RUN_FAILED;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"join", required_argument, NULL, 'j'},
                                            {"node", required_argument, NULL, 'n'},
                                            {"host", required_argument, NULL, 'a'},
                                            {"wait", required_argument, NULL, 'w'},
                                            {"version", no_argument, NULL, 'v'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct agent_options o = {0};
    const char *node = launch_rank();
    double wait_s = 60;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'j':
            o.join_path = optarg;
            break;
        case 'n':
            node = optarg;
            break;
        case 'a':
            o.host = optarg;
            break;
        case 'w':
            if (units_parse(UNIT_S, optarg, &wait_s) || wait_s <= 0 || wait_s > 1e6) {
                return usage("--wait: expected seconds above 0");
            }
            break;
        case 'v':
            printf("dualpath-node %s\n", DUALPATH_VERSION);
            return EXIT_OK;
        case 'h':
            fputs(help, stdout);
            return EXIT_OK;
        default:
            return EXIT_BAD_INPUT;
        }
    }
    if (!o.join_path || optind != argc) {
        return usage(o.join_path ? "unexpected argument" : "no join file given");
    }
    if (parse_node(node, &o.node)) {
        return usage("which node is this? expected --node N, or an srun or mpirun launch");
    }
    o.join_timeout_ns = units_s_to_ns(wait_s);
    return run(&o);
}
