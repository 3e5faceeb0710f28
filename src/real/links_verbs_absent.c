/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stands in for links_verbs.c in a build without libibverbs. */
#include <errno.h>

#include "real/links.h"

static int absent_open(struct links *l, const struct links_parts *p, struct err *err)
{
    (void)l;
    (void)p;
    err_field(err, "hw.transport");
    return err_set(err, -ENODEV,
                   "found verbs, but this dualpath-node was built without libibverbs");
}

const struct links_ops links_verbs = {.name = "verbs", .open = absent_open};
