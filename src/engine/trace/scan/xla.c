/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of XLA's profiler (JAX, TensorFlow): events have no category; only the name of their process, which may
 * stand behind them, tells that they ran on a GPU. They are kept as ranges of a thread until all names are known. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/attribute.h"
#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"

void bare_note(TraceScan *scan)
{
    const uint64_t slots = SLOT_BIT(SLOT_KERNEL_DETAILS) | SLOT_BIT(SLOT_GRID) | SLOT_BIT(SLOT_COPY_DETAILS) |
                           SLOT_BIT(SLOT_OCCUPANCY) | SLOT_BIT(SLOT_REGISTERS);
    Bare bare = {.row = scan->profile->host.len};

    if (!(scan->walk->present & slots))
        return;
    const double occupancy = has_slot(scan, SLOT_OCCUPANCY) ? value_double(slice_of(scan, SLOT_OCCUPANCY)) : NAN;
    const int64_t registers = number_of(scan, SLOT_REGISTERS, 0);

    bare.kernel = name_of(scan, has_slot(scan, SLOT_KERNEL_DETAILS) ? SLOT_KERNEL_DETAILS : SLOT_GRID);
    bare.copy = name_of(scan, SLOT_COPY_DETAILS);
    bare.occupancy = occupancy > 0 && occupancy <= 100 ? (float)occupancy : -1;
    bare.registers = registers > 0 && registers < UINT32_MAX ? (uint32_t)registers : 0;
    vec_push(&scan->bares, bare);
}

/* --- details ------------------------------------------------------------------------------------------------------ */

/* What stands behind "key:" in "grid:1,1,1 block:256,1,1"; NULL nothing. */
static const char *value_behind(const char *text, const char *key)
{
    const size_t len = strlen(key);

    for (const char *at = text; (at = strstr(at, key)); at += len)
        if ((at == text || strchr(" \n\t,", at[-1])) && at[len] == ':')
            return at + len + 1;
    return NULL;
}

/* Up to `count` numbers behind "key:", with commas between them; others stay as they are. */
static void numbers_behind(const char *text, const char *key, uint32_t *ret, unsigned int count)
{
    const char *at = value_behind(text, key);

    for (unsigned int i = 0; at && i < count && *at >= '0' && *at <= '9'; i++) {
        char *end;
        const unsigned long long value = strtoull(at, &end, 10);

        ret[i] = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
        at = end + (*end == ',');
    }
}

static uint32_t launch_of(Profile *profile, const Bare *bare)
{
    ProfileLaunch launch = {
        .occupancy_percent = bare->occupancy, .blocks_per_sm = -1, .warps_per_sm = -1, .collective = PROFILE_NONE};
    const char *text = profile_text(profile, bare->kernel, NULL);

    uint32_t more = 0;

    numbers_behind(text, "grid", launch.grid, 3);
    numbers_behind(text, "block", launch.block, 3);
    numbers_behind(text, "regs", &launch.registers, 1);
    launch.registers = bare->registers ? bare->registers : launch.registers;
    numbers_behind(text, "static_shared", &launch.shared_bytes, 1);
    numbers_behind(text, "dynamic_shared", &more, 1);
    launch.shared_bytes = more > UINT32_MAX - launch.shared_bytes ? UINT32_MAX : launch.shared_bytes + more;
    if (launch.occupancy_percent < 0) {
        const char *at = value_behind(text, "occ_pct");
        const double percent = at && *at >= '0' && *at <= '9' ? strtod(at, NULL) : -1;

        launch.occupancy_percent = percent > 0 && percent <= 100 ? (float)percent : -1;
    }
    return profile_launch(profile, &launch);
}

static uint16_t memory_behind(const char *text, const char *key)
{
    const char *at = value_behind(text, key);

    return (uint16_t)(at ? profile_memory_word(at, strcspn(at, " \n\t,")) : PROFILE_MEMORY_UNKNOWN);
}

static int64_t size_of(const char *text)
{
    const char *at = value_behind(text, "size");
    const unsigned long long size = at && *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : ULLONG_MAX;

    return size <= INT64_MAX ? (int64_t)size : -1;
}

static uint32_t copy_of(Profile *profile, ProfileKind kind, const char *name, uint32_t details)
{
    const char *text = profile_text(profile, details, NULL);
    ProfileCopy copy = {.bytes = size_of(text), .reported_gbs = NAN};

    if (kind == PROFILE_SET) {
        copy.kind = PROFILE_COPY_SET;
        copy.target = memory_behind(text, "kind");
        return profile_copy(profile, &copy);
    }
    profile_copy_words(name, strlen(name), &copy);
    copy.source = memory_behind(text, "kind_src");
    copy.target = memory_behind(text, "kind_dst");
    return profile_copy(profile, &copy);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

typedef struct Place {
    LaneUse use;
    uint32_t lane; /* on the GPU */
} Place;

/* Only lanes that are there get a place: those that rows were made of, before any is moved. */
static Place *places_new(TraceScan *scan, const TraceKnown *known)
{
    Profile *profile = scan->profile;
    const size_t count = profile->lanes.len;
    Place *places = xcalloc(count + 1, sizeof *places);

    for (size_t i = 0; i < count; i++) {
        const ProfileLane lane = profile->lanes.at[i];
        const KnownThread thread =
            thread_known(profile, &(ThreadKey){lane.pid, lane.tid, lane.pid_name, lane.tid_name});

        if (lane.gpu)
            continue;
        const KnownPlace place = known_place(known, &thread);

        places[i].use = place.use;
        if (place.use != LANE_OPERATIONS && place.use != LANE_STEPS)
            continue;
        places[i].lane = profile_stream(profile, place.device, place.stream);
        if (place.use == LANE_OPERATIONS && lane.label != PROFILE_NONE)
            profile->lanes.at[places[i].lane].label = lane.label;
    }
    return places;
}

static ProfileEvent event_of(const ProfileEvents *host, size_t row)
{
    return (ProfileEvent){.kind = host->kind[row],
                          .start = host->start[row],
                          .duration = host->duration[row],
                          .name = host->name[row],
                          .lane = host->lane[row],
                          .link = host->link[row],
                          .extra = PROFILE_NONE};
}

static void add_operation(Profile *profile, ProfileEvent event, uint32_t lane, const Bare *bare)
{
    const char *name = profile_text(profile, event.name, NULL);

    event.lane = lane;
    if (strncmp(name, "Memset", strlen("Memset")) == 0)
        event.kind = PROFILE_SET;
    else if (strncmp(name, "Memcpy", strlen("Memcpy")) == 0 || (bare && bare->copy != PROFILE_NONE))
        event.kind = PROFILE_COPY;
    else
        event.kind = PROFILE_KERNEL;
    if (event.kind != PROFILE_KERNEL)
        event.extra = copy_of(profile, event.kind, name, bare ? bare->copy : PROFILE_NONE);
    else if (bare)
        event.extra = launch_of(profile, bare);
    profile_add(profile, &event);
}

/* Their names are numbers. */
static void add_step(Profile *profile, ProfileEvent event, uint32_t lane)
{
    size_t len;
    const char *name = profile_text(profile, event.name, &len);
    char text[64];

    event.lane = lane;
    event.kind = PROFILE_GPU_ANNOTATION;
    event.link = 0;
    if (len > 0 && len < 20 && strspn(name, "0123456789") == len) {
        memcpy(text, "step ", 5);
        memcpy(text + 5, name, len);
        event.name = profile_name(profile, text, len + 5);
    }
    profile_add(profile, &event);
}

typedef struct Resolving {
    TraceScan *scan;
    const Place *places;
    bool devices; /* there are GPUs */
    size_t bare;  /* the next one of scan->bares */
} Resolving;

/* A row of no kind with a correlation is a call of the GPU, if there is a GPU. */
static void resolve_host(const Resolving *resolving, ProfileEvents *host, size_t row)
{
    Profile *profile = resolving->scan->profile;

    if (host->link[row] == 0)
        return;
    if (!resolving->devices) {
        host->link[row] = 0;
        return;
    }
    host->kind[row] = PROFILE_CALL;
    profile->rocm |= strncmp(profile_text(profile, host->name[row], NULL), "hip", 3) == 0;
}

/* Returns whether the row stays. */
static bool resolve_row(void *context, UNUSED const Profile *sealed, const ProfileEvents *table, size_t row)
{
    Resolving *resolving = context;
    const TraceScan *scan = resolving->scan;
    Profile *profile = scan->profile;
    const Bare *bare = NULL;

    if (table != &profile->host)
        return true;
    if (resolving->bare < scan->bares.len && scan->bares.at[resolving->bare].row == row)
        bare = &scan->bares.at[resolving->bare++];
    if (table->kind[row] != PROFILE_OTHER)
        return true;
    const Place *place = &resolving->places[table->lane[row]];

    switch (place->use) {
    case LANE_HOST:
        resolve_host(resolving, &profile->host, row);
        return !scan->options.skip_host;
    case LANE_OPERATIONS:
        add_operation(profile, event_of(table, row), place->lane, bare);
        return false;
    case LANE_STEPS:
        add_step(profile, event_of(table, row), place->lane);
        return false;
    case LANE_REPEATS:
        break;
    }
    profile->ignored++;
    return false;
}

void bares_resolve(TraceScan *scan, const TraceKnown *known)
{
    static const char framework[] = "xla";
    Profile *profile = scan->profile;
    Resolving resolving = {.scan = scan, .devices = known->devices.len > 0};

    if (!resolving.devices && !scan->bare_links && !scan->options.skip_host)
        return;
    CLEANUP_FREE Place *places = places_new(scan, known);

    resolving.places = places;
    if (resolving.devices && profile->framework == PROFILE_NONE)
        profile->framework = profile_name(profile, framework, sizeof framework - 1);
    profile_filter(profile, resolve_row, &resolving);
}

/* What names say of processes and threads, from one reading to the next. */

static int compare_texts(const char *a, const char *b)
{
    return !a || !b ? (a != NULL) - (b != NULL) : strcmp(a, b);
}

static const char *text_of(const Profile *profile, uint32_t name)
{
    return name == PROFILE_NONE ? NULL : profile_text(profile, name, NULL);
}

/* By the thread that elements begin with. */
static int by_thread(const void *a, const void *b)
{
    const KnownThread *x = a, *y = b;
    int order;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    order = compare_texts(x->pid_text, y->pid_text);
    return order ? order : compare_texts(x->tid_text, y->tid_text);
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
    for (size_t i = 0; i < ARRAY_LEN(repeats); i++)
        if (strcmp(label, repeats[i]) == 0)
            return LANE_REPEATS;
    return LANE_OPERATIONS;
}

static const KnownDevice *find_device(const TraceKnown *known, const KnownThread *thread)
{
    const KnownDevice key = {.process = {.pid = thread->pid, .pid_text = thread->pid_text}};

    return known->devices.len ? bsearch(&key, known->devices.at, known->devices.len, sizeof key, by_thread) : NULL;
}

KnownPlace known_place(const TraceKnown *known, const KnownThread *thread)
{
    const KnownLane key = {.thread = *thread};
    const KnownDevice *device = find_device(known, thread);
    KnownPlace place = {.use = LANE_HOST, .device = -1, .stream = -1};
    const KnownLane *lane;

    if (!device)
        return place;
    lane = known->lanes.len ? bsearch(&key, known->lanes.at, known->lanes.len, sizeof key, by_thread) : NULL;
    place.device = device->device;
    place.use = lane ? use_of_line(lane->label) : LANE_OPERATIONS;
    if (place.use != LANE_OPERATIONS || (lane && is_stream(lane->label, &place.stream)))
        return place;
    /* Beside named streams, another named line repeats them. */
    if (lane && device->streams)
        place.use = LANE_REPEATS;
    place.stream = thread->tid_text ? -1 : thread->tid;
    return place;
}

KnownThread thread_known(const Profile *profile, const ThreadKey *key)
{
    return (KnownThread){.pid = key->pid,
                         .tid = key->tid,
                         .pid_text = text_of(profile, key->pid_name),
                         .tid_text = text_of(profile, key->tid_name)};
}

/* With texts of its own. */
static KnownThread thread_of(TraceKnown *known, const Profile *profile, const ThreadKey *key)
{
    KnownThread thread = thread_known(profile, key);

    thread.pid_text = thread.pid_text ? arena_strdup(&known->arena, thread.pid_text) : NULL;
    thread.tid_text = thread.tid_text ? arena_strdup(&known->arena, thread.tid_text) : NULL;
    return thread;
}

static void learn_devices(TraceKnown *known, const TraceScan *scan)
{
    for (size_t i = 0; i < scan->labels.len; i++) {
        const Label *label = &scan->labels.at[i];
        KnownDevice device = {0};

        if (label->kind != LABEL_PROCESS || !device_of(profile_text(scan->profile, label->text, NULL), &device.device))
            continue;
        device.process = thread_of(known, scan->profile, &label->thread);
        vec_push(&known->devices, device);
    }
    vec_sort(&known->devices, by_thread);
}

static void learn_lanes(TraceKnown *known, const TraceScan *scan)
{
    int64_t stream;

    for (size_t i = 0; known->devices.len && i < scan->labels.len; i++) {
        const Label *label = &scan->labels.at[i];
        const KnownThread thread = {.pid = label->thread.pid,
                                    .pid_text = text_of(scan->profile, label->thread.pid_name)};
        const KnownDevice *device = find_device(known, &thread);

        if (!device || label->kind != LABEL_THREAD)
            continue;
        const char *text = arena_strdup(&known->arena, profile_text(scan->profile, label->text, NULL));

        known->devices.at[device - known->devices.at].streams |= is_stream(text, &stream);
        vec_push(&known->lanes,
                 ((KnownLane){.thread = thread_of(known, scan->profile, &label->thread), .label = text}));
    }
    vec_sort(&known->lanes, by_thread);
}

void known_learn(TraceKnown *known, const TraceScan *scan)
{
    learn_devices(known, scan);
    learn_lanes(known, scan);
}
