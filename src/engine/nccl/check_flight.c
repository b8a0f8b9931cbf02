/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder's verdict. Per process group: the first collective that is not complete on every rank, who never
 * called it, who called it and has not begun, who is inside, and whether all called the same.
 * A rank whose buffer begins after a collective has it behind itself; a rank whose calls end before it is behind. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/nccl/judge.h"

static int compare(const void *a, const void *b)
{
    const NcclCall *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->p2p != y->p2p)
        return x->p2p ? 1 : -1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    if (x->dump != y->dump)
        return x->dump < y->dump ? -1 : 1;
    return (x->record > y->record) - (x->record < y->record);
}

static void join(Judge *j, uint32_t dump)
{
    if (j->parts[dump].in)
        return;
    j->parts[dump] =
        (Part){.in = true, .first = INT64_MAX, .last = INT64_MIN, .completed = NCCL_UNKNOWN, .here = NCCL_NO_INDEX};
    vec_push(&j->members, dump);
}

static void gather_members(Judge *j, const NcclGroup *g, size_t from, size_t to, const NcclStatus *status,
                           size_t statuses)
{
    for (size_t i = 0; i < j->members.len; i++)
        j->parts[j->members.at[i]].in = false;
    vec_clear(&j->members);
    for (size_t i = 0; i < g->nranks; i++) {
        uint32_t dump = nccl_unboxed(map_u64_get(&j->dump_by_rank, (uint64_t)g->ranks[i]));
        if (dump != NCCL_NO_INDEX)
            join(j, dump);
    }
    for (size_t i = from; i < to; i++) {
        const NcclCall *c = &j->r->calls.at[i];
        join(j, c->dump);
        Part *p = &j->parts[c->dump];
        p->any = true;
        p->first = c->seq < p->first ? c->seq : p->first;
        p->last = c->seq > p->last ? c->seq : p->last;
    }
    for (size_t i = 0; i < statuses; i++) {
        if (g->nranks == 0 && status[i].enqueued > 0)
            join(j, status[i].dump);
        if (j->parts[status[i].dump].in)
            j->parts[status[i].dump].completed = status[i].completed;
    }
}

/* Whether a member has number `seq` behind itself, though it has no call of it any more. */
static bool is_past(const Judge *j, uint32_t dump, int64_t seq)
{
    const Part *p = &j->parts[dump];

    return p->completed >= seq || (p->any && seq <= p->last);
}

static bool needs_equal_sizes(const char *op)
{
    bool reduce = strstr(op, "reduce") && !strstr(op, "scatter");

    return reduce || strstr(op, "broadcast") || strstr(op, "_base") || strstr(op, "_into_tensor") ||
           strstr(op, "_tensor_");
}

const char *judge_title(const Judge *j, const NcclGroup *g, int64_t seq)
{
    return nccl_printf(j->job, "process group %s%s%s%s, number %" PRId64, g->name[0] ? g->name : "?",
                       g->desc[0] ? " (" : "", g->desc, g->desc[0] ? ")" : "", seq);
}

static int64_t rank_at(const Judge *j, const NcclCall *c)
{
    return j->r->dumps.at[c->dump].rank;
}

void judge_tell(Judge *j, NcclFinding *f, const NcclCall *c, const char *what)
{
    nccl_evidence(j->job, f, (NcclPlace){j->r->dumps.at[c->dump].input, 0}, "rank %" PRId64 ": %s%s %s%s%s%s%s",
                  rank_at(j, c), what, c->op, c->sizes, c->dtypes[0] ? " " : "", c->dtypes, c->frames[0] ? " at " : "",
                  c->frames);
}

/* Whether a call's own sizes do not fit the group: one side of these is that of all ranks together. */
static bool misfits(const NcclGroup *g, const NcclCall *c)
{
    bool gathers = strcmp(c->op, "_all_gather_base") == 0, scatters = strcmp(c->op, "_reduce_scatter_base") == 0;
    int64_t part = gathers ? c->numel_in : c->numel_out, whole;

    if (g->nranks == 0 || !(gathers || scatters))
        return false;
    return __builtin_mul_overflow(part, (int64_t)g->nranks, &whole) || whole != (gathers ? c->numel_out : c->numel_in);
}

/* Calls [from, to) of one number: the first difference of each kind is told once per group. True: they differ. */
static bool compare_calls(Judge *j, const NcclGroup *g, size_t from, size_t to, unsigned *told)
{
    static const NcclRule rules[] = {NCCL_RULE_FLIGHT_TYPE, NCCL_RULE_FLIGHT_SIZE, NCCL_RULE_FLIGHT_DTYPE};
    const NcclCall *a = &j->r->calls.at[from];
    bool any = false;

    for (size_t i = from; i < to; i++) {
        const NcclCall *b = &j->r->calls.at[i];
        bool same_op = strcmp(a->op, b->op) == 0;
        bool sizes = same_op && needs_equal_sizes(a->op) && a->numel_in != b->numel_in;
        bool differs[] = {!same_op, sizes || misfits(g, b), same_op && strcmp(a->dtypes, b->dtypes) != 0};
        for (unsigned k = 0; k < ARRAY_LEN(rules); k++) {
            any |= differs[k];
            if (!differs[k] || *told & 1u << k)
                continue;
            *told |= 1u << k;
            NcclFinding *f = nccl_find(j->job, rules[k], judge_title(j, g, a->seq));
            if (a != b)
                judge_tell(j, f, a, "");
            judge_tell(j, f, b, "");
        }
    }
    return any;
}

const char *judge_ranks(Judge *j, Ranks *ranks)
{
    return ranks->len ? nccl_ranks(j->job, ranks->at, ranks->len) : "";
}

/* Where the ranks that are behind stand. */
static void tell_behind(Judge *j, NcclGroup *g, uint32_t group, const Ranks *dumps)
{
    NcclFinding *f;

    for (size_t i = 0; i < dumps->len; i++) {
        const Part *p = &j->parts[dumps->at[i]];
        if (p->any && p->last + 1 < g->seq) {
            NcclFinding *note = nccl_find(j->job, NCCL_RULE_FLIGHT_WRAPPED, judge_title(j, g, g->seq));
            nccl_evidence(j->job, note, (NcclPlace){j->r->dumps.at[dumps->at[i]].input, 0},
                          "rank %" PRId64 " ends with number %" PRId64 ", the others' calls begin with number %" PRId64,
                          j->r->dumps.at[dumps->at[i]].rank, p->last, g->seq);
        }
    }
    f = nccl_find(j->job, NCCL_RULE_FLIGHT_BEHIND, g->finding); /* it may have moved */
    for (size_t i = 0; i < dumps->len; i++) {
        uint32_t dump = (uint32_t)dumps->at[i], stuck = j->stuck[dump], last = j->last[dump];
        if (stuck != NCCL_NO_INDEX && j->r->calls.at[stuck].group != group && !g->waits_for[0])
            g->waits_for = j->r->groups.at[j->r->calls.at[stuck].group].name;
        if (stuck != NCCL_NO_INDEX && j->r->calls.at[stuck].group != group)
            judge_tell(j, f, &j->r->calls.at[stuck], "stands in another group's ");
        else if (last != NCCL_NO_INDEX)
            judge_tell(j, f, &j->r->calls.at[last], "last call was ");
        else
            nccl_evidence(j->job, f, (NcclPlace){j->r->dumps.at[dump].input, 0}, "rank %" PRId64 ": no call at all",
                          j->r->dumps.at[dump].rank);
    }
}

typedef struct Stand {
    Ranks behind, behind_dumps, scheduled, started, completed;
} Stand;

static void stand_done(Stand *s)
{
    vec_done(&s->behind);
    vec_done(&s->behind_dumps);
    vec_done(&s->scheduled);
    vec_done(&s->started);
    vec_done(&s->completed);
}

static void take_stand(Judge *j, int64_t seq, Stand *s)
{
    for (size_t i = 0; i < j->members.len; i++) {
        uint32_t dump = j->members.at[i], here = j->parts[dump].here;
        int64_t rank = j->r->dumps.at[dump].rank;
        if (here == NCCL_NO_INDEX && is_past(j, dump, seq))
            vec_push(&s->completed, rank);
        else if (here == NCCL_NO_INDEX) {
            vec_push(&s->behind, rank);
            vec_push(&s->behind_dumps, (int64_t)dump);
        } else if (j->r->calls.at[here].state == NCCL_COMPLETED)
            vec_push(&s->completed, rank);
        else if (j->r->calls.at[here].state == NCCL_STARTED)
            vec_push(&s->started, rank);
        else
            vec_push(&s->scheduled, rank);
    }
}

static void tell_missing(Judge *j, NcclGroup *g, int64_t seq)
{
    CLEANUP(ranks_done) Ranks missing = {0};

    for (size_t i = 0; i < g->nranks; i++)
        if (!map_u64_get(&j->dump_by_rank, (uint64_t)g->ranks[i]))
            vec_push(&missing, g->ranks[i]);
    g->missing = judge_ranks(j, &missing);
    if (missing.len)
        nccl_evidence(j->job, nccl_find(j->job, NCCL_RULE_FLIGHT_NO_DUMP, judge_title(j, g, seq)),
                      (NcclPlace){j->r->dumps.at[0].input, 0}, "no dump of rank %s", g->missing);
}

/* Where it is known when calls begin: some have not. */
static void tell_waiting(Judge *j, const NcclGroup *g, size_t from, size_t to)
{
    NcclFinding *f = nccl_findf(j->job, NCCL_RULE_FLIGHT_WAITING, "%s %s: called and not begun on rank %s%s%s%s%s",
                                judge_title(j, g, g->seq), g->op, g->scheduled,
                                g->started[0] ? "; begun, and waiting for them, on rank " : "", g->started,
                                g->completed[0] ? "; complete on rank " : "", g->completed);

    for (size_t i = from; i < to; i++) {
        const NcclCall *c = &j->r->calls.at[i];
        uint32_t stuck = j->stuck[c->dump];
        if (c->state == NCCL_SCHEDULED && stuck != NCCL_NO_INDEX)
            judge_tell(j, f, &j->r->calls.at[stuck], "oldest call that is not complete: ");
    }
}

/* Number g->seq is not complete everywhere. Calls [from, to) are its; where they differ, that is why it does not end.
 */
static void judge(Judge *j, NcclGroup *g, size_t from, size_t to, bool differ)
{
    CLEANUP(stand_done) Stand s = {0};
    const NcclCall *first = &j->r->calls.at[from];
    uint32_t group = first->group;
    NcclFinding *f;

    g->stuck = j->explained = true;
    g->seq = first->seq;
    g->op = first->op;
    g->last_completed = first->seq > 0 ? first->seq - 1 : NCCL_UNKNOWN;
    take_stand(j, g->seq, &s);
    g->behind = judge_ranks(j, &s.behind);
    g->scheduled = judge_ranks(j, &s.scheduled);
    g->started = judge_ranks(j, &s.started);
    g->completed = judge_ranks(j, &s.completed);
    const char *title = judge_title(j, g, g->seq);
    tell_missing(j, g, g->seq);
    if (s.behind.len) {
        f = nccl_findf(j->job, NCCL_RULE_FLIGHT_BEHIND, "%s %s: rank %s never called it", title, g->op, g->behind);
        g->finding = f->detail;
        tell_behind(j, g, group, &s.behind_dumps);
        f = nccl_find(j->job, NCCL_RULE_FLIGHT_BEHIND, g->finding);
    } else if (differ)
        return;
    else if (j->timed && s.scheduled.len) {
        tell_waiting(j, g, from, to);
        return;
    } else {
        Ranks *called = s.started.len ? &s.started : &s.scheduled;
        f = nccl_findf(j->job, g->missing[0] ? NCCL_RULE_FLIGHT_OPEN : NCCL_RULE_FLIGHT_HUNG,
                       "%s %s: rank %s %s it%s%s", title, g->op, judge_ranks(j, called),
                       s.started.len ? "began" : "called", s.completed.len ? "; complete on rank " : "", g->completed);
    }
    for (size_t i = from; i < to; i++)
        if (j->r->calls.at[i].state != NCCL_COMPLETED) {
            judge_tell(j, f, &j->r->calls.at[i],
                       j->r->calls.at[i].state == NCCL_STARTED ? "is inside " : "has called ");
            break;
        }
}

/* Calls [from, to) of one group, no sends. */
static void check_group(Judge *j, NcclGroup *g, size_t from, size_t to)
{
    unsigned told = 0;

    for (size_t i = from, end; i < to; i = end) {
        bool all = true;
        for (end = i; end < to && j->r->calls.at[end].seq == j->r->calls.at[i].seq; end++) {
            j->parts[j->r->calls.at[end].dump].here = (uint32_t)end;
            all &= j->r->calls.at[end].state == NCCL_COMPLETED;
        }
        bool differ = compare_calls(j, g, i, end, &told);
        for (size_t k = 0; k < j->members.len && all; k++)
            all =
                j->parts[j->members.at[k]].here != NCCL_NO_INDEX || is_past(j, j->members.at[k], j->r->calls.at[i].seq);
        if (!all && !g->stuck)
            judge(j, g, i, end, differ);
        else if (all && !g->stuck)
            g->last_completed = j->r->calls.at[i].seq;
        for (size_t k = i; k < end; k++)
            j->parts[j->r->calls.at[k].dump].here = NCCL_NO_INDEX;
    }
}

/* A group whose late ranks stand in another group follows from that one, unless that waits for somebody too. */
static void soften(Judge *j)
{
    for (size_t i = 0; i < j->r->groups.len; i++) {
        const NcclGroup *g = &j->r->groups.at[i];
        bool ends = false;
        for (size_t k = 0; k < j->r->groups.len && g->waits_for[0] && !ends; k++)
            ends = j->r->groups.at[k].stuck && !j->r->groups.at[k].waits_for[0] &&
                   strcmp(j->r->groups.at[k].name, g->waits_for) == 0;
        if (!ends)
            continue;
        NcclFinding *f = nccl_find(j->job, NCCL_RULE_FLIGHT_BEHIND, g->finding);
        f->severity = NCCL_NOTE;
        f->advice = nccl_printf(j->job, "It follows from process group %s, where these ranks stand", g->waits_for);
    }
}

static void index_dumps(Judge *j)
{
    size_t n = j->r->dumps.len;

    j->parts = arena_calloc(&j->job->arena, n, sizeof *j->parts);
    j->last = arena_calloc(&j->job->arena, n, sizeof *j->last);
    j->stuck = arena_calloc(&j->job->arena, n, sizeof *j->stuck);
    for (uint32_t i = 0; i < n; i++)
        j->last[i] = j->stuck[i] = NCCL_NO_INDEX;
    for (uint32_t i = 0; i < j->r->calls.len; i++) {
        const NcclCall *c = &j->r->calls.at[i];
        uint32_t *last = &j->last[c->dump], *stuck = &j->stuck[c->dump];
        if (*last == NCCL_NO_INDEX || j->r->calls.at[*last].record < c->record)
            *last = i;
        j->timed |= c->timed;
        if (c->state != NCCL_COMPLETED && (*stuck == NCCL_NO_INDEX || j->r->calls.at[*stuck].record > c->record))
            *stuck = i;
    }
}

/* Nothing else is stuck, and both halves are called. */
static void tell_paired(Judge *j)
{
    const NcclCall *c = &j->r->calls.at[j->paired];
    const NcclGroup *g = &j->r->groups.at[c->group];

    judge_tell(
        j, nccl_findf(j->job, NCCL_RULE_FLIGHT_HUNG, "%s %s: called on both sides", judge_title(j, g, c->seq), c->op),
        c, "has called ");
}

static int compare_status(const void *a, const void *b)
{
    const NcclStatus *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->dump > y->dump) - (x->dump < y->dump);
}

void nccl_check_flight(NcclJob *job)
{
    Judge j = {.job = job, .r = &job->report, .paired = NCCL_NO_INDEX};
    size_t at = 0, status = 0;

    if (job->report.dumps.len == 0)
        return;
    map_u64_init(&j.dump_by_rank);
    judge_choose(&j);
    if (job->report.calls.len)
        qsort(job->report.calls.at, job->report.calls.len, sizeof *job->report.calls.at, compare);
    if (job->statuses.len)
        qsort(job->statuses.at, job->statuses.len, sizeof *job->statuses.at, compare_status);
    index_dumps(&j);
    for (uint32_t g = 0; g < job->report.groups.len; g++) {
        size_t from = at, p2p, end = status;
        while (at < job->report.calls.len && job->report.calls.at[at].group == g && !job->report.calls.at[at].p2p)
            at++;
        p2p = at;
        while (at < job->report.calls.len && job->report.calls.at[at].group == g)
            at++;
        while (end < job->statuses.len && job->statuses.at[end].group == g)
            end++;
        gather_members(&j, &job->report.groups.at[g], from, p2p, end > status ? &job->statuses.at[status] : NULL,
                       end - status);
        check_group(&j, &job->report.groups.at[g], from, p2p);
        judge_p2p(&j, &job->report.groups.at[g], p2p, at);
        status = end;
    }
    if (j.paired != NCCL_NO_INDEX && !j.explained)
        tell_paired(&j);
    soften(&j);
    map_done(&j.dump_by_rank);
    vec_done(&j.members);
}
