/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The smallest proof that RDMA works here: two reliable-connected queue pairs of the first
 * device, connected to each other, and one RDMA WRITE whose bytes and neighbours are checked. Exit
 * status 0 when they arrived, 1 when something failed, 77 when there is no device.
 */
#include <infiniband/verbs.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE_BYTES  65536u
#define GUARD_BYTES 64u /* of the target, on either side; must stay untouched */
#define GUARD       0xa5
#define LIMIT_NS    20000000000ll

#define PORT 1

struct smoke {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *from, *to;
    struct ibv_mr *source_mr, *target_mr;
    unsigned char source[SIZE_BYTES], target[SIZE_BYTES + 2 * GUARD_BYTES];
    union ibv_gid gid;
    uint8_t gid_index;
    bool global; /* RoCE: addresses are GIDs; InfiniBand: LIDs */
    uint16_t lid;
    enum ibv_mtu mtu;
};

static int fail(const char *what)
{
    fprintf(stderr, "verbs_smoke: %s: %s\n", what, strerror(errno));
    return 1;
}

/* By type, never by index: the RoCE v2 entry of an IPv4 address, where there is one. */
static int find_gid(struct smoke *s, int n_gids)
{
    for (int i = 0; i < n_gids; i++) {
        struct ibv_gid_entry entry;
        if (ibv_query_gid_ex(s->context, PORT, (uint32_t)i, &entry, 0) == 0 &&
            entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entry.gid.raw[10] == 0xff &&
            entry.gid.raw[11] == 0xff) {
            s->gid = entry.gid;
            s->gid_index = (uint8_t)i;
            return 0;
        }
    }
    errno = ENOENT;
    return fail("RoCE v2 GID of an IPv4 address");
}

static int query_port(struct smoke *s)
{
    struct ibv_port_attr port;
    errno = ibv_query_port(s->context, PORT, &port);
    if (errno) {
        return fail("ibv_query_port");
    }
    if (port.state != IBV_PORT_ACTIVE) {
        errno = ENETDOWN;
        return fail("port 1");
    }
    s->lid = port.lid;
    s->mtu = port.active_mtu;
    s->global = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    return s->global ? find_gid(s, port.gid_tbl_len) : 0;
}

static struct ibv_qp *create_qp(struct smoke *s)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = s->cq,
        .recv_cq = s->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    return ibv_create_qp(s->pd, &attr);
}

static int create(struct smoke *s)
{
    s->pd = ibv_alloc_pd(s->context);
    s->cq = s->pd ? ibv_create_cq(s->context, 8, NULL, NULL, 0) : NULL;
    s->from = s->cq ? create_qp(s) : NULL;
    s->to = s->from ? create_qp(s) : NULL;
    if (!s->to) {
        return fail("protection domain, completion queue and queue pairs");
    }
    s->source_mr = ibv_reg_mr(s->pd, s->source, sizeof(s->source), 0);
    s->target_mr = ibv_reg_mr(s->pd, s->target, sizeof(s->target),
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return s->source_mr && s->target_mr ? 0 : fail("ibv_reg_mr");
}

static struct ibv_ah_attr address_of_self(const struct smoke *s)
{
    struct ibv_ah_attr ah = {.dlid = s->lid, .port_num = PORT, .is_global = s->global};
    if (s->global) {
        ah.grh.dgid = s->gid;
        ah.grh.sgid_index = s->gid_index;
        ah.grh.hop_limit = 1;
    }
    return ah;
}

static int to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_ready_to_receive(const struct smoke *s, struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = s->mtu,
        .dest_qp_num = peer,
        .ah_attr = address_of_self(s),
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
    };
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_ready_to_send(struct ibv_qp *qp)
{
    /* 4.096 us * 2^14 = 67 ms; 7 retries would mean "for ever" on soft-RoCE */
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 6, .rnr_retry = 6, .max_rd_atomic = 1};
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int connect_pair(struct smoke *s)
{
    struct ibv_qp *qp[2] = {s->from, s->to};
    for (int i = 0; i < 2; i++) {
        errno = to_init(qp[i]);
        errno = errno ? errno : to_ready_to_receive(s, qp[i], qp[1 - i]->qp_num);
        errno = errno ? errno : to_ready_to_send(qp[i]);
        if (errno) {
            return fail("ibv_modify_qp");
        }
    }
    return 0;
}

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int wait_for_completion(struct smoke *s)
{
    struct ibv_wc wc;
    int n = 0;
    long long deadline_ns = now_ns() + LIMIT_NS;
    while (n == 0 && now_ns() < deadline_ns) {
        n = ibv_poll_cq(s->cq, 1, &wc);
    }
    if (n != 1) {
        errno = n == 0 ? ETIMEDOUT : EIO;
        return fail("ibv_poll_cq");
    }
    if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_RDMA_WRITE || wc.wr_id != 42) {
        fprintf(stderr, "verbs_smoke: completion %llu: %s\n", (unsigned long long)wc.wr_id,
                ibv_wc_status_str(wc.status));
        return 1;
    }
    return 0;
}

static int write_and_wait(struct smoke *s)
{
    struct ibv_sge sge = {(uintptr_t)s->source, SIZE_BYTES, s->source_mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .wr_id = 42,
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {(uintptr_t)s->target + GUARD_BYTES, s->target_mr->rkey},
        };
    errno = ibv_post_send(s->from, &wr, &bad);
    return errno ? fail("ibv_post_send") : wait_for_completion(s);
}

static void fill(struct smoke *s)
{
    for (unsigned i = 0; i < SIZE_BYTES; i++) {
        s->source[i] = (unsigned char)(i * 31 + (i >> 8));
    }
    memset(s->target, GUARD, sizeof(s->target));
}

static int verify(const struct smoke *s)
{
    for (unsigned i = 0; i < GUARD_BYTES; i++) {
        if (s->target[i] != GUARD || s->target[GUARD_BYTES + SIZE_BYTES + i] != GUARD) {
            fprintf(stderr, "verbs_smoke: bytes beside the target were written\n");
            return 1;
        }
    }
    if (memcmp(s->target + GUARD_BYTES, s->source, SIZE_BYTES) != 0) {
        fprintf(stderr, "verbs_smoke: the bytes that arrived are not those sent\n");
        return 1;
    }
    printf("verbs_smoke: %s: RDMA WRITE of %u bytes arrived\n",
           ibv_get_device_name(s->context->device), SIZE_BYTES);
    return 0;
}

/* In the order of their dependencies; returns 1 when the device keeps something. */
static int destroy(struct smoke *s)
{
    int rc = 0;
    rc |= s->from ? ibv_destroy_qp(s->from) : 0;
    rc |= s->to ? ibv_destroy_qp(s->to) : 0;
    rc |= s->source_mr ? ibv_dereg_mr(s->source_mr) : 0;
    rc |= s->target_mr ? ibv_dereg_mr(s->target_mr) : 0;
    rc |= s->cq ? ibv_destroy_cq(s->cq) : 0;
    rc |= s->pd ? ibv_dealloc_pd(s->pd) : 0;
    rc |= ibv_close_device(s->context);
    return rc ? fail("destroying what was created") : 0;
}

/* NULL when there is no device. */
static struct ibv_context *open_first_device(void)
{
    int n = 0;
    struct ibv_device **devices = ibv_get_device_list(&n);
    struct ibv_context *context = n > 0 ? ibv_open_device(devices[0]) : NULL;
    if (devices) {
        ibv_free_device_list(devices);
    }
    return context;
}

int main(void)
{
    static struct smoke smoke;
    smoke.context = open_first_device();
    if (!smoke.context) {
        printf("no RDMA device can be opened\n");
        return 77;
    }
    fill(&smoke);
    int rc = query_port(&smoke);
    rc = rc ? rc : create(&smoke);
    rc = rc ? rc : connect_pair(&smoke);
    rc = rc ? rc : write_and_wait(&smoke);
    rc = rc ? rc : verify(&smoke);
    return destroy(&smoke) || rc;
}
