/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "real/links.h"

#include <errno.h>
#include <string.h>

static const struct links_ops *const transports[] = {&links_mem, &links_tcp, &links_verbs};

int links_open(struct links *l, const struct links_parts *p, struct err *err)
{
    for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
        if (strcmp(transports[i]->name, p->config->transport) == 0) {
            *l = (struct links){.ops = transports[i]};
            return l->ops->open(l, p, err);
        }
    }
    err_field(err, "hw.transport");
    return err_set(err, -EINVAL, "found \"%s\", which nodes do not have", p->config->transport);
}

void links_close(struct links *l)
{
    l->ops->close(l);
    l->impl = NULL;
    l->mover = NULL;
}

int links_offer(struct links *l, uint32_t node, char **ret_text, struct err *err)
{
    return l->ops->offer(l, node, ret_text, err);
}

int links_connect(struct links *l, uint32_t node, const char *text, struct err *err)
{
    return l->ops->connect(l, node, text, err);
}
