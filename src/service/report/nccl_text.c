/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of `stoker nccl`: what is wrong first, then what was found out. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "service/report/nccl.h"

enum {
    WIDTH_MIN = 60,
    WIDTH_MAX = 200,
    COMMS_SHOWN = 4,
    SETTINGS_SHOWN = 24,
    MATRIX_MAX = 48,
    BENCHES_SHOWN = 16,
    TEXT_CAP = 256
};

typedef struct Screen {
    const NcclReport *r;
    const NcclStyle *style;
    Str *out;
    size_t width;
} Screen;

static void colour(const Screen *s, const char *code)
{
    if (s->style->colour)
        str_addf(s->out, "\033[%sm", code);
}

static void heading(const Screen *s, const char *text)
{
    str_addc(s->out, '\n');
    colour(s, "1");
    str_add(s->out, text);
    colour(s, "0");
    str_addc(s->out, '\n');
}

/* Words of `text`, wrapped; each line begins with `indent` blanks, the first has `used` columns already. */
static void wrap(const Screen *s, const char *text, size_t indent, size_t used)
{
    size_t column = used;
    bool fresh = used <= indent;

    if (used == 0)
        str_addf(s->out, "%*s", (int)indent, ""), column = indent;
    while (*text) {
        size_t len = strcspn(text, " "), columns = 0;
        for (size_t i = 0; i < len; i++)
            columns += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (!fresh && column + 1 + columns > s->width) {
            str_addf(s->out, "\n%*s", (int)indent, "");
            column = indent;
            fresh = true;
        }
        if (!fresh)
            str_addc(s->out, ' ');
        str_addn(s->out, text, len);
        column += columns + !fresh;
        fresh = false;
        text += len;
        while (*text == ' ')
            text++;
    }
    str_addc(s->out, '\n');
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

static void finding(const Screen *s, const NcclFinding *f)
{
    static const char *const colours[] = {"1;31", "1;33", "1"};
    char room[TEXT_CAP], line[TEXT_CAP * 4];
    const char *name = nccl_severity_name(f->severity);

    colour(s, colours[f->severity]);
    str_addf(s->out, "%-8s", name);
    colour(s, "0");
    snprintf(line, sizeof line, "%s [%s]", f->title, f->id);
    wrap(s, line, 8, 8);
    if (f->detail[0])
        wrap(s, f->detail, 10, 0);
    for (unsigned i = 0; i < f->evidence_count; i++) {
        snprintf(line, sizeof line, "%s  %.700s", place_text(s, f->evidence[i].place, room), f->evidence[i].text);
        str_addf(s->out, "%10s", "");
        wrap(s, line, 12, 10);
    }
    if (f->total > f->evidence_count)
        str_addf(s->out, "%10sand %" PRIu64 " more\n", "", f->total - f->evidence_count);
    if (f->setting[0]) {
        snprintf(line, sizeof line, "set: %s", f->setting);
        wrap(s, line, 10, 0);
    }
    wrap(s, f->advice, 10, 0);
}

static void findings(const Screen *s)
{
    for (size_t i = 0; i < s->r->findings.len; i++) {
        str_addc(s->out, '\n');
        finding(s, &s->r->findings.at[i]);
    }
    if (s->r->findings.len == 0) {
        str_add(s->out, "\n");
        colour(s, "32");
        str_add(s->out, nccl_code(s->r) == 0 ? "Nothing wrong was found." : "Nothing that this reads was found.");
        colour(s, "0");
        str_addc(s->out, '\n');
    }
}

/* "NCCL 2.21.5, 16 ranks, 2 nodes" and how many inputs of which kind. */
static void headline(const Screen *s)
{
    size_t kinds[NCCL_KIND_OTHER + 1] = {0};
    const char *version = "";

    for (size_t i = 0; i < s->r->inputs.len; i++)
        kinds[s->r->inputs.at[i].kind]++;
    for (size_t i = 0; i < s->r->processes.len && !version[0]; i++)
        version = s->r->processes.at[i].version;
    colour(s, "1");
    for (size_t k = NCCL_KIND_OTHER + 1, told = 0; k-- > 0;)
        if (kinds[k])
            str_addf(s->out, "%s%zu %s", told++ ? ", " : "", kinds[k], nccl_kind_name((NcclKind)k));
    if (version[0])
        str_addf(s->out, "; NCCL %s", version);
    if (s->r->world != NCCL_NO_INDEX) {
        const NcclComm *w = &s->r->comms.at[s->r->world];
        str_addf(s->out, "; %" PRId64 " ranks", w->nranks);
        if (w->nodes > 0)
            str_addf(s->out, " on %" PRId64 " node%s", w->nodes, w->nodes == 1 ? "" : "s");
        str_addf(s->out, ", %zu communicator%s", s->r->comms.len, s->r->comms.len == 1 ? "" : "s");
    }
    colour(s, "0");
    str_addc(s->out, '\n');
}

static const char *scope_text(NcclScope scope)
{
    return scope == NCCL_SCOPE_NET ? "between nodes" : scope == NCCL_SCOPE_NODE ? "within a node" : "unknown where";
}

static void ways(const Screen *s)
{
    if (s->r->classes.len == 0)
        return;
    heading(s, "Ways");
    for (size_t i = 0; i < s->r->classes.len; i++) {
        const NcclClass *c = &s->r->classes.at[i];
        char name[TEXT_CAP];
        snprintf(name, sizeof name, "%.200s%s", c->name, c->gdr ? " GPUDirect" : "");
        str_addf(s->out, "  %-14s %-28s %6u pair%s", scope_text(c->scope), name, c->pairs, c->pairs == 1 ? " " : "s");
        str_addf(s->out, c->channels_min == c->channels_max ? "  %u channels" : "  %u-%u channels", c->channels_min,
                 c->channels_max);
        str_addc(s->out, '\n');
    }
}

static char letter(const NcclWay *way)
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
static int badness(char c)
{
    static const char order[] = ".PGCSRT?";
    const char *at = strchr(order, c);

    return at ? (int)(at - order) : 0;
}

static void matrix(const Screen *s)
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
        char c = letter(&r->ways.at[e->way]);
        if (r->members.at[e->member].comm != r->world || e->from >= n || e->to >= n)
            continue;
        any = true;
        if (badness(c) > badness(cells[e->from][e->to]))
            cells[e->from][e->to] = c;
    }
    if (!any)
        return;
    heading(s, "Rank to rank");
    str_add(s->out, "  ");
    wrap(s, "P direct, S host memory, G RDMA with GPUDirect, R RDMA without, T TCP, C CollNet", 2, 2);
    for (int64_t from = 0; from < n; from++) {
        str_addf(s->out, "%6" PRId64 " ", from);
        for (int64_t to = 0; to < n; to++)
            str_addf(s->out, " %c", from == to ? '\\' : cells[from][to]);
        str_addc(s->out, '\n');
    }
}

static void comms(const Screen *s)
{
    const NcclReport *r = s->r;
    size_t shown = s->style->verbose || r->comms.len < COMMS_SHOWN ? r->comms.len : COMMS_SHOWN;
    char line[1024];

    if (shown == 0)
        return;
    heading(s, "Communicators");
    for (size_t i = 0; i < shown; i++) {
        const NcclComm *c = &r->comms.at[i];
        str_addf(s->out, "  %-20s %4" PRId64 " ranks, %u seen, %u complete", c->id, c->nranks, c->seen, c->complete);
        if (c->nodes > 0)
            str_addf(s->out, ", %" PRId64 " node%s", c->nodes, c->nodes == 1 ? "" : "s");
        if (c->ring_channels)
            str_addf(s->out, ", %u ring%s", c->ring_channels, c->ring_channels == 1 ? "" : "s");
        if (c->trees)
            str_addf(s->out, ", %u tree%s", c->trees, c->trees == 1 ? "" : "s");
        str_addf(s->out, "%s%s%s\n", c->nvls ? ", NVLS" : "", c->collnet ? ", CollNet" : "", c->mnnvl ? ", MNNVL" : "");
        for (size_t k = 0; k < c->rings.len && (s->style->verbose || k == 0); k++) {
            snprintf(line, sizeof line, "ring %02u: %.900s", c->rings.at[k].channel, c->rings.at[k].order);
            wrap(s, line, 6, 0);
        }
        for (unsigned k = 0; k < c->pattern_count && (s->style->verbose || i == 0); k++)
            wrap(s, c->patterns[k], 6, 0);
    }
    if (shown < r->comms.len)
        str_addf(s->out, "  and %zu more (--verbose)\n", r->comms.len - shown);
}

static void networks(const Screen *s)
{
    const NcclReport *r = s->r;
    char line[TEXT_CAP * 4];

    for (size_t i = 0, shown = 0; i < r->processes.len && (s->style->verbose || shown < 1); i++) {
        const NcclProcess *p = &r->processes.at[i];
        if (!p->network[0] && !p->ib[0] && !p->sockets[0])
            continue;
        if (shown++ == 0)
            heading(s, "Network");
        snprintf(line, sizeof line, "%.100s: network %.60s; bootstrap over %.40s; sockets %.200s; RDMA %.400s", p->host,
                 p->network[0] ? p->network : "-", p->oob[0] ? p->oob : "-", p->sockets[0] ? p->sockets : "-",
                 p->ib[0]        ? p->ib
                 : p->ib_missing ? "none found"
                                 : "-");
        wrap(s, line, 2, 0);
    }
}

static void settings(const Screen *s)
{
    const NcclReport *r = s->r;
    size_t shown = s->style->verbose || r->settings.len < SETTINGS_SHOWN ? r->settings.len : SETTINGS_SHOWN;

    if (shown == 0)
        return;
    heading(s, "Settings");
    for (size_t i = 0; i < shown; i++) {
        const NcclSetting *e = &r->settings.at[i];
        str_addf(s->out, "  %s=%s", e->name, e->value);
        str_addf(s->out, e->processes == r->processes.len ? "\n" : "  (%u of %zu processes)\n", e->processes,
                 r->processes.len);
    }
    if (shown < r->settings.len)
        str_addf(s->out, "  and %zu more (--verbose)\n", r->settings.len - shown);
}

static void topologies(const Screen *s)
{
    char line[TEXT_CAP * 2], room[TEXT_CAP];

    for (size_t i = 0; i < s->r->topologies.len; i++) {
        const NcclTopology *t = &s->r->topologies.at[i];
        snprintf(line, sizeof line, "Topology %s: %u GPUs, %u RDMA adapters, %u NUMA nodes",
                 place_text(s, (NcclPlace){t->input, 0}, room), t->gpus, t->nics, t->numa_nodes);
        heading(s, line);
        if (i == 0 || s->style->verbose)
            nccl_report_tree(t, s->style, s->out);
    }
    if (s->r->graphs.len)
        heading(s, "Graphs");
    for (size_t i = 0; i < s->r->graphs.len; i++) {
        const NcclGraph *g = &s->r->graphs.at[i];
        str_addf(s->out, "  graph %d: pattern %d, %d channels, %g GB/s within (%s), %g GB/s to the network (%s)\n",
                 g->id, g->pattern, g->channels, g->intra_gbs, g->type_intra, g->inter_gbs, g->type_inter);
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

static void benches(const Screen *s)
{
    const NcclReport *r = s->r;
    char peak[32], half[32];

    if (r->benches.len)
        heading(s, "nccl-tests");
    for (size_t i = 0; i < r->benches.len && (s->style->verbose || i < BENCHES_SHOWN); i++) {
        const NcclBench *b = &r->benches.at[i];
        str_addf(s->out, "  %-22s %4" PRId64 " ranks %3" PRId64 " node%s", b->name[0] ? b->name : "?", b->ranks,
                 b->nodes, b->nodes == 1 ? " " : "s");
        if (!isnan(b->peak_gbs))
            str_addf(s->out, "  peak %.2f GB/s at %s, half of it from %s", b->peak_gbs, size_text(b->peak_size, peak),
                     size_text(b->half_size, half));
        if (!isnan(b->average_gbs))
            str_addf(s->out, ", average %.4g", b->average_gbs);
        str_addc(s->out, '\n');
    }
    for (size_t i = 0; i < r->scalings.len; i++) {
        const NcclScaling *e = &r->scalings.at[i];
        str_addf(s->out, "  %s from %" PRId64 " to %" PRId64 " ranks at %s: %.0f %% of the bus bandwidth\n",
                 r->benches.at[e->bench].name, r->benches.at[e->base].ranks, r->benches.at[e->bench].ranks,
                 size_text(e->size, peak), e->efficiency * 100);
    }
}

static void groups(const Screen *s)
{
    const NcclReport *r = s->r;

    if (r->dumps.len)
        heading(s, "Flight recorder");
    for (size_t i = 0, shown = 0; i < r->groups.len; i++) {
        const NcclGroup *g = &r->groups.at[i];
        if (!s->style->verbose && !g->stuck && shown >= BENCHES_SHOWN)
            continue;
        shown++;
        str_addf(s->out, "  group %s%s%s%s", g->name[0] ? g->name : "?", g->desc[0] ? " (" : "", g->desc,
                 g->desc[0] ? ")" : "");
        if (g->members[0])
            str_addf(s->out, " of ranks %s", g->members);
        if (g->stuck)
            str_addf(s->out, ": number %" PRId64 " %s is not complete", g->seq, g->op);
        else if (g->last_completed >= 0)
            str_addf(s->out, ": complete up to number %" PRId64, g->last_completed);
        str_addc(s->out, '\n');
        const char *const lists[][2] = {
            {"behind", g->behind}, {"called", g->scheduled}, {"inside", g->started}, {"through", g->completed}};
        for (size_t k = 0; k < sizeof lists / sizeof lists[0] && g->stuck; k++)
            if (lists[k][1][0])
                str_addf(s->out, "    %-8s rank %s\n", lists[k][0], lists[k][1]);
    }
}

static void rest(const Screen *s)
{
    uint64_t torn = 0;

    for (size_t i = 0; i < s->r->inputs.len; i++) {
        const NcclInput *in = &s->r->inputs.at[i];
        torn += in->torn;
        if (in->kind == NCCL_KIND_OTHER && !in->trouble[0])
            str_addf(s->out, "\n%s: nothing of NCCL in it\n", in->name);
    }
    if (torn)
        str_addf(s->out, "\n%" PRIu64 " lines were torn and could not be read whole\n", torn);
    if (s->r->left_out)
        str_addf(s->out, "\n%" PRIu64 " things were over a limit and left out\n", s->r->left_out);
}

void nccl_report_text(const NcclReport *report, const NcclStyle *style, Str *out)
{
    size_t width = style->width < WIDTH_MIN ? WIDTH_MIN : style->width > WIDTH_MAX ? WIDTH_MAX : style->width;
    const Screen s = {.r = report, .style = style, .out = out, .width = width};

    headline(&s);
    findings(&s);
    groups(&s);
    ways(&s);
    matrix(&s);
    comms(&s);
    networks(&s);
    settings(&s);
    benches(&s);
    topologies(&s);
    rest(&s);
}
