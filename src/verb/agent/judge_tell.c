/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/agent/judge_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/owner.h"
#include "service/incident/incident.h"

enum { BUNDLE_MAX = 8 << 20, BOX_EVENTS = 64 };

#define BOX_AFTER_NS (60 * NS_PER_S)

static void log_change(const Judge *judge, const Incident *incident, IncidentChange change)
{
    const bool over = change == INCIDENT_CHANGE_CLEARED;
    const LogLevel level = incident->severity >= SEVERITY_ERROR && !over ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN;

    if (change == INCIDENT_CHANGE_UPDATED)
        return;
    log_write(judge->log, over ? LOG_LEVEL_INFO : level, "incident %s %s: %s%s%s", incident->id,
              incident_change_key(change), incident->title, over ? "; " : "; what to do: ",
              over ? incident_end_text(incident->end) : fault_actions[incident->action].text);
}

static void note_box(Judge *judge, const Incident *incident)
{
    JudgeBox box = {.due_ns = judge_now(judge) + BOX_AFTER_NS};

    memcpy(box.incident, incident->id, sizeof box.incident);
    vec_push(&judge->boxes, box);
}

void judge_keep_bundle(Judge *judge, const Incident *incident)
{
    BundleEvent events[BOX_EVENTS];
    const Node *node = view_node(judge->eyes->view);
    const uint64_t from = judge->event_count > BOX_EVENTS ? judge->event_count - BOX_EVENTS : 0;
    size_t count = 0;
    CLEANUP(str_done) Str text = {0};

    for (uint64_t n = from; n < judge->event_count; n++) {
        const JudgeEvent *event = &judge->events[n % JUDGE_EVENTS];

        events[count++] = (BundleEvent){.event = &event->event, .incident = event->incident};
    }
    str_init(&text, BUNDLE_MAX);
    incident_bundle(incident, node, judge->store, events, count, &text);
    journal_put_bundle(judge->journal, incident->id, text.text, text.len);
}

void judge_told(void *self, const Incident *incident, IncidentChange change)
{
    Judge *judge = self;
    JudgeTold waits = {.change = change, .incident = *incident};

    log_change(judge, incident, change);
    judge->incident_changes++;
    waits.ticket = journal_put_incident(judge->journal, incident);
    vec_push(&judge->told, waits);
    if (change == INCIDENT_CHANGE_OPENED && incident->severity >= SEVERITY_WARNING) {
        judge_keep_bundle(judge, incident); /* after it: the evidence takes longer to write than the alert may wait */
        note_box(judge, incident);
    }
}

/* It is on disk, or the journal has said that it cannot be: now it may be told. */
void judge_acked(void *self, uint64_t ticket, bool on_disk)
{
    Judge *judge = self;
    size_t due = 0;

    (void)on_disk;
    while (due < judge->told.len && judge->told.at[due].ticket <= ticket) {
        const JudgeTold *waits = &judge->told.at[due++];

        if (judge->alerts)
            alerts_tell(judge->alerts, &waits->incident, waits->change);
        if (judge->changed)
            judge->changed(judge->self, &waits->incident, waits->change);
    }
    if (due == 0)
        return;
    memmove(judge->told.at, judge->told.at + due, (judge->told.len - due) * sizeof judge->told.at[0]);
    judge->told.len -= due;
}

void judge_close_boxes(Judge *judge, uint64_t now_ns)
{
    for (size_t i = judge->boxes.len; i-- > 0;) {
        const Incident *incident;

        if (judge->boxes.at[i].due_ns > now_ns)
            continue;
        incident = incidents_find(judge->incidents, judge->boxes.at[i].incident);
        if (incident)
            judge_keep_bundle(judge, incident);
        vec_remove(&judge->boxes, i);
    }
}
