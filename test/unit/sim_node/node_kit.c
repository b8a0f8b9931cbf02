/* SPDX-License-Identifier: Apache-2.0 */
#include "node_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "sim/core/control.h"
#include "test/unit/memory_folder.h"

static const char *const boards[] = {SIM_DATA_DIR "/boards", NULL};

Kit *kit_new_driver(const char *yaml, const char *driver)
{
    Kit *kit = xcalloc(1, sizeof *kit);
    const Scenario *scenario = NULL;
    ScenarioBuild how = {.now_us = 1767600000000000, .driver = driver};
    snprintf(kit->dir, sizeof kit->dir, "%s/stoker-node-XXXXXX", memory_folder());
    assert_non_null(mkdtemp(kit->dir));
    board_set_init(&kit->boards, boards);
    kit_ok(scenario_parse("t.yaml", yaml, strlen(yaml), &kit->boards, &kit->arena, &scenario, &kit->err), kit);
    kit_ok(scenario_build(scenario, &how, kit_path(kit, "image"), &kit->image, &kit->err), kit);
    unlink(kit_path(kit, "image")); /* the map keeps it alive */
    return kit;
}

Kit *kit_new(const char *yaml)
{
    return kit_new_driver(yaml, NULL);
}

void kit_free(Kit *kit)
{
    sim_image_close(kit->image);
    board_set_done(&kit->boards);
    arena_done(&kit->arena);
    char *name = strrchr(kit->dir, '/');
    *name = '\0';
    kit_ok(file_remove_tree(kit->dir, name + 1, &kit->err), kit);
    free(kit);
}

__attribute__((format(printf, 2, 0))) static const char *path_of(const Kit *kit, const char *fmt, va_list args)
{
    static char room[8][512];
    static unsigned int turn;
    char *path = room[turn++ % 8];
    int n = snprintf(path, sizeof room[0], "%s/", kit->dir);
    vsnprintf(path + n, sizeof room[0] - (size_t)n, fmt, args);
    return path;
}

const char *kit_path(const Kit *kit, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *path = path_of(kit, fmt, args);
    va_end(args);
    return path;
}

const char *kit_read(Kit *kit, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *path = path_of(kit, fmt, args);
    va_end(args);
    Str text;
    str_init_room(&text, kit->text, sizeof kit->text);
    kit_ok(file_read(path, sizeof kit->text - 1, &text, &kit->err), kit);
    return kit->text;
}

int kit_exists(const Kit *kit, const char *fmt, ...)
{
    va_list args;
    struct stat st;
    va_start(args, fmt);
    const char *path = path_of(kit, fmt, args);
    va_end(args);
    return stat(path, &st) == 0;
}

void kit_apply(Kit *kit, SimOp op)
{
    assert_int_equal(sim_op_apply(kit->image, &op, NULL, 0, NULL), SIM_OK);
}

void kit_ok(int rc, const Kit *kit)
{
    if (rc < 0)
        fail_msg("%s", kit->err.text);
}
