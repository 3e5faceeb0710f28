/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An RDMA device as the verbs transport needs it: opened, with the memories of the node registered,
 * one completion queue with a channel, and reliable connected (RC) queue pairs.
 */
#ifndef DUALPATH_HW_VERBS_DEVICE_H
#define DUALPATH_HW_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/err.h"
#include "hw/memory.h"

struct verbs_region {
    uint64_t base, size_bytes; /* addresses in the owner's process */
    uint32_t key;              /* lkey of one's own, rkey of a peer's */
};

struct verbs_device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    uint8_t port;
    bool is_ethernet;
    uint16_t lid;
    enum ibv_mtu mtu;
    uint32_t max_message_bytes;
    union ibv_gid gid;
    uint8_t gid_index;
    uint32_t n_regions; /* DRAM, then HBM of each GPU */
    const struct node_memory *memory;
    struct ibv_mr **mrs;
};

/* How one queue pair reaches another. */
struct verbs_route {
    uint32_t dest_qp_num, dest_psn, psn;
    uint16_t dest_lid;
    union ibv_gid dest_gid;
    enum ibv_mtu mtu;      /* the smaller one of the two ports */
    uint8_t service_level; /* InfiniBand: picks the virtual lane */
    uint8_t traffic_class; /* RoCE: the IP traffic class, DSCP << 2 */
    uint8_t timeout;       /* 4.096 us * 2^timeout per try */
    uint8_t retries;       /* 0 to 6 */
};

/* Index of a place's region, or UINT32_MAX. */
uint32_t verbs_region_index(uint32_t n_gpus, enum dp_tier tier, uint32_t gpu);

/* The memory of that index. */
const struct memory_region *verbs_region_memory(const struct verbs_device *d, uint32_t index);

/*
 * Opens the device of that name (NULL: the first with an active port) and registers the memory
 * (which outlives it), which pins it: memory of a GPU by dma-buf, or else as nvidia-peermem lets
 * the device do. cq_entries is cut to what the device has. Returns 0, -ENODEV, or another negative
 * errno with e set.
 */
int verbs_device_open(struct verbs_device *d, const char *name, const struct node_memory *memory,
                      int cq_entries, struct err *e);
void verbs_device_close(struct verbs_device *d);

/* A queue pair in state INIT, and the inline limit
 * that it got (asked: 128 bytes). NULL with errno set. */
struct ibv_qp *verbs_qp_new(struct verbs_device *d, uint32_t send_depth,
                            uint32_t *ret_inline_bytes);

/* INIT to ready to send. 0 or negative errno. */
int verbs_qp_connect(const struct verbs_device *d, struct ibv_qp *qp, const struct verbs_route *r);

/* Forgets what was posted: the device touches no memory for it any more. Ends in INIT. */
int verbs_qp_reset(const struct verbs_device *d, struct ibv_qp *qp);

/* The attributes of the step to "ready to receive", which set service level, traffic class. */
struct ibv_qp_attr verbs_rtr_attributes(const struct verbs_device *d, const struct verbs_route *r);

#endif
