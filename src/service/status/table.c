/* SPDX-License-Identifier: Apache-2.0 */
/* The table of `stoker status`: a line for each GPU and MIG device; see status.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "service/status/inside.h"

enum { CELL_CAP = 64, NAME_WIDTH = 20, ACTIVITY_WIDTH = 9 };

/* "NVIDIA H100 80GB HBM3" without what every line would repeat. */
static const char *short_name(const char *name)
{
    static const char *const fronts[] = {"NVIDIA ", "Tesla "};

    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++)
        if (strncmp(name, fronts[i], strlen(fronts[i])) == 0)
            return name + strlen(fronts[i]);
    return name;
}

/* A cell: the value right-aligned with its unit, or dashes where it is absent. */
static void write_cell(const StatusScreen *s, const Reading *r, MetricId id, double scale, int width, const char *unit)
{
    double value;

    if (sample_double(&r->sample[id], &value))
        str_addf(s->out, " %*.0f%s", width, value * scale, unit);
    else
        str_addf(s->out, " %*s%*s", width, "-", (int)strlen(unit), "");
}

/* "643/700W" */
static void write_pair(const StatusScreen *s, const Reading *r, MetricId of, MetricId limit, double scale, int width,
                       const char *unit)
{
    double value, most;
    char text[CELL_CAP];

    if (!sample_double(&r->sample[of], &value))
        snprintf(text, sizeof text, "-");
    else if (!sample_double(&r->sample[limit], &most))
        snprintf(text, sizeof text, "%.0f%s", value * scale, unit);
    else
        snprintf(text, sizeof text, "%.0f/%.0f%s", value * scale, most * scale, unit);
    str_addf(s->out, " %*s", width, text);
}

static void work_cells(const StatusScreen *s, const Reading *r)
{
    write_cell(s, r, METRIC_GPU_UTIL, 1, 4, "%");
    write_cell(s, r, METRIC_PROF_SM_ACTIVE, 100, 4, "%");
    write_pair(s, r, METRIC_FB_USED, METRIC_FB_TOTAL, 1. / 1024, 9, "G");
    write_pair(s, r, METRIC_POWER_USAGE, METRIC_ENFORCED_POWER_LIMIT, 1, 9, "W");
    write_cell(s, r, METRIC_GPU_TEMP, 1, 3, "C");
}

static const char *owner_of(const OwnerTable *owners, const Reading *gpu, const Reading *instance, size_t *ret_more)
{
    const char *first = NULL;

    *ret_more = 0;
    for (size_t i = 0; owners && i < owners->len; i++)
        if (owner_device_is(&owners->at[i].device, gpu, instance)) {
            if (first)
                ++*ret_more;
            else
                first = owners->at[i].pod;
        }
    return first;
}

static void owner_cell(const StatusScreen *s, const OwnerTable *owners, const Reading *gpu, const Reading *instance)
{
    size_t more;
    const char *pod = owner_of(owners, gpu, instance, &more);

    if (pod && more)
        str_addf(s->out, "  %s +%zu", pod, more);
    else if (pod)
        str_addf(s->out, "  %s", pod);
}

/* Its number; where something is wrong with it, returns true, with a mark and the colour of that switched on. */
static bool index_cell(const StatusScreen *s, const NodeGpu *gpu)
{
    const Device *device = &gpu->reading.device;
    FaultSeverity severity = SEVERITY_INFO;
    const bool faulty = status_faulty(s, gpu, &severity);

    if (faulty)
        status_colour(s, status_severity_colours[severity]);
    str_addc(s->out, faulty ? '>' : ' ');
    if (device->index == DEVICE_NO_NUMBER)
        str_add(s->out, "  ?");
    else
        str_addf(s->out, "%3" PRIu32, device->index);
    return faulty;
}

static void instance_lines(const StatusScreen *s, const NodeGpu *gpu)
{
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *r = &gpu->instances[i];
        const size_t start = s->out->len;
        char number[24];

        snprintf(number, sizeof number, "%" PRIu32 "/%" PRIu32, r->device.gpu_instance, r->device.compute_instance);
        str_addf(s->out, "      %-4s %-*s%-*s", number, NAME_WIDTH - 4, r->profile, ACTIVITY_WIDTH,
                 gpu->instance_activity ? activity_key(gpu->instance_activity[i].word) : "");
        work_cells(s, r);
        owner_cell(s, s->seen->owners, &gpu->reading, r);
        status_end_line(s, start);
    }
}

static void gpu_line(const StatusScreen *s, const NodeGpu *gpu, StatusTable how)
{
    const size_t start = s->out->len;
    char age[DURATION_TEXT_MAX], pci[PCI_TEXT_CAP];
    const Device *d = &gpu->reading.device;

    const bool faulty = index_cell(s, gpu);
    str_addf(s->out, "  %-*.*s", NAME_WIDTH, NAME_WIDTH,
             d->name[0] ? short_name(d->name) : pci_format(d->pci, PCI_FORM_SYSFS, pci));
    str_addf(s->out, " %-*s", ACTIVITY_WIDTH, activity_key(gpu->activity.word));
    if (gpu->state == GPU_UP) {
        if (faulty)
            status_colour(s, "0");
        work_cells(s, &gpu->reading);
        if (how != STATUS_TABLE_ALL && gpu->instance_count > 0)
            str_addf(s->out, " %zu MIG", gpu->instance_count);
        else
            owner_cell(s, s->seen->owners, &gpu->reading, NULL);
    } else {
        uint64_t since = s->node->time_ns > gpu->state_since_ns ? s->node->time_ns - gpu->state_since_ns : 0;

        duration_format(age, since - since % NS_PER_S);
        status_colour(s, gpu->state == GPU_STARTING || gpu->state == GPU_RELEASED ? "33" : "1;31");
        str_addf(s->out, " %s for %s", gpu->state == GPU_NO_DRIVER ? "no driver" : gpu_state_key(gpu->state), age);
        status_colour(s, "0");
    }
    status_end_line(s, start);
    if (how == STATUS_TABLE_ALL && gpu->state == GPU_UP)
        instance_lines(s, gpu);
}

static void write_head(const StatusScreen *s)
{
    const size_t start = s->out->len;

    status_colour(s, "2");
    str_addf(s->out, "%4s  %-*s %-*s %5s %5s %9s %9s %4s", "GPU", NAME_WIDTH, "", ACTIVITY_WIDTH, "activity", "util",
             "SM", "memory", "power", "temp");
    status_colour(s, "0");
    status_end_line(s, start);
}

/* What is left out, in one line. */
static void left_out(const StatusScreen *s, size_t gpus, size_t instances)
{
    const size_t start = s->out->len;

    if (gpus == 0 && instances == 0)
        return;
    status_colour(s, "2");
    if (gpus > 0)
        str_addf(s->out, "%zu GPU%s without a problem not listed; ", gpus, gpus == 1 ? "" : "s");
    else
        str_addf(s->out, "%zu MIG devices not listed; ", instances);
    str_add(s->out, "all: stoker status --all");
    status_colour(s, "0");
    status_end_line(s, start);
}

void status_table(const StatusScreen *s, StatusTable how)
{
    size_t gpus = 0, instances = 0;

    if (s->node->gpu_count == 0)
        return;
    if (how == STATUS_TABLE_NONE) {
        status_colour(s, "2");
        str_addf(s->out, "%zu GPUs not listed; all: stoker status --all", s->node->gpu_count);
        status_colour(s, "0");
        str_addc(s->out, '\n');
        return;
    }
    for (size_t i = 0; i < s->node->gpu_count; i++) {
        const NodeGpu *gpu = &s->node->gpus[i];
        FaultSeverity severity;

        if (how == STATUS_TABLE_FAULTY && gpu->state == GPU_UP && !status_faulty(s, gpu, &severity)) {
            gpus++;
            continue;
        }
        if (i == gpus) /* the first that is listed */
            write_head(s);
        instances += how != STATUS_TABLE_ALL && gpu->state == GPU_UP ? gpu->instance_count : 0;
        gpu_line(s, gpu, how);
    }
    left_out(s, gpus, instances);
}
