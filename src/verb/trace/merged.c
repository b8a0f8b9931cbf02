/* SPDX-License-Identifier: Apache-2.0 */
/* A file of several ranks is read once for each of them. */
#include "verb/trace/merged.h"

#include <errno.h>
#include <inttypes.h>

#include "base/owner.h"
#include "base/str.h"
#include "verb/trace/load.h"

enum { NOTE_MAX = 1024, NAMED_MAX = 8 };

int trace_merged_load(TraceInput *input, const TraceScanOptions *options, unsigned int threads, Profile *into, Err *err)
{
    TRY(trace_input_rewind(input, err));
    return trace_load(input, options, threads, into, err);
}

int trace_merged_look(TraceInput *input, unsigned int threads, TraceKnown *known, Err *err)
{
    CLEANUP(profile_done) Profile nothing = {0};
    const TraceScanOptions options = {.from = INT64_MAX - 1, .to = INT64_MAX, .learn = known};

    profile_init(&nothing);
    return trace_merged_load(input, &options, threads, &nothing, err);
}

/* Times after the first event are after the first one of the file, for all of its ranks. */
static int fix_times(const TraceOne *one, TraceInput *input, TraceAsk *ask, Err *err)
{
    TraceOne all = *one;
    TraceAsk times = *ask;
    int64_t from, to;

    if (!ask->from.relative && !ask->to.relative)
        return 0;
    times.step = NULL;
    all.ask = &times;
    TRY(trace_windows_bounds(&all, input, &from, &to, err));
    if (ask->from.given)
        ask->from = (TraceMoment){.given = true, .ns = from};
    if (ask->to.given)
        ask->to = (TraceMoment){.given = true, .ns = to};
    return 0;
}

static void tell(TraceOne *one, const TraceKnown *known)
{
    const unsigned int count = trace_known_owners(known);
    CLEANUP(str_done) Str text = {0};

    str_init(&text, NOTE_MAX);
    str_addf(&text, "%.300s holds %u ranks, told apart by what their processes are called: ", one->path, count);
    for (unsigned int owner = 1; owner <= count && owner <= NAMED_MAX; owner++)
        str_addf(&text, "%srank %" PRId64 " is '%.40s'", owner > 1 ? ", " : "", trace_known_rank(known, owner),
                 trace_known_mark(known, owner));
    if (count > NAMED_MAX)
        str_add(&text, ", ...");
    one->note = one->note ? arena_printf(one->arena, "%s; %s", text.text, one->note) /* read in windows */
                          : arena_strdup(one->arena, text.text);
}

/* GPU operations that do not say whose they are. */
static int count_nobodys(const TraceOne *one, TraceInput *input, const TraceKnown *known, uint64_t *ret, Err *err)
{
    CLEANUP(profile_done) Profile nothing = {0};
    TraceKnown *learn = trace_known_new();
    const TraceScanOptions options = {.from = INT64_MAX - 1, .to = INT64_MAX, .known = known, .learn = learn};

    profile_init(&nothing);
    const int rc = trace_merged_load(input, &options, one->threads, &nothing, err);

    *ret = trace_known_nobodys(learn);
    trace_known_free(learn);
    return rc;
}

static int read_owner(TraceOne *one, TraceInput *input, const TraceKnown *known, unsigned int owner, TraceRanks *ret,
                      Err *err)
{
    TraceRank rank;

    one->known = known;
    one->owner = owner;
    TRY(trace_input_rewind(input, err));
    const int rc = trace_one_piece(one, input, &rank, err);

    if (rc == 0)
        vec_push(ret, rank);
    return rc;
}

static int each(TraceOne *one, TraceInput *input, const TraceKnown *known, TraceRanks *ret, Err *err)
{
    for (unsigned int owner = 1; owner <= trace_known_owners(known); owner++)
        if (trace_numbers_has(&one->ask->ranks, trace_known_rank(known, owner)))
            TRY(read_owner(one, input, known, owner, ret, err));
    tell(one, known);
    return 0;
}

/* Divided it would lack what is nobody's: so it stays one rank. */
static int as_one(TraceOne *one, TraceInput *input, const TraceKnown *known, uint64_t nobodys, TraceRanks *ret,
                  Err *err)
{
    TRY(read_owner(one, input, known, 0, ret, err));
    one->note = arena_printf(one->arena,
                             "%.300s holds events of %u ranks, but %" PRIu64
                             " GPU operations do not say whose they are: it is all taken as one rank, whose GPUs "
                             "may be those of several ranks",
                             one->path, trace_known_owners(known), nobodys);
    return 0;
}

static void drop(TraceRanks *ranks)
{
    for (size_t i = 0; i < ranks->len; i++)
        trace_rank_done(&ranks->at[i]);
    vec_clear(ranks);
}

int trace_merged(TraceOne *one, TraceInput *input, const TraceKnown *known, TraceRanks *ret, Err *err)
{
    const TraceAsk *asked = one->ask;
    TraceAsk ask = *asked;
    uint64_t nobodys = 0;
    int rc = count_nobodys(one, input, known, &nobodys, err);

    if (rc == 0)
        rc = fix_times(one, input, &ask, err);
    one->ask = &ask;
    if (rc == 0)
        rc = nobodys ? as_one(one, input, known, nobodys, ret, err) : each(one, input, known, ret, err);
    if (rc < 0)
        drop(ret);
    one->ask = asked;
    one->known = NULL;
    one->owner = 0;
    return rc || ret->len ? rc : TRACE_ONE_OTHER_RANK;
}
