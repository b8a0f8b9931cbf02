/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the words of `stoker sim inject`, one per line, read against a running node; the first byte says whether
 * they are a step or a work, and whether what was read is applied. */
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "sim/core/state.h"
#include "sim/scenario/scenario.h"

enum { WORDS_MAX = 16, OPS_MAX = 64, WORKS_MAX = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int split(char *text, const char **words)
{
    int n = 0;
    for (char *save = NULL, *word = strtok_r(text, "\n", &save); word && n < WORDS_MAX;
         word = strtok_r(NULL, "\n", &save))
        words[n++] = word;
    return n;
}

static void step(SimImage *image, int count, const char *const *words, int apply, Arena *arena)
{
    static ScenarioOp ops[OPS_MAX];
    size_t made = 0;
    Err err = {0};
    if (scenario_step_parse(image, count, words, ops, OPS_MAX, &made, arena, &err) < 0) {
        if (err.text[0] == '\0')
            abort(); /* every refusal says why */
        return;
    }
    for (size_t i = 0; i < made; i++) {
        SimOp op = ops[i].op;
        if (op.gpu >= (int32_t)image->gpu_count || op.type == SIM_OP_NONE || op.type >= SIM_OP_COUNT ||
            op.origin != SIM_FROM_INJECT)
            abort();
        int later = op.t_ns > 0;
        op.t_ns += sim_clock_now(image);
        if (apply)
            sim_op_apply(image, &op, ops[i].text, later, NULL);
    }
}

static void work(SimImage *image, int count, const char *const *words, Arena *arena)
{
    static SimWork works[WORKS_MAX];
    size_t made = 0;
    uint64_t stop_ns = 0;
    Err err = {0};
    if (scenario_work_parse(image, count, words, works, WORKS_MAX, &made, &stop_ns, arena, &err) < 0) {
        if (err.text[0] == '\0')
            abort();
        return;
    }
    for (size_t i = 0; i < made; i++)
        if (works[i].gpu < 0 || works[i].gpu >= (int32_t)image->gpu_count || works[i].phase_count > SIM_PHASE_MAX)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SimImage *image = fuzz_node();
    const char *words[WORDS_MAX];
    Arena arena = {0};
    SimNow now;
    if (size < 2)
        return 0;
    char *text = arena_strndup(&arena, (const char *)data + 1, size - 1);
    int count = split(text, words);
    fuzz_node_reset(image);
    if (count > 0 && data[0] & 1)
        work(image, count, words, &arena);
    else if (count > 0)
        step(image, count, words, data[0] & 2, &arena);
    for (uint32_t i = 0; i < image->gpu_count; i++) /* the node answers whatever happened to it */
        sim_state_at(image, i, sim_clock_now(image) + 100 * SIM_NS, &now);
    arena_done(&arena);
    return 0;
}
