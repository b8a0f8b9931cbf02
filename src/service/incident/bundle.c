/* SPDX-License-Identifier: Apache-2.0 */
/* The black box of an incident. */
#include <math.h>
#include <string.h>

#include "base/duration.h"
#include "base/json.h"
#include "service/incident/incident.h"

typedef struct Series {
    const Store *store;
    const char *device; /* of which; its instances too */
    uint64_t now_ns, real_ns;
    Str *out;
} Series;

static void add_seconds(Series *s, StoreSeries series)
{
    StoreSecond seconds[BUNDLE_SECONDS];
    const uint64_t span = (BUNDLE_SECONDS - 1) * NS_PER_S;
    const size_t count =
        store_seconds(s->store, series, s->now_ns > span ? s->now_ns - span : 0, s->now_ns, seconds, BUNDLE_SECONDS);

    if (count)
        json_add_time(s->out, "from", s->real_ns - (s->now_ns - seconds[0].time_ns));
    json_open(s->out, "seconds", '[');
    for (size_t i = 0; i < count; i++)
        json_add_double(s->out, NULL, seconds[i].valid ? seconds[i].value : (double)NAN);
    json_close(s->out, ']');
}

static void add_series(void *self, StoreSeries series, const char *device_key, MetricId metric)
{
    Series *s = self;
    const size_t len = strlen(s->device);

    if (strncmp(device_key, s->device, len) != 0 || (device_key[len] && device_key[len] != '/'))
        return;
    json_open(s->out, NULL, '{');
    json_add_text(s->out, "device", device_key);
    json_add_text(s->out, "metric", metric_get(metric)->name);
    json_add_text(s->out, "unit", unit_symbol(metric_get(metric)->unit));
    add_seconds(s, series);
    json_close(s->out, '}');
}

static void add_gpus(const Node *node, Str *out)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        char pci[PCI_TEXT_CAP];

        json_open(out, NULL, '{');
        json_add_u64(out, "index", gpu->reading.device.index);
        json_add_text(out, "pci", pci_format(gpu->reading.device.pci, PCI_FORM_SYSFS, pci));
        json_add_text(out, "state", gpu_states[gpu->state].key);
        json_add_text(out, "uuid", gpu->reading.device.uuid);
        json_add_text(out, "why", gpu->why);
        json_close(out, '}');
    }
}

void incident_bundle(const Incident *incident, const Node *node, const Store *store, const char *events, Str *out)
{
    const NodeGpu *gpu = incident->device.has_pci ? node_find_gpu(node, incident->device.pci) : NULL;
    char device[DEVICE_KEY_CAP] = "";
    Series series = {.store = store, .device = device, .now_ns = node->time_ns, .real_ns = node->real_ns, .out = out};

    json_open(out, NULL, '{');
    json_add_u64(out, "version", 1);
    json_add_time(out, "taken", node->real_ns);
    json_add_text(out, "node", node->hostname);
    json_add_text(out, "driver", node->driver_version);
    json_add_key(out, "incident");
    incident_json(incident, out);
    json_open(out, "gpus", '[');
    add_gpus(node, out);
    json_close(out, ']');
    json_open(out, "events", '[');
    str_add(out, events);
    json_close(out, ']');
    json_open(out, "series", '[');
    if (gpu && device_key(&gpu->reading.device, device) >= 0)
        store_each(store, add_series, &series);
    str_add(out, "]}\n");
}
