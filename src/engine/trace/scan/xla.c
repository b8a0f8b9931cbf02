/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of XLA's profiler (JAX, TensorFlow): events have no category; only the name of their process, which may
 * stand behind them, tells that they ran on a GPU. They are kept as ranges of a thread until all names are known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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
    bare.occupancy = occupancy >= 0 && occupancy <= 100 ? (float)occupancy : -1;
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

static uint32_t number_behind_key(const char *text, const char *key, uint32_t none)
{
    const char *at = value_behind(text, key);
    uint64_t value = 0;

    if (!at || *at < '0' || *at > '9')
        return none;
    for (; *at >= '0' && *at <= '9' && value <= UINT32_MAX; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void triple_behind(const char *text, const char *key, uint32_t ret[3])
{
    const char *at = value_behind(text, key);

    for (int i = 0; at && i < 3; i++) {
        uint64_t value = 0;

        if (*at < '0' || *at > '9')
            return;
        for (; *at >= '0' && *at <= '9' && value <= UINT32_MAX; at++)
            value = value * 10 + (uint64_t)(*at - '0');
        ret[i] = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
        at += *at == ',';
    }
}

static uint32_t launch_of(Profile *profile, const Bare *bare)
{
    ProfileLaunch launch = {
        .occupancy_percent = bare->occupancy, .blocks_per_sm = -1, .warps_per_sm = -1, .collective = PROFILE_NONE};
    const char *text = profile_text(profile, bare->kernel, NULL);

    triple_behind(text, "grid", launch.grid);
    triple_behind(text, "block", launch.block);
    launch.registers = bare->registers ? bare->registers : number_behind_key(text, "regs", 0);
    launch.shared_bytes = number_behind_key(text, "static_shared", 0);
    const uint32_t more = number_behind_key(text, "dynamic_shared", 0);

    launch.shared_bytes = more > UINT32_MAX - launch.shared_bytes ? UINT32_MAX : launch.shared_bytes + more;
    if (launch.occupancy_percent < 0) {
        const char *at = value_behind(text, "occ_pct");
        const double percent = at && *at >= '0' && *at <= '9' ? strtod(at, NULL) : -1;

        launch.occupancy_percent = percent >= 0 && percent <= 100 ? (float)percent : -1;
    }
    return profile_launch(profile, &launch);
}

static uint8_t memory_behind(const char *text, const char *key)
{
    static const struct {
        const char *word;
        uint8_t memory;
    } words[] = {{"pageable", PROFILE_MEMORY_PAGEABLE}, {"pinned", PROFILE_MEMORY_PINNED},
                 {"device", PROFILE_MEMORY_DEVICE},     {"array", PROFILE_MEMORY_ARRAY},
                 {"managed", PROFILE_MEMORY_MANAGED},   {"unified", PROFILE_MEMORY_MANAGED}};
    const char *at = value_behind(text, key);

    for (size_t i = 0; at && i < ARRAY_LEN(words); i++)
        if (strncmp(at, words[i].word, strlen(words[i].word)) == 0)
            return words[i].memory;
    return PROFILE_MEMORY_UNKNOWN;
}

/* "MemcpyD2H" to the words of other profilers. */
static uint8_t direction_of(const char *name)
{
    static const struct {
        const char *word;
        uint8_t kind;
    } words[] = {{"D2H", PROFILE_COPY_DTOH}, {"H2D", PROFILE_COPY_HTOD}, {"D2D", PROFILE_COPY_DTOD},
                 {"P2P", PROFILE_COPY_PTOP}, {"H2H", PROFILE_COPY_HTOH}, {"A2A", PROFILE_COPY_DTOD},
                 {"H2A", PROFILE_COPY_HTOD}, {"A2H", PROFILE_COPY_DTOH}, {"D2A", PROFILE_COPY_DTOD},
                 {"A2D", PROFILE_COPY_DTOD}};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strncmp(name + strlen("Memcpy"), words[i].word, strlen(words[i].word)) == 0)
            return words[i].kind;
    return PROFILE_COPY_UNKNOWN;
}

static int64_t size_of(const char *text)
{
    const char *at = value_behind(text, "size");
    int64_t size = 0;

    if (!at || *at < '0' || *at > '9')
        return -1;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (size > INT64_MAX / 10 - 1)
            return -1;
        size = size * 10 + (*at - '0');
    }
    return size;
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
    if (strncmp(name, "Memcpy", strlen("Memcpy")) == 0)
        copy.kind = direction_of(name);
    if (copy.kind == PROFILE_COPY_UNKNOWN)
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
        const KnownThread thread = {
            .pid = lane.pid,
            .tid = lane.tid,
            .pid_text = lane.pid_name == PROFILE_NONE ? NULL : profile_text(profile, lane.pid_name, NULL),
            .tid_text = lane.tid_name == PROFILE_NONE ? NULL : profile_text(profile, lane.tid_name, NULL)};

        if (lane.gpu)
            continue;
        const KnownPlace place = known_place(known, &thread);

        places[i].use = place.use;
        if (place.use != LANE_OPERATIONS && place.use != LANE_STEPS)
            continue;
        places[i].lane = profile_stream(profile, place.device, place.stream);
        if (place.use == LANE_OPERATIONS && lane.label != PROFILE_NONE)
            profile->lanes.at[places[i].lane].label = lane.label;
        if (place.use == LANE_OPERATIONS && lane.sort)
            profile->lanes.at[places[i].lane].sort = lane.sort;
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

static void keep_row(ProfileEvents *host, size_t to, size_t from)
{
    host->start[to] = host->start[from];
    host->duration[to] = host->duration[from];
    host->name[to] = host->name[from];
    host->lane[to] = host->lane[from];
    host->link[to] = host->link[from];
    host->extra[to] = host->extra[from];
    host->kind[to] = host->kind[from];
}

/* A row of no kind with a correlation is a call of the GPU, if there is a GPU. */
static void resolve_host(TraceScan *scan, size_t row, bool devices)
{
    ProfileEvents *host = &scan->profile->host;

    if (host->link[row] == 0)
        return;
    if (!devices) {
        host->link[row] = 0;
        return;
    }
    host->kind[row] = PROFILE_CALL;
    scan->profile->rocm |= strncmp(profile_text(scan->profile, host->name[row], NULL), "hip", 3) == 0;
}

/* Returns whether the row stays. */
static bool resolve_row(TraceScan *scan, size_t row, const Place *place, const Bare *bare, bool devices)
{
    Profile *profile = scan->profile;

    if (profile->host.kind[row] != PROFILE_OTHER)
        return true;
    switch (place->use) {
    case LANE_HOST:
        resolve_host(scan, row, devices);
        return !scan->options.skip_host;
    case LANE_OPERATIONS:
        add_operation(profile, event_of(&profile->host, row), place->lane, bare);
        return false;
    case LANE_STEPS:
        add_step(profile, event_of(&profile->host, row), place->lane);
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
    const bool devices = known->devices.len > 0;
    size_t kept = 0, next = 0;

    if (!devices && !scan->bare_links && !scan->options.skip_host)
        return;
    Place *places = places_new(scan, known);

    if (devices && profile->framework == PROFILE_NONE)
        profile->framework = profile_name(profile, framework, sizeof framework - 1);
    for (size_t row = 0; row < profile->host.len; row++) {
        const Bare *bare = next < scan->bares.len && scan->bares.at[next].row == row ? &scan->bares.at[next++] : NULL;

        if (!resolve_row(scan, row, &places[profile->host.lane[row]], bare, devices))
            continue;
        if (kept != row)
            keep_row(&profile->host, kept, row);
        kept++;
    }
    profile->host.len = kept;
    free(places);
}

/* ---- processes that are GPUs ---- */

/* What names say of processes and threads, from one reading to the next. */

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
    /* Beside named streams, another named line repeats them. */
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
