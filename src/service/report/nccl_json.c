/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a NcclReport, and the tables of nccl-tests as CSV. Keys are stable; what is unknown is null. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
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
    Str *out;
} Json;

/* Empty: unknown. */
static void put_text(Json *j, const char *name, const char *text)
{
    json_add_text(j->out, name, text[0] ? text : NULL);
}

/* Below 0: unknown. */
static void put_int(Json *j, const char *name, int64_t value)
{
    if (value < 0)
        json_add_null(j->out, name);
    else
        json_add_i64(j->out, name, value);
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
    json_open(j->out, "findings", '[');
    for (size_t i = 0; i < j->r->findings.len; i++) {
        const NcclFinding *f = &j->r->findings.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "id", f->id);
        put_text(j, "severity", nccl_severity_name(f->severity));
        put_text(j, "title", f->title);
        put_text(j, "detail", f->detail);
        put_text(j, "setting", f->setting);
        put_text(j, "advice", f->advice);
        json_add_u64(j->out, "count", f->total);
        json_open(j->out, "evidence", '[');
        for (unsigned k = 0; k < f->evidence_count; k++) {
            json_open(j->out, NULL, '{');
            put_place(j, f->evidence[k].place);
            put_text(j, "text", f->evidence[k].text);
            json_close(j->out, '}');
        }
        json_close(j->out, ']');
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_inputs(Json *j)
{
    json_open(j->out, "inputs", '[');
    for (size_t i = 0; i < j->r->inputs.len; i++) {
        const NcclInput *in = &j->r->inputs.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "file", in->name);
        put_text(j, "kind", nccl_kind_name(in->kind));
        json_add_u64(j->out, "bytes", in->bytes);
        json_add_u64(j->out, "lines", in->lines);
        json_add_u64(j->out, "used", in->used);
        json_add_u64(j->out, "torn", in->torn);
        put_text(j, "trouble", in->trouble);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
    json_add_u64(j->out, "left_out", j->r->left_out);
}

static void put_processes(Json *j)
{
    json_open(j->out, "processes", '[');
    for (size_t i = 0; i < j->r->processes.len; i++) {
        const NcclProcess *p = &j->r->processes.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "host", p->host);
        json_add_u64(j->out, "pid", p->pid);
        put_text(j, "version", p->version);
        put_text(j, "network", p->network);
        put_text(j, "plugin", p->plugin);
        put_text(j, "bootstrap_interface", p->oob);
        put_text(j, "sockets", p->sockets);
        put_text(j, "rdma", p->ib);
        json_add_u64(j->out, "rdma_devices", p->ib_devices);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_comms(Json *j)
{
    json_open(j->out, "communicators", '[');
    for (size_t i = 0; i < j->r->comms.len; i++) {
        const NcclComm *c = &j->r->comms.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "id", c->id);
        json_add_bool(j->out, "world", i == j->r->world);
        put_int(j, "ranks", c->nranks);
        put_int(j, "nodes", c->nodes);
        json_add_u64(j->out, "seen", c->seen);
        json_add_u64(j->out, "complete", c->complete);
        put_text(j, "parent", c->parent);
        json_add_bool(j->out, "nvls", c->nvls);
        json_add_bool(j->out, "collnet", c->collnet);
        json_add_bool(j->out, "mnnvl", c->mnnvl);
        json_add_u64(j->out, "ring_channels", c->ring_channels);
        json_add_u64(j->out, "tree_channels", c->trees);
        json_open(j->out, "rings", '[');
        for (size_t k = 0; k < c->rings.len; k++) {
            json_open(j->out, NULL, '{');
            json_add_u64(j->out, "channel", c->rings.at[k].channel);
            put_text(j, "order", c->rings.at[k].order);
            json_close(j->out, '}');
        }
        json_close(j->out, ']');
        json_open(j->out, "patterns", '[');
        for (unsigned k = 0; k < c->pattern_count; k++)
            put_text(j, NULL, c->patterns[k]);
        json_close(j->out, ']');
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_trees(Json *j, const NcclMember *m)
{
    json_open(j->out, "trees", '[');
    for (unsigned i = 0; i < m->tree_count; i++) {
        json_open(j->out, NULL, '{');
        json_add_u64(j->out, "channel", m->trees[i].channel);
        put_int(j, "parent", m->trees[i].parent);
        json_open(j->out, "children", '[');
        for (size_t k = 0; k < sizeof m->trees[i].children / sizeof m->trees[i].children[0]; k++)
            if (m->trees[i].children[k] >= 0)
                put_int(j, NULL, m->trees[i].children[k]);
        json_close(j->out, ']');
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_ranks(Json *j)
{
    json_open(j->out, "ranks", '[');
    for (size_t i = 0; i < j->r->members.len; i++) {
        const NcclMember *m = &j->r->members.at[i];
        if (m->comm == NCCL_NO_INDEX)
            continue;
        json_open(j->out, NULL, '{');
        put_text(j, "communicator", j->r->comms.at[m->comm].id);
        put_int(j, "rank", m->rank);
        put_text(j, "host", j->r->processes.at[m->process].host);
        json_add_u64(j->out, "pid", j->r->processes.at[m->process].pid);
        put_int(j, "cuda_device", m->cuda_dev);
        put_int(j, "nvml_device", m->nvml_dev);
        put_text(j, "bus_id", m->bus_id);
        json_add_bool(j->out, "complete", m->complete);
        put_int(j, "coll_channels", m->coll_channels);
        put_int(j, "p2p_channels", m->p2p_channels);
        put_int(j, "nvls_channels", m->nvls_channels);
        json_add_double(j->out, "init_s", m->init_s < 0 ? NAN : m->init_s);
        put_text(j, "init_part", m->init_part);
        json_add_double(j->out, "init_part_s", m->init_s < 0 ? NAN : m->init_part_s);
        put_int(j, "last_op_count", m->op_count);
        put_text(j, "last_op", m->op);
        put_trees(j, m);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_ways(Json *j)
{
    json_open(j->out, "ways", '[');
    for (size_t i = 0; i < j->r->classes.len; i++) {
        const NcclClass *c = &j->r->classes.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "transport", c->name);
        json_add_bool(j->out, "gpudirect", c->gdr);
        put_text(j, "scope", scope_text(c->scope));
        json_add_u64(j->out, "pairs", c->pairs);
        json_add_u64(j->out, "channels_min", c->channels_min);
        json_add_u64(j->out, "channels_max", c->channels_max);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
    json_open(j->out, "connections", '[');
    for (size_t i = 0; i < j->r->edges.len; i++) {
        const NcclEdge *e = &j->r->edges.at[i];
        const NcclWay *way = &j->r->ways.at[e->way];
        uint32_t comm = j->r->members.at[e->member].comm;
        json_open(j->out, NULL, '{');
        put_text(j, "communicator", comm == NCCL_NO_INDEX ? "" : j->r->comms.at[comm].id);
        put_int(j, "from", e->from);
        put_int(j, "to", e->to);
        put_text(j, "said_by", e->receive ? "receiver" : "sender");
        put_text(j, "transport", way->name);
        put_int(j, "device", way->device);
        json_add_bool(j->out, "gpudirect", way->gdr);
        put_text(j, "scope", scope_text(e->scope));
        json_add_u64(j->out, "channels", (uint64_t)__builtin_popcountll(e->channels));
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_settings(Json *j)
{
    json_open(j->out, "settings", '[');
    for (size_t i = 0; i < j->r->settings.len; i++) {
        const NcclSetting *e = &j->r->settings.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "name", e->name);
        put_text(j, "value", e->value);
        json_add_u64(j->out, "processes", e->processes);
        put_place(j, e->place);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_figure(Json *j, const char *name, const NcclFigure *f)
{
    json_open(j->out, name, '{');
    json_add_double(j->out, "time_us", f->time_us);
    json_add_double(j->out, "algbw_gbs", f->alg_gbs);
    json_add_double(j->out, "busbw_gbs", f->bus_gbs);
    put_int(j, "wrong", f->wrong);
    json_close(j->out, '}');
}

static void put_benches(Json *j)
{
    json_open(j->out, "tests", '[');
    for (size_t i = 0; i < j->r->benches.len; i++) {
        const NcclBench *b = &j->r->benches.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "name", b->name);
        put_text(j, "file", j->r->inputs.at[b->input].name);
        put_int(j, "ranks", b->ranks);
        put_int(j, "nodes", b->nodes);
        json_add_double(j->out, "average_busbw_gbs", b->average_gbs);
        json_add_double(j->out, "peak_busbw_gbs", b->peak_gbs);
        json_add_u64(j->out, "peak_size", b->peak_size);
        json_add_u64(j->out, "half_peak_size", b->half_size);
        put_int(j, "out_of_bounds", b->out_of_bounds);
        json_add_bool(j->out, "concluded", b->concluded);
        json_open(j->out, "rows", '[');
        for (size_t k = 0; k < b->rows.len; k++) {
            const NcclRow *row = &b->rows.at[k];
            json_open(j->out, NULL, '{');
            json_add_u64(j->out, "size", row->size);
            json_add_u64(j->out, "count", row->count);
            put_text(j, "type", row->type);
            put_text(j, "redop", row->redop);
            put_int(j, "root", row->root);
            put_figure(j, "out_of_place", &row->out);
            put_figure(j, "in_place", &row->in);
            json_close(j->out, '}');
        }
        json_close(j->out, ']');
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
    json_open(j->out, "scaling", '[');
    for (size_t i = 0; i < j->r->scalings.len; i++) {
        const NcclScaling *e = &j->r->scalings.at[i];
        json_open(j->out, NULL, '{');
        const NcclBench *from = &j->r->benches.at[e->base], *to = &j->r->benches.at[e->bench];
        put_text(j, "name", to->name);
        put_text(j, "from_file", j->r->inputs.at[from->input].name);
        put_text(j, "to_file", j->r->inputs.at[to->input].name);
        put_int(j, "from_ranks", from->ranks);
        put_int(j, "to_ranks", to->ranks);
        json_add_u64(j->out, "size", e->size);
        json_add_double(j->out, "efficiency", e->efficiency);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_nodes(Json *j, const NcclTopology *t)
{
    static const char *const parts[] = {"system", "cpu", "pci", "gpu", "nic", "net", "nvlink", "c2c", "xgmi", "other"};

    json_open(j->out, "nodes", '[');
    for (size_t i = 0; i < t->nodes.len; i++) {
        const NcclNode *n = &t->nodes.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "part", parts[n->part]);
        put_int(j, "parent", n->parent == NCCL_NO_INDEX ? NCCL_UNKNOWN : (int64_t)n->parent);
        put_text(j, "bus_id", n->bus_id);
        put_text(j, "name", n->name);
        put_text(j, "target", n->target);
        json_add_double(j->out, "link_gts", n->gts > 0 ? n->gts : NAN);
        put_int(j, "link_width", n->width > 0 ? n->width : NCCL_UNKNOWN);
        put_int(j, "numa", n->numa);
        put_int(j, "device", n->dev);
        put_int(j, "rank", n->rank);
        put_int(j, "gdr", n->gdr);
        put_int(j, "count", n->count);
        put_int(j, "speed", n->net_mbps);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_topologies(Json *j)
{
    json_open(j->out, "topologies", '[');
    for (size_t i = 0; i < j->r->topologies.len; i++) {
        const NcclTopology *t = &j->r->topologies.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "file", j->r->inputs.at[t->input].name);
        json_add_u64(j->out, "gpus", t->gpus);
        json_add_u64(j->out, "rdma_adapters", t->nics);
        json_add_u64(j->out, "numa_nodes", t->numa_nodes);
        json_add_u64(j->out, "links", t->links);
        put_nodes(j, t);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
    json_open(j->out, "graphs", '[');
    for (size_t i = 0; i < j->r->graphs.len; i++) {
        const NcclGraph *g = &j->r->graphs.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "file", j->r->inputs.at[g->input].name);
        put_int(j, "id", g->id);
        put_int(j, "pattern", g->pattern);
        put_int(j, "channels", g->channels);
        json_add_double(j->out, "intra_gbs", g->intra_gbs);
        json_add_double(j->out, "inter_gbs", g->inter_gbs);
        put_text(j, "type_intra", g->type_intra);
        put_text(j, "type_inter", g->type_inter);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
}

static void put_flight(Json *j)
{
    json_open(j->out, "flight_recorder", '{');
    json_open(j->out, "dumps", '[');
    for (size_t i = 0; i < j->r->dumps.len; i++) {
        const NcclDump *d = &j->r->dumps.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "file", j->r->inputs.at[d->input].name);
        put_int(j, "rank", d->rank);
        json_add_bool(j->out, "rank_known", d->rank_known);
        json_add_bool(j->out, "used", d->used);
        put_text(j, "version", d->version);
        put_text(j, "nccl_version", d->nccl_version);
        json_add_u64(j->out, "calls", d->calls);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
    json_open(j->out, "groups", '[');
    for (size_t i = 0; i < j->r->groups.len; i++) {
        const NcclGroup *g = &j->r->groups.at[i];
        json_open(j->out, NULL, '{');
        put_text(j, "name", g->name);
        put_text(j, "description", g->desc);
        put_text(j, "ranks", g->members);
        json_add_u64(j->out, "calls", g->calls);
        json_add_bool(j->out, "stuck", g->stuck);
        put_int(j, "sequence", g->seq);
        put_text(j, "operation", g->op);
        put_int(j, "last_completed", g->last_completed);
        put_text(j, "behind", g->behind);
        put_text(j, "scheduled", g->scheduled);
        put_text(j, "started", g->started);
        put_text(j, "completed", g->completed);
        put_text(j, "without_dump", g->missing);
        put_text(j, "waits_for", g->waits_for);
        json_close(j->out, '}');
    }
    json_close(j->out, ']');
    json_close(j->out, '}');
}

void nccl_report_json(const NcclReport *report, Str *out)
{
    static const char *const results[] = {"fine", "finding", "", "unknown"};
    Json j = {.r = report, .out = out};

    json_open(j.out, NULL, '{');
    json_add_u64(j.out, "version", 1);
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
    json_close(j.out, '}');
    str_addc(out, '\n');
}
