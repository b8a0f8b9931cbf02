/* SPDX-License-Identifier: Apache-2.0 */
/* JSON inputs: results of nccl-tests (-J), or a dump of PyTorch's flight recorder with its process groups and calls,
 * kept in few bytes each. */
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/nccl/job.h"

enum { GROUP_RANKS_MAX = 1 << 20, TEXT_MAX = 480, FRAMES_MAX = 3, KEY_MAX = 1100 };

static Span span_of_json(const json_t *value)
{
    return json_is_string(value) ? (Span){json_string_value(value), json_string_length(value)} : span_of("");
}

static Span text_of(const json_t *object, const char *key)
{
    return span_of_json(json_object_get(object, key));
}

static const char *word_of(NcclJob *job, const json_t *value)
{
    return nccl_intern(job, span_of_json(value));
}

static int64_t int_or(const json_t *value, int64_t other)
{
    return json_is_integer(value) ? json_integer_value(value) : other;
}

static int64_t int_of(const json_t *object, const char *key, int64_t other)
{
    return int_or(json_object_get(object, key), other);
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* "rank" and a number behind it: nccl_trace_rank_3, rank-3.2026-01-05.json. */
static bool rank_by_word(Span s, int64_t *ret)
{
    bool found = false;

    while (span_after(&s, "rank")) {
        Span at = s;
        while (at.len && strchr("_-=.", at.at[0]))
            at = span_from(at, 1);
        if (at.len && isdigit((unsigned char)at.at[0]))
            found |= span_i64(&at, ret);
    }
    return found && *ret < GROUP_RANKS_MAX;
}

/* The rank in a file's name, or the last number in it without its endings: 3.json. */
static bool rank_of_name(const char *name, int64_t *ret)
{
    Span s = span_of(name);
    size_t slash = span_find_last(s, "/");

    if (slash != SPAN_NOWHERE)
        s = span_from(s, slash + 1);
    if (rank_by_word(s, ret))
        return true;
    static const char *const endings[] = {".gz", ".json", ".pkl", ".pickle", ".txt"};
    for (size_t i = 0; i < ARRAY_LEN(endings); i++)
        if (s.len > strlen(endings[i]) && span_is(span_from(s, s.len - strlen(endings[i])), endings[i]))
            s.len -= strlen(endings[i]);
    size_t end = s.len;
    while (end > 0 && !isdigit((unsigned char)s.at[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && isdigit((unsigned char)s.at[begin - 1]))
        begin--;
    Span digits = span_cut(s, begin, end);
    return span_i64(&digits, ret) && *ret < GROUP_RANKS_MAX;
}

/* Ranks of "[0, 1, 2]" or of a list. */
static Ranks read_ranks(const json_t *value)
{
    Ranks ranks = {0};
    Span s = span_of_json(value);
    int64_t rank;

    for (size_t i = 0; i < json_array_size(value) && ranks.len < GROUP_RANKS_MAX; i++)
        if ((rank = int_or(json_array_get(value, i), -1)) >= 0 && rank < GROUP_RANKS_MAX)
            vec_push(&ranks, rank);
    while (s.len && ranks.len < GROUP_RANKS_MAX)
        if (!span_i64(&s, &rank))
            s = span_from(s, 1);
        else if (rank >= 0 && rank < GROUP_RANKS_MAX)
            vec_push(&ranks, rank);
    return ranks;
}

/* Groups of one name but other members are other groups: each rank counts its own. */
static uint32_t group_of(NcclJob *job, const char *name, const char *desc, const json_t *members)
{
    char key[KEY_MAX];
    Span list = span_of_json(members);
    int len = snprintf(key, sizeof key, "%s|%.255s|%" PRIu64, name, list.at,
                       list.len ? map_hash(list.at, list.len, 0) : json_array_size(members));
    uint32_t index = nccl_unbox(map_getn(&job->group_by_key, key, (size_t)len));
    if (index != NCCL_NO_INDEX)
        return index;
    if (!nccl_has_room(job, job->report.groups.len, NCCL_COMMS_MAX))
        return NCCL_NO_INDEX;
    CLEANUP(ranks_done) Ranks ranks = read_ranks(members);
    NcclGroup group = {.name = name,
                       .desc = desc,
                       .members = nccl_print_ranks(job, &ranks),
                       .ranks = ranks.len ? arena_memdup(&job->arena, ranks.at, ranks.len * sizeof *ranks.at) : NULL,
                       .nranks = ranks.len,
                       .seq = NCCL_UNKNOWN,
                       .last_completed = NCCL_UNKNOWN,
                       .op = "",
                       .ranks_by = {"", "", "", "", ""},
                       .finding = "",
                       .waits_for = ""};
    index = (uint32_t)job->report.groups.len;
    vec_push(&job->report.groups, group);
    map_putn(&job->group_by_key, key, (size_t)len, nccl_box(index));
    return index;
}

/* "[[1024, 8], [2]]" of sizes; elements of the first in *ret_numel (all of them for lists of tensors). */
static void add_sizes(Str *out, const json_t *sizes, int64_t *ret_numel)
{
    size_t i, j;
    const json_t *size, *dim;
    int64_t sum = 0;

    str_addc(out, '[');
    json_array_foreach(sizes, i, size)
    {
        int64_t numel = json_is_array(size) ? 1 : int_or(size, 0);
        str_add(out, i ? ", [" : "[");
        json_array_foreach(size, j, dim)
        {
            int64_t d = int_or(dim, 0);
            str_addf(out, "%s%" PRId64, j ? ", " : "", d);
            if (__builtin_mul_overflow(numel, d, &numel))
                numel = INT64_MAX;
        }
        str_addc(out, ']');
        if (__builtin_add_overflow(sum, numel, &sum))
            sum = INT64_MAX;
    }
    str_addc(out, ']');
    *ret_numel = sum;
}

static const char *sizes_of(NcclJob *job, const json_t *entry, NcclCall *call)
{
    char room[TEXT_MAX];
    Str text;

    str_init_room(&text, room, sizeof room);
    str_add(&text, "in ");
    add_sizes(&text, json_object_get(entry, "input_sizes"), &call->numel_in);
    str_add(&text, " out ");
    add_sizes(&text, json_object_get(entry, "output_sizes"), &call->numel_out);
    return nccl_intern(job, (Span){text.text, text.len});
}

static const char *dtypes_of(NcclJob *job, const json_t *entry)
{
    static const char *const keys[] = {"input_dtypes", "output_dtypes"};
    char room[TEXT_MAX];
    Str text;

    str_init_room(&text, room, sizeof room);
    for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
        const json_t *list = json_object_get(entry, keys[k]), *item;
        size_t i;
        if (k)
            str_add(&text, " -> ");
        json_array_foreach(list, i, item) if (json_is_string(item))
            str_addf(&text, "%s%s", i ? "," : "", json_string_value(item));
    }
    return text.len > 4 ? nccl_intern(job, (Span){text.text, text.len}) : "";
}

/* "train.py:88 step < loop.py:12 main": the innermost frames that are not PyTorch's own. */
static const char *frames_of(NcclJob *job, const json_t *frames)
{
    char room[TEXT_MAX];
    size_t i, told = 0;
    const json_t *frame;
    Str text;

    if (json_array_size(frames) == 0)
        return "";
    str_init_room(&text, room, sizeof room);
    json_array_foreach(frames, i, frame)
    {
        const json_t *file = json_object_get(frame, "filename"), *name = json_object_get(frame, "name");
        if (!json_is_string(file) || told == FRAMES_MAX)
            continue;
        if (strstr(json_string_value(file), "/torch/") && i + 1 < json_array_size(frames))
            continue;
        str_addf(&text, "%s%s:%" PRId64 " %s", told++ ? " < " : "", json_string_value(file), int_of(frame, "line", 0),
                 json_is_string(name) ? json_string_value(name) : "");
    }
    return nccl_intern(job, (Span){text.text, text.len});
}

static NcclState state_of(const json_t *entry)
{
    const Span state = text_of(entry, "state");

    if (span_is(state, "completed") || json_is_true(json_object_get(entry, "retired")) ||
        int_of(entry, "time_discovered_completed_ns", 0) > 0)
        return NCCL_COMPLETED;
    return span_is(state, "started") || int_of(entry, "time_discovered_started_ns", 0) > 0 ? NCCL_STARTED
                                                                                           : NCCL_SCHEDULED;
}

static void read_group_name(NcclJob *job, const json_t *entry, const char **ret_name, const char **ret_desc)
{
    const json_t *group = json_object_get(entry, "process_group"), *id = json_object_get(entry, "pg_id");
    char room[32];

    *ret_name = word_of(job, json_is_array(group) ? json_array_get(group, 0) : group);
    *ret_desc = word_of(job, json_array_get(group, 1));
    if (**ret_name || !json_is_integer(id))
        return;
    snprintf(room, sizeof room, "%" PRId64, int_or(id, 0));
    *ret_name = nccl_intern(job, span_of(room));
}

/* The dump's entry of a group: under its name, or under another key with the name inside. */
static const json_t *config_of(json_t *config, const char *name)
{
    const json_t *found = json_object_get(config, name);

    for (void *at = found ? NULL : json_object_iter(config); at; at = json_object_iter_next(config, at)) {
        if (name[0] && span_is(text_of(json_object_iter_value(at), "name"), name))
            return json_object_iter_value(at);
    }
    return found;
}

static void read_entry(NcclJob *job, uint32_t dump, json_t *config, const json_t *entry)
{
    const char *name, *desc;

    if (!json_is_object(entry))
        return;
    if (!nccl_has_room(job, job->report.calls.len, NCCL_CALLS_MAX))
        return;
    read_group_name(job, entry, &name, &desc);
    const json_t *members = json_object_get(config_of(config, name), "ranks");
    const json_t *seq = json_object_get(entry, "collective_seq_id");
    NcclCall call = {.dump = dump,
                     .group = group_of(job, name, desc, members),
                     .record = int_of(entry, "record_id", 0),
                     .seq = int_or(seq ? seq : json_object_get(entry, "seq_id"), NCCL_UNKNOWN),
                     .state = state_of(entry),
                     .created_ns = int_of(entry, "time_created_ns", 0)};
    Span op_text = text_of(entry, "profiling_name");
    span_skip(&op_text, "nccl:");
    call.op = nccl_intern(job, op_text);
    call.p2p = json_is_true(json_object_get(entry, "is_p2p")) || span_starts(op_text, "send ") ||
               span_starts(op_text, "recv ");
    if (call.p2p)
        call.seq = int_of(entry, "p2p_seq_id", call.seq);
    call.timed = call.state == NCCL_STARTED || int_of(entry, "time_discovered_started_ns", 0) > 0;
    call.sizes = sizes_of(job, entry, &call);
    call.dtypes = dtypes_of(job, entry);
    call.frames = frames_of(job, json_object_get(entry, "frames"));
    if (call.group == NCCL_NO_INDEX)
        return;
    job->report.groups.at[call.group].calls++;
    job->report.dumps.at[dump].calls++;
    vec_push(&job->report.calls, call);
    nccl_input(job)->used++;
}

/* Groups without calls in the buffer: their status. */
static void read_status(NcclJob *job, uint32_t dump, json_t *config, json_t *status)
{
    json_t *names = config ? config : status;

    for (void *at = json_object_iter(names); at; at = json_object_iter_next(names, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *of = json_object_get(status, name), *c = json_object_get(config, name);
        if (text_of(c, "name").len)
            name = text_of(c, "name").at; /* as the calls have it */
        uint32_t index = group_of(job, nccl_intern(job, span_of(name)), word_of(job, json_object_get(c, "desc")),
                                  json_object_get(c, "ranks"));
        NcclStatus s = {.dump = dump,
                        .group = index,
                        .enqueued = int_of(of, "last_enqueued_collective", NCCL_UNKNOWN),
                        .completed = int_of(of, "last_completed_collective", NCCL_UNKNOWN)};
        if (index != NCCL_NO_INDEX && job->statuses.len < NCCL_CALLS_MAX)
            vec_push(&job->statuses, s);
    }
}

void nccl_read_flight(NcclJob *job, const json_t *top)
{
    const json_t *entries = json_is_array(top) ? top : json_object_get(top, "entries");
    json_t *config = json_object_get(top, "pg_config"), *status = json_object_get(top, "pg_status");
    const json_t *entry;
    uint32_t index = (uint32_t)job->report.dumps.len;
    NcclDump dump = {.input = job->input,
                     .rank = index,
                     .used = true,
                     .version = word_of(job, json_object_get(top, "version")),
                     .nccl_version = word_of(job, json_object_get(top, "nccl_version"))};
    size_t i;

    dump.rank_known = rank_of_name(nccl_input(job)->name, &dump.rank);
    vec_push(&job->report.dumps, dump);
    json_array_foreach(entries, i, entry) read_entry(job, index, config, entry);
    if (json_is_object(config) || json_is_object(status))
        read_status(job, index, json_is_object(config) ? config : NULL, status);
    nccl_input(job)->used++;
}

static NcclFigure figure_of(const json_t *object)
{
    double wrong = number_of(object, "nwrong"), time = number_of(object, "time");

    return (NcclFigure){.time_us = isnan(time) ? number_of(object, "cpu_time") : time,
                        .alg_gbs = number_of(object, "alg_bw"),
                        .bus_gbs = number_of(object, "bus_bw"),
                        .wrong = wrong >= 0 && wrong < 1e18 ? (int64_t)wrong : NCCL_UNKNOWN};
}

/* "root" is a text with blanks. */
static int64_t root_of(const json_t *row)
{
    Span s = text_of(row, "root");
    int64_t root;

    return span_i64(&s, &root) ? root : int_of(row, "root", NCCL_UNKNOWN);
}

/* One device per process is listed; each has nthreads * ngpus ranks. */
static void read_config(NcclJob *job, const json_t *config, NcclBench *bench)
{
    const json_t *devices = json_object_get(config, "devices"), *device;
    int64_t each = (int_of(config, "nthreads", 1) & 0xffff) * (int_of(config, "ngpus", 1) & 0xffff);
    size_t i;
    CLEANUP(map_done) Map hosts;

    map_init(&hosts);
    json_array_foreach(devices, i, device)
    {
        Span host = text_of(device, "hostname");
        if (!map_getn(&hosts, host.at, host.len))
            map_putn(&hosts, host.at, host.len, job);
    }
    int64_t processes = (int64_t)json_array_size(devices);
    bench->ranks = each > 0 && each < NCCL_MEMBERS_MAX && processes < NCCL_MEMBERS_MAX ? processes * each : processes;
    bench->nodes = (int64_t)hosts.len;
}

static void read_bench(NcclJob *job, const json_t *top)
{
    const json_t *results = json_object_get(top, "results"), *row;
    NcclBench *bench = nccl_new_bench(job);
    size_t i;

    if (!bench)
        return;
    bench->place = bench->average_place = bench->bounds_place = (NcclPlace){job->input, 0};
    bench->name = nccl_read_bench_name(job, span_of_json(json_array_get(json_object_get(top, "args"), 0)));
    read_config(job, json_object_get(top, "config"), bench);
    json_array_foreach(results, i, row)
    {
        NcclRow r = nccl_init_row((NcclPlace){job->input, 0});
        int64_t size = int_of(row, "size", -1), count = int_of(row, "count", -1);
        if (size < 0)
            continue;
        r.size = (uint64_t)size;
        r.count = count < 0 ? 0 : (uint64_t)count;
        r.type = nccl_intern(job, text_of(row, "type"));
        r.redop = nccl_intern(job, text_of(row, "redop"));
        r.root = root_of(row);
        r.out = figure_of(json_object_get(row, "out_of_place"));
        r.in = figure_of(json_object_get(row, "in_place"));
        nccl_add_row(job, bench, &r);
        nccl_input(job)->used++;
    }
    bench->average_gbs = number_of(json_object_get(top, "average_bus_bandwidth"), "bandwidth");
    bench->out_of_bounds = int_of(json_object_get(top, "out_of_bounds"), "count", NCCL_UNKNOWN);
    bench->concluded = json_object_get(top, "average_bus_bandwidth") != NULL;
}

static bool is_flight(const json_t *top)
{
    if (json_is_array(top)) {
        const json_t *first = json_array_get(top, 0);
        return json_object_get(first, "profiling_name") && json_object_get(first, "record_id");
    }
    return json_object_get(top, "pg_config") || json_object_get(top, "pg_status") ||
           (json_is_array(json_object_get(top, "entries")) && json_object_get(top, "version"));
}

void nccl_read_json(NcclJob *job, Span text)
{
    json_error_t error;
    CLEANUP(json_decref_at)
    json_t *top = json_loadb(text.at, text.len, JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, &error);

    if (!top) {
        nccl_input(job)->kind = NCCL_KIND_OTHER;
        nccl_input(job)->trouble = nccl_printf(job, "not JSON: line %d: %s", error.line, error.text);
    } else if (is_flight(top)) {
        nccl_input(job)->kind = NCCL_KIND_FLIGHT;
        nccl_read_flight(job, top);
    } else if (json_is_array(json_object_get(top, "results"))) {
        nccl_input(job)->kind = NCCL_KIND_BENCH;
        read_bench(job, top);
    } else {
        nccl_input(job)->kind = NCCL_KIND_OTHER;
        nccl_input(job)->trouble = "JSON, but neither a result of nccl-tests nor a flight recorder's dump";
    }
}
