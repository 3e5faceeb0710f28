/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The storage NIC against queueing theory, and processor sharing worked out by hand. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "check_suite.h"
#include "sim/storage_server.h"
#include "sim/virtual_driver.h"

#define LINE_BPS   1e9 /* a byte per ns */
#define MEAN_BYTES 1000000.0
#define N_JOBS     120000u
#define N_BATCHES  40u

struct fixture {
    struct virtual_driver driver;
    struct loop loop;
    struct storage_server server;
};

static void fixture_init(struct fixture *f, const struct storage_config *config)
{
    virtual_driver_init(&f->driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&f->loop, &f->driver.driver, 0), 0);
    ck_assert_int_eq(storage_server_init(&f->server, &f->loop, NULL, config), 0);
}

static void fixture_done(struct fixture *f)
{
    storage_server_done(&f->server);
    loop_done(&f->loop);
}

static struct storage_config plain(uint32_t reads, uint32_t writes)
{
    return (struct storage_config){
        .line_Bps = LINE_BPS, .efficiency_max = 1, .in_service = {reads, writes}};
}

/* A job with its times. */
struct timed_job {
    struct storage_job job;
    struct fixture *f;
    uint64_t arrival_ns, start_ns, end_ns;
};

static struct timed_job *of(struct storage_job *job)
{
    return container_of(job, struct timed_job, job);
}

static void started(struct storage_job *job)
{
    of(job)->start_ns = loop_now_ns(&of(job)->f->loop);
}

static void done(struct storage_job *job)
{
    ck_assert_uint_eq(of(job)->end_ns, 0); /* once */
    of(job)->end_ns = loop_now_ns(&of(job)->f->loop);
}

enum { READ, WRITE };

static void submit(struct fixture *f, struct timed_job *j, uint32_t kind, uint64_t bytes)
{
    *j = (struct timed_job){.f = f, .arrival_ns = loop_now_ns(&f->loop)};
    j->job.started = started;
    j->job.done = done;
    if (kind == READ) {
        storage_server_read(&f->server, &j->job, 0, bytes, bytes);
    } else {
        storage_server_write(&f->server, &j->job, bytes, bytes);
    }
}

/* Poisson arrivals */

struct arrivals {
    struct loop_timer timer;
    struct fixture *f;
    struct rng *gaps, *sizes;
    double (*size)(struct rng *sizes);
    double mean_gap_ns, at_ns;
    struct timed_job *jobs;
    uint32_t n;
};

static void arrive(struct loop_timer *t)
{
    struct arrivals *a = container_of(t, struct arrivals, timer);
    submit(a->f, &a->jobs[a->n++], 0, (uint64_t)llround(a->size(a->sizes)));
    if (a->n < N_JOBS) {
        a->at_ns += rng_exponential(a->gaps, a->mean_gap_ns);
        loop_arm(&a->f->loop, t, (uint64_t)llround(a->at_ns));
    }
}

static double constant(struct rng *r)
{
    (void)r;
    return MEAN_BYTES;
}

static double exponential(struct rng *r)
{
    return 1 + rng_exponential(r, MEAN_BYTES - 1);
}

static double two_sizes(struct rng *r)
{
    return rng_uniform(r) < 0.9 ? MEAN_BYTES / 2 : MEAN_BYTES * 5.5;
}

struct estimate {
    double mean, error; /* standard error from batch means */
};

static struct estimate batch_means(const struct timed_job *jobs, bool until_start)
{
    double sum = 0, sum2 = 0;
    uint32_t size = N_JOBS / N_BATCHES;
    for (uint32_t b = 1; b < N_BATCHES; b++) { /* the first one warms up */
        double batch = 0;
        for (uint32_t i = b * size; i < (b + 1) * size; i++) {
            uint64_t until = until_start ? jobs[i].start_ns : jobs[i].end_ns;
            batch += (double)(until - jobs[i].arrival_ns) / size;
        }
        sum += batch;
        sum2 += batch * batch;
    }
    double n = N_BATCHES - 1, mean = sum / n;
    return (struct estimate){mean, sqrt((sum2 / n - mean * mean) / (n - 1))};
}

/* Mean wait (or, until the end, sojourn) at load rho, in units of the mean service time. */
static void check_mean(uint32_t in_service, double (*size)(struct rng *), double rho,
                       bool until_start, double expected)
{
    struct fixture f;
    struct storage_config config = plain(in_service, 1);
    fixture_init(&f, &config);
    struct arrivals a = {.f = &f,
                         .gaps = rng_new(11, "test gaps"),
                         .sizes = rng_new(11, "test sizes"),
                         .size = size,
                         .mean_gap_ns = MEAN_BYTES / rho,
                         .jobs = calloc(N_JOBS, sizeof(*a.jobs))};
    loop_timer_init(&a.timer, arrive);
    loop_post(&f.loop, &a.timer);
    ck_assert_int_eq(loop_run(&f.loop), 0);
    struct estimate e = batch_means(a.jobs, until_start);
    double mean = e.mean / MEAN_BYTES, error = e.error / MEAN_BYTES;
    /* Batches are nearly independent: 4 standard errors leave 1 false alarm in 4,000 (t, 38). */
    printf("load %g: mean %.4f, expected %.4f, standard error %.4f\n", rho, mean, expected, error);
    ck_assert_msg(fabs(mean - expected) <= 4 * error,
                  "load %g: mean %g, expected %g, standard error %g", rho, mean, expected, error);
    ck_assert_double_lt(error, 0.1 * expected); /* else the bounds say nothing */
    ck_assert_uint_eq(f.server.bytes_in[0], f.server.bytes_out[0]);
    free(a.jobs);
    rng_free(a.gaps);
    rng_free(a.sizes);
    fixture_done(&f);
}

/* Pollaczek-Khinchine with no variance: rho / (2 (1 - rho)) service times. */
START_TEST(test_md1)
{
    static const double loads[] = {0.3, 0.5, 0.7, 0.8};
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        check_mean(1, constant, loads[i], true, loads[i] / (2 * (1 - loads[i])));
    }
}
END_TEST

/* The same with exponential sizes: rho / (1 - rho). */
START_TEST(test_mm1)
{
    check_mean(1, exponential, 0.5, true, 1);
    check_mean(1, exponential, 0.7, true, 0.7 / 0.3);
}
END_TEST

/* Processor sharing without a limit: the mean sojourn is 1 / (1 - rho) whatever the sizes. */
START_TEST(test_mg1_ps)
{
    check_mean(1u << 30, constant, 0.6, false, 2.5);
    check_mean(1u << 30, exponential, 0.6, false, 2.5);
    check_mean(1u << 30, two_sizes, 0.6, false, 2.5);
}
END_TEST

/* Two in service: 1000 and 3000 bytes share until 2000; then the third one, 1000, comes in and
 * shares with the 2000 bytes left until 4000, after which 1000 bytes run alone. */
START_TEST(test_sharing_by_hand)
{
    struct fixture f;
    struct timed_job j[3];
    struct storage_config config = plain(2, 1);
    fixture_init(&f, &config);
    submit(&f, &j[0], 0, 1000);
    submit(&f, &j[1], 0, 3000);
    submit(&f, &j[2], 0, 1000);
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j[0].end_ns, 2000);
    ck_assert_uint_eq(j[2].start_ns, 2000);
    ck_assert_uint_eq(j[2].end_ns, 4000);
    ck_assert_uint_eq(j[1].end_ns, 5000);
    ck_assert_double_eq(storage_server_used_ns(&f.server), 5000);
    ck_assert_double_eq_tol(storage_server_moved_bytes(&f.server), 5000, 1e-9);
    fixture_done(&f);
}
END_TEST

/* A stream that waits for its I/Os: what it has waited in service is not waited for again. */
START_TEST(latency_of_a_stream_counts_once)
{
    struct storage_config config = plain(8, 1);
    config.stream_Bps = 0.5 * LINE_BPS;
    config.latency_median_s = 3000e-9;
    config.latency_in_rate = true;
    struct fixture f;
    fixture_init(&f, &config);
    struct rng *rng = rng_new(1, "test latency");
    ck_assert_ptr_nonnull(rng);
    f.server.rng = rng;
    struct timed_job j[2];
    submit(&f, &j[0], READ, 1000); /* 2000 ns in service: the first answers are on their way */
    ck_assert_int_eq(loop_run(&f.loop), 0);
    submit(&f, &j[1], READ, 5000);
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j[0].end_ns, 3000);
    ck_assert_uint_eq(j[1].end_ns - j[1].start_ns, 10000);
    fixture_done(&f);
    rng_free(rng);
}
END_TEST

/* Two of four streams of 400 MB/s at most take 0.8 of the line: 1000 bytes in 2500 ns; four share
 * it. */
START_TEST(one_request_reads_no_faster_than_a_stream)
{
    struct storage_config config = plain(8, 1);
    config.stream_Bps = 0.4 * LINE_BPS;
    struct fixture f;
    fixture_init(&f, &config);
    struct timed_job j[6];
    submit(&f, &j[0], READ, 1000);
    submit(&f, &j[1], READ, 1000);
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j[0].end_ns, 2500);
    ck_assert_uint_eq(j[1].end_ns, 2500);
    ck_assert_double_eq_tol(storage_server_used_ns(&f.server), 2000, 1e-6);
    for (unsigned i = 2; i < 6; i++) {
        submit(&f, &j[i], READ, 1000);
    }
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j[5].end_ns, 2500 + 4000);
    ck_assert_double_eq_tol(storage_server_moved_bytes(&f.server), 6000, 1e-6);
    fixture_done(&f);
}
END_TEST

/* With a queue for each reader, one in service of each, a reader's second read waits for its first
 * and another reader's does not. */
START_TEST(readers_have_queues_of_their_own)
{
    struct storage_config config = plain(1, 1);
    config.read_queues = 2;
    struct fixture f;
    fixture_init(&f, &config);
    struct timed_job j[3];
    for (unsigned i = 0; i < 3; i++) {
        j[i] = (struct timed_job){.f = &f};
        j[i].job.started = started;
        j[i].job.done = done;
        storage_server_read(&f.server, &j[i].job, i < 2 ? 0 : 3, 1000, 1000);
    }
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j[0].end_ns, 2000);
    ck_assert_uint_eq(j[2].end_ns, 2000);
    ck_assert_uint_eq(j[1].start_ns, 2000);
    ck_assert_uint_eq(j[1].end_ns, 3000);
    fixture_done(&f);
}
END_TEST

/* Reads and writes wait in queues of their own and share the line. */
START_TEST(test_reads_and_writes)
{
    struct fixture f;
    struct timed_job read[2], write;
    struct storage_config config = plain(1, 1);
    fixture_init(&f, &config);
    submit(&f, &read[0], 0, 1000);
    submit(&f, &read[1], 0, 1000);
    submit(&f, &write, 1, 1500);
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(read[0].end_ns, 2000);
    ck_assert_uint_eq(write.end_ns, 3000);
    ck_assert_uint_eq(read[1].end_ns, 3500);
    ck_assert_uint_eq(f.server.bytes_out[0], 2000);
    ck_assert_uint_eq(f.server.bytes_out[1], 1500);
    fixture_done(&f);
}
END_TEST

/* 64 KiB I/Os at half the size for half the speed. */
START_TEST(test_efficiency)
{
    struct fixture f;
    struct timed_job j;
    struct storage_config config = plain(1, 1);
    config.efficiency_max = 0.8;
    config.half_size_bytes = 65536;
    fixture_init(&f, &config);
    submit(&f, &j, 0, 65536); /* 65536 / (0.8 / 2) */
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j.end_ns, 163840);
    ck_assert_uint_eq(f.server.bytes_out[0], 65536);
    fixture_done(&f);
}
END_TEST

struct action {
    struct loop_timer timer;
    struct fixture *f;
    struct timed_job *victim;
    bool cancelled;
};

/* What has moved at a time at which nothing happens: by a job alone and by two of unlike I/O
 * sizes. */
struct look {
    struct loop_timer timer;
    struct fixture *f;
    double moved_bytes, used_ns, delivers_Bps;
};

static void look(struct loop_timer *t)
{
    struct look *l = container_of(t, struct look, timer);
    l->moved_bytes = storage_server_moved_bytes(&l->f->server);
    l->used_ns = storage_server_used_ns(&l->f->server);
    l->delivers_Bps = storage_server_delivers_Bps(&l->f->server);
}

static void drop_rate(struct loop_timer *t)
{
    look(t);
    storage_server_set_rate(&container_of(t, struct look, timer)->f->server, LINE_BPS / 2);
}

/*
 * A byte of work per ns, for I/O of 1000 B at efficiency 1/2 and of 3000 B at 3/4. 2000 bytes of
 * the first are 4000 of work, 2250 of the second 3000. Together they deliver 5/8 B/ns: 2500 after
 * 4000 ns. The second is done after 6000, when 1500 of the first have moved as well; the first then
 * moves 1/2 B/ns: 4000 in all after 6500 ns. There the line drops to half its rate, and the last
 * 250 take 1000 ns.
 */
START_TEST(test_moved_bytes_by_hand)
{
    static const struct {
        uint64_t at_ns;
        double moved_bytes, used_ns, delivers_Bps;
    } want[] = {{4000, 2500, 4000, 0.625e9},
                {6250, 3875, 6250, 0.5e9},
                {6500, 4000, 6500, 0.5e9},
                {7100, 4150, 6800, 0.25e9},
                {9000, 4250, 7000, 0}};
    enum { N = sizeof(want) / sizeof(want[0]) };
    struct fixture f;
    struct timed_job j[2];
    struct look l[N];
    struct storage_config config = plain(2, 1);
    config.half_size_bytes = 1000;
    fixture_init(&f, &config);
    for (unsigned i = 0; i < 2; i++) {
        j[i] = (struct timed_job){.f = &f, .job = {.started = started, .done = done}};
    }
    storage_server_read(&f.server, &j[0].job, 0, 2000, 1000);
    storage_server_read(&f.server, &j[1].job, 0, 2250, 3000);
    for (unsigned i = 0; i < N; i++) {
        l[i] = (struct look){.f = &f};
        loop_timer_init(&l[i].timer, i == 2 ? drop_rate : look);
        loop_arm(&f.loop, &l[i].timer, want[i].at_ns);
    }
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j[1].end_ns, 6000);
    ck_assert_uint_eq(j[0].end_ns, 7500);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_double_eq_tol(l[i].moved_bytes, want[i].moved_bytes, 1e-6);
        ck_assert_double_eq_tol(l[i].used_ns, want[i].used_ns, 1e-6);
        ck_assert_double_eq_tol(l[i].delivers_Bps, want[i].delivers_Bps, 1);
    }
    fixture_done(&f);
}
END_TEST

static void slow_down(struct loop_timer *t)
{
    storage_server_set_rate(&container_of(t, struct action, timer)->f->server, LINE_BPS / 2);
}

static void cancel(struct loop_timer *t)
{
    struct action *a = container_of(t, struct action, timer);
    a->cancelled = storage_server_cancel(&a->f->server, &a->victim->job);
}

START_TEST(test_rate_changes)
{
    struct fixture f;
    struct timed_job j;
    struct storage_config config = plain(1, 1);
    struct action a = {.f = &f};
    fixture_init(&f, &config);
    submit(&f, &j, 0, 1000);
    loop_timer_init(&a.timer, slow_down);
    loop_arm(&f.loop, &a.timer, 400);
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j.end_ns, 400 + 1200);
    fixture_done(&f);
}
END_TEST

START_TEST(test_cancel)
{
    struct fixture f;
    struct timed_job j[3];
    struct storage_config config = plain(1, 1);
    struct action a = {.f = &f, .victim = &j[0]};
    fixture_init(&f, &config);
    for (int i = 0; i < 3; i++) {
        submit(&f, &j[i], 0, 1000);
    }
    loop_timer_init(&a.timer, cancel);
    loop_arm(&f.loop, &a.timer, 400);
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert(a.cancelled);
    ck_assert_uint_eq(j[0].end_ns, 0);
    ck_assert_uint_eq(j[1].start_ns, 400);
    ck_assert_uint_eq(j[2].end_ns, 2400);
    ck_assert_uint_eq(f.server.bytes_in[0], 2000);
    ck_assert_uint_eq(f.server.bytes_out[0], 2000);
    fixture_done(&f);
}
END_TEST

static uint64_t prepare_300(struct storage_job *job)
{
    ck_assert_uint_eq(of(job)->start_ns, 0);
    return 300;
}

/* A reader that has to ask before it reads keeps its turn, but takes nothing of the line. The third
 * read is cancelled while it asks. */
START_TEST(a_reader_asks_in_its_turn)
{
    struct storage_config config = plain(1, 1);
    config.read_queues = 2;
    struct fixture f;
    fixture_init(&f, &config);
    struct timed_job j[5];
    for (unsigned i = 0; i < 5; i++) {
        j[i] = (struct timed_job){.f = &f};
        j[i].job.started = started;
        j[i].job.done = done;
        j[i].job.prepare_ns = i < 4 ? prepare_300 : NULL;
        storage_server_read(&f.server, &j[i].job, i < 4 ? 0 : 1, 1000, 1000);
    }
    struct action a = {.f = &f, .victim = &j[2]};
    loop_timer_init(&a.timer, cancel);
    /* The fifth has the line alone until 300, then shares it until 300 + 2 * 700; the first's last
     * 300 bytes take until 2000, the second's from 2300 to 3300, and the third asks until 3600. */
    loop_arm(&f.loop, &a.timer, 3400);
    ck_assert_int_eq(loop_run(&f.loop), 0);
    ck_assert_uint_eq(j[4].end_ns, 1700);
    ck_assert_uint_eq(j[0].start_ns, 300);
    ck_assert_uint_eq(j[0].end_ns, 2000);
    ck_assert_uint_eq(j[1].start_ns, 2300);
    ck_assert_uint_eq(j[1].end_ns, 3300);
    ck_assert(a.cancelled);
    ck_assert_uint_eq(j[2].end_ns, 0);
    ck_assert_uint_eq(j[3].start_ns, 3700);
    ck_assert_uint_eq(j[3].end_ns, 4700);
    ck_assert_double_eq_tol(storage_server_used_ns(&f.server), 1700 + 300 + 2000, 1e-6);
    fixture_done(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("storage_server");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 200);
    tcase_add_test(tc, test_md1);
    tcase_add_test(tc, test_mm1);
    tcase_add_test(tc, test_mg1_ps);
    tcase_add_test(tc, test_sharing_by_hand);
    tcase_add_test(tc, test_reads_and_writes);
    tcase_add_test(tc, test_efficiency);
    tcase_add_test(tc, test_moved_bytes_by_hand);
    tcase_add_test(tc, test_rate_changes);
    tcase_add_test(tc, one_request_reads_no_faster_than_a_stream);
    tcase_add_test(tc, latency_of_a_stream_counts_once);
    tcase_add_test(tc, readers_have_queues_of_their_own);
    tcase_add_test(tc, test_cancel);
    tcase_add_test(tc, a_reader_asks_in_its_turn);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
