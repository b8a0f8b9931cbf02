/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of `stoker nccl`: what is wrong first, then what was found. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "service/report/nccl.h"
#include "service/report/table.h"

enum {
    COMMS_SHOWN = 4,
    NETWORKS_SHOWN = 8,
    SETTINGS_SHOWN = 24,
    MATRIX_MAX = 48,
    RING_SHOWN = 900, /* bytes */
    BENCHES_SHOWN = 16,
    DEPTH_MAX = 64,
    BRANCH_MAX = DEPTH_MAX * 5 + 16, /* bytes */
};

typedef struct Screen {
    Pen pen;
    const NcclReport *r;
} Screen;

/* The rest of a line of which `used` columns are written: as it is where it fits, else wrapped, with `front` (or
 * blanks), of `indent` columns, before each further line. */
static void add_rest(Screen *s, size_t used, size_t indent, const char *front, const char *text)
{
    if (used + clean_width(text) > s->pen.options.width) {
        pen_wrap_behind(&s->pen, STYLE_PLAIN, indent, front, text);
        return;
    }
    pen_foreign(&s->pen, STYLE_PLAIN, text);
    out_addc(&s->pen.out, '\n');
}

/* A line of columns. What does not fit goes on two columns further in. */
static void add_line(Screen *s, size_t indent, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void add_line(Screen *s, size_t indent, const char *fmt, ...)
{
    CLEANUP(str_done) Str text = str_limited(NCCL_LINE_MAX);
    va_list args;

    va_start(args, fmt);
    str_addv(&text, fmt, args);
    va_end(args);
    out_addf(&s->pen.out, "%*s", (int)indent, "");
    add_rest(s, indent, indent + 2, NULL, text.text);
}

/* Words, wrapped; each line begins with `indent` blanks. */
static void add_words(Screen *s, size_t indent, const char *text)
{
    out_addf(&s->pen.out, "%*s", (int)indent, "");
    pen_wrap(&s->pen, STYLE_PLAIN, indent, text);
}

static const char *text_or_dash(const char *text)
{
    return text[0] ? text : "-";
}

/* "s" behind a number but one */
/* "job.log:17" */
static const char *place_text(Screen *s, NcclPlace place)
{
    const char *name = place.input < s->r->inputs.len ? s->r->inputs.at[place.input].name : "?",
               *slash = strrchr(name, '/');

    name = slash && slash[1] ? slash + 1 : name;
    return place.line ? arena_printf(&s->pen.arena, "%s:%" PRIu64, name, place.line) : name;
}

/* How many of `all` are shown, `most` unless --verbose. */
static size_t shown_of(const Screen *s, size_t all, size_t most)
{
    return s->pen.options.verbose || all < most ? all : most;
}

static void add_left_out(Screen *s, size_t left)
{
    if (left)
        add_line(s, 2, "and %zu more (--verbose)", left);
}

/* ---- what is wrong ---- */

/* "2 text; NCCL 2.21.5; 16 ranks on 2 nodes": inputs by kind, and the largest communicator. */
static void add_headline(Screen *s)
{
    size_t kinds[NCCL_KIND_COUNT] = {0};
    const char *version = "";
    CLEANUP(str_done) Str text = str_limited(NCCL_LINE_MAX);

    for (size_t i = 0; i < s->r->inputs.len; i++)
        kinds[s->r->inputs.at[i].kind]++;
    for (size_t i = 0; i < s->r->processes.len && !version[0]; i++)
        version = s->r->processes.at[i].version;
    for (size_t k = NCCL_KIND_COUNT; k-- > 0;)
        if (kinds[k])
            str_addf(&text, "%s%zu %s", text.len ? ", " : "", kinds[k], nccl_kind_words[k]);
    if (version[0])
        str_addf(&text, "; NCCL %s", version);
    if (s->r->world != NCCL_NO_INDEX) {
        const NcclComm *w = &s->r->comms.at[s->r->world];
        str_addf(&text, "; %" PRId64 " ranks", w->nranks);
        if (w->nodes > 0)
            str_addf(&text, " on %" PRId64 " node%s", w->nodes, human_plural((uint64_t)w->nodes));
        str_addf(&text, ", %zu communicator%s", s->r->comms.len, human_plural(s->r->comms.len));
    }
    pen_wrap(&s->pen, STYLE_BOLD, 0, text.text);
}

static void add_finding(Screen *s, const NcclFinding *f)
{
    static const Style styles[NCCL_SEVERITY_COUNT] = {STYLE_BAD, STYLE_WARN, STYLE_BOLD};
    Pen *pen = &s->pen;

    out_addc(&pen->out, '\n');
    pen_textf(pen, styles[f->severity], "%-8s", nccl_severity_words[f->severity]);
    pen_wrapf(pen, STYLE_PLAIN, 8, "%s [%s]", f->title, f->id);
    if (f->detail[0])
        add_words(s, 10, f->detail);
    for (unsigned i = 0; i < f->evidence_count; i++) {
        out_addf(&pen->out, "%10s", "");
        pen_wrapf(pen, STYLE_PLAIN, 12, "%s  %s", place_text(s, f->evidence[i].place), f->evidence[i].text);
    }
    if (f->total > f->evidence_count)
        add_line(s, 10, "and %" PRIu64 " more", f->total - f->evidence_count);
    if (f->setting[0])
        add_words(s, 10, arena_printf(&pen->arena, "set: %s", f->setting));
    add_words(s, 10, f->advice);
}

static void add_findings(Screen *s)
{
    for (size_t i = 0; i < s->r->findings.len; i++)
        add_finding(s, &s->r->findings.at[i]);
    if (s->r->findings.len)
        return;
    out_addc(&s->pen.out, '\n');
    pen_text(&s->pen, STYLE_GOOD, nccl_exit_code(s->r) == 0 ? "No problem found." : "No NCCL data found.");
    out_addc(&s->pen.out, '\n');
}

/* ---- flight recorder ---- */

static void add_group(Screen *s, const NcclGroup *g)
{
    static const struct {
        NcclState state;
        const char *word;
    } lists[] = {
        {NCCL_BEHIND, "behind"}, {NCCL_SCHEDULED, "called"}, {NCCL_STARTED, "inside"}, {NCCL_COMPLETED, "through"}};
    const char *verdict = "";

    if (g->stuck)
        verdict = arena_printf(&s->pen.arena, ": number %" PRId64 " %s is not complete", g->seq, g->op);
    else if (g->last_completed >= 0)
        verdict = arena_printf(&s->pen.arena, ": complete up to number %" PRId64, g->last_completed);
    add_line(s, 2, "group %s%s%s%s%s%s%s", g->name[0] ? g->name : "?", g->desc[0] ? " (" : "", g->desc,
             g->desc[0] ? ")" : "", g->members[0] ? " of ranks " : "", g->members, verdict);
    for (size_t k = 0; k < ARRAY_LEN(lists) && g->stuck; k++)
        if (g->ranks_by[lists[k].state][0])
            add_line(s, 4, "%-8s rank %s", lists[k].word, g->ranks_by[lists[k].state]);
}

static void add_groups(Screen *s)
{
    size_t shown = 0;

    if (s->r->dumps.len)
        pen_section(&s->pen, "Flight recorder", "");
    for (size_t i = 0; i < s->r->groups.len; i++)
        if (s->pen.options.verbose || s->r->groups.at[i].stuck || shown < BENCHES_SHOWN) {
            add_group(s, &s->r->groups.at[i]);
            shown++;
        }
    add_left_out(s, s->r->groups.len - shown);
}

/* ---- ways ---- */

static void add_ways(Screen *s)
{
    static const char *const scopes[] = {"unknown scope", "within a node", "between nodes"};

    if (s->r->classes.len)
        pen_section(&s->pen, "Transports", "");
    for (size_t i = 0; i < s->r->classes.len; i++) {
        const NcclClass *c = &s->r->classes.at[i];
        const char *name = c->gdr ? arena_printf(&s->pen.arena, "%s GPUDirect", c->name) : c->name;
        add_line(s, 2,
                 c->channels_min == c->channels_max ? "%-14s %-28s %6u pair%s  %u channels"
                                                    : "%-14s %-28s %6u pair%s  %u-%u channels",
                 scopes[c->scope], name, c->pairs, c->pairs == 1 ? " " : "s", c->channels_min, c->channels_max);
    }
}

static char way_letter(const NcclWay *way)
{
    static const char letters[] = {[NCCL_VIA_P2P] = 'P',    [NCCL_VIA_SHM] = 'S',     [NCCL_VIA_RDMA] = 'R',
                                   [NCCL_VIA_SOCKET] = 'T', [NCCL_VIA_COLLNET] = 'C', [NCCL_VIA_OTHER] = '?'};

    return way->gdr ? 'G' : letters[way->via];
}

/* Worse ways win a cell. */
static size_t rank_letter(char c)
{
    return strcspn(".PGCSRT?", (char[]){c, '\0'});
}

static void add_matrix(Screen *s)
{
    char cells[MATRIX_MAX][MATRIX_MAX];
    const NcclReport *r = s->r;
    int64_t n = r->world == NCCL_NO_INDEX ? 0 : r->comms.at[r->world].nranks;
    bool any = false;

    if (n < 2 || n > MATRIX_MAX || (size_t)n * 2 + 8 > s->pen.options.width)
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
    pen_section(&s->pen, "Rank to rank", "");
    add_words(s, 2, "P direct, S host memory, G RDMA with GPUDirect, R RDMA without, T TCP, C CollNet");
    for (int64_t from = 0; from < n; from++) {
        out_addf(&s->pen.out, "%6" PRId64 " ", from);
        for (int64_t to = 0; to < n; to++)
            out_addf(&s->pen.out, " %c", from == to ? '\\' : cells[from][to]);
        out_addc(&s->pen.out, '\n');
    }
}

/* ---- communicators, network, settings ---- */

static void add_comm(Screen *s, const NcclComm *c)
{
    CLEANUP(str_done) Str text = str_limited(NCCL_LINE_MAX);

    if (c->nodes > 0)
        str_addf(&text, ", %" PRId64 " node%s", c->nodes, human_plural((uint64_t)c->nodes));
    if (c->ring_channels)
        str_addf(&text, ", %u ring%s", c->ring_channels, human_plural(c->ring_channels));
    if (c->trees)
        str_addf(&text, ", %u tree%s", c->trees, human_plural(c->trees));
    str_addf(&text, "%s%s%s", c->nvls ? ", NVLS" : "", c->collnet ? ", CollNet" : "", c->mnnvl ? ", MNNVL" : "");
    add_line(s, 2, "%-20s %4" PRId64 " ranks, %u seen, %u complete%s", c->id, c->nranks, c->seen, c->complete,
             text.text);
}

static void add_comms(Screen *s)
{
    const NcclReport *r = s->r;
    const bool verbose = s->pen.options.verbose;
    size_t shown = shown_of(s, r->comms.len, COMMS_SHOWN);

    if (shown)
        pen_section(&s->pen, "Communicators", "");
    for (size_t i = 0; i < shown; i++) {
        const NcclComm *c = &r->comms.at[i];
        add_comm(s, c);
        for (size_t k = 0; k < c->rings.len && (verbose || k == 0); k++)
            add_words(s, 6,
                      arena_printf(&s->pen.arena, "ring %02u: %.*s", c->rings.at[k].channel, RING_SHOWN,
                                   c->rings.at[k].order));
        for (unsigned k = 0; k < c->pattern_count && (verbose || i == 0); k++)
            add_words(s, 6, c->patterns[k].text);
        arena_reset(&s->pen.arena);
    }
    add_left_out(s, r->comms.len - shown);
}

static bool has_network(const NcclProcess *p)
{
    return p->network[0] || p->ib[0] || p->sockets[0];
}

/* Whether an earlier process has the same network, on its own host or another. */
static bool is_network_known(const NcclReport *r, size_t process)
{
    const NcclProcess *p = &r->processes.at[process];

    for (size_t i = 0; i < process; i++) {
        const NcclProcess *q = &r->processes.at[i];

        if (has_network(q) &&
            (strcmp(p->host, q->host) == 0 || (strcmp(p->network, q->network) == 0 && strcmp(p->oob, q->oob) == 0 &&
                                               strcmp(p->ib, q->ib) == 0 && strcmp(p->sockets, q->sockets) == 0)))
            return true;
    }
    return false;
}

/* A line for each host that differs; verbose: for each process. */
static void add_networks(Screen *s)
{
    const NcclReport *r = s->r;
    size_t found = 0;

    for (size_t i = 0; i < r->processes.len; i++) {
        const NcclProcess *p = &r->processes.at[i];

        if (!has_network(p) || (!s->pen.options.verbose && is_network_known(r, i)))
            continue;
        if (found == 0)
            pen_section(&s->pen, "Network", "");
        if (found++ >= NETWORKS_SHOWN && !s->pen.options.verbose)
            continue;
        out_add(&s->pen.out, "  ");
        pen_wrapf(&s->pen, STYLE_PLAIN, 2, "%s: network %s; bootstrap over %s; sockets %s; RDMA %s", p->host,
                  text_or_dash(p->network), text_or_dash(p->oob), text_or_dash(p->sockets),
                  !p->ib[0] && p->ib_missing.line ? "none found" : text_or_dash(p->ib));
    }
    if (found > NETWORKS_SHOWN && !s->pen.options.verbose)
        add_left_out(s, found - NETWORKS_SHOWN);
}

static void add_settings(Screen *s)
{
    const NcclReport *r = s->r;
    size_t shown = shown_of(s, r->settings.len, SETTINGS_SHOWN);

    if (shown)
        pen_section(&s->pen, "Settings", "");
    for (size_t i = 0; i < shown; i++) {
        const NcclSetting *e = &r->settings.at[i];
        if (e->processes == r->processes.len)
            add_line(s, 2, "%s=%s", e->name, e->value);
        else
            add_line(s, 2, "%s=%s  (%u of %zu processes)", e->name, e->value, e->processes, r->processes.len);
    }
    add_left_out(s, r->settings.len - shown);
}

/* ---- nccl-tests ---- */

static const char *size_text(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    for (; value >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
        value /= 1024;
    snprintf(out, 32, "%.4g %s", value, units[unit]);
    return out;
}

static void add_bench(Screen *s, const NcclBench *b)
{
    char peak[32], half[32];
    CLEANUP(str_done) Str text = str_limited(NCCL_LINE_MAX);

    if (!isnan(b->peak_gbs))
        str_addf(&text, "  peak %.2f GB/s at %s, half of it from %s", b->peak_gbs, size_text(b->peak_size, peak),
                 size_text(b->half_size, half));
    if (!isnan(b->average_gbs))
        str_addf(&text, ", average %.4g", b->average_gbs);
    add_line(s, 2, "%-22s %4" PRId64 " ranks %3" PRId64 " node%s%s", b->name[0] ? b->name : "?", b->ranks, b->nodes,
             b->nodes == 1 ? " " : "s", text.len ? text.text : "");
}

static void add_benches(Screen *s)
{
    const NcclReport *r = s->r;
    const size_t shown = shown_of(s, r->benches.len, BENCHES_SHOWN);
    char size[32];

    if (shown)
        pen_section(&s->pen, "nccl-tests", "");
    for (size_t i = 0; i < shown; i++)
        add_bench(s, &r->benches.at[i]);
    add_left_out(s, r->benches.len - shown);
    for (size_t i = 0; i < r->scalings.len; i++) {
        const NcclScaling *e = &r->scalings.at[i];
        add_line(s, 2, "%s from %" PRId64 " to %" PRId64 " ranks at %s: %.0f %% of the bus bandwidth",
                 r->benches.at[e->bench].name, r->benches.at[e->base].ranks, r->benches.at[e->bench].ranks,
                 size_text(e->size, size), e->efficiency * 100);
    }
}

/* ---- topology as a tree ---- */

typedef struct Tree {
    Screen *s;
    const NcclTopology *t;
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
            str_add(tree->label, ", C2C to the CPU");
        if ((n->part != NCCL_PART_NVLINK && n->part != NCCL_PART_XGMI) || n->count <= 0)
            continue;
        if (told++ >= 2 && !nvswitch) {
            left++;
            continue;
        }
        str_addf(tree->label, ", %d %s%s to %s", n->count, n->part == NCCL_PART_NVLINK ? "NVLink" : "xGMI",
                 human_plural((uint64_t)n->count), nvswitch ? "NVSwitch" : n->target);
    }
    if (left)
        str_addf(tree->label, " and %d more", left);
}

static void add_gpu(const Tree *tree, const NcclNode *pci, uint32_t gpu)
{
    const NcclNode *g = gpu == NCCL_NO_INDEX ? NULL : node_at(tree, gpu);

    str_add(tree->label, "GPU ");
    if (g)
        str_addf(tree->label, "%d", g->dev);
    if (g && g->rank >= 0)
        str_addf(tree->label, " rank %d", g->rank);
    str_addf(tree->label, "%s%s", g ? "  " : "", pci->bus_id);
    add_link(tree, pci);
    if (g && g->gdr == 0)
        str_add(tree->label, "  no GPUDirect");
    if (g)
        add_links(tree, gpu);
}

static void add_net(const Tree *tree, const NcclNode *net)
{
    str_add(tree->label, net->name);
    if (net->net_mbps > 0)
        str_addf(tree->label, "  %g Gb/s", (double)net->net_mbps / 1000);
    str_add(tree->label, net->gdr == 0 ? "  no GPUDirect" : net->gdr > 0 ? "  GPUDirect" : "");
}

static void add_nic(const Tree *tree, const NcclNode *n, uint32_t net)
{
    str_add(tree->label, "NIC");
    if (net != NCCL_NO_INDEX) {
        str_addc(tree->label, ' ');
        add_net(tree, node_at(tree, net));
    }
    if (n->bus_id[0])
        str_addf(tree->label, "  %s", n->bus_id);
    add_link(tree, n);
}

/* The text of a node's line. True: its children follow. */
static bool add_label(const Tree *tree, uint32_t node)
{
    const NcclNode *n = node_at(tree, node);

    if (n->part == NCCL_PART_NET) {
        add_net(tree, n);
    } else if (nccl_node_is_gpu(tree->t, node)) {
        add_gpu(tree, n, nccl_node_gpu(tree->t, node));
    } else if (nccl_node_is_nic(tree->t, node) || n->part == NCCL_PART_NIC) {
        add_nic(tree, n, nccl_node_net(tree->t, node));
    } else if (n->part == NCCL_PART_CPU) {
        str_addf(tree->label, "CPU, NUMA node %d  %s %s", n->numa, n->arch, n->vendor);
        return true;
    } else {
        str_addf(tree->label, "switch %s", n->bus_id);
        add_link(tree, n);
        return true;
    }
    return false;
}

/* The prefix of a line, or of its continuation lines. */
static void add_branch(const Tree *tree, unsigned depth, bool more, bool first, Str *out)
{
    const bool utf8 = tree->s->pen.options.utf8;
    const char *down = utf8 ? "\u2502  " : "|  ";

    str_add(out, "  ");
    for (unsigned i = 0; i < depth; i++)
        str_add(out, tree->more[i] ? down : "   ");
    if (!first)
        str_add(out, more ? down : "   ");
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

static void add_tree_line(const Tree *tree, unsigned depth, bool more)
{
    char first_room[BRANCH_MAX], next_room[BRANCH_MAX];
    const size_t used = 2 + 3 * ((size_t)depth + 1);
    Str first, next;

    str_init_room(&first, first_room, sizeof first_room);
    str_init_room(&next, next_room, sizeof next_room);
    add_branch(tree, depth, more, true, &first);
    add_branch(tree, depth, more, false, &next);
    out_add(&tree->s->pen.out, first.text);
    add_rest(tree->s, used, used, next.text, tree->label->text);
}

static void draw_nodes(Tree *tree, uint32_t first, unsigned depth)
{
    for (uint32_t node = next_drawn(tree, first); node != NCCL_NO_INDEX && depth < DEPTH_MAX;) {
        uint32_t next = next_drawn(tree, node_at(tree, node)->sibling), shown = skip_chain(tree, node);
        str_clear(tree->label);
        bool opens = add_label(tree, shown);
        tree->more[depth] = next != NCCL_NO_INDEX;
        add_tree_line(tree, depth, tree->more[depth]);
        if (opens)
            draw_nodes(tree, node_at(tree, shown)->child, depth + 1);
        node = next;
    }
}

static void add_topologies(Screen *s)
{
    CLEANUP(str_done) Str label = str_limited(NCCL_LINE_MAX);

    for (size_t i = 0; i < s->r->topologies.len; i++) {
        const NcclTopology *t = &s->r->topologies.at[i];
        Tree tree = {.s = s, .t = t, .label = &label};
        out_addc(&s->pen.out, '\n');
        pen_wrapf(&s->pen, STYLE_BOLD, 0, "Topology %s: %u GPUs, %u RDMA adapters, %u NUMA nodes",
                  place_text(s, (NcclPlace){t->input, 0}), t->gpus, t->nics, t->numa_nodes);
        if (t->nodes.len && (i == 0 || s->pen.options.verbose))
            draw_nodes(&tree, t->nodes.at[0].child, 0);
    }
    if (s->r->graphs.len)
        pen_section(&s->pen, "Graphs", "");
    for (size_t i = 0; i < s->r->graphs.len; i++) {
        const NcclGraph *g = &s->r->graphs.at[i];
        add_line(s, 2, "graph %d: pattern %d, %d channels, %g GB/s within (%s), %g GB/s to the network (%s)", g->id,
                 g->pattern, g->channels, g->intra_gbs, g->type_intra, g->inter_gbs, g->type_inter);
    }
}

/* ---- the screen ---- */

static void add_unread_inputs(Screen *s)
{
    uint64_t torn = 0;

    for (size_t i = 0; i < s->r->inputs.len; i++) {
        const NcclInput *in = &s->r->inputs.at[i];
        torn += in->torn;
        if (in->kind == NCCL_KIND_OTHER && !in->trouble[0]) {
            out_addc(&s->pen.out, '\n');
            add_line(s, 0, "no NCCL data in %s", in->name);
        }
    }
    if (torn) {
        out_addc(&s->pen.out, '\n');
        add_line(s, 0, "%" PRIu64 " lines were torn and could not be read whole", torn);
    }
    if (s->r->left_out) {
        out_addc(&s->pen.out, '\n');
        add_line(s, 0, "%" PRIu64 " things were over a limit and left out", s->r->left_out);
    }
}

int nccl_report_text(const NcclReport *report, const ReportOptions *options, ReportSink sink, Err *err)
{
    static void (*const sections[])(Screen *) = {add_headline, add_findings,   add_groups,       add_ways,
                                                 add_matrix,   add_comms,      add_networks,     add_settings,
                                                 add_benches,  add_topologies, add_unread_inputs};
    Screen s = {.r = report};

    pen_init(&s.pen, options, sink, err);
    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        sections[i](&s);
        arena_reset(&s.pen.arena);
    }
    return pen_done(&s.pen);
}
