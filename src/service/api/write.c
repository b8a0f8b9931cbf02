/* SPDX-License-Identifier: Apache-2.0 */
#include "service/api/write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"

void write_number(Str *out, double value)
{
    json_add_double(out, NULL, value);
}

void write_seconds(Str *out, uint64_t ns)
{
    json_add_seconds(out, NULL, ns);
}

void write_text(Str *out, const char *key, const char *text)
{
    if (text[0])
        json_add_text(out, key, text);
}

void write_time(Str *out, const Node *node, const char *key, uint64_t monotonic_ns)
{
    uint64_t age = node->time_ns > monotonic_ns ? node->time_ns - monotonic_ns : 0;

    json_add_time(out, key, node->real_ns > age ? node->real_ns - age : 0);
}

/* A share with four digits. */
static void write_share(Str *out, const char *key, double share)
{
    if (isfinite(share))
        str_addf(out, ",\"%s\":%.4g", key, share);
}

void write_activity(Str *out, const Node *node, const Activity *activity)
{
    str_addf(out, ",\"activity\":{\"word\":\"%s\"", activity_key(activity->word));
    write_text(out, "cause", activity_cause_key(activity->cause));
    if (activity->since_ns)
        write_time(out, node, "since", activity->since_ns);
    write_text(out, "text", activity->text);
    write_text(out, "incident", activity->incident);
    str_addf(out, ",\"held\":%s,\"basis\":\"%s\",\"window_s\":%" PRIu32, activity->held ? "true" : "false",
             activity_basis_key(activity->basis), activity->window_s);
    if (activity->window_s > 0) {
        write_share(out, "sm_active", activity->sm_active);
        write_share(out, "utilization", activity->utilization);
        write_share(out, "power_share", activity->power_share);
        write_share(out, "clock_share", activity->clock_share);
        write_share(out, "tensor", activity->tensor);
        write_share(out, "dram", activity->dram);
    }
    str_add(out, ",\"day_seconds\":{");
    for (ActivityWord word = 0; word < ACTIVITY_END; word++)
        str_addf(out, "%s\"%s\":%" PRIu32, word ? "," : "", activity_key(word), activity->day_s[word]);
    str_add(out, "}}");
}

void write_sample(Str *out, const Sample *sample)
{
    char text[NUMBER_I64_MAX];
    int64_t whole;
    double value;

    if (sample_int64(sample, &whole))
        str_addn(out, text, number_write_i64(text, whole));
    else
        write_number(out, sample_double(sample, &value) ? value : NAN);
}

void write_identity(Str *out, const Device *device)
{
    char pci[PCI_TEXT_CAP];

    if (device->index == DEVICE_NO_NUMBER)
        str_add(out, "\"index\":null");
    else
        str_addf(out, "\"index\":%" PRIu32, device->index);
    write_text(out, "uuid", device->uuid);
    if (device->has_pci)
        write_text(out, "pci", pci_format(device->pci, PCI_FORM_NVML, pci));
    write_text(out, "name", device->name);
    write_text(out, "serial", device->serial);
    write_text(out, "board", device->board);
    if (device->kind == DEVICE_COMPUTE_INSTANCE)
        str_addf(out, ",\"gpu_instance\":%" PRIu32 ",\"compute_instance\":%" PRIu32, device->gpu_instance,
                 device->compute_instance);
}
