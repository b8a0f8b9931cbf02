/* SPDX-License-Identifier: Apache-2.0 */
/* What an event is, once its values are found: phase and category decide; times are checked here. */
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

/* The last one's neighbours are likely the same: what was found last is looked at first. */
static unsigned int category_use(TraceScan *scan)
{
    const Slice *slice = slice_of(scan, SLOT_CATEGORY);
    Caches *caches = scan->caches;

    if (!has(scan, SLOT_CATEGORY))
        return PROFILE_OTHER;
    const size_t last = caches->category;

    if (categories[last].len == slice->len && memcmp(categories[last].text, slice->at, slice->len) == 0)
        return categories[last].use;
    for (size_t i = 0; i < ARRAY_LEN(categories); i++) {
        if (categories[i].len == slice->len && memcmp(categories[i].text, slice->at, slice->len) == 0) {
            caches->category = i;
            return categories[i].use;
        }
    }
    return PROFILE_OTHER;
}

static void lose(TraceScan *scan, ProfileLossReason reason)
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
        lose(scan, PROFILE_LOSS_NO_TIME);
        return false;
    }
    if (!has(scan, SLOT_DURATION) || !value_nanoseconds(slice_of(scan, SLOT_DURATION), duration, &scan->fraction) ||
        *duration > DURATION_MAX) {
        lose(scan, PROFILE_LOSS_NO_TIME);
        return false;
    }
    if (*duration < 0) {
        lose(scan, PROFILE_LOSS_BAD_DURATION);
        *duration = 0;
    }
    if (gpu && *start == 0 && *duration == 0) {
        lose(scan, PROFILE_LOSS_NO_TIME);
        return false;
    }
    return true;
}

/* The kind that a use comes to; USE_SYNC and USE_NOTHING stay. */
static unsigned int settle_use(const TraceScan *scan, unsigned int use)
{
    if (use != USE_GPU_IF)
        return use;
    return has(scan, SLOT_STREAM) || has(scan, SLOT_DEVICE) ? PROFILE_KERNEL : PROFILE_OTHER;
}

static bool kind_wanted(const TraceScanOptions *options, unsigned int use)
{
    if (options->skip_python && use == PROFILE_PYTHON)
        return false;
    return !options->skip_host || use <= PROFILE_SET || use == PROFILE_ANNOTATION || use == PROFILE_GPU_ANNOTATION;
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
        scan->profile->rocm |= has(scan, SLOT_NAME) && name->len > 3 && memcmp(name->at, "hip", 3) == 0;
    } else if (event->kind == PROFILE_OP) {
        event->link = id_of(scan, SLOT_EXTERNAL, WIDE_HOST_LINK, row);
        event->extra = detail_op(scan);
    } else if (event->kind == PROFILE_PYTHON) {
        scan->profile->with_stack = true;
    }
}

static void take_complete(TraceScan *scan, TraceRaw *raw)
{
    const unsigned int use = settle_use(scan, category_use(scan));
    ProfileEvent event = {.extra = PROFILE_NONE};

    if (use == USE_NOTHING) {
        scan->profile->ignored++;
        return;
    }
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
        return;
    }
    event.kind = raw->kind = (ProfileKind)use;
    event.name = has(scan, SLOT_NAME) ? name_of(scan, SLOT_NAME) : PROFILE_NONE;
    if (kind_on_gpu(use)) {
        event.lane = gpu_lane(scan, gpu_device(scan), gpu_stream(scan));
        if (use != PROFILE_GPU_ANNOTATION)
            add_gpu(scan, &event);
    } else {
        const ThreadKey key = thread_key(scan);

        event.lane = thread_lane(scan, &key);
        add_host(scan, &event);
    }
    profile_add(scan->profile, &event);
}

static void take_half(TraceScan *scan, TraceRaw *raw, bool begin)
{
    const unsigned int use = settle_use(scan, category_use(scan));
    Half half = {.begin = begin, .byte = scan->raw_byte, .event = {.extra = PROFILE_NONE}};

    if (use == USE_NOTHING || use == USE_SYNC) {
        scan->profile->ignored++;
        return;
    }
    if (!event_start(scan, &half.time)) {
        lose(scan, PROFILE_LOSS_NO_TIME);
        return;
    }
    half.thread = thread_key(scan);
    half.event.name = name_of(scan, SLOT_NAME);
    half.event.kind = (ProfileKind)use;
    half.wanted = begin && kind_wanted(&scan->options, use);
    half.on_gpu = begin && kind_on_gpu(use);
    if (half.on_gpu && half.wanted)
        half.event.lane = gpu_lane(scan, gpu_device(scan), gpu_stream(scan));
    vec_push(&scan->halves, half);
    *raw = (TraceRaw){.kept = true, .kind = half.event.kind, .has_time = true, .start = half.time};
}

static bool name_is(const TraceScan *scan, const char *text)
{
    const Slice *slice = slice_of(scan, SLOT_NAME);

    return has(scan, SLOT_NAME) && slice->len == strlen(text) && memcmp(slice->at, text, slice->len) == 0;
}

static void take_metadata(TraceScan *scan)
{
    Label label = {.is_sort = name_is(scan, "thread_sort_index"), .text = PROFILE_NONE};

    scan->profile->ignored++;
    if (label.is_sort ? !has(scan, SLOT_SORT) : !(name_is(scan, "thread_name") && has(scan, SLOT_LABEL)))
        return;
    label.sort = label.is_sort ? number_of(scan, SLOT_SORT, 0) : 0;
    if (!label.is_sort)
        label.text = name_of(scan, SLOT_LABEL);
    label.thread = thread_key(scan);
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
        lose(scan, PROFILE_LOSS_NO_TIME);
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
    TraceRaw raw = {0};

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
    raw.link = (uint64_t)id_marked(scan, number_of(scan, phase == 'X' ? SLOT_CORRELATION : SLOT_FLOW, 0));
    if (!raw.has_time)
        raw.has_time = event_start(scan, &raw.start);
    scan->options.raw(scan->options.context, &raw);
}
