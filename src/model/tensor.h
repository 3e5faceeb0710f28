/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Tensor parallelism (TP) inside an engine of tp GPUs, as Megatron-LM cuts a layer (Shoeybi et al.,
 * arXiv 1909.08053, section 3) and serving engines do: each GPU has 1/tp of the query heads, of the
 * FFNs and of every expert, and of the vocabulary; two all-reduces a layer, after the attention's
 * and after the FFN's output projection, put the parts together.
 *
 * What is not cut, and is done or held by every GPU alike:
 *   MLA   the latent KV (one head that all query heads share) and the down-projections to it and to
 *         the query's latent
 *   DSA   the indexer, weights and arithmetic (its scores select keys for all heads)
 *   GQA   a KV head each, where there are fewer KV heads than GPUs
 *   MoE   the router
 */
#ifndef DUALPATH_MODEL_TENSOR_H
#define DUALPATH_MODEL_TENSOR_H

#include <stdint.h>

#include "model/card.h"

/* Parts that the KV-cache is cut into: min(tp, KV heads) for GQA, 1 with a latent. A GPU holds and
 * reads 1 / parts of it. */
uint32_t tensor_kv_parts(const struct model_card *card, uint32_t tp);

/*
 * Parameters of a GPU, out of params that contain those of all layers' attention and router (but
 * may leave out experts): whole + (params - whole) / tp, with whole those of the list above; a KV
 * projection of GQA in tensor_kv_parts() parts.
 */
double tensor_params(const struct model_card *card, double params, uint32_t tp);

/*
 * Bytes that a GPU sends (and receives) for the all-reduces of tok tokens, all layers: a ring's
 * 2 (tp - 1) / tp of the BF16 hidden vectors, twice a layer (Patarasuk and Yuan, JPDC 2009). 0 for
 * tp = 1.
 */
double tensor_reduce_bytes(const struct model_card *card, double tok, uint32_t tp);

#endif
