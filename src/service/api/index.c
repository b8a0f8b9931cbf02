/* SPDX-License-Identifier: Apache-2.0 */
/* The list of where everything is, for who has no browser. */
#include <inttypes.h>

#include "service/api/api.h"

static const struct {
    const char *path, *text;
} pages[] = {
    {"metrics", "for Prometheus"},
    {"healthz", "is the monitoring well, and if not, why"},
    {"readyz", "are numbers being served"},
    {"health", "answers OK as long as the program runs"},
    {"api/v1/gpus", "everything that is known now, as JSON"},
    {"api/v1/status", "the same with what is wrong and what to do"},
    {"api/v1/who", "who holds each GPU"},
    {"api/v1/jobs", "what each job, pod and container did with the GPUs"},
    {"api/v1/bench", "the last test of the GPUs"},
    {"api/v1/ledger", "whose GPU time it was, row by row"},
    {"api/v1/why", "what takes the time of each GPU, and what to change"},
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
    str_add_html(out, node->hostname);
    str_add(out, "</title><h1>Stoker on ");
    str_add_html(out, node->hostname);
    str_addf(out, "</h1><p>Version %s. %zu GPUs.</p><table>", version, node->gpu_count);
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        str_add(out, "<tr><td>");
        if (gpu->reading.device.index != DEVICE_NO_NUMBER)
            str_addf(out, "%" PRIu32, gpu->reading.device.index);
        str_add(out, "<td>");
        str_add_html(out, gpu->reading.device.name);
        str_addf(out, "<td>%s<td>", gpu_states[gpu->state].key);
        str_add_html(out, gpu->why);
    }
    str_add(out, "</table><ul>");
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        str_addf(out, "<li><a href=\"%s\">%s</a> %s", pages[i].path, pages[i].path, pages[i].text);
    str_add(out, "</ul></html>\n");
}
