/* SPDX-License-Identifier: Apache-2.0 */
/* Bringing a tree up to date: what changes, what does not, and that any course of changes ends in the files that
 * writing anew gives. Covers tree.c, tree_mig.c, tree_pci.c and put.c. */
#include "tree_kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/num.h"
#include "sim/core/state.h"

#define HEAD "about: x\ntruth: []\nwork: []\n"
#define MIG HEAD "gpus: {board: h100-sxm-80gb, count: 2, mig: []}\n"

static NodeTree *begin(Kit *kit)
{
    static NodeTree tree;
    kit_ok(node_tree_write(kit->image, kit_path(kit, "n"), sim_clock_now(kit->image), 0, &tree, &kit->err), kit);
    return &tree;
}

static int update(Kit *kit, NodeTree *tree)
{
    int rc = node_tree_update(tree, sim_clock_now(kit->image), &kit->err);
    kit_ok(rc, kit);
    return rc;
}

/* The files are those of a tree written now. */
static void assert_fresh(Kit *kit)
{
    NodeTree other;
    kit_ok(node_tree_write(kit->image, kit_path(kit, "fresh"), sim_clock_now(kit->image), 0, &other, &kit->err), kit);
    tree_assert_same(kit_path(kit, "n"), kit_path(kit, "fresh"));
}

static void do_op(Kit *kit, SimOp op)
{
    op.origin = SIM_FROM_INJECT;
    kit_apply(kit, op);
}

static void test_nothing_changed_nothing_written(void **state)
{
    (void)state;
    Kit *kit = kit_new(MIG);
    NodeTree *tree = begin(kit);
    struct stat before, after;
    assert_int_equal(stat(kit_path(kit, "n/sys/bus/pci/devices/0000:1b:00.0/config"), &before), 0);
    for (int i = 0; i < 10; i++) {
        sim_clock_advance(kit->image, 100 * SIM_NS);
        assert_int_equal(update(kit, tree), 0);
    }
    assert_int_equal(stat(kit_path(kit, "n/sys/bus/pci/devices/0000:1b:00.0/config"), &after), 0);
    assert_true(before.st_ino == after.st_ino);
    kit_free(kit);
}

static void test_mig_instances_come_and_go(void **state)
{
    (void)state;
    Kit *kit = kit_new(MIG);
    NodeTree *tree = begin(kit);
    SimNow now;
    int32_t profile = 0; /* one with room for two compute instances */
    while (strcmp(kit->image->boards[0].profiles[profile].name, "2g.20gb") != 0)
        profile++;
    do_op(kit, (SimOp){.type = SIM_OP_GI_CREATE, .gpu = 1, .a = {profile, SIM_NONE}});
    sim_state_at(kit->image, 1, sim_clock_now(kit->image), &now);
    uint32_t gi = now.cond.gi[0].id;
    assert_true(now.cond.gi[0].used);
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_true(kit_exists(kit, "n/proc/driver/nvidia/capabilities/gpu1/mig/gi%u/access", gi));
    assert_true(kit_exists(kit, "n/dev/nvidia-caps/nvidia-cap%u", node_mig_minor(1, gi, SIM_NONE)));
    assert_false(kit_exists(kit, "n/proc/driver/nvidia/capabilities/gpu0/mig/gi%u", gi));
    do_op(kit, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = 1, .a = {(int32_t)gi, 0, SIM_NONE}});
    do_op(kit, (SimOp){.type = SIM_OP_CI_CREATE, .gpu = 1, .a = {(int32_t)gi, 0, SIM_NONE}});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_true(kit_exists(kit, "n/proc/driver/nvidia/capabilities/gpu1/mig/gi%u/ci1/access", gi));
    assert_fresh(kit);
    do_op(kit, (SimOp){.type = SIM_OP_CI_DESTROY, .gpu = 1, .a = {(int32_t)gi, 0}});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_false(kit_exists(kit, "n/proc/driver/nvidia/capabilities/gpu1/mig/gi%u/ci0", gi));
    assert_true(kit_exists(kit, "n/proc/driver/nvidia/capabilities/gpu1/mig/gi%u/ci1/access", gi));
    assert_fresh(kit);
    do_op(kit, (SimOp){.type = SIM_OP_MIG_MODE, .gpu = 1, .a = {0}});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_false(kit_exists(kit, "n/proc/driver/nvidia/capabilities/gpu1/mig/gi%u", gi));
    assert_false(kit_exists(kit, "n/dev/nvidia-caps/nvidia-cap%u", node_mig_minor(1, gi, 1)));
    assert_fresh(kit);
    kit_free(kit);
}

static void test_driver_unloads_and_loads(void **state)
{
    (void)state;
    Kit *kit = kit_new(MIG);
    NodeTree *tree = begin(kit);
    struct stat before, after;
    char mismatch[128];
    assert_int_equal(stat(kit_path(kit, "n/proc/modules"), &before), 0);
    do_op(kit, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_DRIVER}, .u = SIM_DRIVER_UNLOADED});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_false(kit_exists(kit, "n/proc/driver/nvidia"));
    assert_false(kit_exists(kit, "n/sys/bus/pci/devices/0000:1b:00.0/driver"));
    assert_null(strstr(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/uevent"), "DRIVER="));
    assert_null(strstr(kit_read(kit, "n/proc/modules"), "nvidia_uvm"));
    assert_fresh(kit);
    do_op(kit, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_DRIVER}, .u = SIM_DRIVER_MISMATCH});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    snprintf(mismatch, sizeof mismatch, "  %s  ", kit->image->driver);
    assert_null(strstr(kit_read(kit, "n/proc/driver/nvidia/version"), mismatch));
    assert_fresh(kit);
    do_op(kit, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {SIM_NODE_DRIVER}, .u = SIM_DRIVER_LOADED});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_non_null(strstr(kit_read(kit, "n/proc/driver/nvidia/version"), mismatch));
    assert_fresh(kit);
    assert_int_equal(stat(kit_path(kit, "n/proc/modules"), &after), 0);
    assert_true(before.st_ino == after.st_ino); /* mounted as a file somewhere: must stay the same one */
    kit_free(kit);
}

static void node_key(Kit *kit, SimNodeKey key, uint64_t value)
{
    do_op(kit, (SimOp){.type = SIM_OP_NODE, .gpu = SIM_NONE, .a = {(int32_t)key}, .u = value});
}

static void test_tasks_come_and_go(void **state)
{
    (void)state;
    Kit *kit = kit_new(MIG);
    NodeTree *tree = begin(kit);
    assert_non_null(strstr(kit_read(kit, "n/proc/4194305/stat"), "(nvidia-persiste) S "));
    node_key(kit, SIM_NODE_PERSISTENCED, 0);
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_false(kit_exists(kit, "n/proc/4194305"));
    assert_fresh(kit);
    node_key(kit, SIM_NODE_STUCK, 3);
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_non_null(strstr(kit_read(kit, "n/proc/4194320/stat"), "(nvidia-smi) D "));
    assert_true(kit_exists(kit, "n/proc/4194322/wchan"));
    assert_fresh(kit);
    node_key(kit, SIM_NODE_STUCK, 1);
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_false(kit_exists(kit, "n/proc/4194321"));
    assert_fresh(kit);
    node_key(kit, SIM_NODE_PERSISTENCED, 1);
    node_key(kit, SIM_NODE_STUCK, 0);
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_fresh(kit);
    kit_free(kit);
}

static void test_ports_have_numbers_of_their_own(void **state)
{
    (void)state;
    Kit *kit = kit_new(MIG);
    NodeTree *tree = begin(kit);
    do_op(kit, (SimOp){.type = SIM_OP_AER, .gpu = 1, .a = {0, 1, 5, 1}});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_fresh(kit);
    do_op(kit, (SimOp){.type = SIM_OP_SET, .gpu = 1, .a = {SIM_KEY_SLOT_WIDTH}, .u = 4});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_fresh(kit);
    kit_free(kit);
}

static void test_gpu_sleeps(void **state)
{
    (void)state;
    Kit *kit = kit_new(MIG);
    NodeTree *tree = begin(kit);
    do_op(kit, (SimOp){.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_ASLEEP}, .u = 1});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/power/runtime_status"), "suspended\n");
    assert_memory_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/config"), "\xff\xff\xff\xff", 4);
    assert_fresh(kit);
    do_op(kit, (SimOp){.type = SIM_OP_SET, .gpu = 0, .a = {SIM_KEY_ASLEEP}, .u = 0});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/power/runtime_status"), "active\n");
    assert_memory_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/config"), "\xde\x10", 2);
    assert_fresh(kit);
    kit_free(kit);
}

static void test_gpu_leaves_and_comes_back(void **state)
{
    (void)state;
    Kit *kit = kit_new(MIG);
    NodeTree *tree = begin(kit);
    do_op(kit, (SimOp){.type = SIM_OP_PLUG, .gpu = 0, .a = {0}});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_false(kit_exists(kit, "n/sys/bus/pci/devices/0000:1b:00.0"));
    assert_false(kit_exists(kit, "n/proc/driver/nvidia/gpus/0000:1b:00.0"));
    assert_false(kit_exists(kit, "n/proc/driver/nvidia/capabilities/gpu0"));
    assert_false(kit_exists(kit, "n/dev/nvidia0"));
    assert_true(kit_exists(kit, "n/dev/nvidia1"));
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1a:00.0/current_link_width"), "0\n");
    do_op(kit, (SimOp){.type = SIM_OP_PLUG, .gpu = 0, .a = {1}});
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1b:00.0/vendor"), "0x10de\n");
    assert_string_equal(kit_read(kit, "n/sys/bus/pci/devices/0000:1a:00.0/current_link_width"), "16\n");
    assert_fresh(kit);
    kit_free(kit);
}

/* One change of some kind, drawn from `random`; refused ones are changes of nothing. */
static SimOp any_op(uint64_t random)
{
    int32_t gpu = (int32_t)(random % 3), x = (int32_t)(random >> 8 & 0xff);
    SimOp op = {.gpu = gpu, .origin = SIM_FROM_INJECT};
    switch (random >> 20 & 0xf) {
    case 0:
        op.type = SIM_OP_LOST;
        break;
    case 1:
        op.type = SIM_OP_RESET;
        break;
    case 2:
        op.type = SIM_OP_PLUG;
        op.a[0] = x & 1;
        break;
    case 3:
        op.type = SIM_OP_PCIE;
        op.a[0] = x % 5 + 1;
        op.a[1] = 1 << x % 5;
        break;
    case 4:
        op.type = SIM_OP_AER;
        op.a[0] = x % 3;
        op.a[1] = x % 8;
        op.a[2] = x;
        break;
    case 5:
        op.type = SIM_OP_NODE;
        op.gpu = SIM_NONE;
        op.a[0] = SIM_NODE_DRIVER;
        op.u = (uint64_t)(x & 3);
        break;
    case 6:
        op.type = SIM_OP_MIG_MODE;
        op.a[0] = x % 4 != 0;
        break;
    case 7:
        op.type = SIM_OP_GI_DESTROY;
        op.a[0] = x % 15;
        break;
    case 8:
        op.type = SIM_OP_CI_DESTROY;
        op.a[0] = x % 15;
        op.a[1] = 0;
        break;
    case 9:
    case 10:
    case 11:
        op.type = SIM_OP_CI_CREATE;
        op.a[0] = x % 15;
        op.a[1] = x >> 4 & 3;
        op.a[2] = SIM_NONE;
        break;
    default:
        op.type = SIM_OP_GI_CREATE;
        op.a[0] = x % 6;
        op.a[1] = SIM_NONE;
        break;
    }
    return op;
}

static void test_any_course_ends_in_what_writing_anew_gives(void **state)
{
    (void)state;
    for (uint64_t course = 0; course < 4; course++) {
        Kit *kit = kit_new(HEAD "gpus: {board: h100-sxm-80gb, count: 3, mig: []}\n");
        NodeTree *tree = begin(kit);
        int changes = 0;
        for (uint64_t i = 0; i < 80; i++) {
            SimOp op = any_op(sim_hash(course, i, 7));
            sim_op_apply(kit->image, &op, NULL, 0, NULL);
            sim_clock_advance(kit->image, SIM_NS);
            if (i % 3 == 0)
                changes += update(kit, tree);
            if (i % 10 == 9) {
                changes += update(kit, tree);
                assert_fresh(kit);
            }
        }
        assert_true(changes > 10);
        kit_free(kit);
    }
}

static void test_a_failed_update_is_made_up_for(void **state)
{
    (void)state;
    Kit *kit = kit_new(MIG);
    NodeTree *tree = begin(kit);
    const char *config = kit_path(kit, "n/sys/bus/pci/devices/0000:1b:00.0/config");
    unlink(config); /* a folder in its place: cannot be replaced by a file */
    kit_ok(file_make_dirs(kit_path(kit, "n/sys/bus/pci/devices/0000:1b:00.0/config/x"), 0755, &kit->err), kit);
    do_op(kit, (SimOp){.type = SIM_OP_PCIE, .gpu = 0, .a = {3, 8}});
    do_op(kit, (SimOp){.type = SIM_OP_AER, .gpu = 1, .a = {0, 1, 5}});
    assert_true(node_tree_update(tree, sim_clock_now(kit->image), &kit->err) < 0);
    assert_non_null(strstr(kit->err.text, "config"));
    assert_true(node_tree_update(tree, sim_clock_now(kit->image), &kit->err) < 0); /* still */
    rmdir(kit_path(kit, "n/sys/bus/pci/devices/0000:1b:00.0/config/x"));
    rmdir(kit_path(kit, "n/sys/bus/pci/devices/0000:1b:00.0/config"));
    assert_int_equal(update(kit, tree), NODE_TREE_CHANGED);
    assert_fresh(kit);
    assert_int_equal(update(kit, tree), 0);
    kit_free(kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_changed_nothing_written),
        cmocka_unit_test(test_mig_instances_come_and_go),
        cmocka_unit_test(test_driver_unloads_and_loads),
        cmocka_unit_test(test_tasks_come_and_go),
        cmocka_unit_test(test_ports_have_numbers_of_their_own),
        cmocka_unit_test(test_gpu_sleeps),
        cmocka_unit_test(test_gpu_leaves_and_comes_back),
        cmocka_unit_test(test_any_course_ends_in_what_writing_anew_gives),
        cmocka_unit_test(test_a_failed_update_is_made_up_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
