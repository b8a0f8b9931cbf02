/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker status` as JSON. */
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "service/incident/incident.h"
#include "service/status/status.h"

/* Their indexes, and the UUIDs by which they are known should an index change. */
static void add_gpus(const MaintenanceWindow *window, Str *out)
{
    if (window->gpus == 0 && window->uuids[0][0] == '\0') {
        json_add_text(out, "gpus", "all");
        return;
    }
    json_open(out, "gpus", '[');
    for (int i = 0; i < 64; i++)
        if (window->gpus >> i & 1)
            json_add_i64(out, NULL, i);
    json_close(out, ']');
    json_open(out, "uuids", '[');
    for (size_t i = 0; i < MAINTENANCE_UUIDS && window->uuids[i][0] != '\0'; i++)
        json_add_text(out, NULL, window->uuids[i]);
    json_close(out, ']');
}

void maintenance_window_json(const MaintenanceWindow *window, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "id", window->id);
    json_add_text(out, "reason", window->reason);
    json_add_text(out, "who", window->who);
    json_add_time(out, "from", window->from_real_ns);
    json_add_time(out, "until", window->until_real_ns);
    json_add_bool(out, "active", window->active);
    json_add_bool(out, "recurring", window->recurring);
    add_gpus(window, out);
    json_close(out, '}');
}

static void causes_json(const Snapshot *seen, Str *out)
{
    CLEANUP_FREE NodeCause *causes = xcalloc(API_CAUSES_MAX, sizeof *causes);
    const size_t count = api_causes(seen, false, causes, API_CAUSES_MAX);

    for (size_t i = 0; i < count; i++) {
        json_open(out, NULL, '{');
        if (causes[i].gpu && causes[i].gpu->reading.device.index != DEVICE_NO_NUMBER)
            json_add_u64(out, "gpu", causes[i].gpu->reading.device.index);
        json_add_text(out, "cause", causes[i].key);
        json_add_text(out, "text", causes[i].text);
        json_close(out, '}');
    }
}

void status_json(const Snapshot *seen, Str *out)
{
    static const char *const words[] = {"ok", "failing", "", "unknown"};
    const Maintenance *maintenance = seen->maintenance;

    json_open(out, NULL, '{');
    json_add_text(out, "status", words[status_code(seen)]);
    json_open(out, "incidents", '[');
    for (size_t i = 0; i < seen->incident_count; i++)
        incident_json(seen->incidents[i], out);
    json_close(out, ']');
    json_open(out, "causes", '[');
    causes_json(seen, out);
    json_close(out, ']');
    json_open(out, "maintenance", '[');
    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++)
        maintenance_window_json(maintenance_at(maintenance, i), out);
    json_close(out, ']');
    json_add_bool(out, "pods_told", seen->pods_told);
    if (seen->boot_id && seen->boot_id[0])
        json_add_text(out, "boot_id", seen->boot_id);
    if (seen->boot_real_ns)
        json_add_time(out, "boot", seen->boot_real_ns);
    json_add_key(out, "node");
    api_gpus(seen, out);
    while (out->len > 0 && out->text[out->len - 1] == '\n')
        str_cut(out, out->len - 1);
    str_add(out, "}\n");
}

void status_devices_json(const Snapshot *seen, bool time, Str *out)
{
    json_open(out, NULL, '{');
    json_open(out, "incidents", '[');
    for (size_t i = 0; i < seen->incident_count; i++)
        incident_json(seen->incidents[i], out);
    json_close(out, ']');
    api_devices(seen, time, out);
    json_close(out, '}');
}
