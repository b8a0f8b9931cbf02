/* SPDX-License-Identifier: Apache-2.0 */
/* source/slurm: history.c, what sacct prints, and places.c, where nodes are. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "source/slurm/history.h"
#include "source/slurm/places.h"

#define HEAD                                                                                                           \
    "JobID|JobName|Submit|Start|End|AllocTRES|NNodes|NCPUS|ReqMem|Partition|Account|QOS|Priority|State|Timelimit|"     \
    "ElapsedRaw\n"
#define SUBMIT "2026-11-30T00:00:00|2026-11-30T00:01:00|2026-11-30T01:01:00|"

static const char *const models[] = {"a100", "h100"};
static const Cluster cluster = {.models = models, .model_count = 2};

static int read_text(const char *text, Arena *arena, SlurmHistory *ret, Err *err)
{
    const SlurmText history = {"sacct.txt", text, strlen(text)};

    return slurm_history_read(&history, &cluster, arena, ret, err);
}

static void test_history(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    SlurmHistory read;

    (void)state;
    assert_int_equal(
        read_text(
            HEAD
            "7|train (a|" SUBMIT
            "billing=8,cpu=8,gres/gpu:h100=4,gres/gpu=4,mem=64G,node=2|2|8|64G|gpu|phys|n|5|COMPLETED|02:00:00|3600\n"
            "7.batch|batch|" SUBMIT "cpu=8,mem=64G,node=2|2|8||||||COMPLETED||3600\n"
            "7.extern|extern|" SUBMIT "cpu=8|2|8||||||COMPLETED||3600\n"
            "8_3|x|" SUBMIT "cpu=3,gres/gpu=3,node=2|2|3|2Gc|gpu|phys|n|4294901759|FAILED|UNLIMITED|60\r\n"
            "9+1|x|" SUBMIT "cpu=3|1|3|2Gn|gpu||n||RUNNING|1:00|61\n"
            "10|x|2026-11-30T00:00:00|None|Unknown||1|1|1G|gpu|phys|n|1|CANCELLED by 7|1:00|0\n"
            "11|x|2026-11-30T00:00:00|Unknown|Unknown||1|1|1G|gpu|phys|n|1|PENDING|1:00|0\n",
            &arena, &read, NULL),
        0);
    assert_int_equal(read.count, 3);
    assert_int_equal(read.steps, 2);
    assert_int_equal(read.never_ran, 2);
    const ClusterJob *job = read.jobs;
    assert_string_equal(job[0].name, "7");
    assert_string_equal(job[0].queue, "phys");
    assert_int_equal(job[0].submitted_s, 1795996800);
    assert_int_equal(job[0].started_s, 1795996860);
    assert_int_equal(job[0].duration_s, 3600);
    assert_int_equal(job[0].priority, 5);
    assert_int_equal(job[0].role_count, 1);
    assert_int_equal(job[0].roles[0].min, 2);
    assert_int_equal(job[0].roles[0].request.gpu_count, 2);
    assert_int_equal(job[0].roles[0].request.models, 2);
    assert_int_equal(job[0].roles[0].request.cpu_milli, 4000);
    assert_int_equal(job[0].roles[0].request.memory_mib, 32768);
    assert_string_equal(job[1].name, "8_3");
    assert_int_equal(job[1].priority, INT32_MAX);
    assert_int_equal(job[1].role_count, 2);
    assert_int_equal(job[1].roles[0].request.gpu_count, 2);
    assert_int_equal(job[1].roles[1].request.gpu_count, 1);
    assert_int_equal(job[1].roles[1].request.models, 0);
    assert_int_equal(job[1].roles[1].request.memory_mib, 3072);
    assert_ptr_equal(job[1].queue, job[0].queue);
    assert_string_equal(job[2].name, "9+1");
    assert_null(job[2].queue);
    assert_int_equal(job[2].roles[0].request.gpu_milli, 0);
    assert_int_equal(job[2].roles[0].request.memory_mib, 2048);
}

static void test_history_with_nothing(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    SlurmHistory read = {.count = 7};

    (void)state;
    assert_int_equal(read_text("", &arena, &read, NULL), 0);
    assert_int_equal(read.count, 0);
    assert_int_equal(read_text(HEAD, &arena, &read, NULL), 0);
    assert_int_equal(read.count, 0);
}

static void test_history_refused(void **state)
{
    static const struct {
        const char *text, *said;
    } refused[] = {
        {"JobID|Submit|Start|End|State|ReqMem\n",
         "sacct.txt:1: no column ElapsedRaw, NNodes, NCPUS, Account, Priority, "
         "AllocTRES (or ReqTRES); name them in sacct's --format"},
        {"7|train\n", "no column JobID, Submit"},
        {HEAD "7|x|" SUBMIT "cpu=1|1\n", "sacct.txt:2: no value of ElapsedRaw"},
        {HEAD "\n7|x|" SUBMIT "cpu=1|many|8|||||1|||60\n", "sacct.txt:3: NNodes: "},
        {HEAD "7|x|Unknown|2026-11-30T00:01:00||cpu=1|1|8|||||1|||60\n", "sacct.txt:2: Submit is no time"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        SlurmHistory read = {.count = 7};
        Err err = {0};

        assert_int_equal(read_text(refused[i].text, &arena, &read, &err), -EINVAL);
        assert_int_equal(read.count, 7);
        if (!strstr(err.text, refused[i].said))
            fail_msg("%s", err.text);
    }
}

/* --- places ------------------------------------------------------------------------------------------------------- */

static const ClusterNode nodes[] = {{.name = "g1", .domain = {9, 9, 9}}, {.name = "g2"}, {.name = "g3"}};

static int read_places(const char *text, Arena *arena, Cluster *ret, Err *err)
{
    const SlurmText places = {"places.csv", text, strlen(text)};

    *ret = (Cluster){.nodes = nodes, .node_count = 3};
    return slurm_places_read(&places, arena, ret, err);
}

static void test_places(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    Cluster read;

    (void)state;
    assert_int_equal(read_places("block,node,what,rack\r\nb1,\"g1\",x,r1\n", &arena, &read, NULL), -EINVAL);
    assert_int_equal(read_places("block,node,what,rack\r\nb1,g[1-2],x,r1\r\n\n,g3,,r2\n", &arena, &read, NULL), 0);
    assert_int_equal(read.domain_counts[CLUSTER_NVLINK], 0);
    assert_int_equal(read.domain_counts[CLUSTER_RACK], 2);
    assert_string_equal(read.domains[CLUSTER_RACK][1], "r2");
    assert_int_equal(read.domain_counts[CLUSTER_BLOCK], 1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(read.nodes[i].domain[CLUSTER_NVLINK], 0);
        assert_int_equal(read.nodes[i].domain[CLUSTER_RACK], i < 2 ? 1 : 2);
        assert_int_equal(read.nodes[i].domain[CLUSTER_BLOCK], i < 2);
    }
}

static void test_places_refused(void **state)
{
    static const struct {
        const char *text, *said;
    } refused[] = {
        {"", "places.csv:1: its first line has to name the columns"},
        {"node\ng1\n", "places.csv:1: its first line"},
        {"rack\nr1\n", "places.csv:1: its first line"},
        {"node,rack\ng1,r1\ng9,r1\n", "places.csv:3: the cluster has no node g9"},
        {"node,rack\ng1,r 1\n", "places.csv:2: rack 'r 1': names have"},
        {"node,rack\ng[1,r1\n", "places.csv:2: no ']'"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        CLEANUP(arena_done) Arena arena = {0};
        Cluster read;
        Err err = {0};

        assert_int_equal(read_places(refused[i].text, &arena, &read, &err), -EINVAL);
        assert_ptr_equal(read.nodes, nodes);
        if (!strstr(err.text, refused[i].said))
            fail_msg("%s", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history),         cmocka_unit_test(test_history_with_nothing),
        cmocka_unit_test(test_history_refused), cmocka_unit_test(test_places),
        cmocka_unit_test(test_places_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
