/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <check.h>
#include <math.h>
#include <string.h>

#include "check_suite.h"
#include "model/bounds.h"

static struct bounds_input paper_input(void)
{
    return (struct bounds_input){
        .gpus_per_node = 8, .snic_ratio = 1, .cnic_Bps = 50e9, .dram_Bps = 500e9};
}

static const struct {
    double g, s, M, min, max;
    const char *binds_max;
} published[] = {
    {8, 1, 500e9, 1.0 / 7, 3.5, "de_cnic_write"},
    {8, 2, 500e9, 1.0 / 3, 1, "de_dram"},
    {4, 1, 500e9, 1.0 / 3, 1.5, "de_cnic_write"},
    {8, 1, 250e9, 1.0 / 7, 1, "de_dram"},
};

START_TEST(test_published_intervals)
{
    struct bounds_input in = paper_input();
    in.gpus_per_node = published[_i].g;
    in.snic_ratio = published[_i].s;
    in.dram_Bps = published[_i].M;
    struct bounds b;
    bounds_compute(&in, &b);
    ck_assert_double_eq(b.pd_min, published[_i].min);
    ck_assert_double_eq(b.pd_max, published[_i].max);
    ck_assert_str_eq(b.binds_min->resource, "pe_cnic_write");
    ck_assert_str_eq(b.binds_max->resource, published[_i].binds_max);
    ck_assert_ptr_null(b.violated);
    ck_assert(!b.empty);
    for (size_t i = 0; i < BOUNDS_N_TERMS; i++) {
        bool at_end = b.terms[i].kind != BOUNDS_CONDITION &&
                      (b.terms[i].value == b.pd_min || b.terms[i].value == b.pd_max);
        ck_assert_int_eq(b.terms[i].binds, at_end);
    }
}
END_TEST

/*
 * Load of every resource from the data path's steps: bytes per second between each PE-DE pair of
 * GPUs on either path, times how often the step crosses the resource. No bound formula is used.
 */
static bool overloaded(const struct bounds_input *in, double P, double D)
{
    double g = in->gpus_per_node, storage_Bps = in->snic_ratio * in->cnic_Bps;
    double pe_path_node = storage_Bps; /* hit bytes a PE node reads from storage */
    double de_path_node = storage_Bps;
    double pe_path = pe_path_node * P, de_path = de_path_node * D; /* of the whole cluster */
    double tolerance = 1 + 1e-9;
    double pe_cnics = P * g * in->cnic_Bps * tolerance, de_cnics = D * g * in->cnic_Bps * tolerance;
    double pe_drams = P * in->dram_Bps * tolerance, de_drams = D * in->dram_Bps * tolerance;
    /* PE path: DRAM -> GPU on the PE (read + write of its CNIC), GPU -> DE, DE DRAM -> DE GPU.
     * DE path: DE DRAM -> PE GPU, DE DRAM -> DE GPU. */
    double pe_read = pe_path + pe_path;
    double pe_write = pe_path + de_path;
    double de_read = pe_path + de_path + de_path;
    double de_write = pe_path + pe_path + de_path;
    double pe_dram = pe_path + pe_path;
    double de_dram = 2 * pe_path + 3 * de_path;
    return pe_read > pe_cnics || pe_write > pe_cnics || de_read > de_cnics || de_write > de_cnics ||
           pe_dram > pe_drams || de_dram > de_drams;
}

START_TEST(test_agrees_with_loads)
{
    static const double gpus[] = {1, 2, 4, 8, 16}, ratios[] = {0.5, 1, 2, 3, 4, 8, 9};
    static const double drams[] = {90e9, 250e9, 500e9, 1000e9};
    unsigned checked = 0, inside = 0;
    for (unsigned k = 0; k < 5 * 7 * 4; k++) {
        struct bounds_input in = {gpus[k % 5], ratios[k / 5 % 7], 50e9, drams[k / 35]};
        struct bounds b;
        bounds_compute(&in, &b);
        for (double pd = 1.0 / 64; pd <= 64; pd *= 1.03) {
            bool in_region = !b.empty && pd >= b.pd_min && pd <= b.pd_max;
            ck_assert_msg(in_region == !overloaded(&in, pd, 1), "g %g s %g M %g P/D %g",
                          in.gpus_per_node, in.snic_ratio, in.dram_Bps, pd);
            checked++;
            inside += in_region;
        }
    }
    ck_assert_uint_gt(inside, 1000);
    ck_assert_uint_lt(inside, checked);
}
END_TEST

START_TEST(test_empty)
{
    struct bounds_input in = paper_input();
    struct bounds b;
    in.snic_ratio = 4; /* s = g/2: the PE CNIC read is full, nothing is left for the DE's */
    bounds_compute(&in, &b);
    ck_assert(b.empty);
    ck_assert_ptr_null(b.violated);
    in.snic_ratio = 5;
    bounds_compute(&in, &b);
    ck_assert(b.empty);
    ck_assert_str_eq(b.violated->resource, "pe_cnic_read");
    in.snic_ratio = 8;
    bounds_compute(&in, &b);
    ck_assert(b.empty);
    ck_assert(isinf(b.pd_min));
    in = paper_input();
    in.dram_Bps = 90e9;
    bounds_compute(&in, &b);
    ck_assert(b.empty);
    ck_assert_str_eq(b.violated->resource, "pe_dram");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bounds");
    TCase *tcase = tcase_create("bounds");
    tcase_add_loop_test(tcase, test_published_intervals, 0,
                        sizeof(published) / sizeof(published[0]));
    tcase_add_test(tcase, test_agrees_with_loads);
    tcase_add_test(tcase, test_empty);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
