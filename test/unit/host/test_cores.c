/* SPDX-License-Identifier: Apache-2.0 */
/* The node's cores by Slurm's numbers, which are those of `lstopo -l` (Core L#). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "kit.h"

#include "engine/gres/gres.h"
#include "source/host/cores.h"

#define CPU "/sys/devices/system/cpu"
#define GPU "/sys/bus/pci/devices/0000:1b:00.0"

static CoreMap map;
static Tree tree_of_test;

static int make_tree(void **state)
{
    tree_new(&tree_of_test);
    *state = &tree_of_test;
    return 0;
}

static int remove_tree(void **state)
{
    (void)state;
    tree_free(&tree_of_test);
    return 0;
}

static void add_cpu(const Tree *tree, int cpu, const char *core, const char *package)
{
    char path[128];
    snprintf(path, sizeof path, CPU "/cpu%d/topology/thread_siblings_list", cpu);
    tree_file(tree, path, "%s\n", core);
    snprintf(path, sizeof path, CPU "/cpu%d/topology/core_siblings_list", cpu);
    tree_file(tree, path, "%s\n", package);
}

static void check_near(const Tree *tree, const char *cpus, const char *cores)
{
    CLEANUP(str_done) Str text = str_limited(400);
    CoreSet set;
    tree_file(tree, GPU "/local_cpulist", "%s\n", cpus);
    assert_int_equal(cores_near(tree->root, "0000:1b:00.0", &map, &set), 0);
    gres_add_cores(&set, &text);
    assert_string_equal(text.len ? text.text : "", cores);
}

static void threads_of_two_sockets(void **state)
{
    const Tree *tree = *state;
    tree_file(tree, CPU "/online", "0-7\n");
    for (int cpu = 0; cpu < 8; cpu++) /* the second threads come behind all first ones */
        add_cpu(tree, cpu, (const char *[]){"0,4", "1,5", "2,6", "3,7"}[cpu % 4], cpu % 4 < 2 ? "0-1,4-5" : "2-3,6-7");
    assert_int_equal(cores_read(tree->root, &map, NULL), 0);
    assert_int_equal(map.core_count, 4);
    check_near(tree, "0-1,4-5", "0-1");
    check_near(tree, "6", "2");
    check_near(tree, "0-7", "0-3");
}

/* Firmware that numbers the sockets in turn: the first socket's cores come first all the same. */
static void sockets_in_turn(void **state)
{
    const Tree *tree = *state;
    tree_file(tree, CPU "/online", "0-5\n");
    for (int cpu = 0; cpu < 6; cpu++)
        add_cpu(tree, cpu, (const char *[]){"0", "1", "2", "3", "4", "5"}[cpu], cpu % 2 ? "1,3,5" : "0,2,4");
    assert_int_equal(cores_read(tree->root, &map, NULL), 0);
    check_near(tree, "0,2,4", "0-2");
    check_near(tree, "1,3,5", "3-5");
    check_near(tree, "1-2", "1,3");
}

/* Within a socket by NUMA node, and within that by L3 cache. */
static void nodes_and_caches_in_turn(void **state)
{
    const Tree *tree = *state;
    tree_file(tree, CPU "/online", "0-7\n");
    tree_file(tree, "/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
    tree_file(tree, "/sys/devices/system/node/node1/cpulist", "1,3,5,7\n");
    for (int cpu = 0; cpu < 8; cpu++) {
        char path[128];
        add_cpu(tree, cpu, (const char *[]){"0", "1", "2", "3", "4", "5", "6", "7"}[cpu], "0-7");
        snprintf(path, sizeof path, CPU "/cpu%d/cache/index0/level", cpu);
        tree_file(tree, path, "1\n");
        snprintf(path, sizeof path, CPU "/cpu%d/cache/index1/level", cpu);
        tree_file(tree, path, "3\n");
        snprintf(path, sizeof path, CPU "/cpu%d/cache/index1/shared_cpu_list", cpu);
        tree_file(tree, path, "%s\n", (const char *[]){"0,4", "1,5", "2,6", "3,7"}[cpu % 4]);
    }
    assert_int_equal(cores_read(tree->root, &map, NULL), 0);
    check_near(tree, "0,4", "0-1");
    check_near(tree, "2,6", "2-3");
    check_near(tree, "1,3,5,7", "4-7");
    check_near(tree, "1,5", "4-5");
}

static void processors_that_are_offline(void **state)
{
    const Tree *tree = *state;
    tree_file(tree, CPU "/online", "0,2\n");
    add_cpu(tree, 0, "0", "0,2");
    add_cpu(tree, 2, "2", "0,2");
    assert_int_equal(cores_read(tree->root, &map, NULL), 0);
    assert_int_equal(map.core_count, 2);
    check_near(tree, "0-3", "0-1");
    check_near(tree, "3-5", "");
}

static void what_the_kernel_does_not_tell(void **state)
{
    const Tree *tree = *state;
    CoreSet set;
    Err err = {0};
    assert_int_equal(cores_read(tree->root, &map, &err), -ENOENT);
    tree_file(tree, CPU "/online", "0-99999\n");
    assert_int_equal(cores_read(tree->root, &map, &err), -ENOENT);
    tree_file(tree, CPU "/online", "0-1\n");
    add_cpu(tree, 0, "0", "0-1");
    assert_int_equal(cores_read(tree->root, &map, &err), -ENOENT);
    assert_non_null(strstr(err.text, "processor 1"));
    add_cpu(tree, 1, "1", "0-1");
    assert_int_equal(cores_read(tree->root, &map, &err), 0);
    assert_int_equal(cores_near(tree->root, "0000:1b:00.0", &map, &set), -ENOENT);
    tree_file(tree, GPU "/local_cpulist", "0-1;\n");
    assert_int_equal(cores_near(tree->root, "0000:1b:00.0", &map, &set), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(threads_of_two_sockets, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(sockets_in_turn, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(nodes_and_caches_in_turn, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(processors_that_are_offline, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(what_the_kernel_does_not_tell, make_tree, remove_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
