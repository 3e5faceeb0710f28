/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * RDMA write bandwidth of transport_verbs, to be set beside ib_write_bw: verbs_bandwidth BYTES OPS
 * DEPTH SPIN_US. Two nodes on one device; OPS copies of BYTES from one to the other, DEPTH of them
 * in flight. Prints MiB/s from the first submission to the last completion. As ib_write_bw does,
 * every copy is the same bytes to the same place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "hw/hw_dp.h"
#include "hw/transport_verbs.h"

enum { EXIT_NO_DEVICE = 77 };

struct stream;

struct copy {
    struct stream *stream;
    struct dp_op op;
};

struct stream {
    struct wall_driver driver;
    struct loop loop;
    struct node_memory memories[2];
    struct transport_verbs transports[2];
    struct hw_dp dp;
    struct copy *copies; /* [depth] */
    uint64_t bytes, n_ops, n_submitted, n_over, first_ns, last_ns, spin_ns;
    uint32_t depth;
    int status;
};

static void copy_over(struct dp_op *op);

static void submit(struct copy *c)
{
    struct stream *s = c->stream;
    c->op = (struct dp_op){.kind = DP_COPY,
                           .traffic_class = DP_CLASS_LOAD,
                           .src = {.node = 0, .tier = DP_DRAM},
                           .dst = {.node = 1, .tier = DP_HBM},
                           .part_bytes = s->bytes,
                           .parts_total = 1,
                           .parts_ready = 1,
                           .segments = 1,
                           .segment_bytes = s->bytes,
                           .segment_stride_bytes = s->bytes,
                           .part_stride_bytes = s->bytes,
                           .done = copy_over};
    int rc = dp_submit(&s->dp.dp, &c->op);
    if (rc) {
        s->status = rc;
        loop_stop(&s->loop);
    }
    s->n_submitted++;
}

static void copy_over(struct dp_op *op)
{
    struct copy *c = container_of(op, struct copy, op);
    struct stream *s = c->stream;
    s->status = op->status ? op->status : s->status;
    s->last_ns = op->done_ns;
    if (++s->n_over == s->n_ops || s->status) {
        loop_stop(&s->loop);
    } else if (s->n_submitted < s->n_ops) {
        submit(c);
    }
}

static int open_node(struct stream *s, uint32_t i, struct err *e)
{
    const struct verbs_options o = {.node = i, .depth = s->depth, .spin_ns = s->spin_ns};
    int rc = node_memory_init(&s->memories[i], i, s->bytes, 1, s->bytes, e);
    if (rc) {
        return rc;
    }
    memset(s->memories[i].dram.base, 0x5a, s->bytes);
    return transport_verbs_init(&s->transports[i], &s->loop, &s->driver, &s->memories[i], 2, &o, e);
}

static int connect_nodes(struct stream *s, struct err *e)
{
    size_t len = transport_verbs_card_bytes(&s->transports[0]);
    uint8_t *cards = malloc(2 * len);
    int rc = cards ? 0 : err_nomem(e);
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        rc = transport_verbs_offer(&s->transports[i], 1 - i, cards + i * len, e);
    }
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        rc = transport_verbs_connect(&s->transports[i], 1 - i, cards + (1 - i) * len, len, e);
    }
    free(cards);
    return rc;
}

static int open_stream(struct stream *s, struct err *e)
{
    int rc = wall_driver_init(&s->driver, e);
    if (rc) {
        return rc;
    }
    s->copies = calloc(s->depth, sizeof(*s->copies));
    rc = s->copies ? loop_init(&s->loop, &s->driver.driver, 0) : -ENOMEM;
    if (rc) {
        return err_nomem(e);
    }
    wall_driver_attach(&s->driver, &s->loop);
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        rc = open_node(s, i, e);
    }
    rc = rc ? rc : connect_nodes(s, e);
    if (rc == 0) {
        hw_dp_init(&s->dp, &s->loop, &s->transports[0].mover, NULL);
    }
    return rc;
}

static void close_stream(struct stream *s)
{
    transport_verbs_done(&s->transports[0]);
    transport_verbs_done(&s->transports[1]);
    wall_driver_done(&s->driver);
    loop_done(&s->loop);
    node_memory_done(&s->memories[0]);
    node_memory_done(&s->memories[1]);
    free(s->copies);
}

static int measure(struct stream *s)
{
    s->first_ns = wall_now_ns();
    for (uint32_t i = 0; i < s->depth && s->n_submitted < s->n_ops && s->status == 0; i++) {
        s->copies[i].stream = s;
        submit(&s->copies[i]);
    }
    int rc = s->status ? s->status : loop_run(&s->loop);
    return rc ? rc : s->status;
}

int main(int argc, char **argv)
{
    struct stream s = {0};
    struct err e = ERR_INIT;
    if (argc == 5) {
        s.bytes = strtoull(argv[1], NULL, 10);
        s.n_ops = strtoull(argv[2], NULL, 10);
        s.depth = (uint32_t)strtoul(argv[3], NULL, 10);
        s.spin_ns = strtoull(argv[4], NULL, 10) * NS_PER_US;
    }
    if (s.bytes == 0 || s.n_ops == 0 || s.depth == 0) {
        fprintf(stderr, "usage: verbs_bandwidth BYTES OPS DEPTH SPIN_US\n");
        return 2;
    }
    int rc = open_stream(&s, &e);
    if (rc) { /* the process ends: nothing is undone */
        printf("%s\n", e.text);
        return rc == -ENODEV ? EXIT_NO_DEVICE : EXIT_FAILURE;
    }
    rc = measure(&s);
    if (rc) {
        fprintf(stderr, "verbs_bandwidth: %s\n", strerror(-rc));
        return EXIT_FAILURE;
    }
    double seconds = (double)(s.last_ns - s.first_ns) / NS_PER_S;
    printf("%.3f\n", (double)(s.bytes * s.n_ops) / (1 << 20) / seconds);
    close_stream(&s);
    return EXIT_SUCCESS;
}
