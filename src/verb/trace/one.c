/* SPDX-License-Identifier: Apache-2.0 */
/* One file, in one piece. */
#include "verb/trace/one.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/owner.h"
#include "verb/trace/load.h"
#include "verb/trace/merged.h"
#include "verb/trace/nsys.h"

OWNER_POINTER(TraceInput, trace_input_close);

size_t trace_one_scan_memory(const TraceOne *one)
{
    return one->memory / 8 * 5;
}

TraceJob trace_one_job(const TraceOne *one, const TraceIndex *index)
{
    const size_t held = profile_bytes(index->profile) + trace_index_bytes(index);

    return (TraceJob){.index = index,
                      .config = one->config,
                      .scope = TRACE_WHOLE,
                      .arena = one->arena,
                      .threads = one->threads,
                      .memory = held < one->memory ? one->memory - held : 0};
}

static int analyse(TraceOne *one, const Profile *profile, TraceRank *ret)
{
    TraceIndex index;

    trace_index_init(&index, profile, one->threads);
    TraceJob job = trace_one_job(one, &index);
    trace_analyse(&job, arena_strdup(one->arena, one->path), one->number, ret);
    trace_index_done(&index);
    return 0;
}

static int choose_and_analyse(TraceOne *one, Profile *profile, TraceRank *ret, Err *err)
{
    CLEANUP(trace_pick_done) TracePick pick = {0};

    if (!trace_numbers_has(&one->ask->ranks, profile->rank >= 0 ? profile->rank : one->number))
        return TRACE_ONE_OTHER_RANK;
    profile_seal_by(profile, one->threads);
    if (trace_ask_some(one->ask)) {
        TRY(trace_pick_init(&pick, one->ask, profile, err));
        trace_pick_apply(&pick, profile);
    }
    return analyse(one, profile, ret);
}

static bool is_json(const char *head, size_t len)
{
    while (len > 0 && (*head == ' ' || *head == '\t' || *head == '\r' || *head == '\n')) {
        head++;
        len--;
    }
    return len > 0 && (*head == '{' || *head == '[');
}

static bool is_table(TraceInput *input)
{
    size_t len;
    const char *head = trace_input_head(input, &len);

    return !is_json(head, len) && nsys_is_csv(head, len);
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

enum { ONE_MERGED = 2 }; /* beside what trace_one gives */

/* `learn` hears what the file holds: several ranks are not analysed as one. */
static int in_one_piece(TraceOne *one, TraceInput *input, TraceKnown *learn, TraceRank *ret, Err *err)
{
    CLEANUP(profile_done) Profile profile = {0};
    TraceScanOptions options = {.memory_max = trace_one_scan_memory(one),
                                .skip_host = one->ask->no_host,
                                .skip_python = one->ask->no_python,
                                .known = one->known,
                                .owner = one->owner,
                                .learn = learn};

    profile_init(&profile);
    TRY(trace_load(input, &options, one->threads, &profile, err));
    if (learn && trace_known_owners(learn))
        return ONE_MERGED;
    if (learn && trace_known_other_rank(learn) >= 0)
        one->note = arena_printf(one->arena,
                                 "%.300s tells of itself that it is of rank %" PRId64 " and of rank %" PRId64
                                 ", and its processes do not say whose they are: it is all taken as one rank",
                                 one->path, trace_known_other_rank(learn), profile.rank);
    return choose_and_analyse(one, &profile, ret, err);
}

int trace_one_piece(TraceOne *one, TraceInput *input, TraceRank *ret, Err *err)
{
    const int rc = in_one_piece(one, input, NULL, ret, err);

    return rc == -ENOSPC ? trace_windows(one, input, ret, err) : rc;
}

static int one_or_merged(TraceOne *one, TraceInput *input, TraceKnown *known, TraceRanks *ret, Err *err)
{
    TraceRank rank;
    int rc = is_table(input) ? from_table(one, input, &rank, err) : in_one_piece(one, input, known, &rank, err);

    if (rc == -ENOSPC) {
        rc = trace_merged_look(input, one->threads, known, err);
        if (rc == 0)
            rc = trace_known_owners(known) ? ONE_MERGED : trace_windows(one, input, &rank, err);
    }
    if (rc == ONE_MERGED)
        return trace_merged(one, input, known, ret, err);
    if (rc == 0)
        vec_push(ret, rank);
    return rc;
}

/* A hint from the beginning of the file; whether it is so is known behind it. */
static bool may_be_merged(TraceInput *input)
{
    static const char *const words[] = {"\"pid\": \"[", "\"pid\":\"[", "\"rank", "\"Rank",
                                        "\"RANK",       "\"[rank",     "\"[Rank"};
    size_t len;
    const char *head = trace_input_head(input, &len);

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        for (const char *at = head; (at = memmem(at, len - (size_t)(at - head), words[i], strlen(words[i]))); at++)
            if (at + strlen(words[i]) < head + len && at[strlen(words[i])] != '"') /* no key "rank" */
                return true;
    return false;
}

int trace_one(TraceOne *one, TraceRanks *ret, Err *err)
{
    CLEANUP(trace_input_close_at) TraceInput *input = NULL;

    TRY(trace_input_open(one->path, one->read_bytes, one->stop, &input, err));
    int64_t rank = trace_load_rank(input);
    if (rank >= 0 && !trace_numbers_has(&one->ask->ranks, rank) && !may_be_merged(input))
        return TRACE_ONE_OTHER_RANK;
    TraceKnown *known = trace_known_new();
    int rc = one_or_merged(one, input, known, ret, err);

    trace_known_free(known);
    uint64_t garbage = trace_input_garbage(input);
    if (rc == 0 && garbage && !one->note)
        one->note =
            arena_printf(one->arena, "%s: %" PRIu64 " bytes or more behind the end of the gzip data were ignored",
                         one->path, garbage);
    return rc;
}
