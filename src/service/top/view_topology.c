/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the GPUs are joined: the matrix as `nvidia-smi topo -m` has it, as far as it is known here, and a drawing. What
 * the driver tells of pairs is whether peer to peer over NVLink works; how many links lead where is known only where
 * all of them lead to one place: to NVSwitches, or to the only other GPU.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "service/top/value.h"
#include "service/top/view.h"

enum { CELL_WIDTH = 5, NAME_WIDTH = 6, GPUS_MAX = NODE_GPUS_MAX };

typedef struct Links {
    uint32_t all, up, unknown;
    double errors;
} Links;

static Links links_of(const NodeGpu *gpu)
{
    Links links = {0};

    for (uint32_t i = 0; i < gpu->link_count; i++) {
        const NodeLink *link = &gpu->links[i];
        int64_t up;

        if (sample_int64(&link->active, &up)) {
            links.all++;
            links.up += up != 0;
        } else if (link->active.absence != ABSENCE_NOT_SUPPORTED) {
            links.all++;
            links.unknown++;
        }
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++) {
            double errors;
            if (sample_double(&link->errors[k], &errors))
                links.errors += errors;
        }
    }
    return links;
}

static bool links_missing(const Links *links)
{
    return links->up + links->unknown < links->all;
}

/* Whether a GPU is registered with a fabric manager, so that all its links lead to NVSwitches: 3 is complete
 * (nvmlGpuFabricState_t, nvml.h). */
static bool on_fabric(const NodeGpu *gpu)
{
    return value_raw(&gpu->reading, METRIC_FABRIC_MANAGER_STATUS) == 3;
}

static bool peer_status(const NodeGpu *a, const NodeGpu *b, PeerStatus *ret)
{
    for (size_t i = 0; i < a->peer_count; i++) {
        int64_t status;

        if (a->peers[i].index == b->reading.device.index && sample_int64(&a->peers[i].status, &status) && status >= 0 &&
            status < PEER_STATUS_END) {
            *ret = (PeerStatus)status;
            return true;
        }
    }
    return false;
}

/* "NV18", "NV", "no", "?" */
static const char *pair_text(const Node *node, const NodeGpu *a, const NodeGpu *b, char out[16], Ink *ink)
{
    const bool all_lead_there = node->gpu_count == 2 || (on_fabric(a) && on_fabric(b));
    const Links left = links_of(a), right = links_of(b);
    const uint32_t count = left.up < right.up ? left.up : right.up;
    PeerStatus status;

    *ink = INK_DIM;
    if (a == b)
        return strcpy(out, "X");
    if (a->state != GPU_UP || b->state != GPU_UP) {
        *ink = INK_BAD;
        return strcpy(out, "down");
    }
    if (!peer_status(a, b, &status) || status == PEER_UNKNOWN) {
        if (!on_fabric(a) || !on_fabric(b))
            return strcpy(out, "?");
        status = PEER_OK; /* nobody asked about the pair; the fabric joins them */
    }
    if (status != PEER_OK) {
        *ink = status == PEER_DISABLED_BY_REGKEY ? INK_WARN : INK_DIM;
        return strcpy(out, status == PEER_DISABLED_BY_REGKEY ? "off" : "no");
    }
    *ink = links_missing(&left) || links_missing(&right) ? INK_BAD : INK_GOOD;
    if (all_lead_there && count > 0)
        snprintf(out, 16, "NV%" PRIu32, count);
    else
        strcpy(out, "NV");
    return out;
}

static void gpu_name(const NodeGpu *gpu, char out[16])
{
    if (gpu->reading.device.index == DEVICE_NO_NUMBER)
        snprintf(out, 16, "GPU?");
    else
        snprintf(out, 16, "GPU%" PRIu32, gpu->reading.device.index);
}

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
    const Links links = links_of(gpu);
    char pci[PCI_TEXT_CAP];

    x = grid_textf(grid, line, x, 0, INK_DIM, " %s", pci_format(gpu->reading.device.pci, PCI_FORM_SYSFS, pci));
    if (links.all == 0) {
        grid_text(grid, line, x, 0, INK_DIM, gpu->state == GPU_UP ? "  no NVLink told" : "  not known: it is not up");
        return;
    }
    if (links.unknown == links.all) {
        grid_text(grid, line, x, 0, INK_DIM, "  not known");
        return;
    }
    x = grid_textf(grid, line, x, 0, links_missing(&links) ? INK_BAD : INK_PLAIN, "  %" PRIu32 " of %" PRIu32 " up",
                   links.up, links.all);
    x = draw_down_links(grid, line, x, gpu);
    if (links.unknown > 0)
        x = grid_textf(grid, line, x, 0, INK_WARN, ", %" PRIu32 " not known", links.unknown);
    if (links.errors > 0)
        grid_textf(grid, line, x, 0, INK_WARN, ", %.0f errors", links.errors);
}

static void draw_head(const Top *top, Grid *grid, Area line, size_t first, size_t shown)
{
    const Node *node = top->seen->status.node;
    char name[16];

    for (size_t i = 0; i < shown; i++) {
        gpu_name(&node->gpus[first + i], name);
        grid_right(grid, line, NAME_WIDTH + (int)(i + 1) * (CELL_WIDTH + 1), 0, INK_TITLE, name);
    }
    grid_text(grid, line, NAME_WIDTH + (int)shown * (CELL_WIDTH + 1) + 1, 0, INK_TITLE, "PCI address   NVLinks");
}

static void draw_pair_row(const Top *top, Grid *grid, Area line, const NodeGpu *gpu, size_t first, size_t shown)
{
    const Node *node = top->seen->status.node;
    char name[16], text[16];

    gpu_name(gpu, name);
    grid_text(grid, line, 0, 0, gpu->state == GPU_UP ? INK_STRONG : INK_BAD, name);
    for (size_t i = 0; i < shown; i++) {
        Ink ink;

        pair_text(node, gpu, &node->gpus[first + i], text, &ink);
        grid_right(grid, line, NAME_WIDTH + (int)(i + 1) * (CELL_WIDTH + 1), 0, ink, text);
    }
    draw_links(grid, line, NAME_WIDTH + (int)shown * (CELL_WIDTH + 1), gpu);
}

static void draw_matrix(Top *top, Grid *grid, Area area)
{
    const Node *node = top->seen->status.node;
    const int room = (area.width - NAME_WIDTH - 30) / (CELL_WIDTH + 1);
    const size_t most = room < 1 ? 1 : (size_t)room;
    const size_t shown = node->gpu_count < most ? node->gpu_count : most;
    List *list = &top->matrix;

    list->count = node->gpu_count;
    list_settle(list, area.height > 1 ? (size_t)area.height - 1 : 1);
    size_t first = list->selected + 1 > shown ? list->selected + 1 - shown : 0;
    draw_head(top, grid, area_top(&area, 1), first, shown);
    for (size_t i = list->first; i < node->gpu_count && (int)(i - list->first) < area.height; i++) {
        const Area line = area_row(area, (int)(i - list->first));

        draw_pair_row(top, grid, line, &node->gpus[i], first, shown);
        top_zone(top, line, ZONE_ROW, (uint32_t)i);
        if (i == list->selected)
            grid_reverse(grid, (Area){.x = line.x, .y = line.y, .width = NAME_WIDTH - 1, .height = 1});
    }
    list_mark(list, grid, (Area){area.x, area.y - 1, area.width, 1}, 0);
}

/* --- the drawing -------------------------------------------------------------------------------------------------- */

static Ink box_ink(const Top *top, const NodeGpu *gpu)
{
    for (size_t i = 0; i < top->gpus.len; i++)
        if (top->gpus.at[i].gpu == gpu && !top->gpus.at[i].instance && top->gpus.at[i].severity > SEVERITY_INFO)
            return severity_ink(top->gpus.at[i].severity);
    return gpu->state == GPU_UP ? INK_TITLE : INK_BAD;
}

/* A GPU as a box, its links hanging down to the switches. */
static void draw_box(const Top *top, Grid *grid, Area box, const NodeGpu *gpu, bool fabric)
{
    const Links links = links_of(gpu);
    const Ink ink = box_ink(top, gpu);
    char name[16], text[VALUE_CAP];
    Area inside = box;

    gpu_name(gpu, name);
    inside.height = 3;
    inside = grid_box(grid, inside, ink, name);
    grid_text(grid, inside, 0, 0, INK_PLAIN,
              gpu->state == GPU_UP ? value_percent(text, value_busy(&gpu->reading)) : gpu_state_key(gpu->state));
    if (!fabric || box.height < 5)
        return;
    const char *line = grid->utf8 ? "\xe2\x95\x91" : "||", *broken = grid->utf8 ? "\xe2\x95\xb3" : "X";
    if (gpu->state != GPU_UP)
        grid_text(grid, box, 2, 3, INK_BAD, broken);
    else if (links.unknown == links.all)
        grid_textf(grid, box, 2, 3, INK_DIM, "%s ?", line);
    else
        grid_textf(grid, box, 2, 3, links_missing(&links) ? INK_BAD : INK_GOOD, "%s %" PRIu32 "/%" PRIu32, line,
                   links.up, links.all);
}

static void draw_boxes(Top *top, Grid *grid, Area area)
{
    const Node *node = top->seen->status.node;
    bool fabric = false;

    for (size_t i = 0; i < node->gpu_count; i++)
        fabric |= on_fabric(&node->gpus[i]);
    const int width = 11, height = fabric ? 5 : 3, across = area.width / width;
    int y = 0;
    for (size_t i = 0; i < node->gpu_count && across > 0; i++) {
        const int column = (int)i % across;

        y = (int)i / across * height;
        if (y + height > area.height)
            break;
        const Area box = {.x = area.x + column * width, .y = area.y + y, .width = width - 1, .height = height};
        draw_box(top, grid, box, &node->gpus[i], fabric);
        if (fabric && column == 0) {
            const Area bus = area_row(area, y + 4);
            const int count = (int)node->gpu_count < across ? (int)node->gpu_count : across;
            grid_fill(grid, (Area){bus.x, bus.y, count * width - 1, bus.height}, INK_SERIES_A,
                      grid->utf8 ? "\xe2\x95\x90" : "=");
            grid_text(grid, bus, 2, 0, INK_STRONG, " NVSwitch fabric ");
        }
    }
}

static void draw_legend(Grid *grid, Area area)
{
    static const char text[] =
        "NV18: NVLinks up between the two, NV: joined by NVLink, how many is not told; no: not by NVLink; "
        "off: switched off; ?: the driver was not asked or does not tell. "
        "Paths over PCIe and NUMA nodes are not known to the agent: nvidia-smi topo -m";

    text_wrap(grid, area, 0, 0, INK_DIM, text);
}

void view_topology_draw(Top *top, Grid *grid, Area area)
{
    const Node *node = top->seen->status.node;

    if (node->gpu_count == 0) {
        grid_text(grid, area, 1, 1, INK_DIM, "no GPU is known on this node");
        return;
    }
    const int rows = (int)node->gpu_count + 1, legend = area.width >= 150 ? 2 : area.width >= 100 ? 3 : 5;
    const int matrix = rows < area.height - 3 ? rows : area.height - 3;
    draw_matrix(top, grid, area_top(&area, matrix));
    if (area.height >= legend + 1) {
        Area words = area_bottom(&area, legend);
        draw_legend(grid, words);
    }
    area_top(&area, 1);
    if (area.height >= 3)
        draw_boxes(top, grid, area);
}
