/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of links (model/topology.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "model/topology.h"

static void a_new_matrix_knows_nothing(void **state)
{
    Topology topology;

    (void)state;
    assert_int_equal(topology_init(&topology, 8), 0);
    for (uint32_t a = 0; a < 8; a++) {
        for (uint32_t b = 0; b < 8; b++) {
            assert_int_equal(topology_get(&topology, a, b).path, a == b ? TOPOLOGY_SELF : TOPOLOGY_UNKNOWN);
            assert_int_equal(topology_get(&topology, a, b).nvlinks, 0);
        }
        assert_int_equal(cpulist_count(&topology_affinity(&topology, a)->cpus), 0);
    }
    topology_done(&topology);
    topology_done(&topology);
}

static void links_go_both_ways(void **state)
{
    Topology topology;

    (void)state;
    assert_int_equal(topology_init(&topology, 4), 0);
    topology_set(&topology, 3, 1, (TopologyLink){.path = TOPOLOGY_SYS, .nvlinks = 18});
    assert_int_equal(topology_get(&topology, 1, 3).nvlinks, 18);
    assert_int_equal(topology_get(&topology, 3, 1).path, TOPOLOGY_SYS);
    assert_int_equal(topology_get(&topology, 1, 2).path, TOPOLOGY_UNKNOWN);
    assert_int_equal(cpulist_parse("0-23", &topology_affinity(&topology, 2)->cpus), 0);
    assert_int_equal(cpulist_count(&topology_affinity(&topology, 2)->cpus), 24);
    assert_int_equal(cpulist_count(&topology_affinity(&topology, 1)->cpus), 0);
    topology_done(&topology);
}

static void sizes(void **state)
{
    Topology topology = {.count = 7};

    (void)state;
    assert_int_equal(topology_init(&topology, TOPOLOGY_DEVICES_MAX + 1), -E2BIG);
    assert_int_equal(topology.count, 7);
    assert_int_equal(topology_init(&topology, 0), 0);
    topology_done(&topology);
    assert_int_equal(topology_init(&topology, TOPOLOGY_DEVICES_MAX), 0);
    assert_int_equal(topology_get(&topology, 255, 255).path, TOPOLOGY_SELF);
    topology_done(&topology);
}

static void nvml_levels(void **state)
{
    static const struct {
        uint32_t level;
        TopologyPath path;
    } rows[] = {{0, TOPOLOGY_PIX},      {10, TOPOLOGY_PIX},    {20, TOPOLOGY_PXB},
                {30, TOPOLOGY_PHB},     {40, TOPOLOGY_NODE},   {50, TOPOLOGY_SYS},
                {60, TOPOLOGY_UNKNOWN}, {5, TOPOLOGY_UNKNOWN}, {UINT32_MAX, TOPOLOGY_UNKNOWN}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(topology_from_nvml(rows[i].level), rows[i].path);
}

static void nearer(void **state)
{
    static const TopologyLink rows[] = {{TOPOLOGY_SELF, 0}, {TOPOLOGY_SYS, 18},   {TOPOLOGY_PIX, 4}, {TOPOLOGY_NODE, 4},
                                        {TOPOLOGY_PIX, 0},  {TOPOLOGY_PXB, 0},    {TOPOLOGY_PHB, 0}, {TOPOLOGY_NODE, 0},
                                        {TOPOLOGY_SYS, 0},  {TOPOLOGY_UNKNOWN, 0}};
    enum { COUNT = sizeof rows / sizeof rows[0] };

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < COUNT; k++) {
            int way = topology_nearer(rows[i], rows[k]);

            assert_int_equal((way > 0) - (way < 0), (i > k) - (i < k));
        }
    }
}

static void words(void **state)
{
    static const struct {
        TopologyLink link;
        const char *expected;
    } rows[] = {
        {{TOPOLOGY_SELF, 0}, "X"},    {{TOPOLOGY_PIX, 0}, "PIX"},       {{TOPOLOGY_PXB, 0}, "PXB"},
        {{TOPOLOGY_PHB, 0}, "PHB"},   {{TOPOLOGY_NODE, 0}, "NODE"},     {{TOPOLOGY_SYS, 0}, "SYS"},
        {{TOPOLOGY_UNKNOWN, 0}, "?"}, {{TOPOLOGY_UNKNOWN, 18}, "NV18"}, {{TOPOLOGY_UNKNOWN, 255}, "NV255"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TopologyLink link = {.path = TOPOLOGY_PATH_END};
        char text[TOPOLOGY_TEXT_CAP];

        assert_string_equal(topology_format(rows[i].link, text), rows[i].expected);
        assert_int_equal(topology_parse(rows[i].expected, &link), 0);
        assert_int_equal(link.path, rows[i].link.path);
        assert_int_equal(link.nvlinks, rows[i].link.nvlinks);
    }
}

static void nvlinks_hide_the_path(void **state)
{
    char text[TOPOLOGY_TEXT_CAP];

    (void)state;
    assert_string_equal(topology_format((TopologyLink){TOPOLOGY_SYS, 12}, text), "NV12");
}

static void bad_words(void **state)
{
    static const char *const rows[] = {"",     "x",   "NV",   "NV0", "NV01",  "NV256", "NV99999999999", "NV-1", "NV4 ",
                                       "NV4x", "pix", "PIX ", "NOD", "NODES", "PSB"};
    TopologyLink link = {TOPOLOGY_PXB, 3};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(topology_parse(rows[i], &link), -EINVAL);
    assert_int_equal(link.path, TOPOLOGY_PXB);
    assert_int_equal(link.nvlinks, 3);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_matrix_knows_nothing),
        cmocka_unit_test(links_go_both_ways),
        cmocka_unit_test(sizes),
        cmocka_unit_test(nvml_levels),
        cmocka_unit_test(nearer),
        cmocka_unit_test(words),
        cmocka_unit_test(nvlinks_hide_the_path),
        cmocka_unit_test(bad_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
