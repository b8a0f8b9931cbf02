/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: the table of rules, evidence, and their order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/nccl/job.h"

enum { DETAIL_MAX = 400, EVIDENCE_MAX = 480 };

static const struct {
    NcclSeverity severity;
    const char *id, *title, *setting, *advice;
} rules[] = {
#define NCCL_RULE(name, severity, id, title, setting, advice) {NCCL_##severity, id, title, setting, advice},
#include "engine/nccl/rule.def"
#undef NCCL_RULE
};

NcclFinding *nccl_found(NcclJob *job, NcclRule rule)
{
    for (size_t i = 0; i < job->report.findings.len; i++)
        if (job->report.findings.at[i].rule == rule)
            return &job->report.findings.at[i];
    return NULL;
}

NcclFinding *nccl_find(NcclJob *job, NcclRule rule, const char *detail)
{
    NcclFindings *all = &job->report.findings;
    const char *text = detail ? detail : "";

    for (size_t i = 0; i < all->len; i++)
        if (all->at[i].rule == rule && strcmp(all->at[i].detail, text) == 0)
            return &all->at[i];
    if (all->len >= NCCL_FINDINGS_MAX) {
        job->report.left_out++;
        NcclFinding *same = nccl_found(job, rule);
        return same ? same : &all->at[all->len - 1];
    }
    NcclFinding finding = {.rule = rule,
                           .severity = rules[rule].severity,
                           .id = rules[rule].id,
                           .title = rules[rule].title,
                           .detail = nccl_keep(job, span_of(text)),
                           .setting = rules[rule].setting,
                           .advice = rules[rule].advice};
    vec_push(all, finding);
    return &all->at[all->len - 1];
}

NcclFinding *nccl_findf(NcclJob *job, NcclRule rule, const char *fmt, ...)
{
    char text[DETAIL_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return nccl_find(job, rule, text);
}

void nccl_evidence(NcclJob *job, NcclFinding *finding, NcclPlace place, const char *fmt, ...)
{
    char text[EVIDENCE_MAX];
    va_list args;

    finding->total++;
    if (finding->evidence_count >= NCCL_EVIDENCE_MAX)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    finding->evidence[finding->evidence_count++] = (NcclEvidence){place, nccl_keep(job, span_of(text))};
}

/* Worst first, then in the table's order, then by where the first case stands. */
static int compare(const void *a, const void *b)
{
    const NcclFinding *x = a, *y = b;

    if (x->severity != y->severity)
        return (int)x->severity - (int)y->severity;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    const NcclPlace *p = &x->evidence[0].place, *q = &y->evidence[0].place;
    if (p->input != q->input)
        return p->input < q->input ? -1 : 1;
    if (p->line != q->line)
        return p->line < q->line ? -1 : 1;
    return strcmp(x->detail, y->detail);
}

/* Inputs of which nothing was understood, hosts, and what the readers left open. */
static void close_inputs(NcclJob *job)
{
    NcclReport *r = &job->report;

    for (size_t i = 0; i < r->inputs.len; i++) {
        NcclInput *in = &r->inputs.at[i];
        if (in->kind == NCCL_KIND_TEXT && in->used == 0)
            in->kind = NCCL_KIND_OTHER;
        if (in->trouble[0])
            nccl_evidence(job, nccl_find(job, NCCL_RULE_INPUT_TROUBLE, NULL), (NcclPlace){(uint32_t)i, 0}, "%s",
                          in->trouble);
    }
    r->hosts = (uint32_t)job->host_known.len;
}

const NcclReport *nccl_finish(NcclJob *job)
{
    NcclReport *r = &job->report;

    if (job->finished)
        return r;
    job->finished = true;
    nccl_shape_early(job);
    nccl_count_topologies(job);
    nccl_index_gpus(job);
    nccl_check_comms(job);
    nccl_check_ways(job);
    nccl_check_settings(job);
    nccl_check_timeouts(job);
    nccl_check_topologies(job);
    nccl_check_machines(job);
    nccl_check_benches(job);
    nccl_check_flight(job);
    close_inputs(job);
    if (r->findings.len)
        qsort(r->findings.at, r->findings.len, sizeof *r->findings.at, compare);
    return r;
}

int nccl_code(const NcclReport *report)
{
    bool read = false;

    for (size_t i = 0; i < report->inputs.len; i++)
        read |= report->inputs.at[i].kind != NCCL_KIND_OTHER && report->inputs.at[i].kind != NCCL_KIND_EMPTY;
    for (size_t i = 0; i < report->findings.len; i++)
        if (report->findings.at[i].severity != NCCL_NOTE)
            return read ? 1 : 3;
    return read ? 0 : 3;
}
