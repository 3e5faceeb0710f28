/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "fake_verbs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QUEUE       1024u
#define LOOKS       2u /* at the queue, until what was posted last is complete */
#define FIRST_QP    100u
#define INLINE_SIZE 64u

/* A completion to come, in order. */
struct pending {
    struct ibv_wc wc;
    bool signalled;
};

struct fake_cq {
    struct ibv_cq cq;
    struct pending queue[QUEUE];
    unsigned first, n, looks;
};

struct fake_verbs fake_verbs;
static unsigned n_open;
static uint32_t next_qp, next_key;
static struct ibv_device device = {.name = "fake0", .node_type = IBV_NODE_CA};

unsigned fake_verbs_open_things(void)
{
    return n_open;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));
    list[0] = fake_verbs.n_devices ? &device : NULL;
    *num_devices = (int)fake_verbs.n_devices;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
    return d->name;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_cq *cq = (struct fake_cq *)qp->send_cq;
    fake_verbs.n_posts++;
    for (; wr; wr = wr->next) {
        if (cq->n == QUEUE) {
            *bad = wr;
            return ENOMEM;
        }
        uint8_t *to = (uint8_t *)(uintptr_t)wr->wr.rdma.remote_addr;
        for (int i = 0; i < wr->num_sge; i++) {
            memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
            to += wr->sg_list[i].length;
        }
        cq->queue[(cq->first + cq->n++) % QUEUE] =
            (struct pending){.wc = {.wr_id = wr->wr_id,
                                    .status = IBV_WC_SUCCESS,
                                    .opcode = IBV_WC_RDMA_WRITE,
                                    .qp_num = qp->qp_num},
                             .signalled = wr->send_flags & IBV_SEND_SIGNALED};
    }
    cq->looks = LOOKS;
    return 0;
}

static int poll_cq(struct ibv_cq *c, int max, struct ibv_wc *wcs)
{
    struct fake_cq *cq = (struct fake_cq *)c;
    int n = 0;
    if (cq->n > 0 && cq->looks > 0) {
        cq->looks--;
        return 0;
    }
    while (cq->n > 0 && n < max) {
        const struct pending *p = &cq->queue[cq->first];
        cq->first = (cq->first + 1) % QUEUE;
        cq->n--;
        if (p->signalled) {
            wcs[n++] = p->wc;
        }
    }
    return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    uint64_t one = 1;
    (void)solicited_only;
    fake_verbs.n_notify++;
    return write(cq->channel->fd, &one, sizeof(one)) == sizeof(one) ? 0 : EIO;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
    struct ibv_context *c = calloc(1, sizeof(*c));
    c->device = d;
    c->ops.post_send = post_send;
    c->ops.poll_cq = poll_cq;
    c->ops.req_notify_cq = req_notify_cq;
    c->async_fd = eventfd(0, EFD_CLOEXEC);
    n_open++;
    return c;
}

int ibv_close_device(struct ibv_context *c)
{
    close(c->async_fd);
    free(c);
    n_open--;
    return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    (void)c;
    *attr = (struct ibv_device_attr){.phys_port_cnt = 1, .max_cqe = 1 << 16};
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr *a = (struct ibv_port_attr *)attr;
    (void)c;
    (void)port;
    a->state = IBV_PORT_ACTIVE;
    a->active_mtu = IBV_MTU_4096;
    a->max_msg_sz = 1u << 30;
    a->lid = 7;
    a->link_layer = IBV_LINK_LAYER_INFINIBAND;
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    (void)c;
    (void)max_entries;
    (void)flags;
    (void)entry_size;
    entries[0] = (struct ibv_gid_entry){.port_num = 1, .gid_type = IBV_GID_TYPE_IB};
    return 1;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    pd->context = c;
    n_open++;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    n_open--;
    return 0;
}

static struct ibv_mr *new_mr(struct ibv_pd *pd, void *addr, size_t length)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
    mr->lkey = mr->rkey = ++next_key;
    n_open++;
    return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    (void)access;
    fake_verbs.n_reg_mr++;
    if (fake_verbs.reg_mr_errno && addr == fake_verbs.gpu_memory) {
        errno = fake_verbs.reg_mr_errno;
        return NULL;
    }
    return new_mr(pd, addr, length);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    (void)offset;
    (void)access;
    fake_verbs.n_reg_dmabuf++;
    fake_verbs.dmabuf_fd = fd;
    if (fake_verbs.reg_dmabuf_errno) {
        errno = fake_verbs.reg_dmabuf_errno;
        return NULL;
    }
    struct ibv_mr *mr = new_mr(pd, NULL, length); /* as the library: no address of the process */
    (void)iova;
    return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    n_open--;
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
    struct ibv_comp_channel *ch = calloc(1, sizeof(*ch));
    ch->context = c;
    ch->fd = eventfd(0, EFD_CLOEXEC);
    n_open++;
    return ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
    close(ch->fd);
    free(ch);
    n_open--;
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq = calloc(1, sizeof(*cq));
    (void)vector;
    cq->cq.context = c;
    cq->cq.cqe = cqe;
    cq->cq.cq_context = context;
    cq->cq.channel = channel;
    n_open++;
    return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    n_open--;
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context)
{
    uint64_t count;
    *cq = NULL;
    *context = NULL;
    return read(ch->fd, &count, sizeof(count)) == sizeof(count) ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    (void)cq;
    (void)n;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *ev)
{
    (void)c;
    (void)ev;
    return -1;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
    (void)ev;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp *qp = calloc(1, sizeof(*qp));
    qp->context = pd->context;
    qp->pd = pd;
    qp->send_cq = attr->send_cq;
    qp->recv_cq = attr->recv_cq;
    qp->qp_num = FIRST_QP + next_qp++;
    attr->cap.max_inline_data = INLINE_SIZE;
    n_open++;
    return qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    (void)qp;
    if ((mask & IBV_QP_AV) &&
        fake_verbs.n_rtr < sizeof(fake_verbs.rtr) / sizeof(fake_verbs.rtr[0])) {
        fake_verbs.rtr[fake_verbs.n_rtr++] = attr->ah_attr;
    }
    return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    free(qp);
    n_open--;
    return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_SUCCESS ? "success" : "failed";
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
    (void)event;
    return "event";
}
