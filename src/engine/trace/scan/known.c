/* SPDX-License-Identifier: Apache-2.0 */
/* What a text says of all of it, from one reading to the next. */
#include "engine/trace/scan/known.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/trace/scan/inside.h"
#include "engine/trace/scan/owner.h"

TraceKnown *trace_known_new(void)
{
    TraceKnown *known = xcalloc(1, sizeof *known);

    known->other_rank = -1;
    return known;
}

void trace_known_free(TraceKnown *known)
{
    if (!known)
        return;
    vec_done(&known->owners);
    vec_done(&known->processes);
    vec_done(&known->devices);
    vec_done(&known->lanes);
    vec_done(&known->ids);
    arena_done(&known->arena);
    free(known);
}

unsigned int trace_known_owners(const TraceKnown *known)
{
    return (unsigned int)known->owners.len;
}

int64_t trace_known_rank(const TraceKnown *known, unsigned int owner)
{
    return known->owners.at[owner - 1].rank;
}

const char *trace_known_mark(const TraceKnown *known, unsigned int owner)
{
    return known->owners.at[owner - 1].mark;
}

uint64_t trace_known_nobodys(const TraceKnown *known)
{
    return known->nobodys;
}

int64_t trace_known_other_rank(const TraceKnown *known)
{
    return known->other_rank;
}

uint32_t trace_known_first_wide(const TraceKnown *known)
{
    return known->ids.len ? known->ids.at[0].number : UINT32_MAX;
}

/* --- ids ---------------------------------------------------------------------------------------------------------- */

static int by_owner_and_id(const void *a, const void *b)
{
    const KnownId *x = a, *y = b;

    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void known_add_id(TraceKnown *known, uint32_t owner, uint64_t id, uint32_t number)
{
    vec_push(&known->ids, ((KnownId){.id = id, .owner = owner, .number = number}));
}

uint32_t known_number(const TraceKnown *known, uint32_t owner, uint64_t id)
{
    const KnownId key = {.id = id, .owner = owner};
    const KnownId *found =
        known->ids.len ? bsearch(&key, known->ids.at, known->ids.len, sizeof key, by_owner_and_id) : NULL;

    return found ? found->number : 0;
}

/* --- owners ------------------------------------------------------------------------------------------------------- */

static int compare_texts(const char *a, const char *b)
{
    return !a || !b ? (a != NULL) - (b != NULL) : strcmp(a, b);
}

static int by_mark(const void *a, const void *b)
{
    const KnownOwner *x = a, *y = b;
    const int order = memcmp(x->mark, y->mark, x->len < y->len ? x->len : y->len);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static int by_process(const void *a, const void *b)
{
    const KnownProcess *x = a, *y = b;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return compare_texts(x->text, y->text);
}

uint32_t known_owner(const TraceKnown *known, const char *mark, size_t len)
{
    const KnownOwner key = {.mark = mark, .len = len};
    const KnownOwner *found =
        known->owners.len ? bsearch(&key, known->owners.at, known->owners.len, sizeof key, by_mark) : NULL;

    return found ? (uint32_t)(found - known->owners.at) + 1 : 0;
}

uint32_t known_process(const TraceKnown *known, int64_t pid, const char *text)
{
    const KnownProcess key = {.pid = pid, .text = text};
    const KnownProcess *found =
        known->processes.len ? bsearch(&key, known->processes.at, known->processes.len, sizeof key, by_process) : NULL;

    return found ? found->owner : 0;
}

static void add_owner(TraceKnown *known, const char *mark, size_t len)
{
    vec_push(&known->owners, ((KnownOwner){.mark = arena_strndup(&known->arena, mark, len), .len = len}));
}

/* By mark, each once; none where there is only one, or more than can be. */
static void settle_owners(TraceKnown *known)
{
    size_t kept = 0;

    if (known->owners.len)
        qsort(known->owners.at, known->owners.len, sizeof known->owners.at[0], by_mark);
    for (size_t i = 0; i < known->owners.len; i++)
        if (kept == 0 || by_mark(&known->owners.at[kept - 1], &known->owners.at[i]) != 0)
            known->owners.at[kept++] = known->owners.at[i];
    known->owners.len = kept > 1 && kept <= KNOWN_OWNERS_MAX ? kept : 0;
}

static int by_rank(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The number in the mark where each has one and no two the same, else the place in the order of marks. */
static void number_owners(TraceKnown *known)
{
    const size_t count = known->owners.len;
    int64_t *ranks = xcalloc(count + 1, sizeof *ranks);
    bool plain = true;

    for (size_t i = 0; i < count; i++)
        plain &= owner_number(known->owners.at[i].mark, known->owners.at[i].len, &ranks[i]);
    for (size_t i = 0; i < count; i++)
        known->owners.at[i].rank = plain ? ranks[i] : (int64_t)i;
    qsort(ranks, count, sizeof *ranks, by_rank);
    for (size_t i = 1; plain && i < count; i++)
        if (ranks[i] == ranks[i - 1])
            plain = false;
    for (size_t i = 0; !plain && i < count; i++)
        known->owners.at[i].rank = (int64_t)i;
    free(ranks);
}

static const char *text_of(const Profile *profile, uint32_t name)
{
    return name == PROFILE_NONE ? NULL : profile_text(profile, name, NULL);
}

/* Marks in front of processes. */
static void learn_marked(TraceKnown *known, const TraceScan *scan)
{
    for (size_t i = 0; i < scan->marked.len; i++) {
        size_t len, mark_len;
        const char *text = profile_text(scan->profile, scan->marked.at[i], &len);
        const char *mark = owner_mark_of(text, len, &mark_len);

        if (mark)
            add_owner(known, mark, mark_len);
    }
    settle_owners(known);
}

/* Processes that are named as ranks. */
static void learn_named(TraceKnown *known, const TraceScan *scan)
{
    char mark[OWNER_NAME_MAX];

    for (size_t i = 0; i < scan->labels.len; i++) {
        const Label *label = &scan->labels.at[i];
        size_t len;
        const char *text = profile_text(scan->profile, label->text, &len);

        if (label_counts(&scan->labels, label, LABEL_PROCESS) && owner_of_name(text, len, mark))
            add_owner(known, mark, strlen(mark));
    }
    settle_owners(known);
    for (size_t i = 0; known->owners.len && i < scan->labels.len; i++) {
        const Label *label = &scan->labels.at[i];
        const char *pid = text_of(scan->profile, label->thread.pid_name);
        size_t len;
        const char *text = profile_text(scan->profile, label->text, &len);

        if (label_counts(&scan->labels, label, LABEL_PROCESS) && owner_of_name(text, len, mark))
            vec_push(&known->processes, ((KnownProcess){.pid = label->thread.pid,
                                                        .text = pid ? arena_strdup(&known->arena, pid) : NULL,
                                                        .owner = known_owner(known, mark, strlen(mark))}));
    }
    if (known->processes.len)
        qsort(known->processes.at, known->processes.len, sizeof known->processes.at[0], by_process);
}

/* --- places ------------------------------------------------------------------------------------------------------- */

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
    learn_marked(known, scan);
    if (known->owners.len == 0)
        learn_named(known, scan);
    if (known->owners.len)
        number_owners(known);
    learn_devices(known, scan);
    learn_lanes(known, scan);
    known->nobodys = scan->nobodys;
    known->other_rank = scan->other_rank;
}
