/* SPDX-License-Identifier: Apache-2.0 */
/* A maintenance window as JSON. */
#include "base/clock.h"
#include "service/status/status.h"

static void add_time(Str *out, const char *key, uint64_t real_ns)
{
    char text[CLOCK_TEXT_MAX];

    clock_format(text, real_ns);
    str_addf(out, ",\"%s\":\"%s\"", key, text);
}

/* Their indexes, and the UUIDs by which they are known should an index change. */
static void add_gpus(const MaintenanceWindow *window, Str *out)
{
    const char *between = "";

    if (window->gpus == 0 && window->uuids[0][0] == '\0') {
        str_add(out, ",\"gpus\":\"all\"");
        return;
    }
    str_add(out, ",\"gpus\":[");
    for (int i = 0; i < 64; i++) {
        if (!(window->gpus >> i & 1))
            continue;
        str_addf(out, "%s%d", between, i);
        between = ",";
    }
    str_add(out, "],\"uuids\":[");
    for (size_t i = 0; i < MAINTENANCE_UUIDS && window->uuids[i][0] != '\0'; i++) {
        if (i > 0)
            str_addc(out, ',');
        str_add_json(out, window->uuids[i]);
    }
    str_addc(out, ']');
}

void maintenance_window_json(const MaintenanceWindow *window, Str *out)
{
    str_add(out, "{\"id\":");
    str_add_json(out, window->id);
    str_add(out, ",\"reason\":");
    str_add_json(out, window->reason);
    str_add(out, ",\"who\":");
    str_add_json(out, window->who);
    add_time(out, "from", window->from_real_ns);
    add_time(out, "until", window->until_real_ns);
    str_addf(out, ",\"active\":%s,\"recurring\":%s", window->active ? "true" : "false",
             window->recurring ? "true" : "false");
    add_gpus(window, out);
    str_addc(out, '}');
}
