/* SPDX-License-Identifier: Apache-2.0 */
/* All of the stand-in but the reading of values. */

#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The library is called by this table's types alone, so that a wrong signature does not compile. */
#define FN(name, need, arguments) PUBLIC int name arguments;
#include "source/dcgm/functions.def"
#undef FN

FakeGroup fake_groups[FAKE_GROUPS];
FakeFields fake_fields[FAKE_GROUPS];
FakeWatch fake_watches[FAKE_GROUPS];
static bool up, running;

void fake_check(bool fine, const char *what)
{
    if (fine)
        return;
    (void)fprintf(stderr, "fake libdcgm: %s\n", what);
    abort();
}

const char *fake_text(const char *name)
{
    static char line[1024];
    const char *path = getenv("FAKE_DCGM_ORDERS"), *found = NULL;
    FILE *file = path ? fopen(path, "re") : NULL;
    size_t length = strlen(name);

    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, name, length) == 0 && line[length] == '=')
            found = line + length + 1;
    }
    if (file)
        (void)fclose(file);
    return found ? found : getenv(name);
}

/* Whether variable `name` is this text. */
static bool is_set_to(const char *name, const char *text)
{
    const char *set = fake_text(name);

    return set && strcmp(set, text) == 0;
}

static void trace(const char *function)
{
    const char *path = getenv("FAKE_DCGM_TRACE");
    FILE *file = path ? fopen(path, "ae") : NULL;

    if (!file)
        return;
    (void)fprintf(file, "%ld %s\n", (long)getpid(), function);
    (void)fclose(file);
}

bool fake_order(const char *name, const char *key, int *ret_code)
{
    const char *text = fake_text(name);
    size_t length = strlen(key);

    if (!text || strncmp(text, key, length) != 0 || text[length] != ':')
        return false;
    *ret_code = atoi(text + length + 1);
    return true;
}

int fake_enter(const char *function)
{
    int code = DCGM_OK;

    trace(function);
    if (fake_called)
        fake_called(function);
    if (is_set_to("FAKE_DCGM_CRASH", function))
        abort();
    while (is_set_to("FAKE_DCGM_HANG", function))
        (void)usleep(10000);
    (void)fake_order("FAKE_DCGM_FAIL", function, &code);
    return code;
}

#define ENTER()                                                                                                        \
    do {                                                                                                               \
        int code_ = fake_enter(__func__);                                                                              \
        if (code_ != DCGM_OK)                                                                                          \
            return code_;                                                                                              \
    } while (0)
#define ENTER_ENGINE()                                                                                                 \
    do {                                                                                                               \
        fake_check(running &&engine == FAKE_ENGINE, "no such engine");                                                 \
        ENTER();                                                                                                       \
    } while (0)

int dcgmInit(void)
{
    ENTER();
    fake_check(!up, "initialized twice");
    up = true;
    return DCGM_OK;
}

static void check_books(void)
{
    for (int i = 0; i < FAKE_GROUPS; i++)
        fake_check(!fake_groups[i].used && !fake_fields[i].used && !fake_watches[i].used, "something was left");
}

int dcgmShutdown(void)
{
    fake_check(up && !running, "shut down in the wrong state");
    up = false;
    ENTER();
    return DCGM_OK;
}

int dcgmStartEmbedded(int mode, DcgmHandle *ret_engine)
{
    ENTER();
    fake_check(up && !running && mode == DCGM_MODE_AUTO, "wrong start");
    running = true;
    *ret_engine = FAKE_ENGINE;
    return DCGM_OK;
}

int dcgmStopEmbedded(DcgmHandle engine)
{
    ENTER_ENGINE();
    check_books();
    running = false;
    return DCGM_OK;
}

int dcgmConnect_v2(const char *address, DcgmConnect *how, DcgmHandle *ret_engine)
{
    ENTER();
    if (how->version != 0x02000010)
        return DCGM_VERSION_MISMATCH;
    fake_check(how->persist == 0, "what is set up must end with the connection");
    if (strcmp(address, how->unix_socket ? "/run/engine" : "node1:5555") != 0 || how->timeout_ms == 0)
        return DCGM_CONNECTION_NOT_VALID;
    running = true;
    *ret_engine = FAKE_ENGINE;
    return DCGM_OK;
}

/* A host engine lets go of what a client had by itself. */
int dcgmDisconnect(DcgmHandle engine)
{
    ENTER_ENGINE();
    running = false;
    return DCGM_OK;
}

int dcgmGetAllDevices(DcgmHandle engine, unsigned int *gpus, int *ret_count)
{
    ENTER_ENGINE();
    for (unsigned int i = 0; i < 4; i++)
        gpus[i] = 13 - i; /* the mute one first */
    *ret_count = 4;
    return DCGM_OK;
}

int dcgmGetGpuInstanceHierarchy(DcgmHandle engine, DcgmHierarchy *hierarchy)
{
    DcgmInstance *at = hierarchy->instances;

    ENTER_ENGINE();
    if (hierarchy->version != (0x02000000 | 73480))
        return DCGM_VERSION_MISMATCH;
    hierarchy->count = 4;
    at[0] = (DcgmInstance){.entity = {4, 103}, .parent = {1, 11}, .gpu_instance = 3, .compute_instance = UINT32_MAX};
    at[1] = (DcgmInstance){.entity = {5, 203}, .parent = {4, 103}, .gpu_instance = 3, .compute_instance = 0};
    /* the same numbers on another GPU */
    at[2] = (DcgmInstance){.entity = {4, 104}, .parent = {1, 12}, .gpu_instance = 3, .compute_instance = UINT32_MAX};
    at[3] = (DcgmInstance){.entity = {5, 204}, .parent = {4, 104}, .gpu_instance = 3, .compute_instance = 1};
    return DCGM_OK;
}

/* ---- groups ---- */

/* No two may have one name. */
static void check_name(const char *name)
{
    static char last[256];

    fake_check(strlen(name) < sizeof last && name[0] && strcmp(last, name) != 0, "a name that is taken");
    memcpy(last, name, strlen(name) + 1);
}

int dcgmGroupCreate(DcgmHandle engine, int type, const char *name, DcgmHandle *ret_group)
{
    ENTER_ENGINE();
    fake_check(type == DCGM_GROUP_EMPTY, "kind of group");
    check_name(name);
    for (DcgmHandle i = 0; i < 64; i++) {
        if (fake_groups[i].used)
            continue;
        fake_groups[i] = (FakeGroup){.used = true};
        *ret_group = i;
        return DCGM_OK;
    }
    return DCGM_MAX_LIMIT;
}

int dcgmGroupAddEntity(DcgmHandle engine, DcgmHandle group, uint32_t entity_group, uint32_t entity)
{
    ENTER_ENGINE();
    fake_check(group < FAKE_GROUPS && fake_groups[group].used, "no such group");
    fake_groups[group].entity = (DcgmEntity){.group = entity_group, .id = entity};
    return DCGM_OK;
}

int dcgmGroupDestroy(DcgmHandle engine, DcgmHandle group)
{
    ENTER_ENGINE();
    fake_check(group < FAKE_GROUPS && fake_groups[group].used, "no such group");
    fake_groups[group].used = false;
    return DCGM_OK;
}

int dcgmFieldGroupCreate(DcgmHandle engine, int count, unsigned short *fields, const char *name, DcgmHandle *ret_fields)
{
    ENTER_ENGINE();
    fake_check(count > 0 && count <= 128, "count of fields");
    check_name(name);
    for (DcgmHandle i = 0; i < 64; i++) {
        if (fake_fields[i].used)
            continue;
        fake_fields[i] = (FakeFields){.used = true, .count = count};
        memcpy(fake_fields[i].ids, fields, (size_t)count * sizeof *fields);
        *ret_fields = i;
        return DCGM_OK;
    }
    return DCGM_MAX_LIMIT;
}

int dcgmFieldGroupDestroy(DcgmHandle engine, DcgmHandle fields)
{
    ENTER_ENGINE();
    fake_check(fields < FAKE_GROUPS && fake_fields[fields].used, "no such group of fields");
    fake_fields[fields].used = false;
    return DCGM_OK;
}

/* ---- watches ---- */

static int ordered(const FakeGroup *group, const FakeFields *fields)
{
    char key[16];
    int code = DCGM_OK;

    (void)snprintf(key, sizeof key, "%u", group->entity.id);
    if (fake_order("FAKE_DCGM_WATCH", key, &code))
        return code;
    for (int i = 0; i < fields->count; i++) {
        (void)snprintf(key, sizeof key, "%u", fields->ids[i]);
        if (fake_order("FAKE_DCGM_BAD_FIELD", key, &code))
            return code;
    }
    return DCGM_OK;
}

int dcgmWatchFields(DcgmHandle engine, DcgmHandle group, DcgmHandle fields, long long period_us, double keep_s,
                    int keep_samples)
{
    int code;

    ENTER_ENGINE();
    fake_check(fake_groups[group].used && fake_fields[fields].used, "watch of nothing");
    fake_check(period_us == 1000000 && keep_s >= 3.0 && keep_samples > 0, "way of watching");
    code = ordered(&fake_groups[group], &fake_fields[fields]);
    if (code != DCGM_OK)
        return code;
    for (int i = 0; i < FAKE_GROUPS; i++) {
        if (fake_watches[i].used)
            continue;
        fake_watches[i] = (FakeWatch){.used = true, .group = group, .fields = fields};
        return DCGM_OK;
    }
    return DCGM_MAX_LIMIT;
}

int dcgmUnwatchFields(DcgmHandle engine, DcgmHandle group, DcgmHandle fields)
{
    ENTER_ENGINE();
    for (int i = 0; i < FAKE_GROUPS; i++) {
        FakeWatch *watch = &fake_watches[i];

        if (!watch->used || watch->group != group || watch->fields != fields)
            continue;
        fake_check(fake_groups[group].used && fake_fields[fields].used, "groups must outlive the watch");
        watch->used = false;
        return DCGM_OK;
    }
    fake_check(false, "unwatch of what is not watched");
    return DCGM_BAD_ARGUMENT;
}

bool fake_is_watched(DcgmEntity entity, unsigned short field)
{
    for (int i = 0; i < FAKE_GROUPS; i++) {
        const FakeWatch *watch = &fake_watches[i];

        if (!watch->used || fake_groups[watch->group].entity.group != entity.group ||
            fake_groups[watch->group].entity.id != entity.id)
            continue;
        for (int f = 0; f < fake_fields[watch->fields].count; f++)
            if (fake_fields[watch->fields].ids[f] == field)
                return true;
    }
    return false;
}
