/* SPDX-License-Identifier: Apache-2.0 */
/* One GPU or MIG instance followed: what is wrong with it, its history, all its numbers, who uses it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/human.h"
#include "service/top/gpus_row.h"
#include "service/top/value.h"
#include "service/top/view.h"

enum { SIDE_BY_SIDE = 130, USERS_MAX = 8 };

static void draw_title(Top *top, Grid *grid, Area line, const GpuRow *row)
{
    const Reading *gpu = &row->gpu->reading;
    char pci[PCI_TEXT_CAP], text[TOP_TEXT_CAP * 2];
    int x = gpu->device.index == DEVICE_NO_NUMBER
                ? grid_text(grid, line, 0, 0, INK_STRONG, "GPU ?")
                : grid_textf(grid, line, 0, 0, INK_STRONG, "GPU %" PRIu32, gpu->device.index);

    if (row->instance)
        x = grid_textf(grid, line, x, 0, INK_STRONG, " %s %s", text_arrow(grid), instance_name(row->reading, text));
    x = grid_textf(grid, line, x, 0, INK_PLAIN, "  %s  %s", value_model(&gpu->device),
                   pci_format(gpu->device.pci, PCI_FORM_SYSFS, pci));
    if (row->gpu->state != GPU_UP)
        x = grid_textf(grid, line, x, 0, INK_BAD, "  %s", gpu_down(top, row->gpu, text));
    if (gpu_owner(top, row, text)[0])
        x = grid_textf(grid, line, x, 0, INK_PLAIN, "  %s", text);
    if (line.width - x > 24)
        grid_right(grid, line, line.width, 0, INK_DIM,
                   grid->utf8 ? "\xe2\x86\x90 \xe2\x86\x92 other GPUs" : "Left Right: other GPUs");
}

/* Its open troubles, at most a third of the height. */
static void draw_troubles(Top *top, Grid *grid, Area *area, const GpuRow *row)
{
    const int least = area->height * 2 / 3;

    for (size_t i = 0; i < top->troubles.len && area->height > least; i++)
        if (top->troubles.at[i].wrong && trouble_about(&top->troubles.at[i], row->gpu))
            trouble_draw(top, grid, area, &top->troubles.at[i]);
}

/* Why a GPU that is not up has no values. */
static void draw_why(Grid *grid, Area *area, const GpuRow *row)
{
    if (row->gpu->state == GPU_UP)
        return;
    Area lines = *area;
    lines.height = lines.height < 3 ? lines.height : 3;
    const int x = grid_text(grid, lines, 0, 0, INK_DIM, "no values: ");
    Area rest = lines;
    area_left(&rest, x);
    area_top(area, text_wrap(grid, rest, 0, 0, INK_PLAIN,
                             row->gpu->why[0] ? row->gpu->why : gpu_state_text(row->gpu->state)));
}

static bool on_instance(const NodeProcess *process, const GpuRow *row)
{
    return !row->instance || (process->gpu_instance == row->reading->device.gpu_instance &&
                              process->compute_instance == row->reading->device.compute_instance);
}

static void draw_user(const Top *top, Grid *grid, Area line, const NodeProcess *p)
{
    const ProcessOwner *owner = process_list_find(&top->snapshot->processes, p->pid);
    char memory[HUMAN_MAX] = "-", label[TOP_TEXT_CAP];

    if (p->used_bytes != UINT64_MAX)
        human_bytes(memory, (double)p->used_bytes);
    int x =
        grid_textf(grid, line, 0, 0, INK_PLAIN, "%7" PRIu32 " %-8.8s %8s ", p->pid, owner ? owner->user : "-", memory);
    if (p->sm_percent != UINT8_MAX)
        x = grid_textf(grid, line, x, 0, INK_PLAIN, "%3u%% ", p->sm_percent);
    else
        x = grid_text(grid, line, x, 0, INK_DIM, "   - ");
    if (owner_label(owner, label)[0])
        x = grid_textf(grid, line, x, 0, INK_PLAIN, "%s  ", label);
    grid_text(grid, line, x, 0, owner ? INK_PLAIN : INK_DIM,
              !owner              ? "not seen here"
              : owner->command[0] ? owner->command
                                  : owner->name);
}

static int users_height(const GpuRow *row, int most)
{
    const int count = (int)row->gpu->process_count;

    return 1 + (count == 0 ? 0 : count < most ? count : most);
}

static void draw_users(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    const Area head = area_top(&area, 1);
    int y = 0;

    int x = grid_text(grid, head, 0, 0, INK_TITLE, "Processes");
    for (size_t i = 0; i < row->gpu->process_count && y < area.height; i++)
        if (on_instance(&row->gpu->processes[i], row))
            draw_user(top, grid, area_row(area, y++), &row->gpu->processes[i]);
    if (!row->gpu->process_list.valid && row->gpu->process_count == 0)
        grid_textf(grid, head, x, 0, INK_DIM, "  not known: %s", absence_text(row->gpu->process_list.absence));
    else if (row->gpu->process_count == 0)
        grid_text(grid, head, x, 0, INK_DIM, "  none");
    top_zone(top, head, ZONE_KEY, '3');
}

static void draw_instances(Top *top, Grid *grid, Area *area, const GpuRow *row)
{
    int room = area->height / 3;

    if (row->instance)
        return;
    for (size_t i = 0; i < top->gpus.len && room > 0; i++) {
        const GpuRow *other = &top->gpus.at[i];
        const Area line = other->instance && other->gpu == row->gpu ? area_top(area, 1) : (Area){0};

        if (line.height == 0)
            continue;
        gpu_block(top, grid, line, other);
        room--;
    }
}

static bool has_plots(const Top *top, const GpuRow *row)
{
    return top->history && row->gpu->last_sample_ns > 0;
}

static void draw_left(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    const int plots = has_plots(top, row) ? area.height * 2 / 3 : 0;

    plots_draw(top, grid, area_top(&area, plots), row);
    draw_instances(top, grid, &area, row);
    draw_users(top, grid, area, row);
}

static void draw_stacked(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    const bool large = area.height >= 20;
    const int plots = !has_plots(top, row) ? 0 : large ? area.height * 2 / 5 : area.height * 2 / 5 + 1;

    plots_draw(top, grid, area_top(&area, plots), row);
    if (large) {
        draw_instances(top, grid, &area, row);
        draw_users(top, grid, area_top(&area, users_height(row, USERS_MAX / 2)), row);
    }
    numbers_draw(top, grid, area, row);
}

void view_gpu_draw(Top *top, Grid *grid, Area area)
{
    const GpuRow *row = top_followed(top);

    if (!row) {
        grid_text(grid, area, 1, 0, INK_WARN,
                  top->gpus.len ? "the GPU or instance that was followed is not there now; Escape goes back"
                                : "no GPU is known on this node");
        return;
    }
    draw_title(top, grid, area_top(&area, 1), row);
    draw_troubles(top, grid, &area, row);
    draw_why(grid, &area, row);
    if (area.width < SIDE_BY_SIDE) {
        draw_stacked(top, grid, area, row);
        return;
    }
    Area left = area_left(&area, area.width * 3 / 5);
    area_left(&area, 1);
    left.width--;
    draw_left(top, grid, left, row);
    numbers_draw(top, grid, area, row);
}
