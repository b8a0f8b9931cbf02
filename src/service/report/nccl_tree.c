/* SPDX-License-Identifier: Apache-2.0 */
/* A topology as a tree. Chains of PCI switches that lead to one thing are one line. */
#include <inttypes.h>
#include <string.h>

#include "base/owner.h"
#include "service/report/nccl.h"
#include "service/report/nccl_wrap.h"

enum { DEPTH_MAX = 64, LABEL_MAX = 8192 };

typedef struct Tree {
    const NcclTopology *t;
    const NcclStyle *style;
    Str *label;           /* what a line says */
    bool more[DEPTH_MAX]; /* per depth: a sibling follows */
} Tree;

static const NcclNode *node_at(const Tree *tree, uint32_t node)
{
    return &tree->t->nodes.at[node];
}

static bool is_drawn(NcclPart part)
{
    return part != NCCL_PART_NVLINK && part != NCCL_PART_XGMI && part != NCCL_PART_C2C && part != NCCL_PART_OTHER;
}

static uint32_t next_drawn(const Tree *tree, uint32_t node)
{
    while (node != NCCL_NO_INDEX && !is_drawn(node_at(tree, node)->part))
        node = node_at(tree, node)->sibling;
    return node;
}

static void add_link(const Tree *tree, const NcclNode *n)
{
    if (n->gts > 0)
        str_addf(tree->label, "  PCIe %g GT/s", n->gts);
    if (n->width > 0)
        str_addf(tree->label, " x%d", n->width);
}

/* "12 NVLinks to NVSwitch, 2 to 0000:1b:00.0" */
static void add_links(const Tree *tree, uint32_t gpu)
{
    int told = 0, left = 0;

    for (uint32_t c = node_at(tree, gpu)->child; c != NCCL_NO_INDEX; c = node_at(tree, c)->sibling) {
        const NcclNode *n = node_at(tree, c);
        bool nvswitch = strncmp(n->target, "fffffff", 7) == 0;
        if (n->part == NCCL_PART_C2C)
            str_addf(tree->label, ", C2C to the CPU");
        if ((n->part != NCCL_PART_NVLINK && n->part != NCCL_PART_XGMI) || n->count <= 0)
            continue;
        if (told++ >= 2 && !nvswitch) {
            left++;
            continue;
        }
        str_addf(tree->label, ", %d %s%s to %s", n->count, n->part == NCCL_PART_NVLINK ? "NVLink" : "xGMI",
                 n->count > 1 ? "s" : "", nvswitch ? "NVSwitch" : n->target);
    }
    if (left)
        str_addf(tree->label, " and %d more", left);
}

static void add_gpu(const Tree *tree, uint32_t pci)
{
    uint32_t gpu = nccl_node_gpu(tree->t, pci);

    if (gpu == NCCL_NO_INDEX) {
        str_addf(tree->label, "GPU %s", node_at(tree, pci)->bus_id);
        add_link(tree, node_at(tree, pci));
        return;
    }
    const NcclNode *g = node_at(tree, gpu);
    str_addf(tree->label, "GPU %d", g->dev);
    if (g->rank >= 0)
        str_addf(tree->label, " rank %d", g->rank);
    str_addf(tree->label, "  %s", node_at(tree, pci)->bus_id);
    add_link(tree, node_at(tree, pci));
    if (g->gdr == 0)
        str_add(tree->label, "  no GPUDirect");
    add_links(tree, gpu);
}

static void add_net(const Tree *tree, const NcclNode *net)
{
    str_add(tree->label, net->name);
    if (net->net_mbps > 0)
        str_addf(tree->label, "  %g Gb/s", (double)net->net_mbps / 1000);
    str_add(tree->label, net->gdr == 0 ? "  no GPUDirect" : net->gdr > 0 ? "  GPUDirect" : "");
}

/* What a line says of a node; *ret_last is the node whose children follow (further down a chain), or none. */
static void add_label(const Tree *tree, uint32_t node, uint32_t *ret_last)
{
    const NcclNode *n = node_at(tree, node);
    uint32_t net = nccl_node_net(tree->t, node);

    *ret_last = NCCL_NO_INDEX;
    if (n->part == NCCL_PART_NET)
        add_net(tree, n);
    else if (nccl_node_is_gpu(tree->t, node))
        add_gpu(tree, node);
    else if (nccl_node_is_nic(tree->t, node) || n->part == NCCL_PART_NIC) {
        str_add(tree->label, "NIC");
        if (net != NCCL_NO_INDEX) {
            str_addc(tree->label, ' ');
            add_net(tree, node_at(tree, net));
        }
        if (n->bus_id[0])
            str_addf(tree->label, "  %s", n->bus_id);
        add_link(tree, n);
    } else if (n->part == NCCL_PART_CPU) {
        str_addf(tree->label, "CPU, NUMA node %d  %s %s", n->numa, n->arch, n->vendor);
        *ret_last = node;
    } else {
        str_addf(tree->label, "switch %s", n->bus_id);
        add_link(tree, n);
        *ret_last = node;
    }
}

/* What stands before a line, and before those that it goes on in. */
static void add_branch(const Tree *tree, unsigned depth, bool more, bool first, Str *out)
{
    const bool utf8 = tree->style->utf8;
    const char *down = utf8 ? "\u2502  " : "|  ";

    str_add(out, "  ");
    for (unsigned i = 0; i < depth; i++)
        str_add(out, tree->more[i] ? down : "   ");
    if (!first)
        str_addf(out, "%s  ", more ? down : "   ");
    else
        str_add(out, more ? (utf8 ? "\u251c\u2500 " : "|- ") : (utf8 ? "\u2514\u2500 " : "`- "));
}

/* A switch with one thing below that is a switch too: the lower one stands for both. */
static uint32_t skip_chain(const Tree *tree, uint32_t node)
{
    for (int i = 0; i < DEPTH_MAX; i++) {
        uint32_t child = next_drawn(tree, node_at(tree, node)->child);
        if (node_at(tree, node)->part != NCCL_PART_PCI || nccl_node_is_gpu(tree->t, node) ||
            nccl_node_is_nic(tree->t, node) || child == NCCL_NO_INDEX ||
            next_drawn(tree, node_at(tree, child)->sibling) != NCCL_NO_INDEX || node_at(tree, child)->part != NCCL_PART_PCI)
            break;
        node = child;
    }
    return node;
}

static void add_line(const Tree *tree, unsigned depth, bool more, size_t width, Str *out)
{
    enum { BRANCH_MAX = DEPTH_MAX * 5 + 16 };
    char room[BRANCH_MAX];
    Str indent;

    str_init_room(&indent, room, sizeof room);
    add_branch(tree, depth, more, false, &indent);
    add_branch(tree, depth, more, true, out);
    size_t used = 2 + 3 * ((size_t)depth + 1);
    nccl_line_rest(out, width, tree->label->text, room, used);
}

static void draw_nodes(Tree *tree, uint32_t first, unsigned depth, size_t width, Str *out)
{
    for (uint32_t node = next_drawn(tree, first); node != NCCL_NO_INDEX && depth < DEPTH_MAX;) {
        uint32_t next = next_drawn(tree, node_at(tree, node)->sibling), last;
        bool more = next != NCCL_NO_INDEX;
        str_clear(tree->label);
        add_label(tree, skip_chain(tree, node), &last);
        add_line(tree, depth, more, width, out);
        tree->more[depth] = more;
        if (last != NCCL_NO_INDEX)
            draw_nodes(tree, node_at(tree, last)->child, depth + 1, width, out);
        node = next;
    }
}

void nccl_report_tree(const NcclTopology *topology, const NcclStyle *style, size_t width, Str *out)
{
    CLEANUP(str_done) Str label = {0};
    Tree tree = {.t = topology, .style = style, .label = &label};

    str_init(&label, LABEL_MAX);
    if (topology->nodes.len)
        draw_nodes(&tree, topology->nodes.at[0].child, 0, width, out);
}
