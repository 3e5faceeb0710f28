/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What 'dualpath run --backend real' takes beyond a simulation: how agents are started. */
#ifndef DUALPATH_CLI_RUN_REAL_H
#define DUALPATH_CLI_RUN_REAL_H

#include "plan/real_run.h"

struct run_real_args {
    bool print_launch;
    const char *join_path, *listen; /* NULL: the default */
    double wait_s;                  /* 0: the default */
};

struct run_real_files {
    FILE *requests, *series, *decisions;
};

/* As real_run_new(); with print_launch also prints how to start the agents. */
int run_real_new(const struct scenario *sc, const struct run_real_args *args,
                 const struct run_real_files *files, const atomic_bool *interrupted,
                 struct real_run **ret, struct err *err);

#endif
