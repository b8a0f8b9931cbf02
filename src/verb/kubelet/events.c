/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/kubelet/events.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "base/vec.h"

enum { NOTES_MAX = 256, BURST = 10, MESSAGE_CAP = 1024, BODY_MAX = 16 << 10, TICK_MS = 1000 };
#define PATH "/api/v1/namespaces/default/events"
#define BURST_NS NS_PER_MIN
#define COUNT_NS NS_PER_MIN /* between two new counts of one event */
#define RETRY_NS_MAX (5 * NS_PER_MIN)

/* What is to be told of an incident, and what has been. */
typedef struct Note {
    char id[INCIDENT_ID_CAP], reason[NODE_REASON_CAP], title[INCIDENT_TEXT_CAP];
    const char *action;
    bool warning, open; /* it is open in the last snapshot */
    bool opened;        /* its event is there */
    uint64_t first_real_ns, last_real_ns, count, told_count;
    uint64_t told_ns; /* when the count was told */
} Note;

struct NodeEvents {
    KubeApi *api;
    const char *node;
    const Log *log;
    uv_timer_t timer;
    KubeCall *call; /* under way, for `asked` */
    char asked[INCIDENT_ID_CAP];
    bool told; /* the last answer was a failure, which was logged */
    uint64_t due_ns, retry_ns;
    LogLimit budget;
    VEC(Note) notes;
};

void node_reason(const char *class, char to[NODE_REASON_CAP])
{
    size_t n = 0;
    bool up = true;

    for (const char *at = class; *at && n + 1 < NODE_REASON_CAP; at++) {
        if (isalnum((unsigned char)*at))
            to[n++] = up ? (char)toupper((unsigned char)*at) : *at;
        up = !isalnum((unsigned char)*at);
    }
    to[n] = '\0';
}

static Note *find_note(NodeEvents *events, const char *id)
{
    for (size_t i = 0; i < events->notes.len; i++)
        if (strcmp(events->notes.at[i].id, id) == 0)
            return &events->notes.at[i];
    return NULL;
}

/* -- requests --------------------------------------------------------------------------------------------------------
 */

static void add_event(const NodeEvents *events, const Note *note, Str *body)
{
    char message[MESSAGE_CAP];

    snprintf(message, sizeof message, "%s: %s (incident %s)", note->title, note->open ? note->action : "over",
             note->id);
    json_open(body, "metadata", '{');
    json_add_text(body, "namespace", "default");
    json_add_key(body, "name");
    str_addf(body, "\"%s.stoker.%s%s\"", events->node, note->id, note->open ? "" : ".end");
    json_close(body, '}');
    json_open(body, "involvedObject", '{');
    json_add_text(body, "apiVersion", "v1");
    json_add_text(body, "kind", "Node");
    json_add_text(body, "name", events->node);
    json_add_text(body, "uid", events->node); /* as the kubelet's own events have it */
    json_close(body, '}');
    json_open(body, "source", '{');
    json_add_text(body, "component", "stoker");
    json_add_text(body, "host", events->node);
    json_close(body, '}');
    json_add_text(body, "type", note->open && note->warning ? "Warning" : "Normal");
    json_add_text(body, "reason", note->reason);
    json_add_text(body, "message", message);
}

/* RFC 3339 without a fraction, as metav1.Time. */
static void add_stamp(Str *body, const char *key, uint64_t real_ns)
{
    char text[CLOCK_TEXT_MAX];

    clock_format(text, real_ns);
    snprintf(strchr(text, '.'), 2, "Z");
    json_add_text(body, key, text);
}

static void on_reply(void *self, const KubeReply *reply);

/* A new event, or with `again` the count of one that is there. */
static void send_note(NodeEvents *events, const Note *note, bool again)
{
    CLEANUP(str_done) Str body = str_limited(BODY_MAX), path = str_limited(MESSAGE_CAP);

    json_open(&body, NULL, '{');
    if (!again) {
        add_event(events, note, &body);
        add_stamp(&body, "firstTimestamp", note->open ? note->first_real_ns : clock_real(clock_kernel()));
    }
    add_stamp(&body, "lastTimestamp", note->open ? note->last_real_ns : clock_real(clock_kernel()));
    json_add_u64(&body, "count", note->open ? note->count : 1);
    json_close(&body, '}');
    str_add(&path, PATH);
    if (again)
        str_addf(&path, "/%s.stoker.%s", events->node, note->id);
    snprintf(events->asked, sizeof events->asked, "%s", note->id);
    const KubeRequest request = {.method = again ? "PATCH" : "POST", .path = path.text, .body = body.text};
    kube_call_new(events->api, &request, on_reply, events, &events->call);
}

static bool is_counted_anew(const Note *note)
{
    return note->open && note->opened && note->count > note->told_count && uv_hrtime() - note->told_ns >= COUNT_NS;
}

/* The next thing to tell, one at a time. */
static void send_next(NodeEvents *events)
{
    uint64_t held;

    if (events->call || uv_hrtime() < events->due_ns)
        return;
    for (size_t i = 0; i < events->notes.len; i++) {
        const Note *note = &events->notes.at[i];
        const bool again = is_counted_anew(note);

        if (!again && note->open == note->opened)
            continue;
        if (log_limit(&events->budget, uv_hrtime(), &held))
            send_note(events, note, again);
        return;
    }
}

static void fail_call(NodeEvents *events, const KubeReply *reply)
{
    events->retry_ns = number_min_u64(events->retry_ns ? 2 * events->retry_ns : NS_PER_S, RETRY_NS_MAX);
    events->due_ns = uv_hrtime() + number_max_u64(events->retry_ns, reply->wait_ns);
    if (!events->told)
        log_write(events->log, LOG_LEVEL_WARN,
                  "API server: events of the node cannot be written: %s; it is tried again", reply->text);
    events->told = true;
}

static void on_reply(void *self, const KubeReply *reply)
{
    NodeEvents *events = self;
    Note *note = find_note(events, events->asked);

    events->call = NULL;
    if (reply->state == KUBE_NOT_FOUND && note && note->opened && note->open) {
        note->opened = false; /* it was too old: the server dropped it */
    } else if (reply->state != KUBE_OK && reply->state != KUBE_CONFLICT) {
        fail_call(events, reply);
        return;
    } else if (note && note->opened && !note->open) {
        vec_remove(&events->notes, (size_t)(note - events->notes.at));
    } else if (note) {
        note->told_count = note->count; /* KUBE_CONFLICT: it was told before a restart */
        note->told_ns = uv_hrtime();
        note->opened = true;
    }
    events->told = false;
    events->retry_ns = 0;
    send_next(events);
}

static void on_timer(uv_timer_t *timer)
{
    send_next(timer->data);
}

/* -- the header's functions ------------------------------------------------------------------------------------------
 */

static void note_incident(NodeEvents *events, const Incident *incident)
{
    Note *note = find_note(events, incident->id);

    if (!note && (events->notes.len == NOTES_MAX || incident->silenced))
        return;
    if (!note) {
        note = vec_add(&events->notes);
        snprintf(note->id, sizeof note->id, "%s", incident->id);
    }
    node_reason(incident->class, note->reason);
    snprintf(note->title, sizeof note->title, "%s", incident->title);
    note->action = incident_action(incident);
    note->warning = incident->severity > SEVERITY_INFO;
    note->first_real_ns = incident->first_real_ns;
    note->last_real_ns = incident->updated_real_ns;
    note->count = number_max_u64(incident->count, 1);
    note->open = true;
}

void node_events_set(NodeEvents *events, const Snapshot *snapshot)
{
    for (size_t i = 0; i < events->notes.len; i++)
        events->notes.at[i].open = false;
    for (size_t i = 0; i < snapshot->incident_count; i++)
        if (snapshot->incidents[i]->state == INCIDENT_OPEN)
            note_incident(events, snapshot->incidents[i]);
    for (size_t i = 0; i < events->notes.len;) {
        const Note *note = &events->notes.at[i];

        if (!note->open && !note->opened && !(events->call && strcmp(note->id, events->asked) == 0))
            vec_remove(&events->notes, i); /* it came and went untold */
        else
            i++;
    }
    send_next(events);
}

NodeEvents *node_events_new(uv_loop_t *loop, KubeApi *api, const char *node, const Log *log)
{
    NodeEvents *events = xcalloc(1, sizeof *events);

    events->api = api;
    events->node = node;
    events->log = log;
    events->budget = (LogLimit){.window_ns = BURST_NS, .burst = BURST};
    uv_timer_init(loop, &events->timer); /* cannot fail */
    events->timer.data = events;
    uv_timer_start(&events->timer, on_timer, TICK_MS, TICK_MS);
    return events;
}

static void on_timer_closed(uv_handle_t *handle)
{
    NodeEvents *events = handle->data;

    vec_done(&events->notes);
    free(events);
}

void node_events_close(NodeEvents *events)
{
    if (!events)
        return;
    kube_call_cancel(TAKE(events->call));
    uv_close((uv_handle_t *)&events->timer, on_timer_closed);
}
