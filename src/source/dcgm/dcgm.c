/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdcgm: loading it, starting and ending the engine, watches of fields, and values as samples. An embedded engine
 * runs in automatic mode, the one in which all users share the profiling module: it samples on threads of its own,
 * and reading takes the latest value from its cache. GPUs are asked for their PCI address one by one, once each, so
 * that a field suffices and no large struct with versions of its own is needed. Values are matched by field and
 * entity: their order is not promised.
 */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "source/dcgm/abi.h"
#include "source/dcgm/dcgm.h"
#include "model/device.h"

typedef struct DcgmTable {
#define FN(name, need, arguments) int(*name) arguments;
#include "source/dcgm/functions.def"
#undef FN
} DcgmTable;

/* A group of fields in the engine, shared by all watches of the same list. */
typedef struct DcgmFields {
    DcgmHandle handle;
    uint32_t users; /* 0: the place is free */
    uint32_t count;
    uint16_t ids[DCGM_FIELDS_MAX];
} DcgmFields;

/* The PCI address of a GPU of the engine. */
typedef struct DcgmKnown {
    uint32_t id;
    PciAddress pci;
} DcgmKnown;

struct Dcgm {
    DcgmHooks hooks;
    const char *name; /* of the library */
    void *library;
    bool up;        /* between dcgmInit and dcgmShutdown */
    bool running;   /* `engine` is one */
    bool remote;    /* and is another process */
    bool lost;      /* it went away */
    bool permitted; /* this process may use profiling, as far as is known */
    DcgmHandle engine;
    unsigned int names_used; /* group names are unique */
    uint64_t birth_ns;       /* distinguishes its groups from those of the same pid in another container */
    DcgmFields fields[DCGM_FIELD_GROUPS_MAX];
    uint32_t known_count;
    DcgmKnown known[DCGM_GPUS_MAX];
    DcgmWatch *watches;
    DcgmTable table_;
    DcgmFieldValue values[DCGM_FIELDS_MAX]; /* of one call at a time */
};

/* A field of a watch. */
typedef struct DcgmField {
    MetricValue kind;
    uint32_t out;       /* place in the caller's samples */
    uint16_t id;        /* DCGM's */
    uint8_t refused;    /* Absence, where `fields` is NULL */
    bool had;           /* there has been a value */
    DcgmFields *fields; /* the group it is watched with; NULL: it is not */
} DcgmField;

/* The fields of a watch that belong to one entity. */
typedef struct DcgmPart {
    DcgmEntity entity;
    DcgmHandle group;
    bool grouped; /* `group` is one */
    uint32_t first, count;
    uint32_t asked; /* how many of them are read, in this order: */
    uint16_t ids[DCGM_FIELDS_MAX];
    uint8_t at[DCGM_FIELDS_MAX]; /* and where they lie in DcgmWatch.fields */
} DcgmPart;

struct DcgmWatch {
    Dcgm *dcgm;
    DcgmWatch *next;
    DcgmTarget target;
    uint64_t period_ns;
    uint32_t count, parts_count;
    DcgmPart parts[2];
    DcgmField fields[DCGM_FIELDS_MAX];
};

/* Answer of the library; where the engine is gone it is not called. */
#define DCGM_CALL(dcgm, fn, args)                                                                                      \
    __extension__({                                                                                                    \
        int answer_ = DCGM_CONNECTION_NOT_VALID;                                                                       \
        if (!(dcgm)->lost) {                                                                                           \
            (dcgm)->hooks.before((dcgm)->hooks.self, #fn);                                                             \
            answer_ = (dcgm)->table_.fn args;                                                                          \
            (dcgm)->hooks.after((dcgm)->hooks.self);                                                                   \
            note_answer(dcgm, answer_);                                                                                \
        }                                                                                                              \
        answer_;                                                                                                       \
    })

typedef enum Need { ALWAYS, EMBEDDED, REMOTE, NEVER } Need;

typedef struct Symbol {
    const char *name;
    Need need;
    size_t offset;
} Symbol;

static const Symbol symbols[] = {
#define FN(name, need, arguments) {#name, need, offsetof(DcgmTable, name)},
#include "source/dcgm/functions.def"
#undef FN
};

CLEANUP_POINTER(Dcgm, dcgm_close);

/* Marks the engine as lost, if the answer says so. */
static void note_answer(Dcgm *dcgm, int answer)
{
    if (dcgm->running && (answer == DCGM_CONNECTION_NOT_VALID || answer == DCGM_UNINITIALIZED))
        dcgm->lost = true;
}

enum { DCGM_NAME_CAP = 64 };

/* A name that no other group of this or another client has. Returns `text`. */
static const char *make_group_name(Dcgm *dcgm, char text[DCGM_NAME_CAP])
{
    (void)snprintf(text, DCGM_NAME_CAP, "stoker-%ld-%llx-%u", (long)getpid(), (unsigned long long)dcgm->birth_ns,
                   dcgm->names_used++);
    return text;
}

/* The driver allows the counters to administrators only, unless its module is configured otherwise. */
static bool is_administrator(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    return data[0].effective & (UINT32_C(1) << CAP_SYS_ADMIN);
}

/* ---- the library ---- */

static void *open_as(Dcgm *dcgm, const char *name)
{
    dcgm->hooks.before(dcgm->hooks.self, "dlopen");
    dcgm->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    dcgm->hooks.after(dcgm->hooks.self);
    dcgm->name = name;
    return dcgm->library;
}

static int load_library(Dcgm *dcgm, const DcgmPlace *place, Err *err)
{
    char first[ERR_TEXT_MAX];
    const char *why;

    if (place->library[0] ? open_as(dcgm, place->library) : open_as(dcgm, "libdcgm.so.4"))
        return 0;
    why = dlerror();
    (void)snprintf(first, sizeof first, "%s", why ? why : dcgm->name);
    if (!place->library[0] && open_as(dcgm, "libdcgm.so.3"))
        return 0;
    return err_set(err, -ENOENT, "DCGM's library cannot be loaded: %s", first);
}

static int fill_table(Dcgm *dcgm, Err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        const Symbol *symbol = &symbols[i];
        void *at = dlsym(dcgm->library, symbol->name);

        memcpy((char *)&dcgm->table_ + symbol->offset, &at, sizeof at);
        if (!at && (symbol->need == ALWAYS || symbol->need == (dcgm->remote ? REMOTE : EMBEDDED)))
            return err_set(err, -ENOSYS, "'%s' has no function %s: a DCGM of version 3 or 4 is needed", dcgm->name,
                           symbol->name);
    }
    return 0;
}

static bool unload_library(Dcgm *dcgm)
{
    void *left;

    if (!dcgm->library)
        return true;
    dcgm->hooks.before(dcgm->hooks.self, "dlclose");
    (void)dlclose(dcgm->library);
    left = dlopen(dcgm->name, RTLD_NOW | RTLD_NOLOAD);
    if (left)
        (void)dlclose(left);
    dcgm->hooks.after(dcgm->hooks.self);
    return !left;
}

/* ---- the engine ---- */

static int answer_error(const char *function, int answer, Err *err)
{
    return err_set(err, dcgm_answer_errno(answer), "%s: %s (%d)", function, dcgm_answer_words(answer), answer);
}

static int start_remote(Dcgm *dcgm, const DcgmPlace *place, Err *err)
{
    static const char prefix[] = "unix:";
    bool is_path = strncmp(place->address, prefix, sizeof prefix - 1) == 0;
    const char *address = place->address + (is_path ? sizeof prefix - 1 : 0);
    DcgmConnect how = {
        .version = DCGM_VERSION_WORD(DcgmConnect, 2), .timeout_ms = place->connect_ms, .unix_socket = is_path};
    int answer = DCGM_CALL(dcgm, dcgmConnect_v2, (address, &how, &dcgm->engine));

    if (answer == DCGM_OK)
        return 0;
    int rc = answer_error("dcgmConnect_v2", answer, err);
    (void)err_add(err, "host engine '%s'", place->address);
    return rc == -EPIPE ? -EIO : rc;
}

static int start_engine(Dcgm *dcgm, const DcgmPlace *place, Err *err)
{
    int answer = DCGM_CALL(dcgm, dcgmInit, ());

    if (answer != DCGM_OK)
        return answer_error("dcgmInit", answer, err);
    dcgm->up = true;
    if (dcgm->remote)
        TRY(start_remote(dcgm, place, err));
    else if ((answer = DCGM_CALL(dcgm, dcgmStartEmbedded, (DCGM_MODE_AUTO, &dcgm->engine))) != DCGM_OK)
        return answer_error("dcgmStartEmbedded", answer, err);
    dcgm->running = true;
    return 0;
}

int dcgm_open(const DcgmPlace *place, const DcgmHooks *hooks, Dcgm **ret_dcgm, Err *err)
{
    CLEANUP(dcgm_close_at) Dcgm *dcgm = xcalloc(1, sizeof *dcgm);

    assert(hooks->before && hooks->after);
    dcgm->hooks = *hooks;
    dcgm->birth_ns = clock_read(CLOCK_BOOTTIME);
    dcgm->remote = place->address[0];
    dcgm->permitted = dcgm->remote || is_administrator();
    TRY(load_library(dcgm, place, err));
    TRY(fill_table(dcgm, err));
    TRY(start_engine(dcgm, place, err));
    *ret_dcgm = TAKE(dcgm);
    return 0;
}

/* A lost engine is closed too: the library holds resources for it. */
static void stop_engine(Dcgm *dcgm)
{
    dcgm->lost = false;
    if (dcgm->running) {
        dcgm->running = false;
        if (dcgm->remote)
            (void)DCGM_CALL(dcgm, dcgmDisconnect, (dcgm->engine));
        else
            (void)DCGM_CALL(dcgm, dcgmStopEmbedded, (dcgm->engine));
    }
    if (dcgm->up)
        (void)DCGM_CALL(dcgm, dcgmShutdown, ());
    dcgm->up = false;
}

bool dcgm_close(Dcgm *dcgm)
{
    bool gone;

    if (!dcgm)
        return true;
    while (dcgm->watches)
        dcgm_watch_free(dcgm->watches);
    stop_engine(dcgm);
    gone = unload_library(dcgm);
    free(dcgm);
    return gone;
}

Absence dcgm_absence(int rc)
{
    switch (rc) {
    case -ENOENT:
    case -ENOSYS:
        return ABSENCE_NO_LIBRARY;
    case -EACCES:
        return ABSENCE_NO_PERMISSION;
    case -ENODEV:
        return ABSENCE_NOT_SUPPORTED;
    default:
        return ABSENCE_FAILED;
    }
}

bool dcgm_lost(const Dcgm *dcgm)
{
    return dcgm->lost;
}

/* The list has 32 places in DCGM 2 to 4; more are kept free for a library that would write more. */
enum { LIST_CAP = 4 * DCGM_GPUS_MAX };

/* False where the engine does not know, for a lost GPU say. */
static bool ask_address(Dcgm *dcgm, uint32_t id, PciAddress *ret_pci)
{
    DcgmEntity gpu = {.group = DCGM_ENTITY_GPU, .id = id};
    unsigned short field = DCGM_FIELD_PCI;
    DcgmFieldValue *value = &dcgm->values[0];
    int answer;

    *value = (DcgmFieldValue){.status = DCGM_NO_DATA};
    answer = DCGM_CALL(dcgm, dcgmEntitiesGetLatestValues, (dcgm->engine, &gpu, 1, &field, 1, DCGM_FLAG_LIVE, value));
    if (answer != DCGM_OK || value->status != DCGM_OK || value->type != DCGM_TYPE_TEXT ||
        !memchr(value->value.text, '\0', DCGM_TEXT_CAP))
        return false;
    return pci_parse(value->value.text, ret_pci) == 0;
}

static bool is_at(Dcgm *dcgm, uint32_t id, PciAddress gpu)
{
    PciAddress pci;

    for (uint32_t i = 0; i < dcgm->known_count; i++)
        if (dcgm->known[i].id == id)
            return pci_compare(dcgm->known[i].pci, gpu) == 0;
    if (!ask_address(dcgm, id, &pci))
        return false;
    if (dcgm->known_count < DCGM_GPUS_MAX)
        dcgm->known[dcgm->known_count++] = (DcgmKnown){.id = id, .pci = pci};
    return pci_compare(pci, gpu) == 0;
}

/* The engine's number of the GPU at this address. 0, or as dcgm_watch_new. */
static int find_gpu(Dcgm *dcgm, PciAddress gpu, uint32_t *ret_id, Err *err)
{
    unsigned int ids[LIST_CAP] = {0};
    char text[PCI_TEXT_CAP];
    int count = 0, answer = DCGM_CALL(dcgm, dcgmGetAllDevices, (dcgm->engine, ids, &count));

    if (answer != DCGM_OK)
        return answer_error("dcgmGetAllDevices", answer, err);
    for (int i = 0; i < count && i < LIST_CAP; i++) {
        if (!is_at(dcgm, ids[i], gpu))
            continue;
        *ret_id = ids[i];
        return 0;
    }
    if (dcgm->lost)
        return err_set(err, -EPIPE, "DCGM's engine went away");
    return err_set(err, -ENODEV, "DCGM does not know a GPU at %s", pci_format(gpu, PCI_FORM_NVML, text));
}

/* An instance of this kind in that parent with NVML's numbers. */
static bool find_in(const DcgmHierarchy *all, DcgmEntity parent, uint32_t kind, const DcgmTarget *target,
                    uint32_t *ret_id)
{
    for (uint32_t i = 0; i < all->count && i < DCGM_HIERARCHY_MAX; i++) {
        const DcgmInstance *at = &all->instances[i];

        if (at->entity.group != kind || at->parent.group != parent.group || at->parent.id != parent.id ||
            at->gpu_instance != target->gpu_instance)
            continue;
        if (kind == DCGM_ENTITY_COMPUTE_INSTANCE && at->compute_instance != target->compute_instance)
            continue;
        *ret_id = at->entity.id;
        return true;
    }
    return false;
}

/* Its numbers of a GPU instance on it and a compute instance in that. */
static int find_instances(Dcgm *dcgm, uint32_t gpu, const DcgmTarget *target, uint32_t *ret_gpu_instance,
                          uint32_t *ret_compute_instance, Err *err)
{
    CLEANUP_FREE DcgmHierarchy *all = xcalloc(1, sizeof *all);
    DcgmEntity parent = {.group = DCGM_ENTITY_GPU, .id = gpu};
    uint32_t compute_instance = 0;
    int answer;

    if (!dcgm->table_.dcgmGetGpuInstanceHierarchy)
        return err_set(err, -ENODEV, "'%s' cannot tell MIG devices: it has no dcgmGetGpuInstanceHierarchy", dcgm->name);
    all->version = DCGM_VERSION_WORD(DcgmHierarchy, 2);
    answer = DCGM_CALL(dcgm, dcgmGetGpuInstanceHierarchy, (dcgm->engine, all));
    if (answer != DCGM_OK)
        return answer_error("dcgmGetGpuInstanceHierarchy", answer, err);
    if (find_in(all, parent, DCGM_ENTITY_GPU_INSTANCE, target, &parent.id)) {
        parent.group = DCGM_ENTITY_GPU_INSTANCE;
        if (find_in(all, parent, DCGM_ENTITY_COMPUTE_INSTANCE, target, &compute_instance)) {
            *ret_gpu_instance = parent.id;
            *ret_compute_instance = compute_instance;
            return 0;
        }
    }
    return err_set(err, -ENODEV, "DCGM does not know compute instance %u of GPU instance %u", target->compute_instance,
                   target->gpu_instance);
}

/* Of what the engine keeps only the latest is read. */
enum { KEEP_SAMPLES = 2, KEEP_PERIODS = 3, KEEP_SECONDS_MIN = 5 };

CLEANUP_POINTER(DcgmWatch, dcgm_watch_free);

/* ---- groups of fields ---- */

/* The group of this list; else a free place, or NULL. */
static DcgmFields *find_fields(Dcgm *dcgm, const uint16_t *ids, uint32_t count)
{
    DcgmFields *free_one = NULL;

    for (size_t i = 0; i < ARRAY_LEN(dcgm->fields); i++) {
        DcgmFields *at = &dcgm->fields[i];

        if (at->users && at->count == count && memcmp(at->ids, ids, count * sizeof *ids) == 0)
            return at;
        if (!at->users)
            free_one = at;
    }
    return free_one;
}

/* The group of this list, made where there is none. Answer of the library; DCGM_MAX_LIMIT where there is no place. */
static int share_fields(Dcgm *dcgm, const uint16_t *ids, uint32_t count, DcgmFields **ret_fields)
{
    DcgmFields *fields = find_fields(dcgm, ids, count);
    char name[DCGM_NAME_CAP];
    int answer;

    if (!fields)
        return DCGM_MAX_LIMIT;
    if (!fields->users) {
        memcpy(fields->ids, ids, count * sizeof *ids);
        fields->count = count;
        answer = DCGM_CALL(dcgm, dcgmFieldGroupCreate,
                           (dcgm->engine, (int)count, fields->ids, make_group_name(dcgm, name), &fields->handle));
        if (answer != DCGM_OK)
            return answer;
    }
    fields->users++;
    *ret_fields = fields;
    return DCGM_OK;
}

static void give_fields(Dcgm *dcgm, DcgmFields *fields)
{
    if (--fields->users == 0)
        (void)DCGM_CALL(dcgm, dcgmFieldGroupDestroy, (dcgm->engine, fields->handle));
}

/* ---- one entity ---- */

static int watch_list(DcgmWatch *watch, DcgmPart *part, uint32_t first, uint32_t count)
{
    Dcgm *dcgm = watch->dcgm;
    double keep_s = (double)watch->period_ns * KEEP_PERIODS / 1e9;
    uint16_t ids[DCGM_FIELDS_MAX];
    DcgmFields *fields;
    int answer;

    for (uint32_t i = 0; i < count; i++)
        ids[i] = watch->fields[first + i].id;
    answer = share_fields(dcgm, ids, count, &fields);
    if (answer != DCGM_OK)
        return answer;
    answer = DCGM_CALL(dcgm, dcgmWatchFields,
                       (dcgm->engine, part->group, fields->handle, (long long)(watch->period_ns / 1000),
                        keep_s < KEEP_SECONDS_MIN ? KEEP_SECONDS_MIN : keep_s, KEEP_SAMPLES));
    if (answer != DCGM_OK) {
        give_fields(dcgm, fields);
        return answer;
    }
    fields->users += count - 1;
    for (uint32_t i = 0; i < count; i++)
        watch->fields[first + i].fields = fields;
    return DCGM_OK;
}

static int make_group(DcgmWatch *watch, DcgmPart *part)
{
    Dcgm *dcgm = watch->dcgm;
    char name[DCGM_NAME_CAP];
    int answer =
        DCGM_CALL(dcgm, dcgmGroupCreate, (dcgm->engine, DCGM_GROUP_EMPTY, make_group_name(dcgm, name), &part->group));

    if (answer != DCGM_OK)
        return answer;
    part->grouped = true;
    return DCGM_CALL(dcgm, dcgmGroupAddEntity, (dcgm->engine, part->group, part->entity.group, part->entity.id));
}

/* All fields at once or, where one of several is refused, one by one. */
static void start_part(DcgmWatch *watch, DcgmPart *part)
{
    int answer = make_group(watch, part);
    bool each = false;

    if (answer == DCGM_OK) {
        answer = watch_list(watch, part, part->first, part->count);
        each = part->count > 1 && dcgm_answer_is_about_fields(answer);
    }
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        if (each)
            answer = watch_list(watch, part, i, 1);
        if (answer != DCGM_OK) {
            watch->fields[i].refused = (uint8_t)dcgm_answer_absence(answer, watch->dcgm->permitted);
            continue;
        }
        part->ids[part->asked] = watch->fields[i].id;
        part->at[part->asked++] = (uint8_t)i;
    }
}

/* A field group is released once, after the last field of this part that uses it. */
static void stop_part(DcgmWatch *watch, DcgmPart *part)
{
    Dcgm *dcgm = watch->dcgm;
    const DcgmFields *before = NULL;

    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        DcgmFields *fields = watch->fields[i].fields;

        if (!fields)
            continue;
        if (fields != before)
            (void)DCGM_CALL(dcgm, dcgmUnwatchFields, (dcgm->engine, part->group, fields->handle));
        before = fields;
        give_fields(dcgm, fields);
    }
    if (part->grouped)
        (void)DCGM_CALL(dcgm, dcgmGroupDestroy, (dcgm->engine, part->group));
}

/* ---- one target ---- */

static bool is_whole(const DcgmTarget *target)
{
    return target->gpu_instance == DEVICE_NO_NUMBER;
}

/* Which kind of entity of the target measures a metric of this scope; 0: none. */
static uint32_t entity_of(const DcgmTarget *target, MetricScope scope)
{
    if (is_whole(target))
        return DCGM_ENTITY_GPU;
    if (scope == METRIC_SCOPE_GPU_INSTANCE)
        return DCGM_ENTITY_GPU_INSTANCE;
    return scope == METRIC_SCOPE_COMPUTE_INSTANCE ? DCGM_ENTITY_COMPUTE_INSTANCE : 0;
}

/* Adds the metrics that such an entity measures, as a part of its own; with `kind` 0 those that none does. */
static void add_kind(DcgmWatch *watch, const MetricId *metrics, size_t count, uint32_t kind)
{
    uint32_t first = watch->count;

    for (uint32_t i = 0; i < count; i++) {
        const Metric *metric = metric_get(metrics[i]);

        if (entity_of(&watch->target, metric->scope) == kind)
            watch->fields[watch->count++] =
                (DcgmField){.id = metric->dcgm_id, .kind = metric->value, .out = i, .refused = ABSENCE_NOT_SUPPORTED};
    }
    if (kind && watch->count > first)
        watch->parts[watch->parts_count++] =
            (DcgmPart){.entity.group = kind, .first = first, .count = watch->count - first};
}

static int find_entities(DcgmWatch *watch, Err *err)
{
    uint32_t gpu = 0, gpu_instance = 0, compute_instance = 0;

    TRY(find_gpu(watch->dcgm, watch->target.gpu, &gpu, err));
    if (!is_whole(&watch->target))
        TRY(find_instances(watch->dcgm, gpu, &watch->target, &gpu_instance, &compute_instance, err));
    for (uint32_t i = 0; i < watch->parts_count; i++) {
        DcgmEntity *entity = &watch->parts[i].entity;

        entity->id = entity->group == DCGM_ENTITY_GPU            ? gpu
                     : entity->group == DCGM_ENTITY_GPU_INSTANCE ? gpu_instance
                                                                 : compute_instance;
    }
    return 0;
}

static int start_watch(DcgmWatch *watch, Err *err)
{
    uint32_t asked = 0;

    if (watch->dcgm->lost)
        return err_set(err, -EPIPE, "DCGM's engine went away");
    TRY(find_entities(watch, err));
    for (uint32_t i = 0; i < watch->parts_count; i++) {
        start_part(watch, &watch->parts[i]);
        asked += watch->parts[i].asked;
    }
    if (watch->dcgm->lost)
        return err_set(err, -EPIPE, "DCGM's engine went away");
    return asked ? 0 : DCGM_REFUSED;
}

int dcgm_watch_new(Dcgm *dcgm, const DcgmTarget *target, const MetricId *metrics, size_t count, uint64_t period_ns,
                   DcgmWatch **ret_watch, Err *err)
{
    CLEANUP(dcgm_watch_free_at) DcgmWatch *watch = xcalloc(1, sizeof *watch);
    int rc;

    assert(count <= DCGM_FIELDS_MAX && period_ns);
    *watch = (DcgmWatch){.dcgm = dcgm, .next = dcgm->watches, .target = *target, .period_ns = period_ns};
    dcgm->watches = watch;
    add_kind(watch, metrics, count, DCGM_ENTITY_GPU);
    add_kind(watch, metrics, count, DCGM_ENTITY_COMPUTE_INSTANCE);
    add_kind(watch, metrics, count, DCGM_ENTITY_GPU_INSTANCE);
    add_kind(watch, metrics, count, 0);
    rc = start_watch(watch, err);
    TRY(rc);
    *ret_watch = TAKE(watch);
    return rc;
}

void dcgm_watch_free(DcgmWatch *watch)
{
    DcgmWatch **at;

    if (!watch)
        return;
    for (uint32_t i = 0; i < watch->parts_count; i++)
        stop_part(watch, &watch->parts[i]);
    for (at = &watch->dcgm->watches; *at != watch;)
        at = &(*at)->next;
    *at = watch->next;
    free(watch);
}

enum { FRESH_PERIODS = 3 };
#define FRESH_MIN_US INT64_C(3000000)

typedef struct Reader {
    DcgmWatch *watch;
    DcgmNow now;
    int64_t fresh_us; /* how old a value may be */
    Sample *out;
} Reader;

static void set_double(Sample *sample, uint64_t time_ns, MetricValue kind, double value)
{
    Absence why;

    if (dcgm_blank_double(value, &why))
        sample_set_absent(sample, time_ns, why);
    else if (kind == METRIC_DOUBLE)
        sample_set_double(sample, time_ns, value);
    else if (value > -DCGM_BLANK_DOUBLE)
        sample_set_int64(sample, time_ns, (int64_t)value);
    else
        sample_set_absent(sample, time_ns, ABSENCE_FAILED);
}

static void set_int64(Sample *sample, uint64_t time_ns, MetricValue kind, int64_t value)
{
    Absence why;

    if (dcgm_blank_int64(value, &why))
        sample_set_absent(sample, time_ns, why);
    else if (kind == METRIC_DOUBLE)
        sample_set_double(sample, time_ns, (double)value);
    else
        sample_set_int64(sample, time_ns, value);
}

/* Nothing yet, before the first value; after it, no more. */
static Absence absence_of_field(const DcgmField *field)
{
    return field->had ? ABSENCE_NO_DATA : ABSENCE_NOT_YET;
}

static int64_t age_of_value(const Reader *reader, const DcgmFieldValue *value)
{
    if (value->time_us <= 0)
        return INT64_MAX;
    return reader->now.wall_us > value->time_us ? reader->now.wall_us - value->time_us : 0;
}

static void set_field(const Reader *reader, DcgmField *field, const DcgmFieldValue *value)
{
    Sample *sample = &reader->out[field->out];
    int64_t age_us = age_of_value(reader, value);
    uint64_t age_ns = (uint64_t)age_us * 1000, now_ns = reader->now.time_ns;

    if (value->status != DCGM_OK) {
        Absence why = dcgm_answer_absence(value->status, reader->watch->dcgm->permitted);
        sample_set_absent(sample, now_ns, why == ABSENCE_NO_DATA ? absence_of_field(field) : why);
    } else if (age_us > reader->fresh_us) {
        sample_set_absent(sample, now_ns, absence_of_field(field));
    } else if (value->type == DCGM_TYPE_DOUBLE) {
        set_double(sample, age_ns < now_ns ? now_ns - age_ns : now_ns, field->kind, value->value.f64);
    } else if (value->type == DCGM_TYPE_INT64) {
        set_int64(sample, age_ns < now_ns ? now_ns - age_ns : now_ns, field->kind, value->value.i64);
    } else {
        sample_set_absent(sample, now_ns, ABSENCE_FAILED);
    }
    field->had |= sample->valid;
}

static const DcgmFieldValue *find_value(const DcgmFieldValue *values, const DcgmPart *part, uint32_t which)
{
    for (uint32_t n = 0; n < part->asked; n++) {
        const DcgmFieldValue *value = &values[(which + n) % part->asked]; /* most likely at once */

        if (value->field == part->ids[which] && value->entity.group == part->entity.group &&
            value->entity.id == part->entity.id)
            return value;
    }
    return NULL;
}

static void read_part(const Reader *reader, DcgmPart *part)
{
    DcgmWatch *watch = reader->watch;
    DcgmFieldValue *values = watch->dcgm->values;
    int answer;

    if (!part->asked)
        return;
    for (uint32_t i = 0; i < part->asked; i++)
        values[i].field = 0;
    answer = DCGM_CALL(watch->dcgm, dcgmEntitiesGetLatestValues,
                       (watch->dcgm->engine, &part->entity, 1, part->ids, part->asked, 0, values));
    for (uint32_t i = 0; i < part->asked; i++) {
        DcgmField *field = &watch->fields[part->at[i]];
        const DcgmFieldValue *value = answer == DCGM_OK ? find_value(values, part, i) : NULL;
        Absence why = answer == DCGM_OK ? ABSENCE_NO_DATA : dcgm_answer_absence(answer, watch->dcgm->permitted);

        if (value)
            set_field(reader, field, value);
        else
            sample_set_absent(&reader->out[field->out], reader->now.time_ns,
                              why == ABSENCE_NO_DATA ? absence_of_field(field) : why);
    }
}

size_t dcgm_read(DcgmWatch *watch, DcgmNow now, Sample *out)
{
    int64_t periods_us = (int64_t)(watch->period_ns / 1000) * FRESH_PERIODS;
    Reader reader = {
        .watch = watch, .now = now, .out = out, .fresh_us = periods_us > FRESH_MIN_US ? periods_us : FRESH_MIN_US};
    size_t there = 0;

    for (uint32_t i = 0; i < watch->count; i++)
        sample_set_absent(&out[watch->fields[i].out], now.time_ns, (Absence)watch->fields[i].refused);
    for (uint32_t i = 0; i < watch->parts_count; i++)
        read_part(&reader, &watch->parts[i]);
    for (uint32_t i = 0; i < watch->count; i++)
        there += out[watch->fields[i].out].valid;
    return there;
}
