/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/verbs_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define ASK_INLINE_BYTES 128u
#define ACCESS           (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

uint32_t verbs_region_index(uint32_t n_gpus, enum dp_tier tier, uint32_t gpu)
{
    if (gpu >= n_gpus || (tier != DP_DRAM && tier != DP_HBM)) {
        return UINT32_MAX;
    }
    return tier == DP_DRAM ? 0 : 1 + gpu;
}

static bool find_active_port(struct verbs_device *d, uint8_t n_ports)
{
    struct ibv_port_attr port;
    for (uint8_t p = 1; p <= n_ports; p++) {
        if (ibv_query_port(d->context, p, &port) == 0 && port.state == IBV_PORT_ACTIVE) {
            d->port = p;
            d->lid = port.lid;
            d->mtu = port.active_mtu;
            d->max_message_bytes = port.max_msg_sz;
            d->is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
            return true;
        }
    }
    return false;
}

static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

/* RoCE: version 2, an IPv4 address before others. By type, for the order of the table means
 * nothing. InfiniBand: the first. */
static int pick_gid(struct verbs_device *d)
{
    struct ibv_gid_entry entries[64];
    ssize_t n = ibv_query_gid_table(d->context, entries, 64, 0);
    int best = -1, best_score = 0;
    for (int i = 0; i < n; i++) {
        int score = d->is_ethernet ? (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2) *
                                         (1 + is_ipv4(&entries[i].gid))
                                   : entries[i].gid_type == IBV_GID_TYPE_IB;
        if (entries[i].port_num == d->port && score > best_score) {
            best = i;
            best_score = score;
        }
    }
    if (best < 0) {
        return -EADDRNOTAVAIL;
    }
    d->gid = entries[best].gid;
    d->gid_index = (uint8_t)entries[best].gid_index;
    return 0;
}

static int open_named(struct verbs_device *d, const char *name, struct err *e)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; list && i < n && !d->context; i++) {
        struct ibv_device_attr attr;
        if (name && strcmp(name, ibv_get_device_name(list[i])) != 0) {
            continue;
        }
        d->context = ibv_open_device(list[i]);
        if (d->context &&
            (ibv_query_device(d->context, &attr) || !find_active_port(d, attr.phys_port_cnt))) {
            ibv_close_device(d->context);
            d->context = NULL;
        }
    }
    if (list) {
        ibv_free_device_list(list);
    }
    if (!d->context) {
        return err_set(e, -ENODEV, "no RDMA device%s%s with an active port (found %d devices)",
                       name ? " " : "", name ? name : "", n);
    }
    return 0;
}

const struct memory_region *verbs_region_memory(const struct verbs_device *d, uint32_t index)
{
    return index == 0 ? &d->memory->dram : &d->memory->hbm[index - 1];
}

static struct ibv_mr *register_host(struct verbs_device *d, const struct memory_region *r,
                                    struct err *e)
{
    struct ibv_mr *mr = ibv_reg_mr(d->pd, r->base, r->size_bytes, ACCESS);
    if (!mr) {
        err_set(e, -errno, "registration of memory (is the limit of locked memory too low?): %s",
                strerror(errno));
    }
    return mr;
}

/* nvidia-peermem is the kernel module by which ibv_reg_mr() takes addresses of a GPU. */
static struct ibv_mr *register_gpu(struct verbs_device *d, const struct memory_region *r,
                                   struct err *e)
{
    const char *why = "the driver has none for this memory";
    struct ibv_mr *mr = NULL;
    if (r->dmabuf_fd >= 0) {
        mr = ibv_reg_dmabuf_mr(d->pd, 0, r->size_bytes, (uintptr_t)r->base, r->dmabuf_fd, ACCESS);
        why = mr ? NULL : strerror(errno);
    }
    mr = mr ? mr : ibv_reg_mr(d->pd, r->base, r->size_bytes, ACCESS);
    if (!mr) {
        err_set(e, -errno,
                "cannot reach the GPU's memory, neither by dma-buf (%s) nor by nvidia-peermem"
                " (ibv_reg_mr: %s; is the module loaded?)",
                why, strerror(errno));
    }
    return mr;
}

static int register_memory(struct verbs_device *d, const struct node_memory *m, struct err *e)
{
    d->memory = m;
    d->n_regions = 1 + m->n_gpus;
    d->mrs = calloc(d->n_regions, sizeof(struct ibv_mr *));
    for (uint32_t i = 0; d->mrs && i < d->n_regions; i++) {
        const struct memory_region *r = verbs_region_memory(d, i);
        d->mrs[i] = r->on_gpu ? register_gpu(d, r, e) : register_host(d, r, e);
        if (!d->mrs[i]) {
            return e->code;
        }
    }
    return d->mrs ? 0 : err_nomem(e);
}

static int set_non_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

static int make_queues(struct verbs_device *d, int cq_entries)
{
    struct ibv_device_attr attr;
    if (ibv_query_device(d->context, &attr)) {
        return -EIO;
    }
    d->pd = ibv_alloc_pd(d->context);
    d->channel = ibv_create_comp_channel(d->context);
    if (!d->pd || !d->channel) {
        return -errno;
    }
    int entries = cq_entries < attr.max_cqe ? cq_entries : attr.max_cqe;
    d->cq = ibv_create_cq(d->context, entries, NULL, d->channel, 0);
    if (!d->cq) {
        return -errno;
    }
    int rc = set_non_blocking(d->channel->fd);
    return rc ? rc : set_non_blocking(d->context->async_fd);
}

int verbs_device_open(struct verbs_device *d, const char *name, const struct node_memory *memory,
                      int cq_entries, struct err *e)
{
    *d = (struct verbs_device){0};
    int rc = open_named(d, name, e);
    if (rc) {
        return rc;
    }
    struct err why = ERR_INIT;
    const char *what = "address (GID)";
    rc = pick_gid(d);
    if (rc == 0) {
        what = "completion queue";
        rc = make_queues(d, cq_entries);
    }
    if (rc == 0) {
        rc = register_memory(d, memory, &why);
    }
    if (rc) {
        err_set(&why, rc, "%s: %s", what, strerror(-rc));
        err_set(e, rc, "RDMA device %s: %s", ibv_get_device_name(d->context->device), why.text);
        verbs_device_close(d);
    }
    return rc;
}

void verbs_device_close(struct verbs_device *d)
{
    for (uint32_t i = 0; d->mrs && i < d->n_regions; i++) {
        if (d->mrs[i]) {
            ibv_dereg_mr(d->mrs[i]);
        }
    }
    free(d->mrs);
    if (d->cq) {
        ibv_destroy_cq(d->cq);
    }
    if (d->channel) {
        ibv_destroy_comp_channel(d->channel);
    }
    if (d->pd) {
        ibv_dealloc_pd(d->pd);
    }
    if (d->context) {
        ibv_close_device(d->context);
    }
    *d = (struct verbs_device){0};
}

static int to_init(const struct verbs_device *d, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = d->port, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return -ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

struct ibv_qp *verbs_qp_new(struct verbs_device *d, uint32_t send_depth, uint32_t *ret_inline_bytes)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = d->cq,
        .recv_cq = d->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = send_depth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = ASK_INLINE_BYTES},
    };
    struct ibv_qp *qp = ibv_create_qp(d->pd, &attr);
    if (!qp) {
        attr.cap.max_inline_data = 0; /* a device without any */
        qp = ibv_create_qp(d->pd, &attr);
    }
    int rc = qp ? to_init(d, qp) : 0;
    if (rc) {
        ibv_destroy_qp(qp);
        errno = -rc;
        return NULL;
    }
    *ret_inline_bytes = attr.cap.max_inline_data;
    return qp;
}

struct ibv_qp_attr verbs_rtr_attributes(const struct verbs_device *d, const struct verbs_route *r)
{
    bool is_global = d->is_ethernet || r->dest_lid == 0;
    return (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = r->mtu,
        .dest_qp_num = r->dest_qp_num,
        .rq_psn = r->dest_psn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.dlid = r->dest_lid,
                    .sl = r->service_level,
                    .port_num = d->port,
                    .is_global = is_global,
                    .grh = {.dgid = r->dest_gid,
                            .sgid_index = d->gid_index,
                            .hop_limit = 64,
                            .traffic_class = r->traffic_class}},
    };
}

int verbs_qp_connect(const struct verbs_device *d, struct ibv_qp *qp, const struct verbs_route *r)
{
    struct ibv_qp_attr rtr = verbs_rtr_attributes(d, r);
    int rc = ibv_modify_qp(qp, &rtr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (rc) {
        return -rc;
    }
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .sq_psn = r->psn,
                              .timeout = r->timeout,
                              .retry_cnt = r->retries,
                              .rnr_retry = r->retries,
                              .max_rd_atomic = 1};
    return -ibv_modify_qp(qp, &rts,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int verbs_qp_reset(const struct verbs_device *d, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    int rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    return rc ? -rc : to_init(d, qp);
}
