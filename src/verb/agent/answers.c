/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent answers to HTTP requests. Nothing here changes the node. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/incident/incident.h"
#include "service/runbook/runbook.h"
#include "service/status/status.h"
#include "service/web/web.h"
#include "source/proc/task.h"
#include "verb/agent/agent.h"
#include "version.h"

enum { ANSWER_MAX = 64 << 20, GZIP_LEAST = 1024, STREAM_QUEUE = 16, RECEIVERS_MAX = 32, FIELDS_MAX = 8 };

#define TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define TYPE_JSON "application/json"
#define TYPE_HTML "text/html; charset=utf-8"
#define TYPE_PLAIN "text/plain; charset=utf-8"

/* The weight that an Accept or Accept-Encoding header gives to `what` (RFC 9110 section 12.5), 0 to 1; -1 where it does
 * not name it. */
static double weight_of(const char *header, const char *what)
{
    size_t len = strlen(what);

    for (const char *at = header; at && *at;) {
        at += strspn(at, ", \t");
        size_t item = strcspn(at, ","), name = strcspn(at, ",; \t");
        if (name == len && strncasecmp(at, what, len) == 0) {
            const char *q = memmem(at, item, "q=", 2);
            double weight = 1;
            size_t digits = q ? strspn(q + 2, "0123456789.") : 0;
            if (q && number_parsen_double(q + 2, digits, 0, 1, &weight, NULL) < 0)
                weight = 0;
            return weight;
        }
        at += item;
    }
    return -1;
}

static bool takes_gzip(const HttpRequest *request)
{
    return weight_of(http_header(request, "Accept-Encoding"), "gzip") > 0;
}

static ExporterFormat format_of(const HttpRequest *request)
{
    const char *accept = http_header(request, "Accept");
    double text = weight_of(accept, "text/plain");

    if (!accept)
        return EXPORTER_TEXT;
    return weight_of(accept, "application/openmetrics-text") > (text > 0 ? text : 0) ? EXPORTER_OPENMETRICS
                                                                                     : EXPORTER_TEXT;
}

static HttpBody *take_body(Str *text)
{
    const size_t len = text->len;

    return http_body_new(str_take(text), len);
}

/* Sends what `text` holds, packed where the client takes that, and leaves it empty. `policy`: the page's
 * Content-Security-Policy, NULL none. */
static void send_page(HttpRequest *request, unsigned status, const char *type, const char *policy, Str *text)
{
    HttpField fields[3] = {{"Vary", "Accept, Accept-Encoding"}};
    size_t count = 1;
    CLEANUP(str_done) Str packed;
    Err err;

    str_init(&packed, ANSWER_MAX);
    if (text->overflow) {
        http_answer(request, 500, TYPE_PLAIN, http_body_static("the answer is too large\n", 24), NULL, 0);
        return;
    }
    if (policy)
        fields[count++] = (HttpField){"Content-Security-Policy", policy};
    if (text->len >= GZIP_LEAST && takes_gzip(request) && gzip_pack(text->text, text->len, &packed, &err) == 0) {
        fields[count++] = (HttpField){"Content-Encoding", "gzip"};
        text = &packed;
    }
    http_answer(request, status, type, take_body(text), fields, count);
}

static void send_text(HttpRequest *request, unsigned status, const char *type, Str *text)
{
    send_page(request, status, type, NULL, text);
}

static void send_problem(HttpRequest *request, unsigned status, const char *what)
{
    CLEANUP(str_done) Str text;

    str_init(&text, ANSWER_MAX);
    str_add(&text, "{\"error\":");
    str_add_json(&text, what);
    str_add(&text, "}\n");
    send_text(request, status, TYPE_JSON, &text);
}

static void write_gpus(const Agent *agent, Str *out)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);

    api_gpus(&snapshot, out);
}

static void write_status(const Agent *agent, Str *out)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);

    status_json(&snapshot, out);
}

static void fill_self(Agent *agent, ExporterSelf *self)
{
    ProcSelf proc = {0};
    HttpCounts http;
    size_t pods = 0;

    (void)proc_self_read("", &proc, NULL);
    http_server_counts(agent->http, &http);
    *self = (ExporterSelf){
        .version = STOKER_VERSION,
        .rss_bytes = proc.rss_bytes,
        .cpu_ns = proc.cpu_ns,
        .open_fds = proc.open_fds,
        .start_real_ns = agent->start_real_ns,
        .ticks = agent->ticks,
        .late_ticks = agent->late_ticks,
        .store_series = store_series_count(agent->store),
        .store_refused = store_refused(agent->store),
        .store_bytes = store_memory(agent->store).taken,
        .http_requests = http.requests,
        .http_connections = http.connections,
        .http_refused = http.refused_connections + http.evicted_connections,
        .http_auth_failures = http.auth_failures,
        .config_reloads = agent->reloads,
        .config_reload_failures = agent->reload_failures,
        .config_fine = agent->config_fine,
        .counters_left_out = agent->config->counters_left_out,
        .pods_state = "off",
        .kernel_log_lost = host_facts(agent->triage.host)->log_lost,
    };
    if (agent->pods) {
        self->pods_state = podresources_state_key(podresources_state(agent->pods));
        podresources_counts(agent->pods, &self->pods_age_ns, &self->pods_failures, &pods);
        self->pods_count = pods;
    }
}

/* The page that all scrapes of this tick share. */
static const Str *shared_page(Agent *agent, ExporterFormat format)
{
    AgentPage *page = &agent->pages[format];
    const Incident *incidents[INCIDENTS_MAX];
    AlertsReceiverState receivers[RECEIVERS_MAX];
    JournalState journal;

    if (page->tick == board_reader_node(agent->sampling.reader)->tick)
        return &page->text;
    const Snapshot snapshot = agent_snapshot(agent, incidents);
    ExporterInput input = {.snapshot = &snapshot,
                           .jobs = agent->jobs.table.at,
                           .job_count = agent->jobs.table.len,
                           .catalogue = agent->triage.catalogue,
                           .receivers = receivers,
                           .receiver_count = alerts_receivers(agent->triage.alerts, receivers, RECEIVERS_MAX)};

    fill_self(agent, &input.self);
    journal_state(agent->triage.journal, &journal);
    if (journal.health != JOURNAL_OFF)
        input.journal = &journal;
    str_clear(&page->text);
    exporter_page(agent->exporter, &input, format, &page->text);
    page->tick = snapshot.node->tick;
    return &page->text;
}

static void answer_metrics(Agent *agent, HttpRequest *request)
{
    ExporterFormat format = format_of(request);
    const char *client = http_header(request, "User-Agent");
    char scraper[WINDOW_NAME_CAP];
    WindowGpu windows[NODE_GPUS_MAX];
    uint64_t span_ns;
    CLEANUP(str_done) Str text;
    const Str *page = shared_page(agent, format);

    snprintf(scraper, sizeof scraper, "%s %s", http_remote(request), client ? client : "");
    size_t count =
        windows_read(agent->windows, scraper, board_now(agent->sampling.board), windows, NODE_GPUS_MAX, &span_ns);
    str_init(&text, ANSWER_MAX);
    str_reserve(&text, page->len + 16384);
    str_addn(&text, page->text, page->len);
    exporter_window(agent->exporter, board_reader_node(agent->sampling.reader), windows, count, span_ns, format, &text);
    send_text(request, 200, format == EXPORTER_OPENMETRICS ? TYPE_OPENMETRICS : TYPE_TEXT, &text);
}

/* dcgm-exporter's: it says that the program runs, nothing else. */
static void answer_alive(Agent *agent, HttpRequest *request)
{
    static const HttpField fields[] = {{"X-Reload-In-Progress", "false"}, {"X-Registry-Available", "true"}};

    (void)agent;
    http_answer(request, 200, TYPE_PLAIN, http_body_static("OK", 2), fields, 2);
}

/* /healthz and /readyz */
static void answer_health(Agent *agent, HttpRequest *request)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);
    CLEANUP(str_done) Str text;

    str_init(&text, ANSWER_MAX);
    const bool fine = api_health_json(&snapshot, strcmp(http_path(request), "/readyz") == 0, &text);
    send_text(request, fine ? 200 : 503, TYPE_JSON, &text);
}

static void answer_incidents(Agent *agent, HttpRequest *request)
{
    const char *state = http_query(request, "state");
    CLEANUP(str_done) Str text = {0};

    if (state && strcmp(state, "open") != 0 && strcmp(state, "all") != 0) {
        send_problem(request, 400, "state: 'open' or 'all'");
        return;
    }
    str_init(&text, ANSWER_MAX);
    agent_incidents_json(agent, state && strcmp(state, "open") == 0, http_query(request, "device"), &text);
    send_text(request, 200, TYPE_JSON, &text);
}

static void answer_incident(Agent *agent, HttpRequest *request, const char *id)
{
    const Incident *incident = incidents_find(agent->triage.incidents, id);
    CLEANUP(str_done) Str text = {0};

    if (!incident) {
        send_problem(request, 404,
                     "there is no such incident here; 'stoker incidents' asks the journal for older ones");
        return;
    }
    str_init(&text, ANSWER_MAX);
    incident_json(incident, &text);
    str_addc(&text, '\n');
    send_text(request, 200, TYPE_JSON, &text);
}

static void answer_events(Agent *agent, HttpRequest *request)
{
    const char *from = http_query(request, "from");
    uint64_t number = 0;
    CLEANUP(str_done) Str text = {0};
    Err err;

    if (from && number_parse_u64(from, 0, UINT64_MAX, &number, &err) < 0) {
        send_problem(request, 400, "from: the number of an event");
        return;
    }
    str_init(&text, ANSWER_MAX);
    agent_events_json(agent, number, &text);
    send_text(request, 200, TYPE_JSON, &text);
}

/* The list of what there is; `base` leads from where it is served to where its links begin. */
static void send_list(Agent *agent, HttpRequest *request, const char *base)
{
    CLEANUP(str_done) Str text;

    str_init(&text, ANSWER_MAX);
    api_index(board_reader_node(agent->sampling.reader), STOKER_VERSION, base, &text);
    send_text(request, 200, TYPE_HTML, &text);
}

/* A file of the page (service/web/web.h), "" the page itself; false, with nothing answered: there is none. */
static bool answer_file(HttpRequest *request, const char *path)
{
    const WebFile *file = web_find(path);
    CLEANUP(str_done) Str plain = {0};
    HttpBody *body;
    Err err;

    if (!file)
        return false;
    /* asked for anew each time and answered by its tag: after an upgrade nobody sees half of the old page */
    HttpField fields[FIELDS_MAX] = {{"Vary", "Accept, Accept-Encoding"},
                                    {"ETag", file->etag},
                                    {"Cache-Control", "no-cache"},
                                    {"Content-Security-Policy", web_policy},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cross-Origin-Opener-Policy", "same-origin"}};
    size_t count = 7;
    if (web_is_known(file, http_header(request, "If-None-Match"))) {
        http_answer(request, 304, NULL, NULL, fields, count);
        return true;
    }
    if (takes_gzip(request)) {
        fields[count++] = (HttpField){"Content-Encoding", "gzip"};
        body = http_body_static(file->packed, file->packed_len);
    } else {
        str_init(&plain, file->len + 1);
        if (gzip_unpack(file->packed, file->packed_len, &plain, &err) < 0) {
            http_answer(request, 500, TYPE_PLAIN, http_body_static("the file is damaged\n", 20), NULL, 0);
            return true;
        }
        body = take_body(&plain);
    }
    http_answer(request, 200, file->type, body, fields, count);
    return true;
}

/* A browser gets the page; who asks for no HTML by name, the list. */
static void answer_front(Agent *agent, HttpRequest *request)
{
    if (weight_of(http_header(request, "Accept"), "text/html") <= 0 || !answer_file(request, ""))
        send_list(agent, request, "");
}

static void answer_links(Agent *agent, HttpRequest *request)
{
    send_list(agent, request, "../");
}

/* Links on the pages are relative to the place itself: without its last slash they would lead astray. */
static void answer_runbooks_place(Agent *agent, HttpRequest *request)
{
    static const HttpField fields[] = {{"Location", RUNBOOK_PLACE "/"}};

    (void)agent;
    http_answer(request, 308, TYPE_PLAIN, http_body_static("", 0), fields, 1);
}

static void answer_runbook(Agent *agent, HttpRequest *request, const char *class)
{
    const Runbook *runbook = *class ? runbook_find(class) : &runbook_rows[0];
    CLEANUP(str_done) Str text = {0};
    Err err;

    if (!runbook) {
        send_problem(request, 404, "there is no runbook of that class; /" RUNBOOK_PLACE "/ lists them");
        return;
    }
    str_init(&text, ANSWER_MAX);
    if (runbook_read(&agent->runbooks, &runbook->html, &text, &err) < 0)
        send_problem(request, 500, err.text);
    else
        send_page(request, 200, TYPE_HTML, runbook_policy, &text);
}

static void answer_history(Agent *agent, HttpRequest *request, const char *id)
{
    const char *const query[] = {id, http_query(request, "metric"), http_query(request, "resolution"),
                                 http_query(request, "from"), http_query(request, "to")};
    CLEANUP(str_done) Str text;
    Err err;

    str_init(&text, ANSWER_MAX);
    const unsigned status =
        agent_history_json(agent, query, "; an index, a UUID or a PCI address names one", &text, &err);
    if (status == 200)
        send_text(request, status, TYPE_JSON, &text);
    else
        send_problem(request, status, err.text);
}

static void stream_gone(void *self, HttpStream *stream)
{
    Agent *agent = self;

    for (size_t i = 0; i < agent->stream_count; i++)
        if (agent->streams[i] == stream) {
            agent->streams[i] = agent->streams[--agent->stream_count];
            return;
        }
}

static void write_tick(const Agent *agent, Str *out)
{
    str_init(out, ANSWER_MAX);
    str_add(out, "event: tick\ndata: ");
    api_tick(board_reader_node(agent->sampling.reader), out);
    str_add(out, "\n\n");
}

static void answer_stream(Agent *agent, HttpRequest *request)
{
    Str text;

    if (agent->stream_count == AGENT_STREAMS_MAX) {
        send_problem(request, 503, "as many streams as there may be are open");
        return;
    }
    HttpStream *stream = http_stream(request, "text/event-stream", STREAM_QUEUE, stream_gone, agent);
    if (!stream)
        return;
    agent->streams[agent->stream_count++] = stream;
    write_tick(agent, &text); /* what is known now, so that a page is filled at once */
    HttpBody *body = take_body(&text);
    http_stream_send(stream, body);
    http_body_unref(body);
}

/* Takes the text. */
static void send_to_streams(Agent *agent, Str *text)
{
    HttpBody *body = take_body(text);

    for (size_t i = agent->stream_count; i-- > 0;) /* a stream that falls behind is closed and taken out */
        http_stream_send(agent->streams[i], body);
    http_body_unref(body);
}

void agent_stream_tick(Agent *agent)
{
    Str text;

    if (agent->stream_count == 0)
        return;
    write_tick(agent, &text);
    send_to_streams(agent, &text);
}

void agent_incident_changed(void *self, const Incident *incident, IncidentChange change)
{
    Agent *agent = self;
    Str text;

    exporter_incident(agent->exporter, incident, change);
    if (agent->stream_count == 0)
        return;
    str_init(&text, ANSWER_MAX);
    str_addf(&text, "event: incident\ndata: {\"change\":\"%s\",\"incident\":", incident_changes[change].key);
    incident_json(incident, &text);
    str_add(&text, "}\n\n");
    send_to_streams(agent, &text);
}

void agent_event_happened(void *self, const TriageEvent *event)
{
    Agent *agent = self;
    Str text;

    exporter_event(agent->exporter, &event->event);
    if (agent->stream_count == 0)
        return;
    str_init(&text, ANSWER_MAX);
    str_add(&text, "event: event\ndata: ");
    event_json(&event->event, event->incident, board_reader_node(agent->sampling.reader), &text);
    str_add(&text, "\n\n");
    send_to_streams(agent, &text);
}

/* A '*' stands for the part that answer_part gets; `write`: JSON without a question. */
static const struct {
    const char *path;
    void (*answer)(Agent *agent, HttpRequest *request);
    void (*answer_part)(Agent *agent, HttpRequest *request, const char *part);
    void (*write)(const Agent *agent, Str *out);
} routes[] = {
    {"/", .answer = answer_front},
    {"/api/", .answer = answer_links},
    {"/metrics", .answer = answer_metrics},
    {"/health", .answer = answer_alive},
    {"/healthz", .answer = answer_health},
    {"/readyz", .answer = answer_health},
    {"/api/v1/gpus", .write = write_gpus},
    {"/api/v1/status", .write = write_status},
    {"/api/v1/stream", .answer = answer_stream},
    {"/api/v1/incidents", .answer = answer_incidents},
    {"/api/v1/events", .answer = answer_events},
    {"/api/v1/maintenance", .write = agent_maintenance_json},
    {"/" RUNBOOK_PLACE, .answer = answer_runbooks_place},
    {"/api/v1/gpus/*/history", .answer_part = answer_history},
    {"/api/v1/incidents/*", .answer_part = answer_incident},
    {"/" RUNBOOK_PLACE "/*", .answer_part = answer_runbook},
};

static void answer_json(const Agent *agent, HttpRequest *request, void (*write)(const Agent *agent, Str *out))
{
    CLEANUP(str_done) Str text;

    str_init(&text, ANSWER_MAX);
    write(agent, &text);
    send_text(request, 200, TYPE_JSON, &text);
}

static bool matches_route(const char *route, const char *path, char *part, size_t cap)
{
    const size_t before = strcspn(route, "*"), len = strlen(path);
    const char *behind = route + before + (route[before] == '*');
    const size_t after = strlen(behind);

    part[0] = '\0';
    if (!route[before])
        return strcmp(route, path) == 0;
    if (len < before + after || len - before - after >= cap || strncmp(route, path, before) != 0 ||
        strcmp(path + len - after, behind) != 0)
        return false;
    memcpy(part, path + before, len - before - after);
    part[len - before - after] = '\0';
    return true;
}

void agent_handle(void *self, HttpRequest *request)
{
    const char *path = http_path(request);
    char part[256];

    if (((Agent *)self)->stopping) {
        send_problem(request, 503, "the agent is being stopped");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (!matches_route(routes[i].path, path, part, sizeof part))
            continue;
        if (routes[i].answer_part)
            routes[i].answer_part(self, request, part);
        else if (routes[i].answer)
            routes[i].answer(self, request);
        else
            answer_json(self, request, routes[i].write);
        return;
    }
    if (path[0] == '/' && path[1] && answer_file(request, path + 1))
        return;
    send_problem(request, 404, "there is nothing here; / lists what there is");
}
