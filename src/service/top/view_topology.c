/* SPDX-License-Identifier: Apache-2.0 */
/* How the GPUs and network adapters are joined: the matrix as `nvidia-smi topo -m` has it, and a drawing. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "service/top/joined.h"
#include "service/top/value.h"
#include "service/top/view.h"

enum { CELL_WIDTH = 5, NAME_WIDTH = 6, PCI_WIDTH = 14, NUMA_WIDTH = 6, CPUS_WIDTH = 18, LINKS_WIDTH = 15 };

/* What stands right of the matrix: the PCI address and the NVLinks always, more where there is room. */
typedef struct Columns {
    size_t first, shown; /* of the matrix */
    bool numa, cpus;
} Columns;

/* ---- the matrix ---- */

/* ", down: 4 7": which ones, where not all are up. */
static int draw_down_links(Grid *grid, Area line, int x, const NodeGpu *gpu)
{
    const char *between = ", down:";

    for (uint32_t i = 0; i < gpu->link_count; i++) {
        int64_t up;

        if (!sample_int64(&gpu->links[i].active, &up) || up != 0)
            continue;
        x = grid_textf(grid, line, x, 0, INK_BAD, "%s %" PRIu32, between, i);
        between = "";
    }
    return x;
}

static void draw_links(Grid *grid, Area line, int x, const NodeGpu *gpu)
{
    const JoinedLinks links = joined_links(gpu);

    if (links.all == 0) {
        grid_text(grid, line, x, 0, INK_DIM, gpu->state == GPU_UP ? "no NVLink told" : "not known: it is not up");
        return;
    }
    if (links.unknown == links.all) {
        grid_text(grid, line, x, 0, INK_DIM, "not known");
        return;
    }
    x = grid_textf(grid, line, x, 0, joined_links_missing(&links) ? INK_BAD : INK_PLAIN,
                   "%" PRIu32 " of %" PRIu32 " up", links.up, links.all);
    x = draw_down_links(grid, line, x, gpu);
    if (links.unknown > 0)
        x = grid_textf(grid, line, x, 0, INK_WARN, ", %" PRIu32 " not known", links.unknown);
    if (links.errors > 0)
        grid_textf(grid, line, x, 0, INK_WARN, ", %.0f errors", links.errors);
}

static void draw_place(Grid *grid, Area line, int x, const Joined *one, const Columns *columns)
{
    char pci[PCI_TEXT_CAP];

    if (one->gpu ? one->gpu->reading.device.has_pci : one->place != NULL)
        grid_text(grid, line, x, 0, INK_DIM,
                  pci_format(one->gpu ? one->gpu->reading.device.pci : one->place->pci, PCI_FORM_SYSFS, pci));
    x += PCI_WIDTH;
    if (columns->numa) {
        if (one->place && one->place->numa_node >= 0)
            grid_textf(grid, line, x, 0, INK_PLAIN, "%" PRId32, one->place->numa_node);
        else
            grid_text(grid, line, x, 0, INK_DIM, "?");
        x += NUMA_WIDTH;
    }
    if (columns->cpus) {
        grid_text(grid, line, x, 0, INK_DIM, one->place && one->place->cpus[0] ? one->place->cpus : "?");
        x += CPUS_WIDTH;
        grid_text(grid, line, x - 1, 0, INK_DIM, " "); /* after one that was too long */
    }
    if (one->gpu)
        draw_links(grid, line, x, one->gpu);
    else
        grid_text(grid, line, x, 0, INK_PLAIN, one->place->adapter);
}

static int place_x(const Columns *columns)
{
    return NAME_WIDTH + (int)columns->shown * (CELL_WIDTH + 1) + 1;
}

/* As many columns of the matrix as there is room for, so that the selected one is among them; what is left over is for
 * the rest. */
static Columns choose_columns(int width, const JoinedList *joined, size_t selected)
{
    const int least = NAME_WIDTH + 1 + PCI_WIDTH + LINKS_WIDTH, room = (width - least) / (CELL_WIDTH + 1);
    const size_t most = room < 1 ? 1 : (size_t)room;
    Columns columns = {.shown = joined->len < most ? joined->len : most};
    const int left = width - least - (int)columns.shown * (CELL_WIDTH + 1);

    columns.first = selected + 1 > columns.shown ? selected + 1 - columns.shown : 0;
    columns.numa = left >= NUMA_WIDTH;
    columns.cpus = left >= NUMA_WIDTH + CPUS_WIDTH;
    return columns;
}

static void draw_head(Grid *grid, Area line, const JoinedList *joined, const Columns *columns)
{
    char name[JOINED_TEXT_CAP];
    int x = place_x(columns);

    for (size_t i = 0; i < columns->shown; i++)
        grid_right(grid, line, NAME_WIDTH + (int)(i + 1) * (CELL_WIDTH + 1), 0, INK_TITLE,
                   joined_name(&joined->at[columns->first + i], name));
    if (columns->shown < joined->len) /* there are more */
        grid_text(grid, line, 0, 0, INK_DIM, grid->utf8 ? "\xe2\x80\xb9 \xe2\x80\xba" : "< >");
    grid_text(grid, line, x, 0, INK_TITLE, "PCI address");
    x += PCI_WIDTH;
    if (columns->numa)
        grid_text(grid, line, x, 0, INK_TITLE, "NUMA");
    x += columns->numa ? NUMA_WIDTH : 0;
    if (columns->cpus)
        grid_text(grid, line, x, 0, INK_TITLE, "CPUs");
    x += columns->cpus ? CPUS_WIDTH : 0;
    grid_text(grid, line, x, 0, INK_TITLE, "NVLinks, name");
}

static void draw_pair_row(const Top *top, Grid *grid, Area line, const JoinedList *joined, size_t row,
                          const Columns *columns)
{
    const Joined *one = &joined->at[row];
    char text[JOINED_TEXT_CAP];

    grid_text(grid, line, 0, 0, one->gpu && one->gpu->state != GPU_UP ? INK_BAD : INK_STRONG, joined_name(one, text));
    for (size_t i = 0; i < columns->shown; i++) {
        Ink ink;

        joined_pair(top->snapshot->node, one, &joined->at[columns->first + i], text, &ink);
        grid_right(grid, line, NAME_WIDTH + (int)(i + 1) * (CELL_WIDTH + 1), 0, ink, text);
    }
    draw_place(grid, line, place_x(columns), one, columns);
}

static void draw_matrix(Top *top, Grid *grid, Area area, const JoinedList *joined)
{
    List *list = &top->matrix;

    list->count = joined->len;
    list_settle(list, area.height > 1 ? (size_t)area.height - 1 : 1);
    const Columns columns = choose_columns(area.width, joined, list->selected);
    draw_head(grid, area_top(&area, 1), joined, &columns);
    for (size_t i = list->first; i < joined->len && (int)(i - list->first) < area.height; i++) {
        const Area line = area_row(area, (int)(i - list->first));

        draw_pair_row(top, grid, line, joined, i, &columns);
        top_zone(top, line, ZONE_ROW, (uint32_t)i);
        if (i == list->selected)
            grid_reverse(grid, (Area){.x = line.x, .y = line.y, .width = NAME_WIDTH - 1, .height = 1});
    }
    list_mark(list, grid, (Area){area.x, area.y - 1, area.width, 1}, 0);
}

/* ---- the drawing ---- */

/* Rows of boxes: above each its NUMA nodes, below each the fabric. */
typedef struct Drawing {
    const Top *top;
    Grid *grid;
    const JoinedList *joined;
    size_t gpus;
    bool places, adapters, fabric;
    int across, height; /* boxes in a row; lines of a row */
} Drawing;

enum { BOX_WIDTH = 11 };

static Ink box_ink(const Top *top, const NodeGpu *gpu)
{
    for (size_t i = 0; i < top->gpus.len; i++)
        if (top->gpus.at[i].gpu == gpu && !top->gpus.at[i].instance && top->gpus.at[i].severity > SEVERITY_INFO)
            return severity_ink(top->gpus.at[i].severity);
    return gpu->state == GPU_UP ? INK_TITLE : INK_BAD;
}

/* Its links, hanging down to the switches. */
static void draw_box_links(Grid *grid, Area below, const NodeGpu *gpu)
{
    const JoinedLinks links = joined_links(gpu);
    const char *line = grid->utf8 ? "\xe2\x95\x91" : "||", *broken = grid->utf8 ? "\xe2\x95\xb3" : "X";

    if (gpu->state != GPU_UP)
        grid_text(grid, below, 2, 0, INK_BAD, broken);
    else if (links.unknown == links.all)
        grid_textf(grid, below, 2, 0, INK_DIM, "%s ?", line);
    else
        grid_textf(grid, below, 2, 0, joined_links_missing(&links) ? INK_BAD : INK_GOOD, "%s %" PRIu32 "/%" PRIu32,
                   line, links.up, links.all);
}

static void draw_box_adapter(const Drawing *d, Area inside, const Joined *one)
{
    size_t more;
    const Joined *nearest = joined_nearest(d->joined, one, &more);

    if (!nearest)
        return;
    const int x = grid_text(d->grid, inside, 0, 1, INK_DIM, nearest->place->adapter);
    if (more > 0)
        grid_textf(d->grid, inside, x, 1, INK_DIM, "+%zu", more);
}

static void draw_box(const Drawing *d, Area box, const Joined *one)
{
    const NodeGpu *gpu = one->gpu;
    char name[JOINED_TEXT_CAP], text[VALUE_CAP];
    Area frame = area_top(&box, d->adapters ? 4 : 3);
    const Area inside = grid_box(d->grid, frame, box_ink(d->top, gpu), joined_name(one, name));

    if (gpu->state != GPU_UP)
        grid_text(d->grid, inside, 0, 0, INK_PLAIN, gpu_state_key(gpu->state));
    else if (isfinite(value_busy(&gpu->reading)))
        grid_text(d->grid, inside, 0, 0, INK_PLAIN, value_percent(text, value_busy(&gpu->reading)));
    else
        grid_textf(d->grid, inside, 0, 0, INK_PLAIN, "%s util", value_percent(text, value_util(&gpu->reading)));
    if (d->adapters)
        draw_box_adapter(d, inside, one);
    if (d->fabric)
        draw_box_links(d->grid, box, gpu);
}

static int numa_of(const Joined *one)
{
    return one->place ? one->place->numa_node : -1;
}

/* A bar over the boxes of each NUMA node. */
static void draw_numa(const Drawing *d, Area row, size_t first, size_t end)
{
    for (size_t i = first, last; i < end; i = last) {
        for (last = i + 1; last < end && numa_of(&d->joined->at[last]) == numa_of(&d->joined->at[i]);)
            last++;
        const Area bar = {.x = row.x + (int)(i - first) * BOX_WIDTH,
                          .y = row.y,
                          .width = (int)(last - i) * BOX_WIDTH - 1,
                          .height = 1};
        grid_fill(d->grid, bar, INK_DIM, d->grid->utf8 ? "\xe2\x94\x80" : "-");
        if (numa_of(&d->joined->at[i]) < 0) {
            grid_text(d->grid, bar, 1, 0, INK_DIM, " NUMA ? ");
            continue;
        }
        const int x = grid_textf(d->grid, bar, 1, 0, INK_PLAIN, " NUMA %d ", numa_of(&d->joined->at[i]));
        if (d->joined->at[i].place->cpus[0] && bar.width > x + (int)strlen(d->joined->at[i].place->cpus) + 6)
            grid_textf(d->grid, bar, x, 0, INK_DIM, " CPUs %s ", d->joined->at[i].place->cpus);
    }
}

static void draw_row(const Drawing *d, Area row, size_t first, size_t end)
{
    if (d->places)
        draw_numa(d, area_top(&row, 1), first, end);
    for (size_t i = first; i < end; i++)
        draw_box(
            d,
            (Area){.x = row.x + (int)(i - first) * BOX_WIDTH, .y = row.y, .width = BOX_WIDTH - 1, .height = row.height},
            &d->joined->at[i]);
    if (!d->fabric)
        return;
    const Area bus = {
        .x = row.x, .y = row.y + row.height - 1, .width = (int)(end - first) * BOX_WIDTH - 1, .height = 1};
    grid_fill(d->grid, bus, INK_SERIES_A, d->grid->utf8 ? "\xe2\x95\x90" : "=");
    grid_text(d->grid, bus, 2, 0, INK_STRONG, " NVSwitch fabric ");
}

static void draw_boxes(const Top *top, Grid *grid, Area area, const JoinedList *joined)
{
    Drawing d = {.top = top, .grid = grid, .joined = joined, .gpus = top->snapshot->node->gpu_count};

    d.adapters = joined->len > d.gpus;
    for (size_t i = 0; i < d.gpus; i++) {
        d.fabric |= joined_on_fabric(joined->at[i].gpu);
        d.places |= joined->at[i].place != NULL;
    }
    d.across = area.width / BOX_WIDTH;
    d.height = 3 + d.adapters + d.places + 2 * d.fabric;
    for (size_t i = 0; i < d.gpus && d.across > 0 && area.height >= d.height; i += (size_t)d.across) {
        const size_t end = i + (size_t)d.across < d.gpus ? i + (size_t)d.across : d.gpus;

        draw_row(&d, area_top(&area, d.height), i, end);
    }
}

/* ---- the view ---- */

static void draw_legend(Grid *grid, Area area)
{
    static const char text[] =
        "NV18: NVLinks up between the two, NV: joined by NVLink, how many is not told; off: NVLink is switched off. "
        "Over PCIe: PIX one switch at most, PXB several, PHB the host bridge, NODE host bridges of one NUMA node, SYS "
        "two "
        "NUMA nodes; no: not by NVLink; ?: not known";

    text_wrap(grid, area, 0, 0, INK_DIM, text);
}

void view_topology_draw(Top *top, Grid *grid, Area area)
{
    JoinedList joined;

    joined_find(top->snapshot, &joined);
    if (top->snapshot->node->gpu_count == 0) {
        grid_text(grid, area, 1, 1, INK_DIM, "no GPU is known on this node");
        return;
    }
    const int rows = (int)joined.len + 1, legend = area.width >= 150 ? 2 : area.width >= 100 ? 3 : 5;
    const int matrix = rows < area.height - 3 ? rows : area.height - 3;
    draw_matrix(top, grid, area_top(&area, matrix), &joined);
    if (area.height >= legend + 1) {
        Area words = area_bottom(&area, legend);
        draw_legend(grid, words);
    }
    area_top(&area, 1);
    if (area.height >= 3)
        draw_boxes(top, grid, area, &joined);
}
