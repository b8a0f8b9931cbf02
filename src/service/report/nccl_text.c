/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of `stoker nccl`: what is wrong first, then what was found. A column is a character of UTF-8. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/report/nccl.h"

enum { ROOM_MIN = 20, INDENT_MAX = 40 };

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t columns_of(const char *text, size_t len)
{
    size_t columns = 0;

    for (size_t i = 0; i < len; i++)
        columns += begins_character(text[i]);
    return columns;
}

/* Bytes of the first `columns` columns. */
static size_t bytes_of(const char *text, size_t len, size_t columns)
{
    size_t i = 0;

    for (; i < len; i++)
        if (begins_character(text[i]) && columns-- == 0)
            break;
    return i;
}

/* Where the writing stands. */
typedef struct Wrap {
    Str *out;
    const char *indent;
    size_t begin, width, column; /* begin: columns of the indent */
    bool fresh;                  /* nothing is on the line yet */
} Wrap;

static void next_line(Wrap *w)
{
    str_addc(w->out, '\n');
    str_add(w->out, w->indent);
    w->column = w->begin;
    w->fresh = true;
}

static void add_word(Wrap *w, const char *word, size_t len)
{
    size_t columns = columns_of(word, len);

    if (!w->fresh && w->column + 1 + columns > w->width)
        next_line(w);
    if (!w->fresh)
        str_addc(w->out, ' ');
    w->column += !w->fresh;
    while (w->column + columns > w->width) {
        size_t part = w->width > w->column ? w->width - w->column : 0, bytes = bytes_of(word, len, part);
        str_addn(w->out, word, bytes);
        word += bytes;
        len -= bytes;
        columns -= part;
        next_line(w);
    }
    str_addn(w->out, word, len);
    w->column += columns;
    w->fresh = false;
}

/* The words of `text`, with one blank between them, and a line end. `used` columns of the first line are taken; at 0,
 * and at each further line, `indent` comes first. What is longer than a line is broken; at least 20 columns are used.
 */
static void add_wrapped_text(Str *out, size_t width, const char *text, const char *indent, size_t used)
{
    Wrap w = {.out = out, .indent = indent, .begin = columns_of(indent, strlen(indent)), .column = used};

    w.width = width < w.begin + ROOM_MIN ? w.begin + ROOM_MIN : width;
    w.fresh = used <= w.begin;
    if (used == 0) {
        str_add(out, indent);
        w.column = w.begin;
    }
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t len = strcspn(text, " ");
        add_word(&w, text, len);
        text += len;
    }
    str_addc(out, '\n');
}

/* The rest of a line of which `used` columns are written: as it is where it fits, else wrapped. */
static void add_rest(Str *out, size_t width, const char *text, const char *indent, size_t used)
{
    if (used + columns_of(text, strlen(text)) > width) {
        add_wrapped_text(out, width, text, indent, used);
        return;
    }
    str_add(out, text);
    str_addc(out, '\n');
}

/* One line that begins with `indent` blanks: as it is where it fits, else wrapped, the rest two columns further in. */
static void add_fitting_line(Str *out, size_t width, size_t indent, const char *text)
{
    char blanks[INDENT_MAX + 1];

    snprintf(blanks, sizeof blanks, "%*s",
             (int)(indent == 0               ? 0
                   : indent < INDENT_MAX - 2 ? indent + 2
                                             : INDENT_MAX),
             "");
    str_addf(out, "%*s", (int)indent, "");
    add_rest(out, width, text, blanks, indent);
}

enum { DEPTH_MAX = 64, LABEL_MAX = 8192 };

typedef struct Tree {
    const NcclTopology *t;
    const NcclStyle *style;
    Str *label;           /* the text of a line */
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

/* The text of a node's line; *ret_last is the node whose children follow (further down a chain), or none. */
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

/* The prefix of a line and of its continuation lines. */
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
            next_drawn(tree, node_at(tree, child)->sibling) != NCCL_NO_INDEX ||
            node_at(tree, child)->part != NCCL_PART_PCI)
            break;
        node = child;
    }
    return node;
}

static void add_tree_line(const Tree *tree, unsigned depth, bool more, size_t width, Str *out)
{
    enum { BRANCH_MAX = DEPTH_MAX * 5 + 16 };
    char room[BRANCH_MAX];
    Str indent;

    str_init_room(&indent, room, sizeof room);
    add_branch(tree, depth, more, false, &indent);
    add_branch(tree, depth, more, true, out);
    size_t used = 2 + 3 * ((size_t)depth + 1);
    add_rest(out, width, tree->label->text, room, used);
}

static void draw_nodes(Tree *tree, uint32_t first, unsigned depth, size_t width, Str *out)
{
    for (uint32_t node = next_drawn(tree, first); node != NCCL_NO_INDEX && depth < DEPTH_MAX;) {
        uint32_t next = next_drawn(tree, node_at(tree, node)->sibling), last;
        bool more = next != NCCL_NO_INDEX;
        str_clear(tree->label);
        add_label(tree, skip_chain(tree, node), &last);
        add_tree_line(tree, depth, more, width, out);
        tree->more[depth] = more;
        if (last != NCCL_NO_INDEX)
            draw_nodes(tree, node_at(tree, last)->child, depth + 1, width, out);
        node = next;
    }
}

/* The lines of one topology as a tree, of at most `width` columns. */
static void add_tree(const NcclTopology *topology, const NcclStyle *style, size_t width, Str *out)
{
    CLEANUP(str_done) Str label = {0};
    Tree tree = {.t = topology, .style = style, .label = &label};

    str_init(&label, LABEL_MAX);
    if (topology->nodes.len)
        draw_nodes(&tree, topology->nodes.at[0].child, 0, width, out);
}

enum {
    WIDTH_MIN = 60,
    WIDTH_MAX = 200,
    COMMS_SHOWN = 4,
    SETTINGS_SHOWN = 24,
    MATRIX_MAX = 48,
    BENCHES_SHOWN = 16,
    TEXT_CAP = 256,
    LINE_CAP = 4096
};

typedef struct Screen {
    const NcclReport *r;
    const NcclStyle *style;
    Str *out;
    size_t width;
} Screen;

static void set_colour(const Screen *s, const char *code)
{
    if (s->style->colour)
        str_addf(s->out, "\033[%sm", code);
}

static void add_heading(const Screen *s, const char *text)
{
    str_addc(s->out, '\n');
    set_colour(s, "1");
    add_wrapped_text(s->out, s->width, text, "", 0);
    str_cut(s->out, s->out->len ? s->out->len - 1 : 0);
    set_colour(s, "0");
    str_addc(s->out, '\n');
}

/* Words of `text`, wrapped; each line begins with `indent` blanks, the first has `used` columns already. */
static void add_wrapped(const Screen *s, const char *text, size_t indent, size_t used)
{
    char blanks[32];

    snprintf(blanks, sizeof blanks, "%*s", (int)indent, "");
    add_wrapped_text(s->out, s->width, text, blanks, used);
}

/* A line of columns, which keeps its blanks where it fits. */
static void add_line(const Screen *s, size_t indent, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void add_line(const Screen *s, size_t indent, const char *fmt, ...)
{
    CLEANUP(str_done) Str text = {0};
    va_list args;

    str_init(&text, LINE_CAP);
    va_start(args, fmt);
    str_addv(&text, fmt, args);
    va_end(args);
    add_fitting_line(s->out, s->width, indent, text.len ? text.text : "");
}

static const char *place_text(const Screen *s, NcclPlace place, char out[TEXT_CAP])
{
    const char *name = place.input < s->r->inputs.len ? s->r->inputs.at[place.input].name : "?",
               *slash = strrchr(name, '/');

    if (slash && slash[1])
        name = slash + 1;
    if (place.line)
        snprintf(out, TEXT_CAP, "%.200s:%" PRIu64, name, place.line);
    else
        snprintf(out, TEXT_CAP, "%.200s", name);
    return out;
}

static void add_finding(const Screen *s, const NcclFinding *f)
{
    static const char *const colours[] = {"1;31", "1;33", "1"};
    char room[TEXT_CAP], text[TEXT_CAP * 4];
    const char *name = nccl_severity_name(f->severity);

    set_colour(s, colours[f->severity]);
    str_addf(s->out, "%-8s", name);
    set_colour(s, "0");
    snprintf(text, sizeof text, "%s [%s]", f->title, f->id);
    add_wrapped(s, text, 8, 8);
    if (f->detail[0])
        add_wrapped(s, f->detail, 10, 0);
    for (unsigned i = 0; i < f->evidence_count; i++) {
        snprintf(text, sizeof text, "%s  %.700s", place_text(s, f->evidence[i].place, room), f->evidence[i].text);
        str_addf(s->out, "%10s", "");
        add_wrapped(s, text, 12, 10);
    }
    if (f->total > f->evidence_count)
        add_line(s, 10, "and %" PRIu64 " more", f->total - f->evidence_count);
    if (f->setting[0]) {
        snprintf(text, sizeof text, "set: %s", f->setting);
        add_wrapped(s, text, 10, 0);
    }
    add_wrapped(s, f->advice, 10, 0);
}

static void add_findings(const Screen *s)
{
    for (size_t i = 0; i < s->r->findings.len; i++) {
        str_addc(s->out, '\n');
        add_finding(s, &s->r->findings.at[i]);
    }
    if (s->r->findings.len == 0) {
        str_add(s->out, "\n");
        set_colour(s, "32");
        str_add(s->out, nccl_exit_code(s->r) == 0 ? "No problem found." : "No NCCL data found.");
        set_colour(s, "0");
        str_addc(s->out, '\n');
    }
}

/* "2 text; NCCL 2.21.5; 16 ranks on 2 nodes": inputs by kind, and the largest communicator. */
static void add_headline(const Screen *s)
{
    size_t kinds[NCCL_KIND_OTHER + 1] = {0};
    const char *version = "";
    char room[TEXT_CAP * 4];
    Str text;

    str_init_room(&text, room, sizeof room);
    for (size_t i = 0; i < s->r->inputs.len; i++)
        kinds[s->r->inputs.at[i].kind]++;
    for (size_t i = 0; i < s->r->processes.len && !version[0]; i++)
        version = s->r->processes.at[i].version;
    for (size_t k = NCCL_KIND_OTHER + 1; k-- > 0;)
        if (kinds[k])
            str_addf(&text, "%s%zu %s", text.len ? ", " : "", kinds[k], nccl_kind_name((NcclKind)k));
    if (version[0])
        str_addf(&text, "; NCCL %.200s", version);
    if (s->r->world != NCCL_NO_INDEX) {
        const NcclComm *w = &s->r->comms.at[s->r->world];
        str_addf(&text, "; %" PRId64 " ranks", w->nranks);
        if (w->nodes > 0)
            str_addf(&text, " on %" PRId64 " node%s", w->nodes, w->nodes == 1 ? "" : "s");
        str_addf(&text, ", %zu communicator%s", s->r->comms.len, s->r->comms.len == 1 ? "" : "s");
    }
    set_colour(s, "1");
    add_wrapped_text(s->out, s->width, room, "", 0);
    set_colour(s, "0");
}

static const char *scope_text(NcclScope scope)
{
    return scope == NCCL_SCOPE_NET ? "between nodes" : scope == NCCL_SCOPE_NODE ? "within a node" : "unknown scope";
}

static void add_ways(const Screen *s)
{
    if (s->r->classes.len == 0)
        return;
    add_heading(s, "Transports");
    for (size_t i = 0; i < s->r->classes.len; i++) {
        const NcclClass *c = &s->r->classes.at[i];
        char name[TEXT_CAP];
        snprintf(name, sizeof name, "%.200s%s", c->name, c->gdr ? " GPUDirect" : "");
        char channels[32];
        snprintf(channels, sizeof channels, c->channels_min == c->channels_max ? "%u" : "%u-%u", c->channels_min,
                 c->channels_max);
        add_line(s, 2, "%-14s %-28s %6u pair%s  %s channels", scope_text(c->scope), name, c->pairs,
                 c->pairs == 1 ? " " : "s", channels);
    }
}

static char way_letter(const NcclWay *way)
{
    switch (way->via) {
    case NCCL_VIA_P2P:
        return 'P';
    case NCCL_VIA_SHM:
        return 'S';
    case NCCL_VIA_RDMA:
        return way->gdr ? 'G' : 'R';
    case NCCL_VIA_SOCKET:
        return 'T';
    case NCCL_VIA_COLLNET:
        return 'C';
    default:
        return '?';
    }
}

/* Worse ways win a cell. */
static int rank_letter(char c)
{
    static const char order[] = ".PGCSRT?";
    const char *at = strchr(order, c);

    return at ? (int)(at - order) : 0;
}

static void add_matrix(const Screen *s)
{
    char cells[MATRIX_MAX][MATRIX_MAX];
    const NcclReport *r = s->r;
    int64_t n = r->world == NCCL_NO_INDEX ? 0 : r->comms.at[r->world].nranks;
    bool any = false;

    if (n < 2 || n > MATRIX_MAX || (size_t)n * 2 + 8 > s->width)
        return;
    memset(cells, '.', sizeof cells);
    for (size_t i = 0; i < r->edges.len; i++) {
        const NcclEdge *e = &r->edges.at[i];
        char c = way_letter(&r->ways.at[e->way]);
        if (r->members.at[e->member].comm != r->world || e->from >= n || e->to >= n)
            continue;
        any = true;
        if (rank_letter(c) > rank_letter(cells[e->from][e->to]))
            cells[e->from][e->to] = c;
    }
    if (!any)
        return;
    add_heading(s, "Rank to rank");
    str_add(s->out, "  ");
    add_wrapped(s, "P direct, S host memory, G RDMA with GPUDirect, R RDMA without, T TCP, C CollNet", 2, 2);
    for (int64_t from = 0; from < n; from++) {
        str_addf(s->out, "%6" PRId64 " ", from);
        for (int64_t to = 0; to < n; to++)
            str_addf(s->out, " %c", from == to ? '\\' : cells[from][to]);
        str_addc(s->out, '\n');
    }
}

static void add_comm(const Screen *s, const NcclComm *c)
{
    char room[TEXT_CAP];
    Str text;

    str_init_room(&text, room, sizeof room);
    if (c->nodes > 0)
        str_addf(&text, ", %" PRId64 " node%s", c->nodes, c->nodes == 1 ? "" : "s");
    if (c->ring_channels)
        str_addf(&text, ", %u ring%s", c->ring_channels, c->ring_channels == 1 ? "" : "s");
    if (c->trees)
        str_addf(&text, ", %u tree%s", c->trees, c->trees == 1 ? "" : "s");
    str_addf(&text, "%s%s%s", c->nvls ? ", NVLS" : "", c->collnet ? ", CollNet" : "", c->mnnvl ? ", MNNVL" : "");
    add_line(s, 2, "%-20s %4" PRId64 " ranks, %u seen, %u complete%s", c->id, c->nranks, c->seen, c->complete, room);
}

static void add_comms(const Screen *s)
{
    const NcclReport *r = s->r;
    size_t shown = s->style->verbose || r->comms.len < COMMS_SHOWN ? r->comms.len : COMMS_SHOWN;
    char text[1024];

    if (shown == 0)
        return;
    add_heading(s, "Communicators");
    for (size_t i = 0; i < shown; i++) {
        const NcclComm *c = &r->comms.at[i];
        add_comm(s, c);
        for (size_t k = 0; k < c->rings.len && (s->style->verbose || k == 0); k++) {
            snprintf(text, sizeof text, "ring %02u: %.900s", c->rings.at[k].channel, c->rings.at[k].order);
            add_wrapped(s, text, 6, 0);
        }
        for (unsigned k = 0; k < c->pattern_count && (s->style->verbose || i == 0); k++)
            add_wrapped(s, c->patterns[k], 6, 0);
    }
    if (shown < r->comms.len)
        add_line(s, 2, "and %zu more (--verbose)", r->comms.len - shown);
}

static void add_networks(const Screen *s)
{
    const NcclReport *r = s->r;
    char text[TEXT_CAP * 4];

    for (size_t i = 0, shown = 0; i < r->processes.len && (s->style->verbose || shown < 1); i++) {
        const NcclProcess *p = &r->processes.at[i];
        if (!p->network[0] && !p->ib[0] && !p->sockets[0])
            continue;
        if (shown++ == 0)
            add_heading(s, "Network");
        snprintf(text, sizeof text, "%.100s: network %.60s; bootstrap over %.40s; sockets %.200s; RDMA %.400s", p->host,
                 p->network[0] ? p->network : "-", p->oob[0] ? p->oob : "-", p->sockets[0] ? p->sockets : "-",
                 p->ib[0]        ? p->ib
                 : p->ib_missing ? "none found"
                                 : "-");
        add_wrapped(s, text, 2, 0);
    }
}

static void add_settings(const Screen *s)
{
    const NcclReport *r = s->r;
    size_t shown = s->style->verbose || r->settings.len < SETTINGS_SHOWN ? r->settings.len : SETTINGS_SHOWN;

    if (shown == 0)
        return;
    add_heading(s, "Settings");
    for (size_t i = 0; i < shown; i++) {
        const NcclSetting *e = &r->settings.at[i];
        if (e->processes == r->processes.len)
            add_line(s, 2, "%s=%s", e->name, e->value);
        else
            add_line(s, 2, "%s=%s  (%u of %zu processes)", e->name, e->value, e->processes, r->processes.len);
    }
    if (shown < r->settings.len)
        add_line(s, 2, "and %zu more (--verbose)", r->settings.len - shown);
}

static void add_topologies(const Screen *s)
{
    char text[TEXT_CAP * 2], room[TEXT_CAP];

    for (size_t i = 0; i < s->r->topologies.len; i++) {
        const NcclTopology *t = &s->r->topologies.at[i];
        snprintf(text, sizeof text, "Topology %s: %u GPUs, %u RDMA adapters, %u NUMA nodes",
                 place_text(s, (NcclPlace){t->input, 0}, room), t->gpus, t->nics, t->numa_nodes);
        add_heading(s, text);
        if (i == 0 || s->style->verbose)
            add_tree(t, s->style, s->width, s->out);
    }
    if (s->r->graphs.len)
        add_heading(s, "Graphs");
    for (size_t i = 0; i < s->r->graphs.len; i++) {
        const NcclGraph *g = &s->r->graphs.at[i];
        add_line(s, 2, "graph %d: pattern %d, %d channels, %g GB/s within (%s), %g GB/s to the network (%s)", g->id,
                 g->pattern, g->channels, g->intra_gbs, g->type_intra, g->inter_gbs, g->type_inter);
    }
}

static const char *size_text(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0])
        value /= 1024, unit++;
    snprintf(out, 32, "%.4g %s", value, units[unit]);
    return out;
}

static void add_bench(const Screen *s, const NcclBench *b)
{
    char room[TEXT_CAP], peak[32], half[32];
    Str text;

    str_init_room(&text, room, sizeof room);
    if (!isnan(b->peak_gbs))
        str_addf(&text, "  peak %.2f GB/s at %s, half of it from %s", b->peak_gbs, size_text(b->peak_size, peak),
                 size_text(b->half_size, half));
    if (!isnan(b->average_gbs))
        str_addf(&text, ", average %.4g", b->average_gbs);
    add_line(s, 2, "%-22s %4" PRId64 " ranks %3" PRId64 " node%s%s", b->name[0] ? b->name : "?", b->ranks, b->nodes,
             b->nodes == 1 ? " " : "s", room);
}

static void add_benches(const Screen *s)
{
    const NcclReport *r = s->r;
    char size[32];

    if (r->benches.len)
        add_heading(s, "nccl-tests");
    for (size_t i = 0; i < r->benches.len && (s->style->verbose || i < BENCHES_SHOWN); i++)
        add_bench(s, &r->benches.at[i]);
    for (size_t i = 0; i < r->scalings.len; i++) {
        const NcclScaling *e = &r->scalings.at[i];
        add_line(s, 2, "%s from %" PRId64 " to %" PRId64 " ranks at %s: %.0f %% of the bus bandwidth",
                 r->benches.at[e->bench].name, r->benches.at[e->base].ranks, r->benches.at[e->bench].ranks,
                 size_text(e->size, size), e->efficiency * 100);
    }
}

static void add_group(const Screen *s, const NcclGroup *g)
{
    char room[TEXT_CAP];
    Str text;
    const char *const lists[][2] = {
        {"behind", g->behind}, {"called", g->scheduled}, {"inside", g->started}, {"through", g->completed}};

    str_init_room(&text, room, sizeof room);
    if (g->stuck)
        str_addf(&text, ": number %" PRId64 " %.160s is not complete", g->seq, g->op);
    else if (g->last_completed >= 0)
        str_addf(&text, ": complete up to number %" PRId64, g->last_completed);
    add_line(s, 2, "group %s%s%s%s%s%s%s", g->name[0] ? g->name : "?", g->desc[0] ? " (" : "", g->desc,
             g->desc[0] ? ")" : "", g->members[0] ? " of ranks " : "", g->members, room);
    for (size_t k = 0; k < sizeof lists / sizeof lists[0] && g->stuck; k++)
        if (lists[k][1][0])
            add_line(s, 4, "%-8s rank %s", lists[k][0], lists[k][1]);
}

static void add_groups(const Screen *s)
{
    const NcclReport *r = s->r;

    if (r->dumps.len)
        add_heading(s, "Flight recorder");
    for (size_t i = 0, shown = 0; i < r->groups.len; i++) {
        if (!s->style->verbose && !r->groups.at[i].stuck && shown >= BENCHES_SHOWN)
            continue;
        shown++;
        add_group(s, &r->groups.at[i]);
    }
}

static void add_unread_inputs(const Screen *s)
{
    uint64_t torn = 0;

    for (size_t i = 0; i < s->r->inputs.len; i++) {
        const NcclInput *in = &s->r->inputs.at[i];
        torn += in->torn;
        if (in->kind == NCCL_KIND_OTHER && !in->trouble[0])
            str_addc(s->out, '\n'), add_line(s, 0, "no NCCL data in %s", in->name);
    }
    if (torn)
        str_addc(s->out, '\n'), add_line(s, 0, "%" PRIu64 " lines were torn and could not be read whole", torn);
    if (s->r->left_out)
        str_addc(s->out, '\n'), add_line(s, 0, "%" PRIu64 " things were over a limit and left out", s->r->left_out);
}

void nccl_report_text(const NcclReport *report, const NcclStyle *style, Str *out)
{
    size_t width = style->width < WIDTH_MIN ? WIDTH_MIN : style->width > WIDTH_MAX ? WIDTH_MAX : style->width;
    const Screen s = {.r = report, .style = style, .out = out, .width = width};

    add_headline(&s);
    add_findings(&s);
    add_groups(&s);
    add_ways(&s);
    add_matrix(&s);
    add_comms(&s);
    add_networks(&s);
    add_settings(&s);
    add_benches(&s);
    add_topologies(&s);
    add_unread_inputs(&s);
}
