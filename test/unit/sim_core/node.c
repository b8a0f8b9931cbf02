/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "sim/core/num.h"
#include "sim/scenario/board.h"
#include "test/unit/memory_folder.h"

static BoardSet *boards(void)
{
    static const char *const dirs[] = {SIM_DATA_DIR "/boards", NULL};
    static BoardSet set;
    static int ready;
    if (!ready)
        board_set_init(&set, dirs);
    ready = 1;
    return &set;
}

const SimBoard *node_board(const char *key)
{
    const SimBoard *board = NULL;
    Err err = {0};
    if (board_set_get(boards(), key, NULL, &board, &err) < 0)
        fail_msg("%s", err.text);
    return board;
}

const char *const *node_boards(void)
{
    static Arena arena; /* lives as long as the process */
    static const char *const *names;
    if (!names)
        names = board_set_names(boards(), &arena);
    return names;
}

static SimImage *create(uint32_t gpu_count)
{
    char path[32];
    snprintf(path, sizeof path, "%s/stoker-core-XXXXXX", memory_folder());
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    SimImage *image = sim_image_create(path, gpu_count);
    unlink(path); /* the map keeps it alive */
    assert_non_null(image);
    image->generation = 590;
    image->cuda_version = 13010;
    image->seed = 7;
    image->epoch_us = 1767600000000000;
    return image;
}

static uint32_t board_put(SimImage *image, const SimBoard *board)
{
    for (uint32_t b = 0; b < image->board_count; b++)
        if (strcmp(image->boards[b].key, board->key) == 0)
            return b;
    assert_true(image->board_count < SIM_BOARD_MAX);
    image->boards[image->board_count] = *board;
    return image->board_count++;
}

SimImage *node_new(const char *const *keys)
{
    uint32_t n = 0;
    while (keys[n])
        n++;
    SimImage *image = create(n);
    for (uint32_t g = 0; g < n; g++) {
        SimGpuId *id = &image->gpus[g];
        *id =
            (SimGpuId){.board = board_put(image, node_board(keys[g])), .bus = 16 + g, .minor = g, .leak = 1, .cool = 1};
        snprintf(id->uuid, sizeof id->uuid, "GPU-%08x-0000-0000-0000-000000000000", g);
    }
    return image;
}

SimImage *node_of(const char *board, uint32_t count)
{
    const char *keys[SIM_GPU_MAX + 1] = {0};
    assert_true(count <= SIM_GPU_MAX);
    for (uint32_t g = 0; g < count; g++)
        keys[g] = board;
    return node_new(keys);
}

int32_t node_work(SimImage *image, NodeWork w)
{
    assert_true(image->work_count < SIM_WORK_MAX);
    SimWork *work = &image->works[image->work_count];
    const SimBoard *board = &image->boards[image->gpus[w.gpu].board];
    *work = (SimWork){.gpu = w.gpu,
                      .mig = w.mig,
                      .job = w.job,
                      .rank = w.rank,
                      .fixed_pid = 4000000 + image->work_count,
                      .slow = w.slow > 0 ? w.slow : 1,
                      .leak_mib_per_s = w.leak_mib_per_s,
                      .offset_s = w.offset_s,
                      .memory_mib = w.memory_mib > 0 ? w.memory_mib : 1000};
    snprintf(work->kind, sizeof work->kind, "%s", w.kind);
    snprintf(work->name, sizeof work->name, "%s", w.kind);
    SimKindParam param = {.ranks = w.ranks ? w.ranks : 1, .load = w.load, .seed = image->work_count + 1};
    assert_int_equal(sim_kind_fill(work, board, &param), 0);
    return (int32_t)image->work_count++;
}

int32_t node_run(SimImage *image, const char *kind, int32_t gpu)
{
    int32_t work = node_work(image, (NodeWork){.kind = kind, .gpu = gpu, .mig = SIM_NONE, .job = SIM_NONE});
    node_op(image, 0, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {work}});
    return work;
}

void node_op(SimImage *image, double t_s, SimOp op)
{
    op.t_ns = node_ns(t_s);
    assert_int_equal(sim_op_add(image, &op), 0);
}

SimOutcome node_apply(SimImage *image, SimOp op)
{
    op.origin = SIM_FROM_INJECT;
    return sim_op_apply(image, &op, NULL, 0, NULL);
}

void node_do(SimImage *image, SimOp op)
{
    assert_int_equal(node_apply(image, op), SIM_OK);
}

uint64_t node_ns(double s)
{
    return (uint64_t)(s * 1e9 + 0.5);
}

void node_step(SimImage *image, double s)
{
    assert_int_equal(sim_clock_advance(image, node_ns(s)), 0);
}

const SimNow *node_at(SimImage *image, uint32_t gpu, double t_s)
{
    static SimNow now;
    sim_state_at(image, gpu, node_ns(t_s), &now);
    return &now;
}

double node_rand(uint64_t *seed)
{
    return sim_unit((*seed)++, 41, 43);
}

uint32_t node_pick(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(node_rand(seed) * n);
}
