/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bench/rank.h"

#include <string.h>

static int compare_nodes(const void *a, const void *b)
{
    const BenchRanked *x = a, *y = b;
    const BenchFinding *f = x->judgement.findings.len ? &x->judgement.findings.at[0] : NULL,
                       *g = y->judgement.findings.len ? &y->judgement.findings.at[0] : NULL;

    if (!f || !g)
        return f ? -1 : g ? 1 : strcmp(x->run->node, y->run->node);
    if (f->severity != g->severity)
        return f->severity > g->severity ? -1 : 1;
    const double behind_f = f->behind_percent > 0 ? f->behind_percent : 0,
                 behind_g = g->behind_percent > 0 ? g->behind_percent : 0;
    if (behind_f > behind_g || behind_f < behind_g)
        return behind_f > behind_g ? -1 : 1;
    return strcmp(x->run->node, y->run->node);
}

void bench_rank(const BenchRun *const *runs, size_t count, BenchRanking *ret)
{
    const BenchReferences references = {.fleet = &ret->fleet};

    *ret = (BenchRanking){.behind = 0};
    bench_fleet_make(runs, count, &ret->fleet);
    for (size_t i = 0; i < count; i++) {
        if (bench_fleet_is_old(runs, count, i))
            continue;
        BenchRanked *node = vec_add(&ret->nodes);
        node->run = runs[i];
        bench_judge(runs[i], &references, &node->judgement);
        ret->behind += node->judgement.verdict == BENCH_NOT_FIT;
    }
    vec_sort(&ret->nodes, compare_nodes);
}

void bench_ranking_done(BenchRanking *ranking)
{
    for (size_t i = 0; i < ranking->nodes.len; i++)
        bench_judgement_done(&ranking->nodes.at[i].judgement);
    vec_done(&ranking->nodes);
    bench_fleet_done(&ranking->fleet);
}
