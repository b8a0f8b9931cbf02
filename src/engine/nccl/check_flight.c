/* SPDX-License-Identifier: Apache-2.0 */
/* Conclusions from PyTorch's flight recorder. Per process group: the first collective that is not complete on every
 * rank, who never called it, who called it and has not begun, who is inside, and whether all called the same. Sends and
 * receives that are not complete: whether the partner has its half open too. A rank whose buffer begins after a
 * collective has completed it; a rank whose calls end before it is behind. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

/* What is known of one dump: of all its calls, and of those in the current group. */
typedef struct Part {
    uint32_t newest, stuck; /* calls: its newest; its oldest that is not complete; NCCL_NO_INDEX */
    bool in, any;
    int64_t last, completed; /* numbers; completed: by the dump's status */
    uint32_t here;           /* its call of the current number, NCCL_NO_INDEX */
} Part;

typedef struct FlightCheck {
    NcclJob *job;
    NcclReport *r;
    Part *parts; /* by dump */
    Map dump_by_rank;
    VEC(uint32_t) members; /* dumps of the current group */
    bool timed;            /* PyTorch records when calls begin; else no call is ever "started" */
    bool explained;        /* a finding says why something does not end */
    uint32_t paired;       /* a send or receive whose other half is open too, NCCL_NO_INDEX */
} FlightCheck;

static uint32_t dump_of_rank(const FlightCheck *j, int64_t rank)
{
    return nccl_unbox(map_u64_get(&j->dump_by_rank, (uint64_t)rank));
}

/* How new a dump is: its latest call. */
typedef struct Age {
    int64_t created_ns, record;
} Age;

static bool is_newer(const Age *a, const Age *b)
{
    return a->created_ns != b->created_ns ? a->created_ns > b->created_ns : a->record > b->record;
}

static const Age *ages_of(const FlightCheck *j)
{
    Age *ages = arena_calloc(&j->job->arena, j->r->dumps.len + 1, sizeof *ages);

    for (size_t i = 0; i < j->r->calls.len; i++) {
        const NcclCall *c = &j->r->calls.at[i];
        const Age age = {c->created_ns, c->record};
        if (is_newer(&age, &ages[c->dump]))
            ages[c->dump] = age;
    }
    return ages;
}

static void report_two_dumps(FlightCheck *j, uint32_t used, uint32_t left)
{
    const NcclDump *a = &j->r->dumps.at[used], *b = &j->r->dumps.at[left];
    NcclFinding *f = nccl_add_findingf(j->job, NCCL_RULE_FLIGHT_TWICE, "rank %" PRId64 ": %s is used, %s is not",
                                       a->rank, j->r->inputs.at[a->input].name, j->r->inputs.at[b->input].name);

    nccl_add_evidence(j->job, f, (NcclPlace){a->input, 0}, "used: %u call%s", a->calls, a->calls == 1 ? "" : "s");
    nccl_add_evidence(j->job, f, (NcclPlace){b->input, 0}, "left out: %u call%s", b->calls, b->calls == 1 ? "" : "s");
}

static void choose_newest(FlightCheck *j, const Age *ages)
{
    for (uint32_t i = 0; i < j->r->dumps.len; i++) {
        NcclDump *d = &j->r->dumps.at[i];
        uint32_t before = dump_of_rank(j, d->rank);
        if (!d->rank_known)
            continue;
        if (before == NCCL_NO_INDEX || !is_newer(&ages[before], &ages[i])) {
            map_u64_put(&j->dump_by_rank, (uint64_t)d->rank, nccl_box(i));
            if (before != NCCL_NO_INDEX)
                j->r->dumps.at[before].used = false;
        } else
            d->used = false;
    }
    for (uint32_t i = 0; i < j->r->dumps.len; i++)
        if (!j->r->dumps.at[i].used)
            report_two_dumps(j, dump_of_rank(j, j->r->dumps.at[i].rank), i);
}

/* Dumps without a rank in their name get the unused numbers. */
static void number_unnamed(FlightCheck *j)
{
    int64_t next = 0;

    for (uint32_t i = 0; i < j->r->dumps.len; i++) {
        if (j->r->dumps.at[i].rank_known)
            continue;
        while (dump_of_rank(j, next) != NCCL_NO_INDEX)
            next++;
        j->r->dumps.at[i].rank = next;
        map_u64_put(&j->dump_by_rank, (uint64_t)next, nccl_box(i));
    }
}

static void drop_unused(FlightCheck *j)
{
    size_t kept = 0;

    for (size_t i = 0; i < j->r->calls.len; i++) {
        const NcclCall c = j->r->calls.at[i];
        if (j->r->dumps.at[c.dump].used)
            j->r->calls.at[kept++] = c;
        else
            j->r->groups.at[c.group].calls--;
    }
    j->r->calls.len = kept;
    kept = 0;
    for (size_t i = 0; i < j->job->statuses.len; i++) {
        const NcclStatus s = j->job->statuses.at[i];
        if (j->r->dumps.at[s.dump].used)
            j->job->statuses.at[kept++] = s;
    }
    j->job->statuses.len = kept;
}

static int compare_calls_by_number(const void *a, const void *b)
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

static void join_group(FlightCheck *j, uint32_t dump)
{
    Part *p = &j->parts[dump];

    if (p->in)
        return;
    *p = (Part){.newest = p->newest,
                .stuck = p->stuck,
                .in = true,
                .last = INT64_MIN,
                .completed = NCCL_UNKNOWN,
                .here = NCCL_NO_INDEX};
    vec_push(&j->members, dump);
}

static void gather_members(FlightCheck *j, const NcclGroup *g, size_t from, size_t to, const NcclStatus *status,
                           size_t statuses)
{
    for (size_t i = 0; i < j->members.len; i++)
        j->parts[j->members.at[i]].in = false;
    vec_clear(&j->members);
    for (size_t i = 0; i < g->nranks; i++) {
        uint32_t dump = dump_of_rank(j, g->ranks[i]);
        if (dump != NCCL_NO_INDEX)
            join_group(j, dump);
    }
    for (size_t i = from; i < to; i++) {
        const NcclCall *c = &j->r->calls.at[i];
        join_group(j, c->dump);
        Part *p = &j->parts[c->dump];
        p->any = true;
        p->last = c->seq > p->last ? c->seq : p->last;
    }
    for (size_t i = 0; i < statuses; i++) {
        if (g->nranks == 0 && status[i].enqueued > 0)
            join_group(j, status[i].dump);
        if (j->parts[status[i].dump].in)
            j->parts[status[i].dump].completed = status[i].completed;
    }
}

/* Whether a member has number `seq` behind itself, though it has no call of it any more. */
static bool is_past(const FlightCheck *j, uint32_t dump, int64_t seq)
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

static const char *call_title(const FlightCheck *j, const NcclGroup *g, int64_t seq)
{
    return nccl_printf(j->job, "process group %s%s%s%s, number %" PRId64, g->name[0] ? g->name : "?",
                       g->desc[0] ? " (" : "", g->desc, g->desc[0] ? ")" : "", seq);
}

static int64_t rank_at(const FlightCheck *j, const NcclCall *c)
{
    return j->r->dumps.at[c->dump].rank;
}

static void add_call_evidence(FlightCheck *j, NcclFinding *f, const NcclCall *c, const char *what)
{
    nccl_add_evidence(j->job, f, (NcclPlace){j->r->dumps.at[c->dump].input, 0}, "rank %" PRId64 ": %s%s %s%s%s%s%s",
                      rank_at(j, c), what, c->op, c->sizes, c->dtypes[0] ? " " : "", c->dtypes,
                      c->frames[0] ? " at " : "", c->frames);
}

/* Whether a call's own sizes do not fit the group: one side of these is that of all ranks together. */
static bool misfits_group(const NcclGroup *g, const NcclCall *c)
{
    bool gathers = strcmp(c->op, "_all_gather_base") == 0, scatters = strcmp(c->op, "_reduce_scatter_base") == 0;
    int64_t part = gathers ? c->numel_in : c->numel_out, whole;

    if (g->nranks == 0 || !(gathers || scatters))
        return false;
    return __builtin_mul_overflow(part, (int64_t)g->nranks, &whole) || whole != (gathers ? c->numel_out : c->numel_in);
}

/* Calls [from, to) of one number: reports the first difference of each kind once per group. True: they differ. */
static bool check_same_call(FlightCheck *j, const NcclGroup *g, size_t from, size_t to, unsigned *told)
{
    static const NcclRule rules[] = {NCCL_RULE_FLIGHT_TYPE, NCCL_RULE_FLIGHT_SIZE, NCCL_RULE_FLIGHT_DTYPE};
    const NcclCall *a = &j->r->calls.at[from];
    bool any = false;

    for (size_t i = from; i < to; i++) {
        const NcclCall *b = &j->r->calls.at[i];
        bool same_op = strcmp(a->op, b->op) == 0;
        bool sizes = same_op && needs_equal_sizes(a->op) && a->numel_in != b->numel_in;
        bool differs[] = {!same_op, sizes || misfits_group(g, b), same_op && strcmp(a->dtypes, b->dtypes) != 0};
        for (unsigned k = 0; k < ARRAY_LEN(rules); k++) {
            any |= differs[k];
            if (!differs[k] || *told & 1u << k)
                continue;
            *told |= 1u << k;
            NcclFinding *f = nccl_add_finding(j->job, rules[k], call_title(j, g, a->seq));
            if (a != b)
                add_call_evidence(j, f, a, "");
            add_call_evidence(j, f, b, "");
        }
    }
    return any;
}

/* Ranks by their state in one number. */
typedef struct RankLists {
    Ranks by[NCCL_STATE_COUNT];
} RankLists;

static void rank_lists_done(RankLists *lists)
{
    for (int i = 0; i < NCCL_STATE_COUNT; i++)
        vec_done(&lists->by[i]);
}

/* The verdict of a group: `call` does not end. */
static void set_stuck(FlightCheck *j, NcclGroup *g, const NcclCall *call, RankLists *lists)
{
    g->stuck = true;
    g->seq = call->seq;
    g->op = call->op;
    for (int i = 0; i < NCCL_STATE_COUNT; i++)
        g->ranks_by[i] = nccl_print_ranks(j->job, &lists->by[i]);
}

/* Where the ranks that are behind stand. */
static void report_ranks_behind(FlightCheck *j, NcclGroup *g, uint32_t group, const Ranks *ranks)
{
    NcclFinding *f;

    for (size_t i = 0; i < ranks->len; i++) {
        const uint32_t dump = dump_of_rank(j, ranks->at[i]);
        const Part *p = &j->parts[dump];
        if (p->any && p->last + 1 < g->seq) {
            NcclFinding *note = nccl_add_finding(j->job, NCCL_RULE_FLIGHT_WRAPPED, call_title(j, g, g->seq));
            nccl_add_evidence(j->job, note, (NcclPlace){j->r->dumps.at[dump].input, 0},
                              "rank %" PRId64 " ends with number %" PRId64
                              ", the others' calls begin with number %" PRId64,
                              ranks->at[i], p->last, g->seq);
        }
    }
    f = nccl_add_finding(j->job, NCCL_RULE_FLIGHT_BEHIND, g->finding); /* it may have moved */
    for (size_t i = 0; i < ranks->len; i++) {
        uint32_t dump = dump_of_rank(j, ranks->at[i]), stuck = j->parts[dump].stuck, last = j->parts[dump].newest;
        bool elsewhere = stuck != NCCL_NO_INDEX && j->r->calls.at[stuck].group != group;
        if (elsewhere && !g->waits_for[0])
            g->waits_for = j->r->groups.at[j->r->calls.at[stuck].group].name;
        if (elsewhere)
            add_call_evidence(j, f, &j->r->calls.at[stuck], "stands in another group's ");
        else if (last != NCCL_NO_INDEX)
            add_call_evidence(j, f, &j->r->calls.at[last], "last call was ");
        else
            nccl_add_evidence(j->job, f, (NcclPlace){j->r->dumps.at[dump].input, 0}, "rank %" PRId64 ": no call at all",
                              ranks->at[i]);
    }
}

static void collect_states(FlightCheck *j, int64_t seq, RankLists *lists)
{
    for (size_t i = 0; i < j->members.len; i++) {
        uint32_t dump = j->members.at[i], here = j->parts[dump].here;
        NcclState state = here != NCCL_NO_INDEX   ? j->r->calls.at[here].state
                          : is_past(j, dump, seq) ? NCCL_COMPLETED
                                                  : NCCL_BEHIND;
        vec_push(&lists->by[state], j->r->dumps.at[dump].rank);
    }
}

static void report_missing_dumps(FlightCheck *j, const NcclGroup *g, const NcclCall *call, uint32_t dump,
                                 Ranks *missing)
{
    if (missing->len)
        nccl_add_evidence(j->job, nccl_add_finding(j->job, NCCL_RULE_FLIGHT_NO_DUMP, call_title(j, g, call->seq)),
                          (NcclPlace){j->r->dumps.at[dump].input, 0}, "no dump of rank %s",
                          nccl_print_ranks(j->job, missing));
}

/* PyTorch records when calls begin, and some have not begun. */
static void report_waiting(FlightCheck *j, const NcclGroup *g, size_t from, size_t to)
{
    NcclFinding *f = nccl_add_findingf(
        j->job, NCCL_RULE_FLIGHT_WAITING, "%s %s: called and not begun on rank %s%s%s%s%s", call_title(j, g, g->seq),
        g->op, g->ranks_by[NCCL_SCHEDULED],
        g->ranks_by[NCCL_STARTED][0] ? "; begun, and waiting for them, on rank " : "", g->ranks_by[NCCL_STARTED],
        g->ranks_by[NCCL_COMPLETED][0] ? "; complete on rank " : "", g->ranks_by[NCCL_COMPLETED]);

    for (size_t i = from; i < to; i++) {
        const NcclCall *c = &j->r->calls.at[i];
        uint32_t stuck = j->parts[c->dump].stuck;
        if (c->state == NCCL_SCHEDULED && stuck != NCCL_NO_INDEX)
            add_call_evidence(j, f, &j->r->calls.at[stuck], "oldest call that is not complete: ");
    }
}

/* Number g->seq is not complete everywhere. Calls [from, to) are its; where they differ, that is why it does not end.
 */
static void report_stuck_call(FlightCheck *j, NcclGroup *g, size_t from, size_t to, bool differ)
{
    CLEANUP(rank_lists_done) RankLists lists = {0};
    const NcclCall *first = &j->r->calls.at[from];
    NcclFinding *f;

    for (size_t i = 0; i < g->nranks; i++)
        if (dump_of_rank(j, g->ranks[i]) == NCCL_NO_INDEX)
            vec_push(&lists.by[NCCL_MISSING], g->ranks[i]);
    j->explained = true;
    g->last_completed = first->seq > 0 ? first->seq - 1 : NCCL_UNKNOWN;
    collect_states(j, first->seq, &lists);
    set_stuck(j, g, first, &lists);
    const char *title = call_title(j, g, g->seq);
    report_missing_dumps(j, g, first, 0, &lists.by[NCCL_MISSING]);
    if (lists.by[NCCL_BEHIND].len) {
        f = nccl_add_findingf(j->job, NCCL_RULE_FLIGHT_BEHIND, "%s %s: rank %s never called it", title, g->op,
                              g->ranks_by[NCCL_BEHIND]);
        g->finding = f->detail;
        report_ranks_behind(j, g, first->group, &lists.by[NCCL_BEHIND]);
        f = nccl_add_finding(j->job, NCCL_RULE_FLIGHT_BEHIND, g->finding);
    } else if (differ)
        return;
    else if (j->timed && lists.by[NCCL_SCHEDULED].len) {
        report_waiting(j, g, from, to);
        return;
    } else {
        bool began = lists.by[NCCL_STARTED].len > 0;
        f = nccl_add_findingf(j->job, g->ranks_by[NCCL_MISSING][0] ? NCCL_RULE_FLIGHT_OPEN : NCCL_RULE_FLIGHT_HUNG,
                              "%s %s: rank %s %s it%s%s", title, g->op,
                              g->ranks_by[began ? NCCL_STARTED : NCCL_SCHEDULED], began ? "began" : "called",
                              lists.by[NCCL_COMPLETED].len ? "; complete on rank " : "", g->ranks_by[NCCL_COMPLETED]);
    }
    for (size_t i = from; i < to; i++)
        if (j->r->calls.at[i].state != NCCL_COMPLETED) {
            add_call_evidence(j, f, &j->r->calls.at[i],
                              j->r->calls.at[i].state == NCCL_STARTED ? "is inside " : "has called ");
            break;
        }
}

/* Calls [from, to) of one group, no sends. */
static void check_collectives(FlightCheck *j, NcclGroup *g, size_t from, size_t to)
{
    unsigned told = 0;

    for (size_t i = from, end; i < to; i = end) {
        bool all = true;
        for (end = i; end < to && j->r->calls.at[end].seq == j->r->calls.at[i].seq; end++) {
            j->parts[j->r->calls.at[end].dump].here = (uint32_t)end;
            all &= j->r->calls.at[end].state == NCCL_COMPLETED;
        }
        bool differ = check_same_call(j, g, i, end, &told);
        for (size_t k = 0; k < j->members.len && all; k++)
            all =
                j->parts[j->members.at[k]].here != NCCL_NO_INDEX || is_past(j, j->members.at[k], j->r->calls.at[i].seq);
        if (!all && !g->stuck)
            report_stuck_call(j, g, i, end, differ);
        else if (all && !g->stuck)
            g->last_completed = j->r->calls.at[i].seq;
        for (size_t k = i; k < end; k++)
            j->parts[j->r->calls.at[k].dump].here = NCCL_NO_INDEX;
    }
}

/* A group whose late ranks wait in another group is a consequence of that one, unless that one waits too. */
static void soften_followers(FlightCheck *j)
{
    for (size_t i = 0; i < j->r->groups.len; i++) {
        const NcclGroup *g = &j->r->groups.at[i];
        bool ends = false;
        for (size_t k = 0; k < j->r->groups.len && g->waits_for[0] && !ends; k++)
            ends = j->r->groups.at[k].stuck && !j->r->groups.at[k].waits_for[0] &&
                   strcmp(j->r->groups.at[k].name, g->waits_for) == 0;
        if (!ends)
            continue;
        NcclFinding *f = nccl_add_finding(j->job, NCCL_RULE_FLIGHT_BEHIND, g->finding);
        f->severity = NCCL_NOTE;
        f->advice = nccl_printf(j->job, "It follows from process group %s, where these ranks stand", g->waits_for);
    }
}

static void index_dumps(FlightCheck *j)
{
    j->parts = arena_calloc(&j->job->arena, j->r->dumps.len, sizeof *j->parts);
    for (size_t i = 0; i < j->r->dumps.len; i++)
        j->parts[i].newest = j->parts[i].stuck = NCCL_NO_INDEX;
    for (uint32_t i = 0; i < j->r->calls.len; i++) {
        const NcclCall *c = &j->r->calls.at[i];
        uint32_t *newest = &j->parts[c->dump].newest, *stuck = &j->parts[c->dump].stuck;
        if (*newest == NCCL_NO_INDEX || j->r->calls.at[*newest].record < c->record)
            *newest = i;
        j->timed |= c->timed;
        if (c->state != NCCL_COMPLETED && (*stuck == NCCL_NO_INDEX || j->r->calls.at[*stuck].record > c->record))
            *stuck = i;
    }
}

/* Nothing else is stuck, and both halves are called. */
static void report_paired(FlightCheck *j)
{
    const NcclCall *c = &j->r->calls.at[j->paired];
    const NcclGroup *g = &j->r->groups.at[c->group];

    add_call_evidence(j,
                      nccl_add_findingf(j->job, NCCL_RULE_FLIGHT_HUNG, "%s %s: called on both sides",
                                        call_title(j, g, c->seq), c->op),
                      c, "has called ");
}

static int compare_status(const void *a, const void *b)
{
    const NcclStatus *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->dump > y->dump) - (x->dump < y->dump);
}

/* "send 1->2", "recv 3<-0": ranks within the group. */
static bool read_p2p(const NcclCall *c, bool *send, int64_t *src, int64_t *dst)
{
    Span s = span_of(c->op);

    *send = span_skip(&s, "send ");
    if (*send)
        return span_i64(&s, src) && span_skip(&s, "->") && span_i64(&s, dst);
    return span_skip(&s, "recv ") && span_i64(&s, dst) && span_skip(&s, "<-") && span_i64(&s, src);
}

static uint32_t dump_of_local(const FlightCheck *j, const NcclGroup *g, int64_t local)
{
    if (local < 0 || (g->nranks && (size_t)local >= g->nranks))
        return NCCL_NO_INDEX;
    return dump_of_rank(j, g->nranks ? g->ranks[local] : local);
}

/* Parts of a batch are written down without a state; the batch that ends them, of the same number, has it. */
static void collect_p2p_states(FlightCheck *j, size_t from, size_t to)
{
    for (size_t i = from, end; i < to; i = end) {
        const NcclCall *batch = NULL, *first = &j->r->calls.at[i];
        for (end = i; end < to && j->r->calls.at[end].seq == first->seq && j->r->calls.at[end].dump == first->dump;
             end++)
            if (strcmp(j->r->calls.at[end].op, "coalesced") == 0)
                batch = &j->r->calls.at[end];
        for (size_t k = i; k < end && batch; k++)
            if (j->r->calls.at[k].state == NCCL_SCHEDULED)
                j->r->calls.at[k].state = batch->state;
    }
}

static void push_once(Ranks *ranks, int64_t rank)
{
    for (size_t i = 0; i < ranks->len; i++)
        if (ranks->at[i] == rank)
            return;
    vec_push(ranks, rank);
}

static void report_alone(FlightCheck *j, const NcclGroup *g, const NcclCall *c, uint32_t partner)
{
    NcclFinding *f =
        nccl_add_findingf(j->job, NCCL_RULE_FLIGHT_P2P, "process group %s: %s has no partner", g->name, c->op);

    j->explained = true;
    add_call_evidence(j, f, c, "waits in ");
    if (j->parts[partner].newest != NCCL_NO_INDEX)
        add_call_evidence(j, f, &j->r->calls.at[j->parts[partner].newest], "last call was ");
}

static void collect_half(FlightCheck *j, const NcclGroup *g, const NcclCall *c, const int64_t ends[3], bool paired,
                         RankLists *lists)
{
    int64_t other = ends[2] ? ends[1] : ends[0];
    uint32_t partner = dump_of_local(j, g, other);

    push_once(&lists->by[c->state], j->r->dumps.at[c->dump].rank);
    if (partner == NCCL_NO_INDEX)
        push_once(&lists->by[NCCL_MISSING],
                  g->nranks && other >= 0 && (size_t)other < g->nranks ? g->ranks[other] : other);
    else if (!paired) {
        push_once(&lists->by[NCCL_BEHIND], j->r->dumps.at[partner].rank);
        report_alone(j, g, c, partner);
    } else if (j->paired == NCCL_NO_INDEX)
        j->paired = (uint32_t)(c - j->r->calls.at);
}

static void check_p2p(FlightCheck *j, NcclGroup *g, size_t from, size_t to)
{
    CLEANUP(map_done) Map open;
    CLEANUP(rank_lists_done) RankLists lists = {0};
    const NcclCall *first = NULL;
    bool send;
    int64_t ends[3]; /* from, to, whether it is the send */

    map_init(&open);
    collect_p2p_states(j, from, to);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = from; i < to; i++) {
            const NcclCall *c = &j->r->calls.at[i];
            if (c->state == NCCL_COMPLETED || !read_p2p(c, &send, &ends[0], &ends[1]))
                continue;
            ends[2] = send;
            if (!pass) {
                map_putn(&open, (const char *)ends, sizeof ends, j->job);
                continue;
            }
            const int64_t other[3] = {ends[0], ends[1], !send};
            first = first ? first : c;
            collect_half(j, g, c, ends, map_getn(&open, (const char *)other, sizeof other) != NULL, &lists);
        }
    if (!first)
        return;
    if (!g->stuck) /* else a collective is the verdict */
        set_stuck(j, g, first, &lists);
    if (lists.by[NCCL_MISSING].len) {
        j->explained = true;
        add_call_evidence(j, nccl_add_findingf(j->job, NCCL_RULE_FLIGHT_OPEN, "%s", call_title(j, g, first->seq)),
                          first, "waits in ");
        report_missing_dumps(j, g, first, first->dump, &lists.by[NCCL_MISSING]);
    }
}

void nccl_check_flight(NcclJob *job)
{
    FlightCheck j = {.job = job, .r = &job->report, .paired = NCCL_NO_INDEX};
    size_t at = 0, status = 0;

    if (job->report.dumps.len == 0)
        return;
    map_u64_init(&j.dump_by_rank);
    choose_newest(&j, ages_of(&j));
    number_unnamed(&j);
    drop_unused(&j);
    vec_sort(&job->report.calls, compare_calls_by_number);
    vec_sort(&job->statuses, compare_status);
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
        check_collectives(&j, &job->report.groups.at[g], from, p2p);
        check_p2p(&j, &job->report.groups.at[g], p2p, at);
        status = end;
    }
    if (j.paired != NCCL_NO_INDEX && !j.explained)
        report_paired(&j);
    soften_followers(&j);
    map_done(&j.dump_by_rank);
    vec_done(&j.members);
}
