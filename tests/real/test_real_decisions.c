/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A real run and a simulated one of the same scenario take the same decisions and move the same
 * bytes. */
#include <math.h>

#include "check_suite.h"
#include "real_run_test.h"

/*
 * Fetches come every 500 ms, from each node in turn; agents arrive in the middle between two of
 * them, and their second turns 100 ms and their own time to compute behind one. What the scheduler
 * then decides does not hang on how long things take (up to 400 ms), and the simulator decides the
 * same, in the same order. All times are `slowness` times as long, for machines that are busy with
 * other things.
 */
#define SPACED_SESSIONS 8
#define SPACED_TURNS    2
#define MAX_APART_S     0.2 /* of real and simulated ends; fetches, arrivals are 250 ms apart */
#define MAX_SLOWNESS    8

static void write_spaced_trace(const char *path, unsigned slowness)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "{\"schema\": \"dualpath/trace/1\", \"block_tok\": 0, \"sessions\": %u}\n",
            SPACED_SESSIONS);
    for (unsigned i = 0; i < SPACED_SESSIONS; i++) {
        fprintf(f,
                "{\"arrival_ns\": %lu000000, \"turns\": [{\"prompt_tok\": %u, \"gen_tok\": 4, "
                "\"delay_ns\": 0}, {\"prompt_tok\": %u, \"gen_tok\": 4, \"delay_ns\": "
                "%lu000000}]}\n",
                (1500ul * i + 250) * slowness, 100 + 10 * i, 240 + 10 * i, 1100ul * slowness);
    }
    fclose(f);
}

/* When every turn arrived and when it got its last token, in seconds from the start, from
 * --requests. */
static void read_times(const char *path, double ret_s[SPACED_SESSIONS][SPACED_TURNS][2])
{
    static char rows[TEXT];
    unsigned n = 0, session, turn;
    read_text(path, rows);
    for (char *row = strchr(rows, '\n'); row && row[1]; row = strchr(row + 1, '\n'), n++) {
        double arrival_s, last_s;
        ck_assert_int_eq(sscanf(row + 1, "%u,%u,%*u,%*u,%*u,%lf,%*f,%*f,%lf", &session, &turn,
                                &arrival_s, &last_s),
                         4);
        ck_assert(session < SPACED_SESSIONS && turn < SPACED_TURNS);
        ret_s[session][turn][0] = arrival_s;
        ret_s[session][turn][1] = last_s;
    }
    ck_assert_uint_eq(n, SPACED_SESSIONS * SPACED_TURNS);
}

/* By how much a request of the real run arrived or ended later than in the simulator, or earlier,
 * at most: earlier when a fetch was so late that it came behind an arrival that it should have
 * missed. */
static double apart_s(const char *real, const char *simulated)
{
    double a[SPACED_SESSIONS][SPACED_TURNS][2], b[SPACED_SESSIONS][SPACED_TURNS][2], worst = 0;
    read_times(real, a);
    read_times(simulated, b);
    for (unsigned i = 0; i < SPACED_SESSIONS; i++) {
        for (unsigned k = 0; k < SPACED_TURNS; k++) {
            worst = fmax(worst, fabs(a[i][k][0] - b[i][k][0]));
            worst = fmax(worst, fabs(a[i][k][1] - b[i][k][1]));
        }
    }
    return worst;
}

/* Equal decisions move equal bytes: use times length of the run, of what is counted in bytes on
 * both sides, agrees. */
static void check_equal_bytes(const char *real, const char *simulated)
{
    static const char *const rows[] = {"pe_cnic_read",  "pe_cnic_write", "de_cnic_read",
                                       "de_cnic_write", "pe_dram",       "de_dram"};
    json_t *a = json_loads(real, 0, NULL), *b = json_loads(simulated, 0, NULL);
    ck_assert(a && b);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double x = number_at(a, "utilization_run", rows[i]) * number_at(a, NULL, "jct_s");
        double y = number_at(b, "utilization_run", rows[i]) * number_at(b, NULL, "jct_s");
        ck_assert_double_gt(y, 0);
        ck_assert_msg(x > y * (1 - 1e-6) && x < y * (1 + 1e-6), "%s: %.9g s in real, %.9g s in sim",
                      rows[i], x, y);
    }
    ck_assert_double_gt(number_at(a, "utilization_run", "pe_gpu"), 0);
    ck_assert_double_gt(number_at(a, "utilization_run", "de_gpu"), 0);
    json_decref(a);
    json_decref(b);
}

/* Files of the real run and of the simulator, and what they printed. */
struct spaced {
    char trace[300], decisions[2][300], requests[2][300];
    char out[2][TEXT];
};

static void run_spaced(struct spaced *p, unsigned backend, unsigned slowness)
{
    char setting[340], period[60];
    snprintf(setting, sizeof(setting), "workload.trace=%s", p->trace);
    snprintf(period, sizeof(period), "system.fetch_period_s=%us", 2 * slowness);
    const char *args[] = {"run",         SCENARIO,
                          "--format",    "json",
                          "--backend",   backend ? "sim" : "real",
                          "--set",       setting,
                          "--set",       "workload.agents=8",
                          "--set",       period,
                          "--set",       "system.path_policy=round_robin",
                          "--set",       "hw.check_every=0",
                          "--decisions", p->decisions[backend],
                          "--requests",  p->requests[backend],
                          NULL};
    unlink(out_path);
    unlink(err_path);
    ck_assert_msg(finish(start(getenv("DUALPATH"), args), 300) == 0, "%s", errors);
    memcpy(p->out[backend], out, sizeof(out));
}

enum outcome { EQUAL, DIFFERENT, NOT_COMPARABLE };

/* Not comparable: a request is so far from its simulated time that decisions might differ for that,
 * or be the same by chance. */
static enum outcome run_both_spaced(struct spaced *p, unsigned slowness)
{
    static char real[TEXT], simulated[TEXT];
    write_spaced_trace(p->trace, slowness);
    run_spaced(p, 0, slowness);
    run_spaced(p, 1, slowness);
    read_text(p->decisions[0], real);
    read_text(p->decisions[1], simulated);
    double off_s = apart_s(p->requests[0], p->requests[1]);
    bool comparable = off_s <= MAX_APART_S * slowness, equal = strcmp(real, simulated) == 0;
    if (!comparable || !equal) {
        printf("times %u: a request was %.3f s from where it was simulated to, decisions %s\n",
               slowness, off_s, equal ? "equal" : "differ");
    }
    if (!equal) {
        printf("real:\n%s\nsimulated:\n%s\n", real, simulated);
    }
    return !comparable ? NOT_COMPARABLE : equal ? EQUAL : DIFFERENT;
}

static unsigned count_lines(const char *text)
{
    unsigned n = 0;
    for (; *text; text++) {
        n += *text == '\n';
    }
    return n;
}

START_TEST(real_and_simulated_decisions_are_equal)
{
    static struct spaced p;
    static char real[TEXT];
    snprintf(p.trace, sizeof(p.trace), "%s.trace", dir);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(p.decisions[i], sizeof(p.decisions[i]), "%s.decisions%u", dir, i);
        snprintf(p.requests[i], sizeof(p.requests[i]), "%s.requests%u", dir, i);
    }
    /* A fetch that comes too late need not show in a request's times. After decisions that differ,
     * those with gaps twice as wide have to be the same twice; what does not come from a stall
     * differs there as well. */
    unsigned slowness = 1, to_agree = 1;
    while (to_agree > 0) {
        enum outcome outcome = run_both_spaced(&p, slowness);
        to_agree = outcome == EQUAL ? to_agree - 1 : outcome == DIFFERENT ? 2 : to_agree;
        slowness *= outcome == EQUAL ? 1 : 2;
        ck_assert_uint_le(slowness, MAX_SLOWNESS);
    }
    read_text(p.decisions[0], real);
    unlink(p.trace);
    for (unsigned i = 0; i < 2; i++) {
        unlink(p.decisions[i]);
        unlink(p.requests[i]);
    }
    ck_assert_uint_eq(count_lines(real), 1 + SPACED_SESSIONS * SPACED_TURNS);
    check_equal_bytes(p.out[0], p.out[1]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("real_decisions");
    TCase *t = tcase_create("spaced");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 1000);
    tcase_add_test(t, real_and_simulated_decisions_are_equal);
    suite_add_tcase(s, t);
    return run_suite(s);
}
