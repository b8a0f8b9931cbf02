/* SPDX-License-Identifier: Apache-2.0 */
/* service/top: whatever is pressed, clicked and resized over whatever look, nothing crashes, the cursor of each list is
 * within it, and what is drawn is within the screen (the sanitizers watch the cells); a frame allocates nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>

#include "base/attribute.h"
#include "base/duration.h"
#include "kit.h"
#include "service/top/inside.h"
#include "../slow.h"

enum { STEPS = 400 / TEST_SLOW, RECORDINGS_MAX = 64, PATH_CAP = 512 };

static size_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    allocations++;
    return __real_realloc(old, size);
}

static uint64_t seed;

static unsigned below(unsigned most)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % most;
}

static char paths[RECORDINGS_MAX][PATH_CAP];
static size_t path_count;

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void find_recordings(void)
{
    DIR *folder = opendir(TOP_DATA);
    struct dirent *entry;

    assert_non_null(folder);
    path_count = 0;
    while ((entry = readdir(folder)) && path_count < RECORDINGS_MAX)
        if (strstr(entry->d_name, ".ndjson.gz"))
            snprintf(paths[path_count++], PATH_CAP, "%s/%s", TOP_DATA, entry->d_name);
    closedir(folder);
    qsort(paths, path_count, sizeof paths[0], by_name);
    assert_true(path_count >= 15);
}

static void check_list(const List *list)
{
    assert_true(list->selected < list->count || list->count == 0);
}

static void check(Kit *kit)
{
    Top *top = kit->top;

    for (size_t i = 0; i < VIEW_END; i++)
        check_list((const List *)(const void *)((const char *)top + top_views[i].list));
    assert_true(top->zone_count <= TOP_ZONES_MAX);
    for (size_t i = 0; i < top->zone_count; i++) {
        const Area *a = &top->zones[i].area;
        assert_true(a->x >= 0 && a->y >= 0 && a->width > 0 && a->height > 0);
    }
    for (int i = 0; i < kit->grid.width * kit->grid.height; i++)
        assert_true(kit->grid.cells[i].ink < INK_END);
}

static uint32_t any_key(void)
{
    static const uint32_t often[] = {TOP_KEY_DOWN, TOP_KEY_UP, TOP_KEY_END, TOP_KEY_ENTER, TOP_KEY_ESCAPE, TOP_KEY_TAB};

    switch (below(4)) {
    case 0:
        return TOP_KEY_UP + below(TOP_KEY_F12 - TOP_KEY_UP + 1);
    case 1:
        return often[below(6)];
    case 2:
        return below(0x3000);
    default:
        return 1 + below(126);
    }
}

/* GPUs and processes come and go, values are lost. */
static void disturb(Kit *kit)
{
    Node *node = &kit->look->node;

    if (!kit->look->snapshot.node || node->gpu_count == 0)
        return;
    NodeGpu *gpu = &node->gpus[below((unsigned)node->gpu_count)];
    switch (below(6)) {
    case 0:
        gpu->state = (GpuState)below(GPU_STATE_END);
        break;
    case 1:
        gpu->instance_count = gpu->instance_count ? gpu->instance_count - 1 : 0;
        break;
    case 2:
        gpu->process_count = gpu->process_count ? below((unsigned)gpu->process_count + 1) : 0;
        break;
    case 3:
        reading_lose(&gpu->reading, 1, (Absence)below(ABSENCE_END));
        break;
    case 4:
        node->gpu_count = 1 + below((unsigned)node->gpu_count);
        break;
    default:
        strcpy(kit->feed.trouble, below(2) ? "nobody answers" : "");
        kit->feed.play.paused = below(2);
        kit->feed.play.to_ns = below(2) ? kit->look->node.real_ns : 0;
        break;
    }
    kit_show(kit);
}

static void step(Kit *kit)
{
    const int width = kit->grid.width, height = kit->grid.height;

    switch (below(12)) {
    case 0:
        grid_resize(&kit->grid, 1 + (int)below(300), 1 + (int)below(100));
        break;
    case 1:
        kit->grid.utf8 = below(2);
        break;
    case 2:
        disturb(kit);
        break;
    case 3:
        if (!kit_next(kit)) {
            kit->at = 0;
            kit_next(kit);
        }
        break;
    case 4:
    case 5:
        top_mouse(kit->top, (TopMouse)below(3), (int)below((unsigned)width + 2) - 1,
                  (int)below((unsigned)height + 2) - 1);
        break;
    default:
        top_key(kit->top, any_key());
        break;
    }
}

static void nothing_breaks_it(void **state UNUSED)
{
    find_recordings();
    for (size_t i = 0; i < path_count; i++) {
        Kit kit;

        seed = 1000 + i;
        kit_open(&kit, paths[i], NULL);
        kit_next(&kit);
        for (size_t k = 0; k < STEPS; k++) {
            step(&kit);
            top_draw(kit.top, &kit.grid);
            check(&kit);
        }
        kit_close(&kit);
    }
}

static void move_and_draw(Kit *kit)
{
    for (int i = 0; i < 20; i++) {
        top_draw(kit->top, &kit->grid);
        top_key(kit->top, TOP_KEY_DOWN);
    }
    top_key(kit->top, TOP_KEY_HOME);
}

/* The second time nothing is new: what is plotted the first time gets its series then. */
static void expect_no_allocation(Kit *kit)
{
    move_and_draw(kit);
    const size_t before = allocations;
    move_and_draw(kit);
    assert_int_equal(allocations, before);
}

/* The first frame of a view may make room, no later one does; nor does a key that only moves, sorts or folds. */
static void a_frame_allocates_nothing(void **state UNUSED)
{
    static const char *const names[] = {TOP_DATA "/many.ndjson.gz", TOP_DATA "/xid-79-lost.ndjson.gz",
                                        TOP_DATA "/mig-56-devices.ndjson.gz"};

    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        Kit kit;

        kit_open(&kit, names[n], NULL);
        while (kit_next(&kit))
            ;
        grid_resize(&kit.grid, 200, 60);
        for (uint32_t view = '1'; view <= '5'; view++) {
            top_key(kit.top, view);
            expect_no_allocation(&kit);
            for (uint32_t overlay = 0; overlay < 3; overlay++) {
                top_key(kit.top, overlay < 2 ? TOP_KEY_F1 + overlay : TOP_KEY_ENTER);
                expect_no_allocation(&kit);
                top_key(kit.top, TOP_KEY_ESCAPE);
            }
        }
        kit_close(&kit);
    }
}

static void order_allocates_nothing(void **state UNUSED)
{
    Kit kit;

    kit_open(&kit, TOP_DATA "/many.ndjson.gz", NULL);
    while (kit_next(&kit))
        ;
    top_key(kit.top, '3');
    top_draw(kit.top, &kit.grid);
    const size_t before = allocations;
    for (int i = 0; i < 9; i++) {
        top_key(kit.top, TOP_KEY_F1 + 4);
        top_key(kit.top, i % 2 ? 'N' : 'M');
        top_draw(kit.top, &kit.grid);
    }
    assert_int_equal(allocations, before);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_breaks_it),
        cmocka_unit_test(a_frame_allocates_nothing),
        cmocka_unit_test(order_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
