/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a NcclReport, and the tables of nccl-tests as CSV. Keys are stable; what is unknown is null. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "service/report/nccl.h"
#include "service/report/out.h"

static void next_text(Out *out, const char *text)
{
    out_addc(out, ',');
    cell_text(out, text);
}

static void next_u64(Out *out, uint64_t value)
{
    char text[NUMBER_U64_MAX];

    out_addc(out, ',');
    out_addn(out, text, number_write_u64(text, value));
}

static void next_i64(Out *out, int64_t value)
{
    out_addc(out, ',');
    out_i64(out, value);
}

static void next_double(Out *out, double value)
{
    char text[NUMBER_DOUBLE_MAX];

    out_addc(out, ',');
    if (isfinite(value))
        out_addn(out, text, number_write_double(text, value));
}

static void add_row(const NcclReport *r, const NcclBench *b, const NcclRow *row, bool in_place, Out *out)
{
    const NcclFigure *f = in_place ? &row->in : &row->out;

    if (isnan(f->time_us))
        return;
    cell_text(out, r->inputs.at[b->input].name);
    next_text(out, b->name);
    next_i64(out, b->ranks);
    next_i64(out, b->nodes);
    next_u64(out, row->size);
    next_u64(out, row->count);
    next_text(out, row->type);
    next_text(out, row->redop);
    next_i64(out, row->root);
    next_text(out, in_place ? "in-place" : "out-of-place");
    next_double(out, f->time_us);
    next_double(out, f->alg_gbs);
    next_double(out, f->bus_gbs);
    if (f->wrong < 0)
        out_addc(out, ',');
    else
        next_i64(out, f->wrong);
    out_addc(out, '\n');
}

void nccl_report_csv(const NcclReport *report, Str *text)
{
    Out out;

    out_init(&out, report_sink_str(text), NULL);
    out_add(&out, "file,test,ranks,nodes,size,count,type,redop,root,place,time_us,algbw_gbs,busbw_gbs,wrong\n");
    for (size_t i = 0; i < report->benches.len; i++)
        for (size_t k = 0; k < report->benches.at[i].rows.len; k++)
            for (int in_place = 0; in_place < 2; in_place++)
                add_row(report, &report->benches.at[i], &report->benches.at[i].rows.at[k], in_place, &out);
    out_done(&out); /* what did not fit is marked in `text` */
}

typedef struct Json {
    const NcclReport *r;
    Out out;
} Json;

static void open_json(Json *j, const char *name, char bracket)
{
    out_open(&j->out, name, bracket);
}

static void close_json(Json *j, char bracket)
{
    out_close(&j->out, bracket);
}

/* Empty: unknown. */
static void put_text(Json *j, const char *name, const char *text)
{
    out_json_text(&j->out, name, text[0] ? text : NULL);
}

static void put_u64(Json *j, const char *name, uint64_t value)
{
    out_json_u64(&j->out, name, value);
}

/* Below 0: unknown. */
static void put_int(Json *j, const char *name, int64_t value)
{
    if (value < 0)
        out_json_null(&j->out, name);
    else
        out_json_i64(&j->out, name, value);
}

static void put_double(Json *j, const char *name, double value)
{
    out_json_double(&j->out, name, value);
}

static void put_bool(Json *j, const char *name, bool value)
{
    out_json_bool(&j->out, name, value);
}

static void put_place(Json *j, NcclPlace place)
{
    put_text(j, "file", place.input < j->r->inputs.len ? j->r->inputs.at[place.input].name : "");
    put_int(j, "line", place.line ? (int64_t)place.line : NCCL_UNKNOWN);
}

static const char *scope_text(NcclScope scope)
{
    return scope == NCCL_SCOPE_NET ? "between-nodes" : scope == NCCL_SCOPE_NODE ? "within-node" : "";
}

static void put_findings(Json *j)
{
    open_json(j, "findings", '[');
    for (size_t i = 0; i < j->r->findings.len; i++) {
        const NcclFinding *f = &j->r->findings.at[i];
        open_json(j, NULL, '{');
        put_text(j, "id", f->id);
        put_text(j, "severity", nccl_severity_name(f->severity));
        put_text(j, "title", f->title);
        put_text(j, "detail", f->detail);
        put_text(j, "setting", f->setting);
        put_text(j, "advice", f->advice);
        put_u64(j, "count", f->total);
        open_json(j, "evidence", '[');
        for (unsigned k = 0; k < f->evidence_count; k++) {
            open_json(j, NULL, '{');
            put_place(j, f->evidence[k].place);
            put_text(j, "text", f->evidence[k].text);
            close_json(j, '}');
        }
        close_json(j, ']');
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_inputs(Json *j)
{
    open_json(j, "inputs", '[');
    for (size_t i = 0; i < j->r->inputs.len; i++) {
        const NcclInput *in = &j->r->inputs.at[i];
        open_json(j, NULL, '{');
        put_text(j, "file", in->name);
        put_text(j, "kind", nccl_kind_name(in->kind));
        put_u64(j, "bytes", in->bytes);
        put_u64(j, "lines", in->lines);
        put_u64(j, "used", in->used);
        put_u64(j, "torn", in->torn);
        put_text(j, "trouble", in->trouble);
        close_json(j, '}');
    }
    close_json(j, ']');
    put_u64(j, "left_out", j->r->left_out);
}

static void put_processes(Json *j)
{
    open_json(j, "processes", '[');
    for (size_t i = 0; i < j->r->processes.len; i++) {
        const NcclProcess *p = &j->r->processes.at[i];
        open_json(j, NULL, '{');
        put_text(j, "host", p->host);
        put_u64(j, "pid", p->pid);
        put_text(j, "version", p->version);
        put_text(j, "network", p->network);
        put_text(j, "plugin", p->plugin);
        put_text(j, "bootstrap_interface", p->oob);
        put_text(j, "sockets", p->sockets);
        put_text(j, "rdma", p->ib);
        put_u64(j, "rdma_devices", p->ib_devices);
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_comms(Json *j)
{
    open_json(j, "communicators", '[');
    for (size_t i = 0; i < j->r->comms.len; i++) {
        const NcclComm *c = &j->r->comms.at[i];
        open_json(j, NULL, '{');
        put_text(j, "id", c->id);
        put_bool(j, "world", i == j->r->world);
        put_int(j, "ranks", c->nranks);
        put_int(j, "nodes", c->nodes);
        put_u64(j, "seen", c->seen);
        put_u64(j, "complete", c->complete);
        put_text(j, "parent", c->parent);
        put_bool(j, "nvls", c->nvls);
        put_bool(j, "collnet", c->collnet);
        put_bool(j, "mnnvl", c->mnnvl);
        put_u64(j, "ring_channels", c->ring_channels);
        put_u64(j, "tree_channels", c->trees);
        open_json(j, "rings", '[');
        for (size_t k = 0; k < c->rings.len; k++) {
            open_json(j, NULL, '{');
            put_u64(j, "channel", c->rings.at[k].channel);
            put_text(j, "order", c->rings.at[k].order);
            close_json(j, '}');
        }
        close_json(j, ']');
        open_json(j, "patterns", '[');
        for (unsigned k = 0; k < c->pattern_count; k++)
            put_text(j, NULL, c->patterns[k]);
        close_json(j, ']');
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_trees(Json *j, const NcclMember *m)
{
    open_json(j, "trees", '[');
    for (unsigned i = 0; i < m->tree_count; i++) {
        open_json(j, NULL, '{');
        put_u64(j, "channel", m->trees[i].channel);
        put_int(j, "parent", m->trees[i].parent);
        open_json(j, "children", '[');
        for (size_t k = 0; k < sizeof m->trees[i].children / sizeof m->trees[i].children[0]; k++)
            if (m->trees[i].children[k] >= 0)
                put_int(j, NULL, m->trees[i].children[k]);
        close_json(j, ']');
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_ranks(Json *j)
{
    open_json(j, "ranks", '[');
    for (size_t i = 0; i < j->r->members.len; i++) {
        const NcclMember *m = &j->r->members.at[i];
        if (m->comm == NCCL_NO_INDEX)
            continue;
        open_json(j, NULL, '{');
        put_text(j, "communicator", j->r->comms.at[m->comm].id);
        put_int(j, "rank", m->rank);
        put_text(j, "host", j->r->processes.at[m->process].host);
        put_u64(j, "pid", j->r->processes.at[m->process].pid);
        put_int(j, "cuda_device", m->cuda_dev);
        put_int(j, "nvml_device", m->nvml_dev);
        put_text(j, "bus_id", m->bus_id);
        put_bool(j, "complete", m->complete);
        put_int(j, "coll_channels", m->coll_channels);
        put_int(j, "p2p_channels", m->p2p_channels);
        put_int(j, "nvls_channels", m->nvls_channels);
        put_double(j, "init_s", m->init_s < 0 ? NAN : m->init_s);
        put_text(j, "init_part", m->init_part);
        put_double(j, "init_part_s", m->init_s < 0 ? NAN : m->init_part_s);
        put_int(j, "last_op_count", m->op_count);
        put_text(j, "last_op", m->op);
        put_trees(j, m);
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_ways(Json *j)
{
    open_json(j, "ways", '[');
    for (size_t i = 0; i < j->r->classes.len; i++) {
        const NcclClass *c = &j->r->classes.at[i];
        open_json(j, NULL, '{');
        put_text(j, "transport", c->name);
        put_bool(j, "gpudirect", c->gdr);
        put_text(j, "scope", scope_text(c->scope));
        put_u64(j, "pairs", c->pairs);
        put_u64(j, "channels_min", c->channels_min);
        put_u64(j, "channels_max", c->channels_max);
        close_json(j, '}');
    }
    close_json(j, ']');
    open_json(j, "connections", '[');
    for (size_t i = 0; i < j->r->edges.len; i++) {
        const NcclEdge *e = &j->r->edges.at[i];
        const NcclWay *way = &j->r->ways.at[e->way];
        uint32_t comm = j->r->members.at[e->member].comm;
        open_json(j, NULL, '{');
        put_text(j, "communicator", comm == NCCL_NO_INDEX ? "" : j->r->comms.at[comm].id);
        put_int(j, "from", e->from);
        put_int(j, "to", e->to);
        put_text(j, "said_by", e->receive ? "receiver" : "sender");
        put_text(j, "transport", way->name);
        put_int(j, "device", way->device);
        put_bool(j, "gpudirect", way->gdr);
        put_text(j, "scope", scope_text(e->scope));
        put_u64(j, "channels", (uint64_t)__builtin_popcountll(e->channels));
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_settings(Json *j)
{
    open_json(j, "settings", '[');
    for (size_t i = 0; i < j->r->settings.len; i++) {
        const NcclSetting *e = &j->r->settings.at[i];
        open_json(j, NULL, '{');
        put_text(j, "name", e->name);
        put_text(j, "value", e->value);
        put_u64(j, "processes", e->processes);
        put_place(j, e->place);
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_figure(Json *j, const char *name, const NcclFigure *f)
{
    open_json(j, name, '{');
    put_double(j, "time_us", f->time_us);
    put_double(j, "algbw_gbs", f->alg_gbs);
    put_double(j, "busbw_gbs", f->bus_gbs);
    put_int(j, "wrong", f->wrong);
    close_json(j, '}');
}

static void put_benches(Json *j)
{
    open_json(j, "tests", '[');
    for (size_t i = 0; i < j->r->benches.len; i++) {
        const NcclBench *b = &j->r->benches.at[i];
        open_json(j, NULL, '{');
        put_text(j, "name", b->name);
        put_text(j, "file", j->r->inputs.at[b->input].name);
        put_int(j, "ranks", b->ranks);
        put_int(j, "nodes", b->nodes);
        put_double(j, "average_busbw_gbs", b->average_gbs);
        put_double(j, "peak_busbw_gbs", b->peak_gbs);
        put_u64(j, "peak_size", b->peak_size);
        put_u64(j, "half_peak_size", b->half_size);
        put_int(j, "out_of_bounds", b->out_of_bounds);
        put_bool(j, "concluded", b->concluded);
        open_json(j, "rows", '[');
        for (size_t k = 0; k < b->rows.len; k++) {
            const NcclRow *row = &b->rows.at[k];
            open_json(j, NULL, '{');
            put_u64(j, "size", row->size);
            put_u64(j, "count", row->count);
            put_text(j, "type", row->type);
            put_text(j, "redop", row->redop);
            put_int(j, "root", row->root);
            put_figure(j, "out_of_place", &row->out);
            put_figure(j, "in_place", &row->in);
            close_json(j, '}');
        }
        close_json(j, ']');
        close_json(j, '}');
    }
    close_json(j, ']');
    open_json(j, "scaling", '[');
    for (size_t i = 0; i < j->r->scalings.len; i++) {
        const NcclScaling *e = &j->r->scalings.at[i];
        open_json(j, NULL, '{');
        const NcclBench *from = &j->r->benches.at[e->base], *to = &j->r->benches.at[e->bench];
        put_text(j, "name", to->name);
        put_text(j, "from_file", j->r->inputs.at[from->input].name);
        put_text(j, "to_file", j->r->inputs.at[to->input].name);
        put_int(j, "from_ranks", from->ranks);
        put_int(j, "to_ranks", to->ranks);
        put_u64(j, "size", e->size);
        put_double(j, "efficiency", e->efficiency);
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_nodes(Json *j, const NcclTopology *t)
{
    static const char *const parts[] = {"system", "cpu", "pci", "gpu", "nic", "net", "nvlink", "c2c", "xgmi", "other"};

    open_json(j, "nodes", '[');
    for (size_t i = 0; i < t->nodes.len; i++) {
        const NcclNode *n = &t->nodes.at[i];
        open_json(j, NULL, '{');
        put_text(j, "part", parts[n->part]);
        put_int(j, "parent", n->parent == NCCL_NO_INDEX ? NCCL_UNKNOWN : (int64_t)n->parent);
        put_text(j, "bus_id", n->bus_id);
        put_text(j, "name", n->name);
        put_text(j, "target", n->target);
        put_double(j, "link_gts", n->gts > 0 ? n->gts : NAN);
        put_int(j, "link_width", n->width > 0 ? n->width : NCCL_UNKNOWN);
        put_int(j, "numa", n->numa);
        put_int(j, "device", n->dev);
        put_int(j, "rank", n->rank);
        put_int(j, "gdr", n->gdr);
        put_int(j, "count", n->count);
        put_int(j, "speed", n->net_mbps);
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_topologies(Json *j)
{
    open_json(j, "topologies", '[');
    for (size_t i = 0; i < j->r->topologies.len; i++) {
        const NcclTopology *t = &j->r->topologies.at[i];
        open_json(j, NULL, '{');
        put_text(j, "file", j->r->inputs.at[t->input].name);
        put_u64(j, "gpus", t->gpus);
        put_u64(j, "rdma_adapters", t->nics);
        put_u64(j, "numa_nodes", t->numa_nodes);
        put_u64(j, "links", t->links);
        put_nodes(j, t);
        close_json(j, '}');
    }
    close_json(j, ']');
    open_json(j, "graphs", '[');
    for (size_t i = 0; i < j->r->graphs.len; i++) {
        const NcclGraph *g = &j->r->graphs.at[i];
        open_json(j, NULL, '{');
        put_text(j, "file", j->r->inputs.at[g->input].name);
        put_int(j, "id", g->id);
        put_int(j, "pattern", g->pattern);
        put_int(j, "channels", g->channels);
        put_double(j, "intra_gbs", g->intra_gbs);
        put_double(j, "inter_gbs", g->inter_gbs);
        put_text(j, "type_intra", g->type_intra);
        put_text(j, "type_inter", g->type_inter);
        close_json(j, '}');
    }
    close_json(j, ']');
}

static void put_flight(Json *j)
{
    open_json(j, "flight_recorder", '{');
    open_json(j, "dumps", '[');
    for (size_t i = 0; i < j->r->dumps.len; i++) {
        const NcclDump *d = &j->r->dumps.at[i];
        open_json(j, NULL, '{');
        put_text(j, "file", j->r->inputs.at[d->input].name);
        put_int(j, "rank", d->rank);
        put_bool(j, "rank_known", d->rank_known);
        put_bool(j, "used", d->used);
        put_text(j, "version", d->version);
        put_text(j, "nccl_version", d->nccl_version);
        put_u64(j, "calls", d->calls);
        close_json(j, '}');
    }
    close_json(j, ']');
    open_json(j, "groups", '[');
    for (size_t i = 0; i < j->r->groups.len; i++) {
        const NcclGroup *g = &j->r->groups.at[i];
        open_json(j, NULL, '{');
        put_text(j, "name", g->name);
        put_text(j, "description", g->desc);
        put_text(j, "ranks", g->members);
        put_u64(j, "calls", g->calls);
        put_bool(j, "stuck", g->stuck);
        put_int(j, "sequence", g->seq);
        put_text(j, "operation", g->op);
        put_int(j, "last_completed", g->last_completed);
        put_text(j, "behind", g->behind);
        put_text(j, "scheduled", g->scheduled);
        put_text(j, "started", g->started);
        put_text(j, "completed", g->completed);
        put_text(j, "without_dump", g->missing);
        put_text(j, "waits_for", g->waits_for);
        close_json(j, '}');
    }
    close_json(j, ']');
    close_json(j, '}');
}

void nccl_report_json(const NcclReport *report, Str *out)
{
    static const char *const results[] = {"fine", "finding", "", "unknown"};
    Json j = {.r = report};

    out_init(&j.out, report_sink_str(out), NULL);
    open_json(&j, NULL, '{');
    put_u64(&j, "version", 1);
    put_text(&j, "result", results[nccl_exit_code(report)]);
    put_findings(&j);
    put_inputs(&j);
    put_processes(&j);
    put_comms(&j);
    put_ranks(&j);
    put_ways(&j);
    put_settings(&j);
    put_benches(&j);
    put_topologies(&j);
    put_flight(&j);
    close_json(&j, '}');
    out_addc(&j.out, '\n');
    out_done(&j.out); /* what did not fit is marked in `out` */
}
