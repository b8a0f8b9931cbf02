/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/scenario/scenario.h"

static const char text[] = "about: a node with many kinds of GPUs\n"
                           "gpus:\n"
                           "  - {board: h100-sxm-80gb, mig: [3g.40gb, 1g.10gb]}\n"
                           "  - {board: h100-sxm-80gb}\n"
                           "  - {board: t4}\n"
                           "  - {board: l40s}\n"
                           "  - {board: b200-180gb}\n"
                           "work:\n"
                           "  - {name: job, kind: train, gpus: 1, process: python}\n"
                           "truth: []\n";

static char path[] = "/tmp/stoker-fuzz-XXXXXX";
static uint32_t op_count, work_count, text_used;
static SimOp first_ops[64];

static void leave(void)
{
    unlink(path);
}

static SimImage *build(void)
{
    static const char *const dirs[] = {SIM_DATA_DIR "/boards", NULL};
    BoardSet boards;
    Arena arena = {0};
    Err err = {0};
    const Scenario *scenario;
    SimImage *image = NULL;
    const ScenarioBuild how = {.now_us = 1767600000000000, .generation = 610};
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) < 0)
        abort();
    board_set_init(&boards, dirs);
    if (scenario_parse("fuzz.yaml", text, sizeof text - 1, &boards, &arena, &scenario, &err) < 0 ||
        scenario_build(scenario, &how, path, &image, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    arena_done(&arena);
    board_set_done(&boards);
    return image;
}

SimImage *fuzz_node(void)
{
    static SimImage *image;
    if (image)
        return image;
    image = build();
    atexit(leave);
    sim_clock_advance(image, 60 * SIM_NS);
    op_count = image->op_count;
    work_count = image->work_count;
    text_used = image->text_used;
    if (op_count > sizeof first_ops / sizeof *first_ops)
        abort();
    memcpy(first_ops, image->ops, op_count * sizeof *first_ops);
    setenv("STOKER_SIM", path, 1);
    setenv("STOKER_SIM_NOBLOCK", "1", 1);
    return image;
}

void fuzz_node_reset(SimImage *image)
{
    if (image->op_count == op_count && image->work_count == work_count)
        return;
    memcpy(image->ops, first_ops, op_count * sizeof *first_ops);
    image->op_count = op_count;
    image->work_count = work_count;
    image->text_used = text_used;
    atomic_store(&image->hang_any, 0);
    sim_plan_build(image);
}
