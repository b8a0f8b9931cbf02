/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that repeat or continue each other, inputs whose end is missing, and what a flight recorder leaves open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "kit.h"

CLEANUP_POINTER(NcclJob, nccl_free);

#define COLL(host, pid, number)                                                                                        \
    INFO(host, pid, 0,                                                                                                 \
         "AllReduce: opCount " number " sendbuff 0x1 recvbuff 0x2 count 8 datatype 7 op 0 root 0 comm 0x" #pid         \
         " [nranks=2] stream 0x3")
#define CUT "trouble=its end is missing\n"

/* The second file goes on where the first ends; whichever is given first. */
static void test_a_rotated_log_is_one(void **state)
{
    static const char *const orders[] = {"name=r.log.1\n" ONE_NODE "\fname=r.log\n" ONE_NODE_END,
                                         "name=r.log\n" ONE_NODE_END "\fname=r.log.1\n" ONE_NODE};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(orders[i]);
        const NcclReport *r = nccl_finish(job);
        assert_int_equal(r->findings.len, 0);
        assert_int_equal(r->comms.len, 1);
        assert_int_equal(r->comms.at[0].complete, 2);
    }
}

static void test_a_log_of_the_job_and_those_of_its_ranks(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job = kit_read("name=rank0\n" START("a", 11, 0, 0, 2, 77) "\fname=rank1\n" START(
        "a", 12, 1, 1, 2, 77) "\fname=all\n" ONE_NODE ONE_NODE_END);
    const NcclReport *r = nccl_finish(job);
    const NcclFinding *f = kit_find(r, "log-twice");

    (void)state;
    assert_int_equal(r->findings.len, 1); /* one for the input, not one for each rank */
    assert_string_equal(f->detail, "all");
    assert_int_equal(f->total, 2);
    assert_non_null(strstr(f->evidence[0].text, "rank0"));
}

/* Versions before commId: the same line of a copy is no second communicator at the same address. */
static void test_a_copy_without_comm_id(void **state)
{
#define OLD(pid, rank)                                                                                                 \
    INFO("a", pid, rank, "comm 0x" #pid " rank " #rank " nranks 2 cudaDev " #rank " busId 1000 - Init START")
    CLEANUP(nccl_free_at) NcclJob *job = kit_read(OLD(11, 0) OLD(12, 1) "\f" OLD(11, 0) OLD(12, 1));
    CLEANUP(nccl_free_at) NcclJob *again = kit_read(OLD(11, 0) OLD(12, 1) OLD(11, 0) OLD(12, 1));

    (void)state;
    assert_int_equal(nccl_finish(job)->comms.len, 1);
    assert_non_null(kit_find(nccl_finish(job), "log-twice"));
    assert_int_equal(nccl_finish(again)->comms.len, 2);
    assert_null(kit_find(nccl_finish(again), "log-twice"));
}

/* What a cut log does not say, it may have said behind the cut. */
static void test_the_end_of_an_input_is_missing(void **state)
{
    static const struct {
        const char *text, *id;
    } silent[] = {
        {CUT ONE_NODE, "init-incomplete"},
        {CUT START("a", 11, 0, 0, 3, 77), "init-missing-rank"},
        {CUT START("a", 11, 0, 0, 2, 77) "\f" START("a", 12, 1, 1, 2, 77) COMPLETE("a", 12, 1, 1, 2, 77),
         "init-incomplete"},
        {TWO_NODES TWO_NODES_END COLL("a", 11, "1f") "\f" CUT COLL("b", 12, "1e"), "opcount-differs"},
        {CUT
         "# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor)\n# size count type redop root time algbw busbw "
         "#wrong time algbw busbw #wrong\n8 2 float sum -1 1 1 1 0 1 1 1 0\n",
         "bench-unfinished"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(silent[i].text);
        assert_non_null(kit_find(nccl_finish(job), "input-trouble"));
        if (kit_find(nccl_finish(job), silent[i].id))
            print_error("case %zu: %s\n", i, silent[i].id);
        assert_null(kit_find(nccl_finish(job), silent[i].id));
    }
}

/* Another input is cut, and this one says itself that it did not finish. */
static void test_a_whole_log_still_tells(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *job = kit_read(CUT START("a", 11, 0, 0, 2, 77) "\f" START("a", 12, 1, 1, 2, 77));
    const NcclFinding *f = kit_find(nccl_finish(job), "init-incomplete");

    (void)state;
    assert_non_null(f);
    assert_non_null(strstr(f->detail, "no Init COMPLETE of rank 1"));
}

#define CALL(record, kind, seq, op, state, created, began)                                                             \
    "{\"record_id\":" #record ",\"process_group\":[\"0\",\"pp\"],\"collective_seq_id\":" #seq ",\"p2p_seq_id\":" #seq  \
    ",\"profiling_name\":\"nccl:" op "\",\"input_sizes\":[[8]],\"output_sizes\":[[8]],\"state\":\"" state              \
    "\",\"time_created_ns\":" #created ",\"time_discovered_started_ns\":" began ",\"is_p2p\":" kind "}"
#define DUMP(name, calls)                                                                                              \
    "name=" name                                                                                                       \
    "\n{\"version\":\"2.10\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"pp\",\"ranks\":\"[0, 1]\"}},"             \
    "\"entries\":[" calls "]}"
#define P2P(record, op, state) CALL(record, "true", 4, op, state, 100, "null")
#define COLLECTIVE(state, began) CALL(1, "false", 2, "all_reduce", state, 100, began)

static const NcclGroup *only_group(NcclJob *job)
{
    const NcclReport *r = nccl_finish(job);

    assert_int_equal(r->groups.len, 1);
    return &r->groups.at[0];
}

static void test_a_send_that_waits_is_stuck(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *alone = kit_read(DUMP("rank_0", P2P(1, "send 0->1", "started")) "\f" DUMP("rank_1", ""));
    CLEANUP(nccl_free_at)
    NcclJob *paired = kit_read(
        DUMP("rank_0", P2P(1, "send 0->1", "scheduled")) "\f" DUMP("rank_1", P2P(1, "recv 1<-0", "scheduled")));
    CLEANUP(nccl_free_at)
    NcclJob *done = kit_read(
        DUMP("rank_0", P2P(1, "send 0->1", "completed")) "\f" DUMP("rank_1", P2P(1, "recv 1<-0", "completed")));
    CLEANUP(nccl_free_at) NcclJob *one = kit_read(DUMP("rank_0", P2P(1, "send 0->1", "scheduled")));

    (void)state;
    const NcclGroup *g = only_group(alone);
    assert_true(g->stuck);
    assert_int_equal(g->seq, 4);
    assert_string_equal(g->op, "send 0->1");
    assert_string_equal(g->ranks_by[NCCL_STARTED], "0");
    assert_string_equal(g->ranks_by[NCCL_BEHIND], "1");
    assert_non_null(kit_find(nccl_finish(alone), "flight-p2p-unmatched"));
    g = only_group(paired);
    assert_true(g->stuck);
    assert_string_equal(g->ranks_by[NCCL_SCHEDULED], "0 1");
    assert_non_null(kit_find(nccl_finish(paired), "flight-hung"));
    assert_false(only_group(done)->stuck);
    assert_int_equal(nccl_finish(done)->findings.len, 0);
    g = only_group(one);
    assert_true(g->stuck);
    assert_string_equal(g->ranks_by[NCCL_MISSING], "1");
    assert_non_null(kit_find(nccl_finish(one), "flight-open"));
    assert_null(kit_find(nccl_finish(one), "flight-hung"));
}

/* Parts of a batch have no state; the batch has. */
static void test_a_batch_of_sends(void **state)
{
#define BATCH(state)                                                                                                   \
    DUMP("rank_0", P2P(1, "send 0->1", "scheduled") "," P2P(2, "coalesced", state))                                    \
    "\f" DUMP("rank_1", P2P(1, "recv 1<-0", "scheduled") "," P2P(2, "coalesced", state))
    CLEANUP(nccl_free_at) NcclJob *done = kit_read(BATCH("completed"));
    CLEANUP(nccl_free_at) NcclJob *open = kit_read(BATCH("started"));

    (void)state;
    assert_false(only_group(done)->stuck);
    assert_int_equal(nccl_finish(done)->findings.len, 0);
    assert_true(only_group(open)->stuck);
    assert_string_equal(only_group(open)->ranks_by[NCCL_STARTED], "0 1");
}

/* Only with timing does PyTorch know that a call has begun: without it, "scheduled" says that it was called. */
static void test_scheduled_without_timing(void **state)
{
    CLEANUP(nccl_free_at)
    NcclJob *plain =
        kit_read(DUMP("rank_0", COLLECTIVE("scheduled", "null")) "\f" DUMP("rank_1", COLLECTIVE("completed", "null")));
    CLEANUP(nccl_free_at)
    NcclJob *timed =
        kit_read(DUMP("rank_0", COLLECTIVE("scheduled", "null")) "\f" DUMP("rank_1", COLLECTIVE("completed", "7")));

    (void)state;
    assert_null(kit_find(nccl_finish(plain), "flight-not-started"));
    assert_non_null(kit_find(nccl_finish(plain), "flight-hung"));
    const NcclFinding *f = kit_find(nccl_finish(timed), "flight-not-started");
    assert_non_null(f);
    assert_non_null(strstr(f->detail, "called and not begun on rank 0; complete on rank 1"));
}

/* The newest counts, in whichever order they are given. */
static void test_two_dumps_of_one_rank(void **state)
{
#define OLD_DUMP DUMP("old_rank_1", CALL(9, "false", 2, "broadcast", "started", 5, "null"))
#define NEW_DUMPS DUMP("rank_0", COLLECTIVE("completed", "null")) "\f" DUMP("rank_1", COLLECTIVE("completed", "null"))
    static const char *const orders[] = {OLD_DUMP "\f" NEW_DUMPS, NEW_DUMPS "\f" OLD_DUMP};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(orders[i]);
        const NcclReport *r = nccl_finish(job);
        assert_int_equal(r->findings.len, 1);
        assert_string_equal(r->findings.at[0].id, "flight-two-dumps");
        assert_string_equal(r->findings.at[0].detail, "rank 1: rank_1 is used, old_rank_1 is not");
        assert_false(only_group(job)->stuck);
        assert_int_equal(only_group(job)->calls, 2);
    }
}

static void test_ranks_in_names(void **state)
{
    static const struct {
        const char *name;
        int64_t rank;
    } names[] = {{"nccl_trace_rank_3", 3},
                 {"dir9/comm_lib_trace_rank_12.json", 12},
                 {"rank-5.2026-01-05.pkl", 5},
                 {"7.json.gz", 7},
                 {"trace_rank_2.attempt_4", 2}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char text[1024];
        snprintf(text, sizeof text, "name=%s\n%s", names[i].name,
                 strchr(DUMP("x", COLLECTIVE("completed", "null")), '{'));
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(text);
        assert_int_equal(nccl_finish(job)->dumps.at[0].rank, names[i].rank);
        assert_true(nccl_finish(job)->dumps.at[0].rank_known);
    }
    /* A name without a number does not take another one's rank. */
    CLEANUP(nccl_free_at)
    NcclJob *job =
        kit_read(DUMP("dump", COLLECTIVE("completed", "null")) "\f" DUMP("rank_0", COLLECTIVE("completed", "null")));
    const NcclReport *r = nccl_finish(job);
    assert_int_equal(r->dumps.at[0].rank, 1);
    assert_false(r->dumps.at[0].rank_known);
    assert_int_equal(r->findings.len, 0);
}

static void test_outputs_of_all(void **state)
{
    (void)state;
    kit_check_outputs(GOLDEN "/test_twice.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rotated_log_is_one),    cmocka_unit_test(test_a_log_of_the_job_and_those_of_its_ranks),
        cmocka_unit_test(test_a_copy_without_comm_id),  cmocka_unit_test(test_the_end_of_an_input_is_missing),
        cmocka_unit_test(test_a_whole_log_still_tells), cmocka_unit_test(test_a_send_that_waits_is_stuck),
        cmocka_unit_test(test_a_batch_of_sends),        cmocka_unit_test(test_scheduled_without_timing),
        cmocka_unit_test(test_two_dumps_of_one_rank),   cmocka_unit_test(test_ranks_in_names),
        cmocka_unit_test(test_outputs_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
