/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: reading a scenario, with the boards of the tree (read once). No image is made. */
#include <stdlib.h>

#include "sim/scenario/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const Scenario *s)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const SimOp *op = &s->ops[i].op;
        if (op->gpu >= (int32_t)s->gpu_count || op->type == SIM_OP_NONE || op->type >= SIM_OP_COUNT)
            abort();
        if (i && op->t_ns < s->ops[i - 1].op.t_ns)
            abort();
    }
    for (size_t i = 0; i < s->work_count; i++)
        if (s->works[i].gpu < 0 || s->works[i].gpu >= (int32_t)s->gpu_count ||
            s->works[i].stop_ns <= s->works[i].start_ns)
            abort();
    if (s->gpu_count < 1 || s->gpu_count > SIM_GPU_MAX || s->work_count > SIM_WORK_MAX ||
        s->op_count > SCENARIO_OPS_MAX)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const dirs[] = {SIM_DATA_DIR "/boards", NULL};
    static BoardSet boards;
    Arena arena = {0};
    Err err = {0};
    const Scenario *scenario = NULL;
    if (!boards.dir_count)
        board_set_init(&boards, dirs);
    if (scenario_parse("fuzz.yaml", (const char *)data, size, &boards, &arena, &scenario, &err) == 0)
        check(scenario);
    else if (scenario || err.text[0] == '\0')
        abort();
    arena_done(&arena);
    return 0;
}
