/* SPDX-License-Identifier: Apache-2.0 */
/* The first view: all GPUs, and below them who uses them. One cursor goes through both. */
#include "service/top/view.h"

enum { BLOCK_WIDTH = 120, PROCESSES_LEAST = 4, PLOTS_LEAST = 7, PLOTS_MOST = 30 };

/* Lines that all devices take. */
static int height_of(const Top *top, bool blocks)
{
    int height = blocks ? 0 : 1;

    for (size_t i = 0; i < top->gpus.len; i++)
        height += blocks ? gpu_block_height(&top->gpus.at[i]) : 1;
    return height;
}

typedef struct Plan {
    bool blocks;
    int gpus, plots, processes; /* lines of each */
} Plan;

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The GPU under the cursor: its plots fill what would be empty. */
static const GpuRow *plotted(const Top *top)
{
    const size_t selected = top->gpu_list.selected;

    if (selected < top->gpus.len)
        return &top->gpus.at[selected];
    const ProcessRow *process = top_process(top);
    for (size_t i = 0; process && i < top->gpus.len; i++)
        if (top->gpus.at[i].gpu == process->gpu && !top->gpus.at[i].instance)
            return &top->gpus.at[i];
    return &top->gpus.at[0];
}

/* Blocks where they leave room for some processes; plots where even more is left. */
static Plan plan_of(const Top *top, Area area)
{
    const int rows = (int)top->processes.len;
    const int wish = top->hide_processes ? 0 : 1 + (rows > 0 ? rows : 1);
    const int few = least(wish, area.height / 4 > PROCESSES_LEAST ? area.height / 4 : PROCESSES_LEAST);
    Plan plan = {.blocks = !top->compact && area.width >= BLOCK_WIDTH && height_of(top, true) + few <= area.height};

    plan.gpus = least(height_of(top, plan.blocks), area.height - few);
    plan.processes = least(wish, area.height - plan.gpus);
    const int left = area.height - plan.gpus - plan.processes;
    if (left >= PLOTS_LEAST && top->history && top->gpus.len > 0 && plotted(top)->gpu->last_sample_ns > 0)
        plan.plots = least(left, PLOTS_MOST);
    return plan;
}

/* The cursor must be within the lines: `first` is a row, rows may be higher than a line. */
static size_t settle(Top *top, bool blocks, int height)
{
    const size_t selected = top->gpu_list.selected < top->gpus.len ? top->gpu_list.selected : top->gpus.len - 1;
    size_t first = selected < top->gpu_list.first ? selected : top->gpu_list.first;
    int used = 0;

    for (size_t i = first; i <= selected; i++) {
        used += blocks ? gpu_block_height(&top->gpus.at[i]) : 1;
        while (used > height && first < selected) {
            used -= blocks ? gpu_block_height(&top->gpus.at[first]) : 1;
            first++;
        }
    }
    /* no empty lines at the end where there are rows above */
    used = 0;
    for (size_t i = first; i < top->gpus.len; i++)
        used += blocks ? gpu_block_height(&top->gpus.at[i]) : 1;
    while (first > 0 && used + (blocks ? gpu_block_height(&top->gpus.at[first - 1]) : 1) <= height)
        used += blocks ? gpu_block_height(&top->gpus.at[--first]) : (first--, 1);
    return first;
}

static void draw_gpus(Top *top, Grid *grid, Area area, bool blocks)
{
    Area head = {0};

    if (!blocks) {
        head = area_top(&area, 1);
        gpu_lines_head(top, grid, head);
    }
    if (top->gpus.len == 0) {
        grid_text(grid, area, 1, 0, INK_DIM, "no GPU is known on this node");
        return;
    }
    List *list = &top->gpu_list;
    size_t shown = 0;
    list->first = settle(top, blocks, area.height);
    for (size_t i = list->first; i < top->gpus.len && area.height > 0; i++, shown++) {
        const GpuRow *row = &top->gpus.at[i];
        const Area place = area_top(&area, blocks ? gpu_block_height(row) : 1);

        if (blocks)
            gpu_block(top, grid, place, row);
        else
            gpu_line(top, grid, place, row);
        top_zone(top, place, ZONE_ROW, (uint32_t)i);
        if (i == list->selected)
            grid_reverse(grid, blocks ? (Area){place.x, place.y, 3, 1} : place);
    }
    const List all = {.count = top->gpus.len, .first = list->first, .page = shown};
    list->page = shown > 0 ? shown : 1;
    if (head.height > 0)
        list_mark(&all, grid, head, 0);
}

static void draw_processes(Top *top, Grid *grid, Area area)
{
    const size_t selected = top->gpu_list.selected, devices = top->gpus.len;
    List list = {.count = top->processes.len, .first = top->process_list.first};

    list.selected = selected >= devices ? selected - devices : 0;
    list_settle(&list, area.height > 1 ? (size_t)area.height - 1 : 1);
    top->process_list.first = list.first;
    process_table_draw(top, grid, area, &list, devices);
}

void view_gpus_draw(Top *top, Grid *grid, Area area)
{
    const Plan plan = plan_of(top, area);

    draw_gpus(top, grid, area_top(&area, plan.gpus), plan.blocks);
    if (plan.plots > 0)
        plots_draw(top, grid, area_top(&area, plan.plots), plotted(top));
    if (plan.processes > 0)
        draw_processes(top, grid, area_top(&area, plan.processes));
}
