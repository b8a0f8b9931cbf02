/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of `stoker status`. */
#include "service/status/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "service/incident/incident.h"

enum { FINDINGS_MAX = 64, INCIDENTS_SHOWN = 6, WIDTH_MIN = 40, CELL_CAP = 64, NAME_WIDTH = 20 };

typedef struct Screen {
    const StatusSeen *seen;
    const Node *node;
    const StatusStyle *style;
    Str *out;
} Screen;

static void colour(const Screen *s, const char *code)
{
    if (s->style->colour)
        str_addf(s->out, "\033[%sm", code);
}

static size_t width_of(const Screen *s)
{
    return s->style->width < WIDTH_MIN ? WIDTH_MIN : s->style->width;
}

/* Ends the line that began at `start`: cut to the screen where nothing in it is coloured. */
static void end_line(const Screen *s, size_t start)
{
    if (!memchr(s->out->text + start, '\033', s->out->len - start) && s->out->len - start > width_of(s))
        str_cut(s->out, start + width_of(s));
    while (s->out->len > start && s->out->text[s->out->len - 1] == ' ')
        str_cut(s->out, s->out->len - 1);
    str_addc(s->out, '\n');
}

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
static void cell(const Screen *s, const Reading *r, MetricId id, double scale, int width, const char *unit)
{
    double value;

    if (sample_double(&r->sample[id], &value))
        str_addf(s->out, " %*.0f%s", width, value * scale, unit);
    else
        str_addf(s->out, " %*s%*s", width, "-", (int)strlen(unit), "");
}

/* "643/700W" */
static void pair(const Screen *s, const Reading *r, MetricId of, MetricId limit, double scale, int width,
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

static void work_cells(const Screen *s, const Reading *r)
{
    cell(s, r, METRIC_GPU_UTIL, 1, 5, "%");
    cell(s, r, METRIC_PROF_SM_ACTIVE, 100, 5, "%");
    pair(s, r, METRIC_FB_USED, METRIC_FB_TOTAL, 1. / 1024, 11, "G");
    pair(s, r, METRIC_POWER_USAGE, METRIC_ENFORCED_POWER_LIMIT, 1, 10, "W");
    cell(s, r, METRIC_GPU_TEMP, 1, 4, "C");
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

static void owner_cell(const Screen *s, const OwnerTable *owners, const Reading *gpu, const Reading *instance)
{
    size_t more;
    const char *pod = owner_of(owners, gpu, instance, &more);

    if (pod && more)
        str_addf(s->out, "  %s +%zu", pod, more);
    else if (pod)
        str_addf(s->out, "  %s", pod);
}

static void index_cell(const Screen *s, const Device *device)
{
    if (device->index == DEVICE_NO_NUMBER)
        str_add(s->out, "   ?");
    else
        str_addf(s->out, "%4" PRIu32, device->index);
}

static void gpu_line(const Screen *s, const NodeGpu *gpu, const OwnerTable *owners)
{
    size_t start = s->out->len;
    char age[DURATION_TEXT_MAX], pci[PCI_TEXT_CAP];
    const Device *d = &gpu->reading.device;

    index_cell(s, d);
    str_addf(s->out, "  %-*.*s", NAME_WIDTH, NAME_WIDTH,
             d->name[0] ? short_name(d->name) : pci_format(d->pci, PCI_FORM_SYSFS, pci));
    if (gpu->state == GPU_UP) {
        str_add(s->out, " up  ");
        work_cells(s, &gpu->reading);
        owner_cell(s, owners, &gpu->reading, NULL);
    } else {
        uint64_t since = s->node->time_ns > gpu->state_since_ns ? s->node->time_ns - gpu->state_since_ns : 0;

        duration_format(age, since - since % NS_PER_S);
        colour(s, gpu->state == GPU_STARTING || gpu->state == GPU_RELEASED ? "33" : "1;31");
        str_addf(s->out, " %s for %s", gpu_state_key(gpu->state), age);
        colour(s, "0");
    }
    end_line(s, start);
    for (size_t i = 0; gpu->state == GPU_UP && i < gpu->instance_count; i++) {
        const Reading *r = &gpu->instances[i];

        start = s->out->len;
        str_addf(s->out, "      %" PRIu32 "/%" PRIu32 " %-*s     ", r->device.gpu_instance, r->device.compute_instance,
                 NAME_WIDTH - 3, r->profile);
        work_cells(s, r);
        owner_cell(s, owners, &gpu->reading, r);
        end_line(s, start);
    }
}

static void head_lines(const Screen *s)
{
    size_t start = s->out->len, up = 0;
    char now[CLOCK_TEXT_MAX];

    for (size_t i = 0; i < s->node->gpu_count; i++)
        up += s->node->gpus[i].state == GPU_UP;
    clock_format(now, s->node->real_ns);
    str_addf(s->out, "%s  %.10s %.8sZ  ", s->node->hostname, now, now + 11);
    if (s->node->driver_version[0])
        str_addf(s->out, "driver %s  ", s->node->driver_version);
    str_addf(s->out, "%zu of %" PRIu32 " GPUs up", up, s->node->gpus_expected);
    end_line(s, start);
}

static void table_head(const Screen *s)
{
    if (s->node->gpu_count > 0) {
        size_t start = s->out->len;

        str_addf(s->out, "%4s  %-*s %s %6s %6s %11s %10s %5s", "GPU", NAME_WIDTH, "", "    ", "busy", "SM", "memory",
                 "power", "temp");
        end_line(s, start);
    }
}

/* Breaks `text` into lines of the screen's width, the first after "  - ", the others indented. */
static void wrapped(const Screen *s, const char *text)
{
    size_t room = width_of(s) - 4;

    for (const char *front = "  - "; *text; front = "    ") {
        size_t len = strlen(text);

        if (len > room) {
            for (len = room; len > room / 2 && text[len] != ' '; len--)
                ;
        }
        str_add(s->out, front);
        str_addn(s->out, text, len);
        str_addc(s->out, '\n');
        text += len;
        while (*text == ' ')
            text++;
    }
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

/* The most urgent incidents with what to do, and how many there are beside. */
static void incident_lines(const Screen *s)
{
    const IncidentStyle style = {
        .width = width_of(s), .colour = s->style->colour, .utf8 = s->style->utf8, .real_ns = s->node->real_ns};
    const size_t count = s->seen->incident_count;
    const Incident *first[INCIDENTS_SHOWN];

    if (count == 0)
        return;
    const size_t shown = incidents_urgent(s->seen->incidents, count, first, INCIDENTS_SHOWN);
    str_addc(s->out, '\n');
    incidents_text(first, shown, &style, s->out);
    if (count > shown)
        str_addf(s->out, "and %zu more: stoker incidents\n", count - shown);
    str_addc(s->out, '\n');
}

static void window_lines(const Screen *s)
{
    const Maintenance *maintenance = s->seen->maintenance;

    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);
        char until[CLOCK_TEXT_MAX];
        const char *between = " of GPU ";
        size_t start = s->out->len;

        if (!window->active)
            continue;
        clock_format(until, window->until_real_ns);
        str_add(s->out, "maintenance");
        for (int gpu = 0; gpu < 64; gpu++)
            if (window->gpus >> gpu & 1) {
                str_addf(s->out, "%s%d", between, gpu);
                between = ",";
            }
        str_addf(s->out, " until %.10s %.8sZ: %s (%s, %s)", until, until + 11, window->reason, window->who, window->id);
        end_line(s, start);
    }
}

static void finding_lines(const Screen *s)
{
    StatusFinding findings[FINDINGS_MAX];
    size_t count = status_findings(s->seen, findings, FINDINGS_MAX);

    const int code = status_code(s->seen);

    if (code != 1) {
        bool known = code == 0;

        colour(s, known ? "32" : "33");
        str_add(s->out, known ? "nothing wrong" : "nothing has been sampled yet");
        colour(s, "0");
        str_addc(s->out, '\n');
    }
    if (count == 0)
        return;
    colour(s, "1;31");
    str_addf(s->out, "%zu%s thing%s wrong", count, s->seen->incident_count ? " more" : "", count == 1 ? "" : "s");
    colour(s, "0");
    str_addc(s->out, '\n');
    for (size_t i = 0; i < count; i++)
        wrapped(s, findings[i].text);
}

void status_text(const StatusSeen *seen, const StatusStyle *style, Str *out)
{
    Screen s = {.seen = seen, .node = seen->node, .style = style, .out = out};

    head_lines(&s);
    window_lines(&s);
    incident_lines(&s);
    table_head(&s);
    for (size_t i = 0; i < seen->node->gpu_count; i++)
        gpu_line(&s, &seen->node->gpus[i], seen->owners);
    finding_lines(&s);
}

static void findings_json(const StatusSeen *seen, Str *out)
{
    StatusFinding findings[FINDINGS_MAX];
    size_t count = status_findings(seen, findings, FINDINGS_MAX);

    for (size_t i = 0; i < count; i++) {
        str_add(out, i ? ",{" : "{");
        if (findings[i].gpu && findings[i].gpu->reading.device.index != DEVICE_NO_NUMBER)
            str_addf(out, "\"gpu\":%" PRIu32 ",", findings[i].gpu->reading.device.index);
        str_addf(out, "\"severity\":\"%s\",\"text\":", fault_severities[findings[i].severity].key);
        str_add_json(out, findings[i].text);
        str_addc(out, '}');
    }
}

void status_json(const StatusSeen *seen, Str *out)
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
    str_add(out, "],\"maintenance\":[");
    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++) {
        if (i)
            str_addc(out, ',');
        maintenance_window_json(maintenance_at(maintenance, i), out);
    }
    str_add(out, "],\"node\":");
    api_gpus(seen->node, NULL, out);
    while (out->len > 0 && out->text[out->len - 1] == '\n')
        str_cut(out, out->len - 1);
    str_add(out, "}\n");
}
