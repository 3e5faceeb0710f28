/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tcp transport against peers that behave badly: nobody there, wrong secret, wrong node,
 * garbage, silence, messages cut into single bytes, acknowledgements of what was never sent,
 * SIGKILL. (That it moves bytes is in tests/conformance.)
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/units.h"
#include "check_suite.h"
#include "hw/hw_dp.h"
#include "hw/transport_tcp.h"

#define BYTES ((uint64_t)64 << 20)

struct node {
    struct node_memory memory;
    struct node_memory *nodes[3];
    struct memory_map map;
    struct transport_tcp tcp;
    struct hw_dp hw;
};

static struct wall_driver driver;
static struct loop loop;
static struct work_pool pool;
static struct node node[2];
static unsigned waiting;

static void open_world(void)
{
    struct err e = ERR_INIT;
    ck_assert_int_eq(wall_driver_init(&driver, &e), 0);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, 0), 0);
    wall_driver_attach(&driver, &loop);
    ck_assert_int_eq(work_pool_init(&pool, &loop, &driver, 1, &e), 0);
    waiting = 0;
}

static void close_world(void)
{
    work_pool_done(&pool);
    wall_driver_done(&driver);
    loop_done(&loop);
}

static struct tcp_options default_options(uint32_t id)
{
    return (struct tcp_options){.node = id,
                                .listen_host = "127.0.0.1",
                                .depth = 8,
                                .peer_timeout_ns = 60 * NS_PER_S,
                                .secret = "a secret"};
}

static void open_node(uint32_t id, const struct tcp_options *o)
{
    struct err e = ERR_INIT;
    struct node *n = &node[id];
    memset(n, 0, sizeof(*n));
    ck_assert_int_eq(node_memory_init(&n->memory, id, BYTES, 1, BYTES, &e), 0);
    n->nodes[id] = &n->memory;
    n->map = (struct memory_map){n->nodes, 3};
    ck_assert_int_eq(transport_tcp_init(&n->tcp, &loop, &driver, &pool, &n->map, o, &e), 0);
    hw_dp_init(&n->hw, &loop, &n->tcp.mover, NULL);
}

static void close_node(uint32_t id)
{
    transport_tcp_done(&node[id].tcp);
    node_memory_done(&node[id].memory);
}

static void add_peer(uint32_t id, uint32_t peer, uint16_t port)
{
    struct err e = ERR_INIT;
    ck_assert_int_eq(transport_tcp_add_peer(&node[id].tcp, peer, "127.0.0.1", port, &e), 0);
}

static void done(struct dp_op *op)
{
    (void)op;
    if (--waiting == 0) {
        loop_stop(&loop);
    }
}

static struct dp_op copy_to_1(uint64_t part_bytes, uint32_t parts)
{
    return (struct dp_op){.kind = DP_COPY,
                          .traffic_class = DP_CLASS_STORE,
                          .dst = {.node = 1},
                          .part_bytes = part_bytes,
                          .parts_total = parts,
                          .parts_ready = parts,
                          .segments = 1,
                          .segment_bytes = part_bytes,
                          .segment_stride_bytes = part_bytes,
                          .part_stride_bytes = part_bytes,
                          .done = done};
}

static void stop_fires(struct loop_timer *t)
{
    (void)t;
    loop_stop(&loop);
}

/* Runs until loop_stop(), at most for ns. True when it was the time. */
static bool run_for(uint64_t ns)
{
    struct loop_timer t;
    loop_timer_init(&t, stop_fires);
    loop_arm(&loop, &t, loop_now_ns(&loop) + ns);
    ck_assert_int_eq(loop_run(&loop), 0);
    bool late = !loop_armed(&t);
    loop_disarm(&loop, &t);
    return late;
}

static int run_op(struct dp_op *op)
{
    ck_assert_int_eq(dp_submit(&node[0].hw.dp, op), 0);
    waiting++;
    ck_assert(!run_for(30 * NS_PER_S));
    return op->status;
}

static int socket_at(uint16_t port, bool listening, uint16_t *ret_port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    if (listening) {
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        ck_assert_int_eq(listen(fd, 4), 0);
        ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
        *ret_port = ntohs(a.sin_port);
    } else {
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    }
    return fd;
}

static uint16_t free_port(void)
{
    uint16_t port;
    close(socket_at(0, true, &port));
    return port;
}

static void expect_words(const struct node *n, const char *words)
{
    ck_assert_msg(strstr(n->hw.faults.last.text, words) != NULL, "\"%s\" lacks \"%s\"",
                  n->hw.faults.last.text, words);
}

START_TEST(nobody_there)
{
    open_world();
    struct tcp_options o = default_options(0);
    open_node(0, &o);
    uint16_t port = free_port();
    add_peer(0, 1, port);
    struct dp_op op = copy_to_1(100, 3);
    ck_assert_int_eq(run_op(&op), -ECONNREFUSED);
    char words[64];
    snprintf(words, sizeof(words), "node 1 (127.0.0.1:%" PRIu16 ")", port);
    expect_words(&node[0], words);
    expect_words(&node[0], strerror(ECONNREFUSED));
    op.dst.node = 2; /* never introduced */
    ck_assert_int_eq(dp_submit(&node[0].hw.dp, &op), -EHOSTUNREACH);
    op.src.node = 1; /* not ours to send */
    ck_assert_int_eq(dp_submit(&node[0].hw.dp, &op), -EINVAL);
    close_node(0);
    close_world();
}
END_TEST

static uint16_t late_port;

static void late_start(struct loop_timer *t)
{
    (void)t;
    struct tcp_options o = default_options(1);
    o.listen_port = late_port;
    open_node(1, &o);
}

START_TEST(patience_waits_for_a_late_peer)
{
    open_world();
    struct tcp_options o = default_options(0);
    o.connect_patience_ns = 10 * NS_PER_S;
    open_node(0, &o);
    late_port = free_port();
    add_peer(0, 1, late_port);
    struct loop_timer t;
    loop_timer_init(&t, late_start);
    loop_arm(&loop, &t, loop_now_ns(&loop) + 100 * NS_PER_MS);
    struct dp_op op = copy_to_1(100, 3);
    memset(node[0].memory.dram.base, 9, 300);
    ck_assert_int_eq(run_op(&op), 0);
    ck_assert_mem_eq(node[1].memory.dram.base, node[0].memory.dram.base, 300);
    close_node(0);
    close_node(1);
    close_world();
}
END_TEST

static void expect_refusal(const struct tcp_options *theirs, int code, const char *words)
{
    open_world();
    struct tcp_options mine = default_options(0);
    open_node(0, &mine);
    open_node(1, theirs);
    add_peer(0, 1, transport_tcp_port(&node[1].tcp));
    struct dp_op op = copy_to_1(100, 3);
    ck_assert_int_eq(run_op(&op), code);
    ck_assert_uint_eq(node[1].tcp.n_accepted, 0);
    ck_assert_uint_eq(node[1].tcp.n_refused, 1);
    expect_words(&node[0], "node 1 (127.0.0.1:");
    expect_words(&node[1], words);
    expect_words(&node[1], "connection from 127.0.0.1:");
    close_node(0);
    close_node(1);
    close_world();
}

START_TEST(strangers_are_refused)
{
    struct tcp_options o = default_options(1);
    o.secret[31] ^= 1;
    expect_refusal(&o, -EACCES, "wrong secret");
    o = default_options(1);
    o.node = 2; /* listens where node 1 is expected */
    expect_refusal(&o, -EHOSTUNREACH, "looks for another node");
}
END_TEST

/* Reads from a socket while the loop runs. Returns what recv() does when it has an answer. */
static ssize_t recv_running(int fd, void *buf, size_t len)
{
    for (unsigned i = 0; i < 10000; i++) {
        run_for(NS_PER_MS);
        ssize_t n = recv(fd, buf, len, MSG_DONTWAIT);
        if (n >= 0 || errno != EAGAIN) {
            return n;
        }
    }
    ck_abort_msg("no answer");
    return -1;
}

static void send_all(int fd, const void *buf, size_t len)
{
    ck_assert_int_eq(send(fd, buf, len, MSG_NOSIGNAL), (ssize_t)len);
}

static int raw_peer(void)
{
    uint8_t buf[TCP_HELLO_BYTES];
    struct tcp_hello h = {.version = TCP_WIRE_VERSION, .src_node = 0, .dst_node = 1, .depth = 4};
    struct tcp_welcome w;
    int fd = socket_at(transport_tcp_port(&node[1].tcp), false, NULL);
    memcpy(h.secret, node[1].tcp.options.secret, sizeof(h.secret));
    tcp_put_hello(buf, &h);
    send_all(fd, buf, TCP_HELLO_BYTES);
    ck_assert_int_eq(recv_running(fd, buf, TCP_WELCOME_BYTES), TCP_WELCOME_BYTES);
    ck_assert(tcp_get_welcome(buf, &w));
    ck_assert_uint_eq(w.verdict, TCP_WELCOME);
    return fd;
}

START_TEST(garbage_and_silence_are_cut_off)
{
    open_world();
    struct tcp_options o = default_options(1);
    open_node(1, &o);
    uint8_t buf[TCP_HELLO_BYTES];
    memset(buf, 'G', sizeof(buf));
    int fd = socket_at(transport_tcp_port(&node[1].tcp), false, NULL);
    send_all(fd, buf, sizeof(buf));
    ck_assert_int_eq(recv_running(fd, buf, sizeof(buf)), 0);
    expect_words(&node[1], "not a node of this program");
    close(fd);
    ck_assert_uint_eq(node[1].tcp.n_refused, 1);
    close_node(1);
    o.peer_timeout_ns = 100 * NS_PER_MS;
    open_node(1, &o);
    fd = socket_at(transport_tcp_port(&node[1].tcp), false, NULL);
    ck_assert_int_eq(recv_running(fd, buf, sizeof(buf)), 0); /* after peer_timeout_ns */
    expect_words(&node[1], "says nothing");
    close(fd);
    ck_assert_uint_eq(node[1].tcp.n_refused, 1);
    ck_assert_uint_eq(node[1].tcp.n_inbound, 0);
    close_node(1);
    close_world();
}
END_TEST

START_TEST(messages_that_make_no_sense_end_the_connection)
{
    struct tcp_frame bad[] = {
        {.type = TCP_WRITE, .slot = 4, .len_bytes = 1},                       /* beyond the depth */
        {.type = TCP_WRITE, .slot = 0, .len_bytes = 0},                       /* no byte */
        {.type = TCP_WRITE, .slot = 0, .len_bytes = 1, .flags = TCP_ENDS_OP}, /* within a part */
        {.type = TCP_CANCEL, .slot = 1},                                      /* of nothing */
        {.type = 77, .slot = 0, .len_bytes = 1},
    };
    open_world();
    struct tcp_options o = default_options(1);
    open_node(1, &o);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint8_t buf[TCP_FRAME_BYTES];
        int fd = raw_peer();
        tcp_put_frame(buf, &bad[i]);
        send_all(fd, buf, sizeof(buf));
        ck_assert_int_eq(recv_running(fd, buf, sizeof(buf)), 0);
        expect_words(&node[1], "connection from node 0: sent a message that makes no sense");
        close(fd);
    }
    int fd = raw_peer();
    send_all(fd, "half a header", 13);
    close(fd);
    for (unsigned i = 0; i < 10000 && node[1].tcp.n_inbound > 0; i++) {
        run_for(NS_PER_MS);
    }
    expect_words(&node[1], "ended within a message");
    close_node(1);
    close_world();
}
END_TEST

/* A write of two pieces, one byte at a time; the answer counts the part and ends the op. */
START_TEST(single_bytes_make_a_write)
{
    open_world();
    struct tcp_options o = default_options(1);
    open_node(1, &o);
    int fd = raw_peer();
    uint8_t message[2 * (TCP_FRAME_BYTES + 5)], *at = message;
    for (unsigned piece = 0; piece < 2; piece++) {
        tcp_put_frame(at, &(struct tcp_frame){.type = TCP_WRITE,
                                              .flags = piece ? TCP_ENDS_PART | TCP_ENDS_OP : 0,
                                              .tier = DP_HBM,
                                              .slot = 3,
                                              .serial = 17,
                                              .offset_bytes = 100 + 50 * piece,
                                              .len_bytes = 5});
        memcpy(at + TCP_FRAME_BYTES, piece ? "world" : "hello", 5);
        at += TCP_FRAME_BYTES + 5;
    }
    for (unsigned i = 0; i < sizeof(message); i++) {
        send_all(fd, message + i, 1);
        run_for(100 * NS_PER_US);
    }
    uint8_t buf[64];
    struct tcp_ack a;
    ck_assert_int_eq(recv_running(fd, buf, sizeof(buf)), TCP_ACK_BYTES);
    ck_assert(tcp_get_ack(buf, &a));
    ck_assert_uint_eq(a.slot, 3);
    ck_assert_uint_eq(a.serial, 17);
    ck_assert_uint_eq(a.parts_done, 1);
    ck_assert_uint_eq(a.code, TCP_OK);
    ck_assert(a.final);
    ck_assert_mem_eq(node[1].memory.hbm[0].base + 100, "hello", 5);
    ck_assert_mem_eq(node[1].memory.hbm[0].base + 150, "world", 5);
    ck_assert_uint_eq(node[1].memory.hbm[0].base[105], 0);
    close(fd);
    close_node(1);
    close_world();
}
END_TEST

static struct tcp_frame random_frame(uint64_t r)
{
    bool is_write = r % 8 != 0;
    return (struct tcp_frame){.type = is_write ? TCP_WRITE : TCP_CANCEL,
                              .flags = is_write ? (uint8_t)(r >> 8) % 4 : 0,
                              .tier = (r >> 16) % 16 == 0 ? 2 : (r >> 20) % 2,
                              .gpu = (r >> 24) % 16 == 0,
                              .slot = (uint32_t)(r >> 28) % 5,
                              .serial = (r >> 32) % 8 == 0,
                              .offset_bytes = (r >> 36) % 4 == 0 ? BYTES - 50 : (r >> 40) % 1000,
                              .len_bytes = is_write ? (r >> 52) % 100 : 0};
}

/* Streams of messages that are nearly right: the connection may be cut, nothing else may happen. */
START_TEST(nearly_right_streams_do_no_harm)
{
    open_world();
    struct tcp_options o = default_options(1);
    open_node(1, &o);
    unsigned n_cut = 0;
    for (unsigned round = 0; round < 100; round++) {
        int fd = raw_peer();
        for (unsigned i = 0; i < 50; i++) {
            uint8_t buf[TCP_FRAME_BYTES + 100] = {0};
            struct tcp_frame f = random_frame(hash_mix64(round * 1000 + i));
            tcp_put_frame(buf, &f);
            send(fd, buf, TCP_FRAME_BYTES + f.len_bytes, MSG_NOSIGNAL);
            if (i % 10 == 0) {
                run_for(100 * NS_PER_US);
            }
        }
        n_cut += node[1].tcp.n_inbound == 0;
        close(fd);
        run_for(NS_PER_MS);
    }
    for (unsigned i = 0; i < 100 && node[1].tcp.n_inbound > 0; i++) {
        run_for(NS_PER_MS);
    }
    ck_assert_uint_eq(node[1].tcp.n_inbound, 0);
    ck_assert_uint_gt(n_cut, 50);
    close_node(1);
    close_world();
}
END_TEST

struct impostor {
    struct wall_source source;
    const uint8_t *answer;
    size_t answer_bytes;
    int fd;
};

static void impostor_ready(struct wall_source *s, uint32_t events)
{
    struct impostor *m = container_of(s, struct impostor, source);
    (void)events;
    m->fd = accept(s->fd, NULL, NULL);
    ck_assert_int_ge(m->fd, 0);
    if (m->answer_bytes > 0) {
        send_all(m->fd, m->answer, m->answer_bytes);
    }
}

/* A listener that answers a hello with the bytes. */
static void against_impostor(const uint8_t *answer, size_t answer_bytes, int code,
                             const char *words)
{
    uint16_t port;
    open_world();
    struct tcp_options o = default_options(0);
    o.peer_timeout_ns = answer_bytes > 0 ? o.peer_timeout_ns : 100 * NS_PER_MS;
    open_node(0, &o);
    struct impostor m = {.answer = answer, .answer_bytes = answer_bytes, .fd = -1};
    m.source = (struct wall_source){socket_at(0, true, &port), impostor_ready};
    ck_assert_int_eq(wall_driver_add(&driver, &m.source, EPOLLIN), 0);
    add_peer(0, 1, port);
    struct dp_op op = copy_to_1(100, 3);
    op.parts_ready = 2;
    ck_assert_int_eq(run_op(&op), code);
    expect_words(&node[0], words);
    wall_driver_remove(&driver, &m.source);
    close(m.source.fd);
    close(m.fd);
    close_node(0);
    close_world();
}

START_TEST(impostors_are_noticed)
{
    uint8_t buf[TCP_WELCOME_BYTES + TCP_ACK_BYTES];
    against_impostor(NULL, 0, -ETIMEDOUT, "cannot connect");
    against_impostor((const uint8_t *)"HTTP/1.1 400 Bad", 16, -EPROTO,
                     "is not a node of this program");
    tcp_put_welcome(buf, &(struct tcp_welcome){.version = 1, .verdict = TCP_WELCOME});
    tcp_put_ack(buf + TCP_WELCOME_BYTES,
                &(struct tcp_ack){.slot = 0, .serial = 1, .parts_done = 3, .final = true});
    against_impostor(buf, sizeof(buf), -EPROTO, "makes no sense"); /* only two parts were sent */
    tcp_put_ack(buf + TCP_WELCOME_BYTES, &(struct tcp_ack){.slot = 8, .serial = 1});
    against_impostor(buf, sizeof(buf), -EPROTO, "makes no sense");
    tcp_put_ack(buf + TCP_WELCOME_BYTES,
                &(struct tcp_ack){.slot = 0, .serial = 1, .code = TCP_CANCELLED, .final = true});
    against_impostor(buf, sizeof(buf), -EPROTO, "makes no sense"); /* nobody had cancelled */
}
END_TEST

/* A process that is node 1; its port comes through
 * the pipe. Forked before this process has threads. */
static pid_t fork_node_1(uint16_t *ret_port)
{
    int to_parent[2];
    ck_assert_int_eq(pipe(to_parent), 0);
    pid_t pid = fork();
    if (pid == 0) {
        open_world();
        struct tcp_options o = default_options(1);
        open_node(1, &o);
        uint16_t port = transport_tcp_port(&node[1].tcp);
        ck_assert_int_eq(write(to_parent[1], &port, sizeof(port)), sizeof(port));
        loop_run(&loop);
        _exit(0);
    }
    ck_assert_int_eq(read(to_parent[0], ret_port, sizeof(*ret_port)), sizeof(*ret_port));
    close(to_parent[0]);
    close(to_parent[1]);
    return pid;
}

struct killer {
    struct loop_timer timer;
    pid_t pid;
};

static void killer_fires(struct loop_timer *t)
{
    kill(container_of(t, struct killer, timer)->pid, SIGKILL);
}

START_TEST(a_killed_process_is_named)
{
    unsigned n_died = 0;
    for (unsigned round = 0; round < 20; round++) {
        uint16_t port;
        pid_t pid = fork_node_1(&port);
        open_world();
        struct tcp_options o = default_options(0);
        open_node(0, &o);
        add_peer(0, 1, port);
        struct killer k = {.pid = pid};
        loop_timer_init(&k.timer, killer_fires);
        loop_arm(&loop, &k.timer, loop_now_ns(&loop) + hash_mix64(round) % (10 * NS_PER_MS));
        struct dp_op ops[4];
        for (unsigned i = 0; i < 4; i++) {
            ops[i] = copy_to_1((uint64_t)1 << 20, 60);
            ck_assert_int_eq(dp_submit(&node[0].hw.dp, &ops[i]), 0);
            waiting++;
        }
        ck_assert(!run_for(30 * NS_PER_S));
        for (unsigned i = 0; i < 4; i++) {
            int s = ops[i].status;
            ck_assert(s == 0 || s == -ECONNRESET || s == -EPIPE || s == -ECONNREFUSED);
            n_died += s != 0;
        }
        if (node[0].hw.faults.n > 0) {
            expect_words(&node[0], "node 1 (127.0.0.1:");
        }
        ck_assert_uint_eq(node[0].hw.dp.n_in_flight, 0);
        loop_disarm(&loop, &k.timer);
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        close_node(0);
        close_world();
    }
    ck_assert_uint_gt(n_died, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("transport_tcp");
    TCase *t = tcase_create("transport_tcp");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, nobody_there);
    tcase_add_test(t, patience_waits_for_a_late_peer);
    tcase_add_test(t, strangers_are_refused);
    tcase_add_test(t, garbage_and_silence_are_cut_off);
    tcase_add_test(t, messages_that_make_no_sense_end_the_connection);
    tcase_add_test(t, single_bytes_make_a_write);
    tcase_add_test(t, nearly_right_streams_do_no_harm);
    tcase_add_test(t, impostors_are_noticed);
    tcase_add_test(t, a_killed_process_is_named);
    suite_add_tcase(s, t);
    return run_suite(s);
}
