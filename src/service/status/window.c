/* SPDX-License-Identifier: Apache-2.0 */
/* A maintenance window as JSON. */
#include "base/json.h"
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
