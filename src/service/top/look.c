/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"

OWNER_POINTER(json_t, json_decref);

void look_init(Look *look)
{
    memset(look, 0, sizeof *look);
    node_read_init(&look->read);
}

static void forget(Look *look)
{
    look->health.count = 0;
    vec_clear(&look->incidents);
    vec_clear(&look->open);
    maintenance_free(TAKE(look->maintenance));
    look->there = false;
}

void look_done(Look *look)
{
    forget(look);
    node_read_done(&look->read);
    vec_done(&look->incidents);
    vec_done(&look->open);
}

void look_settle(Look *look)
{
    vec_clear(&look->open);
    for (size_t i = 0; i < look->incidents.len; i++)
        if (look->incidents.at[i].state == INCIDENT_OPEN)
            vec_push(&look->open, &look->incidents.at[i]);
}

static int read_incidents(Look *look, const json_t *root, Err *err)
{
    if (json_is_array(json_object_get(root, "incidents")))
        TRY(incidents_read_json(root, &look->incidents, NULL, err));
    look_settle(look);
    return 0;
}

static bool find_cause(const char *key, HealthCauseId *ret)
{
    for (HealthCauseId id = 0; key && id < HEALTH_CAUSE_END; id++)
        if (strcmp(health_cause_key(id), key) == 0) {
            *ret = id;
            return true;
        }
    return false;
}

/* A cause of another version's is left out: it is among the findings' words anyway. */
static void read_causes(Look *look, const json_t *root)
{
    const json_t *causes = json_object_get(root, "causes");
    Health *health = &look->health;

    for (size_t i = 0; i < json_array_size(causes) && health->count < HEALTH_CAUSES_MAX; i++) {
        const json_t *from = json_array_get(causes, i);
        HealthCause *cause = &health->causes[health->count];
        const char *text = json_string_value(json_object_get(from, "text"));

        if (!text || !find_cause(json_string_value(json_object_get(from, "cause")), &cause->id))
            continue;
        snprintf(cause->text, sizeof cause->text, "%s", text);
        health->count++;
    }
}

static uint64_t time_of(const json_t *from, const char *name)
{
    const char *text = json_string_value(json_object_get(from, name));
    uint64_t at;

    return text && clock_parse(text, &at, NULL) == 0 ? at : 0;
}

static void copy(const json_t *from, const char *name, char *out, size_t cap)
{
    const char *text = json_string_value(json_object_get(from, name));

    snprintf(out, cap, "%s", text ? text : "");
}

/* "all", or a list of indexes. */
static uint64_t gpus_of(const json_t *from)
{
    const json_t *list = json_object_get(from, "gpus");
    uint64_t bits = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);

        if (json_is_integer(one) && json_integer_value(one) >= 0 && json_integer_value(one) < 64)
            bits |= UINT64_C(1) << json_integer_value(one);
    }
    return bits;
}

static void read_uuids(const json_t *from, MaintenanceWindow *window)
{
    const json_t *list = json_object_get(from, "uuids");

    for (size_t i = 0; i < json_array_size(list) && i < MAINTENANCE_UUIDS; i++) {
        const char *uuid = json_string_value(json_array_get(list, i));

        if (uuid)
            snprintf(window->uuids[i], sizeof window->uuids[i], "%s", uuid);
    }
}

/* A window that is over by now is not taken. */
static void read_maintenance(Look *look, const json_t *root)
{
    const json_t *list = json_object_get(root, "maintenance");

    look->maintenance = maintenance_new();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *from = json_array_get(list, i);
        MaintenanceWindow window = {.gpus = gpus_of(from),
                                    .from_real_ns = time_of(from, "from"),
                                    .until_real_ns = time_of(from, "until"),
                                    .recurring = json_is_true(json_object_get(from, "recurring")),
                                    .active = json_is_true(json_object_get(from, "active"))};

        copy(from, "id", window.id, sizeof window.id);
        copy(from, "reason", window.reason, sizeof window.reason);
        copy(from, "who", window.who, sizeof window.who);
        read_uuids(from, &window);
        if (window.until_real_ns > look->read.node.real_ns)
            (void)maintenance_add(look->maintenance, &window, NULL);
    }
}

static int read_all(Look *look, const json_t *root, Err *err)
{
    const json_t *node = json_is_array(json_object_get(root, "gpus")) ? root : json_object_get(root, "node");

    TRY(node_read(&look->read, node, err));
    TRY(read_incidents(look, root, err));
    read_causes(look, root);
    read_maintenance(look, root);
    look->boot_real_ns = time_of(root, "boot");
    copy(root, "boot_id", look->boot_id, sizeof look->boot_id);
    return 0;
}

int look_read(Look *look, const char *text, size_t len, Err *err)
{
    json_error_t error;
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, 0, &error);
    int rc;

    forget(look);
    if (root)
        rc = read_all(look, root, err);
    else
        rc = err_set(err, -EINVAL, "byte %d of the JSON: %s", error.position, error.text);
    if (rc < 0)
        forget(look);
    look->there = rc == 0;
    return rc;
}

void look_seen(const Look *look, TopSeen *ret)
{
    if (!look->there) {
        ret->status = (Snapshot){0};
        ret->processes = (ProcessList){0};
        ret->boot_ns = ret->real_ns = 0;
        return;
    }
    ret->processes = (ProcessList){look->read.processes.at, look->read.processes.len};
    ret->status = (Snapshot){.node = &look->read.node,
                             .health = &look->health,
                             .owners = &look->read.owners,
                             .processes = ret->processes,
                             .places = (PlaceList){look->read.places.at, look->read.places.len},
                             .boot_id = look->boot_id,
                             .boot_real_ns = look->boot_real_ns,
                             .incidents = look->open.at,
                             .incident_count = look->open.len,
                             .maintenance = look->maintenance};
    ret->boot_ns = look->boot_real_ns;
    ret->real_ns = look->read.node.real_ns;
}
