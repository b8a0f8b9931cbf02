/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the checks of a flight recorder's dumps share; not for others. */

#include "base/owner.h"
#include "engine/nccl/job.h"

typedef VEC(int64_t) Ranks;

static inline void ranks_done(Ranks *ranks)
{
    vec_done(ranks);
}

/* What one dump has of the group at hand. */
typedef struct Part {
    bool in, any;
    int64_t first, last, completed; /* completed: by the dump's status */
    uint32_t here;                  /* its call of the number at hand, NCCL_NO_INDEX */
} Part;

typedef struct Judge {
    NcclJob *job;
    NcclReport *r;
    Part *parts;            /* by dump */
    uint32_t *last, *stuck; /* by dump: its newest call; its oldest that is not complete */
    Map dump_by_rank;
    VEC(uint32_t) members; /* dumps of the group at hand */
    bool timed;            /* PyTorch was told to record when calls begin: else none is ever "started" */
    bool explained;        /* a finding says why something does not end */
    uint32_t paired;       /* a send or receive whose other half is open too, NCCL_NO_INDEX */
} Judge;

/* "process group 0 (default_pg), number 2" */
const char *judge_title(const Judge *j, const NcclGroup *g, int64_t seq);
void judge_tell(Judge *j, NcclFinding *f, const NcclCall *c, const char *what);
const char *judge_ranks(Judge *j, Ranks *ranks); /* sorts them */

/* Of dumps of one rank the newest stays, with its calls. */
void judge_choose(Judge *j);
/* Sends and receives [from, to) of a group, in the order of numbers. */
void judge_p2p(Judge *j, NcclGroup *g, size_t from, size_t to);
