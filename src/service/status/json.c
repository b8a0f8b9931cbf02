/* SPDX-License-Identifier: Apache-2.0 */
/* What `stoker status --json` prints. */
#include <inttypes.h>

#include "base/clock.h"
#include "service/incident/incident.h"
#include "service/status/inside.h"

static void findings_json(const Snapshot *seen, Str *out)
{
    StatusFinding findings[STATUS_FINDINGS_MAX];
    size_t count = status_findings(seen, findings, STATUS_FINDINGS_MAX);

    for (size_t i = 0; i < count; i++) {
        str_add(out, i ? ",{" : "{");
        if (findings[i].gpu && findings[i].gpu->reading.device.index != DEVICE_NO_NUMBER)
            str_addf(out, "\"gpu\":%" PRIu32 ",", findings[i].gpu->reading.device.index);
        str_addf(out, "\"severity\":\"%s\",\"text\":", fault_severities[findings[i].severity].key);
        str_add_json(out, findings[i].text);
        str_addc(out, '}');
    }
}

static void causes_json(const Health *health, Str *out)
{
    for (size_t i = 0; i < health->count; i++) {
        str_addf(out, "%s{\"cause\":\"%s\",\"text\":", i ? "," : "", health_cause_key(health->causes[i].id));
        str_add_json(out, health->causes[i].text);
        str_addc(out, '}');
    }
}

void status_json(const Snapshot *seen, Str *out)
{
    static const char *const words[] = {"ok", "failing", "", "unknown"};
    const Maintenance *maintenance = seen->maintenance;

    str_addf(out, "{\"status\":\"%s\",\"incidents\":[", words[status_code(seen)]);
    for (size_t i = 0; i < seen->incident_count; i++) {
        if (i)
            str_addc(out, ',');
        incident_json(seen->incidents[i], out);
    }
    str_add(out, "],\"findings\":[");
    findings_json(seen, out);
    str_add(out, "],\"causes\":[");
    causes_json(seen->health, out);
    str_add(out, "],\"maintenance\":[");
    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++) {
        if (i)
            str_addc(out, ',');
        maintenance_window_json(maintenance_at(maintenance, i), out);
    }
    str_add(out, "],");
    if (seen->boot_id && seen->boot_id[0]) {
        str_add(out, "\"boot_id\":");
        str_add_json(out, seen->boot_id);
        str_addc(out, ',');
    }
    if (seen->boot_real_ns) {
        char boot[CLOCK_TEXT_MAX];

        clock_format(boot, seen->boot_real_ns);
        str_addf(out, "\"boot\":\"%s\",", boot);
    }
    str_add(out, "\"node\":");
    api_gpus(seen->node, &(ApiBeside){.owners = seen->owners, .processes = seen->processes, .places = seen->places},
             out);
    while (out->len > 0 && out->text[out->len - 1] == '\n')
        str_cut(out, out->len - 1);
    str_add(out, "}\n");
}
