/* SPDX-License-Identifier: Apache-2.0 */
/* What versions of NCCL, RCCL and PyTorch write differently is read alike, and healthy inputs stay without findings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "kit.h"

CLEANUP_POINTER(NcclJob, nccl_free);

#define OLD_COMPLETE(host, pid, dev, rank)                                                                             \
    INFO(host, pid, dev, "comm 0x" #pid " rank " #rank " nranks 2 cudaDev " #dev " busId 1000 - Init COMPLETE")
#define OLD_BEGIN(version)                                                                                             \
    "NCCL version " version "\n" INFO("a", 11, 0, "Channel 00/01 :    0   1")                                          \
        INFO("a", 11, 0, "Trees [0] 1/-1/-1->0->-1") INFO("b", 12, 0, "Trees [0] -1/-1/-1->1->0")
#define OLD_END OLD_COMPLETE("a", 11, 0, 0) OLD_COMPLETE("b", 12, 0, 1)

/* Until 2.13 a rank names its communicator last, after rings and trees, and never the number of nodes. */
static void test_a_communicator_that_is_named_last(void **state)
{
    CLEANUP(nccl_free_at) NcclJob *job = kit_read(OLD_BEGIN("2.10.3+cuda11.3") OLD_END);
    const NcclReport *r = nccl_finish(job);

    (void)state;
    assert_int_equal(r->comms.len, 1);
    assert_int_equal(r->comms.at[0].nodes, 2);
    assert_int_equal(r->comms.at[0].trees, 1);
    assert_int_equal(r->comms.at[0].rings.len, 1);
    assert_string_equal(r->comms.at[0].rings.at[0].order, "0 1");
    assert_int_equal(r->members.at[0].trees.at[0].parent, -1);
    assert_int_equal(r->members.at[0].trees.at[0].children[0], 1);
    assert_int_equal(r->members.at[1].trees.at[0].parent, 0);
}

/* What a rank says of the number of nodes counts. Hosts are counted only where none says it and all ranks were seen. */
static void test_number_of_nodes(void **state)
{
    static const struct {
        const char *text;
        int64_t nodes;
    } cases[] = {
        {START("a", 11, 0, 0, 2, 77) NODES("a", 11, 0, 0, 2, 2, 1), 2},
        {START("a", 11, 0, 0, 2, 77) START("b", 12, 0, 1, 2, 77) NODES("a", 11, 0, 0, 2, 1, 2), 1}, /* containers */
        {START("a", 11, 0, 0, 4, 77) START("a", 12, 1, 1, 4, 77) NODES("a", 11, 0, 0, 4, 2, 2), 2},
        {START("a", 11, 0, 0, 2, 77) START("b", 12, 0, 1, 2, 77), 2},
        {START("a", 11, 0, 0, 3, 77) START("b", 12, 0, 1, 3, 77), NCCL_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(cases[i].text);
        assert_int_equal(nccl_finish(job)->comms.at[0].nodes, cases[i].nodes);
    }
}

/* Without a prefix: the version is that of rank 0, or of the only process of an input. */
static void test_whose_version(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job = kit_read("NCCL version 2.21.5+cuda12.4\n" TWO_NODES TWO_NODES_END "\f"
                            "NCCL version 2.20.5+cuda12.4\n" INFO("c", 99, 0, "Using network IB"));
    CLEANUP(nccl_free_at)
    NcclJob *amd = kit_read("RCCL version : 2.18.3-develop\n" INFO("c", 99, 0, "Using network IB"));
    const NcclReport *r = nccl_finish(job);

    (void)state;
    assert_string_equal(r->processes.at[0].version, "2.21.5+cuda12.4");
    assert_string_equal(r->processes.at[1].version, "");
    assert_string_equal(r->processes.at[2].version, "2.20.5+cuda12.4");
    assert_non_null(kit_find(r, "version-differs"));
    assert_string_equal(nccl_finish(amd)->processes.at[0].version, "2.18.3-develop");
}

/* Two jobs beside each other may have two versions. */
static void test_versions_of_two_jobs(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job = kit_read(
        START("a", 11, 0, 0, 2, 77) START("a", 12, 1, 1, 2, 77) INFO("a", 11, 0, "NCCL version 2.21.5+cuda12.4") "\f" //
        START("b", 21, 0, 0, 2, 88) START("b", 22, 1, 1, 2, 88) INFO("b", 21, 0, "NCCL version 2.20.5+cuda12.4"));

    (void)state;
    assert_null(kit_find(nccl_finish(job), "version-differs"));
}

static void test_completion_by_name(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(WARN("a", 11, 0,
                      "NET/IB: Got completion from peer 10.0.0.1<55921> with status=IBV_WC_RETRY_EXC_ERR(12) "
                      "opcode=IBV_WC_RDMA_WRITE(0) vendor_err=129 hca mlx5_3"));
    const NcclFinding *f = kit_find(nccl_finish(job), "ib-retry-exceeded");

    (void)state;
    assert_non_null(f);
    assert_string_equal(f->detail, "status 12: transport retry count exceeded");
    assert_null(kit_find(nccl_finish(job), "nccl-warned"));
}

static void test_old_shared_memory(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(ONE_NODE INFO("a", 11, 0, "Channel 00 : 0[1000] -> 1[2000] via direct shared memory") ONE_NODE_END);
    const NcclReport *r = nccl_finish(job);

    (void)state;
    assert_int_equal(r->classes.len, 1);
    assert_string_equal(r->classes.at[0].name, "SHM");
    assert_non_null(kit_find(r, "p2p-missing"));
    assert_int_equal(r->inputs.at[0].torn, 0);
}

/* One channel cannot use two adapters. */
static void test_fewer_channels_than_adapters(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(START("a", 11, 0, 0, 3, 77) START("a", 12, 1, 1, 3, 77) START("b", 13, 0, 2, 3, 77)
                     INFO("a", 11, 0, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:1<0>")
                         RECEIVE("a", 11, 0, 2, 0, "NET/IB/0/GDRDMA") SEND("a", 12, 1, 1, 2, "NET/IB/0/GDRDMA"));

    (void)state;
    assert_null(kit_find(nccl_finish(job), "ib-adapter-unused"));
}

/* The whole order, however long. */
static void test_a_long_ring(void **state)
{
    enum { RANKS = 512 };
    char line[RANKS * 4 + 64], text[RANKS * 4 + 1024];
    size_t len = (size_t)snprintf(line, sizeof line, "a:11:11 [0] NCCL INFO Channel 00/01 :");

    (void)state;
    for (int i = 0; i < RANKS; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, " %d", i);
    snprintf(text, sizeof text, START("a", 11, 0, 0, 512, 77) "%s\n", line);
    CLEANUP(nccl_free_at) NcclJob *job = kit_read(text);
    const NcclReport *r = nccl_finish(job);
    assert_int_equal(r->comms.at[0].rings.len, 1);
    assert_string_equal(r->comms.at[0].rings.at[0].order, strstr(line, " : ") ? strstr(line, " : ") + 3 : "");
}

static void test_neighbours_are_not_torn(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(ONE_NODE INFO("a", 11, 0, "Ring 00 : 1 -> 0 -> 1 comm 0x11 nRanks 02 busId c1000") ONE_NODE_END);

    (void)state;
    assert_int_equal(nccl_finish(job)->inputs.at[0].torn, 0);
}

static void test_plugin_without_gpudirect(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job = kit_read(TWO_NODES SEND("a", 11, 0, 0, 1, "NET/AWS Libfabric/0") TWO_NODES_END);
    const NcclFinding *f = kit_find(nccl_finish(job), "gdr-missing");

    (void)state;
    assert_non_null(f);
    assert_non_null(strstr(f->setting, "FI_EFA_USE_DEVICE_RDMA=1"));
}

#define SIXTY_FOUR "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* How the way of a connection is written; a line that ends early says none. */
static void test_ways(void **state)
{
    static const struct {
        const char *text, *name; /* name NULL: torn */
        int device;
        bool gdr;
        NcclVia via;
    } cases[] = {
        {"NET/IB/2(6)/GDRDMA(PCI)/Shared", "NET/IB", 2, true, NCCL_VIA_RDMA},
        {"NET/IB/0", "NET/IB", 0, false, NCCL_VIA_RDMA},
        {"NET/IB/0/Shared", "NET/IB", 0, false, NCCL_VIA_RDMA},
        {"NET/Socket/1", "NET/Socket", 1, false, NCCL_VIA_SOCKET},
        {"NET/my socket/1", "NET/my socket", 1, false, NCCL_VIA_SOCKET},
        {"NET/soc/1", "NET/soc", 1, false, NCCL_VIA_RDMA},
        {"NET/" SIXTY_FOUR "/0", "NET/" SIXTY_FOUR, 0, false, NCCL_VIA_RDMA},
        {"NET/" SIXTY_FOUR "x/0", NULL, 0, false, NCCL_VIA_OTHER},
        {"NET//0", NULL, 0, false, NCCL_VIA_OTHER},
        {"NET/IB/", NULL, 0, false, NCCL_VIA_OTHER},
        {"NET/IB/-1", NULL, 0, false, NCCL_VIA_OTHER},
        {"NET/IB/0(", NULL, 0, false, NCCL_VIA_OTHER},
        {"NET/IB/0(6", NULL, 0, false, NCCL_VIA_OTHER},
        {"NET/IB/0/GDRD", NULL, 0, false, NCCL_VIA_OTHER},
        {"P2P/CUMEM", "P2P/CUMEM", -1, false, NCCL_VIA_P2P},
        {"P2P/direct pointer", "P2P/direct pointer", -1, false, NCCL_VIA_P2P},
        {"P2P/dir", NULL, 0, false, NCCL_VIA_OTHER},
        {"SHM/direct/direct", "SHM", -1, false, NCCL_VIA_SHM},
        {"COLLNET/0/Shared", "COLLNET", -1, false, NCCL_VIA_COLLNET},
        {"MAGIC/0", NULL, 0, false, NCCL_VIA_OTHER},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096];

        snprintf(text, sizeof text, TWO_NODES SEND("a", 11, 0, 0, 1, "%s"), cases[i].text);
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(text);
        const NcclReport *r = nccl_finish(job);

        if (r->edges.len != (cases[i].name ? 1 : 0) || r->ways.len != r->edges.len)
            fail_msg("%s: %zu connections by %zu ways", cases[i].text, r->edges.len, r->ways.len);
        if (!cases[i].name)
            continue;
        assert_string_equal(r->ways.at[0].name, cases[i].name);
        assert_int_equal(r->ways.at[0].device, cases[i].device);
        assert_int_equal(r->ways.at[0].gdr, cases[i].gdr);
        assert_int_equal(r->ways.at[0].via, cases[i].via);
    }
}

#define SCATTER(rank, size)                                                                                            \
    "name=trace_rank_" rank                                                                                            \
    "\n{\"version\":\"2.9\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1]\"}},"      \
    "\"entries\":[{\"record_id\":0,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":1,"                  \
    "\"profiling_name\":\"nccl:_reduce_scatter_base\",\"input_sizes\":[[8]],\"output_sizes\":[[" size                  \
    "]],\"state\":\"started\",\"is_p2p\":false}]}"

/* A member of the group that has made no call is behind. */
static void test_a_member_without_a_call(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(SCATTER("0", "4") "\fname=trace_rank_1\n{\"version\":\"2.9\",\"pg_config\":{\"0\":{\"name\":"
                                   "\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1]\"}},\"entries\":[]}");
    const NcclFinding *f = kit_find(nccl_finish(job), "flight-behind");

    (void)state;
    assert_non_null(f);
    assert_string_equal(f->evidence[0].text, "rank 1: no call at all");
}

/* Sizes that do not fit are why it hangs: nothing is below the program. */
static void test_a_misfit_is_not_a_broken_link(void **state)
{
    CLEANUP(nccl_free_at) NcclJob *bad = kit_read(SCATTER("0", "4") "\f" SCATTER("1", "3"));
    CLEANUP(nccl_free_at) NcclJob *good = kit_read(SCATTER("0", "4") "\f" SCATTER("1", "4"));

    (void)state;
    assert_non_null(kit_find(nccl_finish(bad), "flight-size-mismatch"));
    assert_null(kit_find(nccl_finish(bad), "flight-hung"));
    assert_null(kit_find(nccl_finish(good), "flight-size-mismatch"));
    assert_non_null(kit_find(nccl_finish(good), "flight-hung"));
}

#define LINE(name, value) INFO("a", 11, 0, name " set by environment to " value)
#define FAR                                                                                                            \
    LINE("NCCL_DEBUG", "INFO")                                                                                         \
    INFO("a", 11, 0, "NET/IB : GPU Direct RDMA Disabled for GPU c8000[3] / HCA 0 (distance 5 >= 4)")

/* Values in any case and in the older numbers; no advice to set what is set. */
static void test_values_of_variables(void **state)
{
    static const struct {
        const char *text, *id, *setting;
    } cases[] = {
        {TWO_NODES LINE("NCCL_NET", "socket") SEND("a", 11, 0, 0, 1, "NET/Socket/0"), "net-forced-socket", "NCCL_NET"},
        {ONE_NODE LINE("NCCL_P2P_LEVEL", "5") DIRECT("a", 11, 0, 0, 1, "SHM/direct/direct"), "p2p-missing", "ACS"},
        {ONE_NODE LINE("NCCL_P2P_LEVEL", "sys") DIRECT("a", 11, 0, 0, 1, "SHM/direct/direct"), "p2p-missing", "ACS"},
        {ONE_NODE LINE("NCCL_P2P_LEVEL", "2") DIRECT("a", 11, 0, 0, 1, "SHM/direct/direct"), "p2p-level", "unset"},
        {TWO_NODES LINE("NCCL_NET_GDR_LEVEL", "PIX") FAR SEND("a", 11, 0, 0, 1, "NET/IB/0"), "gdr-level", "unset"},
        {TWO_NODES LINE("NCCL_NET_GDR_LEVEL", "SYS") FAR SEND("a", 11, 0, 0, 1, "NET/IB/0"), "gdr-distance", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(cases[i].text);
        const NcclFinding *f = kit_find(nccl_finish(job), cases[i].id);
        if (!f)
            print_error("%s not found in case %zu\n", cases[i].id, i);
        assert_non_null(f);
        assert_non_null(strstr(f->setting, cases[i].setting));
        assert_null(strstr(f->setting, "P2P_LEVEL=SYS"));
    }
}

#define RUN(ranks)                                                                                                     \
    "{\"args\":[\"all_reduce_perf\"],\"config\":{\"nthreads\":1,\"ngpus\":" ranks                                      \
    ",\"devices\":[{\"hostname\":\"a\"}]},\"results\":[{\"size\":8,\"count\":2,\"type\":\"float\","                    \
    "\"out_of_place\":{\"time\":1,\"alg_bw\":1,\"bus_bw\":4},\"in_place\":{\"time\":1,\"alg_bw\":1,\"bus_bw\":4}}]}"

static void test_scaling_goes_upwards(void **state)
{
    CLEANUP(nccl_free_at) NcclJob *job = kit_read(RUN("8") "\f" RUN("2") "\f" RUN("4"));
    const NcclReport *r = nccl_finish(job);

    (void)state;
    assert_int_equal(r->scalings.len, 2);
    assert_int_equal(r->benches.at[r->scalings.at[0].base].ranks, 2);
    assert_int_equal(r->benches.at[r->scalings.at[0].bench].ranks, 4);
    assert_int_equal(r->benches.at[r->scalings.at[1].bench].ranks, 8);
}

/* What another program left on the line is not a part of the host's name. */
/* A group is listed under a number and named as its calls name it; without calls its status counts. */
static void test_a_group_that_is_listed_by_number(void **state)
{
    static const char dump[] =
        "name=trace_rank_0\n{\"version\":\"2.9\",\"pg_config\":{\"7\":{\"name\":\"0\",\"desc\":\"default_pg\","
        "\"ranks\":\"[0, 1]\"},\"8\":{\"desc\":\"unnamed\",\"ranks\":\"[0]\"}},\"pg_status\":{\"7\":{"
        "\"last_enqueued_collective\":1,\"last_completed_collective\":1}},\"entries\":[{\"record_id\":0,\"pg_id\":0,"
        "\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":1,\"p2p_seq_id\":0,\"op_id\":1,"
        "\"profiling_name\":\"nccl:all_reduce\",\"input_sizes\":[[8]],\"input_dtypes\":[\"Float\"],\"output_sizes\":"
        "[[8]],\"output_dtypes\":[\"Float\"],\"state\":\"completed\",\"retired\":true,\"is_p2p\":false}]}";
    CLEANUP(nccl_free_at) NcclJob *job = kit_read(dump);
    const NcclReport *r = nccl_finish(job);

    (void)state;
    assert_int_equal(r->groups.len, 2);
    assert_string_equal(r->groups.at[0].name, "0");
    assert_int_equal(r->groups.at[0].nranks, 2);
    assert_string_equal(r->groups.at[1].name, "8");
}

/* Host, process, thread and device: what lacks one of them names no process. */
static void test_what_is_no_prefix(void **state)
{
    static const struct {
        const char *prefix;
        size_t processes;
    } lines[] = {{"a:11:12 [0]", 1}, {"a:11:12 []", 1}, {":11:12 [0]", 0},  {"a:x:12 [0]", 0}, {"a:11:x [0]", 0},
                 {"11:12 [0]", 0},   {"a:11:12[0]", 0}, {"a:11:12 [x]", 0}, {" [0]", 0},       {"a 11:12 [0]", 0},
                 {":12 [0]", 0},     {"12 [0]", 0},     {"a11:12 [0]", 0}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char text[200];

        snprintf(text, sizeof text, "%s NCCL INFO NCCL version 2.21.5+cuda12.4\n", lines[i].prefix);
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(text);
        size_t named = 0;
        const NcclReport *r = nccl_finish(job);

        for (size_t k = 0; k < r->processes.len; k++)
            named += r->processes.at[k].host[0] != '\0';
        if (named != lines[i].processes)
            fail_msg("'%s': %zu", lines[i].prefix, named);
    }
}

static void test_text_before_the_first_prefix(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job = kit_read(ONE_NODE "loss 0.12" INFO("a", 11, 0, "Using network IB") "sum      -1" INFO(
        "a", 99, 0, "Using network IB") "x" INFO("b", 5, 0, "Using network IB"));
    const NcclReport *r = nccl_finish(job);

    (void)state;
    assert_int_equal(r->processes.len, 4);
    assert_string_equal(r->processes.at[2].host, "a");
    assert_string_equal(r->processes.at[3].host, "xb"); /* may as well be its name */
}

/* A refused connection that was tried again is worth a word where the job did not come up. */
static void test_a_connection_that_was_tried_again(void **state)
{
#define REFUSED INFO("a", 11, 0, "Call to connect returned Connection refused, retrying")
    CLEANUP(nccl_free_at) NcclJob *up = kit_read(ONE_NODE REFUSED ONE_NODE_END);
    CLEANUP(nccl_free_at) NcclJob *hung = kit_read(ONE_NODE REFUSED);
    CLEANUP(nccl_free_at)
    NcclJob *failed =
        kit_read(ONE_NODE REFUSED WARN("a", 12, 1, "Call to connect returned Connection refused") ONE_NODE_END);

    (void)state;
    assert_int_equal(kit_find(nccl_finish(up), "connect-refused")->severity, NCCL_NOTE);
    assert_int_equal(kit_find(nccl_finish(hung), "connect-refused")->severity, NCCL_ERROR);
    assert_int_equal(kit_find(nccl_finish(failed), "connect-refused")->severity, NCCL_ERROR);
}

#define TABLE                                                                                                          \
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor)\n# size count type redop root time algbw busbw "      \
    "#wrong "                                                                                                          \
    "time algbw busbw #wrong\n"
#define VIA INFO("a", 11, 0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")

/* The test writes the front of a row first, and NCCL's lines come in between. */
static void test_a_torn_row(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(VIA TABLE "   8   2   float   sum   -1" VIA VIA "  1.5  1.0  2.0  0" VIA "  2.5  1.0  3.0  0\n"
                           "0: 16 4 float sum -1\n" VIA "0:  1.5  1.0  4.0  0  2.5  1.0  5.0  N/A\n"
                           "32 8 float sum -1\n" VIA "1.5 1.0 4.0 0 2.\n5 1.0 5.0 0\n" /* within a number */
                           "# Avg bus bandwidth : 3\n1 2 float sum -1 1 1 1 0 1 1 1 0\n");
    const NcclReport *r = nccl_finish(job);

    (void)state;
    assert_int_equal(r->benches.len, 1);
    assert_int_equal(r->benches.at[0].rows.len, 2);
    assert_int_equal(r->benches.at[0].rows.at[0].size, 8);
    assert_true(r->benches.at[0].rows.at[0].out.bus_gbs == 2 && r->benches.at[0].rows.at[0].in.bus_gbs == 3);
    assert_true(r->benches.at[0].rows.at[1].out.bus_gbs == 4 && r->benches.at[0].rows.at[1].in.bus_gbs == 5);
    assert_int_equal(r->processes.len, 1);
}

static void test_outputs_of_all(void **state)
{
    (void)state;
    kit_check_outputs(GOLDEN "/test_forms.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_communicator_that_is_named_last),
        cmocka_unit_test(test_number_of_nodes),
        cmocka_unit_test(test_whose_version),
        cmocka_unit_test(test_versions_of_two_jobs),
        cmocka_unit_test(test_completion_by_name),
        cmocka_unit_test(test_old_shared_memory),
        cmocka_unit_test(test_fewer_channels_than_adapters),
        cmocka_unit_test(test_a_long_ring),
        cmocka_unit_test(test_neighbours_are_not_torn),
        cmocka_unit_test(test_plugin_without_gpudirect),
        cmocka_unit_test(test_values_of_variables),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_scaling_goes_upwards),
        cmocka_unit_test(test_a_misfit_is_not_a_broken_link),
        cmocka_unit_test(test_a_member_without_a_call),
        cmocka_unit_test(test_a_group_that_is_listed_by_number),
        cmocka_unit_test(test_what_is_no_prefix),
        cmocka_unit_test(test_text_before_the_first_prefix),
        cmocka_unit_test(test_a_connection_that_was_tried_again),
        cmocka_unit_test(test_a_torn_row),
        cmocka_unit_test(test_outputs_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
