/* SPDX-License-Identifier: Apache-2.0 */
/* What `stoker status --json` prints. */
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "service/incident/incident.h"
#include "service/status/inside.h"

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
    if (seen->boot_id && seen->boot_id[0])
        json_add_text(out, "boot_id", seen->boot_id);
    if (seen->boot_real_ns)
        json_add_time(out, "boot", seen->boot_real_ns);
    json_add_key(out, "node");
    api_gpus(seen->node, &(ApiBeside){.owners = seen->owners, .processes = seen->processes, .places = seen->places},
             out);
    while (out->len > 0 && out->text[out->len - 1] == '\n')
        str_cut(out, out->len - 1);
    str_add(out, "}\n");
}
