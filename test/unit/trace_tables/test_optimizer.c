/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's steps (engine/trace/optimizer.c): what they launch, and which idle times end with it. */
#include "kit.h"

/* Two steps as a range and as an operator, one with a nested range; and a thread of its own beside them. */
static void operations_belong_to_the_range_around_their_launch(void **state)
{
    TraceRank rank = {0};
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 0, 2, 1);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "Optimizer.step#AdamW.step", 10, 50, 0);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "Optimizer.step#AdamW.step", 20, 30, 0);
    kit_host(&kit, PROFILE_OP, 100, "aten::mul_", 21, 20, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 25, 2, 2);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 55, 2, 3);
    kit_host(&kit, PROFILE_CALL, 200, "cudaLaunchKernel", 56, 2, 4);
    kit_host(&kit, PROFILE_OP, 100, "Optimizer.step#SGD.step", 70, 10, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 75, 2, 5);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "my Optimizer.step", 90, 10, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", 92, 2, 6);
    for (uint32_t link = 1; link <= 6; link++)
        kit_kernel(&kit, 0, 7, "k", 100 + 10 * (int64_t)link, 5, link, NULL);
    kit_seal(&kit);
    kit_run(&kit, trace_gaps, &rank);
    kit_run(&kit, trace_optimizer, &rank);
    assert_int_equal(rank.optimizer.steps, 2);
    assert_int_equal(rank.optimizer.operations, 3);
    assert_int_equal(rank.gaps.len, 5);
    for (size_t i = 0; i < rank.gaps.len; i++) {
        const int64_t link = (rank.gaps.at[i].end / US - 100) / 10;

        assert_int_equal(rank.gaps.at[i].optimizer, link == 2 || link == 3 || link == 5);
    }
    trace_rank_done(&rank);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_belong_to_the_range_around_their_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
