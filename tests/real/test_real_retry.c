/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Runs that survive the death of an agent (hw.retry). REAL_RUN_RETRIES in the environment sets how
 * many runs lose an agent at a random moment (2), REAL_RUN_SEED the moments.
 */
#include "check_suite.h"
#include "real_run_test.h"

/* hw.retry: the run survives the death. All agents come at once, so that there is always something
 * to lose. */
#define MAX_AGENTS 16

/* Few in the suite: sanitizers make attention slow. */
static unsigned n_agents(void)
{
    return from_environment("REAL_RUN_RETRIES", 2) >= 10 ? MAX_AGENTS : 8;
}

static pid_t start_retry_run(const char *requests_path, const char *transport)
{
    char agents[40];
    snprintf(agents, sizeof(agents), "workload.agents=%u", n_agents());
    const char *more[] = {
        "--set",      transport,     "--set", "hw.retry=true",
        "--set",      agents,        "--set", "workload.arrival={\"kind\": \"offline\"}",
        "--requests", requests_path, NULL};
    return start_run(more);
}

/* Every turn of every agent has one row. Returns how many. */
static unsigned check_served_once(const char *requests_path)
{
    static char rows[TEXT];
    static unsigned served[MAX_AGENTS][16];
    unsigned n = 0, session, turn;
    memset(served, 0, sizeof(served));
    read_text(requests_path, rows);
    for (char *row = strchr(rows, '\n'); row && row[1]; row = strchr(row + 1, '\n'), n++) {
        ck_assert_int_eq(sscanf(row + 1, "%u,%u,", &session, &turn), 2);
        ck_assert(session < n_agents() && turn < 16);
        ck_assert_uint_eq(served[session][turn], 0);
        served[session][turn] = 1;
    }
    return n;
}

/* Returns how many requests were run again. */
static unsigned check_survived(const char *requests_path, const char *what)
{
    json_t *root = json_loads(out, 0, NULL);
    ck_assert_msg(root != NULL, "%s: no JSON: %s; %s", what, out, errors);
    json_t *retry = json_object_get(root, "retry"), *died = json_object_get(retry, "node_died_s");
    ck_assert_double_eq(number_at(root, NULL, "requests"), 4 * n_agents());
    ck_assert_uint_eq(check_served_once(requests_path), 4 * n_agents());
    ck_assert_ptr_nonnull(strstr(errors, "verified: "));
    ck_assert_uint_le(json_object_size(died), 1);
    const char *name = json_object_iter_key(json_object_iter(died));
    if (name) { /* else the agent had reported already */
        char expected[100];
        snprintf(expected, sizeof(expected), "note: %s ", name);
        ck_assert_msg(strstr(errors, expected) != NULL, "%s: %s not in: %s", what, expected,
                      errors);
    }
    unsigned n = (unsigned)json_number_value(json_object_get(retry, "requests_rerun"));
    ck_assert(name || n == 0);
    json_decref(root);
    return n;
}

START_TEST(a_run_with_retry_survives_the_death_of_an_agent)
{
    unsigned rounds = from_environment("REAL_RUN_RETRIES", 2);
    uint64_t seed = from_environment("REAL_RUN_SEED", 1);
    static const char *const transports[] = {"hw.transport=tcp", "hw.transport=mem"};
    unsigned n_reruns = 0, n_hangs = 0, n_starting = 0;
    char requests[300];
    snprintf(requests, sizeof(requests), "%s.requests", dir);
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t h = hash_mix64(seed << 32 | (round + 1000000));
        unsigned after_ms = (unsigned)(h % 1200), which = (unsigned)(h >> 32) % 4;
        bool hang = round % 10 == 9; /* noticed by its silence */
        char what[64];
        snprintf(what, sizeof(what), "round %u, agent %u", round, which);
        pid_t agents[MAX_CHILDREN], run = start_retry_run(requests, transports[round % 2]);
        wait_until_serving(run, agents);
        sleep_ms(after_ms);
        unsigned n = children(run, agents, MAX_CHILDREN);
        if (n == 4) {
            kill(agents[which], hang ? SIGSTOP : SIGKILL);
        }
        int status = finish(run, 110);
        ck_assert_msg(status == 0, "%s: status %d: %s", what, status, errors);
        n_reruns += check_survived(requests, what);
        n_hangs += hang;
        n_starting += n < 4;
        for (unsigned i = 0; i < n; i++) {
            ck_assert_msg(kill(agents[i], 0) && errno == ESRCH, "%s: agent %ld is still there",
                          what, (long)agents[i]);
        }
    }
    unlink(requests);
    printf("%u runs with retry (%u with an agent that hangs, %u over before): %u requests were run "
           "again\n",
           rounds, n_hangs, n_starting, n_reruns);
    ck_assert(rounds < 10 || n_reruns > 0);
}
END_TEST

START_TEST(a_run_with_retry_ends_when_no_node_of_a_kind_is_left)
{
    char requests[300];
    snprintf(requests, sizeof(requests), "%s.requests", dir);
    pid_t agents[MAX_CHILDREN], run = start_retry_run(requests, "hw.transport=tcp");
    wait_until_serving(run, agents);
    kill(agents[2], SIGKILL);
    kill(agents[3], SIGKILL);
    ck_assert_int_eq(finish(run, 60), 1);
    ck_assert_str_eq(out, "");
    ck_assert_msg(strstr(errors, "no decode node is left") != NULL, "%s", errors);
    unlink(requests);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("real_retry");
    TCase *t = tcase_create("real_retry");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120 + 40.0 * from_environment("REAL_RUN_RETRIES", 2));
    tcase_add_test(t, a_run_with_retry_survives_the_death_of_an_agent);
    tcase_add_test(t, a_run_with_retry_ends_when_no_node_of_a_kind_is_left);
    suite_add_tcase(s, t);
    return run_suite(s);
}
