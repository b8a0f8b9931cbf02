/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"

void look_init(Look *look)
{
    memset(look, 0, sizeof *look);
    node_read_init(&look->read);
    arena_init(&look->json, 64 << 10);
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
    arena_done(&look->json);
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

static int read_incidents(Look *look, const JsonItem *root, Err *err)
{
    const JsonItem *list = json_member(root, "incidents");
    CLEANUP(str_done) Str alone = {0};

    if (json_is(list, JSON_IS_LIST) && list->count > 0) {
        str_init(&alone, list->raw_len + 32);
        str_add(&alone, "{\"incidents\":");
        str_addn(&alone, list->raw, list->raw_len);
        str_addc(&alone, '}');
        TRY(incidents_read(alone.text, alone.len, &look->incidents, NULL, err));
    }
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
static void read_causes(Look *look, const JsonItem *root)
{
    const JsonItem *from = json_first(json_member(root, "causes"));
    Health *health = &look->health;

    for (; from && health->count < HEALTH_CAUSES_MAX; from = from->next) {
        HealthCause *cause = &health->causes[health->count];
        const char *text = json_text(json_member(from, "text"));

        if (!text || !find_cause(json_text(json_member(from, "cause")), &cause->id))
            continue;
        snprintf(cause->text, sizeof cause->text, "%s", text);
        health->count++;
    }
}

static uint64_t time_of(const JsonItem *from, const char *name)
{
    const char *text = json_text(json_member(from, name));
    uint64_t at;

    return text && clock_parse(text, &at, NULL) == 0 ? at : 0;
}

static void copy(const JsonItem *from, const char *name, char *out, size_t cap)
{
    const char *text = json_text(json_member(from, name));

    snprintf(out, cap, "%s", text ? text : "");
}

/* "all", or a list of indexes. */
static uint64_t gpus_of(const JsonItem *from)
{
    uint64_t bits = 0;

    for (const JsonItem *one = json_first(json_member(from, "gpus")); one; one = one->next)
        if (one->kind == JSON_IS_WHOLE && one->whole >= 0 && one->whole < 64)
            bits |= UINT64_C(1) << one->whole;
    return bits;
}

static bool is_true(const JsonItem *from, const char *name)
{
    const JsonItem *value = json_member(from, name);

    return json_is(value, JSON_IS_BOOL) && value->truth;
}

static void read_uuids(const JsonItem *from, MaintenanceWindow *window)
{
    const JsonItem *one = json_first(json_member(from, "uuids"));

    for (size_t i = 0; one && i < MAINTENANCE_UUIDS; one = one->next, i++)
        if (json_text(one))
            snprintf(window->uuids[i], sizeof window->uuids[i], "%s", json_text(one));
}

/* A window that is over by now is not taken. */
static void read_maintenance(Look *look, const JsonItem *root)
{
    look->maintenance = maintenance_new();
    for (const JsonItem *from = json_first(json_member(root, "maintenance")); from; from = from->next) {
        MaintenanceWindow window = {.gpus = gpus_of(from),
                                    .from_real_ns = time_of(from, "from"),
                                    .until_real_ns = time_of(from, "until"),
                                    .recurring = is_true(from, "recurring"),
                                    .active = is_true(from, "active")};

        copy(from, "id", window.id, sizeof window.id);
        copy(from, "reason", window.reason, sizeof window.reason);
        copy(from, "who", window.who, sizeof window.who);
        read_uuids(from, &window);
        if (window.until_real_ns > look->read.node.real_ns)
            (void)maintenance_told(look->maintenance, &window, NULL);
    }
}

static int read_all(Look *look, const JsonItem *root, Err *err)
{
    const JsonItem *node = json_is(json_member(root, "gpus"), JSON_IS_LIST) ? root : json_member(root, "node");

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
    const JsonItem *root = NULL;

    forget(look);
    arena_reset(&look->json);
    int rc = json_tree_read(text, len, &look->json, &root, err);
    if (rc == 0)
        rc = read_all(look, root, err);
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
