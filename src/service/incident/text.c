/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "service/incident/incident.h"
#include "service/runbook/runbook.h"

enum { WIDTH_MIN = 40, INDENT = 9, AGE_CAP = 32, LINE_MAX_BYTES = 4096 };

typedef struct Page {
    const IncidentStyle *style;
    size_t width;
    Str *out;
} Page;

static Page page_of(const IncidentStyle *style, Str *out)
{
    return (Page){.style = style, .width = style->width < WIDTH_MIN ? WIDTH_MIN : style->width, .out = out};
}

static void colour(const Page *page, const char *code)
{
    if (page->style->colour)
        str_addf(page->out, "\033[%sm", code);
}

static const char *const severity_colours[SEVERITY_END] = {"2", "33", "31", "1;31"};

/* "12 s", "4 min", "3 h", "5 d". */
static const char *age(const Page *page, uint64_t real_ns, char out[AGE_CAP])
{
    const uint64_t seconds = page->style->real_ns > real_ns ? (page->style->real_ns - real_ns) / NS_PER_S : 0;

    if (seconds < 120)
        snprintf(out, AGE_CAP, "%llu s", (unsigned long long)seconds);
    else if (seconds < 120 * 60)
        snprintf(out, AGE_CAP, "%llu min", (unsigned long long)(seconds / 60));
    else if (seconds < 48 * 3600)
        snprintf(out, AGE_CAP, "%llu h", (unsigned long long)(seconds / 3600));
    else
        snprintf(out, AGE_CAP, "%llu d", (unsigned long long)(seconds / 86400));
    return out;
}

/* Characters of a word of clean text. */
static size_t columns_of(const char *text, size_t len)
{
    size_t columns = 0;

    for (size_t i = 0; i < len; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

static void add_word(const Page *page, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (page->style->utf8 || (unsigned char)word[i] < 0x80)
            str_addc(page->out, word[i]);
        else if (((unsigned char)word[i] & 0xc0) == 0xc0)
            str_addc(page->out, '?');
}

/* Words into the width; `column` is where the line is, `indent` where the next ones begin. Ends the line. */
static void wrap(const Page *page, size_t column, size_t indent, const char *text)
{
    bool first = true;

    while (*text) {
        const size_t len = strcspn(text, " "), columns = columns_of(text, len);

        if (!first && column + 1 + columns > page->width) {
            str_addf(page->out, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (!first) {
            str_addc(page->out, ' ');
            column++;
        }
        add_word(page, text, len);
        column += columns;
        first = false;
        text += len;
        text += strspn(text, " ");
    }
    str_addc(page->out, '\n');
}

__attribute__((format(printf, 4, 5))) static void wrapf(const Page *page, size_t column, size_t indent, const char *fmt,
                                                        ...)
{
    char text[LINE_MAX_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    wrap(page, column, indent, text);
}

/* --- a list ------------------------------------------------------------------------------------------------------- */

/* Open before cleared, the worse before the milder, the newer before the older. */
static int more_urgent(const void *a, const void *b)
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
    char since[AGE_CAP], ended[AGE_CAP];

    colour(page, over ? "2" : severity_colours[incident->severity]);
    str_addf(page->out, "%-*s", INDENT, over ? "cleared" : fault_severities[incident->severity].key);
    wrap(page, INDENT, INDENT, incident->title);
    colour(page, "0");
    str_addf(page->out, "%*s", INDENT, "");
    if (over) {
        wrapf(page, INDENT, INDENT, "%s; it lasted from %s ago until %s ago; %s", incident_end_text(incident->end),
              age(page, incident->opened_real_ns, since), age(page, incident->cleared_real_ns, ended), incident->id);
        return;
    }
    wrapf(page, INDENT, INDENT, "do: %s", fault_actions[incident->action].text);
    str_addf(page->out, "%*s", INDENT, "");
    colour(page, "2");
    wrapf(page, INDENT, INDENT, "for %s, seen %llu time%s, %s, %s%s%s", age(page, incident->opened_real_ns, since),
          (unsigned long long)incident->count, incident->count == 1 ? "" : "s",
          incident->route == ROUTE_NONE ? "nobody is told" : fault_routes[incident->route].key, incident->id,
          incident->silenced ? ", in maintenance " : "", incident->silenced ? incident->window : "");
    colour(page, "0");
}

size_t incidents_urgent(const Incident *const *incidents, size_t count, const Incident **out, size_t cap)
{
    CLEANUP_FREE const Incident **sorted = xcalloc(count + 1, sizeof *sorted);

    if (count == 0)
        return 0;
    memcpy(sorted, incidents, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, more_urgent);
    if (count > cap)
        count = cap;
    memcpy(out, sorted, count * sizeof *sorted);
    return count;
}

void incidents_text(const Incident *const *incidents, size_t count, const IncidentStyle *style, Str *out)
{
    const Page page = page_of(style, out);
    CLEANUP_FREE const Incident **sorted = xcalloc(count + 1, sizeof *sorted);

    if (count == 0) {
        str_add(out, "no incident\n");
        return;
    }
    incidents_urgent(incidents, count, sorted, count);
    for (size_t i = 0; i < count; i++)
        add_item(&page, sorted[i]);
}

/* --- a card ------------------------------------------------------------------------------------------------------- */

static const char *const wants[ROUTE_END] = {
    [ROUTE_NONE] = "Nobody is told",
    [ROUTE_USER] = "It is for the owner of the work",
    [ROUTE_TICKET] = "It can wait for working hours (ticket)",
    [ROUTE_PAGE] = "It wants somebody at once (page)",
};

/* How much of a verdict is what was seen, each with its time, before the advice begins; see
 * engine/health/incident_text.c. 0: nothing. */
static size_t seen_len(const Incident *incident)
{
    static const char clock[] = " UTC";
    const char *last = NULL;

    for (const char *at = incident->verdict; (at = strstr(at, clock)) != NULL;)
        last = at += sizeof clock - 1;
    const char *end = last ? strstr(last, ". ") : NULL;
    return last ? (size_t)((end ? end : last + strlen(last)) - incident->verdict) : 0;
}

/* What to do, without the action, which has a line of its own. */
static const char *advice_of(const Incident *incident)
{
    const size_t seen = seen_len(incident);
    const char *advice = incident->verdict + seen;
    char again[LINE_MAX_BYTES];

    if (seen > 0)
        advice += strspn(advice, ". ");
    snprintf(again, sizeof again, "Do: %s. ", fault_actions[incident->action].text);
    return strncmp(advice, again, strlen(again)) == 0 ? advice + strlen(again) : advice;
}

static void card_row(const Page *page, const char *name, const char *code, const char *text)
{
    colour(page, "2");
    str_addf(page->out, " %-*s", INDENT - 1, name);
    colour(page, "0");
    if (code[0])
        colour(page, code);
    wrap(page, INDENT, INDENT, text);
    if (code[0])
        colour(page, "0");
}

static void maintenance_row(const Page *page, const Incident *incident)
{
    char text[LINE_MAX_BYTES];

    if (!incident->silenced)
        return;
    snprintf(text, sizeof text, "in maintenance, window %s: nobody is called", incident->window);
    card_row(page, "silent", "", text);
}

/* What was seen and since when: from the verdict, or where it had no room for it, the first sign. */
static void why_row(const Page *page, const Incident *incident)
{
    const int len = (int)seen_len(incident);
    const IncidentSign *sign = incident->first;
    char text[LINE_MAX_BYTES], since[AGE_CAP], at[CLOCK_TEXT_MAX];

    age(page, incident->opened_real_ns, since);
    if (len > 0) {
        snprintf(text, sizeof text, "%.*s; for %s", len, incident->verdict, since);
    } else if (incident->first_len > 0) {
        clock_format(at, sign->real_ns);
        snprintf(text, sizeof text, "%s at %.8s UTC; for %s", sign->text, at + 11, since);
    } else {
        snprintf(text, sizeof text, "for %s, seen %llu time%s", since, (unsigned long long)incident->count,
                 incident->count == 1 ? "" : "s");
    }
    card_row(page, "why", "", text);
}

static void more_row(const Page *page, const Incident *incident)
{
    char text[LINE_MAX_BYTES], steps[64] = "";

    if (runbook_find(incident->class))
        snprintf(steps, sizeof steps, "stoker runbook %s; ", incident->id);
    snprintf(text, sizeof text, "%sstoker incidents show %s%s%s", steps, incident->id, incident->runbook[0] ? "; " : "",
             incident->runbook);
    card_row(page, "more", "", text);
}

void incident_card(const Incident *incident, const IncidentStyle *style, Str *out)
{
    const Page page = page_of(style, out);
    const char *advice = advice_of(incident);
    char text[LINE_MAX_BYTES];

    colour(&page, severity_colours[incident->severity]);
    str_addf(out, "%-*s", INDENT, fault_severities[incident->severity].key);
    wrap(&page, INDENT, INDENT, incident->title);
    colour(&page, "0");
    card_row(&page, "DO", "1", fault_actions[incident->action].text);
    if (advice[0])
        card_row(&page, "", "", advice);
    snprintf(text, sizeof text, "%s. %s.", fault_severities[incident->severity].text, wants[incident->route]);
    card_row(&page, "means", "", text);
    maintenance_row(&page, incident);
    why_row(&page, incident);
    more_row(&page, incident);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void row(const Page *page, const char *name, const char *fmt, ...)
{
    char text[LINE_MAX_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!text[0])
        return;
    colour(page, "2");
    str_addf(page->out, "%-*s", INDENT + 3, name);
    colour(page, "0");
    wrap(page, INDENT + 3, INDENT + 3, text);
}

static void time_row(const Page *page, const char *name, uint64_t real_ns)
{
    char at[CLOCK_TEXT_MAX], ago[AGE_CAP];

    if (real_ns == 0)
        return;
    clock_format(at, real_ns);
    row(page, name, "%s, %s ago", at, age(page, real_ns, ago));
}

static void device_rows(const Page *page, const Incident *incident)
{
    const Device *device = &incident->device;
    char pci[PCI_TEXT_CAP] = "";

    if (device->kind == DEVICE_NODE)
        return;
    if (device->has_pci)
        pci_format(device->pci, PCI_FORM_SYSFS, pci);
    row(page, "device", "%s %s %s%s%s", device->name, pci, device->uuid[0] ? device->uuid : device->parent_uuid,
        device->serial[0] ? ", serial number " : "", device->serial);
    if (device->gpu_instance != DEVICE_NO_NUMBER)
        row(page, "instance", "GPU instance %u", device->gpu_instance);
}

static void signs(const Page *page, const IncidentSign *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char at[CLOCK_TEXT_MAX];

        clock_format(at, list[i].real_ns);
        str_addf(page->out, "  %s  %-10s ", at, event_origin_key(list[i].origin));
        wrap(page, 2 + 24 + 2 + 11, 6, list[i].text);
    }
}

static void evidence(const Page *page, const Incident *incident)
{
    const uint64_t shown = incident->first_len + incident->last_len;
    const uint64_t all = incident->count + incident->echo_count;

    if (shown == 0)
        return;
    str_add(page->out, "\nwhat was seen\n");
    signs(page, incident->first, incident->first_len);
    if (all > shown)
        str_addf(page->out, "  ... and %llu more\n", (unsigned long long)(all - shown));
    signs(page, incident->last, incident->last_len);
}

static void value(const Page *page, double number)
{
    if (isfinite(number))
        str_addf(page->out, " %14.6g", number);
    else
        str_addf(page->out, " %14s", "-");
}

static void counters(const Page *page, const Incident *incident)
{
    if (incident->counter_len)
        str_add(page->out, "\nbefore and after\n");
    for (uint32_t i = 0; i < incident->counter_len; i++) {
        str_addf(page->out, "  %-48s", incident->counters[i].name);
        value(page, incident->counters[i].before);
        value(page, incident->counters[i].after);
        str_addc(page->out, '\n');
    }
}

void incident_sheet(const Incident *incident, const IncidentStyle *style, Str *out)
{
    const Page page = page_of(style, out);

    colour(&page, incident->state == INCIDENT_CLEARED ? "2" : severity_colours[incident->severity]);
    wrap(&page, 0, 0, incident->title);
    colour(&page, "0");
    wrap(&page, 0, 0, incident->verdict);
    str_addc(out, '\n');
    row(&page, "do", "%s", fault_actions[incident->action].text);
    if (incident->runbook[0] || runbook_find(incident->class))
        row(&page, "runbook", "%s%s", incident->runbook[0] ? incident->runbook : "stoker runbook ",
            incident->runbook[0] ? "" : incident->class);
    row(&page, "state", "%s%s%s%s", incident_state_key(incident->state),
        incident->state == INCIDENT_CLEARED ? ": " : "", incident_end_text(incident->end),
        incident->silenced ? ", in maintenance" : "");
    row(&page, "class", "%s, %s; cause: %s", incident->class, fault_severities[incident->severity].key,
        fault_causes[incident->cause].text);
    row(&page, "told to", "%s", fault_routes[incident->route].text);
    device_rows(&page, incident);
    if (incident->pid >= 0)
        row(&page, "process", "%s (%d)", incident->process, incident->pid);
    row(&page, "job", "%s", incident->job);
    row(&page, "driver", "%s", incident->driver_version);
    time_row(&page, "first", incident->first_real_ns);
    time_row(&page, "opened", incident->opened_real_ns);
    time_row(&page, "updated", incident->updated_real_ns);
    time_row(&page, "cleared", incident->cleared_real_ns);
    row(&page, "seen", "%llu, and %llu consequences; escalated %u, came back %u", (unsigned long long)incident->count,
        (unsigned long long)incident->echo_count, incident->escalations, incident->reopened);
    row(&page, "id", "%s", incident->id);
    evidence(&page, incident);
    counters(&page, incident);
}

void event_seen_text(const EventSeen *seen, const IncidentStyle *style, Str *out)
{
    const Page page = page_of(style, out);
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
        snprintf(what, sizeof what, "%s", event_kind_key(event->kind));
    str_addf(out, "%s  %-12s  %-16s  ", at, where, what);
    add_word(&page, event->text, strlen(event->text));
    if (seen->incident[0])
        str_addf(out, "  [%s]", seen->incident);
}

void event_text(const Event *event, const Node *node, const IncidentStyle *style, Str *out)
{
    EventSeen seen = {.event = *event, .gpu = DEVICE_NO_NUMBER};

    for (size_t i = 0; node && event->has_pci && i < node->gpu_count; i++)
        if (node->gpus[i].reading.device.has_pci && pci_compare(node->gpus[i].reading.device.pci, event->pci) == 0)
            seen.gpu = node->gpus[i].reading.device.index;
    event_seen_text(&seen, style, out);
}
