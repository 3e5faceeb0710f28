/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/compute_cpu.h"

#include <stdlib.h>
#include <string.h>

static int attend(struct attention_kernel *k, uint32_t slot, const struct attention_task *t,
                  float *ret_out, struct err *e)
{
    (void)e;
    struct compute_cpu *c = container_of(k, struct compute_cpu, kernel);
    struct attention_scratch *s = &c->scratch[slot];
    size_t n = attention_out_values(&c->attention);
    struct kv_run run = {t->chain_id, t->first_tok, t->n_tok};
    kv_content_fill_layer(&c->attention.content, &run, t->layer, t->kv);
    for (uint32_t i = 0; i < t->n_tok; i++) {
        attention_token(&c->attention, t->chain_id, t->first_tok + i, t->layer, t->kv, s);
        memcpy(ret_out + i * n, s->out, n * sizeof(float));
    }
    return 0;
}

static const struct attention_kernel_ops ops = {.name = "cpu", .attend = attend};

int compute_cpu_init(struct compute_cpu *c, const struct attention *attention, uint32_t n_slots,
                     struct err *e)
{
    *c = (struct compute_cpu){.kernel = {.ops = &ops, .exact = true}, .attention = *attention};
    c->scratch = calloc(n_slots, sizeof(*c->scratch));
    int rc = c->scratch ? 0 : -1;
    for (; rc == 0 && c->n_slots < n_slots; c->n_slots++) {
        rc = attention_scratch_init(&c->scratch[c->n_slots], attention);
    }
    if (rc) {
        compute_cpu_done(c);
        return err_nomem(e);
    }
    return 0;
}

void compute_cpu_done(struct compute_cpu *c)
{
    for (uint32_t i = 0; i < c->n_slots; i++) {
        attention_scratch_done(&c->scratch[i]);
    }
    free(c->scratch);
    c->scratch = NULL;
    c->n_slots = 0;
}
