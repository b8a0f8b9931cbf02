/* SPDX-License-Identifier: Apache-2.0 */
/* Which dumps of a flight recorder are used, and which rank each is of. */
#include <inttypes.h>

#include "engine/nccl/judge.h"

/* How new a dump is: its latest call. */
typedef struct Age {
    int64_t created_ns, record;
} Age;

static bool is_newer(const Age *a, const Age *b)
{
    return a->created_ns != b->created_ns ? a->created_ns > b->created_ns : a->record > b->record;
}

static const Age *ages_of(const Judge *j)
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

static void tell_two(Judge *j, uint32_t used, uint32_t left)
{
    const NcclDump *a = &j->r->dumps.at[used], *b = &j->r->dumps.at[left];
    NcclFinding *f = nccl_findf(j->job, NCCL_RULE_FLIGHT_TWICE, "rank %" PRId64 ": %s is used, %s is not", a->rank,
                                j->r->inputs.at[a->input].name, j->r->inputs.at[b->input].name);

    nccl_evidence(j->job, f, (NcclPlace){a->input, 0}, "used: %u call%s", a->calls, a->calls == 1 ? "" : "s");
    nccl_evidence(j->job, f, (NcclPlace){b->input, 0}, "left out: %u call%s", b->calls, b->calls == 1 ? "" : "s");
}

static void choose(Judge *j, const Age *ages)
{
    for (uint32_t i = 0; i < j->r->dumps.len; i++) {
        NcclDump *d = &j->r->dumps.at[i];
        uint32_t before = nccl_unboxed(map_u64_get(&j->dump_by_rank, (uint64_t)d->rank));
        if (!d->rank_known)
            continue;
        if (before == NCCL_NO_INDEX || !is_newer(&ages[before], &ages[i])) {
            map_u64_put(&j->dump_by_rank, (uint64_t)d->rank, nccl_boxed(i));
            if (before != NCCL_NO_INDEX)
                j->r->dumps.at[before].used = false;
        } else
            d->used = false;
    }
    for (uint32_t i = 0; i < j->r->dumps.len; i++)
        if (!j->r->dumps.at[i].used)
            tell_two(j, nccl_unboxed(map_u64_get(&j->dump_by_rank, (uint64_t)j->r->dumps.at[i].rank)), i);
}

/* Dumps whose name tells no rank get the numbers that are left. */
static void number(Judge *j)
{
    int64_t next = 0;

    for (uint32_t i = 0; i < j->r->dumps.len; i++) {
        if (j->r->dumps.at[i].rank_known)
            continue;
        while (map_u64_get(&j->dump_by_rank, (uint64_t)next))
            next++;
        j->r->dumps.at[i].rank = next;
        map_u64_put(&j->dump_by_rank, (uint64_t)next, nccl_boxed(i));
    }
}

static void drop_unused(Judge *j)
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

void judge_choose(Judge *j)
{
    choose(j, ages_of(j));
    number(j);
    drop_unused(j);
}
