/* SPDX-License-Identifier: Apache-2.0 */
/* service/alert/{alert,reports}.c without a network, a journal and a clock: what is done in which order for each call,
 * as lines of golden/alert.txt: requests, what is put into the outbox and taken out, and what is logged. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "service/alert/delivery.h"
#include "test/unit/golden_trace.h"

enum { CALLS_MAX = 64 };
#define REAL_NS (UINT64_C(1767614400) * NS_PER_S)

/* --- the doubles -------------------------------------------------------------------------------------------------- */

typedef struct Call {
    FetchDone done;
    void *self;
    bool over;
} Call;

static uv_loop_t loop;
static Alerts *alerts;
static uint64_t now_ns, real_ns, wait_ms;
static Call calls[CALLS_MAX];
static size_t call_count;
static JournalKept outbox;
static Log to_file;
static FILE *log_lines;
static bool closed, refuse;

static uint64_t read_now(const Clock *clock)
{
    (void)clock;
    return now_ns;
}

static uint64_t read_real(const Clock *clock)
{
    (void)clock;
    return real_ns;
}

static const ClockOps clock_ops = {.monotonic_ns = read_now, .real_ns = read_real};
static const Clock test_clock = {.ops = &clock_ops};

int fetch_new(uv_loop_t *on, Fetch **ret, Err *err)
{
    static int it;

    (void)on;
    if (refuse)
        return err_set(err, -EMFILE, "no descriptor");
    str_add(&trace, "fetch begins\n");
    *ret = (Fetch *)&it;
    return 0;
}

void fetch_close(Fetch *fetch)
{
    str_addf(&trace, "fetch ends%s\n", fetch ? "" : ": there was none");
}

static const char *find_header(const FetchRequest *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (strncmp(request->headers[i], name, strlen(name)) == 0)
            return request->headers[i] + strlen(name);
    return "";
}

int fetch_send(Fetch *fetch, const FetchRequest *request, FetchDone done, void *self, FetchCall **ret_call, Err *err)
{
    json_t *body = json_loadb(request->body, request->body_len, 0, NULL);
    const json_t *labels = json_object_get(json_is_array(body) ? json_array_get(body, 0) : body, "labels");
    const char *change = json_string_value(json_object_get(body, "change"));
    char *shown = json_dumps(json_object_get(labels, "site"), JSON_ENCODE_ANY);

    (void)fetch;
    assert_non_null(body);
    if (refuse)
        str_addf(&trace, "%zu cannot be sent\n", call_count);
    else
        str_addf(&trace, "%zu POST %s %s%s%s\n", call_count, request->url, find_header(request, "Idempotency-Key: "),
                 change ? " " : "alerts", change ? change : "");
    for (size_t i = 0; i < json_array_size(body); i++)
        str_addf(&trace, "  %s ends %s\n",
                 json_string_value(json_object_get(json_object_get(json_array_get(body, i), "labels"), "alertname")),
                 json_string_value(json_object_get(json_array_get(body, i), "endsAt")));
    if (json_object_get(body, "report"))
        str_addf(&trace, "  %.*s\n", (int)request->body_len, request->body);
    if (shown)
        str_addf(&trace, "  site %s\n", shown);
    free(shown);
    json_decref(body);
    if (refuse)
        return err_set(err, -EINVAL, "no such URL");
    assert_true(call_count < CALLS_MAX);
    calls[call_count] = (Call){done, self, false};
    *ret_call = (FetchCall *)&calls[call_count++];
    return 0;
}

void fetch_cancel(FetchCall *call)
{
    if (!call)
        return;
    str_addf(&trace, "%td cancelled\n", (Call *)call - calls);
    ((Call *)call)->over = true;
}

/* What is kept of whom, for a start with it; a line where that changes. */
uint64_t journal_put_outbox(Journal *journal, const char *receiver, const char *key, const char *text, size_t len)
{
    json_t *kept = json_loadb(text, len, 0, NULL);
    const char *told = json_string_value(json_object_get(kept, "told"));
    size_t i = 0;

    (void)journal;
    while (i < outbox.outbox.len &&
           (strcmp(outbox.outbox.at[i].receiver, receiver) != 0 || strcmp(outbox.outbox.at[i].key, key) != 0))
        i++;
    if (i < outbox.outbox.len) {
        free(outbox.outbox.at[i].receiver);
        free(outbox.outbox.at[i].key);
        free(outbox.outbox.at[i].text);
        vec_remove(&outbox.outbox, i);
    }
    if (len)
        vec_push(&outbox.outbox, ((JournalNews){xstrdup(receiver), xstrdup(key), xmemdup0(text, len)}));
    str_addf(&trace, "%s %s %s", len ? "keep" : "forget", receiver, key);
    if (told)
        str_addf(&trace, ": heard %s%s", told, json_is_true(json_object_get(kept, "unsure")) ? ", unsure" : "");
    str_addc(&trace, '\n');
    json_decref(kept);
    return 1;
}

/* Timers that are not due at once never are: the test moves time itself. */
int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb done, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb done, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb done, uint64_t timeout, uint64_t repeat)
{
    if (timeout)
        wait_ms = timeout;
    return __real_uv_timer_start(timer, done, timeout ? UINT32_MAX : 0, repeat);
}

/* --- the rig ------------------------------------------------------------------------------------------------------ */

static int set_up(void **state)
{
    (void)state;
    now_ns = 100000 * NS_PER_S;
    real_ns = REAL_NS;
    call_count = 0;
    wait_ms = 0;
    closed = refuse = false;
    alerts = NULL;
    log_lines = tmpfile();
    assert_non_null(log_lines);
    log_init(&to_file, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "test", clock_kernel());
    to_file.fd = fileno(log_lines);
    return uv_loop_init(&loop);
}

static void add_log(void)
{
    char line[1024];

    rewind(log_lines);
    while (fgets(line, sizeof line, log_lines)) {
        const char *text = strstr(line, "alerts: ");

        str_addf(&trace, "log %s", text ? text : line);
    }
    assert_int_equal(ftruncate(fileno(log_lines), 0), 0);
    rewind(log_lines);
}

/* Has what is due done, and what follows from it. */
static void run(void)
{
    for (int i = 0; i < 4; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    add_log();
}

static void begin(const char *title)
{
    str_addf(&trace, "# %s\n", title);
}

static void on_closed(void *self)
{
    *(bool *)self = true;
}

static void close_alerts(uint64_t grace_ms)
{
    alerts_close(alerts, grace_ms, on_closed, &closed);
    run();
}

static int tear_down(void **state)
{
    (void)state;
    if (alerts && !closed) {
        str_add(&trace, "# the end\n");
        close_alerts(0);
    }
    assert_int_equal(uv_loop_close(&loop), 0);
    journal_kept_done(&outbox);
    outbox = (JournalKept){0};
    fclose(log_lines);
    return 0;
}

#define HOOK(name) name ": {webhook: {url: 'http://" name "/'}}"

static int load(const char *yaml, Arena *arena, const YamlNode **ret)
{
    Err err = {0};

    if (yaml_load("c.yaml", yaml, strlen(yaml), arena, ret, &err) < 0)
        fail_msg("%s", err.text);
    return 0;
}

static int open_alerts(const char *yaml, const JournalKept *kept, const char *external_url)
{
    CLEANUP(arena_done) Arena arena = {0};
    AlertsConfig config = {.hostname = "node7",
                           .external_url = external_url,
                           .clock = &test_clock,
                           .clock_speed = 10,
                           .kept = kept,
                           .log = &to_file};
    Err err = {0};

    load(yaml, &arena, &config.tree);
    const int rc = alerts_new(&loop, &config, &alerts, &err);
    if (rc < 0)
        str_addf(&trace, "error %s\n", err.text);
    run();
    return rc;
}

static int reload(const char *yaml)
{
    CLEANUP(arena_done) Arena arena = {0};
    const YamlNode *root = NULL;
    Err err = {0};

    load(yaml, &arena, &root);
    const int rc = alerts_reconfigure(alerts, root, NULL, &err);
    if (rc < 0)
        str_addf(&trace, "error %s\n", err.text);
    run();
    return rc;
}

static Incident make_incident(const char *id)
{
    Incident incident = {.pid = -1,
                         .revision = 1,
                         .state = INCIDENT_OPEN,
                         .class = "gpu-lost",
                         .title = "GPU 3 is lost",
                         .severity = SEVERITY_FATAL,
                         .route = ROUTE_PAGE,
                         .opened_real_ns = real_ns};

    snprintf(incident.id, sizeof incident.id, "%s", id);
    device_init(&incident.device, DEVICE_GPU);
    return incident;
}

static void tell(const Incident *incident)
{
    alerts_update(alerts, incident);
    run();
}

static void clear(Incident *incident)
{
    incident->state = INCIDENT_CLEARED;
    incident->revision++;
    incident->cleared_real_ns = real_ns;
}

static void answer(size_t i, unsigned status)
{
    const FetchAnswer it = {.status = status, .text = "no route", .body = ""};

    assert_true(i < call_count && !calls[i].over);
    calls[i].over = true;
    str_addf(&trace, "%zu answered %u\n", i, status);
    calls[i].done(calls[i].self, &it);
    run();
}

/* All that are not answered yet. */
static void answer_all(unsigned status)
{
    for (size_t i = 0; i < call_count; i++)
        if (!calls[i].over)
            answer(i, status);
}

static void show_receivers(void)
{
    AlertsReceiverState states[8];
    const size_t count = alerts_receivers(alerts, states, 8);

    for (size_t i = 0; i < count && i < 8; i++)
        str_addf(&trace, "%s (%s): sent %d failed %d dropped %d queued %d, last %d, %s%s\n", states[i].name,
                 states[i].kind, (int)states[i].sent, (int)states[i].failed, (int)states[i].dropped,
                 (int)states[i].queued,
                 states[i].last_ok_real_ns ? (int)((states[i].last_ok_real_ns - REAL_NS) / NS_PER_S) : -1,
                 states[i].fine ? "fine" : "not fine: ", states[i].why);
}

static void resume(const Incident *const *open, size_t count)
{
    alerts_resume(alerts, open, count);
    run();
}

static void pass(uint64_t ns)
{
    now_ns += ns;
    real_ns += ns;
    alerts_wake(alerts);
    run();
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

/* The first route that matches counts, and those behind it where it says so; a receiver that two lead to gets one, with
 * the labels of the first. */
static void routes_lead_to_receivers(void **state)
{
    Incident incident = make_incident("a"), small = make_incident("b"), shown = make_incident("c");

    (void)state;
    begin("routes");
    small.severity = SEVERITY_WARNING;
    shown.state = INCIDENT_PENDING;
    assert_int_equal(
        open_alerts(
            "{labels: {site: general}, receivers: {" HOOK("pager") ", " HOOK("chat") ", " HOOK(
                "tickets") "}, routes: [{match: {severity: error}, receiver: pager, labels: {site: first}, "
                           "continue: true}, {match: {severity: error}, receivers: [chat, pager], labels: {site: "
                           "second}}, {receiver: tickets}]}",
            NULL, ""),
        0);
    tell(&incident); /* before the resumption nothing is sent */
    resume(NULL, 0);
    tell(&small);
    tell(&shown);
    answer_all(200);
    show_receivers();
    begin("it rises: another route");
    small.severity = SEVERITY_FATAL;
    small.escalations++;
    small.revision++;
    tell(&small);
    answer_all(200);
    begin("an older revision says nothing");
    small.revision--;
    small.escalations++;
    tell(&small);
    begin("both end");
    small.revision++;
    clear(&incident);
    clear(&small);
    tell(&incident);
    tell(&small);
    answer_all(200);
    assert_int_equal(alerts->items.len, 0);
    begin("one that is over was never known");
    clear(&shown);
    tell(&shown);
    assert_int_equal(alerts->items.len, 0);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static void the_timer_waits_for_what_is_next(void **state)
{
    Incident incident = make_incident("a");

    (void)state;
    begin("the timer");
    open_alerts("{receivers: {" HOOK("pager") "}, routes: [{receiver: pager, repeat_interval: 1h}]}", NULL, "");
    resume(NULL, 0);
    assert_false(uv_is_active((uv_handle_t *)&alerts->timer)); /* nothing is due ever */
    tell(&incident);
    assert_false(uv_is_active((uv_handle_t *)&alerts->timer)); /* the answer wakes us */
    answer_all(200);
    assert_int_equal(wait_ms, 360 * 1000 + 1); /* the clock runs ten times as fast */
    pass(NS_PER_H - 1);
    assert_int_equal(wait_ms, 1);
    assert_int_equal(call_count, 1);
    pass(1);
    assert_int_equal(call_count, 2);
    answer_all(200);
    reload("{receivers: {" HOOK("pager") "}, routes: [{receiver: pager, repeat_interval: 100h}]}");
    assert_int_equal(wait_ms, 3600 * 1000); /* at most an hour */
}

/* --- how many ----------------------------------------------------------------------------------------------------- */

/* With so many open ones nobody hears of one more; one that is over makes room, the oldest first, and is missed where
 * it was not delivered. */
static void there_is_room_for_so_many(void **state)
{
    Incident first = make_incident("first"), second = make_incident("second"), more = make_incident("more");

    (void)state;
    begin("room for so many");
    open_alerts("{receivers: {" HOOK("pager") "}, routes: [{match: {class: gpu-lost}, receiver: pager}]}", NULL, "");
    resume(NULL, 0);
    tell(&second);
    tell(&first);
    answer_all(200);
    for (int i = 0; i < ALERT_ITEMS_MAX - 2; i++) {
        char id[32];

        snprintf(id, sizeof id, "i%d", i);
        Incident incident = make_incident(id);
        snprintf(incident.class, sizeof incident.class, "other"); /* no route */
        alerts_update(alerts, &incident);
    }
    begin("one more than that");
    tell(&more);
    begin("two are over, which of is the older one is not delivered");
    clear(&first);
    clear(&second);
    tell(&first);
    tell(&second); /* under way */
    assert_int_equal(alerts->items.len, ALERT_ITEMS_MAX);
    tell(&more);
    assert_int_equal(alerts->items.len, ALERT_ITEMS_MAX);
    assert_null(map_get(&alerts->items, "second"));
    assert_non_null(map_get(&alerts->items, "first"));
    show_receivers();
}

/* --- Alertmanagers ------------------------------------------------------------------------------------------------ */

#define MANAGER "{receivers: {am: {alertmanager: {urls: ['http://am']}}}, routes: [{receiver: am}]}"

/* It ignores the end of an alert that it never had. */
static void what_an_alertmanager_missed_is_noted(void **state)
{
    Incident heard = make_incident("a"), unheard = make_incident("b"), silent = make_incident("c");

    (void)state;
    begin("an Alertmanager");
    open_alerts(MANAGER, NULL, "");
    resume(NULL, 0);
    tell(&heard);
    answer_all(200);
    show_receivers();
    begin("of one it never hears, and not of one in maintenance");
    silent.silenced = true;
    tell(&unheard);
    tell(&silent);
    answer_all(0);
    show_receivers();
    clear(&unheard);
    clear(&silent);
    tell(&unheard);
    tell(&silent);
    show_receivers();
    begin("of the end of another it does not hear for 15 minutes");
    clear(&heard);
    tell(&heard);
    answer_all(0);
    pass(ALERT_RESOLVED_NS - NS_PER_S);
    answer_all(0);
    show_receivers();
    pass(NS_PER_S);
    answer_all(0);
    show_receivers();
    assert_int_equal(alerts->items.len, 0);
}

/* Under other labels it is another alert: the one before ends. */
static void an_alert_ends_under_its_old_labels(void **state)
{
    Incident incident = make_incident("a"), unheard = make_incident("b");

    (void)state;
    begin("other labels");
    open_alerts(MANAGER, NULL, "");
    resume(NULL, 0);
    tell(&incident);
    answer_all(200);
    tell(&unheard);
    reload("{labels: {site: east}, receivers: {am: {alertmanager: {urls: ['http://am']}}}, routes: [{receiver: am}]}");
    answer_all(200);
    begin("the same labels");
    reload("{labels: {site: east}, receivers: {am: {alertmanager: {urls: ['http://am']}}}, routes: [{receiver: am}]}");
    answer_all(200);
}

/* --- reloads ------------------------------------------------------------------------------------------------------ */

static void a_reload_keeps_what_stays(void **state)
{
    Incident incident = make_incident("a"), waits = make_incident("b");

    (void)state;
    begin("a reload");
    open_alerts("{receivers: {log: {journald: {socket: /nonexistent/s}}}, routes: []}", NULL, "");
    resume(NULL, 0);
    tell(&incident);
    begin("a receiver comes, and hears of what is open");
    refuse = true;
    assert_int_equal(reload("{receivers: {" HOOK("pager") ", " HOOK("chat") "}, routes: [{receivers: [pager, chat]}]}"),
                     -EMFILE);
    refuse = false;
    assert_int_equal(reload("{receivers: {" HOOK("pager") ", " HOOK("chat") "}, routes: [{receivers: [pager, chat]}]}"),
                     0);
    answer_all(200);
    show_receivers();
    begin("a mistake changes nothing");
    assert_int_equal(reload("{receivers: {chat: {}}}"), -EINVAL);
    show_receivers();
    begin("one goes while news are under way, and one has no route any more");
    tell(&waits);
    assert_int_equal(reload("{receivers: {" HOOK("chat") "}, routes: [{match: {class: other}, receiver: chat}]}"), 0);
    show_receivers();
    begin("one of another kind under the same name is another one");
    assert_int_equal(reload("{receivers: {chat: {alertmanager: {urls: ['http://am']}}}, routes: [{receiver: chat}]}"),
                     0);
    show_receivers();
    begin("nothing is left");
    assert_int_equal(reload("~"), 0);
    assert_int_equal(alerts_receivers(alerts, NULL, 0), 0);
}

/* A receiver that fails waits; with a new configuration it does not. */
static void a_reload_tries_again_at_once(void **state)
{
    const char *const yaml = "{receivers: {" HOOK("pager") "}, routes: [{receiver: pager}]}";
    Incident incident = make_incident("a");

    (void)state;
    begin("a reload after a failure");
    open_alerts(yaml, NULL, "");
    resume(NULL, 0);
    tell(&incident);
    answer_all(503);
    pass(NS_PER_S / 2);
    show_receivers();
    reload(yaml);
    answer_all(200);
    show_receivers();
}

/* --- restarts ----------------------------------------------------------------------------------------------------- */

static JournalKept take_outbox(void)
{
    const JournalKept kept = outbox;

    outbox = (JournalKept){0};
    return kept;
}

static void put_kept(JournalKept *to, const char *receiver, const char *key, const char *text)
{
    vec_push(&to->outbox, ((JournalNews){xstrdup(receiver), xstrdup(key), xstrdup(text)}));
}

#define TWO                                                                                                            \
    "{receivers: {" HOOK("pager") ", " HOOK("chat") "}, routes: [{receivers: [pager, chat], repeat_interval: 1h}]}"

/* Of a, b, d and e both heard that they are open, of c nothing. */
static JournalKept leave_outbox(void)
{
    const char *const ids[] = {"a", "b", "d", "e", "c"};

    begin("before a restart");
    open_alerts(TWO, NULL, "");
    resume(NULL, 0);
    for (size_t i = 0; i < 5; i++) {
        Incident incident = make_incident(ids[i]);

        tell(&incident);
        answer_all(i < 4 ? 200 : 0);
    }
    close_alerts(0);
    assert_true(closed);
    closed = false;
    return take_outbox();
}

static void restart(const char *title, JournalKept kept)
{
    begin(title);
    open_alerts(TWO, &kept, "");
    journal_kept_done(&kept);
    show_receivers();
}

/* Of a nothing is new; b came back while nobody looked, d rose, e is over. */
static void a_restart_loses_nothing_and_says_nothing_twice(void **state)
{
    JournalKept kept = leave_outbox();
    Incident open[] = {make_incident("a"), make_incident("b"), make_incident("c"), make_incident("d")};
    const Incident *all[] = {&open[0], &open[1], &open[2], &open[3]};

    (void)state;
    put_kept(&kept, "gone", "a", "{}");
    put_kept(&kept, "pager", "x", "{\"v\":1}");
    put_kept(&kept, "pager", "job-7", "{\"v\":1,\"ended\":1767614400000000000,\"report\":{\"id\":7}}");
    put_kept(&kept, "chat", "job-8", "{\"v\":2,\"ended\":1,\"report\":{}}");
    put_kept(&kept, "chat", "job-9", "{\"v\":1,\"ended\":-1,\"report\":{}}");
    put_kept(&kept, "chat", "job-10", "{\"v\":1,\"ended\":1,\"report\":[]}");
    now_ns += 30 * NS_PER_MIN;
    real_ns += 30 * NS_PER_MIN;
    restart("after it", kept);
    open[1].reopened++;
    open[3].escalations++;
    begin("with what is open now");
    resume(all, 4);
    answer_all(200);
    show_receivers();
    begin("the repetition of a goes on after an hour in all");
    pass(30 * NS_PER_MIN - 1);
    begin("now");
    pass(1);
    answer_all(200);
    close_alerts(0);
    closed = false;
    now_ns = 50 * NS_PER_S; /* the machine was restarted too */
    restart("where the clock began anew, the hour begins with it", take_outbox());
    resume(all, 4);
    pass(NS_PER_H - 50 * NS_PER_S);
    begin("now");
    pass(1);
}

/* Over since, but an update came before the resumption. */
static void an_update_before_the_resumption_counts(void **state)
{
    const size_t from = trace.len;
    JournalKept kept = leave_outbox();
    Incident incident = make_incident("a");
    const Incident *over = &incident;

    (void)state;
    str_cut(&trace, from); /* as above */
    begin("an update before the resumption");
    open_alerts(
        "{receivers: {log: {journald: {socket: /nonexistent/s}}, pager: {command: {argv: [/bin/true]}}}, routes: "
        "[{receiver: log}]}",
        &kept, "");
    journal_kept_done(&kept);
    clear(&incident);
    tell(&incident);
    resume(&over, 1); /* one that is not open is not open */
    show_receivers();
    kept = take_outbox();
    journal_kept_done(&kept);
}

/* Each receiver's news hold the incident as it was then: the newest counts. */
static void the_newest_state_of_an_incident_is_taken_up(void **state)
{
    const size_t from = trace.len;
    JournalKept kept = leave_outbox();

    (void)state;
    for (size_t i = 0; i < kept.outbox.len; i++) {
        char *at = strstr(kept.outbox.at[i].text, "\"revision\":1,");
        const bool newer =
            strcmp(kept.outbox.at[i].receiver, strcmp(kept.outbox.at[i].key, "a") == 0 ? "pager" : "chat") == 0;

        assert_non_null(at);
        at[strlen("\"revision\":")] = newer ? '7' : '3';
    }
    open_alerts(TWO, &kept, "");
    journal_kept_done(&kept);
    assert_int_equal(((AlertItem *)map_get(&alerts->items, "a"))->incident.revision, 7);
    assert_int_equal(((AlertItem *)map_get(&alerts->items, "b"))->incident.revision, 7);
    close_alerts(0);
    kept = take_outbox();
    journal_kept_done(&kept);
    str_cut(&trace, from);
}

/* Checking starts nothing. */
static void a_configuration_is_checked_alone(void **state)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(str_done) Str notes = str_limited(1000);
    const YamlNode *good = NULL, *bad = NULL;
    const size_t from = trace.len;
    Err err = {0};

    (void)state;
    load("{receivers: {" HOOK("pager") "}, routes: [{match: {gpu: 8}, receivers: []}]}", &arena, &good);
    load("{receivers: 3}", &arena, &bad);
    assert_int_equal(alerts_check(good, NULL, 8, &notes, &err), 0);
    assert_string_equal(notes.text, "alerts: no route leads to receiver 'pager'\n"
                                    "alerts: a route names GPU 8, this node has 8 GPUs\n");
    assert_int_equal(alerts_check(good, NULL, 8, NULL, &err), 0);
    assert_int_equal(alerts_check(bad, NULL, 8, &notes, &err), -EINVAL);
    assert_int_equal(trace.len, from);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void the_end_waits_for_answers(void **state)
{
    Incident incident = make_incident("a"), other = make_incident("b");

    (void)state;
    begin("an end with grace");
    open_alerts("{receivers: {" HOOK("pager") "}, routes: [{receiver: pager}]}", NULL, "");
    resume(NULL, 0);
    tell(&incident);
    close_alerts(5000);
    assert_int_equal(wait_ms, 5000);
    assert_false(closed);
    tell(&other); /* nothing new is taken */
    answer_all(200);
    assert_true(closed);
    begin("an end without");
    closed = false;
    open_alerts("{receivers: {" HOOK("pager") "}, routes: [{receiver: pager}]}", NULL, "");
    resume(NULL, 0);
    tell(&incident);
    close_alerts(0);
    assert_true(closed);
    begin("an end before the resumption");
    closed = false;
    open_alerts("{receivers: {" HOOK("pager") "}, routes: [{receiver: pager}]}", NULL, "");
    close_alerts(5000);
    assert_true(closed);
    closed = false;
    alerts_close(NULL, 5000, on_closed, &closed);
    assert_true(closed);
    alerts_close(NULL, 0, NULL, NULL);
}

static void an_end_waits_for_an_alertmanager_and_a_report(void **state)
{
    const char *const both = "{receivers: {am: {alertmanager: {urls: ['http://am']}}, " HOOK(
        "pager") "}, "
                 "routes: [{receiver: am}], job_reports: [pager]}";
    Incident incident = make_incident("a");

    (void)state;
    begin("an end with an Alertmanager and a report under way");
    open_alerts(both, NULL, "");
    resume(NULL, 0);
    tell(&incident);
    alerts_report(alerts, "7", real_ns, "{}", 2);
    run();
    close_alerts(5000);
    answer(0, 200);
    assert_false(closed);
    answer(1, 200);
    assert_true(closed);
    begin("the grace passes");
    closed = false;
    open_alerts(both, NULL, "");
    resume(NULL, 0);
    tell(&incident);
    alerts_report(alerts, "8", real_ns, "{}", 2);
    run();
    close_alerts(5000);
    __real_uv_timer_start(&alerts->grace, alerts->grace.timer_cb, 0, 0);
    run();
    assert_true(closed);
}

static void a_wrong_configuration_is_an_error(void **state)
{
    (void)state;
    begin("a wrong configuration");
    assert_int_equal(open_alerts("{receivers: 3}", NULL, ""), -EINVAL);
    refuse = true;
    assert_int_equal(open_alerts("{receivers: {" HOOK("pager") "}}", NULL, ""), -EMFILE);
    alerts = NULL;
}

/* --- job reports -------------------------------------------------------------------------------------------------- */

#define REPORTS                                                                                                        \
    "{receivers: {pager: {keep: 1h, webhook: {url: 'http://pager/'}}, " HOOK("chat") "}, job_reports: [pager]}"

static void report(const char *id, const char *json)
{
    alerts_report(alerts, id, real_ns, json, strlen(json));
    run();
}

static void a_report_is_sent_once_and_one_at_a_time(void **state)
{
    (void)state;
    begin("job reports");
    open_alerts(REPORTS, NULL, "");
    resume(NULL, 0);
    report("1", "{\"id\":1}");
    report("2", "{\"id\":2}");
    report("1", "{\"id\":1}");
    show_receivers();
    answer_all(200);
    answer_all(200);
    show_receivers();
    begin("refused");
    report("3", "{}");
    answer_all(400);
    begin("it fails; the next goes on, and when that is delivered it is tried again");
    report("4", "{}");
    answer_all(0);
    pass(NS_PER_S);
    answer_all(0); /* not at once */
    report("5", "{}");
    answer_all(200);
    answer_all(200);
    show_receivers();
    begin("it cannot be sent at all");
    refuse = true;
    report("6", "{}");
    refuse = false;
    pass(NS_PER_MIN);
    answer_all(200);
    begin("where an agent is found");
    alerts_place(alerts, "http://node7:9400");
    report("7", "{}");
    answer_all(200);
    alerts_place(alerts, "http://node7:9401/");
    report("8", "{}");
    answer_all(200);
    close_alerts(0);
    closed = false;
    open_alerts(REPORTS, NULL, "http://fleet/");
    resume(NULL, 0);
    alerts_place(alerts, "http://node7:9400/"); /* it is configured */
    report("9", "{}");
}

static void a_report_is_kept_for_so_long(void **state)
{
    (void)state;
    begin("an old report");
    open_alerts(REPORTS, NULL, "");
    resume(NULL, 0);
    report("1", "{}");
    answer_all(0);
    now_ns -= NS_PER_H; /* the next try is far away */
    pass(NS_PER_H - 1);
    show_receivers();
    pass(1);
    show_receivers();
    begin("one under way is not old");
    report("2", "{}");
    pass(2 * NS_PER_H);
    show_receivers();
    answer_all(0);
    show_receivers();
}

static void there_is_room_for_so_many_reports(void **state)
{
    CLEANUP(str_done) Str large = str_limited(ALERT_REPORT_MAX + 100);
    size_t from;

    (void)state;
    begin("many reports");
    open_alerts(REPORTS, NULL, "");
    resume(NULL, 0);
    from = trace.len;
    for (int i = 0; i < ALERT_REPORTS_MAX; i++) {
        char id[16];

        snprintf(id, sizeof id, "%d", i);
        report(id, "{}");
    }
    assert_null(strstr(trace.text + from, "forget"));
    str_cut(&trace, from);
    report("more", "{}"); /* the first is under way: the second goes */
    show_receivers();
    begin("a large report");
    str_addf(&large, "{\"a\":\"");
    while (large.len < ALERT_REPORT_MAX - 2)
        str_addc(&large, 'x');
    str_add(&large, "\"}");
    assert_int_equal(large.len, ALERT_REPORT_MAX);
    from = alerts->receivers.at[0]->dropped;
    report("large", large.text);
    assert_int_equal(alerts->receivers.at[0]->dropped, from + 1); /* for the third, that made room */
    str_addc(&large, ' ');
    report("larger", large.text);
    begin("no receiver any more");
    from = trace.len;
    reload("{receivers: {" HOOK("chat") "}}");
    str_cut(&trace, from); /* it forgets each of them */
    assert_int_equal(outbox.outbox.len, 0);
}

static void all_of_it_is_as_in_the_file(void **state)
{
    (void)state;
    assert_golden(GOLDEN "/alert.txt", &trace);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(there_is_room_for_so_many),
        TEST(routes_lead_to_receivers),
        TEST(the_timer_waits_for_what_is_next),
        TEST(what_an_alertmanager_missed_is_noted),
        TEST(an_alert_ends_under_its_old_labels),
        TEST(a_reload_keeps_what_stays),
        TEST(a_reload_tries_again_at_once),
        TEST(a_restart_loses_nothing_and_says_nothing_twice),
        TEST(an_update_before_the_resumption_counts),
        TEST(the_newest_state_of_an_incident_is_taken_up),
        TEST(a_configuration_is_checked_alone),
        TEST(the_end_waits_for_answers),
        TEST(an_end_waits_for_an_alertmanager_and_a_report),
        TEST(a_wrong_configuration_is_an_error),
        TEST(a_report_is_sent_once_and_one_at_a_time),
        TEST(a_report_is_kept_for_so_long),
        TEST(there_is_room_for_so_many_reports),
        cmocka_unit_test(all_of_it_is_as_in_the_file), /* the last: of the trace of all before it */
    };

    return cmocka_run_group_tests(tests, open_trace, close_trace);
}
