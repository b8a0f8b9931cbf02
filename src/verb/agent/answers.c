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
#include "source/proc/task.h"
#include "verb/agent/agent.h"
#include "version.h"

enum { ANSWER_MAX = 64 << 20, GZIP_LEAST = 1024, STREAM_QUEUE = 16, RECEIVERS_MAX = 32 };

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
        size_t len = packed.len;

        fields[count++] = (HttpField){"Content-Encoding", "gzip"};
        http_answer(request, status, type, http_body_new(str_take(&packed), len), fields, count);
        return;
    }
    size_t len = text->len;
    http_answer(request, status, type, http_body_new(str_take(text), len), fields, count);
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
    };
    if (agent->pods) {
        self->pods_state = podresources_state_key(podresources_state(agent->pods));
        podresources_counts(agent->pods, &self->pods_age_ns, &self->pods_failures, &pods);
        self->pods_count = pods;
    }
}

/* What the exporter shows of the judgement; borrows from the agent. */
typedef struct Judged {
    const Incident *incidents[INCIDENTS_MAX];
    JournalState journal;
    AlertsReceiverState receivers[RECEIVERS_MAX];
    ExporterFaults faults;
} Judged;

static void fill_judged(const Agent *agent, Judged *ret)
{
    const Judge *judge = &agent->judge;
    size_t count = incidents_count(judge->incidents);

    for (size_t i = 0; i < count; i++)
        ret->incidents[i] = incidents_at(judge->incidents, i);
    journal_state(judge->journal, &ret->journal);
    ret->faults = (ExporterFaults){.incidents = ret->incidents,
                                   .incident_count = count,
                                   .catalogue = judge->catalogue,
                                   .maintenance = judge->maintenance,
                                   .journal = ret->journal.health == JOURNAL_OFF ? NULL : &ret->journal,
                                   .receivers = ret->receivers,
                                   .receiver_count = alerts_receivers(judge->alerts, ret->receivers, RECEIVERS_MAX),
                                   .kernel_log_lost = judge_facts(judge)->log_lost};
}

/* The page that all scrapes of this tick share. */
static const Str *shared_page(Agent *agent, ExporterFormat format)
{
    AgentPage *page = &agent->pages[format];
    const Node *node = board_reader_node(agent->sampling.reader);
    ExporterSelf self;
    Judged judged;

    if (page->tick == node->tick)
        return &page->text;
    fill_self(agent, &self);
    fill_judged(agent, &judged);
    exporter_faults(agent->exporter, &judged.faults);
    str_clear(&page->text);
    exporter_page(agent->exporter, node, agent->pods ? podresources_table(agent->pods) : NULL, agent->job_list.at,
                  agent->job_list.len, &self, format, &page->text);
    exporter_faults(agent->exporter, NULL);
    page->tick = node->tick;
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

static void answer_health(const Agent *agent, HttpRequest *request, bool ready)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);
    CLEANUP(str_done) Str text;

    str_init(&text, ANSWER_MAX);
    const bool fine = api_health_json(&snapshot, ready, &text);
    send_text(request, fine ? 200 : 503, TYPE_JSON, &text);
}

static void answer_healthz(Agent *agent, HttpRequest *request)
{
    answer_health(agent, request, false);
}

static void answer_readyz(Agent *agent, HttpRequest *request)
{
    answer_health(agent, request, true);
}

static void answer_gpus(Agent *agent, HttpRequest *request)
{
    CLEANUP(str_done) Str text;

    str_init(&text, ANSWER_MAX);
    api_gpus(board_reader_node(agent->sampling.reader),
             &(ApiBeside){.owners = agent->pods ? podresources_table(agent->pods) : NULL,
                          .processes = judge_processes(&agent->judge),
                          .places = judge_places(&agent->judge)},
             &text);
    send_text(request, 200, TYPE_JSON, &text);
}

static void answer_status(Agent *agent, HttpRequest *request)
{
    CLEANUP(str_done) Str text;

    str_init(&text, ANSWER_MAX);
    agent_status_json(agent, &text);
    send_text(request, 200, TYPE_JSON, &text);
}

static void answer_incidents(Agent *agent, HttpRequest *request)
{
    const char *state = http_query(request, "state");
    const AgentQuery query = {.open_only = state && strcmp(state, "open") == 0,
                              .device = http_query(request, "device")};
    CLEANUP(str_done) Str text = {0};

    if (state && strcmp(state, "open") != 0 && strcmp(state, "all") != 0) {
        send_problem(request, 400, "state: 'open' or 'all'");
        return;
    }
    str_init(&text, ANSWER_MAX);
    agent_incidents_json(agent, &query, &text);
    send_text(request, 200, TYPE_JSON, &text);
}

static void answer_incident(Agent *agent, HttpRequest *request, const char *id)
{
    const Incident *incident = incidents_find(agent->judge.incidents, id);
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

static void answer_maintenance(Agent *agent, HttpRequest *request)
{
    CLEANUP(str_done) Str text = {0};

    str_init(&text, ANSWER_MAX);
    agent_maintenance_json(agent, &text);
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

/* A browser gets the page; who asks for no HTML by name, the list. */
static void answer_front(Agent *agent, HttpRequest *request)
{
    if (weight_of(http_header(request, "Accept"), "text/html") <= 0 ||
        !agent_answer_file(request, "", takes_gzip(request)))
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
    const Runbook *runbook = *class ? runbook_find(class) : runbook_index();
    CLEANUP(str_done) Str text = {0};
    Err err;

    if (!runbook) {
        send_problem(request, 404, "there is no runbook of that class; /" RUNBOOK_PLACE "/ lists them");
        return;
    }
    str_init(&text, ANSWER_MAX);
    if (runbook_html(&agent->runbooks, runbook, &text, &err) < 0)
        send_problem(request, 500, err.text);
    else
        send_page(request, 200, TYPE_HTML, runbook_policy, &text);
}

static void answer_history(Agent *agent, HttpRequest *request, const char *id)
{
    const Node *node = board_reader_node(agent->sampling.reader);
    const NodeGpu *gpu;
    HistoryQuery query;
    Err err;
    CLEANUP(str_done) Str text;
    const Reading *reading = api_find(node, id, &gpu);

    str_init(&text, ANSWER_MAX);
    if (!reading) {
        err_set(&err, -ENOENT, "there is no GPU or MIG device '%.100s'; an index, a UUID or a PCI address names one",
                id);
        send_problem(request, 404, err.text);
    } else if (api_history_query(http_query(request, "metric"), http_query(request, "resolution"),
                                 http_query(request, "from"), http_query(request, "to"), node->real_ns, &query,
                                 &err) < 0) {
        send_problem(request, 400, err.text);
    } else if (api_history(node, agent->store, reading, &query, &text, &err) < 0) {
        send_problem(request, 404, err.text);
    } else {
        send_text(request, 200, TYPE_JSON, &text);
    }
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

static HttpBody *tick_body(Agent *agent)
{
    CLEANUP(str_done) Str text;

    str_init(&text, ANSWER_MAX);
    str_add(&text, "event: tick\ndata: ");
    api_tick(board_reader_node(agent->sampling.reader), &text);
    str_add(&text, "\n\n");
    size_t len = text.len;
    return http_body_new(str_take(&text), len);
}

static void answer_stream(Agent *agent, HttpRequest *request)
{
    if (agent->stream_count == AGENT_STREAMS_MAX) {
        send_problem(request, 503, "as many streams as there may be are open");
        return;
    }
    HttpStream *stream = http_stream(request, "text/event-stream", STREAM_QUEUE, stream_gone, agent);
    if (!stream)
        return;
    agent->streams[agent->stream_count++] = stream;
    HttpBody *body = tick_body(agent); /* what is known now, so that a page is filled at once */
    http_stream_send(stream, body);
    http_body_unref(body);
}

void agent_stream_tick(Agent *agent)
{
    if (agent->stream_count == 0)
        return;
    HttpBody *body = tick_body(agent);
    for (size_t i = agent->stream_count; i-- > 0;) /* a stream that falls behind is closed and taken out */
        http_stream_send(agent->streams[i], body);
    http_body_unref(body);
}

/* A '*' stands for the part that the second function gets. */
static const struct {
    const char *path;
    void (*answer)(Agent *agent, HttpRequest *request);
    void (*answer_part)(Agent *agent, HttpRequest *request, const char *part);
} routes[] = {
    {"/", .answer = answer_front},
    {"/api/", .answer = answer_links},
    {"/metrics", .answer = answer_metrics},
    {"/health", .answer = answer_alive},
    {"/healthz", .answer = answer_healthz},
    {"/readyz", .answer = answer_readyz},
    {"/api/v1/gpus", .answer = answer_gpus},
    {"/api/v1/status", .answer = answer_status},
    {"/api/v1/stream", .answer = answer_stream},
    {"/api/v1/incidents", .answer = answer_incidents},
    {"/api/v1/events", .answer = answer_events},
    {"/api/v1/maintenance", .answer = answer_maintenance},
    {"/" RUNBOOK_PLACE, .answer = answer_runbooks_place},
    {"/api/v1/gpus/*/history", .answer_part = answer_history},
    {"/api/v1/incidents/*", .answer_part = answer_incident},
    {"/" RUNBOOK_PLACE "/*", .answer_part = answer_runbook},
};

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
        else
            routes[i].answer(self, request);
        return;
    }
    if (path[0] == '/' && path[1] && agent_answer_file(request, path + 1, takes_gzip(request)))
        return;
    send_problem(request, 404, "there is nothing here; / lists what there is");
}
