/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated node itself: reading its state, changing it, making it, showing it.
 * usage: bench_node DATA_DIR STOKER (the folder of boards and scenarios; the program whose `sim show` is timed)
 */
#include "bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/yaml.h"
#include "sim/core/control.h"
#include "sim/core/state.h"
#include "sim/scenario/scenario.h"
#include "test/unit/memory_folder.h"

extern char **environ;

static const char *data_dir, *stoker;
static char image_path[64], other_path[64], text_path[64], scenario_path[512];
static const char *scenario_dirs[2], *board_dirs[2];
static SimImage *image;
static uint32_t op_count;
static SimNow now;

static SimImage *compile(const char *path)
{
    Err err = {0};
    SimImage *made = NULL;
    const ScenarioBuild how = {.now_us = 1767600000000000};
    if (scenario_compile(scenario_dirs, board_dirs, "default", &how, path, &made, &err) < 0) {
        fprintf(stderr, "bench_node: %s\n", err.text);
        exit(1);
    }
    return made;
}

/* ---- reading ---- */

static void state_one(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sim_state_at(image, (uint32_t)i % image->gpu_count, 60 * SIM_NS + i * SIM_TICK_NS, &now);
        bench_use(&now);
    }
}

static void state_node(size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t gpu = 0; gpu < image->gpu_count; gpu++) {
            sim_state_at(image, gpu, 60 * SIM_NS + i * SIM_TICK_NS, &now);
            bench_use(&now);
        }
}

static void state_copy(size_t n)
{
    static SimSeg seg;
    for (size_t i = 0; i < n; i++)
        for (uint32_t gpu = 0; gpu < image->gpu_count; gpu++) {
            memcpy(&seg, &image->segs[gpu * SIM_SEG_MAX], sizeof seg);
            bench_use(&seg);
        }
}

/* ---- changing ---- */

/* As after the scenario's start: what earlier runs appended is forgotten. */
static void ops_forget(void)
{
    image->op_count = op_count;
    sim_plan_build(image);
}

static void op_apply(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        SimOp op = {.type = SIM_OP_SET,
                    .gpu = (int32_t)(i % image->gpu_count),
                    .a = {SIM_KEY_POWER_LIMIT_MW},
                    .u = 400000 + i % 2 * 100000,
                    .origin = SIM_FROM_INJECT};
        if (sim_op_apply(image, &op, NULL, 0, NULL) != SIM_OK)
            abort();
    }
}

static void words_parse(size_t n)
{
    static const char *const words[] = {"xid", "79", "gpu=3"};
    static ScenarioOp ops[256];
    for (size_t i = 0; i < n; i++) {
        CLEANUP(arena_done) Arena arena = {0};
        size_t count;
        if (scenario_step_parse(image, 3, words, ops, 256, &count, &arena, NULL) < 0)
            abort();
    }
}

/* The cheapest way of telling other processes through a file: write it anew and rename it. */
static void file_rename(size_t n)
{
    static char page[4096];
    for (size_t i = 0; i < n; i++) {
        CLEANUP_FD int fd = open(text_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, page, sizeof page) != sizeof page || rename(text_path, other_path) < 0)
            abort();
    }
}

/* ---- making ---- */

static void node_compile(size_t n)
{
    for (size_t i = 0; i < n; i++)
        sim_image_close(compile(other_path));
}

static void node_plan(size_t n)
{
    for (size_t i = 0; i < n; i++)
        ops_forget();
}

static void yaml_only(size_t n)
{
    char board[600];
    snprintf(board, sizeof board, "%s/boards/h100-sxm-80gb.yaml", data_dir);
    for (size_t i = 0; i < n; i++) {
        CLEANUP(arena_done) Arena arena = {0};
        const YamlNode *root;
        if (yaml_load_file(scenario_path, &arena, &root, NULL) < 0 || yaml_load_file(board, &arena, &root, NULL) < 0)
            abort();
    }
}

/* ---- showing ---- */

static void spawn(const char *const *argv)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        abort();
    posix_spawn_file_actions_destroy(&files);
}

static void show(size_t n)
{
    for (size_t i = 0; i < n; i++)
        spawn((const char *const[]){stoker, "sim", "show", "--image", image_path, NULL});
}

static void spawn_true(size_t n)
{
    for (size_t i = 0; i < n; i++)
        spawn((const char *const[]){"/bin/true", NULL});
}

int main(int argc, char **argv)
{
    static char scenarios[512], boards[512];
    static const Bench list[] = {
        {"state of one GPU", state_one, NULL, 0},
        {"state of 8 GPUs", state_node, NULL, 0},
        {"copy of 8 segments", state_copy, NULL, 0},
        {"sim_op_apply", op_apply, ops_forget, 64},
        {"inject words", words_parse, NULL, 0},
        {"write and rename", file_rename, NULL, 0},
        {"scenario_compile", node_compile, NULL, 0},
        {"sim_plan_build", node_plan, NULL, 0},
        {"yaml of scenario and board", yaml_only, NULL, 0},
        {"sim show", show, NULL, 0},
        {"spawn /bin/true", spawn_true, NULL, 0},
    };
    if (argc != 3)
        return 2;
    data_dir = argv[1];
    stoker = argv[2];
    const char *tmp = memory_folder();
    snprintf(image_path, sizeof image_path, "%s/bench-node-%ld.img", tmp, (long)getpid());
    snprintf(other_path, sizeof other_path, "%s/bench-node-%ld.new", tmp, (long)getpid());
    snprintf(text_path, sizeof text_path, "%s/bench-node-%ld.txt", tmp, (long)getpid());
    snprintf(scenarios, sizeof scenarios, "%s/scenarios", data_dir);
    snprintf(boards, sizeof boards, "%s/boards", data_dir);
    snprintf(scenario_path, sizeof scenario_path, "%s/scenarios/default.yaml", data_dir);
    scenario_dirs[0] = scenarios;
    board_dirs[0] = boards;
    image = compile(image_path);
    op_count = image->op_count;
    sim_clock_advance(image, 60 * SIM_NS);
    bench_all(list, sizeof list / sizeof *list);
    sim_image_close(image);
    unlink(image_path);
    unlink(other_path);
    return 0;
}
