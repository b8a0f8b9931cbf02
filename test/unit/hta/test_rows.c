/* SPDX-License-Identifier: Apache-2.0 */
/* hta/rows.c: HTA's classes of names, and which events become rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/trace/hta/rows.h"

static void test_classes(void **state)
{
    static const struct {
        const char *name;
        HtaType type;
    } cases[] = {
        {"ncclKernel_AllReduce_RING", HTA_COMMUNICATION},
        {"ncclDevKernel_AllReduce", HTA_COMMUNICATION},
        {"void ncclKernel<int>", HTA_COMMUNICATION},
        {"hipMemcpy", HTA_COMMUNICATION},
        {"hcclAllReduce", HTA_COMMUNICATION},
        {"Memcpy HtoD (Pageable -> Device)", HTA_MEMORY},
        {"Memset (Device)", HTA_MEMORY},
        {"dma_0", HTA_MEMORY},
        {"gemm", HTA_COMPUTATION},
        {"void rcclGenericKernel", HTA_COMPUTATION},
        {"cross_device_reduce_1stage", HTA_COMPUTATION},
        {"Stream Sync", HTA_OTHER},
        {"batchnorm_SyncKernel", HTA_OTHER},
        {"my Memcpy kernel", HTA_OTHER},
        {"indma", HTA_OTHER},
        {"cudaLaunchKernel", HTA_OTHER},
        {"my cudaLaunchKernel", HTA_COMPUTATION},
        {"Stream Wait Event", HTA_OTHER},
        {"line\nncclKernel", HTA_COMPUTATION},
        {"", HTA_COMPUTATION},
    };
    char out[16];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(hta_type(cases[i].name), cases[i].type);
    assert_string_equal(hta_memory_kind("Memcpy HtoD (Pageable -> Device)", out), "Memcpy HtoD");
    assert_string_equal(hta_memory_kind("Memcpy", out), "Memcpy");
    assert_string_equal(hta_memory_kind("Memset (Device)", out), "Memset");
    assert_string_equal(hta_memory_kind("dma", out), "Memcpy Unknown");
}

static void add(HtaRows *rows, const char *text)
{
    hta_rows_add(rows, text, strlen(text));
}

static void test_what_is_a_row(void **state)
{
    HtaRows rows;

    (void)state;
    hta_rows_init(&rows, 0);
    add(&rows, "{\"ph\":\"M\",\"name\":\"process_name\"}");
    add(&rows, "{\"ph\":\"s\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"ts\":1,\"id\":3}");
    add(&rows, "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"t\",\"ts\":1,\"dur\":2}");
    add(&rows, "{\"ph\":\"X\",\"name\":\"no category\",\"ts\":1,\"dur\":2}");
    add(&rows, "no object");
    add(&rows, "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"ts\":1,\"dur\":2,\"args\":"
               "{\"correlation\":4,\"stream\":\"0x0\"}}");
    add(&rows, "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":3.5,\"dur\":2,\"args\":{\"correlation\":4,"
               "\"stream\":0}}");
    add(&rows, "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#3\",\"ts\":0,\"dur\":9}");
    assert_int_equal(rows.events, 8);
    assert_int_equal(rows.rows.len, 3);
    assert_int_equal(rows.rows.at[0].index, 5);
    assert_int_equal(rows.rows.at[0].stream, -1);
    assert_int_equal(rows.rows.at[0].flags, HTA_LAUNCH | HTA_QUEUE | HTA_HOST);
    assert_int_equal(rows.rows.at[1].stream, 0);
    assert_int_equal(rows.rows.at[1].flags, HTA_IDLE);
    assert_string_equal(hta_name(&rows, &rows.rows.at[1]), "k");
    assert_int_equal(rows.rows.at[2].flags, HTA_STEP | HTA_HOST);
    assert_true(rows.ns);
    hta_rows_done(&rows);
}

static void test_memory_has_a_limit(void **state)
{
    HtaRows rows;

    (void)state;
    hta_rows_init(&rows, 2 * sizeof(HtaRow));
    for (int i = 0; i < 3; i++)
        add(&rows, "{\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2}");
    assert_true(rows.full);
    assert_int_equal(rows.rows.len, 2);
    hta_rows_done(&rows);
    hta_rows_done(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_what_is_a_row),
        cmocka_unit_test(test_memory_has_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
