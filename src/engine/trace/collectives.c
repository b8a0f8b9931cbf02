/* SPDX-License-Identifier: Apache-2.0 */
/* Names and types of collectives, as tables. Sizes and factors: nccl-tests, doc/PERFORMANCE.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"
#include "engine/trace/tables.h"

enum { NAME_MAX_LEN = 255, DTYPE_MAX_LEN = 31, PARTS_MAX = 4 };

/* Which size bandwidths are defined on. */
typedef enum SizeRule { SIZE_IN, SIZE_OUT, SIZE_GATHERED, SIZE_SCATTERED, SIZE_ALL_IN, SIZE_ALL_OUT } SizeRule;

typedef enum BusRule { BUS_NONE, BUS_ONE, BUS_OTHERS, BUS_TWICE_OTHERS } BusRule; /* others: (n - 1) / n */

/* The first kind decides that has a part of the name; compared without case, underscores and hyphens. */
static const struct {
    const char *word;
    const char *parts[PARTS_MAX];
    SizeRule size;
    BusRule bus;
    bool joins_all;
} kinds[COLLECTIVE_KIND_COUNT] = {
    [COLLECTIVE_ALL_REDUCE] =
        {"all_reduce", {"allreduce", "crossdevicereduce", "oneshot", "twoshot"}, SIZE_IN, BUS_TWICE_OTHERS, true},
    [COLLECTIVE_REDUCE_SCATTER] = {"reduce_scatter", {"reducescatter"}, SIZE_SCATTERED, BUS_OTHERS, true},
    [COLLECTIVE_ALL_GATHER] = {"all_gather", {"allgather"}, SIZE_GATHERED, BUS_OTHERS, true},
    [COLLECTIVE_ALL_TO_ALL] = {"all_to_all", {"alltoall"}, SIZE_IN, BUS_OTHERS, true},
    [COLLECTIVE_BROADCAST] = {"broadcast", {"broadcast", "bcast"}, SIZE_IN, BUS_ONE, false},
    [COLLECTIVE_BARRIER] = {"barrier", {"barrier"}, SIZE_IN, BUS_NONE, true},
    [COLLECTIVE_SEND_RECV] = {"send_recv", {"sendrecv"}, SIZE_IN, BUS_ONE, false},
    [COLLECTIVE_SEND] = {"send", {"send"}, SIZE_IN, BUS_ONE, false},
    [COLLECTIVE_RECV] = {"recv", {"recv"}, SIZE_OUT, BUS_ONE, false},
    [COLLECTIVE_GATHER] = {"gather", {"gather"}, SIZE_ALL_IN, BUS_OTHERS, false},
    [COLLECTIVE_SCATTER] = {"scatter", {"scatter"}, SIZE_ALL_OUT, BUS_OTHERS, false},
    [COLLECTIVE_REDUCE] = {"reduce", {"reduce"}, SIZE_IN, BUS_ONE, false},
    [COLLECTIVE_UNKNOWN] = {"collective", {NULL}, SIZE_IN, BUS_NONE, false},
};

static char lower_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

CollectiveKind collective_kind(const char *name, size_t len)
{
    char plain[NAME_MAX_LEN + 1];
    size_t n = 0;
    for (size_t i = 0; i < len && n < NAME_MAX_LEN; i++) {
        if (name[i] != '_' && name[i] != '-' && name[i] != '\0')
            plain[n++] = lower_letter(name[i]);
    }
    plain[n] = '\0';
    for (CollectiveKind kind = 0; kind < COLLECTIVE_UNKNOWN; kind++) {
        for (size_t i = 0; i < PARTS_MAX && kinds[kind].parts[i]; i++)
            if (strstr(plain, kinds[kind].parts[i]))
                return kind;
    }
    return COLLECTIVE_UNKNOWN;
}

bool collective_joins_all(CollectiveKind kind)
{
    return kinds[kind].joins_all;
}

int64_t collective_dtype_bytes(const char *dtype, size_t len)
{
    static const char *const prefixes[] = {"c10::", "torch.", "at::"};
    static const char *const sized[] = {"float", "bfloat", "int", "uint", "complex", "qint", "quint"};
    static const struct {
        const char *name;
        int64_t bytes;
    } named[] = {{"float", 4},       {"double", 8},        {"half", 2},         {"byte", 1},
                 {"char", 1},        {"short", 2},         {"int", 4},          {"long", 8},
                 {"bool", 1},        {"complexhalf", 4},   {"complexfloat", 8}, {"complexdouble", 16},
                 {"signed char", 1}, {"unsigned char", 1}, {"long int", 8},     {"short int", 2}};
    char plain[DTYPE_MAX_LEN + 1], letters[DTYPE_MAX_LEN + 1];
    unsigned int bits;
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        size_t skip = strlen(prefixes[i]);
        if (len >= skip && memcmp(dtype, prefixes[i], skip) == 0) {
            dtype += skip;
            len -= skip;
            break;
        }
    }
    if (len == 0 || len > DTYPE_MAX_LEN)
        return 0;
    for (size_t i = 0; i < len; i++)
        plain[i] = lower_letter(dtype[i]);
    plain[len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        if (strcmp(plain, named[i].name) == 0)
            return named[i].bytes;
    }
    if (sscanf(plain, "%31[a-z]%3u", letters, &bits) != 2) /* "bfloat16", "float8_e4m3fn" */
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(sized); i++) {
        if (strcmp(letters, sized[i]) == 0)
            return bits / 8;
    }
    return 0;
}

/* -1 where one of them is unknown. */
static int64_t multiply_size(int64_t size, int64_t by)
{
    int64_t product;
    if (size < 0 || by <= 0 || __builtin_mul_overflow(size, by, &product))
        return -1;
    return product;
}

int64_t collective_bytes(CollectiveKind kind, int64_t in_bytes, int64_t out_bytes, int64_t group_size)
{
    switch (kinds[kind].size) {
    case SIZE_GATHERED:
        return out_bytes > 0 ? out_bytes : multiply_size(in_bytes, group_size);
    case SIZE_SCATTERED:
        return in_bytes > 0 ? in_bytes : multiply_size(out_bytes, group_size);
    case SIZE_ALL_IN:
        return multiply_size(in_bytes, group_size);
    case SIZE_ALL_OUT:
        return multiply_size(out_bytes, group_size);
    case SIZE_OUT:
        return out_bytes > 0 ? out_bytes : in_bytes;
    case SIZE_IN:
        break;
    }
    return in_bytes;
}

double collective_bus_factor(CollectiveKind kind, int64_t group_size)
{
    const double n = (double)group_size;
    if (kinds[kind].bus == BUS_ONE)
        return 1;
    if (kinds[kind].bus == BUS_NONE || group_size <= 0)
        return NAN;
    return (kinds[kind].bus == BUS_TWICE_OTHERS ? 2 : 1) * (n - 1) / n;
}

/* ---- collectives ---- */

/* Communication operations of one rank. What a kernel carried out is known from its own arguments, else from the
 * record_param_comms operator, the "nccl:..." annotation, NCCL's own call or the c10d operator around its launch, else
 * from its name. Kernels of one operation (same operator; or same sequence number of a group, back to back) become one
 * row. */

enum { CLIMB_MAX = 16, RECORD_ABOVE_MAX = 3 };
#define SAME_SEQUENCE_GAP_NS INT64_C(100000) /* parts of one operation follow each other within this */

/* A kernel and its operation, as far as known. */
typedef struct Part {
    uint32_t row;        /* of the gpu table */
    uint32_t owner;      /* host row of the operator, PROFILE_NONE */
    uint32_t collective; /* details, PROFILE_NONE */
    uint32_t name;       /* text that names it, PROFILE_NONE: the kernel's own */
    uint64_t join[2];    /* parts of equal join may be one operation */
    bool by_time;        /* ... if they follow each other */
} Part;

typedef struct Reader {
    const TraceJob *job;
    const TraceIndex *index;
    const Profile *profile;
    uint32_t record; /* name of record_param_comms */
    TraceTexts texts;
} Reader;

/* ---- what belongs to a kernel ---- */

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* NCCL's own call, or its range: "ncclAllReduce". */
static bool is_nccl_function(const char *name)
{
    return starts_with(name, "nccl") && name[4] >= 'A' && name[4] <= 'Z' &&
           collective_kind(name, strlen(name)) != COLLECTIVE_UNKNOWN;
}

static bool is_graph_launch(const Profile *profile, uint32_t call)
{
    return strstr(profile_text(profile, profile->host.name[call], NULL), "GraphLaunch") != NULL;
}

static uint32_t op_collective(const Profile *profile, uint32_t row)
{
    uint32_t extra = profile->host.extra[row];
    if (profile->host.kind[row] != PROFILE_OP || extra == PROFILE_NONE)
        return PROFILE_NONE;
    return profile->ops.at[extra].collective;
}

/* Climbs from the launch to the operator that caused it. */
static void find_owner(const Reader *reader, uint32_t call, Part *part)
{
    const Profile *profile = reader->profile;
    int above_left = -1;
    uint32_t row = call;
    for (int i = 0; i < CLIMB_MAX && row != PROFILE_NONE && above_left != 0; i++, row = reader->index->parent[row]) {
        const char *name = profile_text(profile, profile->host.name[row], NULL);
        bool op = profile->host.kind[row] == PROFILE_OP;
        uint32_t collective = op_collective(profile, row);
        bool record = op && profile->host.name[row] == reader->record && above_left < 0;
        if (above_left > 0)
            above_left--;
        if (collective != PROFILE_NONE && above_left < 0) {
            part->collective = part->collective == PROFILE_NONE ? collective : part->collective;
            part->owner = row;
            return;
        }
        if (starts_with(name, "nccl:") || is_nccl_function(name) || (op && starts_with(name, "c10d::"))) {
            part->name = part->name == PROFILE_NONE ? profile->host.name[row] : part->name;
            part->owner = part->owner == PROFILE_NONE ? row : part->owner;
        }
        if (record) {
            part->owner = row;
            above_left = RECORD_ABOVE_MAX;
        }
    }
}

static Part part_of(const Reader *reader, uint32_t row)
{
    const Profile *profile = reader->profile;
    const ProfileEvents *gpu = &profile->gpu;
    Part part = {.row = row, .owner = PROFILE_NONE, .collective = PROFILE_NONE, .name = PROFILE_NONE};
    bool in_graph = false;
    if (gpu->kind[row] == PROFILE_KERNEL && gpu->extra[row] != PROFILE_NONE) {
        const ProfileLaunch *launch = &profile->launches.at[gpu->extra[row]];
        part.collective = launch->collective;
        in_graph = launch->in_graph;
    }
    uint32_t call = reader->index->launch[row];
    uint32_t op = reader->index->op[row];
    if (call != PROFILE_NONE && !in_graph && !is_graph_launch(profile, call))
        find_owner(reader, call, &part);
    else if (call == PROFILE_NONE && op != PROFILE_NONE)
        find_owner(reader, op, &part);
    return part;
}

static const ProfileCollective *detail_of(const Reader *reader, const Part *part)
{
    return part->collective == PROFILE_NONE ? NULL : &reader->profile->collectives.at[part->collective];
}

static CollectiveKind part_kind(const Reader *reader, const Part *part, uint32_t *ret_name)
{
    const ProfileCollective *detail = detail_of(reader, part);
    uint32_t names[] = {detail ? detail->name : PROFILE_NONE, part->name, reader->profile->gpu.name[part->row]};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t len;
        const char *text = profile_text(reader->profile, names[i], &len);
        CollectiveKind kind = len > 0 ? collective_kind(text, len) : COLLECTIVE_UNKNOWN;
        if (kind != COLLECTIVE_UNKNOWN)
            return kind;
    }
    *ret_name = names[0] != PROFILE_NONE ? names[0] : names[1];
    return COLLECTIVE_UNKNOWN;
}

/* ---- joining parts ---- */

static void set_join(const Reader *reader, Part *part)
{
    const ProfileCollective *detail = detail_of(reader, part);
    if (part->owner != PROFILE_NONE) {
        part->join[0] = part->owner;
        part->join[1] = (uint32_t)reader->profile->lanes.at[reader->profile->gpu.lane[part->row]].device;
    } else if (detail && detail->sequence >= 0) {
        part->join[0] = UINT64_C(1) << 63 | (uint64_t)detail->group << 31 | (detail->name & 0x7fffffff);
        part->join[1] = (uint64_t)detail->sequence;
        part->by_time = true;
    } else {
        part->join[0] = UINT64_C(1) << 62;
        part->join[1] = part->row;
    }
}

static int by_join(const void *a, const void *b, void *context)
{
    const Part *x = a, *y = b;
    const int64_t *start = context;
    const int64_t keys[][2] = {{start[x->row], start[y->row]}, {x->row, y->row}};
    for (int i = 0; i < 2; i++) {
        if (x->join[i] != y->join[i])
            return x->join[i] < y->join[i] ? -1 : 1;
    }
    return trace_compare(keys, ARRAY_LEN(keys));
}

static bool belongs_to_operation(const Part *last, const Part *next, int64_t end, const ProfileEvents *gpu)
{
    if (last->join[0] != next->join[0] || last->join[1] != next->join[1])
        return false;
    return !next->by_time || gpu->start[next->row] <= end + SAME_SEQUENCE_GAP_NS;
}

/* ---- rows ---- */

static TraceCollective row_of(Reader *reader, const Part *part)
{
    const Profile *profile = reader->profile;
    const ProfileLane *lane = &profile->lanes.at[profile->gpu.lane[part->row]];
    const ProfileCollective *detail = detail_of(reader, part);
    uint32_t name = PROFILE_NONE;
    CollectiveKind kind = part_kind(reader, part, &name);
    TraceCollective row = {
        .name = name == PROFILE_NONE ? kinds[kind].word : trace_text(&reader->texts, name),
        .dtype = "",
        .group = "",
        .ranks = "",
        .kernel = trace_text(&reader->texts, profile->gpu.name[part->row]),
        .group_size = -1,
        .sequence = -1,
        .in_bytes = -1,
        .out_bytes = -1,
        .peer = -1,
        .start = profile->gpu.start[part->row],
        .end = profile_end(&profile->gpu, part->row),
        .launch = trace_launch_start(reader->index, part->row),
        .device = lane->device,
        .stream = lane->tid,
        .parts = 1,
    };
    if (detail) {
        size_t len;
        const char *dtype = profile_text(profile, detail->dtype, &len);
        int64_t bytes = collective_dtype_bytes(dtype, len);
        row.dtype = trace_text(&reader->texts, detail->dtype);
        row.group = trace_text(&reader->texts, detail->group);
        row.ranks = trace_text(&reader->texts, detail->ranks);
        row.group_size = detail->group_size > 0 ? detail->group_size : -1;
        row.sequence = detail->sequence;
        row.in_bytes = multiply_size(detail->in_elements, bytes);
        row.out_bytes = multiply_size(detail->out_elements, bytes);
        row.peer = kind == COLLECTIVE_SEND ? detail->target : kind == COLLECTIVE_RECV ? detail->source : -1;
    }
    return row;
}

static void add_part(TraceCollective *row, const TraceCollective *part)
{
    row->end = trace_larger(row->end, part->end);
    row->in_bytes = trace_larger(row->in_bytes, part->in_bytes);
    row->out_bytes = trace_larger(row->out_bytes, part->out_bytes);
    if (part->launch != INT64_MIN && (row->launch == INT64_MIN || part->launch < row->launch))
        row->launch = part->launch;
    row->parts++;
}

static int by_start(const void *a, const void *b)
{
    const TraceCollective *x = a, *y = b;
    const int64_t keys[][2] = {{x->start, y->start},      {x->end, y->end},       {x->launch, y->launch},
                               {x->device, y->device},    {x->stream, y->stream}, {x->sequence, y->sequence},
                               {x->in_bytes, y->in_bytes}};
    int order = trace_compare(keys, ARRAY_LEN(keys));
    if (order == 0)
        order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->group, y->group);
}

/* ---- ordinals ---- */

/* Numbers the rows of each group and name. */
static void number_rows(TraceCollective *rows, size_t len)
{
    CLEANUP(map_done) Map counts; /* key -> how many there were before, plus one */
    CLEANUP(arena_done) Arena arena = {0};
    map_init(&counts);
    for (size_t i = 0; i < len; i++) {
        const char *key = arena_printf(&arena, "%s\x1f%s\x1f%s", rows[i].group, rows[i].ranks, rows[i].name);
        uintptr_t count = (uintptr_t)map_get(&counts, key);
        rows[i].ordinal = (int64_t)count;
        map_put(&counts, key, (void *)(count + 1)); /* NOLINT(performance-no-int-to-ptr) */
        arena_reset(&arena);
    }
}

typedef VEC(Part) PartVec;

static void collect_parts(Reader *reader, PartVec *parts)
{
    const ProfileEvents *gpu = &reader->profile->gpu;
    for (size_t i = 0; i < gpu->len; i++) {
        if (trace_gpu_class(reader->index, i) != TRACE_COMMUNICATION)
            continue;
        Part part = part_of(reader, (uint32_t)i);
        set_join(reader, &part);
        vec_push(parts, part);
    }
}

typedef struct RowTime {
    int64_t device, time;
    size_t row;
} RowTime;
typedef VEC(RowTime) RowTimes;

static int by_device_time(const void *a, const void *b)
{
    const RowTime *x = a, *y = b;
    const int64_t keys[][2] = {{x->device, y->device}, {x->time, y->time}, {(int64_t)x->row, (int64_t)y->row}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* The rows' operations on their devices: GPU operations from *op on, in their order, which are before the row by
 * `is_before`. Gives the end of the last that computed, INT64_MIN none. */
typedef struct Walk {
    const Reader *reader;
    bool (*is_before)(const Reader *reader, size_t op, const TraceCollective *row);
    size_t op;
    int64_t device, computed;
} Walk;

__attribute__((always_inline)) static inline int64_t walk_to_row(Walk *walk, const TraceCollective *row)
{
    const Profile *profile = walk->reader->profile;
    if (row->device != walk->device)
        walk->computed = INT64_MIN;
    walk->device = row->device;
    for (; walk->op < profile->gpu.len; walk->op++) {
        const int32_t on = profile->lanes.at[profile->gpu.lane[walk->op]].device;
        const bool computes = trace_gpu_class(walk->reader->index, walk->op) == TRACE_COMPUTE;
        if (on > row->device || (on == row->device && computes && !walk->is_before(walk->reader, walk->op, row)))
            break;
        if (on == row->device && computes)
            walk->computed = trace_larger(walk->computed, profile_end(&profile->gpu, walk->op));
    }
    return walk->computed;
}

static bool starts_before_end(const Reader *reader, size_t op, const TraceCollective *row)
{
    return reader->profile->gpu.start[op] < row->end;
}

static bool is_launched_before(const Reader *reader, size_t op, const TraceCollective *row)
{
    const int64_t launch = trace_launch_start(reader->index, (uint32_t)op);
    if (launch == row->launch || launch == INT64_MIN) /* of one graph, or not known */
        return reader->profile->gpu.start[op] < row->start;
    return launch < row->launch;
}

/* Until when something computed beside each row, and since when it could have begun. */
static void find_neighbours(const Reader *reader, TraceRank *rank)
{
    RowTimes ends = {0}, launches = {0};
    Walk beside = {.reader = reader, .is_before = starts_before_end, .device = INT64_MIN};
    Walk before = {.reader = reader, .is_before = is_launched_before, .device = INT64_MIN};
    for (size_t i = 0; i < rank->collectives.len; i++) {
        const TraceCollective *row = &rank->collectives.at[i];
        vec_push(&ends, ((RowTime){row->device, row->end, i}));
        if (row->launch != INT64_MIN)
            vec_push(&launches, ((RowTime){row->device, row->launch, i}));
    }
    vec_sort(&ends, by_device_time);
    vec_sort(&launches, by_device_time);
    for (size_t i = 0; i < ends.len; i++) {
        TraceCollective *row = &rank->collectives.at[ends.at[i].row];
        const int64_t computed = walk_to_row(&beside, row);
        row->hidden_ns = trace_smaller(trace_larger(computed, row->start), row->end) - row->start;
    }
    for (size_t i = 0; i < launches.len; i++) {
        TraceCollective *row = &rank->collectives.at[launches.at[i].row];
        const int64_t computed = walk_to_row(&before, row);
        row->queued_ns = row->start - trace_smaller(trace_larger(computed, row->launch), row->start);
    }
    vec_done(&ends);
    vec_done(&launches);
}

void trace_collectives(const TraceJob *job, TraceRank *rank)
{
    Reader reader = {.job = job, .index = job->index, .profile = job->index->profile};
    const ProfileEvents *gpu = &reader.profile->gpu;
    PartVec parts = {0};
    reader.record = profile_name_find(reader.profile, "record_param_comms");
    trace_texts_init(&reader.texts, job);
    collect_parts(&reader, &parts);
    if (parts.len > 0)
        qsort_r(parts.at, parts.len, sizeof(*parts.at), by_join, gpu->start);
    for (size_t i = 0; i < parts.len; i++) {
        TraceCollective row = row_of(&reader, &parts.at[i]);
        TraceCollective *last = i > 0 ? &rank->collectives.at[rank->collectives.len - 1] : NULL;
        if (last && belongs_to_operation(&parts.at[i - 1], &parts.at[i], last->end, gpu))
            add_part(last, &row);
        else
            vec_push(&rank->collectives, row);
    }
    vec_sort(&rank->collectives, by_start);
    find_neighbours(&reader, rank);
    number_rows(rank->collectives.at, rank->collectives.len);
    vec_done(&parts);
    trace_texts_done(&reader.texts);
}
