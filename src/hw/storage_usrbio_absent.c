/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stands in for storage_usrbio.c in a build without 3FS. */
#include <errno.h>

#include "hw/storage_usrbio.h"

static int absent_open(struct storage_uring *s, struct err *e)
{
    (void)s;
    return err_set(e, -ENODEV, "this program was built without 3FS USRBIO (meson option usrbio)");
}

const struct slot_mover_ops storage_usrbio = {.name = "3FS", .open = absent_open};
