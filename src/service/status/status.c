/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of `stoker status`: what is wrong first, then the table, as much of both as the screen holds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "service/incident/incident.h"
#include "service/status/inside.h"

enum { WIDTH_MIN = 40, THINGS_NAMED = 6, THING_CAP = 32, NAME_CAP = 48 };

/* What is shown, the richest first; the first that the screen holds is taken, or the last. */
typedef struct Plan {
    size_t full, incidents, findings; /* incidents with everything, and in all */
    StatusTable table;
} Plan;

static const Plan plans[] = {
    {6, 6, STATUS_FINDINGS_MAX, STATUS_TABLE_ALL},
    {1, 6, STATUS_FINDINGS_MAX, STATUS_TABLE_ALL},
    {1, 6, 8, STATUS_TABLE_GPUS},
    {1, 6, 8, STATUS_TABLE_FAULTY},
    {1, 3, 4, STATUS_TABLE_FAULTY},
    {1, 2, 2, STATUS_TABLE_FAULTY},
    {1, 3, 3, STATUS_TABLE_NONE},
    {1, 2, 1, STATUS_TABLE_NONE},
    {0, 2, 1, STATUS_TABLE_NONE},
};

const char *const status_severity_colours[SEVERITY_END] = {"2", "33", "31", "1;31"};

void status_colour(const StatusScreen *s, const char *code)
{
    if (s->style->colour)
        str_addf(s->out, "\033[%sm", code);
}

size_t status_width(const StatusScreen *s)
{
    return s->style->width < WIDTH_MIN ? WIDTH_MIN : s->style->width;
}

/* Bytes of an escape sequence at `text`; 0: none is there. */
static size_t escape_len(const char *text)
{
    size_t len = 0;

    if (text[0] != '\033')
        return 0;
    while (text[len] && text[len] != 'm')
        len++;
    return len + (text[len] == 'm');
}

void status_end_line(const StatusScreen *s, size_t start)
{
    size_t at = start, columns = 0;
    bool coloured = false;

    while (at < s->out->len) {
        const size_t escape = escape_len(s->out->text + at);

        coloured |= escape > 0;
        if (escape == 0 && ((unsigned char)s->out->text[at] & 0xc0) != 0x80 && columns++ == status_width(s))
            break;
        at += escape ? escape : 1;
    }
    const bool cut = at < s->out->len;
    str_cut(s->out, at);
    while (s->out->len > start && s->out->text[s->out->len - 1] == ' ')
        str_cut(s->out, s->out->len - 1);
    if (cut && coloured)
        status_colour(s, "0");
    str_addc(s->out, '\n');
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

bool status_on_gpu(const Incident *incident, const NodeGpu *gpu)
{
    return incident->device.kind != DEVICE_NODE && incident->scope != SCOPE_FABRIC && incident->device.has_pci &&
           pci_compare(incident->device.pci, gpu->reading.device.pci) == 0;
}

static bool is_wrong(const Incident *incident)
{
    return incident->state == INCIDENT_OPEN && incident->severity >= SEVERITY_WARNING;
}

bool status_faulty(const StatusScreen *s, const NodeGpu *gpu, FaultSeverity *ret_severity)
{
    FaultSeverity worst = SEVERITY_INFO;

    for (size_t i = 0; i < s->seen->incident_count; i++)
        if (is_wrong(s->seen->incidents[i]) && s->seen->incidents[i]->cause != CAUSE_APPLICATION &&
            status_on_gpu(s->seen->incidents[i], gpu) && s->seen->incidents[i]->severity > worst)
            worst = s->seen->incidents[i]->severity;
    for (size_t i = 0; i < s->finding_count; i++)
        if (s->findings[i].gpu == gpu && s->findings[i].severity > worst)
            worst = s->findings[i].severity;
    *ret_severity = worst;
    return worst > SEVERITY_INFO;
}

/* "GPU 3", "the node": what stands in the head of the screen. */
static void name_thing(const Incident *incident, char out[THING_CAP])
{
    const Device *d = &incident->device;
    char pci[PCI_TEXT_CAP] = "";

    if (d->has_pci)
        pci_format(d->pci, PCI_FORM_SYSFS, pci);
    if (d->kind == DEVICE_NODE)
        snprintf(out, THING_CAP, "%s", incident->scope == SCOPE_FABRIC ? "the fabric" : "the node");
    else if (d->kind == DEVICE_SWITCH || d->kind == DEVICE_SWITCH_LINK)
        snprintf(out, THING_CAP, "switch %.16s", pci);
    else if (d->index != DEVICE_NO_NUMBER)
        snprintf(out, THING_CAP, "GPU %" PRIu32, d->index);
    else
        snprintf(out, THING_CAP, "GPU %.16s", pci);
}

typedef struct Things {
    char names[THINGS_NAMED][NAME_CAP];
    size_t named, all; /* of which so many are named */
    FaultSeverity worst;
} Things;

static void add_thing(Things *things, const char *name, FaultSeverity severity)
{
    if (severity > things->worst)
        things->worst = severity;
    for (size_t i = 0; i < things->named; i++)
        if (strcmp(things->names[i], name) == 0)
            return;
    if (things->named < THINGS_NAMED)
        snprintf(things->names[things->named++], NAME_CAP, "%s", name);
    things->all++;
}

static void find_things(const StatusScreen *s, const Incident *const *urgent, size_t count, Things *things)
{
    char name[NAME_CAP], thing[THING_CAP];

    for (size_t i = 0; i < count; i++)
        if (is_wrong(urgent[i])) {
            name_thing(urgent[i], thing);
            if (urgent[i]->cause == CAUSE_APPLICATION && strcmp(thing, "the node") == 0)
                snprintf(name, sizeof name, "a program");
            else
                snprintf(name, sizeof name, "%s%s", urgent[i]->cause == CAUSE_APPLICATION ? "a program on " : "",
                         thing);
            add_thing(things, name, urgent[i]->severity);
        }
    for (size_t i = 0; i < s->finding_count; i++) {
        const StatusFinding *finding = &s->findings[i];
        Incident as_incident = {.device = {.kind = DEVICE_NODE}};

        if (finding->gpu)
            as_incident.device = finding->gpu->reading.device;
        name_thing(&as_incident, thing);
        add_thing(things, thing, finding->severity);
    }
}

/* As many as the line has room for. */
static void name_things(const StatusScreen *s, const Things *things)
{
    size_t columns = sizeof " WRONG and 1000 more", i;

    for (i = 0; i < things->named; i++) {
        columns += 2 + strlen(things->names[i]);
        if (i > 0 && columns > status_width(s))
            break;
        str_addf(s->out, "%s%s", i ? ", " : " ", things->names[i]);
    }
    if (things->all > i)
        str_addf(s->out, " and %zu more", things->all - i);
}

/* One line that says whether anything is wrong, and with what. */
static void verdict_line(const StatusScreen *s, const Incident *const *urgent, size_t count)
{
    const int code = status_code(s->seen);
    const size_t start = s->out->len;
    Things things = {0};

    if (code != 1) {
        status_colour(s, code == 0 ? "1;32" : "1;33");
        str_add(s->out, code == 0 ? "nothing wrong" : "nothing has been sampled yet");
        status_colour(s, "0");
        status_end_line(s, start);
        return;
    }
    find_things(s, urgent, count, &things);
    status_colour(s, things.worst > SEVERITY_WARNING ? "1;37;41" : "1;30;43");
    str_add(s->out, s->style->colour ? " WRONG " : "WRONG:");
    status_colour(s, "0");
    status_colour(s, "1");
    name_things(s, &things);
    status_colour(s, "0");
    status_end_line(s, start);
}

static void incident_lines(const StatusScreen *s, const Plan *plan, const Incident *const *urgent, size_t count)
{
    const IncidentStyle style = {
        .width = status_width(s), .colour = s->style->colour, .utf8 = s->style->utf8, .real_ns = s->node->real_ns};
    const size_t shown = count < plan->incidents ? count : plan->incidents;
    size_t full = 0;

    if (count == 0)
        return;
    str_addc(s->out, '\n');
    for (; full < plan->full && full < shown && is_wrong(urgent[full]); full++)
        incident_card(urgent[full], &style, s->out);
    if (shown > full)
        incidents_text(urgent + full, shown - full, &style, s->out);
    if (count > shown)
        str_addf(s->out, "and %zu more: stoker incidents\n", count - shown);
}

/* Breaks `text` into lines of the screen's width, the first after "  - ", the others indented. */
static void wrapped(const StatusScreen *s, const char *text)
{
    size_t room = status_width(s) - 4;

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

static void finding_lines(const StatusScreen *s, const Plan *plan)
{
    const size_t count = s->finding_count, shown = count < plan->findings ? count : plan->findings;

    if (count == 0)
        return;
    str_addc(s->out, '\n');
    status_colour(s, "1;31");
    str_addf(s->out, "%zu%s thing%s wrong", count, s->seen->incident_count ? " more" : "", count == 1 ? "" : "s");
    status_colour(s, "0");
    str_addc(s->out, '\n');
    for (size_t i = 0; i < shown; i++)
        wrapped(s, s->findings[i].text);
    if (count > shown)
        str_addf(s->out, "  - and %zu more: stoker status --all\n", count - shown);
}

/* --- the screen --------------------------------------------------------------------------------------------------- */

static void window_lines(const StatusScreen *s)
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
        for (size_t k = 0; !window->gpus && k < MAINTENANCE_UUIDS && window->uuids[k][0]; k++)
            str_addf(s->out, "%s%s", k ? "," : between, window->uuids[k]);
        str_addf(s->out, " until %.10s %.8sZ: %s (%s, %s)", until, until + 11, window->reason, window->who, window->id);
        status_end_line(s, start);
    }
}

static void head_lines(const StatusScreen *s)
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
    status_end_line(s, start);
}

static void draw(const StatusScreen *s, const Plan *plan, const Incident *const *urgent, size_t count)
{
    head_lines(s);
    verdict_line(s, urgent, count);
    window_lines(s);
    incident_lines(s, plan, urgent, count);
    finding_lines(s, plan);
    if (count > 0 || s->finding_count > 0)
        str_addc(s->out, '\n');
    status_table(s, plan->table);
}

static bool fits(const StatusScreen *s, size_t start)
{
    size_t lines = 0;

    for (size_t i = start; i < s->out->len; i++)
        lines += s->out->text[i] == '\n';
    return s->style->height == 0 || lines < s->style->height; /* the prompt has the last one */
}

void status_text(const Snapshot *seen, const StatusStyle *style, Str *out)
{
    StatusFinding findings[STATUS_FINDINGS_MAX];
    const StatusScreen s = {.seen = seen,
                            .node = seen->node,
                            .style = style,
                            .findings = findings,
                            .finding_count = status_findings(seen, findings, STATUS_FINDINGS_MAX),
                            .out = out};
    CLEANUP_FREE const Incident **urgent = xcalloc(seen->incident_count + 1, sizeof *urgent);
    const size_t count = incidents_urgent(seen->incidents, seen->incident_count, urgent, seen->incident_count);
    const size_t start = out->len;

    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        str_cut(out, start);
        draw(&s, &plans[i], urgent, count);
        if (fits(&s, start))
            return;
    }
}
