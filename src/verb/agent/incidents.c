/* SPDX-License-Identifier: Apache-2.0 */
/* Incidents, events and maintenance over HTTP, in the event stream, and on the control socket:
 *   incidents json|text WIDTH STYLE open|all [DEVICE]    STYLE: 1 colour, 2 UTF-8, 3 both, 0 neither
 *   incident json|text WIDTH STYLE ID
 *   events json|text WIDTH STYLE FROM                    those with numbers over FROM; the first line is the next FROM
 *                                                        and a number that is another one in each agent
 *   clear ID WHO                                         a GPU that it missed is not missed again
 *   maintenance start SECONDS GPUS WHO REASON...         GPUS: "all" or indexes with commas
 *   maintenance stop ID|all WHO
 *   maintenance list json
 *   journal                                              the file
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/incident/incident.h"
#include "service/status/status.h"
#include "verb/agent/agent.h"
#include "verb/verb.h"

enum { WIDTH_MAX = 10000, WINDOW_MAX_S = 366 * 24 * 3600, BODY_MAX = 1 << 20 };

/* --- which ones --------------------------------------------------------------------------------------------------- */

static bool is_about(const Agent *agent, const Incident *incident, const char *device)
{
    char key[DEVICE_KEY_CAP];
    const NodeGpu *gpu;

    if (device_key(&incident->device, key) >= 0 && strcmp(key, device) == 0)
        return true;
    return api_find(board_reader_node(agent->sampling.reader), device, &gpu) && incident->device.has_pci &&
           pci_compare(incident->device.pci, gpu->reading.device.pci) == 0;
}

static size_t pick_incidents(const Agent *agent, const AgentQuery *query, const Incident *out[INCIDENTS_MAX])
{
    const Incidents *all = agent->judge.incidents;
    size_t count = 0;

    for (size_t i = 0; i < incidents_count(all) && count < INCIDENTS_MAX; i++) {
        const Incident *incident = incidents_at(all, i);

        if (incident->state == INCIDENT_PENDING || (query->open_only && incident->state != INCIDENT_OPEN))
            continue;
        if (query->device && !is_about(agent, incident, query->device))
            continue;
        out[count++] = incident;
    }
    return count;
}

void agent_incidents_json(const Agent *agent, const AgentQuery *query, Str *out)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    const Incident *list[INCIDENTS_MAX];

    incidents_json(list, pick_incidents(agent, query, list), node->hostname, node->real_ns, out);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

typedef struct EventsOut {
    const Agent *agent;
    const IncidentStyle *style; /* NULL: JSON */
    const char *between;
    Str *out;
    size_t count;
} EventsOut;

static void add_event(void *self, const JudgeEvent *event)
{
    EventsOut *list = self;
    const Node *node = board_reader_node(list->agent->sampling.reader);

    if (list->count++)
        str_add(list->out, list->between);
    if (list->style)
        event_text(&event->event, node, list->style, list->out);
    else
        event_json(&event->event, event->incident, node, list->out);
}

void agent_events_json(const Agent *agent, uint64_t from, Str *out)
{
    EventsOut list = {.agent = agent, .between = ",", .out = out};

    str_add(out, "{\"events\":[");
    const uint64_t next = judge_each_event(&agent->judge, from, add_event, &list);
    str_addf(out, "],\"next\":%llu}\n", (unsigned long long)next);
}

/* --- the stream --------------------------------------------------------------------------------------------------- */

static void send_all(Agent *agent, Str *text)
{
    const size_t len = text->len;
    HttpBody *body = http_body_new(str_take(text), len);

    for (size_t i = agent->stream_count; i-- > 0;)
        http_stream_send(agent->streams[i], body);
    http_body_unref(body);
}

void agent_incident_changed(void *self, const Incident *incident, IncidentChange change)
{
    Agent *agent = self;
    Str text;

    exporter_incident(agent->exporter, incident, change);
    if (agent->stream_count == 0)
        return;
    str_init(&text, BODY_MAX);
    str_addf(&text, "event: incident\ndata: {\"change\":\"%s\",\"incident\":", incident_change_key(change));
    incident_json(incident, &text);
    str_add(&text, "}\n\n");
    send_all(agent, &text);
}

void agent_event_happened(void *self, const JudgeEvent *event)
{
    Agent *agent = self;
    Str text;

    exporter_event(agent->exporter, &event->event);
    if (agent->stream_count == 0)
        return;
    str_init(&text, BODY_MAX);
    str_add(&text, "event: event\ndata: ");
    event_json(&event->event, event->incident, board_reader_node(agent->sampling.reader), &text);
    str_add(&text, "\n\n");
    send_all(agent, &text);
}

/* --- the control socket ------------------------------------------------------------------------------------------- */

typedef struct Words {
    const char *const *at;
    size_t count;
    bool owner;
} Words;

static int answer_usage(Str *out, const char *what)
{
    str_addf(out, "%s\n", what);
    return EXIT_USAGE;
}

static int answer_refused(Str *out)
{
    str_add(out, "only root and the agent's own user may do this\n");
    return EXIT_UNKNOWN;
}

/* "json", or "text WIDTH STYLE"; both take three words. */
static bool read_style(const Agent *agent, const Words *words, bool *json, IncidentStyle *style)
{
    uint64_t width = 0, bits = 0;

    *json = strcmp(words->at[1], "json") == 0;
    if ((!*json && strcmp(words->at[1], "text") != 0) ||
        number_parse_u64(words->at[2], 0, WIDTH_MAX, &width, NULL) < 0 ||
        number_parse_u64(words->at[3], 0, 3, &bits, NULL) < 0)
        return false;
    *style = (IncidentStyle){.width = width,
                             .colour = bits & 1,
                             .utf8 = bits & 2,
                             .real_ns = board_reader_node(agent->sampling.reader)->real_ns};
    return true;
}

static int answer_incidents(Agent *agent, const Words *words, Str *out)
{
    AgentQuery query = {.open_only = true};
    const Incident *list[INCIDENTS_MAX];
    IncidentStyle style;
    bool json, open = false;

    if (words->count < 5 || words->count > 6 || !read_style(agent, words, &json, &style))
        return answer_usage(out, "incidents: json|text WIDTH STYLE open|all [DEVICE]");
    query.open_only = strcmp(words->at[4], "all") != 0;
    query.device = words->count == 6 ? words->at[5] : NULL;
    const size_t count = pick_incidents(agent, &query, list);
    if (json)
        agent_incidents_json(agent, &query, out);
    else
        incidents_text(list, count, &style, out);
    for (size_t i = 0; i < count; i++)
        open |= list[i]->state == INCIDENT_OPEN && list[i]->severity >= SEVERITY_WARNING;
    return open ? EXIT_FINDING : EXIT_FINE;
}

static int answer_incident(Agent *agent, const Words *words, Str *out)
{
    IncidentStyle style;
    bool json;

    if (words->count != 5 || !read_style(agent, words, &json, &style))
        return answer_usage(out, "incident: json|text WIDTH STYLE ID");
    const Incident *incident = incidents_find(agent->judge.incidents, words->at[4]);
    if (!incident)
        return EXIT_UNKNOWN; /* the journal may know it */
    if (json) {
        incident_json(incident, out);
        str_addc(out, '\n');
    } else {
        incident_sheet(incident, &style, out);
    }
    return EXIT_FINE;
}

static int answer_events(Agent *agent, const Words *words, Str *out)
{
    EventsOut list = {.agent = agent, .between = "\n", .out = out};
    IncidentStyle style;
    uint64_t from;
    bool json;

    if (words->count != 5 || !read_style(agent, words, &json, &style) ||
        number_parse_u64(words->at[4], 0, UINT64_MAX, &from, NULL) < 0)
        return answer_usage(out, "events: json|text WIDTH STYLE FROM");
    list.style = json ? NULL : &style;
    str_addf(out, "%llu %llu\n", (unsigned long long)agent->judge.event_count,
             (unsigned long long)agent->start_real_ns);
    judge_each_event(&agent->judge, from, add_event, &list);
    if (list.count)
        str_addc(out, '\n');
    return EXIT_FINE;
}

static int answer_clear(Agent *agent, const Words *words, Str *out)
{
    const char *id = words->count == 3 ? words->at[1] : "";
    Err err;

    if (words->count != 3)
        return answer_usage(out, "clear: ID WHO");
    if (!words->owner)
        return answer_refused(out);
    if (incidents_clear(agent->judge.incidents, id, words->at[2], board_now(agent->sampling.board),
                        sampling_real_ns(&agent->sampling), &err) < 0) {
        str_addf(out, "%s\n", err.text);
        return EXIT_UNKNOWN;
    }
    const Incident *over = incidents_find(agent->judge.incidents, id);
    const size_t forgotten = over ? judge_forget_missing(&agent->judge, over, words->at[2]) : 0;
    if (forgotten > 0)
        str_addf(out, "%zu GPU%s no longer missed\n", forgotten, forgotten == 1 ? " is" : "s are");
    return EXIT_FINE;
}

/* "all", or indexes with commas, of GPUs that there are. */
static bool read_gpus(const Node *node, const char *text, MaintenanceWindow *window)
{
    size_t uuids = 0;

    if (strcmp(text, "all") == 0)
        return true;
    while (*text) {
        const size_t len = strcspn(text, ",");
        char one[DEVICE_UUID_CAP];
        const NodeGpu *gpu;

        snprintf(one, sizeof one, "%.*s", (int)len, text);
        if (len >= sizeof one || !api_find(node, one, &gpu) || gpu->reading.device.index >= 64)
            return false;
        window->gpus |= UINT64_C(1) << gpu->reading.device.index;
        if (uuids < ARRAY_LEN(window->uuids))
            memcpy(window->uuids[uuids++], gpu->reading.device.uuid, DEVICE_UUID_CAP);
        text += len + (text[len] == ',');
    }
    return window->gpus != 0;
}

static int start_window(Agent *agent, const Words *words, Str *out)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    MaintenanceWindow window = {0};
    char id[INCIDENT_ID_CAP];
    uint64_t seconds;
    Err err;

    if (words->count < 5 || number_parse_u64(words->at[2], 1, WINDOW_MAX_S, &seconds, NULL) < 0)
        return answer_usage(out, "maintenance start: SECONDS GPUS WHO REASON...");
    if (!read_gpus(node, words->at[3], &window)) {
        str_addf(out, "there is no GPU '%s'; an index, a UUID or a PCI address names one\n", words->at[3]);
        return EXIT_USAGE;
    }
    snprintf(window.who, sizeof window.who, "%s", words->at[4]);
    for (size_t i = 5; i < words->count; i++)
        snprintf(window.reason + strlen(window.reason), sizeof window.reason - strlen(window.reason), "%s%s",
                 i > 5 ? " " : "", words->at[i]);
    window.from_real_ns = node->real_ns;
    window.until_real_ns = node->real_ns + seconds * NS_PER_S;
    if (maintenance_start(agent->judge.maintenance, &window, node->real_ns, id, &err) < 0) {
        str_addf(out, "%s\n", err.text);
        return EXIT_UNKNOWN;
    }
    memcpy(window.id, id, sizeof window.id);
    journal_put_window(agent->judge.journal, &window, false);
    log_write(&agent->log, LOG_LEVEL_INFO, "maintenance %s began, for %llu s: %s (%s)", id, (unsigned long long)seconds,
              window.reason, window.who);
    str_addf(out, "%s\n", id);
    return EXIT_FINE;
}

static int stop_window(Agent *agent, const Words *words, Str *out)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    Maintenance *maintenance = agent->judge.maintenance;
    Err err;

    if (words->count != 4)
        return answer_usage(out, "maintenance stop: ID|all WHO");
    for (size_t i = 0; i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);

        if (!window->recurring && (strcmp(words->at[2], "all") == 0 || strcmp(words->at[2], window->id) == 0))
            journal_put_window(agent->judge.journal, window, true);
    }
    if (maintenance_stop(maintenance, words->at[2], node->real_ns, &err) < 0) {
        str_addf(out, "%s\n", err.text);
        return EXIT_UNKNOWN;
    }
    log_write(&agent->log, LOG_LEVEL_INFO, "maintenance %s was ended by %s", words->at[2], words->at[3]);
    return EXIT_FINE;
}

void agent_maintenance_json(const Agent *agent, Str *out)
{
    const Maintenance *maintenance = agent->judge.maintenance;

    str_add(out, "{\"windows\":[");
    for (size_t i = 0; i < maintenance_count(maintenance); i++) {
        if (i)
            str_addc(out, ',');
        maintenance_window_json(maintenance_at(maintenance, i), out);
    }
    str_add(out, "]}\n");
}

static int list_windows(const Agent *agent, Str *out)
{
    agent_maintenance_json(agent, out);
    return EXIT_FINE;
}

static int answer_maintenance(Agent *agent, const Words *words, Str *out)
{
    const char *what = words->count > 1 ? words->at[1] : "";

    if (strcmp(what, "list") == 0)
        return list_windows(agent, out);
    if (!words->owner)
        return answer_refused(out);
    if (strcmp(what, "start") == 0 || strcmp(what, "stop") == 0) {
        const int code = what[2] == 'a' ? start_window(agent, words, out) : stop_window(agent, words, out);

        judge_advance(&agent->judge); /* what it covers is marked at once */
        return code;
    }
    return answer_usage(out, "maintenance: start, stop or list");
}

static int answer_journal(Agent *agent, const Words *words, Str *out)
{
    (void)words;
    str_addf(out, "%s\n", agent_journal_path(agent->started));
    return EXIT_FINE;
}

bool agent_control_incidents(Agent *agent, const char *const *words, size_t count, bool owner, Str *out, int *ret_code)
{
    static const struct {
        const char *word;
        int (*answer)(Agent *agent, const Words *words, Str *out);
    } answers[] = {
        {"incidents", answer_incidents}, {"incident", answer_incident},       {"events", answer_events},
        {"clear", answer_clear},         {"maintenance", answer_maintenance}, {"journal", answer_journal},
    };
    const Words all = {.at = words, .count = count, .owner = owner};

    for (size_t i = 0; count > 0 && i < ARRAY_LEN(answers); i++) {
        if (strcmp(words[0], answers[i].word) != 0)
            continue;
        *ret_code = answers[i].answer(agent, &all, out);
        return true;
    }
    return false;
}
