/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives of a flight recorder that are not complete: does the partner have its half open too? */
#include <inttypes.h>
#include <string.h>

#include "engine/nccl/judge.h"

/* "send 1->2", "recv 3<-0": ranks within the group. */
static bool read_p2p(const NcclCall *c, bool *send, int64_t *src, int64_t *dst)
{
    Span s = span_of(c->op);

    *send = span_skip(&s, "send ");
    if (*send)
        return span_i64(&s, src) && span_skip(&s, "->") && span_i64(&s, dst);
    return span_skip(&s, "recv ") && span_i64(&s, dst) && span_skip(&s, "<-") && span_i64(&s, src);
}

static uint32_t dump_of_local(const Judge *j, const NcclGroup *g, int64_t local)
{
    if (local < 0 || (g->nranks && (size_t)local >= g->nranks))
        return NCCL_NO_INDEX;
    return nccl_unboxed(map_u64_get(&j->dump_by_rank, (uint64_t)(g->nranks ? g->ranks[local] : local)));
}

/* Who stands where in a group's open sends and receives. */
typedef struct Halves {
    Ranks scheduled, started, partners, missing;
} Halves;

static void halves_done(Halves *h)
{
    vec_done(&h->scheduled);
    vec_done(&h->started);
    vec_done(&h->partners);
    vec_done(&h->missing);
}

/* Parts of a batch are written down without a state; the batch that ends them, of the same number, has it. */
static void take_states(Judge *j, size_t from, size_t to)
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

static void tell_alone(Judge *j, const NcclGroup *g, const NcclCall *c, uint32_t partner)
{
    NcclFinding *f = nccl_findf(j->job, NCCL_RULE_FLIGHT_P2P, "process group %s: %s has no partner", g->name, c->op);

    j->explained = true;
    judge_tell(j, f, c, "waits in ");
    if (j->last[partner] != NCCL_NO_INDEX)
        judge_tell(j, f, &j->r->calls.at[j->last[partner]], "last call was ");
}

/* The first half that waits gives the group its verdict, unless a collective has. */
static void give_verdict(Judge *j, NcclGroup *g, const NcclCall *c, Halves *h)
{
    if (g->stuck)
        return;
    g->stuck = true;
    g->seq = c->seq;
    g->op = c->op;
    g->behind = judge_ranks(j, &h->partners);
    g->scheduled = judge_ranks(j, &h->scheduled);
    g->started = judge_ranks(j, &h->started);
    g->missing = judge_ranks(j, &h->missing);
}

static void take_half(Judge *j, const NcclGroup *g, const NcclCall *c, const int64_t ends[3], bool paired, Halves *h)
{
    int64_t other = ends[2] ? ends[1] : ends[0];
    uint32_t partner = dump_of_local(j, g, other);

    push_once(c->state == NCCL_STARTED ? &h->started : &h->scheduled, j->r->dumps.at[c->dump].rank);
    if (partner == NCCL_NO_INDEX)
        push_once(&h->missing, g->nranks && other >= 0 && (size_t)other < g->nranks ? g->ranks[other] : other);
    else if (!paired) {
        push_once(&h->partners, j->r->dumps.at[partner].rank);
        tell_alone(j, g, c, partner);
    } else if (j->paired == NCCL_NO_INDEX)
        j->paired = (uint32_t)(c - j->r->calls.at);
}

void judge_p2p(Judge *j, NcclGroup *g, size_t from, size_t to)
{
    CLEANUP(map_done) Map open;
    CLEANUP(halves_done) Halves halves = {0};
    const NcclCall *first = NULL;
    bool send;
    int64_t ends[3]; /* from, to, whether it is the send */

    map_init(&open);
    take_states(j, from, to);
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
            take_half(j, g, c, ends, map_getn(&open, (const char *)other, sizeof other) != NULL, &halves);
        }
    if (!first)
        return;
    if (halves.missing.len) {
        j->explained = true;
        judge_tell(j, nccl_findf(j->job, NCCL_RULE_FLIGHT_OPEN, "%s", judge_title(j, g, first->seq)), first,
                   "waits in ");
        nccl_evidence(j->job, nccl_find(j->job, NCCL_RULE_FLIGHT_NO_DUMP, judge_title(j, g, first->seq)),
                      (NcclPlace){j->r->dumps.at[first->dump].input, 0}, "no dump of rank %s",
                      judge_ranks(j, &halves.missing));
    }
    give_verdict(j, g, first, &halves);
}
