/* SPDX-License-Identifier: Apache-2.0 */
/* What an event is, once its values are found: phase and category decide; times are checked here. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"

/* Details from args. Kernels are launched in the same few ways and operators called with the same few shapes: both
 * are recognised by their texts before any number is read. */

/* What decides a launch, beside its being in a graph. */
_Static_assert(SLOT_WARPS_PER_SM - SLOT_GRID == 6, "the values of a launch stand together in key.def");

#define LAUNCH_SLOTS (SLOT_BIT(SLOT_WARPS_PER_SM + 1) - SLOT_BIT(SLOT_GRID))
#define GRAPH_SLOTS (SLOT_BIT(SLOT_GRAPH) | SLOT_BIT(SLOT_GRAPH_NODE))

static uint32_t detail_collective(TraceScan *scan)
{
    if (!has_slot(scan, SLOT_COLLECTIVE))
        return PROFILE_NONE;
    const ProfileCollective c = {
        .name = name_of(scan, SLOT_COLLECTIVE),
        .dtype = name_of(scan, SLOT_DTYPE),
        .group = name_of(scan, SLOT_GROUP),
        .group_label = name_of(scan, SLOT_GROUP_LABEL),
        .ranks = name_of(scan, SLOT_GROUP_RANKS),
        .in_elements = number_of(scan, SLOT_IN_ELEMENTS, -1),
        .out_elements = number_of(scan, SLOT_OUT_ELEMENTS, -1),
        .group_size = number_of(scan, SLOT_GROUP_SIZE, -1),
        .sequence = number_of(scan, SLOT_SEQUENCE, -1),
        .source = number_of(scan, SLOT_SOURCE_RANK, -1),
        .target = number_of(scan, SLOT_TARGET_RANK, -1),
    };

    return profile_collective(scan->profile, &c);
}

static uint32_t u32_of(const TraceScan *scan, Slot slot)
{
    const int64_t value = number_of(scan, slot, 0);

    return value <= 0 ? 0 : value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* Not below 0; -1 where there is no such number. */
static float float_of(const TraceScan *scan, Slot slot)
{
    const double value = has_slot(scan, slot) ? value_double(slice_of(scan, slot)) : NAN;

    return value >= 0 && value < 1e30 ? (float)value : -1;
}

static void read_launch(const TraceScan *scan, ProfileLaunch *launch)
{
    if (has_slot(scan, SLOT_GRID))
        value_triple(slice_of(scan, SLOT_GRID), launch->grid);
    if (has_slot(scan, SLOT_BLOCK))
        value_triple(slice_of(scan, SLOT_BLOCK), launch->block);
    launch->registers = u32_of(scan, SLOT_REGISTERS);
    launch->shared_bytes = u32_of(scan, SLOT_SHARED);
    launch->occupancy_percent = float_of(scan, SLOT_OCCUPANCY);
    launch->blocks_per_sm = float_of(scan, SLOT_BLOCKS_PER_SM);
    launch->warps_per_sm = float_of(scan, SLOT_WARPS_PER_SM);
}

/* From the first value of the launch to the end of the last one: these bytes identify it, together with which values
 * are present and their kinds. */
typedef struct LaunchText {
    const char *at;
    size_t len;
    uint32_t forms;
    uint64_t hash; /* of the values' first bytes */
} LaunchText;

static LaunchText launch_text(const TraceScan *scan)
{
    LaunchText text = {0};
    const char *end = NULL;

    for (Slot slot = SLOT_GRID; slot <= SLOT_WARPS_PER_SM; slot++) {
        const Slice *slice = slice_of(scan, slot);
        uint64_t eight;

        text.forms <<= 3;
        if (!has_slot(scan, slot))
            continue;
        memcpy(&eight, slice->at, sizeof eight);
        text.hash = (text.hash ^ eight) * UINT64_C(0x9e3779b97f4a7c15);
        text.forms |= 4 | slice->kind;
        text.at = text.at && text.at < slice->at ? text.at : slice->at;
        end = end > slice->at + slice->len ? end : slice->at + slice->len;
    }
    text.len = (size_t)(end - text.at);
    return text;
}

static uint32_t usual_launch(TraceScan *scan, ProfileLaunch *launch)
{
    const LaunchText text = launch_text(scan);
    const bool in_graph = launch->in_graph;
    LaunchEntry *entry = &scan->caches->launch[(text.hash >> 32) % LAUNCH_CACHE];

    if (entry->generation == scan->caches->generation && entry->len == text.len && entry->forms == text.forms &&
        entry->in_graph == in_graph && memcmp(entry->text, text.at, text.len) == 0)
        return entry->launch;
    read_launch(scan, launch);
    const uint32_t index = profile_launch(scan->profile, launch);

    if (text.len <= LAUNCH_BYTES) {
        *entry = (LaunchEntry){.launch = index,
                               .forms = text.forms,
                               .generation = scan->caches->generation,
                               .len = (uint16_t)text.len,
                               .in_graph = in_graph};
        memcpy(entry->text, text.at, text.len);
    }
    return index;
}

/* Indices of the profile's details, PROFILE_NONE without such args. */
static uint32_t detail_launch(TraceScan *scan)
{
    ProfileLaunch launch = {.collective = detail_collective(scan)};
    const uint64_t present = scan->walk->present;

    if (!(present & (LAUNCH_SLOTS | GRAPH_SLOTS)) && launch.collective == PROFILE_NONE)
        return PROFILE_NONE;
    launch.in_graph = number_of(scan, SLOT_GRAPH, 0) > 0 || number_of(scan, SLOT_GRAPH_NODE, 0) > 0;
    if (present & LAUNCH_SLOTS && launch.collective == PROFILE_NONE)
        return usual_launch(scan, &launch);
    read_launch(scan, &launch);
    return profile_launch(scan->profile, &launch);
}

/* Kind and memories from the name, which comes in few forms; ROCm says the kind in args. */
static void copy_words(TraceScan *scan, const ProfileEvent *event, ProfileCopy *copy)
{
    Caches *caches = scan->caches;

    if (event->name == PROFILE_NONE)
        return;
    if (caches->copy_name != event->name) {
        size_t len;
        const char *text = profile_text(scan->profile, event->name, &len);

        caches->copy = (ProfileCopy){0};
        profile_copy_words(text, len, &caches->copy);
        caches->copy_name = event->name;
    }
    copy->kind = caches->copy.kind;
    copy->source = caches->copy.source;
    copy->target = caches->copy.target;
}

static uint32_t detail_copy(TraceScan *scan, const ProfileEvent *event)
{
    const Slice *kind = slice_of(scan, SLOT_COPY_KIND);
    ProfileCopy copy = {
        .bytes = number_of(scan, SLOT_BYTES, -1),
        .reported_gbs = has_slot(scan, SLOT_BANDWIDTH) ? value_double(slice_of(scan, SLOT_BANDWIDTH)) : NAN,
    };

    copy_words(scan, event, &copy);
    if (copy.kind == PROFILE_COPY_UNKNOWN && has_slot(scan, SLOT_COPY_KIND) && kind->kind <= SLICE_ESCAPED)
        profile_copy_words(kind->at, kind->len, &copy);
    if (event->kind == PROFILE_SET)
        copy.kind = PROFILE_COPY_SET;
    if (copy.bytes < 0)
        copy.bytes = -1;
    return profile_copy(scan->profile, &copy);
}

/* Whether numbers among the operator's inputs are needed: strides, masks, causal or not. */
static bool needs_arguments(TraceScan *scan, uint32_t name)
{
    uint32_t *entry = &scan->caches->own.needs[name % NEEDS_CACHE];
    const Slice *text = slice_of(scan, SLOT_NAME);

    if (*entry == 0 || (*entry - 1) / 2 != name)
        *entry = 1 + 2 * name +
                 (memmem(text->at, text->len, "conv", 4) || memmem(text->at, text->len, "attention", 9) ||
                  memmem(text->at, text->len, "flash_attn", 10));
    return (*entry - 1) % 2;
}

static uint32_t detail_op(TraceScan *scan, uint32_t name)
{
    ProfileOp op = {.arguments = PROFILE_NONE, .collective = detail_collective(scan), .sequence = -1};

    if (op.collective == PROFILE_NONE && !has_slot(scan, SLOT_DIMS) && !has_slot(scan, SLOT_TYPES))
        return PROFILE_NONE;
    op.dims = name_of(scan, SLOT_DIMS);
    op.types = name_of(scan, SLOT_TYPES);
    if (has_slot(scan, SLOT_CONCRETE) && has_slot(scan, SLOT_NAME) && needs_arguments(scan, name))
        op.arguments = name_of(scan, SLOT_CONCRETE);
    scan->profile->with_shapes = true;
    if (op.collective != PROFILE_NONE) {
        op.sequence = number_of(scan, SLOT_AUTOGRAD, -1);
        return profile_op(scan->profile, &op);
    }
    OpEntry *entry = &scan->caches->own.op[((op.dims * 31 + op.types) * 31 + op.arguments) % OP_CACHE];

    if (!entry->used || entry->dims != op.dims || entry->types != op.types || entry->arguments != op.arguments)
        *entry = (OpEntry){.dims = op.dims,
                           .types = op.types,
                           .arguments = op.arguments,
                           .op = profile_op(scan->profile, &op),
                           .used = true};
    return entry->op;
}

/* A stream, -1 for none: CUPTI writes 2^32-1 for none. */
static int64_t stream_of(const TraceScan *scan, Slot slot)
{
    const int64_t stream = number_of(scan, slot, -1);

    return stream >= 0 && stream != UINT32_MAX ? stream : -1;
}

static void detail_sync(TraceScan *scan, int64_t start, int64_t duration)
{
    const size_t row = scan->profile->syncs.len;
    ProfileSync sync = {
        .start = start,
        .duration = duration,
        .name = name_of(scan, has_slot(scan, SLOT_NAME) ? SLOT_NAME : SLOT_SYNC_KIND),
        .device = gpu_device(scan),
        .stream = stream_of(scan, SLOT_STREAM),
        .wait_stream = stream_of(scan, SLOT_WAIT_STREAM),
    };

    sync.link = id_of(scan, SLOT_CORRELATION, WIDE_SYNC_LINK, row);
    sync.wait_link = id_of(scan, SLOT_WAIT_LINK, WIDE_SYNC_WAIT, row);
    vec_push(&scan->profile->syncs, sync);
}

static int16_t i16_of(const TraceScan *scan, Slot slot, int16_t none)
{
    const int64_t value = number_of(scan, slot, none);

    return value >= INT16_MIN && value <= INT16_MAX ? (int16_t)value : none;
}

static void detail_memory(TraceScan *scan, int64_t start)
{
    const ThreadKey key = thread_key(scan);
    const ProfileMemory memory = {
        .start = start,
        .bytes = number_of(scan, SLOT_MEMORY_BYTES, 0),
        .allocated = number_of(scan, SLOT_ALLOCATED, -1),
        .reserved = number_of(scan, SLOT_RESERVED, -1),
        .address = (uint64_t)number_of(scan, SLOT_ADDRESS, 0),
        .lane = thread_lane(scan, &key),
        .device = i16_of(scan, SLOT_DEVICE_ID, -1),
        .device_type = i16_of(scan, SLOT_DEVICE_TYPE, 0),
    };

    scan->profile->with_memory = true;
    vec_push(&scan->profile->memory, memory);
}

/* ---- events ---- */

/* A category's use: a ProfileKind, or one of these. */
enum { USE_GPU_IF = PROFILE_KIND_COUNT, USE_SYNC, USE_COUNTERS, USE_NOTHING };

enum { CATEGORY_LEN_MAX = 24 };

static const struct {
    char text[CATEGORY_LEN_MAX]; /* filled up with zeros */
    uint8_t len, use;
} categories[] = {
#define CATEGORY(name, what) {.text = name, .len = sizeof(name) - 1, .use = what},
#include "engine/trace/scan/category.def"
#undef CATEGORY
};

/* Texts of `len` bytes, in words of eight, of which the last one may reach into the one before it; at least eight bytes
 * are readable at both. A call of memcmp takes three times as long. */
static inline bool same_category(const char *a, const char *b, size_t len)
{
    const uint64_t first = value_eight_bytes(a) ^ value_eight_bytes(b);

    if (len <= 8)
        return len == 0 || first << (64 - 8 * len) == 0;
    return first == 0 && value_eight_bytes(a + len - 8) == value_eight_bytes(b + len - 8) &&
           (len <= 16 || value_eight_bytes(a + 8) == value_eight_bytes(b + 8));
}

static unsigned int use_of(const Slice *slice)
{
    for (size_t i = 0; i < ARRAY_LEN(categories); i++)
        if (categories[i].len == slice->len && same_category(categories[i].text, slice->at, slice->len))
            return categories[i].use;
    return PROFILE_OTHER;
}

static void lose_event(TraceScan *scan, ProfileLossReason reason)
{
    const Slice *name = slice_of(scan, SLOT_NAME);

    profile_lose(scan->profile, reason, scan->raw_byte, name->at, has_slot(scan, SLOT_NAME) ? name->len : 0);
}

static bool event_start(TraceScan *scan, int64_t *ret)
{
    if (!has_slot(scan, SLOT_START) || !value_nanoseconds(slice_of(scan, SLOT_START), ret, &scan->fraction))
        return false;
    scan->timed = true;
    return true;
}

/* False: the event is lost, and noted as such. */
static bool event_times(TraceScan *scan, bool gpu, int64_t *start, int64_t *duration)
{
    bool known = event_start(scan, start) && has_slot(scan, SLOT_DURATION) &&
                 value_nanoseconds(slice_of(scan, SLOT_DURATION), duration, &scan->fraction) &&
                 *duration <= DURATION_MAX;

    if (known && *duration < 0) {
        lose_event(scan, PROFILE_LOSS_BAD_DURATION);
        *duration = 0;
    }
    known = known && !(gpu && *start == 0 && *duration == 0);
    if (!known)
        lose_event(scan, PROFILE_LOSS_NO_TIME);
    return known;
}

/* Events without a category: the name or a step's number may tell the kind ("$train.py:12 step" of XLA's profiler);
 * the rest is known at the end. */
static unsigned int bare_use(const TraceScan *scan)
{
    const Slice *name = slice_of(scan, SLOT_NAME);

    if (has_slot(scan, SLOT_STEP) && has_slot(scan, SLOT_NAME))
        return PROFILE_ANNOTATION;
    return has_slot(scan, SLOT_NAME) && name->len > 1 && *name->at == '$' ? PROFILE_PYTHON : PROFILE_OTHER;
}

/* The kind of the current event; USE_SYNC and those behind it stay. */
static unsigned int event_use(TraceScan *scan)
{
    if (!has_slot(scan, SLOT_CATEGORY))
        return bare_use(scan);
    const unsigned int use = use_of(slice_of(scan, SLOT_CATEGORY));

    if (use != USE_GPU_IF)
        return use;
    return has_slot(scan, SLOT_STREAM) || has_slot(scan, SLOT_DEVICE) ? PROFILE_KERNEL : PROFILE_OTHER;
}

/* An event of no kind may turn out to be the GPU's. */
static bool kind_wanted(const TraceScanOptions *options, unsigned int use)
{
    if (options->skip_python && use == PROFILE_PYTHON)
        return false;
    return !options->skip_host || use <= PROFILE_SET || use == PROFILE_ANNOTATION || use == PROFILE_GPU_ANNOTATION ||
           use == PROFILE_OTHER;
}

static bool kind_on_gpu(unsigned int use)
{
    return use <= PROFILE_SET || use == PROFILE_GPU_ANNOTATION;
}

static void add_gpu(TraceScan *scan, ProfileEvent *event)
{
    const size_t row = scan->profile->gpu.len;

    event->link = id_of(scan, SLOT_CORRELATION, WIDE_GPU_LINK, row);
    event->external = id_of(scan, SLOT_EXTERNAL, WIDE_GPU_EXTERNAL, row);
    event->extra = event->kind == PROFILE_KERNEL ? detail_launch(scan) : detail_copy(scan, event);
}

static void add_node(TraceScan *scan, uint32_t op_id)
{
    const int64_t sequence = number_of(scan, SLOT_AUTOGRAD, -1), thread = number_of(scan, SLOT_FORWARD_THREAD, -1);

    if (op_id != 0 && sequence >= 0 && sequence <= UINT32_MAX && thread >= 0 && thread <= UINT32_MAX)
        vec_push(&scan->profile->nodes, ((ProfileNode){op_id, (uint32_t)sequence, (uint32_t)thread}));
}

static void add_place(TraceScan *scan, uint32_t op_id)
{
    const uint32_t modules = name_of(scan, SLOT_MODULES);

    if (op_id != 0 && modules != PROFILE_NONE)
        vec_push(&scan->profile->places, ((ProfilePlace){op_id, modules}));
}

static void add_host(TraceScan *scan, ProfileEvent *event)
{
    const size_t row = scan->profile->host.len;
    const Slice *name = slice_of(scan, SLOT_NAME);

    if (event->kind == PROFILE_CALL) {
        event->link = id_of(scan, SLOT_CORRELATION, WIDE_HOST_LINK, row);
        scan->profile->rocm |=
            has_slot(scan, SLOT_NAME) && name->len > 3 && *name->at == 'h' && memcmp(name->at, "hip", 3) == 0;
    } else if (event->kind == PROFILE_OP) {
        event->link = id_of(scan, SLOT_EXTERNAL, WIDE_HOST_LINK, row);
        event->extra = detail_op(scan, event->name);
        if (has_slot(scan, SLOT_AUTOGRAD) && !scan->options.skip_python)
            add_node(scan, event->link);
        if (has_slot(scan, SLOT_MODULES))
            add_place(scan, event->link);
    } else if (event->kind == PROFILE_OTHER && !has_slot(scan, SLOT_CATEGORY)) {
        event->link = id_of(scan, SLOT_CORRELATION, WIDE_HOST_LINK, row);
        scan->bare_links |= has_slot(scan, SLOT_CORRELATION);
        if (!scan->options.raw)
            bare_note(scan);
    }
}

/* The name, with the number of a step behind it: "train" of step_num 12 is "train 12". */
static uint32_t event_name(TraceScan *scan)
{
    enum { NUMBER_MAX = 24, TEXT_MAX = 256 };
    const uint32_t name = has_slot(scan, SLOT_NAME) ? name_of(scan, SLOT_NAME) : PROFILE_NONE;
    char text[TEXT_MAX + NUMBER_MAX];
    int64_t number;
    size_t len;

    if (has_slot(scan, SLOT_CATEGORY) || !has_slot(scan, SLOT_STEP) ||
        !value_integer(slice_of(scan, SLOT_STEP), &number))
        return name;
    const char *word = profile_text(scan->profile, name, &len);

    if (len == 0 || len > TEXT_MAX || (word[len - 1] >= '0' && word[len - 1] <= '9'))
        return name;
    memcpy(text, word, len);
    len += (size_t)snprintf(text + len, NUMBER_MAX, " %" PRId64, number);
    return profile_name(scan->profile, text, len);
}

/* For a raw callback: what the row will be at the end of the scan. */
static void raw_place(TraceScan *scan, TraceRaw *raw)
{
    const TraceKnown *known = scan->options.known;

    if (kind_on_gpu(raw->kind)) {
        raw->device = gpu_device(scan);
        raw->stream = gpu_stream(scan);
    }
    if (raw->kind != PROFILE_OTHER || !known || known->devices.len == 0)
        return;
    const ThreadKey key = thread_key(scan);
    const KnownThread thread = thread_known(scan->profile, &key);
    const KnownPlace place = known_place(known, &thread);

    if (place.use == LANE_OPERATIONS || place.use == LANE_STEPS) {
        raw->kind = place.use == LANE_STEPS ? PROFILE_GPU_ANNOTATION : PROFILE_KERNEL;
        raw->device = place.device;
        raw->stream = place.stream;
    } else if (place.use == LANE_HOST && !has_slot(scan, SLOT_CATEGORY) && id_in(scan, SLOT_CORRELATION)) {
        raw->kind = PROFILE_CALL;
    }
}

static void add_complete(TraceScan *scan, TraceRaw *raw)
{
    const unsigned int use = event_use(scan);
    ProfileEvent event = {.extra = PROFILE_NONE};

    if (use == USE_NOTHING || use == USE_COUNTERS) {
        scan->profile->counter_ranges += use == USE_COUNTERS;
        scan->profile->ignored++;
        return;
    }
    scan->profile->with_stack |= use == PROFILE_PYTHON;
    if (!kind_wanted(&scan->options, use) || !event_times(scan, kind_on_gpu(use), &event.start, &event.duration))
        return;
    raw->has_time = true;
    raw->start = event.start;
    raw->duration = event.duration;
    if (!window_touches(&scan->options, event.start, event.duration))
        return;
    raw->kept = true;
    if (use == USE_SYNC) {
        detail_sync(scan, event.start, event.duration);
        raw->kind = PROFILE_GPU_ANNOTATION; /* chosen as these are */
        raw->device = gpu_device(scan);
        raw->stream = gpu_stream(scan);
        return;
    }
    event.kind = raw->kind = (ProfileKind)use;
    event.name = event_name(scan);
    if (scan->options.raw)
        raw_place(scan, raw);
    if (kind_on_gpu(use)) {
        event.lane = event_stream(scan);
        if (use != PROFILE_GPU_ANNOTATION)
            add_gpu(scan, &event);
    } else {
        event.lane = event_thread(scan);
        add_host(scan, &event);
    }
    profile_add(scan->profile, &event);
}

/* Half an event as the whole that an earlier reading knows; otherwise it has no time. */
static void raw_half(TraceScan *scan, TraceRaw *raw)
{
    const KnownHalf *half = half_known(scan, scan->raw_byte);

    raw->kept = raw->has_time = half;
    if (!half)
        return;
    raw->start = half->start;
    raw->duration = half->duration;
    raw->kind = half->kind;
    raw->device = half->device;
    raw->stream = half->stream;
    raw->link = id_known(scan, half->link);
    if (raw->kind == PROFILE_OTHER)
        raw_place(scan, raw);
}

static void add_half(TraceScan *scan, TraceRaw *raw, bool begin)
{
    const unsigned int use = event_use(scan);
    Half half = {.begin = begin, .byte = scan->raw_byte, .event = {.extra = PROFILE_NONE}};

    if (use >= USE_SYNC) {
        scan->profile->ignored++;
        return;
    }
    if (!event_start(scan, &half.time)) {
        lose_event(scan, PROFILE_LOSS_NO_TIME);
        return;
    }
    half.thread = thread_key(scan);
    half.event.name = name_of(scan, SLOT_NAME);
    half.event.kind = (ProfileKind)use;
    half.wanted = begin && kind_wanted(&scan->options, use);
    half.on_gpu = begin && kind_on_gpu(use);
    if (half.on_gpu && half.wanted)
        half.event.lane = profile_stream(scan->profile, gpu_device(scan), gpu_stream(scan));
    half.link = id_in(scan, SLOT_CORRELATION);
    half.external = id_in(scan, SLOT_EXTERNAL);
    if (half.event.kind == PROFILE_OTHER && has_slot(scan, SLOT_CATEGORY))
        half.link = 0;
    vec_push(&scan->halves, half);
    if (scan->options.raw)
        raw_half(scan, raw);
}

static bool name_is(const TraceScan *scan, const char *text)
{
    return has_slot(scan, SLOT_NAME) && slice_is(slice_of(scan, SLOT_NAME), text);
}

static void add_metadata(TraceScan *scan)
{
    Label label = {.kind = name_is(scan, "process_name") ? LABEL_PROCESS : LABEL_THREAD};

    scan->profile->ignored++;
    if (!has_slot(scan, SLOT_LABEL) || (label.kind == LABEL_THREAD && !name_is(scan, "thread_name")))
        return;
    label.text = name_of(scan, SLOT_LABEL);
    label.thread = thread_key(scan);
    if (label.kind == LABEL_PROCESS) {
        label.thread.tid = 0;
        label.thread.tid_name = PROFILE_NONE;
    }
    vec_push(&scan->labels, label);
}

/* "[memory]" instants; all others are of no use. */
static void add_instant(TraceScan *scan, TraceRaw *raw)
{
    raw->has_time = event_start(scan, &raw->start);
    if (!name_is(scan, "[memory]") || !has_slot(scan, SLOT_MEMORY_BYTES)) {
        scan->profile->ignored++;
        return;
    }
    if (!raw->has_time) {
        lose_event(scan, PROFILE_LOSS_NO_TIME);
        return;
    }
    if (scan->options.skip_host || !window_touches(&scan->options, raw->start, 0))
        return;
    raw->kept = true;
    detail_memory(scan, raw->start);
}

static char phase_of(const TraceScan *scan)
{
    const Slice *slice = slice_of(scan, SLOT_PHASE);

    if (has_slot(scan, SLOT_PHASE))
        return slice->len == 1 ? *slice->at : '?';
    return has_slot(scan, SLOT_START) && has_slot(scan, SLOT_DURATION) ? 'X' : '?';
}

void event_add(TraceScan *scan, const char *text, size_t len, uint64_t byte)
{
    const char phase = phase_of(scan);
    TraceRaw raw = {
        .bytes = text, .len = len, .offset = byte, .phase = phase == '?' ? 0 : phase, .device = -1, .stream = -1};

    scan->raw_byte = byte;
    if (scan->options.raw) {
        raw.has_time = event_start(scan, &raw.start);
        raw.link = id_known(scan, id_in(scan, phase == 'X' ? SLOT_CORRELATION : SLOT_FLOW));
    }
    switch (phase) {
    case 'X':
        add_complete(scan, &raw);
        break;
    case 'B':
    case 'E':
        add_half(scan, &raw, phase == 'B');
        break;
    case 'M':
        add_metadata(scan);
        break;
    case 'i':
    case 'I':
        add_instant(scan, &raw);
        break;
    default:
        scan->profile->ignored++;
    }
    scan->profile->events++;
    if (scan->options.raw)
        scan->options.raw(scan->options.context, &raw);
}
