/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent answers to HTTP requests. Nothing here changes the node. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/incident/incident.h"
#include "service/runbook/runbook.h"
#include "service/status/status.h"
#include "service/web/web.h"
#include "service/who/who.h"
#include "service/why/why.h"
#include "source/proc/task.h"
#include "verb/agent/agent.h"
#include "version.h"

enum { ANSWER_MAX = 64 << 20, METRICS_SLACK = 4096, STREAM_QUEUE = 16, RECEIVERS_MAX = 32, FIELDS_MAX = 8 };

#define SCRAPER_HEADER "X-Scrape-Job"

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

/* Sends a page, packed where the client takes that. */
static void send_page(Agent *agent, HttpRequest *request, Page *page)
{
    HttpField fields[3] = {{"Vary", "Accept, Accept-Encoding"}};
    size_t count = 1;
    bool packed;
    HttpBody *body = page_body(&agent->pages, page, takes_gzip(request), &packed);

    if (page->policy)
        fields[count++] = (HttpField){"Content-Security-Policy", page->policy};
    if (packed)
        fields[count++] = (HttpField){"Content-Encoding", "gzip"};
    http_answer(request, page->status, page->type, body, fields, count);
}

/* What a route makes of a request: 200 and JSON, where it says nothing else. */
typedef struct Reply {
    unsigned status;
    const char *type, *policy;
    Str text;
} Reply;

static void write_problem(Reply *reply, unsigned status, const char *what)
{
    str_clear(&reply->text);
    reply->status = status;
    reply->type = TYPE_JSON;
    reply->policy = NULL;
    str_add(&reply->text, "{\"error\":");
    str_add_json(&reply->text, what);
    str_add(&reply->text, "}\n");
}

/* The reply as a page; its text is taken. */
static Page *keep_reply(Agent *agent, const char *name, Reply *reply)
{
    if (reply->text.overflow)
        write_problem(reply, 500, "the answer is too large");
    Page *page = pages_add(&agent->pages, name, &reply->text);

    page->status = reply->status;
    page->type = reply->type;
    page->policy = reply->policy;
    return page;
}

static Reply new_reply(void)
{
    return (Reply){.status = 200, .type = TYPE_JSON, .text = str_limited(ANSWER_MAX)};
}

/* One that no other request shares. */
static void send_problem(Agent *agent, HttpRequest *request, unsigned status, const char *what)
{
    Reply reply = new_reply();

    write_problem(&reply, status, what);
    send_page(agent, request, keep_reply(agent, "", &reply));
}

static void make_gpus(Agent *agent, const HttpRequest *request UNUSED, const char *part UNUSED, Reply *reply)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);

    api_gpus(&snapshot, &reply->text);
}

static void make_status(Agent *agent, const HttpRequest *request UNUSED, const char *part UNUSED, Reply *reply)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);

    status_json(&snapshot, &reply->text);
}

static void make_who(Agent *agent, const HttpRequest *request, const char *part UNUSED, Reply *reply)
{
    const Snapshot snapshot = agent_snapshot(agent, NULL);
    WhoQuery query;
    Err err;

    const int rc = who_query_read(&snapshot, http_query(request, "by"), http_query(request, "gpu"), &query, &err);
    if (rc < 0)
        write_problem(reply, rc == -EIO ? 503 : 400, err.text);
    else
        who_json(&snapshot, &query, &reply->text);
}

static void make_why(Agent *agent, const HttpRequest *request, const char *part UNUSED, Reply *reply)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);
    WhyAsk ask;
    Err err;

    const int rc = why_find_subject(&snapshot, http_query(request, "of"), &ask, &err);
    if (rc < 0)
        write_problem(reply, rc == -EIO ? 503 : 404, err.text);
    else
        why_json(&snapshot, &ask, &reply->text);
}

static void make_maintenance(Agent *agent, const HttpRequest *request UNUSED, const char *part UNUSED, Reply *reply)
{
    agent_maintenance_json(agent, &reply->text);
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
        .log_origin = host_facts(agent->triage.host)->log == FACTS_LOG_JOURNAL ? EVENT_FROM_JOURNAL : EVENT_FROM_KMSG,
    };
    if (agent->pods) {
        self->pods_state = podresources_state_key(podresources_state(agent->pods));
        podresources_counts(agent->pods, &self->pods_age_ns, &self->pods_failures, &pods);
        self->pods_count = pods;
    }
    cluster_fill_self(agent, self);
}

/* What all scrapes of this tick share. */
static void write_metrics(Agent *agent, ExporterFormat format, Str *out)
{
    const Incident *incidents[INCIDENTS_MAX];
    AlertsReceiverState receivers[RECEIVERS_MAX];
    JournalState journal;
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
    str_reserve(out, agent->metrics_len + METRICS_SLACK);
    exporter_page(agent->exporter, &input, format, out);
    agent_bench_metrics(agent, out);
    agent->metrics_len = out->len;
}

/* Who scrapes: by the name it gives, else by address and program. */
static WindowScraper scraper_of(const HttpRequest *request, char room[WINDOW_NAME_CAP])
{
    const char *name = http_query(request, "scraper"), *client = http_header(request, "User-Agent");

    if (!name || !name[0])
        name = http_header(request, SCRAPER_HEADER);
    const bool named = name && name[0];
    snprintf(room, WINDOW_NAME_CAP, "%s %s %s", http_remote(request), named ? "is" : "by",
             named    ? name
             : client ? client
                      : "");
    return (WindowScraper){.name = room, .named = named, .connection = http_connection(request)};
}

/* /metrics: a part that all scrapes share, and one with the scraper's window. */
static void answer_metrics(Agent *agent, HttpRequest *request)
{
    const ExporterFormat format = format_of(request);
    char room[WINDOW_NAME_CAP], names[2][64];
    const WindowScraper scraper = scraper_of(request, room);
    WindowGpu windows[NODE_GPUS_MAX];
    WindowSpan span;
    HttpField fields[2] = {{"Vary", "Accept, Accept-Encoding"}, {"Content-Encoding", "gzip"}};
    HttpBody *bodies[2];
    bool packed;
    const size_t count =
        windows_read(agent->windows, &scraper, board_now(agent->sampling.board), windows, NODE_GPUS_MAX, &span);

    snprintf(names[0], sizeof names[0], "/metrics %d", (int)format);
    snprintf(names[1], sizeof names[1], "/metrics %d %" PRIu64, (int)format, span.window);
    Page *first = pages_find(&agent->pages, names[0]);
    if (!first) {
        Reply reply = new_reply();
        write_metrics(agent, format, &reply.text);
        first = keep_reply(agent, names[0], &reply);
    }
    Page *second = pages_find(&agent->pages, names[1]);
    if (!second) {
        Reply reply = new_reply();
        exporter_window(agent->exporter, board_reader_node(agent->sampling.reader), windows, count, span.ns, format,
                        &reply.text);
        second = keep_reply(agent, names[1], &reply);
    }
    page_bodies(&agent->pages, first, second, takes_gzip(request), bodies, &packed);
    http_answer_two(request, 200, format == EXPORTER_OPENMETRICS ? TYPE_OPENMETRICS : TYPE_TEXT, bodies[0], bodies[1],
                    fields, packed ? 2 : 1);
}

/* dcgm-exporter's: it says that the program runs, nothing else. */
static void answer_alive(Agent *agent, HttpRequest *request)
{
    static const HttpField fields[] = {{"X-Reload-In-Progress", "false"}, {"X-Registry-Available", "true"}};

    (void)agent;
    http_answer(request, 200, TYPE_PLAIN, http_body_static("OK", 2), fields, 2);
}

/* /healthz and /readyz */
static void make_health(Agent *agent, const HttpRequest *request, const char *part UNUSED, Reply *reply)
{
    const Incident *incidents[INCIDENTS_MAX];
    const Snapshot snapshot = agent_snapshot(agent, incidents);
    const bool fine = api_health_json(&snapshot, strcmp(http_path(request), "/readyz") == 0, &reply->text);

    reply->status = fine ? 200 : 503;
}

static void make_incidents(Agent *agent, const HttpRequest *request, const char *part UNUSED, Reply *reply)
{
    const char *state = http_query(request, "state");

    if (state && strcmp(state, "open") != 0 && strcmp(state, "all") != 0)
        write_problem(reply, 400, "state: 'open' or 'all'");
    else
        agent_incidents_json(agent, state && strcmp(state, "open") == 0, http_query(request, "device"), &reply->text);
}

static void make_incident(Agent *agent, const HttpRequest *request UNUSED, const char *id, Reply *reply)
{
    const Incident *incident = incidents_find(agent->triage.incidents, id);

    if (!incident) {
        write_problem(reply, 404, "there is no such incident here; 'stoker incidents' asks the journal for older ones");
        return;
    }
    incident_json(incident, &reply->text);
    str_addc(&reply->text, '\n');
}

static void make_jobs(Agent *agent, const HttpRequest *request UNUSED, const char *part UNUSED, Reply *reply)
{
    (void)agent_jobs_json(agent, NULL, &reply->text);
}

static void make_job(Agent *agent, const HttpRequest *request UNUSED, const char *name, Reply *reply)
{
    if (!agent_jobs_json(agent, name, &reply->text))
        write_problem(reply, 404, "there is no such job here; 'stoker jobs' asks the journal for older ones");
}

static void make_bench(Agent *agent, const HttpRequest *request, const char *part UNUSED, Reply *reply)
{
    agent_bench_json(agent, http_query(request, "gpu"), &reply->text);
}

static void make_events(Agent *agent, const HttpRequest *request, const char *part UNUSED, Reply *reply)
{
    const char *from = http_query(request, "from");
    uint64_t number = 0;
    Err err;

    if (from && number_parse_u64(from, 0, UINT64_MAX, &number, &err) < 0)
        write_problem(reply, 400, "from: the number of an event");
    else
        agent_events_json(agent, number, &reply->text);
}

/* The list of what there is; its links begin at the place it is served from, or one above. */
static void make_list(Agent *agent, const HttpRequest *request, const char *part UNUSED, Reply *reply)
{
    reply->type = TYPE_HTML;
    api_index(board_reader_node(agent->sampling.reader), STOKER_VERSION, strcmp(http_path(request), "/") ? "../" : "",
              &reply->text);
}

/* A file of the page (service/web/web.h), "" the page itself; false, with nothing answered: there is none. */
static bool answer_file(Agent *agent, HttpRequest *request, const char *path)
{
    const WebFile *file = web_find(path);
    HttpBody *body;
    Page *page;
    bool packed;
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
        char name[PAGE_NAME_CAP];
        snprintf(name, sizeof name, "web %s", path);
        page = pages_find(&agent->pages, name);
        if (!page) {
            Reply reply = new_reply();
            if (gzip_unpack(file->packed, file->packed_len, &reply.text, &err) < 0)
                write_problem(&reply, 500, err.text);
            page = keep_reply(agent, name, &reply);
        }
        if (page->status != 200) {
            send_page(agent, request, page);
            return true;
        }
        body = page_body(&agent->pages, page, false, &packed);
    }
    http_answer(request, 200, file->type, body, fields, count);
    return true;
}

/* Links on the pages are relative to the place itself: without its last slash they would lead astray. */
static void answer_runbooks_place(Agent *agent, HttpRequest *request)
{
    static const HttpField fields[] = {{"Location", RUNBOOK_PLACE "/"}};

    (void)agent;
    http_answer(request, 308, TYPE_PLAIN, http_body_static("", 0), fields, 1);
}

static void make_runbook(Agent *agent, const HttpRequest *request UNUSED, const char *class, Reply *reply)
{
    const Runbook *runbook = *class ? runbook_find(class) : &runbook_rows[0];
    Err err;

    reply->type = TYPE_HTML;
    reply->policy = runbook_policy;
    if (!runbook)
        write_problem(reply, 404, "there is no runbook of that class; /" RUNBOOK_PLACE "/ lists them");
    else if (runbook_read(&agent->runbooks, &runbook->html, &reply->text, &err) < 0)
        write_problem(reply, 500, err.text);
}

static void make_history(Agent *agent, const HttpRequest *request, const char *id, Reply *reply)
{
    const char *const query[] = {id, http_query(request, "metric"), http_query(request, "resolution"),
                                 http_query(request, "from"), http_query(request, "to")};
    Err err;

    reply->status =
        agent_history_json(agent, query, "; an index, a UUID or a PCI address names one", &reply->text, &err);
    if (reply->status != 200)
        write_problem(reply, reply->status, err.text);
}

static void stream_gone(void *self, HttpStream *stream)
{
    Agent *agent = self;

    for (size_t i = 0; i < agent->stream_count; i++)
        if (agent->streams[i].stream == stream) {
            agent->streams[i] = agent->streams[--agent->stream_count];
            return;
        }
}

/* A part of what packed streams get; NULL where the packer fails. */
static HttpBody *pack_event(const char *text, size_t len)
{
    CLEANUP(str_done) Str packed = str_limited(ANSWER_MAX);
    Err err;

    if (gzip_part(text, len, &packed, &err) < 0)
        return NULL;
    len = packed.len;
    return http_body_new(str_take(&packed), len);
}

/* The tick as an event, which all streams share. */
static Page *tick_page(Agent *agent)
{
    static const char name[] = "tick";
    Page *page = pages_find(&agent->pages, name);

    if (!page) {
        Reply reply = new_reply();
        str_add(&reply.text, "event: tick\ndata: ");
        api_tick(board_reader_node(agent->sampling.reader), &reply.text);
        str_add(&reply.text, "\n\n");
        page = keep_reply(agent, name, &reply);
    }
    return page;
}

static void send_event(const struct EventStream *to, HttpBody *plain, HttpBody *packed)
{
    if (!to->packed)
        http_stream_send(to->stream, plain);
    else if (packed)
        http_stream_send(to->stream, packed);
}

static void answer_stream(Agent *agent, HttpRequest *request)
{
    if (agent->stream_count == AGENT_STREAMS_MAX) {
        send_problem(agent, request, 503, "as many streams as there may be are open");
        return;
    }
    const bool packs = takes_gzip(request);
    HttpStream *stream =
        http_stream(request, "text/event-stream", packs ? "gzip" : NULL, STREAM_QUEUE, stream_gone, agent);
    if (!stream)
        return;
    const struct EventStream made = {stream, packs};
    agent->streams[agent->stream_count++] = made;
    if (packs) {
        HttpBody *head = http_body_static(gzip_stream_head, GZIP_STREAM_HEAD);
        http_stream_send(stream, head);
        http_body_unref(head);
    }
    Page *page = tick_page(agent); /* what is known now, so that a page is filled at once */
    HttpBody *packed = packs ? pack_event(page->text, page->len) : NULL;
    send_event(&made, page->plain, packed);
    http_body_unref(packed);
}

static void answer_self(Agent *agent, HttpRequest *request)
{
    Reply reply = new_reply();
    Err err;
    const int rc = agent_answer_self(agent, request, &reply.text, &err);

    if (rc == 0) {
        str_done(&reply.text);
        return;
    }
    if (rc < 0)
        write_problem(&reply, rc == -ENOTCONN ? 403 : rc == -ESRCH ? 404 : 503, err.text);
    send_page(agent, request, keep_reply(agent, "", &reply));
}

static void answer_ledger(Agent *agent, HttpRequest *request)
{
    const char *text = http_query(request, "since");
    uint64_t since = 0;
    Err err;

    if (text && number_parse_u64(text, 0, INT64_MAX, &since, NULL) < 0) {
        send_problem(agent, request, 400, "'since' must be the 'next' of another answer, or 0");
        return;
    }
    const int rc = agent_pull_ledger(agent, request, since, &err);
    if (rc < 0)
        send_problem(agent, request, rc == -ENOENT ? 404 : 503, err.text);
}

/* `plain` is the body of `text`; packed once for all who take it so. */
static void send_to_streams(Agent *agent, HttpBody *plain, const char *text, size_t len)
{
    HttpBody *packed = NULL;

    for (size_t i = agent->stream_count; i-- > 0;) { /* a stream that falls behind is closed and taken out */
        if (agent->streams[i].packed && !packed)
            packed = pack_event(text, len);
        send_event(&agent->streams[i], plain, packed);
    }
    http_body_unref(packed);
}

/* Takes the text. */
static void send_text_to_streams(Agent *agent, Str *text)
{
    const size_t len = text->len;
    char *bytes = str_take(text);
    HttpBody *body = http_body_new(bytes, len);

    send_to_streams(agent, body, bytes, len);
    http_body_unref(body);
}

void agent_stream_tick(Agent *agent)
{
    if (agent->stream_count == 0)
        return;
    const Page *page = tick_page(agent);
    send_to_streams(agent, page->plain, page->text, page->len);
}

void agent_incident_changed(void *self, const Incident *incident, IncidentChange change)
{
    Agent *agent = self;
    Str text;

    pages_clear(&agent->pages);
    exporter_incident(agent->exporter, incident, change);
    if (agent->control)
        control_wake(agent->control);
    if (agent->stream_count == 0)
        return;
    str_init(&text, ANSWER_MAX);
    str_addf(&text, "event: incident\ndata: {\"change\":\"%s\",\"incident\":", incident_changes[change].key);
    incident_json(incident, &text);
    str_add(&text, "}\n\n");
    send_text_to_streams(agent, &text);
}

void agent_event_happened(void *self, const TriageEvent *event)
{
    Agent *agent = self;
    Str text;

    pages_clear(&agent->pages);
    exporter_event(agent->exporter, &event->event);
    if (agent->stream_count == 0)
        return;
    str_init(&text, ANSWER_MAX);
    str_add(&text, "event: event\ndata: ");
    event_json(&event->event, event->incident, board_reader_node(agent->sampling.reader), &text);
    str_add(&text, "\n\n");
    send_text_to_streams(agent, &text);
}

/* A browser gets the page; who asks for no HTML by name, the list. */
static void answer_front(Agent *agent, HttpRequest *request);

/* A '*' stands for the part that `make` gets. What `make` writes depends on that, on the path and on `queries` alone,
 * and is shared by all who ask for it before the next tick. */
static const struct Route {
    const char *path;
    void (*answer)(Agent *agent, HttpRequest *request);
    void (*make)(Agent *agent, const HttpRequest *request, const char *part, Reply *reply);
    const char *queries[5];
} routes[] = {
    {"/", .answer = answer_front, .make = make_list},
    {"/api/", .make = make_list},
    {"/metrics", .answer = answer_metrics},
    {"/health", .answer = answer_alive},
    {"/healthz", .make = make_health},
    {"/readyz", .make = make_health},
    {"/api/v1/gpus", .make = make_gpus},
    {"/api/v1/status", .make = make_status},
    {"/api/v1/who", .make = make_who, .queries = {"by", "gpu"}},
    {"/api/v1/why", .make = make_why, .queries = {"of"}},
    {"/api/v1/stream", .answer = answer_stream},
    {"/api/v1/incidents", .make = make_incidents, .queries = {"state", "device"}},
    {"/api/v1/events", .make = make_events, .queries = {"from"}},
    {"/api/v1/self", .answer = answer_self},
    {"/api/v1/ledger", .answer = answer_ledger},
    {"/api/v1/jobs", .make = make_jobs},
    {"/api/v1/bench", .make = make_bench, .queries = {"gpu"}},
    {"/api/v1/maintenance", .make = make_maintenance},
    {"/" RUNBOOK_PLACE, .answer = answer_runbooks_place},
    {"/api/v1/gpus/*/history", .make = make_history, .queries = {"metric", "resolution", "from", "to"}},
    {"/api/v1/incidents/*", .make = make_incident},
    {"/api/v1/jobs/*", .make = make_job},
    {"/" RUNBOOK_PLACE "/*", .make = make_runbook},
};

/* The page that the request asks for, by path and questions. */
static void answer_made(Agent *agent, HttpRequest *request, const struct Route *route, const char *part)
{
    CLEANUP(str_done) Str name = str_limited(PAGE_NAME_CAP);

    str_add(&name, http_path(request));
    for (const char *const *query = route->queries; *query; query++) {
        const char *value = http_query(request, *query);

        if (value)
            str_addf(&name, "\n%s=%s", *query, value);
    }
    Page *page = name.overflow ? NULL : pages_find(&agent->pages, name.text);
    if (!page) {
        Reply reply = new_reply();
        route->make(agent, request, part, &reply);
        page = keep_reply(agent, name.overflow ? "" : name.text, &reply);
    }
    send_page(agent, request, page);
}

static void answer_front(Agent *agent, HttpRequest *request)
{
    if (weight_of(http_header(request, "Accept"), "text/html") <= 0 || !answer_file(agent, request, ""))
        answer_made(agent, request, &routes[0], "");
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
    Agent *agent = self;
    char part[256];

    if (agent->stopping) {
        send_problem(agent, request, 503, "the agent is being stopped");
        return;
    }
    for (const struct Route *route = routes; route < routes + ARRAY_LEN(routes); route++) {
        if (!matches_route(route->path, path, part, sizeof part))
            continue;
        if (route->answer)
            route->answer(agent, request);
        else
            answer_made(agent, request, route, part);
        return;
    }
    if (path[0] == '/' && path[1] && answer_file(agent, request, path + 1))
        return;
    send_problem(agent, request, 404, "there is nothing here; / lists what there is");
}
