/* SPDX-License-Identifier: Apache-2.0 */
/* source/slurm: hostlist.c, format.c and reason.c, what single values of Slurm's output mean. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"
#include "source/slurm/format.h"
#include "source/slurm/hostlist.h"
#include "source/slurm/reason.h"

/* --- node lists --------------------------------------------------------------------------------------------------- */

typedef struct Names {
    VEC(char *) of;
} Names;

static void keep_name(void *at, const char *name, size_t len)
{
    Names *names = at;

    assert_int_equal(strlen(name), len);
    vec_push(&names->of, strdup(name));
}

static void free_names(Names *names)
{
    for (size_t i = 0; i < names->of.len; i++)
        free(names->of.at[i]);
    vec_done(&names->of);
}

static const struct {
    const char *list, *names; /* NULL: refused */
    int rc;
} lists[] = {
    {"", "", 0},
    {"login1", "login1", 0},
    {"gpu[01-04,07],login1", "gpu01 gpu02 gpu03 gpu04 gpu07 login1", 0},
    {"rack[1-2]n[09-10]", "rack1n09 rack1n10 rack2n09 rack2n10", 0},
    {"a[8-11]", "a8 a9 a10 a11", 0},
    {"a[001-3]", "a001 a002 a003", 0},
    {"a[1,1]x", "a1x a1x", 0},
    {"a,,b", "a b", 0},
    {"a[3-1]", NULL, -EINVAL},
    {"a[]", NULL, -EINVAL},
    {"a[1", NULL, -EINVAL},
    {"a[1,]", NULL, -EINVAL},
    {"a[x-y]", NULL, -EINVAL},
    {"a[1-9999999999]", NULL, -EINVAL},
    {"a[00000000000000000001]", NULL, -EINVAL},
    {"a[1][1][1][1][1][1][1][1][1]", NULL, -EINVAL},
    {"a[1-65536]", "", 0}, /* all that may be: counted below */
    {"a[1-65537]", NULL, -E2BIG},
    {"a[1-300]b[1-300]", NULL, -E2BIG},
};

static void test_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        CLEANUP(free_names) Names names = {0};
        CLEANUP(str_done) Str all = str_limited(1 << 20);
        Err err = {0};

        assert_int_equal(hostlist_expand(lists[i].list, strlen(lists[i].list), keep_name, &names, &err), lists[i].rc);
        assert_int_equal(err.code, lists[i].rc);
        if (lists[i].rc < 0)
            continue;
        if (strcmp(lists[i].list, "a[1-65536]") == 0) {
            assert_int_equal(names.of.len, HOSTLIST_MAX);
            continue;
        }
        for (size_t k = 0; k < names.of.len; k++)
            str_addf(&all, "%s%s", k ? " " : "", names.of.at[k]);
        assert_string_equal(all.len ? all.text : "", lists[i].names);
    }
}

static void test_long_names(void **state)
{
    char name[HOSTLIST_NAME_MAX + 2];
    CLEANUP(free_names) Names names = {0};

    (void)state;
    memset(name, 'a', sizeof name);
    assert_int_equal(hostlist_expand(name, HOSTLIST_NAME_MAX, keep_name, &names, NULL), 0);
    assert_int_equal(hostlist_expand(name, HOSTLIST_NAME_MAX + 1, keep_name, &names, NULL), -EINVAL);
}

static const struct {
    const char *names[8], *list;
} written[] = {
    {{"gpu01", "gpu02", "gpu03", "gpu07", "login1"}, "gpu[01-03,07],login1"},
    {{"a9", "a10", "a11"}, "a[9-11]"},
    {{"a09", "a10", "a011"}, "a[09-10,011]"},
    {{"a"}, "a"},
    {{"x1y", "x2y"}, "x1y,x2y"},
    {{"a2", "a1"}, "a[2,1]"},
    {{"a1", "b1", "a2"}, "a1,b1,a2"},
    {{"7", "8"}, "[7-8]"},
};

static void test_written_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(written); i++) {
        CLEANUP(str_done) Str list = str_limited(1024);
        size_t count = 0;

        while (count < 8 && written[i].names[count])
            count++;
        hostlist_add(written[i].names, count, &list);
        assert_string_equal(list.text, written[i].list);
    }
}

/* Whatever the names: the list of them expands to them. */
static void test_round_trip(void **state)
{
    static const char *const forms[] = {"gpu%u", "gpu%02u", "gpu%03u", "r%un%02u", "x%u-ib", "n"};
    uint64_t seed = 1;

    (void)state;
    for (unsigned round = 0; round < 500; round++) {
        CLEANUP(free_names) Names names = {0}, again = {0};
        CLEANUP(str_done) Str list = str_limited(1 << 16);
        unsigned number = 0;

        for (size_t i = 0; i < 1 + round % 20; i++) {
            char name[32];

            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            number = seed >> 60 < 10 ? number + 1 : (unsigned)(seed >> 33) % 1200;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(name, sizeof name, forms[(seed >> 40) % 3 + (seed >> 50) % 4], number, number);
#pragma GCC diagnostic pop
            vec_push(&names.of, strdup(name));
        }
        hostlist_add((const char *const *)names.of.at, names.of.len, &list);
        assert_int_equal(hostlist_expand(list.text, list.len, keep_name, &again, NULL), 0);
        assert_int_equal(again.of.len, names.of.len);
        for (size_t i = 0; i < names.of.len; i++)
            assert_string_equal(again.of.at[i], names.of.at[i]);
    }
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *list;
    uint32_t count, kinds;
    const char *type; /* NULL: none */
    uint32_t of_type;
    uint16_t devices;
} gpus[] = {
    {"gpu:h100:8(S:0-1)", 8, 1, "h100", 8, 0},
    {"gpu:4", 4, 0, NULL, 0, 0},
    {"gpu", 1, 0, NULL, 0, 0},
    {"gres:gpu:h100:2", 2, 1, "h100", 2, 0},
    {"gres/gpu:2", 2, 0, NULL, 0, 0},
    {"cpu=4,mem=32G,node=1,billing=4,gres/gpu=2,gres/gpu:h100=2", 2, 1, "h100", 2, 0},
    {"cpu:4,gres/gpu:a100:1", 1, 1, "a100", 1, 0},
    {"gpu:a100_3g.20gb:2(S:0),gpu:a100_1g.5gb:8(S:0)", 10, 2, "a100_1g.5gb", 8, 0},
    {"gpu:a:4,gpu:b:4", 8, 2, "a", 4, 0},
    {"gpu:h100:2(IDX:0,3)", 2, 1, "h100", 2, 9},
    {"gpu:3(IDX:2-4)", 3, 0, NULL, 0, 28},
    {"gpu:h100:2(IDX:0,99)", 2, 1, "h100", 2, 0},
    {"gpu:h100", 1, 1, "h100", 1, 0},
    {"gres/gpumem=5G,gres/gpuutil=7,shard:h100:4,license:x=1", 0, 0, NULL, 0, 0},
    {"gpu=many", 0, 0, NULL, 0, 0},
    {"", 0, 0, NULL, 0, 0},
};

static void test_gpus(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(gpus); i++) {
        const SlurmGpus read = slurm_read_gpus((SlurmWord){gpus[i].list, strlen(gpus[i].list)});

        assert_int_equal(read.count, gpus[i].count);
        assert_int_equal(read.kinds, gpus[i].kinds);
        assert_int_equal(read.of_type, gpus[i].of_type);
        assert_int_equal(read.devices, gpus[i].devices);
        assert_true(gpus[i].type ? slurm_word_is(read.type, gpus[i].type) : !read.type.at);
    }
}

static const struct {
    const char *text;
    double mib; /* below 0: none */
} memories[] = {{"1000M", 1000}, {"1G", 1024}, {"1.50T", 1572864}, {"512K", .5},  {"4Gn", 4096},
                {"100", 100},    {"M", -1},    {"", -1},           {"1.2.3G", -1}};

static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(memories); i++) {
        double mib = -1;

        assert_int_equal(slurm_read_mib((SlurmWord){memories[i].text, strlen(memories[i].text)}, &mib),
                         memories[i].mib >= 0);
        assert_true(mib == memories[i].mib);
    }
}

static void test_times(void **state)
{
    static const struct {
        const char *text;
        uint64_t seconds;
    } times[] = {{"2026-11-30T00:56:33", 1796000193},
                 {"1970-01-01T00:00:01", 1},
                 {"Unknown", 0},
                 {"None", 0},
                 {"2026-11-30", 0},
                 {"", 0},
                 {"2026-11-30T00:56:33+01:00", 0}};

    (void)state;
    setenv("TZ", "Asia/Tokyo", 1); /* it does not count */
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        assert_int_equal(slurm_read_time((SlurmWord){times[i].text, strlen(times[i].text)}), times[i].seconds);
}

/* --- reasons ------------------------------------------------------------------------------------------------------ */

static void test_reasons(void **state)
{
    static const struct {
        const char *word, *row; /* NULL: none */
    } reasons[] = {
        {"Resources", "Resources"},
        {"Priority", "Priority"},
        {"QOSMaxGRESPerUser", "QOSMax*PerUser*"},
        {"QOSMaxCpuPerUserLimit", "QOSMax*PerUser*"},
        {"QOSMaxWallDurationPerJobLimit", "QOSMax*"},
        {"QOSGrpGRES", "QOSGrp*"},
        {"AssocGrpGRES", "AssocGrp*"},
        {"AssocMaxJobsLimit", "AssocMax*"},
        {"ReqNodeNotAvail,_UnavailableNodes:gpu[01-04]", "ReqNodeNotAvail*"},
        {"Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
         "Nodes_required_for_job_are_DOWN*"},
        {"PartitionTimeLimit", "PartitionTimeLimit"},
        {"JobHeldUser", "JobHeldUser"},
        {"Resource", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        const SlurmReason *row = slurm_reason_find(reasons[i].word, strlen(reasons[i].word));

        assert_int_equal(row == NULL, reasons[i].row == NULL);
        if (row)
            assert_string_equal(row->word, reasons[i].row);
    }
}

/* A row that an earlier one hides would never be used. */
static void test_no_reason_is_hidden(void **state)
{
    (void)state;
    for (size_t i = 0; i < slurm_reason_count; i++) {
        char word[64];
        size_t len = 0;

        for (const char *at = slurm_reasons[i].word; *at && len + 4 < sizeof word; at++)
            len += (size_t)snprintf(word + len, sizeof word - len, *at == '*' ? "xyz" : "%c", *at);
        assert_ptr_equal(slurm_reason_find(word, len), &slurm_reasons[i]);
        assert_true(slurm_reasons[i].meaning[0] && slurm_reasons[i].remedy[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_written_lists),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_no_reason_is_hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
