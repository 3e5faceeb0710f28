/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Damaged traces: every shipped case cut at every byte, and with seeded byte changes. A reader may
 * accept or refuse them, but must not crash, leak or loop, and says why when it refuses (run under
 * sanitizers).
 */
#include "check_suite.h"
#include "trace_test.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/hash.h"
#include "input/trace_stats.h"

#define FLIPS    300
#define MAX_SIZE 8192

static unsigned accepted, refused;

/* Whatever was accepted must hold together. */
static void check_trace(const struct trace *t)
{
    uint64_t turns = 0;
    for (uint32_t s = 0; s < t->n_sessions; s++) {
        ck_assert_uint_eq(t->sessions[s].first_turn, turns);
        ck_assert_uint_ge(t->sessions[s].n_turns, 1);
        ck_assert_uint_lt(t->sessions[s].scope, t->n_scopes);
        turns += t->sessions[s].n_turns;
    }
    ck_assert_uint_eq(turns, t->n_turns);
    uint64_t order_sum = 0;
    for (uint64_t i = 0; i < t->n_turns; i++) {
        const struct trace_turn *turn = &t->turns[i];
        ck_assert_uint_le(turn->first_id + turn->n_ids, t->n_ids);
        ck_assert_uint_le((uint64_t)turn->first_wait + turn->n_waits, t->n_waits);
        ck_assert_uint_lt(t->file_order[i], t->n_turns);
        order_sum += t->file_order[i];
    }
    ck_assert_uint_eq(order_sum, t->n_turns * (t->n_turns - 1) / 2);
    struct trace_stats stats;
    struct err err = ERR_INIT;
    ck_assert_int_eq(trace_stats_compute(t, &stats, &err), 0);
}

static void read_damaged(const char *path, const char *text, size_t size, bool tolerant)
{
    struct trace_options o = {.tolerant = tolerant, .dedupe = tolerant};
    struct trace t;
    struct err err = ERR_INIT;
    /* In place: emptying a file first makes some file systems flush it. */
    int fd = open(path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, text, size, 0), (ssize_t)size);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    close(fd);
    int rc = trace_read(path, &o, &t, &err);
    if (rc == 0) {
        check_trace(&t);
        trace_done(&t);
        accepted++;
        return;
    }
    refused++;
    ck_assert_int_lt(rc, 0);
    ck_assert_int_eq(rc, err.code);
    ck_assert(err.set);
    ck_assert_uint_gt(strlen(err.text), 0);
}

static void damage(const char *path, const char *text, size_t size, uint64_t seed)
{
    /* Letters of both formats' grammars do more harm than random bytes. */
    static const char letters[] = "{}[]\",:0123456789.-+eE\\ \n\r\tNanutf\xff\xef";
    char copy[MAX_SIZE];
    for (size_t n = 0; n < size; n++) {
        read_damaged(path, text, n, n % 2);
    }
    for (uint64_t i = 0; i < FLIPS; i++) {
        memcpy(copy, text, size);
        for (uint64_t k = 0; k <= i % 3; k++) {
            uint64_t r = hash_mix64(seed * 1000003 + i * 7 + k);
            copy[r % size] = i % 5 ? letters[(r >> 32) % (sizeof(letters) - 1)] : (char)(r >> 40);
        }
        read_damaged(path, copy, size, i % 2);
    }
}

static void damage_directory(const char *dir)
{
    char path[64];
    write_temp(path, "", 0);
    struct dirent **names;
    int n = scandir(dir, &names, NULL, alphasort);
    ck_assert_int_gt(n, 2);
    for (int i = 0; i < n; i++) {
        char file[512], text[MAX_SIZE];
        snprintf(file, sizeof(file), "%s/%s", dir, names[i]->d_name);
        FILE *fp = names[i]->d_name[0] == '.' ? NULL : fopen(file, "rb");
        size_t size = fp ? fread(text, 1, sizeof(text), fp) : 0;
        if (fp) {
            fclose(fp);
        }
        if (size > 0) {
            damage(path, text, size, (uint64_t)i);
        }
        free(names[i]);
    }
    free(names);
    unlink(path);
}

START_TEST(damaged_cases)
{
    damage_directory("traces/cases");
    damage_directory("traces/dynamo");
    ck_assert_uint_gt(accepted, 500); /* both outcomes are really reached */
    ck_assert_uint_gt(refused, 500);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_fuzz");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 200);
    tcase_add_test(tc, damaged_cases);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
