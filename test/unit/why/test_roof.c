/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/why/roof.c: operations and bytes per second by hand, the types that the counters do not tell, MIG instances,
 * readings that are absent or old, and which roof is nearest. And the rates and MIG profiles of model/peak.def.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/why/roof.h"
#include "model/peak.h"

#define H100 "NVIDIA H100 80GB HBM3"
#define NONE (-1.0) /* a reading that is not there */
#define SMS_H100 132.0

static void fill(RoofInput *in, RoofSeries k, double value)
{
    for (int i = 0; i < ACTIVITY_WINDOW_S; i++)
        in->rows[k][i] = value == NONE ? (double)NAN : value;
}

/* An H100 whose tensor cores told apart and pipes rest; SM clock 1500, memory clock 2619 MHz, 5120 bits. */
static RoofInput make_input(double tensor, double dram)
{
    RoofInput in = {.gpu_name = H100, .window_s = 60, .profile = "", .instance_share = NAN, .bus_bits = 5120};

    for (RoofSeries k = 0; k < ROOF_SERIES_END; k++)
        fill(&in, k, 0);
    fill(&in, ROOF_OF_TENSOR, tensor);
    fill(&in, ROOF_OF_DRAM, dram);
    fill(&in, ROOF_OF_SM_CLOCK, 1500);
    fill(&in, ROOF_OF_MEMORY_CLOCK, 2619);
    return in;
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-3 * fabs(expected)))
        fail_msg("%.6g, not %.6g", value, expected);
}

static void figures_of_an_h100_by_hand(void **state)
{
    RoofInput in = make_input(.5, .4);
    Roof roof;

    (void)state;
    roof_estimate(&in, &roof);
    assert_near(roof.flops, .5 * 132 * 4096 * 1.5e9);      /* 405.5 TFLOP/s */
    assert_near(roof.flops_low, .5 * 132 * 2048 * 1.5e9);  /* TF32 */
    assert_near(roof.flops_high, .5 * 132 * 8192 * 1.5e9); /* FP8 */
    assert_near(roof.flops_peak, 989e12);
    assert_near(roof.flops_share, 405.5e12 / 989e12);
    assert_near(roof.bytes, .4 * 3352.3e9);
    assert_near(roof.bytes_share, .4);
    assert_near(roof.intensity, 302.4);
    assert_near(roof.position, .41);
    assert_int_equal(roof.nearest, ROOF_BOTH);
    assert_string_equal(roof.type, "fp16");
    assert_string_equal(roof.text, "about 406 TFLOP/s in FP16 or BF16, 41 % of the peak (203 TFLOP/s if TF32, "
                                   "811 TFLOP/s if FP8: the counters do not tell); about 1.3 TB/s of memory, 40 %; "
                                   "302 FLOP/byte; as near to the roof of memory as to that of compute");
}

/* The position is FLOP/s over the lower of the peak and of intensity times bandwidth. */
static void the_position_is_under_the_nearest_roof(void **state)
{
    static const struct {
        double tensor, dram;
        RoofKind nearest;
    } cases[] = {
        {.05, .85, ROOF_MEMORY},  {.7, .3, ROOF_COMPUTE}, {.3, .2, ROOF_NEITHER},    {.01, .29, ROOF_NEITHER},
        {.01, .3, ROOF_MEMORY},   {.5, .489, ROOF_BOTH},  {.5, .493, ROOF_MEMORY},   {.5, .342, ROOF_BOTH},
        {.5, .341, ROOF_COMPUTE}, {0, 0, ROOF_NEITHER},   {.366, .01, ROOF_COMPUTE}, {.365, .01, ROOF_NEITHER},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        RoofInput in = make_input(cases[i].tensor, cases[i].dram);
        Roof roof;

        roof_estimate(&in, &roof);
        if (roof.nearest != cases[i].nearest)
            fail_msg("%g %g: %s", cases[i].tensor, cases[i].dram, roof_kinds[roof.nearest].key);
        if (cases[i].tensor > 0)
            assert_near(roof.position, roof.flops / fmin(989e12, roof.intensity * 3352.3e9));
    }
}

static void types_that_are_told_have_no_band(void **state)
{
    static const struct {
        RoofSeries of;
        double value, tensor, flops, share;
        const char *type;
    } cases[] = {
        {ROOF_OF_IMMA, .5, .5, .5 * SMS_H100 * 8192 * 1.5e9, .4098, "int8"},
        {ROOF_OF_DFMA, .3, .3, .3 * SMS_H100 * 256 * 1.5e9, .2270, "fp64"},
        {ROOF_OF_FP32, .6, 0, .6 * SMS_H100 * 256 * 1.5e9, .4539, "fp32"},
        {ROOF_OF_FP64, .4, 0, .4 * SMS_H100 * 128 * 1.5e9, .3026, "fp64"},
        {ROOF_OF_FP16, .2, 0, .2 * SMS_H100 * 512 * 1.5e9, .1513, "fp16"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        RoofInput in = make_input(cases[i].tensor, .4);
        Roof roof;

        fill(&in, cases[i].of, cases[i].value);
        roof_estimate(&in, &roof);
        assert_near(roof.flops, cases[i].flops);
        assert_near(roof.flops_share, cases[i].share);
        assert_string_equal(roof.type, cases[i].type);
        assert_true(roof.flops_low == roof.flops && roof.flops_high == roof.flops);
        assert_null(strstr(roof.text, "do not tell"));
    }
}

/* Of half integer and half unknown work only the unknown half has a band; tensor cores are one pipe for both. */
static void mixed_work_has_a_band_of_its_part(void **state)
{
    RoofInput in = make_input(.6, .4);
    const double half = .3 * SMS_H100 * 4096 * 1.5e9;
    Roof roof;

    (void)state;
    fill(&in, ROOF_OF_IMMA, .3);
    fill(&in, ROOF_OF_FP32, .1);
    roof_estimate(&in, &roof);
    assert_near(roof.flops, 3 * half + .1 * SMS_H100 * 256 * 1.5e9);
    assert_near(roof.flops - roof.flops_low, half / 2);
    assert_near(roof.flops_high - roof.flops, half);
    assert_near(roof.flops_share, .6 * 1500 / 1829.2);
    /* where the split is not reported all of it is the unknown kind */
    in = make_input(.6, .4);
    fill(&in, ROOF_OF_IMMA, NONE);
    fill(&in, ROOF_OF_DFMA, NONE);
    roof_estimate(&in, &roof);
    assert_near(roof.flops, 2 * half);
}

static void boards_have_the_band_of_their_types(void **state)
{
    static const struct {
        const char *name;
        double low, high, rate;
        int sm_count;
        const char *word;
    } cases[] = {
        {"Tesla V100-SXM2-32GB", 1, 1, 1024, 80, NULL},
        {"NVIDIA A100-SXM4-80GB", .5, 1, 2048, 108, "TF32: the"},
        {"NVIDIA L40S", .5, 2, 1024, 142, "if FP8"},
        {"NVIDIA B200", .5, 4, 8192, 148, "if FP4"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        RoofInput in = make_input(.5, .4);
        Roof roof;

        in.gpu_name = cases[i].name;
        roof_estimate(&in, &roof);
        assert_near(roof.flops, .5 * cases[i].sm_count * cases[i].rate * 1.5e9);
        assert_near(roof.flops_low, cases[i].low * roof.flops);
        assert_near(roof.flops_high, cases[i].high * roof.flops);
        assert_true(cases[i].word ? strstr(roof.text, cases[i].word) != NULL : !strchr(roof.text, '('));
    }
}

/* Never a number for a reading that is absent or old. */
static void what_is_absent_has_its_reason(void **state)
{
    static const struct {
        RoofSeries of;
        const char *why; /* NULL: readings until some seconds ago */
        bool flops, bytes;
        const char *text;
    } cases[] = {
        {ROOF_OF_TENSOR, "another tool holds the counters", false, true, "tensor activity: another tool"},
        {ROOF_OF_TENSOR, NULL, false, true, "tensor activity: no fresh value"},
        {ROOF_OF_SM_CLOCK, "more permissions are needed", false, true, "SM clock: more permissions"},
        {ROOF_OF_DRAM, "this device does not have it", true, false, "memory activity: this device"},
        {ROOF_OF_DRAM, NULL, true, false, "memory activity: no fresh value"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        RoofInput in = make_input(.5, .4);
        Roof roof;

        in.absent[cases[i].of] = cases[i].why;
        for (int k = cases[i].why ? 0 : ACTIVITY_WINDOW_S - 5; k < ACTIVITY_WINDOW_S; k++)
            in.rows[cases[i].of][k] = NAN;
        roof_estimate(&in, &roof);
        assert_true(isfinite(roof.flops) == cases[i].flops && isfinite(roof.flops_high) == cases[i].flops);
        assert_true(isfinite(roof.bytes) == cases[i].bytes && isfinite(roof.bytes_share) == cases[i].bytes);
        assert_true(isnan(roof.intensity) && isnan(roof.position) && roof.nearest == ROOF_UNKNOWN);
        if (!strstr(roof.absent, cases[i].text) || !strstr(roof.text, cases[i].text))
            fail_msg("%s", roof.text);
        if (!cases[i].why) { /* near miss: the last value is of this second or one of the four before */
            in.rows[cases[i].of][ACTIVITY_WINDOW_S - 5] = .4;
            roof_estimate(&in, &roof);
            assert_true(isfinite(roof.flops) && isfinite(roof.bytes));
        }
    }
}

static void an_unknown_board_has_bytes_by_its_width(void **state)
{
    RoofInput in = make_input(.5, .4);
    Roof roof;

    (void)state;
    in.gpu_name = "NVIDIA X1";
    roof_estimate(&in, &roof);
    assert_near(roof.bytes, .4 * 3352.3e9);
    assert_true(isnan(roof.flops));
    assert_string_equal(roof.absent, "the peak of this board is not known");
    in.bus_bits = NAN;
    roof_estimate(&in, &roof);
    assert_true(isnan(roof.bytes));
    /* a known one by its data sheet, without width or clock */
    in.gpu_name = H100;
    roof_estimate(&in, &roof);
    assert_near(roof.bytes, .4 * 3352e9);
    in.bus_bits = 5120;
    fill(&in, ROOF_OF_MEMORY_CLOCK, NONE);
    roof_estimate(&in, &roof);
    assert_near(roof.bytes, .4 * 3352e9);
}

/* Of an instance by its own multiprocessors and memory slices. */
static void an_instance_has_its_part_of_the_roofs(void **state)
{
    static const struct {
        const char *profile;
        double memory; /* of the board's 81559 MiB */
        int sm_count;  /* 0: not known */
        double part;
        const char *absent;
    } cases[] = {
        {"1g.10gb", 9984, 16, 1. / 8, ""},
        {"1g.10gb+me", 9984, 16, 1. / 8, ""},
        {"1g.20gb", 20096, 26, 2. / 8, ""},
        {"3g.40gb", 40448, 60, 4. / 8, ""},
        {"7g.80gb", 81152, 132, 1, ""},
        {"1c.3g.40gb", 40448, 0, 0, "it shares its memory with other compute instances of its GPU instance"},
        {"3g.40gb", NAN, 0, 0, "which part of the board this instance has is not known"},
        {"5g.60gb", 60000, 0, 0, "which part of the board this instance has is not known"},
        {"", 9984, 0, 0, "which part of the board this instance has is not known"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        RoofInput in = make_input(.5, .4);
        Roof roof;

        in.instance = true;
        in.profile = cases[i].profile;
        in.instance_share = cases[i].memory / 81559;
        roof_estimate(&in, &roof);
        assert_string_equal(roof.absent, cases[i].absent);
        if (cases[i].sm_count) {
            assert_near(roof.flops, .5 * cases[i].sm_count * 4096 * 1.5e9);
            assert_near(roof.bytes, .4 * 3352.3e9 * cases[i].part);
            assert_near(roof.flops_share, .41);
        } else {
            assert_true(isnan(roof.flops) && isnan(roof.bytes));
        }
    }
}

/* The mean is that of the verdicts' window, of the products: work runs at the clock of its own seconds. */
static void the_window_is_that_of_the_verdicts(void **state)
{
    RoofInput in = make_input(.5, .4);
    Roof roof;

    (void)state;
    in.window_s = 20;
    for (int i = 0; i < ACTIVITY_WINDOW_S - 20; i++)
        in.rows[ROOF_OF_TENSOR][i] = in.rows[ROOF_OF_DRAM][i] = 0;
    for (int i = ACTIVITY_WINDOW_S - 10; i < ACTIVITY_WINDOW_S; i++) {
        in.rows[ROOF_OF_TENSOR][i] = 0;
        in.rows[ROOF_OF_SM_CLOCK][i] = 345; /* at rest */
    }
    roof_estimate(&in, &roof);
    assert_int_equal(roof.window_s, 20);
    assert_near(roof.flops, .25 * 132 * 4096 * 1.5e9);
    assert_near(roof.bytes_share, .4);
    in.window_s = 21;
    roof_estimate(&in, &roof);
    assert_near(roof.bytes_share, .4 * 20 / 21);
}

/* Operations per multiprocessor and clock as NVIDIA's guides have them: 16 bit tensor, 32 bit. */
static void rates_follow_from_the_data_sheets(void **state)
{
    static const struct {
        const char *name;
        double half, single;
    } cases[] = {
        {"Tesla T4", 1024, 128},
        {"Tesla V100-PCIE-16GB", 1024, 128},
        {"NVIDIA A10", 1024, 256},
        {"NVIDIA A30", 2048, 128},
        {"NVIDIA A40", 1024, 256},
        {"NVIDIA A100-SXM4-40GB", 2048, 128},
        {"NVIDIA L4", 1024, 256},
        {"NVIDIA RTX 6000 Ada Generation", 1024, 256},
        {"NVIDIA H100 PCIe", 4096, 256},
        {"NVIDIA H200", 4096, 256},
        {"NVIDIA GH200 480GB", 4096, 256},
        {"NVIDIA B200", 8192, 256},
        {"NVIDIA GeForce RTX 4090", 512, 256},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition", 1024, 256},
    };
    double clock;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const Peak *peak = peak_find(cases[i].name);

        assert_non_null(peak);
        assert_near(peak_per_clock(peak, PEAK_FP16, &clock), cases[i].half);
        assert_near(clock * cases[i].half * peak->sm_count, peak->tflops[PEAK_FP16] * 1e12);
        assert_near(peak_per_clock(peak, PEAK_FP32, &clock), cases[i].single);
    }
    assert_true(peak_per_clock(peak_find("Tesla T4"), PEAK_FP8, &clock) == 0 && clock == 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_an_h100_by_hand),
        cmocka_unit_test(the_position_is_under_the_nearest_roof),
        cmocka_unit_test(types_that_are_told_have_no_band),
        cmocka_unit_test(mixed_work_has_a_band_of_its_part),
        cmocka_unit_test(boards_have_the_band_of_their_types),
        cmocka_unit_test(what_is_absent_has_its_reason),
        cmocka_unit_test(an_unknown_board_has_bytes_by_its_width),
        cmocka_unit_test(an_instance_has_its_part_of_the_roofs),
        cmocka_unit_test(the_window_is_that_of_the_verdicts),
        cmocka_unit_test(rates_follow_from_the_data_sheets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
