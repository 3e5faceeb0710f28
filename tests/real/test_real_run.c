/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Whole runs in processes: dualpath run --backend real, as a person starts it. REAL_RUN_KILLS in
 * the environment sets how many runs get an agent killed at a random moment (6), REAL_RUN_SEED the
 * moments.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "check_suite.h"
#include "real_run_test.h"

/* All agents served, everything verified (or the run would have failed), and figures that make
 * sense. */
static void check_result(const char *what)
{
    json_t *root = json_loads(out, 0, NULL);
    ck_assert_msg(root != NULL, "no JSON: %s", out);
    double jct = number_at(root, NULL, "jct_s"), ttft = number_at(root, "ttft_s", "mean");
    ck_assert_double_eq(number_at(root, NULL, "agents"), 32);
    ck_assert_double_eq(number_at(root, NULL, "requests"), 128);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(root, "run"), "backend")),
                     "real");
    /* The last agent arrives at 7.75 s and then pauses at least three times for 150 ms. */
    ck_assert_double_gt(jct, 7.75 + 3 * 0.15);
    ck_assert_double_gt(ttft, 0);
    ck_assert_double_eq(number_at(root, "tokens", "hit") + number_at(root, "tokens", "miss"),
                        number_at(root, "tokens", "prompt"));
    ck_assert_double_eq(number_at(root, "bytes", "storage_read"),
                        number_at(root, "tokens", "hit") * 4 * 288);
    const char *verified = strstr(errors, "verified: ");
    unsigned long rows = 0, outputs = 0;
    ck_assert_ptr_nonnull(verified);
    ck_assert_int_eq(
        sscanf(verified, "verified: %lu KV rows, %lu attention outputs", &rows, &outputs), 2);
    /* Every new token of a prompt, and every decoded one but the last, in each of 4 layers. */
    ck_assert_uint_eq(outputs, 4 * (unsigned long)(number_at(root, "tokens", "miss") +
                                                   number_at(root, "tokens", "generated") - 128));
    ck_assert_uint_gt(rows, 4 * (unsigned long)number_at(root, "tokens", "hit"));
    printf("%s: JCT %.3f s, mean TTFT %.4f s, %lu KV rows and %lu outputs right\n", what, jct, ttft,
           rows, outputs);
    json_decref(root);
}

START_TEST(loopback_dualpath)
{
    const char *more[] = {NULL};
    ck_assert_msg(finish(start_run(more), 300) == 0, "%s", errors);
    check_result("dualpath");
}
END_TEST

START_TEST(nodes_of_one_machine_can_share_memory)
{
    const char *more[] = {"--set", "hw.transport=mem", "--set", "workload.agents=6", NULL};
    ck_assert_msg(finish(start_run(more), 300) == 0, "%s", errors);
    ck_assert_ptr_nonnull(strstr(errors, "verified: "));
    json_t *root = json_loads(out, 0, NULL);
    ck_assert_double_eq(number_at(root, NULL, "requests"), 24);
    json_decref(root);
}
END_TEST

/* Each prompt goes through many forwards, the next one beginning while the last layers of the one
 * before are on their way: of a lone agent, too, whose chunks need two spans of the GPU. */
START_TEST(prompts_cut_into_chunks)
{
    static const char *const agents[] = {"workload.agents=1", "workload.agents=8"};
    static const char *const transports[] = {"hw.transport=mem", "hw.transport=tcp"};
    for (int i = 0; i < 4; i++) {
        const char *more[] = {"--set", "system.packing=tokens", "--set", "system.forward_tok=64",
                              "--set", agents[i / 2],           "--set", transports[i % 2],
                              NULL};
        unsigned long rows = 0;
        ck_assert_msg(finish(start_run(more), 300) == 0, "%s", errors);
        const char *verified = strstr(errors, "verified: ");
        ck_assert_ptr_nonnull(verified);
        ck_assert_int_eq(sscanf(verified, "verified: %lu KV rows", &rows), 1);
        /* Each chunk finds those of the ones before; a lone agent's prompts uncut are 7,548. */
        ck_assert_uint_gt(rows, 9000);
    }
}
END_TEST

START_TEST(settings_for_rdma_without_it_are_refused)
{
    static const char *const settings[] = {"hw.rdma_device=mlx5_0", "hw.service_level=1",
                                           "hw.traffic_class=4"};
    for (unsigned i = 0; i < 3; i++) {
        const char *more[] = {"--set", settings[i], "--set", i % 2 ? "hw.transport=mem" : "seed=1",
                              NULL};
        char expected[80];
        snprintf(expected, sizeof(expected), "%.*s: found a value, but hw.transport is",
                 (int)strcspn(settings[i], "="), settings[i]);
        ck_assert_int_eq(finish(start_run(more), 60), 2);
        ck_assert_msg(strstr(errors, expected) != NULL, "%s", errors);
    }
}
END_TEST

START_TEST(loopback_basic)
{
    const char *more[] = {"--set", "system.preset=basic", NULL};
    ck_assert_msg(finish(start_run(more), 300) == 0, "%s", errors);
    check_result("basic");
}
END_TEST

START_TEST(loopback_every_other_request_by_the_decode_path)
{
    const char *more[] = {"--set", "system.path_policy=round_robin", NULL};
    ck_assert_msg(finish(start_run(more), 300) == 0, "%s", errors);
    check_result("both paths in turn");
    json_t *root = json_loads(out, 0, NULL);
    ck_assert_double_gt(number_at(root, "bytes", "pe_path"), 0);
    ck_assert_double_gt(number_at(root, "bytes", "de_path"), 0);
    json_decref(root);
}
END_TEST

/* Exit status 0 only when the run had ended before the kill; never a result beside a failure. */
static void check_killed(int status, pid_t victim, unsigned round, unsigned after_ms)
{
    char expected[64];
    snprintf(expected, sizeof(expected), "(process %ld) was killed by signal 9", (long)victim);
    if (status != 0) {
        ck_assert_msg(status == 1, "round %u, after %u ms: status %d: %s", round, after_ms, status,
                      errors);
        ck_assert_str_eq(out, "");
        ck_assert_msg(strstr(errors, expected) != NULL, "round %u, after %u ms: %s not in: %s",
                      round, after_ms, expected, errors);
        ck_assert_ptr_nonnull(strstr(errors, " node "));
    }
}

START_TEST(an_agent_is_killed_at_a_random_moment)
{
    unsigned rounds = from_environment("REAL_RUN_KILLS", 6);
    uint64_t seed = from_environment("REAL_RUN_SEED", 1);
    const char *more[] = {"--set", "workload.agents=12", NULL};
    unsigned n_serving = 0, n_starting = 0;
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t h = hash_mix64(seed << 32 | round);
        unsigned after_ms = (unsigned)(h % 4000), which = (unsigned)(h >> 32) % 4;
        pid_t agents[MAX_CHILDREN];
        pid_t run = start_run(more);
        sleep_ms(after_ms);
        unsigned n = children(run, agents, MAX_CHILDREN);
        for (unsigned i = 0; n < 4 && i < 1000; i++) { /* still starting */
            sleep_ms(2);
            n = children(run, agents, MAX_CHILDREN);
        }
        if (n < 4) {
            ck_assert_int_eq(finish(run, 300), 0); /* over already */
            continue;
        }
        bool serving = is_serving();
        kill(agents[which], SIGKILL);
        int status = finish(run, 60);
        check_killed(status, agents[which], round, after_ms);
        n_serving += status != 0 && serving;
        n_starting += status != 0 && !serving;
        for (unsigned i = 0; i < n; i++) {
            ck_assert_msg(kill(agents[i], 0) && errno == ESRCH, "agent %ld is still there: %s",
                          (long)agents[i], errors);
        }
    }
    printf(
        "%u runs: %u lost an agent while they served, %u before their first block, %u were over\n",
        rounds, n_serving, n_starting, rounds - n_serving - n_starting);
}
END_TEST

static void interrupt_run(int sig)
{
    pid_t agents[MAX_CHILDREN];
    const char *more[] = {NULL};
    pid_t run = start_run(more);
    unsigned n = wait_until_serving(run, agents);
    kill(run, sig);
    int status = finish(run, 60);
    ck_assert_msg(status == 130, "status %d: %s", status, errors);
    ck_assert_str_eq(out, "");
    ck_assert_ptr_nonnull(strstr(errors, "interrupted"));
    for (unsigned i = 0; i < n; i++) {
        ck_assert(kill(agents[i], 0) && errno == ESRCH);
    }
}

START_TEST(an_interrupt_ends_all)
{
    interrupt_run(SIGINT);
    interrupt_run(SIGTERM);
}
END_TEST

/* Orphans become children of another process, so they are asked for by their ids. */
START_TEST(agents_end_when_the_hub_is_killed)
{
    pid_t agents[MAX_CHILDREN];
    const char *more[] = {NULL};
    pid_t run = start_run(more);
    unsigned n = wait_until_serving(run, agents), left = n;
    kill(run, SIGKILL);
    ck_assert_int_eq(finish(run, 60), -SIGKILL);
    for (unsigned wait = 0; left > 0 && wait < 6000; wait++) {
        sleep_ms(10);
        left = 0;
        for (unsigned i = 0; i < n; i++) {
            char path[64], state = 'X', text[512] = "";
            snprintf(path, sizeof(path), "/proc/%ld/stat", (long)agents[i]);
            FILE *f = fopen(path, "r");
            if (f && fgets(text, sizeof(text), f) && strrchr(text, ')')) {
                sscanf(strrchr(text, ')') + 1, " %c", &state);
            }
            if (f) {
                fclose(f);
            }
            left += state != 'X' && state != 'Z';
        }
    }
    ck_assert_uint_eq(left, 0);
    read_text(err_path, errors);
    ck_assert_ptr_nonnull(strstr(errors, "the hub is lost"));
    /* A hub that is killed cannot tidy up. */
    char command[300];
    snprintf(command, sizeof(command), "rm -r %s/dualpath-*", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(a_trace_with_shared_blocks_is_refused)
{
    char path[300], setting[340];
    const char *more[] = {"--set", setting, NULL};
    snprintf(path, sizeof(path), "%s.jsonl", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("{\"schema\": \"dualpath/trace/1\", \"block_tok\": 64, \"sessions\": 1}\n"
          "{\"arrival_ns\": 0, \"scope\": 0, \"turns\": [{\"prompt_tok\": 100, \"gen_tok\": 2, "
          "\"hash_ids\": [1, 2]}]}\n",
          f);
    fclose(f);
    snprintf(setting, sizeof(setting), "workload.trace=%s", path);
    ck_assert_int_eq(finish(start_run(more), 60), 2);
    ck_assert_msg(strstr(errors, "workload.trace: found a trace with block ids") != NULL, "%s",
                  errors);
    unlink(path);
}
END_TEST

START_TEST(kept_kv_with_retry_is_refused)
{
    const char *more[] = {"--set", "system.decode_reuse=dram", "--set", "hw.retry=true", NULL};
    ck_assert_int_eq(finish(start_run(more), 60), 2);
    ck_assert_msg(strstr(errors, "system.decode_reuse: ") != NULL, "%s", errors);
}
END_TEST

START_TEST(groups_over_several_nodes_with_retry_are_refused)
{
    const char *more[] = {"--set", "model.expert_parallel=true",
                          "--set", "system.prefill_ep_gpus=2",
                          "--set", "hw.retry=true",
                          NULL};
    ck_assert_int_eq(finish(start_run(more), 60), 2);
    ck_assert_msg(strstr(errors, "none may span nodes") != NULL, "%s", errors);
}
END_TEST

/* The engines of both prefill nodes meet at every layer, those of both decode nodes at every
 * step. */
START_TEST(groups_over_several_nodes)
{
    const char *more[] = {
        "--set", "model.expert_parallel=true", "--set", "system.prefill_ep_gpus=2",
        "--set", "system.decode_ep_gpus=2",    "--set", "workload.agents=4",
        NULL};
    ck_assert_msg(finish(start_run(more), 300) == 0, "%s", errors);
    ck_assert_ptr_nonnull(strstr(errors, "verified: "));
    json_t *root = json_loads(out, 0, NULL);
    ck_assert_double_eq(number_at(root, NULL, "requests"), 16);
    json_decref(root);
}
END_TEST

static void wait_for_file(const char *path)
{
    for (unsigned i = 0; access(path, R_OK) && i < 1000; i++) {
        sleep_ms(10);
    }
}

/* As on a cluster: agents are started by somebody else. A second join file's keys do not open the
 * door. */
START_TEST(agents_can_be_started_by_hand)
{
    char join[300], setting[340], agent[600];
    snprintf(join, sizeof(join), "%s.join", dir);
    snprintf(setting, sizeof(setting), "hw.storage_dir=%s", dir);
    snprintf(agent, sizeof(agent), "%s-node", getenv("DUALPATH"));
    const char *more[] = {"--print-launch",    "--join-file", join,    "--listen",
                          "127.0.0.1",         "--set",       setting, "--set",
                          "workload.agents=6", NULL};
    pid_t run = start_run(more), agents[4];
    wait_for_file(join);
    for (unsigned i = 0; i < 4; i++) {
        char number[8];
        snprintf(number, sizeof(number), "%u", i);
        const char *args[] = {"--join", join, "--node", number, NULL};
        agents[i] = start(agent, args);
    }
    ck_assert_msg(finish(run, 300) == 0, "%s", errors);
    ck_assert_ptr_nonnull(strstr(errors, "srun --nodes=4 --ntasks=4"));
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(finish(agents[i], 60), 0);
    }
    ck_assert(access(join, F_OK) && errno == ENOENT);
}
END_TEST

/* An agent of another machine, whose process nobody here can watch. */
START_TEST(a_distant_agent_is_killed)
{
    char join[300], setting[340], agent[600];
    snprintf(join, sizeof(join), "%s.join", dir);
    snprintf(setting, sizeof(setting), "hw.storage_dir=%s", dir);
    snprintf(agent, sizeof(agent), "%s-node", getenv("DUALPATH"));
    const char *more[] = {"--print-launch", "--join-file", join,    "--listen",
                          "127.0.0.1",      "--set",       setting, NULL};
    pid_t run = start_run(more), agents[4];
    wait_for_file(join);
    for (unsigned i = 0; i < 4; i++) {
        char number[8];
        snprintf(number, sizeof(number), "%u", i);
        const char *args[] = {"--join", join, "--node", number, NULL};
        agents[i] = start(agent, args);
    }
    wait_until_serving(run, NULL);
    kill(agents[3], SIGKILL);
    ck_assert_int_eq(finish(run, 60), 1);
    ck_assert_msg(strstr(errors, "decode node 1 is lost: its connection has ended") != NULL, "%s",
                  errors);
    ck_assert_str_eq(out, "");
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(finish(agents[i], 60), 1); /* the hub has told them to end */
    }
    ck_assert_int_eq(finish(agents[3], 60), -SIGKILL);
}
END_TEST

START_TEST(an_agent_that_hangs_is_named)
{
    const char *more[] = {NULL};
    pid_t agents[MAX_CHILDREN], run = start_run(more);
    wait_until_serving(run, agents);
    kill(agents[1], SIGSTOP);
    ck_assert_int_eq(finish(run, 90), 1);
    ck_assert_msg(strstr(errors, " node ") && strstr(errors, "is lost: has not been heard of"),
                  "%s", errors);
}
END_TEST

START_TEST(agents_that_do_not_come_are_named)
{
    char join[300], setting[340];
    snprintf(join, sizeof(join), "%s.join", dir);
    snprintf(setting, sizeof(setting), "hw.storage_dir=%s", dir);
    const char *more[] = {"--print-launch", "--join-file", join,    "--listen", "127.0.0.1",
                          "--wait",         "500ms",       "--set", setting,    NULL};
    ck_assert_int_eq(finish(start_run(more), 60), 1);
    ck_assert_msg(strstr(errors,
                         "not ready in time: prefill node 0, prefill node 1, decode node 0, "
                         "decode node 1") != NULL,
                  "%s", errors);
}
END_TEST

START_TEST(agent_usage)
{
    char agent[600], path[300];
    snprintf(agent, sizeof(agent), "%s-node", getenv("DUALPATH"));
    snprintf(path, sizeof(path), "%s.public", dir);
    const struct {
        const char *args[6], *expected;
    } rows[] = {
        {{"--node", "1", NULL}, "no join file given"},
        {{"--join", "x", NULL}, "which node is this?"},
        {{"--join", "x", "--node", "minus", NULL}, "which node is this?"},
        {{"--join", "/nonexistent/join.json", "--node", "0", NULL}, "cannot open the join file"},
        {{"--join", path, "--node", "0", NULL}, "expected 600: the file holds secret keys"},
    };
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    close(fd);
    chmod(path, 0644);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unlink(out_path);
        unlink(err_path);
        ck_assert_int_eq(finish(start(agent, rows[i].args), 60), 2);
        ck_assert_msg(strstr(errors, rows[i].expected) != NULL, "%s", errors);
    }
    unlink(path);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("real_run");
    TCase *t = tcase_create("real_run");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 400);
    tcase_add_test(t, agent_usage);
    tcase_add_test(t, a_trace_with_shared_blocks_is_refused);
    tcase_add_test(t, groups_over_several_nodes_with_retry_are_refused);
    tcase_add_test(t, kept_kv_with_retry_is_refused);
    tcase_add_test(t, groups_over_several_nodes);
    tcase_add_test(t, agents_that_do_not_come_are_named);
    tcase_add_test(t, agents_can_be_started_by_hand);
    tcase_add_test(t, a_distant_agent_is_killed);
    tcase_add_test(t, an_agent_that_hangs_is_named);
    tcase_add_test(t, settings_for_rdma_without_it_are_refused);
    tcase_add_test(t, nodes_of_one_machine_can_share_memory);
    tcase_add_test(t, prompts_cut_into_chunks);
    tcase_add_test(t, loopback_dualpath);
    tcase_add_test(t, loopback_basic);
    tcase_add_test(t, loopback_every_other_request_by_the_decode_path);
    tcase_add_test(t, an_interrupt_ends_all);
    tcase_add_test(t, agents_end_when_the_hub_is_killed);
    suite_add_tcase(s, t);
    TCase *kills = tcase_create("kills"); /* alone: CK_RUN_CASE=kills */
    tcase_add_checked_fixture(kills, setup, teardown);
    tcase_set_timeout(kills, 120 + 30.0 * from_environment("REAL_RUN_KILLS", 6));
    tcase_add_test(kills, an_agent_is_killed_at_a_random_moment);
    suite_add_tcase(s, kills);
    return run_suite(s);
}
