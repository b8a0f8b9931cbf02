/* SPDX-License-Identifier: Apache-2.0 */
/* One file, in one piece. */
#include "verb/trace/one.h"

#include <errno.h>
#include <inttypes.h>

#include "base/owner.h"
#include "verb/trace/load.h"
#include "verb/trace/nsys.h"

OWNER_POINTER(TraceInput, trace_input_close);

size_t trace_one_scan_memory(const TraceOne *one)
{
    return one->memory / 8 * 5;
}

static int analyse(TraceOne *one, const Profile *profile, TraceRank *ret)
{
    TraceIndex index;
    TraceJob job = {.index = &index, .config = one->config, .scope = TRACE_WHOLE, .arena = one->arena};

    trace_index_init(&index, profile);
    trace_analyse(&job, arena_strdup(one->arena, one->path), one->number, ret);
    trace_index_done(&index);
    return 0;
}

static int choose_and_analyse(TraceOne *one, Profile *profile, TraceRank *ret, Err *err)
{
    CLEANUP(trace_pick_done) TracePick pick = {0};

    if (!trace_numbers_has(&one->ask->ranks, profile->rank >= 0 ? profile->rank : one->number))
        return TRACE_ONE_OTHER_RANK;
    profile_seal(profile);
    if (trace_ask_some(one->ask)) {
        TRY(trace_pick_init(&pick, one->ask, profile, err));
        trace_pick_apply(&pick, profile);
    }
    return analyse(one, profile, ret);
}

static bool is_table(TraceInput *input)
{
    size_t len;
    const char *head = trace_input_head(input, &len);

    return nsys_is_csv(head, len);
}

/* A CSV of nsys stats: single events, or a summary of them. */
static int from_table(TraceOne *one, TraceInput *input, TraceRank *ret, Err *err)
{
    CLEANUP(profile_done) Profile profile = {0};
    CLEANUP(nsys_summary_done) NsysSummary summary = {0};

    profile_init(&profile);
    TRY(trace_nsys_csv(input, &profile, &summary, one->arena, err));
    if (summary.table == NSYS_TABLE_TRACE)
        return choose_and_analyse(one, &profile, ret, err);
    profile_seal(&profile);
    trace_nsys_rank(one, &profile, &summary, ret);
    return 0;
}

static int in_one_piece(TraceOne *one, TraceInput *input, TraceRank *ret, Err *err)
{
    CLEANUP(profile_done) Profile profile = {0};
    TraceScanOptions options = {
        .memory_max = trace_one_scan_memory(one), .skip_host = one->ask->no_host, .skip_python = one->ask->no_python};

    if (is_table(input))
        return from_table(one, input, ret, err);
    profile_init(&profile);
    TRY(trace_load(input, &options, one->threads, &profile, err));
    return choose_and_analyse(one, &profile, ret, err);
}

int trace_one(TraceOne *one, TraceRank *ret, Err *err)
{
    CLEANUP(trace_input_close_at) TraceInput *input = NULL;

    TRY(trace_input_open(one->path, one->read_bytes, one->stop, &input, err));
    int64_t rank = trace_load_rank(input);
    if (rank >= 0 && !trace_numbers_has(&one->ask->ranks, rank))
        return TRACE_ONE_OTHER_RANK;
    int rc = in_one_piece(one, input, ret, err);
    if (rc == -ENOSPC)
        rc = trace_windows(one, input, ret, err);
    uint64_t garbage = trace_input_garbage(input);
    if (rc == 0 && garbage && !one->note)
        one->note =
            arena_printf(one->arena, "%s: %" PRIu64 " bytes or more behind the end of the gzip data were ignored",
                         one->path, garbage);
    return rc;
}
