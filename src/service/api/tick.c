/* SPDX-License-Identifier: Apache-2.0 */
/* One tick as the event stream carries it, and the page at "/". */
#include <inttypes.h>

#include "base/clock.h"
#include "service/api/api.h"
#include "service/api/write.h"

static void write_values(Str *out, const Reading *reading)
{
    bool first = true;

    str_add(out, ",\"metrics\":{");
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Sample *sample = &reading->sample[id];

        if (metric_get(id)->type == METRIC_LABEL || !metric_get(id)->history ||
            (!sample->valid && sample->absence == ABSENCE_NOT_YET))
            continue;
        str_addf(out, "%s\"%s\":", first ? "" : ",", metric_get(id)->name);
        write_sample(out, sample);
        first = false;
    }
    str_addc(out, '}');
}

/* "fast":{"NAME":[...],...,"age_seconds":[...]}: what happened within the tick. */
static void write_fast(Str *out, const Node *node, const NodeGpu *gpu)
{
    if (gpu->fast_count == 0)
        return;
    str_add(out, ",\"fast\":{\"age_seconds\":[");
    for (size_t i = 0; i < gpu->fast_count; i++) {
        if (i)
            str_addc(out, ',');
        write_seconds(out, node->time_ns > gpu->fast[i].time_ns ? node->time_ns - gpu->fast[i].time_ns : 0);
    }
    str_addc(out, ']');
    for (int k = 0; metric_fast_at(k) != METRIC_END; k++) {
        str_addf(out, ",\"%s\":[", metric_get(metric_fast_at(k))->name);
        for (size_t i = 0; i < gpu->fast_count; i++) {
            if (i)
                str_addc(out, ',');
            if (gpu->fast[i].valid >> k & 1)
                write_number(out, gpu->fast[i].value[k]);
            else
                str_add(out, "null");
        }
        str_addc(out, ']');
    }
    str_addc(out, '}');
}

void api_tick(const Node *node, Str *out)
{
    char now[CLOCK_TEXT_MAX];

    clock_format(now, node->real_ns);
    str_addf(out, "{\"time\":\"%s\",\"tick\":%" PRIu64 ",\"gpus\":[", now, node->tick);
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        str_add(out, i ? ",{" : "{");
        write_identity(out, &gpu->reading.device);
        str_addf(out, ",\"state\":\"%s\"", gpu_state_key(gpu->state));
        write_text(out, "why", gpu->why);
        write_activity(out, node, &gpu->activity);
        write_values(out, &gpu->reading);
        write_fast(out, node, gpu);
        str_add(out, ",\"instances\":[");
        for (size_t k = 0; k < gpu->instance_count; k++) {
            str_add(out, k ? ",{" : "{");
            write_identity(out, &gpu->instances[k].device);
            if (gpu->instance_activity)
                write_activity(out, node, &gpu->instance_activity[k]);
            write_values(out, &gpu->instances[k]);
            str_addc(out, '}');
        }
        str_add(out, "]}");
    }
    str_add(out, "]}");
}

/* Text that stands between tags. */
static void add_html(Str *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            str_add(out, "&lt;");
            break;
        case '>':
            str_add(out, "&gt;");
            break;
        case '&':
            str_add(out, "&amp;");
            break;
        default:
            str_addc(out, *text);
        }
}

static const struct {
    const char *path, *text;
} pages[] = {
    {"metrics", "for Prometheus"},
    {"healthz", "is the monitoring well, and if not, why"},
    {"readyz", "are numbers being served"},
    {"health", "answers OK as long as the program runs"},
    {"api/v1/gpus", "everything that is known now, as JSON"},
    {"api/v1/status", "the same with what is wrong and what to do"},
    {"api/v1/gpus/0/history?metric=DCGM_FI_DEV_POWER_USAGE&amp;from=-10m", "ten minutes of seconds, a day of minutes"},
    {"api/v1/incidents", "what is wrong, and what was"},
    {"runbooks/", "what to do about each class of fault"},
    {"api/v1/stream", "every tick as a server-sent event"},
};

void api_index(const Node *node, const char *version, const char *base, Str *out)
{
    str_add(out, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
    if (base[0])
        str_addf(out, "<base href=\"%s\">", base);
    str_add(out, "<title>Stoker on ");
    add_html(out, node->hostname);
    str_add(out, "</title><h1>Stoker on ");
    add_html(out, node->hostname);
    str_addf(out, "</h1><p>Version %s. %zu GPUs.</p><table>", version, node->gpu_count);
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        str_add(out, "<tr><td>");
        if (gpu->reading.device.index != DEVICE_NO_NUMBER)
            str_addf(out, "%" PRIu32, gpu->reading.device.index);
        str_add(out, "<td>");
        add_html(out, gpu->reading.device.name);
        str_addf(out, "<td>%s<td>", gpu_state_key(gpu->state));
        add_html(out, gpu->why);
    }
    str_add(out, "</table><ul>");
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        str_addf(out, "<li><a href=\"%s\">%s</a> %s", pages[i].path, pages[i].path, pages[i].text);
    str_add(out, "</ul></html>\n");
}
