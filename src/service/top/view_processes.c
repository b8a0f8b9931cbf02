/* SPDX-License-Identifier: Apache-2.0 */
/* All processes of all GPUs, and one of them in full. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "service/top/view.h"

/* What restricts or orders the rows, so that nobody takes a part for the whole. */
static void draw_state(const Top *top, Grid *grid, Area *area)
{
    static const char *const trees[TREE_END] = {"", "by job, pod, container and user", "by GPU"};

    if (!top->filter[0] && top->tree == TREE_NONE)
        return;
    const Area line = area_top(area, 1);
    int x = 0;
    if (top->filter[0])
        x = grid_textf(grid, line, x, 0, INK_WARN, "only those with '%s' (Escape shows all)  ", top->filter);
    if (top->tree != TREE_NONE)
        grid_textf(grid, line, x, 0, INK_DIM, "tree %s", trees[top->tree]);
}

void view_processes_draw(Top *top, Grid *grid, Area area)
{
    draw_state(top, grid, &area);
    list_settle(&top->process_list, area.height > 1 ? (size_t)area.height - 1 : 1);
    process_table_draw(top, grid, area, &top->process_list, 0);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

static int field(Grid *grid, Area area, int y, const char *name, const char *text)
{
    Area rest = area;

    if (y >= area.height)
        return y;
    grid_text(grid, area, 0, y, INK_DIM, name);
    area_left(&rest, 14);
    const int next = text_wrap(grid, rest, y, 0, text[0] ? INK_PLAIN : INK_DIM, text[0] ? text : "-");
    return next;
}

/* Where it runs on each GPU now. */
static int draw_places(const Top *top, Grid *grid, Area area, int y)
{
    size_t found = 0;

    for (size_t i = 0; i < top->gpus.len; i++) {
        const GpuRow *row = &top->gpus.at[i];

        for (size_t k = 0; !row->instance && k < row->gpu->process_count; k++) {
            const NodeProcess *p = &row->gpu->processes[k];
            char memory[HUMAN_MAX] = "memory not told", text[TOP_TEXT_CAP];

            if (p->pid != top->target.pid)
                continue;
            if (p->used_bytes != UINT64_MAX)
                human_bytes(memory, (double)p->used_bytes);
            int len = snprintf(text, sizeof text, "%s, %s", memory, p->graphics ? "graphics" : "compute");
            if (p->sm_percent != UINT8_MAX)
                len += snprintf(text + len, sizeof text - (size_t)len, ", SM %u %%", p->sm_percent);
            if (p->gpu_instance != DEVICE_NO_NUMBER)
                snprintf(text + len, sizeof text - (size_t)len, ", MIG %" PRIu32 "/%" PRIu32, p->gpu_instance,
                         p->compute_instance);
            char name[32];
            snprintf(name, sizeof name, "on GPU %" PRIu32, row->gpu->reading.device.index);
            y = field(grid, area, y, name, text);
            found++;
        }
    }
    if (found == 0 && y < area.height)
        grid_text(grid, area, 0, y++, INK_WARN, "it is on no GPU any more; what follows is what was last seen");
    return y;
}

void overlay_process_draw(Top *top, Grid *grid, Area area)
{
    const ProcessOwner *now = process_list_find(&top->snapshot->processes, top->target.pid);
    const ProcessOwner *owner;
    uint64_t age_ns;
    char text[TOP_TEXT_CAP * 2], label[TOP_TEXT_CAP], rss[HUMAN_MAX], age[32];

    if (now && now->start_ns == top->target.start_ns)
        top->target_owner = *now;
    owner = &top->target_owner;
    snprintf(text, sizeof text, "%" PRIu32 " %s", top->target.pid, owner->name);
    int y = field(grid, area, 0, "process", text);
    y = draw_places(top, grid, area, y);
    y = field(grid, area, y, "user", owner->user);
    y = field(grid, area, y, "owner", owner_label(owner, label));
    if (owner->pod_uid[0])
        y = field(grid, area, y, "pod UID", owner->pod_uid);
    if (owner->container[0])
        y = field(grid, area, y, "container", owner->container);
    if (top_age(top, owner, &age_ns))
        y = field(grid, area, y, "runs for", text_age(age_ns, age));
    if (owner->rss_bytes > 0)
        y = field(grid, area, y, "host memory", human_bytes(rss, (double)owner->rss_bytes));
    y = field(grid, area, y, "command", owner->command[0] ? owner->command : owner->name);
    if (y + 1 < area.height)
        grid_text(grid, area, 0, y + 1, INK_DIM, "Escape goes back");
}
