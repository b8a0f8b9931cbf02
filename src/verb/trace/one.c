/* SPDX-License-Identifier: Apache-2.0 */
/* One file: the table of readers, and from the profile to the rank. */
#include "verb/trace/one.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/human.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "engine/trace/classify.h"
#include "source/nsys/nsys.h"

/* With the file's threads, and the memory that its profile and the index leave. */
static void analyse_profile(const TraceOne *one, const Profile *profile, TraceRank *ret)
{
    TraceIndex index;

    trace_index_init(&index, profile, one->threads);
    const size_t held = profile_bytes(profile) + trace_index_bytes(&index);
    const TraceJob job = {.index = &index,
                          .config = one->config,
                          .arena = one->arena,
                          .threads = one->threads,
                          .memory = held < one->memory ? one->memory - held : 0};

    trace_analyse(&job, arena_strdup(one->arena, one->path), one->number, ret);
    trace_index_done(&index);
}

/* ---- Nsight Systems ---- */

enum { CSV_MAX = 1 << 30, BLOCK = 256 * 1024 };

static int read_nsys_csv(ProfileInput *input, const bool *stop, Profile *into, NsysSummary *ret, Arena *arena, Err *err)
{
    CLEANUP(str_done) Str text = {0};
    CLEANUP_FREE char *block = xmalloc(BLOCK);
    ssize_t n;

    str_init(&text, CSV_MAX);
    while ((n = profile_input_read(input, block, BLOCK, err)) > 0) {
        str_addn(&text, block, (size_t)n);
        if (stop && *stop)
            return err_set(err, -EINTR, "interrupted");
    }
    TRY((int)n);
    TRY(str_check(&text, profile_input_path(input), err));
    const int rc = nsys_read_csv(text.text, text.len, into, ret, arena, err);

    return rc < 0 ? err_add(err, "'%s'", profile_input_path(input)) : rc;
}

#define ROW_TIMES(row)                                                                                                 \
    .count = (row)->count, .total_ns = (row)->total_ns, .min_ns = (row)->min_ns, .max_ns = (row)->max_ns

static void add_kernel(TraceRank *rank, const NsysSummaryRow *row)
{
    const size_t len = strlen(row->name);
    const TraceKernel kernel = {.name = row->name,
                                .op = "",
                                .line = "",
                                .class = trace_classify(PROFILE_KERNEL, row->name, len),
                                ROW_TIMES(row),
                                .mean_ns = row->count ? (double)row->total_ns / (double)row->count : 0,
                                .sd_ns = isnan(row->sd_ns) ? 0 : row->sd_ns,
                                .tensor_core = trace_is_tensor_core(row->name, len),
                                .tensor_unknown = trace_may_be_tensor_core(row->name, len),
                                .occupancy_percent = (double)NAN,
                                .blocks_per_sm = (double)NAN,
                                .sm_efficiency = (double)NAN,
                                .registers = -1,
                                .shared_bytes = -1};

    vec_push(&rank->kernels, kernel);
}

static void add_copy(TraceRank *rank, const NsysSummaryRow *row)
{
    ProfileCopy words;

    profile_copy_words(row->name, strlen(row->name), &words);
    vec_push(&rank->copies, ((TraceCopy){.kind = trace_copy_words[words.kind],
                                         .source = "",
                                         .target = "",
                                         ROW_TIMES(row),
                                         .bandwidth_gbs = (double)NAN}));
}

static void add_call(TraceRank *rank, const NsysSummaryRow *row)
{
    const TraceCall call = {.name = row->name,
                            .inner = "",
                            .outer = "",
                            .class = trace_classify_host(PROFILE_CALL, row->name, strlen(row->name)),
                            ROW_TIMES(row)};

    vec_push(&rank->calls, call);
}

static void add_range(TraceRank *rank, const NsysSummaryRow *row)
{
    vec_push(&rank->annotations, ((TraceAnnotation){.name = row->name, ROW_TIMES(row), .busy_ns = -1}));
}

static void (*const adders[])(TraceRank *rank, const NsysSummaryRow *row) = {[NSYS_TABLE_KERNELS] = add_kernel,
                                                                             [NSYS_TABLE_COPIES] = add_copy,
                                                                             [NSYS_TABLE_CALLS] = add_call,
                                                                             [NSYS_TABLE_RANGES] = add_range};

static void rank_of_summary(TraceOne *one, const Profile *profile, const NsysSummary *summary, TraceRank *ret)
{
    analyse_profile(one, profile, ret); /* no events: only the file's description, and its losses */
    for (size_t i = 0; i < summary->rows.len; i++)
        adders[summary->table](ret, &summary->rows.at[i]);
    one->note = arena_printf(one->arena,
                             "%s is a summary: it has names, counts and times, and no single events to analyse; "
                             "for more give the SQLite export or cuda_gpu_trace",
                             one->path);
}

/* ---- reading ---- */

static int read_json(ProfileInput *input, const bool *stop, const TraceScanOptions *options, unsigned int threads,
                     Profile *into, Err *err)
{
    const TraceSource source = {.read = profile_input_read, .context = input, .stop = stop};
    uint64_t at;

    const int rc = trace_scan_parallel(&source, options, threads, into, err);
    const char *damage = profile_input_damage(input, &at);

    if (damage[0] && rc == 0)
        profile_lose(into, PROFILE_LOSS_COMPRESSION, at, damage, strlen(damage));
    else if (damage[0] && rc == -EBADMSG)
        err_set(err, rc, "%s", damage);
    return rc == -EBADMSG ? err_add(err, "'%s'", profile_input_path(input)) : rc;
}

/* --no-cpu for a reader that reads everything: ranges stay, as the scanner leaves them. */
static bool is_no_cpu_work(void *context, const Profile *profile, const ProfileEvents *table, size_t row)
{
    (void)context;
    (void)profile;
    return table->kind[row] <= PROFILE_SET || table->kind[row] == PROFILE_ANNOTATION ||
           table->kind[row] == PROFILE_GPU_ANNOTATION;
}

static int read_sqlite(ProfileInput *input, const bool *stop, const TraceScanOptions *options, Profile *into, Err *err)
{
    const char *path = profile_input_path(input);

    if (options->raw || options->from || options->to)
        return err_set(err, -EOPNOTSUPP, "'%s' is a database of Nsight Systems: it can be analysed, but not cut", path);
    if (profile_input_is_stdin(input))
        return err_set(err, -ESPIPE, "a database of Nsight Systems cannot be read from standard input; give its file");
    const int rc = nsys_read_sqlite(path, options->memory_max, stop, into, err);

    if (rc == 0 && options->skip_host)
        profile_filter(into, is_no_cpu_work, NULL);
    return rc < 0 && rc != -EINTR ? err_add(err, "'%s'", path) : rc;
}

int trace_load(ProfileInput *input, const bool *stop, const TraceScanOptions *options, unsigned int threads,
               Profile *into, Err *err)
{
    size_t len;
    const char *magic = profile_input_magic(input, &len);

    return nsys_is_sqlite(magic, len) ? read_sqlite(input, stop, options, into, err)
                                      : read_json(input, stop, options, threads, into, err);
}

int64_t trace_load_rank(ProfileInput *input)
{
    size_t len;
    const char *head = profile_input_head(input, &len);
    const char *info = memmem(head, len, "\"distributedInfo\"", 17);
    const char *end = info ? memchr(info, '}', len - (size_t)(info - head)) : NULL;
    const char *rank = end ? memmem(info, (size_t)(end - info), "\"rank\"", 6) : NULL;

    if (!rank)
        return -1;
    rank += 6; /* the '}' at `end` ends both spans */
    rank += strspn(rank, " \t\r\n:");
    const size_t digits = strspn(rank, "0123456789");

    return digits > 0 && digits < 10 ? strtoll(rank, NULL, 10) : -1;
}

/* ---- analysing ---- */

/* Of one->memory, what the scanner may fill; the rest is for index and analysis. */
static size_t scan_memory(const TraceOne *one)
{
    return one->memory / 8 * 5;
}

static int choose_and_analyse(TraceOne *one, Profile *profile, TraceRank *ret, Err *err)
{
    CLEANUP(trace_pick_done) TracePick pick = {0};

    if (!trace_numbers_has(&one->ask->ranks, profile->rank >= 0 ? profile->rank : one->number))
        return TRACE_ONE_OTHER_RANK;
    profile_seal(profile, one->threads);
    if (trace_ask_some(one->ask)) {
        TRY(trace_pick_init(&pick, one->ask, profile, err));
        trace_pick_apply(&pick, profile);
    }
    analyse_profile(one, profile, ret);
    return 0;
}

static bool is_table(ProfileInput *input)
{
    size_t len;
    const char *head = profile_input_head(input, &len);

    return nsys_is_csv(head, len);
}

/* A CSV of nsys stats: single events, or a summary of them. */
static int from_table(TraceOne *one, ProfileInput *input, TraceRank *ret, Err *err)
{
    CLEANUP(profile_done) Profile profile = {0};
    CLEANUP(nsys_summary_done) NsysSummary summary = {0};

    profile_init(&profile);
    TRY(read_nsys_csv(input, one->stop, &profile, &summary, one->arena, err));
    if (summary.table == NSYS_TABLE_TRACE)
        return choose_and_analyse(one, &profile, ret, err);
    profile_seal(&profile, 1);
    rank_of_summary(one, &profile, &summary, ret);
    return 0;
}

/* Estimates the memory for the whole file from the part that was read, and adds a quarter: parts of a file differ. */
static int refuse_size(const TraceOne *one, const ProfileInput *input, const Profile *profile, Err *err)
{
    const uint64_t text = profile_input_text_size(input);
    const double part = profile->bytes ? 1.25 * (double)text / (double)profile->bytes : 0;
    const double need = part * (double)profile_bytes(profile) * (double)one->memory / (double)scan_memory(one);
    char needed[HUMAN_MAX], given[HUMAN_MAX];

    human_bytes(given, (double)one->memory);
    if (need <= (double)one->memory)
        return err_set(err, -ENOSPC,
                       "'%s' needs more memory than the %s that --memory gives it; allow more, or take a part of the "
                       "file with 'stoker trace cut'",
                       one->path, given);
    return err_set(err, -ENOSPC,
                   "'%s' needs about %s of memory, and --memory gives it %s; allow more, or take a part of the file "
                   "with 'stoker trace cut'",
                   one->path, human_bytes(needed, need), given);
}

/* "[TP03] 1234" in front of a process: the mark of a rank in a file that several ranks were merged into. */
static const char *mark_of(const Profile *profile, const ProfileLane *lane, size_t *ret_len)
{
    size_t len;
    const char *text = lane->pid_name == PROFILE_NONE ? "" : profile_text(profile, lane->pid_name, &len);
    const char *end = *text == '[' ? strchr(text, ']') : NULL;

    *ret_len = end ? (size_t)(end - text) + 1 : 0;
    return end ? text : NULL;
}

/* Ranks that were merged into one file have the same correlations for different work: refuse them. */
static int refuse_several_ranks(const TraceOne *one, const Profile *profile, Err *err)
{
    const char *first = NULL;
    size_t first_len = 0;

    for (size_t i = 0; i < profile->lanes.len; i++) {
        size_t len;
        const char *mark = mark_of(profile, &profile->lanes.at[i], &len);

        if (!mark)
            continue;
        if (first && (len != first_len || memcmp(mark, first, len) != 0))
            return err_set(err, -EOPNOTSUPP, "'%s' holds several ranks (%.*s, %.*s); give the file of each rank",
                           one->path, (int)(first_len < 40 ? first_len : 40), first, (int)(len < 40 ? len : 40), mark);
        first = mark;
        first_len = len;
    }
    return 0;
}

static int from_json(TraceOne *one, ProfileInput *input, TraceRank *ret, Err *err)
{
    CLEANUP(profile_done) Profile profile = {0};
    const TraceScanOptions options = {
        .memory_max = scan_memory(one), .skip_host = one->ask->no_host, .skip_python = one->ask->no_python};

    profile_init(&profile);
    const int rc = trace_load(input, one->stop, &options, one->threads, &profile, err);

    if (rc == -ENOSPC)
        return refuse_size(one, input, &profile, err);
    TRY(rc);
    TRY(refuse_several_ranks(one, &profile, err));
    return choose_and_analyse(one, &profile, ret, err);
}

int trace_one(TraceOne *one, TraceRank *ret, Err *err)
{
    CLEANUP(profile_input_close_at) ProfileInput *input = NULL;

    TRY(profile_input_open(one->path, false, one->read_bytes, one->stop, &input, err));
    int64_t rank = trace_load_rank(input);
    if (rank >= 0 && !trace_numbers_has(&one->ask->ranks, rank))
        return TRACE_ONE_OTHER_RANK;
    const int rc = is_table(input) ? from_table(one, input, ret, err) : from_json(one, input, ret, err);
    const uint64_t garbage = profile_input_garbage(input);

    if (rc == 0 && garbage && !one->note)
        one->note =
            arena_printf(one->arena, "%s: %" PRIu64 " bytes or more behind the end of the gzip data were ignored",
                         one->path, garbage);
    return rc;
}
