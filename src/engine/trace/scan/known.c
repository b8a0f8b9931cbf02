/* SPDX-License-Identifier: Apache-2.0 */
/* What a text says of all of it, from one reading to the next. */
#include "engine/trace/scan/known.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/trace/scan/inside.h"

TraceKnown *trace_known_new(void)
{
    return xcalloc(1, sizeof(TraceKnown));
}

void trace_known_free(TraceKnown *known)
{
    if (!known)
        return;
    vec_done(&known->devices);
    vec_done(&known->lanes);
    vec_done(&known->ids);
    arena_done(&known->arena);
    free(known);
}

/* --- ids ---------------------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const KnownId *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

void known_add_id(TraceKnown *known, uint64_t id, uint32_t number)
{
    vec_push(&known->ids, ((KnownId){.id = id, .number = number}));
}

uint32_t known_number(const TraceKnown *known, uint64_t id)
{
    const KnownId key = {.id = id};
    const KnownId *found = known->ids.len ? bsearch(&key, known->ids.at, known->ids.len, sizeof key, by_id) : NULL;

    return found ? found->number : 0;
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static int compare_texts(const char *a, const char *b)
{
    return !a || !b ? (a != NULL) - (b != NULL) : strcmp(a, b);
}

static const char *text_of(const Profile *profile, uint32_t name)
{
    return name == PROFILE_NONE ? NULL : profile_text(profile, name, NULL);
}

static int compare_threads(const KnownThread *x, const KnownThread *y)
{
    int order;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    order = compare_texts(x->pid_text, y->pid_text);
    return order ? order : compare_texts(x->tid_text, y->tid_text);
}

static int by_device(const void *a, const void *b)
{
    return compare_threads(&((const KnownDevice *)a)->process, &((const KnownDevice *)b)->process);
}

static int by_lane(const void *a, const void *b)
{
    return compare_threads(&((const KnownLane *)a)->thread, &((const KnownLane *)b)->thread);
}

/* "/device:GPU:3", alone or behind a host's name. */
static bool device_of(const char *name, int32_t *ret)
{
    static const char word[] = "/device:GPU:";
    const char *at = strstr(name, word);
    int64_t number = 0;
    size_t digits = 0;

    if (!at || (at != name && at[-1] != ' '))
        return false;
    for (at += sizeof word - 1; *at >= '0' && *at <= '9' && digits < 9; at++, digits++)
        number = number * 10 + (*at - '0');
    *ret = (int32_t)number;
    return digits > 0 && (*at == '\0' || *at == ' ');
}

/* "Stream #14(Compute,MemcpyD2H)". */
static bool is_stream(const char *label, int64_t *ret)
{
    static const char word[] = "Stream #";
    size_t digits = 0;

    *ret = 0;
    if (strncmp(label, word, sizeof word - 1) != 0)
        return false;
    for (label += sizeof word - 1; *label >= '0' && *label <= '9' && digits < 18; label++, digits++)
        *ret = *ret * 10 + (*label - '0');
    return digits > 0;
}

/* Lines that the profiler makes of the streams. */
static LaneUse use_of_line(const char *label)
{
    static const char *const repeats[] = {"XLA Ops",        "XLA Modules",           "XLA TraceMe",
                                          "Async XLA Ops",  "Framework Ops",         "Framework Name Scope",
                                          "TensorFlow Ops", "TensorFlow Name Scope", "Source code",
                                          "Source Code",    "Launch Stats"};

    if (strcmp(label, "Steps") == 0)
        return LANE_STEPS;
    for (size_t i = 0; i < sizeof repeats / sizeof repeats[0]; i++)
        if (strcmp(label, repeats[i]) == 0)
            return LANE_REPEATS;
    return LANE_OPERATIONS;
}

static const KnownDevice *find_device(const TraceKnown *known, const KnownThread *thread)
{
    const KnownDevice key = {.process = {.pid = thread->pid, .pid_text = thread->pid_text}};

    return known->devices.len ? bsearch(&key, known->devices.at, known->devices.len, sizeof key, by_device) : NULL;
}

KnownPlace known_place(const TraceKnown *known, const KnownThread *thread)
{
    const KnownLane key = {.thread = *thread};
    const KnownDevice *device = find_device(known, thread);
    KnownPlace place = {.use = LANE_HOST, .device = -1, .stream = -1};
    const KnownLane *lane;

    if (!device)
        return place;
    lane = known->lanes.len ? bsearch(&key, known->lanes.at, known->lanes.len, sizeof key, by_lane) : NULL;
    place.device = device->device;
    place.label = lane ? lane->label : NULL;
    place.use = lane ? use_of_line(lane->label) : LANE_OPERATIONS;
    if (place.use != LANE_OPERATIONS || (lane && is_stream(lane->label, &place.stream)))
        return place;
    /* Beside named streams another name is another line that is made of them. */
    if (lane && device->streams)
        place.use = LANE_REPEATS;
    place.stream = thread->tid_text ? -1 : thread->tid;
    return place;
}

static KnownThread thread_of(TraceKnown *known, const Profile *profile, const ThreadKey *key)
{
    const char *pid = text_of(profile, key->pid_name), *tid = text_of(profile, key->tid_name);

    return (KnownThread){.pid = key->pid,
                         .tid = key->tid,
                         .pid_text = pid ? arena_strdup(&known->arena, pid) : NULL,
                         .tid_text = tid ? arena_strdup(&known->arena, tid) : NULL};
}

static void learn_devices(TraceKnown *known, const TraceScan *scan)
{
    for (size_t i = 0; i < scan->labels.len; i++) {
        const Label *label = &scan->labels.at[i];
        KnownDevice device = {0};

        if (!label_counts(&scan->labels, label, LABEL_PROCESS) ||
            !device_of(profile_text(scan->profile, label->text, NULL), &device.device))
            continue;
        device.process = thread_of(known, scan->profile, &label->thread);
        vec_push(&known->devices, device);
    }
    if (known->devices.len)
        qsort(known->devices.at, known->devices.len, sizeof known->devices.at[0], by_device);
}

static void learn_lanes(TraceKnown *known, const TraceScan *scan)
{
    int64_t stream;

    for (size_t i = 0; known->devices.len && i < scan->labels.len; i++) {
        const Label *label = &scan->labels.at[i];
        const KnownThread thread = {.pid = label->thread.pid,
                                    .pid_text = text_of(scan->profile, label->thread.pid_name)};
        const KnownDevice *device = find_device(known, &thread);

        if (!device || !label_counts(&scan->labels, label, LABEL_THREAD))
            continue;
        const char *text = arena_strdup(&known->arena, profile_text(scan->profile, label->text, NULL));

        known->devices.at[device - known->devices.at].streams |= is_stream(text, &stream);
        vec_push(&known->lanes,
                 ((KnownLane){.thread = thread_of(known, scan->profile, &label->thread), .label = text}));
    }
    if (known->lanes.len)
        qsort(known->lanes.at, known->lanes.len, sizeof known->lanes.at[0], by_lane);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

void known_learn(TraceKnown *known, const TraceScan *scan)
{
    learn_devices(known, scan);
    learn_lanes(known, scan);
}
