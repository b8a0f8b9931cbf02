/* SPDX-License-Identifier: Apache-2.0 */
/* Communication operations of one rank: engine/trace/collectives.c. */
#include <math.h>
#include <string.h>

#include "engine/trace/classify.h"
#include "engine/trace/analyse.h"
#include "kit.h"

static const TraceCollective *rows(Kit *kit, size_t expected)
{
    kit_seal(kit);
    kit_run(kit, trace_collectives, &kit->rank);
    assert_int_equal(kit->rank.collectives.len, expected);
    return kit->rank.collectives.at;
}

static void from_the_kernels_arguments(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_collective_kernel(&kit, 20, "ncclDevKernel_AllGather_RING_LL(x)", 100, 50, 0,
                          &(KitCollective){.name = "_allgather_base",
                                           .dtype = "BFloat16",
                                           .group = "3",
                                           .ranks = "[0, 1, 2, 3]",
                                           .in = 1000,
                                           .out = 4000,
                                           .size = 4,
                                           .sequence = 8});
    kit_gpu(&kit, 0, 7, "gemm", 0, 500, 0);
    const TraceCollective *row = rows(&kit, 1);
    assert_string_equal(row->name, "all_gather");
    assert_string_equal(row->dtype, "BFloat16");
    assert_string_equal(row->group, "3");
    assert_string_equal(row->ranks, "[0, 1, 2, 3]");
    assert_string_equal(row->kernel, "ncclDevKernel_AllGather_RING_LL(x)");
    assert_int_equal(row->in_bytes, 2000);
    assert_int_equal(row->out_bytes, 8000);
    assert_int_equal(row->group_size, 4);
    assert_int_equal(row->sequence, 7);
    assert_int_equal(row->start, 100 * US);
    assert_int_equal(row->end, 150 * US);
    assert_int_equal(row->launch, INT64_MIN);
    assert_int_equal(row->stream, 20);
    assert_int_equal(row->peer, -1);
    kit_done(&kit);
}

/* The kernel says nothing; the operator around its launch does. */
static void from_the_operator(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_host(&kit, PROFILE_OP, 100, "c10d::allreduce_", 0, 100, 0);
    kit_collective_op(
        &kit, 100, 10, 80,
        &(KitCollective){.name = "allreduce", .dtype = "Float", .group = "0", .in = 250, .out = 250, .size = 2});
    kit_host(&kit, PROFILE_ANNOTATION, 100, "nccl:all_reduce", 20, 60, 0);
    kit_launched(&kit, 100, 30, 20, "ncclDevKernel_Generic", 200, 10, 1);
    const TraceCollective *row = rows(&kit, 1);
    assert_string_equal(row->name, "all_reduce");
    assert_int_equal(row->in_bytes, 1000);
    assert_int_equal(row->launch, 30 * US);
    assert_int_equal(row->group_size, 2);
    kit_done(&kit);
}

/* Before PyTorch 2.1 nothing had arguments; names still tell. */
static void from_names_alone(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_host(&kit, PROFILE_OP, 100, "c10d::_allgather_base_", 0, 100, 0);
    kit_host(&kit, PROFILE_OP, 100, "record_param_comms", 10, 80, 0);
    kit_launched(&kit, 100, 30, 20, "ncclDevKernel_Generic", 200, 10, 1);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "nccl:reduce_scatter", 300, 50, 0);
    kit_launched(&kit, 100, 310, 20, "ncclDevKernel_Generic", 400, 10, 2);
    kit_gpu(&kit, 0, 20, "ncclKernel_Broadcast_RING_LL_Sum_int8_t(x)", 500, 10, 0);
    kit_gpu(&kit, 0, 20, "ncclDevKernel_Generic", 600, 10, 0);
    const TraceCollective *row = rows(&kit, 4);
    assert_string_equal(row[0].name, "all_gather");
    assert_string_equal(row[1].name, "reduce_scatter");
    assert_string_equal(row[2].name, "broadcast");
    assert_string_equal(row[3].name, "collective");
    assert_int_equal(row[0].in_bytes, -1);
    kit_done(&kit);
}

/* Three kernels of one operator are one row from the first start to the last end; those of another are another; kernels
 * that one graph launch started stay apart. */
static void parts_are_joined(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    KitCollective detail = {.name = "allreduce", .dtype = "Half", .group = "0", .in = 100, .out = 100, .size = 2};
    kit_collective_op(&kit, 100, 0, 90, &detail);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernelExC", 10, 5, 1);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernelExC", 20, 5, 2);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernelExC", 30, 5, 3);
    kit_collective_kernel(&kit, 20, "ncclDevKernel_AllReduce", 200, 30, 1, &detail);
    kit_collective_kernel(&kit, 21, "ncclDevKernel_AllReduce", 210, 40, 2, &detail);
    kit_collective_kernel(&kit, 20, "ncclDevKernel_AllReduce", 240, 5, 3, &detail);
    kit_collective_op(&kit, 100, 100, 90, &detail);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernelExC", 110, 5, 4);
    kit_collective_kernel(&kit, 20, "ncclDevKernel_AllReduce", 260, 5, 4, &detail);
    kit_host(&kit, PROFILE_CALL, 100, "cudaGraphLaunch", 300, 5, 5);
    kit_gpu(&kit, 0, 20, "ncclDevKernel_AllReduce", 310, 5, 5);
    kit_gpu(&kit, 0, 20, "ncclDevKernel_AllReduce", 320, 5, 5);
    const TraceCollective *row = rows(&kit, 4);
    assert_int_equal(row[0].parts, 3);
    assert_int_equal(row[0].start, 200 * US);
    assert_int_equal(row[0].end, 250 * US);
    assert_int_equal(row[0].in_bytes, 200);
    assert_int_equal(row[0].launch, 10 * US);
    assert_int_equal(row[1].parts, 1);
    assert_int_equal(row[1].ordinal, 1);
    assert_int_equal(row[2].parts, 1);
    assert_int_equal(row[3].ordinal, 1); /* second of the group nobody names */
    kit_done(&kit);
}

/* Unlinked kernels: the sequence number joins what follows at once, not what has the number later again. */
static void sequence_joins(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    KitCollective detail = {.name = "allreduce", .dtype = "Half", .group = "0", .in = 100, .out = 100, .sequence = 5};
    kit_collective_kernel(&kit, 20, "ncclDevKernel_AllReduce", 0, 10, 0, &detail);
    kit_collective_kernel(&kit, 20, "ncclDevKernel_AllReduce", 50, 10, 0, &detail);
    kit_collective_kernel(&kit, 20, "ncclDevKernel_AllReduce", 5000, 10, 0, &detail);
    const TraceCollective *row = rows(&kit, 2);
    assert_int_equal(row[0].end, 60 * US);
    assert_int_equal(row[1].start, 5000 * US);
    kit_done(&kit);
}

static void point_to_point(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_collective_kernel(&kit, 20, "ncclDevKernel_SendRecv", 0, 10, 0,
                          &(KitCollective){.name = "send", .dtype = "Float", .in = 8, .target = 3 + 1});
    kit_collective_kernel(&kit, 20, "ncclDevKernel_SendRecv", 1000, 10, 0,
                          &(KitCollective){.name = "recv", .dtype = "Float", .out = 8, .source = 1 + 1});
    kit_gpu(&kit, 0, 20, "ncclDevKernel_SendRecv", 2000, 10, 0);
    const TraceCollective *row = rows(&kit, 3);
    assert_string_equal(row[0].name, "send");
    assert_int_equal(row[0].peer, 3);
    assert_int_equal(row[0].in_bytes, 32);
    assert_string_equal(row[1].name, "recv");
    assert_int_equal(row[1].peer, 1);
    assert_int_equal(row[1].out_bytes, 32);
    assert_string_equal(row[2].name, "send_recv");
    assert_int_equal(row[2].peer, -1);
    kit_done(&kit);
}

/* Sizes that cannot be are unknown. */
static void hostile_sizes(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_collective_kernel(&kit, 20, "ncclDevKernel_AllReduce", 0, 10, 0,
                          &(KitCollective){.name = "allreduce", .dtype = "Double", .in = INT64_MAX / 2, .out = 4});
    const TraceCollective *row = rows(&kit, 1);
    assert_int_equal(row->in_bytes, -1);
    assert_int_equal(row->out_bytes, 32);
    kit_done(&kit);
}

static void kinds_and_factors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        CollectiveKind kind;
    } names[] = {
        {"allreduce_coalesced", COLLECTIVE_ALL_REDUCE},
        {"_reduce_scatter_base", COLLECTIVE_REDUCE_SCATTER},
        {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", COLLECTIVE_REDUCE_SCATTER},
        {"ALLTOALL_BASE", COLLECTIVE_ALL_TO_ALL},
        {"all_to_allv", COLLECTIVE_ALL_TO_ALL},
        {"nccl:_all_gather_base", COLLECTIVE_ALL_GATHER},
        {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", COLLECTIVE_SEND_RECV},
        {"nccl:send 0->1", COLLECTIVE_SEND},
        {"nccl:recv 1<-0", COLLECTIVE_RECV},
        {"void vllm::cross_device_reduce_2stage<half, 8>", COLLECTIVE_ALL_REDUCE},
        {"multimem_all_reduce_kernel", COLLECTIVE_ALL_REDUCE},
        {"ncclDevKernel_Reduce_Sum_f32", COLLECTIVE_REDUCE},
        {"gather", COLLECTIVE_GATHER},
        {"ncclDevKernel_Generic", COLLECTIVE_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(collective_kind(names[i].name, strlen(names[i].name)), names[i].kind);
    assert_int_equal(collective_dtype_bytes("c10::BFloat16", 13), 2);
    assert_int_equal(collective_dtype_bytes("torch.int64", 11), 8);
    assert_int_equal(collective_dtype_bytes("Float8_e4m3fn", 13), 1);
    assert_int_equal(collective_dtype_bytes("Nonsense", 8), 0);
    assert_int_equal(collective_dtype_bytes("", 0), 0);
    /* 8 ranks: an all_reduce moves 2 * 7 / 8 of its size over each link, an all_gather 7 / 8 of what comes out. */
    assert_true(collective_bus_factor(COLLECTIVE_ALL_REDUCE, 8) == 1.75);
    assert_true(collective_bus_factor(COLLECTIVE_ALL_GATHER, 8) == 0.875);
    assert_true(collective_bus_factor(COLLECTIVE_BROADCAST, 8) == 1);
    assert_true(isnan(collective_bus_factor(COLLECTIVE_ALL_REDUCE, -1)));
    assert_true(isnan(collective_bus_factor(COLLECTIVE_BARRIER, 8)));
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, 10, 80, 8), 80);
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, 10, -1, 8), 80);
    assert_int_equal(collective_bytes(COLLECTIVE_REDUCE_SCATTER, 80, 10, 8), 80);
    assert_int_equal(collective_bytes(COLLECTIVE_GATHER, 10, 0, 8), 80);
    assert_int_equal(collective_bytes(COLLECTIVE_GATHER, 10, 0, -1), -1);
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_REDUCE, 10, 10, 8), 10);
}

static void random_kernels(Kit *kit, KitRandom *random, int count)
{
    static const char *const names[] = {"allreduce", "_allgather_base", "send"};
    for (int i = 0; i < count; i++) {
        KitCollective detail = {.name = names[kit_random(random) % 3],
                                .dtype = "Float",
                                .group = kit_random(random) % 2 ? "0" : "1",
                                .in = kit_between(random, 1, 9)};
        kit_collective_kernel(kit, kit_between(random, 20, 22), "ncclDevKernel_X", kit_between(random, 0, 5000),
                              kit_between(random, 0, 90), 0, &detail);
    }
}

static void ordinals_count_from_the_first(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        Kit kit;
        KitRandom random = {.state = seed};
        kit_init(&kit);
        random_kernels(&kit, &random, 60);
        kit_seal(&kit);
        kit_run(&kit, trace_collectives, &kit.rank);
        for (size_t i = 0; i < kit.rank.collectives.len; i++) {
            const TraceCollective *b = &kit.rank.collectives.at[i];
            int64_t before = 0; /* the plain definition of an ordinal */
            for (size_t k = 0; k < i; k++)
                before += strcmp(b->name, kit.rank.collectives.at[k].name) == 0 &&
                          strcmp(b->group, kit.rank.collectives.at[k].group) == 0;
            assert_int_equal(b->ordinal, before);
        }
        kit_done(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_the_kernels_arguments),
        cmocka_unit_test(from_the_operator),
        cmocka_unit_test(from_names_alone),
        cmocka_unit_test(parts_are_joined),
        cmocka_unit_test(sequence_joins),
        cmocka_unit_test(point_to_point),
        cmocka_unit_test(hostile_sizes),
        cmocka_unit_test(kinds_and_factors),
        cmocka_unit_test(ordinals_count_from_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
