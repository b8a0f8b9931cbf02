/* SPDX-License-Identifier: Apache-2.0 */
/* What an event is, once its values are found: phase and category decide; times are checked here. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "engine/trace/scan/detail.h"
#include "engine/trace/scan/inside.h"
#include "engine/trace/scan/thread.h"
#include "engine/trace/scan/window.h"

/* A category's use: a ProfileKind, or one of these. */
enum { USE_GPU_IF = PROFILE_KIND_COUNT, USE_SYNC, USE_NOTHING };

static const struct {
    const char *text;
    uint8_t len, use;
} categories[] = {
#define USE_KERNEL PROFILE_KERNEL
#define USE_COPY PROFILE_COPY
#define USE_SET PROFILE_SET
#define USE_CALL PROFILE_CALL
#define USE_OP PROFILE_OP
#define USE_ANNOTATION PROFILE_ANNOTATION
#define USE_PYTHON PROFILE_PYTHON
#define USE_OVERHEAD PROFILE_OVERHEAD
#define USE_GPU_ANNOTATION PROFILE_GPU_ANNOTATION
#define CATEGORY(name, what) {.text = name, .len = sizeof(name) - 1, .use = USE_##what},
#include "engine/trace/scan/category.def"
#undef CATEGORY
};

static unsigned int use_of(const Slice *slice)
{
    for (size_t i = 0; i < ARRAY_LEN(categories); i++)
        if (categories[i].len == slice->len && memcmp(categories[i].text, slice->at, slice->len) == 0)
            return categories[i].use;
    return PROFILE_OTHER;
}

/* Those of 4 to 16 bytes are kept: in two words that overlap, and their length, they are whole. */
static unsigned int category_use(TraceScan *scan)
{
    const Slice *slice = slice_of(scan, SLOT_CATEGORY);
    const uint32_t len = slice->len, half = len >= 8 ? 8 : 4;
    CategoryEntry now = {.len = (uint8_t)len};

    if (len < 4 || len > 16)
        return use_of(slice);
    memcpy(&now.first, slice->at, sizeof now.first);
    memcpy(&now.rest, slice->at + len - half, sizeof now.rest);
    if (half == 4) {
        now.first = (uint32_t)now.first;
        now.rest = (uint32_t)now.rest;
    }
    CategoryEntry *entry =
        &scan->caches->category[(now.first * UINT64_C(0x9e3779b97f4a7c15) ^ now.rest) % CATEGORY_CACHE];

    if (entry->first != now.first || entry->rest != now.rest || entry->len != now.len) {
        now.use = (uint8_t)use_of(slice);
        *entry = now;
    }
    return entry->use;
}

static void lose_event(TraceScan *scan, ProfileLossReason reason)
{
    const Slice *name = slice_of(scan, SLOT_NAME);

    scan_lose(scan, reason, scan->raw_byte, name->at, has(scan, SLOT_NAME) ? name->len : 0);
}

static bool event_start(TraceScan *scan, int64_t *ret)
{
    if (!has(scan, SLOT_START) || !value_nanoseconds(slice_of(scan, SLOT_START), ret, &scan->fraction))
        return false;
    scan->timed = true;
    return true;
}

/* False: the event is lost, and that is said. */
static bool event_times(TraceScan *scan, bool gpu, int64_t *start, int64_t *duration)
{
    if (!event_start(scan, start)) {
        lose_event(scan, PROFILE_LOSS_NO_TIME);
        return false;
    }
    if (!has(scan, SLOT_DURATION) || !value_nanoseconds(slice_of(scan, SLOT_DURATION), duration, &scan->fraction) ||
        *duration > DURATION_MAX) {
        lose_event(scan, PROFILE_LOSS_NO_TIME);
        return false;
    }
    if (*duration < 0) {
        lose_event(scan, PROFILE_LOSS_BAD_DURATION);
        *duration = 0;
    }
    if (gpu && *start == 0 && *duration == 0) {
        lose_event(scan, PROFILE_LOSS_NO_TIME);
        return false;
    }
    return true;
}

/* Of an event without a category its name or a step's number may say what it is ("$train.py:12 step" of XLA's
 * profiler); the rest is known at the end. */
static unsigned int bare_use(const TraceScan *scan)
{
    const Slice *name = slice_of(scan, SLOT_NAME);

    if (has(scan, SLOT_STEP) && has(scan, SLOT_NAME))
        return PROFILE_ANNOTATION;
    return has(scan, SLOT_NAME) && name->len > 1 && *name->at == '$' ? PROFILE_PYTHON : PROFILE_OTHER;
}

/* The kind that the event at hand comes to; USE_SYNC and USE_NOTHING stay. */
static unsigned int event_use(TraceScan *scan)
{
    if (!has(scan, SLOT_CATEGORY))
        return bare_use(scan);
    const unsigned int use = category_use(scan);

    if (use != USE_GPU_IF)
        return use;
    return has(scan, SLOT_STREAM) || has(scan, SLOT_DEVICE) ? PROFILE_KERNEL : PROFILE_OTHER;
}

/* What is of no kind may turn out to be the GPU's. */
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

static void add_host(TraceScan *scan, ProfileEvent *event)
{
    const size_t row = scan->profile->host.len;
    const Slice *name = slice_of(scan, SLOT_NAME);

    if (event->kind == PROFILE_CALL) {
        event->link = id_of(scan, SLOT_CORRELATION, WIDE_HOST_LINK, row);
        scan->profile->rocm |=
            has(scan, SLOT_NAME) && name->len > 3 && *name->at == 'h' && memcmp(name->at, "hip", 3) == 0;
    } else if (event->kind == PROFILE_OP) {
        event->link = id_of(scan, SLOT_EXTERNAL, WIDE_HOST_LINK, row);
        event->extra = detail_op(scan);
    } else if (event->kind == PROFILE_OTHER && !has(scan, SLOT_CATEGORY)) {
        event->link = id_of(scan, SLOT_CORRELATION, WIDE_HOST_LINK, row);
        scan->bare_links |= has(scan, SLOT_CORRELATION);
        if (!scan->options.raw)
            bare_note(scan);
    }
}

/* The name, with the number of a step behind it: "train" of step_num 12 is "train 12". */
static uint32_t event_name(TraceScan *scan)
{
    enum { NUMBER_MAX = 24, TEXT_MAX = 256 };
    const uint32_t name = has(scan, SLOT_NAME) ? name_of(scan, SLOT_NAME) : PROFILE_NONE;
    char text[TEXT_MAX + NUMBER_MAX];
    int64_t number;
    size_t len;

    if (has(scan, SLOT_CATEGORY) || !has(scan, SLOT_STEP) || !value_integer(slice_of(scan, SLOT_STEP), &number))
        return name;
    const char *word = profile_text(scan->profile, name, &len);

    if (len == 0 || len > TEXT_MAX || (word[len - 1] >= '0' && word[len - 1] <= '9'))
        return name;
    memcpy(text, word, len);
    len += (size_t)snprintf(text + len, NUMBER_MAX, " %" PRId64, number);
    return profile_name(scan->profile, text, len);
}

/* For who copies events: what the row will be once all is known. */
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
    const KnownThread thread = {
        .pid = key.pid,
        .tid = key.tid,
        .pid_text = key.pid_name == PROFILE_NONE ? NULL : profile_text(scan->profile, key.pid_name, NULL),
        .tid_text = key.tid_name == PROFILE_NONE ? NULL : profile_text(scan->profile, key.tid_name, NULL)};
    const KnownPlace place = known_place(known, &thread);

    if (place.use == LANE_OPERATIONS || place.use == LANE_STEPS) {
        raw->kind = place.use == LANE_STEPS ? PROFILE_GPU_ANNOTATION : PROFILE_KERNEL;
        raw->device = place.device;
        raw->stream = place.stream;
    } else if (place.use == LANE_HOST && !has(scan, SLOT_CATEGORY) && id_in(scan, SLOT_CORRELATION)) {
        raw->kind = PROFILE_CALL;
    }
}

static void take_complete(TraceScan *scan, TraceRaw *raw)
{
    const unsigned int use = event_use(scan);
    ProfileEvent event = {.extra = PROFILE_NONE};

    if (use == USE_NOTHING) {
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

static void take_half(TraceScan *scan, TraceRaw *raw, bool begin)
{
    const unsigned int use = event_use(scan);
    Half half = {.begin = begin, .byte = scan->raw_byte, .event = {.extra = PROFILE_NONE}};

    if (use == USE_NOTHING || use == USE_SYNC) {
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
        half.event.lane = gpu_lane(scan, gpu_device(scan), gpu_stream(scan));
    half.link = id_in(scan, SLOT_CORRELATION);
    half.external = id_in(scan, SLOT_EXTERNAL);
    if (half.event.kind == PROFILE_OTHER && has(scan, SLOT_CATEGORY))
        half.link = 0;
    vec_push(&scan->halves, half);
    *raw = (TraceRaw){
        .kept = true, .kind = half.event.kind, .has_time = true, .start = half.time, .device = -1, .stream = -1};
    if (scan->options.raw)
        raw_place(scan, raw);
}

static bool name_is(const TraceScan *scan, const char *text)
{
    const Slice *slice = slice_of(scan, SLOT_NAME);

    return has(scan, SLOT_NAME) && slice->len == strlen(text) && memcmp(slice->at, text, slice->len) == 0;
}

static void take_metadata(TraceScan *scan)
{
    Label label = {.kind = name_is(scan, "thread_sort_index") ? LABEL_SORT
                           : name_is(scan, "process_name")    ? LABEL_PROCESS
                                                              : LABEL_THREAD,
                   .text = PROFILE_NONE};

    scan->profile->ignored++;
    if (label.kind == LABEL_SORT ? !has(scan, SLOT_SORT) : !has(scan, SLOT_LABEL))
        return;
    if (label.kind == LABEL_THREAD && !name_is(scan, "thread_name"))
        return;
    label.sort = label.kind == LABEL_SORT ? number_of(scan, SLOT_SORT, 0) : 0;
    if (label.kind != LABEL_SORT)
        label.text = name_of(scan, SLOT_LABEL);
    label.thread = thread_key(scan);
    if (label.kind == LABEL_PROCESS) {
        label.thread.tid = 0;
        label.thread.tid_name = PROFILE_NONE;
    }
    vec_push(&scan->labels, label);
}

/* "[memory]" instants; all others are of no use. */
static void take_instant(TraceScan *scan, TraceRaw *raw)
{
    raw->has_time = event_start(scan, &raw->start);
    if (!name_is(scan, "[memory]") || !has(scan, SLOT_MEMORY_BYTES)) {
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

    if (has(scan, SLOT_PHASE))
        return slice->len == 1 ? *slice->at : '?';
    return has(scan, SLOT_START) && has(scan, SLOT_DURATION) ? 'X' : '?';
}

void event_take(TraceScan *scan, const char *text, size_t len, uint64_t byte)
{
    const char phase = phase_of(scan);
    TraceRaw raw = {.device = -1, .stream = -1};

    scan->raw_byte = byte;
    switch (phase) {
    case 'X':
        take_complete(scan, &raw);
        break;
    case 'B':
    case 'E':
        take_half(scan, &raw, phase == 'B');
        break;
    case 'M':
        take_metadata(scan);
        break;
    case 'i':
    case 'I':
        take_instant(scan, &raw);
        break;
    default:
        scan->profile->ignored++;
    }
    scan->profile->events++;
    if (!scan->options.raw)
        return;
    raw.bytes = text;
    raw.len = len;
    raw.offset = byte;
    raw.phase = phase == '?' ? 0 : phase;
    raw.metadata = phase == 'M';
    raw.link = id_known(scan, id_in(scan, strchr("XBE", phase) ? SLOT_CORRELATION : SLOT_FLOW));
    if (!raw.has_time)
        raw.has_time = event_start(scan, &raw.start);
    scan->options.raw(scan->options.context, &raw);
}
