/* SPDX-License-Identifier: GPL-3.0-or-later */
/* In place of probe_measure.c in a build without io_uring or ZeroMQ, which has no real runs either.
 */
#include <errno.h>

#include "cli/probe_measure.h"

int probe_measure(const struct probe_config *c, bool need_verbs, struct probe_measured *ret,
                  struct err *err)
{
    (void)c;
    (void)need_verbs;
    *ret = (struct probe_measured){0};
    return err_set(err, -ENODEV, "this program was built without liburing or libzmq");
}

void probe_measured_done(struct probe_measured *m)
{
    (void)m; /* nothing was measured */
}
