/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the GPUs and network adapters are joined: the matrix as `nvidia-smi topo -m` has it, and a drawing.
 *
 * The driver tells of pairs whether peer to peer over NVLink works, and of links where they lead. Where it does not
 * tell the latter it is known only if all lead to one place: to NVSwitches, or to the only other GPU. Paths over PCIe
 * come from the kernel.
 */
#include "service/top/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* NVLinks of one GPU. */
typedef struct JoinedLinks {
    uint32_t all, up, unknown;
    double errors;
} JoinedLinks;

static JoinedLinks joined_links(const NodeGpu *gpu)
{
    JoinedLinks links = {0};

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

static bool joined_links_missing(const JoinedLinks *links)
{
    return links->up + links->unknown < links->all;
}

/* 3 is complete (nvmlGpuFabricState_t, nvml.h). */
static bool joined_on_fabric(const NodeGpu *gpu)
{
    return reading_value(&gpu->reading, METRIC_FABRIC_MANAGER_STATUS) == 3;
}

void joined_find(const Snapshot *snapshot, JoinedList *ret)
{
    const Node *node = snapshot->node;
    const PlaceList *places = &snapshot->places;
    uint32_t adapters = 0;

    ret->len = 0;
    for (size_t i = 0; i < node->gpu_count && i < NODE_GPUS_MAX; i++) {
        const Device *device = &node->gpus[i].reading.device;

        ret->at[ret->len++] = (Joined){.gpu = &node->gpus[i],
                                       .place = device->has_pci ? place_list_gpu(places, device->pci) : NULL,
                                       .number = device->index};
    }
    for (size_t i = 0; i < places->len && ret->len < JOINED_MAX; i++)
        if (places->at[i].adapter[0])
            ret->at[ret->len++] = (Joined){.place = &places->at[i], .number = adapters++};
}

const char *joined_name(const Joined *one, char out[JOINED_TEXT_CAP])
{
    if (one->number == DEVICE_NO_NUMBER)
        return strcpy(out, "GPU?");
    snprintf(out, JOINED_TEXT_CAP, "%s%" PRIu32, one->gpu ? "GPU" : "NIC", one->number);
    return out;
}

/* UNKNOWN of a pair that the driver does not tell of, unless the fabric joins the two. */
static PeerStatus peer_status(const NodeGpu *a, const NodeGpu *b)
{
    int64_t status = PEER_UNKNOWN;

    for (size_t i = 0; i < a->peer_count; i++)
        if (a->peers[i].index == b->reading.device.index && sample_int64(&a->peers[i].status, &status))
            break;
    if (status < 0 || status >= PEER_UNKNOWN)
        return joined_on_fabric(a) && joined_on_fabric(b) ? PEER_OK : PEER_UNKNOWN;
    return (PeerStatus)status;
}

/* Counts links of `a` that are up and lead to `b` or to a switch. False if the end of one is unknown. */
static bool links_towards(const Node *node, const NodeGpu *a, const NodeGpu *b, uint32_t *ret)
{
    *ret = 0;
    for (uint32_t i = 0; i < a->link_count; i++) {
        const NodeLink *link = &a->links[i];
        int64_t up, remote;
        PciAddress pci;

        if (!sample_int64(&link->active, &up) || !up)
            continue;
        if (!sample_int64(&link->remote, &remote) || !pci_unpack(remote, &pci))
            return false;
        *ret +=
            (b->reading.device.has_pci && pci_compare(pci, b->reading.device.pci) == 0) || !node_find_gpu(node, pci);
    }
    return true;
}

static uint32_t links_between(const Node *node, const NodeGpu *a, const NodeGpu *b)
{
    const bool all_lead_there = node->gpu_count == 2 || (joined_on_fabric(a) && joined_on_fabric(b));
    uint32_t there, back;

    if (!links_towards(node, a, b, &there) || !links_towards(node, b, a, &back)) {
        there = all_lead_there ? joined_links(a).up : 0;
        back = joined_links(b).up;
    }
    return there < back ? there : back;
}

const char *joined_pair(const Node *node, const Joined *a, const Joined *b, char out[JOINED_TEXT_CAP], Ink *ink)
{
    *ink = INK_DIM;
    if (a == b)
        return strcpy(out, "X");
    if ((a->gpu && a->gpu->state != GPU_UP) || (b->gpu && b->gpu->state != GPU_UP)) {
        *ink = INK_BAD;
        return strcpy(out, "down");
    }
    const PeerStatus status = a->gpu && b->gpu ? peer_status(a->gpu, b->gpu) : PEER_UNKNOWN;
    if (status == PEER_OK) {
        const JoinedLinks left = joined_links(a->gpu), right = joined_links(b->gpu);
        const uint32_t count = links_between(node, a->gpu, b->gpu);

        *ink = joined_links_missing(&left) || joined_links_missing(&right) ? INK_BAD : INK_GOOD;
        snprintf(out, JOINED_TEXT_CAP, count > 0 ? "NV%" PRIu32 : "NV", count);
        return out;
    }
    if (status == PEER_DISABLED_BY_REGKEY) {
        *ink = INK_WARN;
        return strcpy(out, "off");
    }
    const TopologyPath path = a->place && b->place ? place_between(a->place, b->place) : TOPOLOGY_UNKNOWN;
    return strcpy(out, status != PEER_UNKNOWN && path == TOPOLOGY_UNKNOWN ? "no" : topology_paths[path].key);
}

const Joined *joined_nearest(const JoinedList *list, const Joined *gpu, size_t *ret_more)
{
    const Joined *nearest = NULL;
    TopologyPath best = TOPOLOGY_NODE;

    *ret_more = 0;
    for (size_t i = 0; i < list->len; i++) {
        const Joined *one = &list->at[i];

        if (one->gpu || !gpu->place)
            continue;
        const TopologyPath path = place_between(gpu->place, one->place);
        if (path < best) {
            nearest = one;
            best = path;
            *ret_more = 0;
        } else if (nearest && path == best) {
            ++*ret_more;
        }
    }
    return nearest;
}

/* --- the view ----------------------------------------------------------------------------------------------------- */

enum { CELL_WIDTH = 5, NAME_WIDTH = 6 };

/* ---- the matrix ---- */

static void draw_links(Grid *grid, Area line, int x, const NodeGpu *gpu)
{
    const JoinedLinks links = joined_links(gpu);
    const char *between = ", down:";

    if (links.all == 0) {
        grid_text(grid, line, x, 0, INK_DIM, gpu->state == GPU_UP ? "no NVLink reported" : "not known: it is not up");
        return;
    }
    if (links.unknown == links.all) {
        grid_text(grid, line, x, 0, INK_DIM, "not known");
        return;
    }
    x = grid_textf(grid, line, x, 0, joined_links_missing(&links) ? INK_BAD : INK_PLAIN,
                   "%" PRIu32 " of %" PRIu32 " up", links.up, links.all);
    for (uint32_t i = 0; i < gpu->link_count; i++) { /* ", down: 4 7" */
        int64_t up;

        if (sample_int64(&gpu->links[i].active, &up) && up == 0) {
            x = grid_textf(grid, line, x, 0, INK_BAD, "%s %" PRIu32, between, i);
            between = "";
        }
    }
    if (links.unknown > 0)
        x = grid_textf(grid, line, x, 0, INK_WARN, ", %" PRIu32 " not known", links.unknown);
    if (links.errors > 0)
        grid_textf(grid, line, x, 0, INK_WARN, ", %.0f errors", links.errors);
}

/* Columns right of the matrix. */
enum { COLUMN_PCI, COLUMN_NUMA, COLUMN_CPUS, COLUMN_LINKS };

static const Column columns[] = {
    [COLUMN_PCI] = {"pci", "PCI address", 13, 0, 0, false},
    [COLUMN_NUMA] = {"numa", "NUMA", 5, 0, 1, false},
    [COLUMN_CPUS] = {"cpus", "CPUs", 17, 0, 2, false},
    [COLUMN_LINKS] = {"links", "NVLinks, name", 15, GRID_WIDTH_MAX, 0, false},
};

static void draw_place(Top *top UNUSED, Grid *grid, Area cell, size_t column, const void *row)
{
    const Joined *one = row;
    const Place *place = one->place;
    const Device *device = one->gpu ? &one->gpu->reading.device : NULL;
    char pci[PCI_TEXT_CAP];

    if (column == COLUMN_PCI && (device ? device->has_pci : place != NULL))
        grid_text(grid, cell, 0, 0, INK_DIM, pci_format(device ? device->pci : place->pci, PCI_FORM_SYSFS, pci));
    else if (column == COLUMN_NUMA && place && place->numa_node >= 0)
        grid_textf(grid, cell, 0, 0, INK_PLAIN, "%" PRId32, place->numa_node);
    else if (column == COLUMN_NUMA || column == COLUMN_CPUS)
        grid_text(grid, cell, 0, 0, INK_DIM, column == COLUMN_CPUS && place && place->cpus[0] ? place->cpus : "?");
    else if (column == COLUMN_LINKS && one->gpu)
        draw_links(grid, cell, 0, one->gpu);
    else if (column == COLUMN_LINKS)
        grid_text(grid, cell, 0, 0, INK_PLAIN, place->adapter);
}

static const Table places = {columns, sizeof columns[0], ARRAY_LEN(columns), draw_place};

typedef struct Matrix {
    const JoinedList *joined;
    size_t first, shown; /* columns of the matrix */
    Layout layout;       /* of the columns right of it */
} Matrix;

/* The cells of a line right of the matrix. */
static Area places_of(Area line, const Matrix *matrix)
{
    area_left(&line, NAME_WIDTH + (int)matrix->shown * (CELL_WIDTH + 1) + 1);
    return line;
}

static void draw_pair_row(Top *top, Grid *grid, Area line, size_t row, const void *context)
{
    const Matrix *matrix = context;
    const Joined *one = &matrix->joined->at[row];
    char text[JOINED_TEXT_CAP];

    grid_text(grid, line, 0, 0, one->gpu && one->gpu->state != GPU_UP ? INK_BAD : INK_STRONG, joined_name(one, text));
    for (size_t i = 0; i < matrix->shown; i++) {
        Ink ink;

        joined_pair(top->snapshot->node, one, &matrix->joined->at[matrix->first + i], text, &ink);
        grid_right(grid, line, NAME_WIDTH + (int)(i + 1) * (CELL_WIDTH + 1), 0, ink, text);
    }
    columns_row(&places, &matrix->layout, top, grid, places_of(line, matrix), one);
}

/* Fits columns of the matrix, the selected one among them; the rest of the width is for the other columns. */
static void draw_matrix(Top *top, Grid *grid, Area area, const JoinedList *joined)
{
    const Area head = area_top(&area, 1);
    const int least = NAME_WIDTH + 1 + columns[COLUMN_PCI].width + 1 + columns[COLUMN_LINKS].width;
    const int room = (area.width - least) / (CELL_WIDTH + 1);
    const size_t most = room < 1 ? 1 : (size_t)room;
    Matrix matrix = {.joined = joined, .shown = joined->len < most ? joined->len : most};
    List *list = &top->matrix;
    char name[JOINED_TEXT_CAP];

    list->count = joined->len;
    list_settle(list, area.height);
    matrix.first = list->selected + 1 > matrix.shown ? list->selected + 1 - matrix.shown : 0;
    const Area right = places_of(head, &matrix);
    columns_fit(&places, right.width, (Fit){0}, &matrix.layout);
    for (size_t i = 0; i < matrix.shown; i++)
        grid_right(grid, head, NAME_WIDTH + (int)(i + 1) * (CELL_WIDTH + 1), 0, INK_TITLE,
                   joined_name(&joined->at[matrix.first + i], name));
    if (matrix.shown < joined->len) /* there are more */
        grid_text(grid, head, 0, 0, INK_DIM, "‹ ›");
    columns_head(&places, &matrix.layout, grid, right);
    list_draw(top, list, grid, area, 0, NAME_WIDTH - 1, draw_pair_row, &matrix);
    list_mark(list, grid, head);
}

/* ---- the drawing ---- */

/* Rows of boxes: above each its NUMA nodes, below each the fabric. */
typedef struct Drawing {
    const Top *top;
    Grid *grid;
    const JoinedList *joined;
    bool places, adapters, fabric;
} Drawing;

enum { BOX_WIDTH = 11 };

/* The links down to the switches. */
static void draw_box_links(Grid *grid, Area below, const NodeGpu *gpu)
{
    const JoinedLinks links = joined_links(gpu);

    if (gpu->state != GPU_UP)
        grid_text(grid, below, 2, 0, INK_BAD, "╳");
    else if (links.unknown == links.all)
        grid_text(grid, below, 2, 0, INK_DIM, "║ ?");
    else
        grid_textf(grid, below, 2, 0, joined_links_missing(&links) ? INK_BAD : INK_GOOD, "║ %" PRIu32 "/%" PRIu32,
                   links.up, links.all);
}

static void draw_box(const Drawing *d, Area box, const Joined *one)
{
    const NodeGpu *gpu = one->gpu;
    const FaultSeverity severity = status_severity(d->top->incidents.at, d->top->incidents.len, gpu);
    const Ink ink = severity > SEVERITY_INFO ? severity_ink(severity) : gpu->state == GPU_UP ? INK_TITLE : INK_BAD;
    const double busy = value_base(&gpu->reading, METRIC_PROF_SM_ACTIVE);
    char name[JOINED_TEXT_CAP], text[VALUE_CAP];
    Area frame = area_top(&box, d->adapters ? 4 : 3);
    const Area inside = grid_box(d->grid, frame, ink, joined_name(one, name));
    size_t more;

    if (gpu->state != GPU_UP)
        grid_text(d->grid, inside, 0, 0, INK_PLAIN, gpu_states[gpu->state].key);
    else if (isfinite(busy))
        grid_text(d->grid, inside, 0, 0, INK_PLAIN, value_percent(text, busy));
    else
        grid_textf(d->grid, inside, 0, 0, INK_PLAIN, "%s util",
                   value_percent(text, value_base(&gpu->reading, METRIC_GPU_UTIL)));
    const Joined *nearest = d->adapters ? joined_nearest(d->joined, one, &more) : NULL;
    if (nearest) {
        const int x = grid_text(d->grid, inside, 0, 1, INK_DIM, nearest->place->adapter);
        if (more > 0)
            grid_textf(d->grid, inside, x, 1, INK_DIM, "+%zu", more);
    }
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
        Area bar = area_left(&row, (int)(last - i) * BOX_WIDTH);
        bar.width--;
        grid_fill(d->grid, bar, INK_DIM, "─");
        if (numa_of(&d->joined->at[i]) < 0) {
            grid_text(d->grid, bar, 1, 0, INK_DIM, " NUMA ? ");
            continue;
        }
        const int x = grid_textf(d->grid, bar, 1, 0, INK_PLAIN, " NUMA %d ", numa_of(&d->joined->at[i]));
        if (d->joined->at[i].place->cpus[0] && bar.width > x + (int)strlen(d->joined->at[i].place->cpus) + 6)
            grid_textf(d->grid, bar, x, 0, INK_DIM, " CPUs %s ", d->joined->at[i].place->cpus);
    }
}

static void draw_boxes(const Top *top, Grid *grid, Area area, const JoinedList *joined)
{
    const size_t gpus = top->snapshot->node->gpu_count, across = (size_t)(area.width / BOX_WIDTH);
    Drawing d = {.top = top, .grid = grid, .joined = joined, .adapters = joined->len > gpus};

    for (size_t i = 0; i < gpus; i++) {
        d.fabric |= joined_on_fabric(joined->at[i].gpu);
        d.places |= joined->at[i].place != NULL;
    }
    const int height = 3 + d.adapters + d.places + 2 * d.fabric;
    for (size_t first = 0; first < gpus && across > 0 && area.height >= height; first += across) {
        const size_t end = first + across < gpus ? first + across : gpus;
        Area row = area_top(&area, height);

        if (d.places)
            draw_numa(&d, area_top(&row, 1), first, end);
        Area bus = area_row(row, row.height - 1);
        bus.width = (int)(end - first) * BOX_WIDTH - 1;
        for (size_t i = first; i < end; i++) {
            Area box = area_left(&row, BOX_WIDTH);

            box.width--;
            draw_box(&d, box, &joined->at[i]);
        }
        if (!d.fabric)
            continue;
        grid_fill(grid, bus, INK_SERIES_A, "═");
        grid_text(grid, bus, 2, 0, INK_STRONG, " NVSwitch fabric ");
    }
}

/* ---- the view ---- */

void view_topology_draw(Top *top, Grid *grid, Area area)
{
    static const char words[] =
        "NV18: NVLinks up between the two, NV: NVLink, number of links unknown; off: NVLink is switched off. "
        "Over PCIe: PIX one switch at most, PXB several, PHB the host bridge, NODE host bridges of one NUMA node, "
        "SYS two NUMA nodes; no: not by NVLink; ?: not known";
    JoinedList joined;

    joined_find(top->snapshot, &joined);
    if (top->snapshot->node->gpu_count == 0) {
        grid_text(grid, area, 1, 1, INK_DIM, "no GPU is known on this node");
        return;
    }
    const int rows = (int)joined.len + 1, legend = area.width >= 150 ? 2 : area.width >= 100 ? 3 : 5;
    const int matrix = rows < area.height - 3 ? rows : area.height - 3;
    const bool framed = panel_fits(grid, area, rows + PANEL_EDGES + legend + PANEL_MANY / 4);
    const Area place = area_top(&area, framed ? matrix + PANEL_EDGES : matrix);
    draw_matrix(top, grid, framed ? panel_open(grid, place, "Paths") : place, &joined);
    if (area.height >= legend + 1)
        text_wrap(grid, area_bottom(&area, legend), 0, INK_DIM, words);
    area_top(&area, 1);
    if (area.height >= 3)
        draw_boxes(top, grid, area, &joined);
}
