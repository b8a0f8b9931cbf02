/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace says about itself, in the members beside the event list. */
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"

enum { TEXT_MAX = 64 << 10 };

/* Walks over the members of an object or the items of an array, as far as it can be read. */
typedef struct Members {
    const char *p, *end;
    bool object;
} Members;

static Members members_of(const Slice *slice)
{
    const bool nest = slice->kind == SLICE_NEST;

    return (Members){
        .p = slice->at + nest, .end = slice->at + (nest ? slice->len - 1 : 0), .object = *slice->at == '{'};
}

static bool skip_blanks(Members *m)
{
    while (m->p < m->end && (walk_blank(*m->p) || *m->p == ','))
        m->p++;
    return m->p < m->end;
}

/* The slice's end may lie right behind a word, so the bracket that closes the list is shown to walk_value as well. */
static bool next_value(Members *m, Slice *value)
{
    const char *fault;
    const char *p = walk_value(m->p, m->end + 1, value, &fault);

    if (!p)
        return false;
    m->p = p;
    return true;
}

static bool next_member(Members *m, Slice *key, Slice *value)
{
    if (!skip_blanks(m))
        return false;
    if (m->object) {
        if (*m->p != '"' || !next_value(m, key) || !skip_blanks(m) || *m->p++ != ':' || !skip_blanks(m))
            return false;
    }
    return next_value(m, value);
}

static uint32_t slice_name(Profile *profile, const Slice *slice)
{
    char room[1024 + 8];

    if (slice->kind == SLICE_WORD && slice_is(slice, "null"))
        return PROFILE_NONE;
    if (slice->kind != SLICE_ESCAPED)
        return profile_name(profile, slice->at, slice->len < TEXT_MAX ? slice->len : TEXT_MAX);
    return profile_name(profile, room, value_unescape(slice, room, sizeof room - 8));
}

static int64_t slice_number(const Slice *slice, int64_t min, int64_t max, int64_t none)
{
    int64_t value;

    return value_integer(slice, &value) && value >= min && value <= max ? value : none;
}

/* Of several the last one counts. */
static void set_name(Profile *profile, uint32_t *name, const Slice *slice)
{
    const uint32_t given = slice_name(profile, slice);

    if (given != PROFILE_NONE)
        *name = given;
}

static void read_device(Profile *profile, const Slice *slice)
{
    ProfileDevice device = {.id = -1, .name = PROFILE_NONE};
    Members m = members_of(slice);
    Slice key, value;

    while (next_member(&m, &key, &value)) {
        if (slice_is(&key, "id"))
            device.id = (int32_t)slice_number(&value, 0, INT32_MAX, -1);
        else if (slice_is(&key, "name"))
            device.name = slice_name(profile, &value);
        else if (slice_is(&key, "totalGlobalMem"))
            device.memory_bytes = (uint64_t)slice_number(&value, 0, INT64_MAX, 0);
        else if (slice_is(&key, "numSms"))
            device.sm_count = (uint32_t)slice_number(&value, 0, UINT32_MAX, 0);
        else if (slice_is(&key, "warpSize"))
            device.warp_size = (uint32_t)slice_number(&value, 0, UINT32_MAX, 0);
        else if (slice_is(&key, "maxThreadsPerMultiprocessor"))
            device.threads_per_sm = (uint32_t)slice_number(&value, 0, UINT32_MAX, 0);
        else if (slice_is(&key, "computeMajor"))
            device.major = (int32_t)slice_number(&value, 0, INT32_MAX, 0);
        else if (slice_is(&key, "computeMinor"))
            device.minor = (int32_t)slice_number(&value, 0, INT32_MAX, 0);
    }
    vec_push(&profile->devices, device);
}

static void read_group(Profile *profile, const Slice *slice)
{
    ProfileGroup group = {.name = PROFILE_NONE, .label = PROFILE_NONE, .ranks = PROFILE_NONE, .size = -1};
    Members m = members_of(slice);
    Slice key, value;

    while (next_member(&m, &key, &value)) {
        if (slice_is(&key, "pg_name"))
            group.name = slice_name(profile, &value);
        else if (slice_is(&key, "pg_desc"))
            group.label = slice_name(profile, &value);
        else if (slice_is(&key, "ranks"))
            group.ranks = slice_name(profile, &value);
        else if (slice_is(&key, "pg_size"))
            group.size = slice_number(&value, 0, INT64_MAX, -1);
    }
    vec_push(&profile->groups, group);
}

static void read_objects(Profile *profile, const Slice *list, void (*take)(Profile *profile, const Slice *slice))
{
    Members m = members_of(list);
    Slice key, value;

    while (!m.object && next_member(&m, &key, &value))
        if (value.kind == SLICE_NEST && *value.at == '{')
            take(profile, &value);
}

static void read_distributed(Profile *profile, const Slice *slice)
{
    Members m = members_of(slice);
    Slice key, value;

    while (next_member(&m, &key, &value)) {
        if (slice_is(&key, "backend"))
            set_name(profile, &profile->backend, &value);
        else if (slice_is(&key, "rank"))
            profile->rank = slice_number(&value, 0, INT64_MAX, profile->rank);
        else if (slice_is(&key, "world_size"))
            profile->world_size = slice_number(&value, 0, INT64_MAX, profile->world_size);
        else if (slice_is(&key, "nccl_version"))
            set_name(profile, &profile->nccl_version, &value);
        else if (slice_is(&key, "pg_config"))
            read_objects(profile, &value, read_group);
    }
}

/* "Record counts: Out-of-range = 4181, Blocklisted runtime = 37458, ...": records were dropped if a count is not 0.
 * Records outside of the recorded time, or on the profiler's own block list, are no loss. */
static bool counts_lost(const char *p, const char *end)
{
    while ((p = memchr(p, '=', (size_t)(end - p)))) {
        const char *word = p;
        bool lost = false;

        while (word[-1] != ',' && word[-1] != ':')
            word--;
        for (p++; p < end && *p != ','; p++)
            lost |= *p >= '1' && *p <= '9';
        if (lost && !memmem(word, (size_t)(p - word), "Blocklisted", strlen("Blocklisted")) &&
            !memmem(word, (size_t)(p - word), "Out-of-range", strlen("Out-of-range")))
            return true;
    }
    return false;
}

static void read_log_lines(TraceScan *scan, const Slice *list, bool errors)
{
    static const char counts[] = "Record counts:";
    Members m = members_of(list);
    Slice key, value;

    while (!m.object && next_member(&m, &key, &value)) {
        const char *at = memmem(value.at, value.len, counts, sizeof counts - 1);
        const char *end = value.at + value.len;

        if (at ? counts_lost(at + sizeof counts - 1, end)
               : errors && (memmem(value.at, value.len, "drop", 4) || memmem(value.at, value.len, "lost", 4))) {
            at = at ? at : value.at;
            profile_lose(scan->profile, PROFILE_LOSS_PROFILER, scan->raw_byte, at, (size_t)(end - at));
        }
    }
}

static bool is_true(const Slice *value)
{
    return slice_is(value, "true") || slice_number(value, 0, INT64_MAX, 0) > 0;
}

void about_read(TraceScan *scan, const Slice *key, const Slice *value)
{
    Profile *profile = scan->profile;
    static const char *const of_pytorch[] = {"schemaVersion", "deviceProperties", "distributedInfo",
                                             "baseTimeNanoseconds"};

    for (size_t i = 0; i < ARRAY_LEN(of_pytorch); i++)
        if (slice_is(key, of_pytorch[i]) && profile->framework == PROFILE_NONE)
            profile->framework = profile_name(profile, "pytorch", strlen("pytorch"));
    if (slice_is(key, "deviceProperties"))
        read_objects(profile, value, read_device);
    else if (slice_is(key, "distributedInfo"))
        read_distributed(profile, value);
    else if (slice_is(key, "baseTimeNanoseconds"))
        profile->base_ns = slice_number(value, 1, INT64_MAX, profile->base_ns);
    else if (slice_is(key, "with_stack"))
        profile->with_stack |= is_true(value);
    else if (slice_is(key, "record_shapes"))
        profile->with_shapes |= is_true(value);
    else if (slice_is(key, "profile_memory"))
        profile->with_memory |= is_true(value);
    else if (slice_is(key, "roctracer_version") || slice_is(key, "hip_runtime_version") ||
             slice_is(key, "hip_driver_version"))
        profile->rocm = true;
    else if (slice_is(key, "rocprofv3")) { /* the reader of that profiler's files writes it first */
        profile->framework = profile_name(profile, "rocprofv3", strlen("rocprofv3"));
        profile->rocm = true;
    } else if (slice_is(key, "trace_id"))
        set_name(profile, &profile->trace_id, value);
    else if (slice_is(key, "host_name"))
        set_name(profile, &profile->host_name, value);
    else if (slice_is(key, "INFO") || slice_is(key, "WARNING") || slice_is(key, "ERROR"))
        read_log_lines(scan, value, !slice_is(key, "INFO"));
}
