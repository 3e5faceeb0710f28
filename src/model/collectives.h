/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Bytes that expert parallelism (EP) puts on the compute NICs: dispatch of a token's hidden vector
 * to its experts (FP8 with an FP32 scale per 128 values) and combine of their results (BF16). At
 * hidden 7168: 7,392 and 14,336 B. Inside an NVLink domain nothing reaches a NIC, and a model that
 * is not expert-parallel sends nothing.
 */
#ifndef DUALPATH_MODEL_COLLECTIVES_H
#define DUALPATH_MODEL_COLLECTIVES_H

#include <stdint.h>

#include "model/card.h"

/* Dispatch and combine of one copy of a token's hidden vector in one layer. */
double collective_copy_bytes(const struct model_card *card);

/*
 * Other domains (of n in the group) that a token's experts are on, on average. Experts spread
 * evenly over the domains; without groups the k experts of a token are any of the E:
 *     (n - 1) (1 - C(E - E/n, k) / C(E, k))
 * with a token's experts from K of G groups, whole groups to a domain (n divides G), each chosen
 * group holding one of them at least:
 *     (n - 1) (1 - C(G - G/n, K) / C(G, K))
 * For DeepSeek-V3 (4 of 8 groups) 0.986, 2.36 and 3.5 of 2, 4 and 8.
 */
double collective_remote_domains(const struct model_card *card, uint32_t n_domains);

/*
 * Per token of a prefill, all layers: what leaves (and, the group being symmetrical, what enters)
 * the NIC of its GPU, one copy per other domain: kernels that send a token to a node once and copy
 * it there over NVLink. DeepSeek-V3 over 2, 4, 8 nodes: 1.24, 2.97, 4.41 MB.
 */
double collective_prefill_bytes_per_tok(const struct model_card *card, uint32_t group_gpus,
                                        uint32_t domain_gpus);

/* Per token of a decode step, all layers: low-latency kernels, one copy per expert, all of them
 * over the NIC. */
double collective_decode_bytes_per_tok(const struct model_card *card, uint32_t group_gpus,
                                       uint32_t domain_gpus);

/*
 * Queue pairs of a NIC that carry these exchanges. DeepEP, the kernels of the DeepSeek models: 24
 * per peer by default, the peers of a prefill being the GPU of the same index in each other domain;
 * its low-latency kernels take one per local expert and peer, all GPUs outside the domain, of which
 * those are busy in a step that one of batch sequences per GPU has an expert on.
 */
double collective_prefill_queue_pairs(uint32_t group_gpus, uint32_t domain_gpus);
double collective_decode_queue_pairs(const struct model_card *card, uint32_t group_gpus,
                                     uint32_t domain_gpus, double batch);

#endif
