/* SPDX-License-Identifier: Apache-2.0 */
/* What `stoker status --json` prints. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "service/incident/incident.h"
#include "service/status/inside.h"

static void causes_json(const Snapshot *seen, Str *out)
{
    CLEANUP_FREE NodeCause *causes = xcalloc(API_CAUSES_MAX, sizeof *causes);
    const size_t count = api_causes(seen, false, causes, API_CAUSES_MAX);

    for (size_t i = 0; i < count; i++) {
        str_add(out, i ? ",{" : "{");
        if (causes[i].gpu && causes[i].gpu->reading.device.index != DEVICE_NO_NUMBER)
            str_addf(out, "\"gpu\":%" PRIu32 ",", causes[i].gpu->reading.device.index);
        str_add(out, "\"cause\":");
        str_add_json(out, causes[i].key);
        str_add(out, ",\"text\":");
        str_add_json(out, causes[i].text);
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
    str_add(out, "],\"causes\":[");
    causes_json(seen, out);
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
