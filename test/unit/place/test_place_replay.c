/* SPDX-License-Identifier: Apache-2.0 */
/* A small workload in openb's format, read, replayed and told whole; and what is wrong with files that are not of it.
 */
#include "../golden.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "service/place/replay_report.h"
#include "source/openb/openb.h"

static Arena arena;

CLEANUP_POINTER(Placement, placement_free);

static int start_anew(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

static void a_workload_is_told_whole(void **state)
{
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);
    OpenbWorkload work;
    Replay replay;
    Err err;

    (void)state;
    assert_int_equal(openb_read(DATA "/nodes.csv", DATA "/pods.csv.gz", DATA "/order.txt", &arena, &work, &err), 0);
    for (const PlacementMode *const *mode = placement_modes; *mode; mode++) {
        CLEANUP(placement_free_at)
        Placement *placement = placement_new(work.nodes, work.node_count, work.node_order, *mode);

        placement_set_typical(placement, work.pods, work.pod_count);
        replay_run(placement, work.pods, work.order, work.order_count, &replay);
        replay_text(&replay, placement_mode_name(*mode), (double)NAN, &out);
        replay_json(&replay, placement_mode_name(*mode), (double)NAN, &out);
        str_addc(&out, '\n');
    }
    assert_golden(DATA "/replay.txt", &out);
}

/* The pods come by name, whatever the order of the file. */
static void without_an_order_each_pod_comes_once(void **state)
{
    OpenbWorkload work;
    Err err;

    (void)state;
    assert_int_equal(openb_read(DATA "/nodes.csv", DATA "/pods.csv.gz", NULL, &arena, &work, &err), 0);
    assert_int_equal(work.order_count, work.pod_count);
    assert_null(work.node_order);
    for (uint32_t i = 0; i < work.order_count; i++)
        assert_int_equal(work.order[i], i);
}

static const char *write_file(const char *name, const char *text)
{
    static char path[4][64];
    static int next;
    char *to = path[next++ % 4];

    snprintf(to, sizeof path[0], "/tmp/stoker-place-%ld-%s", (long)getpid(), name);
    assert_int_equal(file_write(to, text, strlen(text), 0644, NULL), 0);
    return to;
}

/* A model of the reader's own, with its watts; what asks for it gets it. */
static void a_model_of_its_own_has_its_watts(void **state)
{
    const char *nodes = write_file("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model,gpu_idle_w,gpu_full_w\n"
                                                "c,8000,1024,0,H100,,\na,8000,1024,1,H100,70,700\n"
                                                "b,8000,1024,1,T4,,\nd,8000,1024,1,H100,,\n");
    const char *pods =
        write_file("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\r\np,1,1,1,1000,H100\r\n");
    OpenbWorkload work;
    Err err;

    (void)state;
    assert_int_equal(openb_read(nodes, pods, NULL, &arena, &work, &err), 0);
    assert_true(work.nodes[1].gpu_full_w == 700 && work.nodes[1].gpu_idle_w == 70 && work.nodes[2].gpu_full_w == 70);
    assert_true(work.nodes[3].gpu_full_w == 700 && work.nodes[3].gpu_idle_w == 70); /* as the row that told it */
    assert_int_equal(work.pods[0].models, UINT64_C(1) << work.nodes[1].model);
    unlink(nodes);
    unlink(pods);
}

#define HEAD "sn,cpu_milli,memory_mib,gpu,model\n"
#define PODS "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"

static const struct {
    const char *nodes, *pods, *order, *says;
} wrong[] = {
    {"", PODS "a,1,1,0,0,\n", NULL, "nodes.csv:0: the file is empty"},
    {"sn,cpu_milli\na,1\n", PODS, NULL, "nodes.csv:1: no column 'memory_mib'"},
    {HEAD, PODS, NULL, "nodes.csv:1: no node"},
    {HEAD "a,1,1\n", PODS, NULL, "nodes.csv:2: no value of 'gpu'"},
    {HEAD "a,-1,1,1,T4\n", PODS, NULL, "nodes.csv:2: cpu_milli: '-1' is not a whole number"},
    {HEAD "a,1,1,17,T4\n", PODS, NULL, "nodes.csv:2: gpu: "},
    {HEAD "\na,1,1,1,T5\n", PODS, NULL, "nodes.csv:3: the watts of GPU model 'T5' are not known: add columns"},
    {"sn,cpu_milli,memory_mib,gpu,model,gpu_idle_w,gpu_full_w\na,1,1,1,H100,70,x\n", PODS, NULL,
     "nodes.csv:2: gpu_full_w: 'x' is"},
    {HEAD "a,1,1,0,H100\nb,1,1,1,H100\n", PODS, NULL, "nodes.csv:3: the watts of GPU model 'H100' are not known"},
    {HEAD "a,1,1,1,T4\n", PODS, NULL, "pods.csv:1: no pod"},
    {HEAD "a,1,1,1,T4\n", PODS "p,1,1,2,500,\n", NULL, "pods.csv:2: a part of more than one GPU"},
    {HEAD "a,1,1,1,T4\n", PODS "p,1,1,1,0,\n", NULL, "pods.csv:2: a GPU of which nothing is asked"},
    {HEAD "a,1,1,1,T4\n", PODS "p,1,1,1,500,T4|H7\n", NULL, "pods.csv:2: no node has GPU model 'H7'"},
    {HEAD "a,1,1,1,T4\n", PODS "p,1,1,0,0,\n", "", "order.txt:1: it ends before how many pods come"},
    {HEAD "a,1,1,1,T4\n", PODS "p,1,1,0,0,\n", "1 2 0 0 0", "order.txt: it is of 2 nodes, not of 1"},
    {HEAD "a,1,1,1,T4\n", PODS "p,1,1,0,0,\n", "1 1 0\n1\n0\n", "order.txt:2: the number of a pod: "},
    {HEAD "a,1,1,1,T4\n", PODS "p,1,1,0,0,\n", "99 1 0\n0\n", "order.txt:1: how many pods come: "},
    {HEAD "a,1,1,1,T4\nb,1,1,1,T4\n", PODS "p,1,1,0,0,\n", "1 2 0\n0\n1\n1\n", "order.txt: two nodes have the place 1"},
};

static void wrong_files_are_told_with_their_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        const char *nodes = write_file("nodes.csv", wrong[i].nodes), *pods = write_file("pods.csv", wrong[i].pods);
        const char *order = wrong[i].order ? write_file("order.txt", wrong[i].order) : NULL;
        OpenbWorkload work = {.pod_count = 77};
        Err err;

        assert_int_equal(openb_read(nodes, pods, order, &arena, &work, &err), -EINVAL);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("%s\n  should have: %s", err.text, wrong[i].says);
        assert_int_equal(work.pod_count, 77); /* untouched */
        unlink(nodes);
        unlink(pods);
        if (order)
            unlink(order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_workload_is_told_whole, start_anew),
        cmocka_unit_test_setup(without_an_order_each_pod_comes_once, start_anew),
        cmocka_unit_test_setup(a_model_of_its_own_has_its_watts, start_anew),
        cmocka_unit_test_setup(wrong_files_are_told_with_their_line, start_anew),
    };

    arena_init(&arena, 1 << 16);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&arena);
    return failed;
}
