/* SPDX-License-Identifier: Apache-2.0 */
/* A tell in the outbox: what was told, what is to be told, and the incident as it was then. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "service/alert/inside.h"
#include "service/incident/incident.h"

enum { KEPT_VERSION = 1, KEPT_BYTES_MAX = 1 << 20 };

static const char *const told_keys[] = {"nothing", "open", "cleared"};

void kept_write(const Tell *tell, Str *out)
{
    const Alerts *alerts = tell->receiver->alerts;
    uint64_t age = alert_now(alerts) - tell->since_ns;

    str_addf(out, "{\"v\":%d,\"told\":\"%s\",\"unsure\":%s,\"told_revision\":%llu,\"told_escalations\":%u,",
             KEPT_VERSION, told_keys[tell->told.state], tell->told.unsure ? "true" : "false",
             (unsigned long long)tell->told.revision, tell->told.escalations);
    str_addf(out, "\"told_at\":%llu,\"since\":%llu,\"labels\":%s,\"incident\":", (unsigned long long)tell->told.real_ns,
             (unsigned long long)(alert_real(alerts) - (tell->since_ns ? age : 0)), tell->labels);
    incident_json(&tell->item->incident, out);
    str_addc(out, '}');
}

static const char *text_at(json_t *from, const char *key)
{
    const char *text = json_string_value(json_object_get(from, key));

    return text ? text : "";
}

static uint64_t number_at(json_t *from, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(from, key));

    return value > 0 ? (uint64_t)value : 0;
}

static void list_done(IncidentList *list)
{
    vec_done(list);
}

static int read_incident(json_t *from, Incident *ret)
{
    CLEANUP(list_done) IncidentList list = {0};
    CLEANUP_FREE char *text = from ? json_dumps(from, JSON_COMPACT) : NULL;

    if (!text || incidents_read(text, strlen(text), &list, NULL, NULL) < 0 || list.len != 1)
        return -EINVAL;
    *ret = list.at[0];
    return 0;
}

static void drop_json(json_t **json)
{
    json_decref(*json);
}

int kept_read(const char *text, size_t len, uint64_t now_ns, uint64_t real_ns, Incident *ret, Told *ret_told,
              uint64_t *ret_since_ns, char **ret_labels)
{
    CLEANUP(drop_json) json_t *kept = len <= KEPT_BYTES_MAX ? json_loadb(text, len, 0, NULL) : NULL;
    uint64_t since_real_ns, age;
    int state = 0;

    if (!json_is_object(kept) || number_at(kept, "v") != KEPT_VERSION)
        return -EINVAL;
    while (state < TOLD_END && strcmp(told_keys[state], text_at(kept, "told")) != 0)
        state++;
    if (state == TOLD_END || !json_is_object(json_object_get(kept, "labels")) ||
        read_incident(json_object_get(kept, "incident"), ret) < 0)
        return -EINVAL;
    *ret_told = (Told){.state = (ToldState)state,
                       .unsure = json_is_true(json_object_get(kept, "unsure")),
                       .revision = number_at(kept, "told_revision"),
                       .escalations = (uint32_t)number_at(kept, "told_escalations"),
                       .real_ns = number_at(kept, "told_at")};
    since_real_ns = number_at(kept, "since");
    age = since_real_ns < real_ns ? real_ns - since_real_ns : 0;
    *ret_since_ns = age < now_ns ? now_ns - age : 1;
    *ret_labels = json_dumps(json_object_get(kept, "labels"), JSON_COMPACT | JSON_SORT_KEYS);
    if (!*ret_labels)
        return -EINVAL;
    return 0;
}
