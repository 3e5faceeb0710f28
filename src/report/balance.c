/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "report/balance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int balance_init(struct balance *b, uint32_t n_prefill_nodes, uint32_t n_nodes)
{
    *b = (struct balance){.n_prefill_nodes = n_prefill_nodes, .n_nodes = n_nodes};
    b->before = calloc(n_nodes, sizeof(*b->before));
    return b->before ? 0 : -ENOMEM;
}

void balance_done(struct balance *b)
{
    free(b->before);
    b->before = NULL;
}

double balance_max_avg(const double *from, const double *to, uint32_t n)
{
    double sum = 0, max = 0;
    for (uint32_t i = 0; i < n; i++) {
        double d = from ? to[i] - from[i] : to[i];
        sum += d;
        max = d > max ? d : max;
    }
    return sum > 0 ? max * n / sum : 0;
}

void balance_window(struct balance *b, const double *snic_bytes)
{
    double *snic = b->before;
    uint32_t p = b->n_prefill_nodes;
    const double ratios[BALANCE_N_SETS] = {
        [BALANCE_SNIC] = balance_max_avg(snic, snic_bytes, b->n_nodes),
        [BALANCE_PE_SNIC] = balance_max_avg(snic, snic_bytes, p),
        [BALANCE_DE_SNIC] = balance_max_avg(snic + p, snic_bytes + p, b->n_nodes - p),
    };
    for (unsigned s = 0; s < BALANCE_N_SETS; s++) {
        b->sums.ratio[s] += ratios[s];
        b->sums.windows[s] += ratios[s] > 0;
    }
    memcpy(snic, snic_bytes, b->n_nodes * sizeof(*snic));
}

double balance_mean(const struct balance_sums *from, const struct balance_sums *to,
                    enum balance_set set)
{
    uint64_t n = to->windows[set] - from->windows[set];
    return n ? (to->ratio[set] - from->ratio[set]) / (double)n : 0;
}
