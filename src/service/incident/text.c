/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/human.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "service/incident/incident.h"
#include "service/runbook/runbook.h"

enum { WIDTH_MIN = 40, INDENT = 9, LINE_MAX_BYTES = 4096 };

typedef struct Page {
    const IncidentStyle *style;
    size_t width;
    Str *out;
} Page;

static Page make_page(const IncidentStyle *style, Str *out)
{
    return (Page){.style = style, .width = style->width < WIDTH_MIN ? WIDTH_MIN : style->width, .out = out};
}

static void set_colour(const Page *page, const char *code)
{
    if (page->style->colour)
        str_addf(page->out, "\033[%sm", code);
}

static const char *const severity_colours[SEVERITY_END] = {"2", "33", "31", "1;31"};

/* "12 s", "4 min", "3 h", "5 d". */
static const char *write_age(const Page *page, uint64_t real_ns, char out[HUMAN_MAX])
{
    return human_age(out, page->style->real_ns > real_ns ? page->style->real_ns - real_ns : 0);
}

/* What was added behind `begin`, in ASCII where the terminal has no more. */
static void replace_foreign(const Page *page, size_t begin)
{
    Str *out = page->out;
    size_t len = begin;

    for (size_t i = begin; !page->style->utf8 && i < out->len; i++)
        if (((unsigned char)out->text[i] & 0xc0) != 0x80)
            out->text[len++] = (unsigned char)out->text[i] < 0x80 ? out->text[i] : '?';
    if (!page->style->utf8)
        str_cut(out, len);
}

/* Wraps words into the width; `column` is the place in the line, `indent` that of the next lines. Ends the line. */
static void add_wrapped(const Page *page, size_t column, size_t indent, const char *text)
{
    const size_t begin = page->out->len;

    str_add_wrapped(page->out, text, column, indent, page->width);
    replace_foreign(page, begin);
}

/* A line of a severity's colour: its word, and a sentence. */
static void add_head(const Page *page, const char *colour, const char *word, const char *text)
{
    set_colour(page, colour);
    str_addf(page->out, "%-*s", INDENT, word);
    add_wrapped(page, INDENT, INDENT, text);
    set_colour(page, "0");
}

/* A text behind its name, which is dim and fills `indent` columns; NULL: no name. Without a text there is no row. */
__attribute__((format(printf, 5, 6))) static void add_row(const Page *page, int indent, const char *name,
                                                          const char *colour, const char *fmt, ...)
{
    char text[LINE_MAX_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!text[0])
        return;
    if (name)
        set_colour(page, "2");
    str_addf(page->out, "%-*s", indent, name ? name : "");
    if (name)
        set_colour(page, "0");
    if (colour[0])
        set_colour(page, colour);
    add_wrapped(page, (size_t)indent, (size_t)indent, text);
    if (colour[0])
        set_colour(page, "0");
}

/* --- whose work --------------------------------------------------------------------------------------------------- */

void incident_affected(const Incident *incident, Str *out)
{
    const uint32_t kept = (uint32_t)number_min_u64(incident->owner_count, INCIDENT_OWNERS);

    for (uint32_t i = 0; i < kept; i++) {
        str_add(out, i > 0 ? ", " : "");
        owner_add_text(&incident->owners[i], out);
    }
    if (incident->owner_count > kept)
        str_add(out, " and others");
}

/* --- a list ------------------------------------------------------------------------------------------------------- */

/* Order: open before cleared, then the worst, then the newest first. */
static int compare_urgency(const void *a, const void *b)
{
    const Incident *x = *(const Incident *const *)a, *y = *(const Incident *const *)b;

    if (x->state != y->state)
        return x->state == INCIDENT_OPEN ? -1 : y->state == INCIDENT_OPEN ? 1 : (int)x->state - (int)y->state;
    if (x->state == INCIDENT_OPEN && x->severity != y->severity)
        return (int)y->severity - (int)x->severity;
    if (x->state == INCIDENT_OPEN && x->route != y->route)
        return (int)y->route - (int)x->route;
    return strcmp(y->id, x->id);
}

static void add_item(const Page *page, const Incident *incident)
{
    const bool over = incident->state == INCIDENT_CLEARED;
    char since[HUMAN_MAX], ended[HUMAN_MAX];

    write_age(page, incident->opened_real_ns, since);
    add_head(page, over ? "2" : severity_colours[incident->severity],
             over ? "cleared" : fault_severities[incident->severity].key, incident->title);
    if (over) {
        add_row(page, INDENT, NULL, "", "%s; it lasted from %s ago until %s ago; %s", incident_ends[incident->end].text,
                since, write_age(page, incident->cleared_real_ns, ended), incident->id);
        return;
    }
    add_row(page, INDENT, NULL, "", "do: %s", incident_action(incident));
    add_row(page, INDENT, NULL, "2", "for %s, seen %llu time%s, %s, %s%s%s", since, (unsigned long long)incident->count,
            incident->count == 1 ? "" : "s",
            incident->route == ROUTE_NONE ? "no alert" : fault_routes[incident->route].key, incident->id,
            incident->silenced ? ", in maintenance " : "", incident->silenced ? incident->window : "");
}

/* Whose work it hits. */
static void add_affected(const Page *page, int indent, const char *name, const Incident *incident, const char *waiters)
{
    char affected[LINE_MAX_BYTES] = "";
    Str text;

    str_init_room(&text, affected, sizeof affected);
    incident_affected(incident, &text);
    add_row(page, indent, name, "", "%s%s%s", affected, affected[0] && waiters[0] ? ": " : "", waiters);
}

void incidents_urgent(const Incident *const *incidents, size_t count, const Incident **out)
{
    if (count == 0)
        return;
    memcpy(out, incidents, count * sizeof *out);
    qsort(out, count, sizeof *out, compare_urgency);
}

void incidents_text(const Incident *const *incidents, size_t count, const IncidentStyle *style, Str *out)
{
    const Page page = make_page(style, out);
    CLEANUP_FREE const Incident **sorted = xcalloc(count + 1, sizeof *sorted);

    if (count == 0) {
        str_add(out, "no incident\n");
        return;
    }
    incidents_urgent(incidents, count, sorted);
    for (size_t i = 0; i < count; i++)
        add_item(&page, sorted[i]);
}

/* --- a card ------------------------------------------------------------------------------------------------------- */

static const char *const wants[ROUTE_END] = {
    [ROUTE_NONE] = "Recorded only, no alert",
    [ROUTE_USER] = "For the owner of the work",
    [ROUTE_TICKET] = "Ticket: can wait for working hours",
    [ROUTE_PAGE] = "Critical: act now",
};

/* The length of the evidence in a verdict, each with its time, before the advice begins; see
 * engine/health/incident_text.c. 0: none. */
static size_t find_evidence_len(const Incident *incident)
{
    static const char clock[] = " UTC";
    const char *last = NULL;

    for (const char *at = incident->verdict; (at = strstr(at, clock)) != NULL;)
        last = at += sizeof clock - 1;
    const char *end = last ? strstr(last, ". ") : NULL;
    return last ? (size_t)((end ? end : last + strlen(last)) - incident->verdict) : 0;
}

/* The advice, without the action, which has a line of its own. */
static const char *find_advice(const Incident *incident)
{
    const size_t seen = find_evidence_len(incident);
    const char *advice = incident->verdict + seen;
    char again[LINE_MAX_BYTES];

    if (seen > 0)
        advice += strspn(advice, ". ");
    snprintf(again, sizeof again, "Do: %s. ", incident_action(incident));
    return strncmp(advice, again, strlen(again)) == 0 ? advice + strlen(again) : advice;
}

/* The evidence and since when: from the verdict or, if that had no room for it, the first evidence. */
static void add_why_row(const Page *page, const Incident *incident)
{
    const int len = (int)find_evidence_len(incident);
    char since[HUMAN_MAX], at[CLOCK_TEXT_MAX];

    write_age(page, incident->opened_real_ns, since);
    if (len > 0) {
        add_row(page, INDENT, " why", "", "%.*s; for %s", len, incident->verdict, since);
    } else if (incident->first_len > 0) {
        clock_format(at, incident->first[0].real_ns);
        add_row(page, INDENT, " why", "", "%s at %.8s UTC; for %s", incident->first[0].text, at + 11, since);
    } else {
        add_row(page, INDENT, " why", "", "for %s, seen %llu time%s", since, (unsigned long long)incident->count,
                incident->count == 1 ? "" : "s");
    }
}

void incident_card(const Incident *incident, const char *waiters, const IncidentStyle *style, Str *out)
{
    const Page page = make_page(style, out);
    const bool steps = runbook_find(incident->class) != NULL;

    add_head(&page, severity_colours[incident->severity], fault_severities[incident->severity].key, incident->title);
    add_row(&page, INDENT, " DO", "1", "%s", incident_action(incident));
    add_row(&page, INDENT, "", "", "%s", find_advice(incident));
    add_row(&page, INDENT, " means", "", "%s. %s.", fault_severities[incident->severity].text, wants[incident->route]);
    add_affected(&page, INDENT, " whose", incident, waiters);
    if (incident->silenced)
        add_row(&page, INDENT, " silent", "", "in maintenance window %s: no alerts", incident->window);
    add_why_row(&page, incident);
    add_row(&page, INDENT, " more", "", "%s%s%sstoker incidents show %s%s%s", steps ? "stoker runbook " : "",
            steps ? incident->id : "", steps ? "; " : "", incident->id, incident->runbook[0] ? "; " : "",
            incident->runbook);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

static void add_time_row(const Page *page, const char *name, uint64_t real_ns)
{
    char at[CLOCK_TEXT_MAX], ago[HUMAN_MAX];

    if (real_ns == 0)
        return;
    clock_format(at, real_ns);
    add_row(page, INDENT + 3, name, "", "%s, %s ago", at, write_age(page, real_ns, ago));
}

static void add_device_rows(const Page *page, const Incident *incident)
{
    const Device *device = &incident->device;
    char pci[PCI_TEXT_CAP] = "";

    if (device->kind == DEVICE_NODE)
        return;
    if (device->has_pci)
        pci_format(device->pci, PCI_FORM_SYSFS, pci);
    add_row(page, INDENT + 3, "device", "", "%s %s %s%s%s", device->name, pci,
            device->uuid[0] ? device->uuid : device->parent_uuid, device->serial[0] ? ", serial number " : "",
            device->serial);
    if (device->gpu_instance != DEVICE_NO_NUMBER)
        add_row(page, INDENT + 3, "instance", "", "GPU instance %u", device->gpu_instance);
}

static void add_evidence_list(const Page *page, const IncidentEvidence *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char at[CLOCK_TEXT_MAX];

        clock_format(at, list[i].real_ns);
        str_addf(page->out, "  %s  %-10s ", at, event_origins[list[i].origin].key);
        add_wrapped(page, 2 + 24 + 2 + 11, 6, list[i].text);
    }
}

static void add_evidence(const Page *page, const Incident *incident)
{
    const uint64_t shown = incident->first_len + incident->last_len;
    const uint64_t all = incident->count + incident->echo_count;

    if (shown == 0)
        return;
    str_add(page->out, "\nevidence\n");
    add_evidence_list(page, incident->first, incident->first_len);
    if (all > shown)
        str_addf(page->out, "  ... and %llu more\n", (unsigned long long)(all - shown));
    add_evidence_list(page, incident->last, incident->last_len);
}

static void add_value(const Page *page, double number)
{
    if (isfinite(number))
        str_addf(page->out, " %14.6g", number);
    else
        str_addf(page->out, " %14s", "-");
}

static void add_counters(const Page *page, const Incident *incident)
{
    if (incident->counter_len)
        str_add(page->out, "\nbefore and after\n");
    for (uint32_t i = 0; i < incident->counter_len; i++) {
        str_addf(page->out, "  %-48s", incident->counters[i].name);
        add_value(page, incident->counters[i].before);
        add_value(page, incident->counters[i].after);
        str_addc(page->out, '\n');
    }
}

void incident_sheet(const Incident *incident, const IncidentStyle *style, Str *out)
{
    const Page page = make_page(style, out);

    set_colour(&page, incident->state == INCIDENT_CLEARED ? "2" : severity_colours[incident->severity]);
    add_wrapped(&page, 0, 0, incident->title);
    set_colour(&page, "0");
    add_wrapped(&page, 0, 0, incident->verdict);
    str_addc(out, '\n');
    add_row(&page, INDENT + 3, "do", "", "%s", incident_action(incident));
    if (incident->runbook[0] || runbook_find(incident->class))
        add_row(&page, INDENT + 3, "runbook", "", "%s%s", incident->runbook[0] ? incident->runbook : "stoker runbook ",
                incident->runbook[0] ? "" : incident->class);
    add_row(&page, INDENT + 3, "state", "", "%s%s%s%s", incident_states[incident->state].key,
            incident->state == INCIDENT_CLEARED ? ": " : "", incident_ends[incident->end].text,
            incident->silenced ? ", in maintenance" : "");
    add_row(&page, INDENT + 3, "class", "", "%s, %s; cause: %s", incident->class,
            fault_severities[incident->severity].key, fault_causes[incident->cause].text);
    add_row(&page, INDENT + 3, "goes to", "", "%s", fault_routes[incident->route].text);
    add_device_rows(&page, incident);
    if (incident->pid >= 0)
        add_row(&page, INDENT + 3, "process", "", "%s (%d)", incident->process, incident->pid);
    add_affected(&page, INDENT + 3, "affected", incident, "");
    add_row(&page, INDENT + 3, "driver", "", "%s", incident->driver_version);
    add_time_row(&page, "first", incident->first_real_ns);
    add_time_row(&page, "opened", incident->opened_real_ns);
    add_time_row(&page, "updated", incident->updated_real_ns);
    add_time_row(&page, "cleared", incident->cleared_real_ns);
    add_row(&page, INDENT + 3, "seen", "", "%llu, and %llu consequences; escalated %u, came back %u",
            (unsigned long long)incident->count, (unsigned long long)incident->echo_count, incident->escalations,
            incident->reopened);
    add_row(&page, INDENT + 3, "id", "", "%s", incident->id);
    add_evidence(&page, incident);
    add_counters(&page, incident);
}

void event_seen_text(const EventSeen *seen, const IncidentStyle *style, Str *out)
{
    const Page page = make_page(style, out);
    const Event *event = &seen->event;
    char at[CLOCK_TEXT_MAX], where[PCI_TEXT_CAP] = "node", what[48];

    clock_format(at, event->real_ns);
    if (seen->gpu != DEVICE_NO_NUMBER)
        snprintf(where, sizeof where, "GPU %u", seen->gpu);
    else if (event->has_pci)
        pci_format(event->pci, PCI_FORM_SYSFS, where);
    if (event->kind == EVENT_XID || event->kind == EVENT_SXID)
        snprintf(what, sizeof what, "%s %d", event->kind == EVENT_XID ? "XID" : "SXid", event->code);
    else
        snprintf(what, sizeof what, "%s", event_kinds[event->kind].key);
    str_addf(out, "%s  %-12s  %-16s  ", at, where, what);
    const size_t begin = out->len;
    str_add(out, event->text);
    replace_foreign(&page, begin);
    if (seen->incident[0])
        str_addf(out, "  [%s]", seen->incident);
}
