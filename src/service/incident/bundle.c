/* SPDX-License-Identifier: Apache-2.0 */
/* The black box of an incident. */
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/number.h"
#include "service/incident/incident.h"

typedef struct Series {
    const Store *store;
    const char *device; /* of which; its instances too */
    uint64_t now_ns, real_ns;
    Str *out;
    bool comma;
} Series;

static void add_seconds(Series *s, StoreSeries series)
{
    StoreSecond seconds[BUNDLE_SECONDS];
    const uint64_t span = (BUNDLE_SECONDS - 1) * NS_PER_S;
    const size_t count =
        store_seconds(s->store, series, s->now_ns > span ? s->now_ns - span : 0, s->now_ns, seconds, BUNDLE_SECONDS);
    char text[CLOCK_TEXT_MAX], digits[NUMBER_DOUBLE_MAX];

    if (count) {
        clock_format(text, s->real_ns - (s->now_ns - seconds[0].time_ns));
        str_addf(s->out, ",\"from\":\"%s\"", text);
    }
    str_add(s->out, ",\"seconds\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            str_addc(s->out, ',');
        if (seconds[i].valid)
            str_addn(s->out, digits, number_write_double(digits, seconds[i].value));
        else
            str_add(s->out, "null");
    }
    str_addc(s->out, ']');
}

static void add_series(void *self, StoreSeries series, const char *device_key, MetricId metric)
{
    Series *s = self;
    const size_t len = strlen(s->device);

    if (strncmp(device_key, s->device, len) != 0 || (device_key[len] && device_key[len] != '/'))
        return;
    str_addf(s->out, "%s{\"device\":", s->comma ? "," : "");
    str_add_json(s->out, device_key);
    str_addf(s->out, ",\"metric\":\"%s\",\"unit\":\"%s\"", metric_get(metric)->name,
             unit_symbol(metric_get(metric)->unit));
    add_seconds(s, series);
    str_addc(s->out, '}');
    s->comma = true;
}

static const NodeGpu *gpu_of(const Incident *incident, const Node *node)
{
    for (size_t i = 0; incident->device.has_pci && i < node->gpu_count; i++)
        if (pci_compare(node->gpus[i].reading.device.pci, incident->device.pci) == 0)
            return &node->gpus[i];
    return NULL;
}

static void add_gpus(const Node *node, Str *out)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        char pci[PCI_TEXT_CAP];

        str_addf(out, "%s{\"index\":%u,\"pci\":\"%s\",\"state\":\"%s\",\"uuid\":", i ? "," : "",
                 gpu->reading.device.index, pci_format(gpu->reading.device.pci, PCI_FORM_SYSFS, pci),
                 gpu_state_key(gpu->state));
        str_add_json(out, gpu->reading.device.uuid);
        str_add(out, ",\"why\":");
        str_add_json(out, gpu->why);
        str_addc(out, '}');
    }
}

void incident_bundle(const Incident *incident, const Node *node, const Store *store, const BundleEvent *events,
                     size_t event_count, Str *out)
{
    const NodeGpu *gpu = gpu_of(incident, node);
    char device[DEVICE_KEY_CAP] = "", at[CLOCK_TEXT_MAX];
    Series series = {.store = store, .device = device, .now_ns = node->time_ns, .real_ns = node->real_ns, .out = out};

    clock_format(at, node->real_ns);
    str_addf(out, "{\"version\":1,\"taken\":\"%s\",\"node\":", at);
    str_add_json(out, node->hostname);
    str_add(out, ",\"driver\":");
    str_add_json(out, node->driver_version);
    str_add(out, ",\"incident\":");
    incident_json(incident, out);
    str_add(out, ",\"gpus\":[");
    add_gpus(node, out);
    str_add(out, "],\"events\":[");
    for (size_t i = 0; i < event_count; i++) {
        if (i)
            str_addc(out, ',');
        event_json(events[i].event, events[i].incident, node, out);
    }
    str_add(out, "],\"series\":[");
    if (gpu && device_key(&gpu->reading.device, device) >= 0)
        store_each(store, add_series, &series);
    str_add(out, "]}\n");
}
