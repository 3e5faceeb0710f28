/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The wall clock's loop, its worker pool and the memories of a node. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "check_suite.h"
#include "hw/memory.h"
#include "hw/wall_driver.h"
#include "hw/work_pool.h"

static struct wall_driver driver;
static struct loop loop;

static void open_loop(void)
{
    struct err e = ERR_INIT;
    ck_assert_int_eq(wall_driver_init(&driver, &e), 0);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, 0), 0);
    wall_driver_attach(&driver, &loop);
}

static void close_loop(void)
{
    wall_driver_done(&driver);
    loop_done(&loop);
}

struct alarm {
    struct loop_timer timer;
    uint64_t due_ns, fired_ns;
};

static unsigned n_alarms;

static void alarm_fires(struct loop_timer *t)
{
    struct alarm *a = container_of(t, struct alarm, timer);
    a->fired_ns = loop_now_ns(&loop);
    if (--n_alarms == 0) {
        loop_stop(&loop);
    }
}

START_TEST(timers_are_never_early)
{
    open_loop();
    struct alarm a[20];
    n_alarms = 20;
    for (unsigned i = 0; i < 20; i++) {
        loop_timer_init(&a[i].timer, alarm_fires);
        a[i].due_ns = loop_now_ns(&loop) + i * 137 * NS_PER_US;
        loop_arm(&loop, &a[i].timer, a[i].due_ns);
    }
    ck_assert_int_eq(loop_run(&loop), 0);
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_uint_ge(a[i].fired_ns, a[i].due_ns);
        ck_assert_uint_lt(a[i].fired_ns, a[i].due_ns + 5 * NS_PER_S);
    }
    close_loop();
}
END_TEST

static void *send_sigint(void *arg)
{
    usleep(20000);
    kill(*(pid_t *)arg, SIGINT);
    return NULL;
}

START_TEST(sigint_cancels)
{
    open_loop();
    ck_assert_int_eq(wall_driver_catch_sigint(&driver), 0);
    ck_assert_int_eq(wall_driver_catch_sigint(&driver), -EBUSY);
    pid_t self = getpid();
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, send_sigint, &self), 0);
    ck_assert_int_eq(loop_run(&loop), -ECANCELED);
    pthread_join(thread, NULL);
    close_loop();
}
END_TEST

static void rearm(struct loop_timer *t)
{
    loop_post(&loop, t);
}

/* A loop that always has something to do hears it too. */
START_TEST(sigint_cancels_a_busy_loop)
{
    open_loop();
    struct loop_timer busy;
    loop_timer_init(&busy, rearm);
    loop_post(&loop, &busy);
    ck_assert_int_eq(wall_driver_catch_sigint(&driver), 0);
    pid_t self = getpid();
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, send_sigint, &self), 0);
    ck_assert_int_eq(loop_run(&loop), -ECANCELED);
    pthread_join(thread, NULL);
    close_loop();
}
END_TEST

struct pair {
    struct wall_source source;
    struct pair *other;
    unsigned n_ready;
};

/* Both have data; whoever comes first removes the other, whose event has been collected already. */
static void remove_other(struct wall_source *s, uint32_t events)
{
    struct pair *p = container_of(s, struct pair, source);
    ck_assert(events & EPOLLIN);
    p->n_ready++;
    wall_driver_remove(&driver, &p->other->source);
    wall_driver_remove(&driver, &p->source);
    loop_stop(&loop);
}

START_TEST(a_removed_source_is_silent)
{
    open_loop();
    int a[2], b[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    struct pair pa = {.source = {a[0], remove_other}}, pb = {.source = {b[0], remove_other}};
    pa.other = &pb;
    pb.other = &pa;
    ck_assert_int_eq(wall_driver_add(&driver, &pa.source, EPOLLIN), 0);
    ck_assert_int_eq(wall_driver_add(&driver, &pb.source, EPOLLIN), 0);
    ck_assert_int_eq(write(a[1], "x", 1), 1);
    ck_assert_int_eq(write(b[1], "x", 1), 1);
    ck_assert_int_eq(loop_run(&loop), 0);
    ck_assert_uint_eq(pa.n_ready + pb.n_ready, 1);
    for (unsigned i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
    close_loop();
}
END_TEST

#define JOBS 200u

struct job {
    struct work work;
    pthread_t ran_on;
    unsigned value, rounds;
};

static struct work_pool pool;
static unsigned n_jobs;

static void run_job(struct work *w)
{
    struct job *j = container_of(w, struct job, work);
    j->ran_on = pthread_self();
    j->value++;
}

static void job_done(struct work *w)
{
    struct job *j = container_of(w, struct job, work);
    ck_assert(!pthread_equal(j->ran_on, pthread_self()));
    if (j->value < j->rounds) {
        work_pool_push(&pool, w);
    } else if (--n_jobs == 0) {
        loop_stop(&loop);
    }
}

START_TEST(work_comes_back_to_the_loop)
{
    struct err e = ERR_INIT;
    open_loop();
    ck_assert_int_eq(work_pool_init(&pool, &loop, &driver, 3, &e), 0);
    static struct job jobs[JOBS];
    n_jobs = JOBS;
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.work = {.run = run_job, .done = job_done}, .rounds = 1 + i % 7};
        work_pool_push(&pool, &jobs[i].work);
    }
    ck_assert_int_eq(loop_run(&loop), 0);
    for (unsigned i = 0; i < JOBS; i++) {
        ck_assert_uint_eq(jobs[i].value, jobs[i].rounds);
    }
    work_pool_done(&pool);
    close_loop();
}
END_TEST

START_TEST(memories_have_bounds)
{
    struct err e = ERR_INIT;
    struct node_memory m;
    uint64_t big = (uint64_t)1 << 38; /* address space only */
    ck_assert_int_eq(node_memory_init(&m, 3, big, 2, 10000, &e), 0);
    ck_assert_ptr_eq(memory_at(&m, DP_DRAM, 0, 0, big), m.dram.base);
    ck_assert_ptr_eq(memory_at(&m, DP_DRAM, 1, big - 1, 1), m.dram.base + big - 1);
    ck_assert_ptr_null(memory_at(&m, DP_DRAM, 0, big - 1, 2));
    ck_assert_ptr_null(memory_at(&m, DP_DRAM, 0, UINT64_MAX, 2));
    ck_assert_ptr_null(memory_at(&m, DP_DRAM, 0, 1, UINT64_MAX));
    ck_assert_ptr_null(memory_at(&m, DP_HBM, 0, 0, 10001));
    ck_assert_ptr_eq(memory_at(&m, DP_HBM, 1, 10000, 0), m.hbm[1].base + 10000);
    ck_assert_ptr_null(memory_at(&m, DP_HBM, 2, 0, 1));
    ck_assert_ptr_null(memory_at(&m, (enum dp_tier)2, 0, 0, 1));
    ck_assert_uint_eq((uintptr_t)m.dram.base % 4096, 0);
    struct node_memory *nodes[4] = {[3] = &m};
    struct memory_map map = {nodes, 4};
    struct dp_place at = {.node = 3, .tier = DP_HBM, .gpu = 1, .offset_bytes = 5};
    ck_assert_ptr_eq(memory_map_at(&map, &at, 1), m.hbm[1].base + 5);
    at.node = 2;
    ck_assert_ptr_null(memory_map_at(&map, &at, 1));
    at.node = 4;
    ck_assert_ptr_null(memory_map_at(&map, &at, 1));
    node_memory_done(&m);
    ck_assert_int_eq(node_memory_init(&m, 3, 0, 2, 10000, &e), -EINVAL);
}
END_TEST

/* Whole pages go, the edges stay. */
START_TEST(released_pages_read_as_zero)
{
    struct err e = ERR_INIT;
    struct node_memory m;
    long page = sysconf(_SC_PAGESIZE);
    ck_assert_int_eq(node_memory_init(&m, 0, 8 * (uint64_t)page, 1, 1, &e), 0);
    memset(m.dram.base, 7, 8 * (size_t)page);
    ck_assert_int_eq(memory_release(&m, DP_DRAM, 0, (uint64_t)page - 1, 3 * (uint64_t)page), 0);
    for (long i = 0; i < 8 * page; i++) {
        ck_assert_uint_eq(m.dram.base[i], i >= page && i < 3 * page ? 0 : 7);
    }
    ck_assert_int_eq(memory_release(&m, DP_DRAM, 0, 5 * (uint64_t)page + 1, (uint64_t)page), 0);
    ck_assert_uint_eq(m.dram.base[5 * page + 2], 7);
    ck_assert_int_eq(memory_release(&m, DP_DRAM, 0, 1, 8 * (uint64_t)page), -EFAULT);
    node_memory_done(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wall_driver");
    TCase *t = tcase_create("wall_driver");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, timers_are_never_early);
    tcase_add_test(t, sigint_cancels);
    tcase_add_test(t, sigint_cancels_a_busy_loop);
    tcase_add_test(t, a_removed_source_is_silent);
    tcase_add_test(t, work_comes_back_to_the_loop);
    tcase_add_test(t, memories_have_bounds);
    tcase_add_test(t, released_pages_read_as_zero);
    suite_add_tcase(s, t);
    return run_suite(s);
}
