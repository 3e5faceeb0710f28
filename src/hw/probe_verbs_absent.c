/* SPDX-License-Identifier: GPL-3.0-or-later */
/* In place of probe_copy_verbs.c in a build without libibverbs. */
#include <errno.h>

#include "hw/probe.h"

int probe_copy_verbs(const struct probe_config *c, struct probe_points *ps, struct err *e)
{
    (void)c;
    (void)ps;
    return err_set(e, -ENODEV, "verbs: libibverbs was left out of this build");
}

int probe_copy_verbs_gpu(const struct probe_config *c, const struct memory_region *hbm,
                         struct probe_points *ps, struct err *e)
{
    (void)hbm;
    return probe_copy_verbs(c, ps, e);
}
