/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A profile of `dualpath probe` as settings of scenario keys, stronger than the scenario's own. */
#ifndef DUALPATH_CLI_MACHINE_PROFILE_H
#define DUALPATH_CLI_MACHINE_PROFILE_H

#include <stddef.h>

#include "base/err.h"

struct machine_profile {
    char **sets; /* "cluster.cnic_Bps=...", one per key */
    size_t n;
};

/* Reads a file of schema "dualpath/profile/1". 0, or -EINVAL / the errno of the file with err;
 * machine_profile_done() in both cases. Whether the keys exist is for scenario_read() to say. */
int machine_profile_read(const char *path, struct machine_profile *ret, struct err *err);
void machine_profile_done(struct machine_profile *p);

#endif
