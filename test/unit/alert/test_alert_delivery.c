/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service/alert without a network: what an answer means, how long to wait after it, and what one receiver is sent in
 * which order, with a sender and an outbox of the test's own under a clock of its own.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/alert/delivery.h"

enum { ITEMS = 6 };

/* --- the rig ------------------------------------------------------------------------------------------------------ */

static uint64_t now_ns, real_ns;
static Alerts alerts;
static AlertTree tree;
static ReceiverConfig config;
static Receiver receiver;
static RouteConfig route;
static AlertItem items[ITEMS];
static Delivery *deliveries[ITEMS];
static Delivery *started[16];
static size_t started_count;
static char outbox[ITEMS][32 << 10]; /* by item; "" none */
static char hostname[] = "node", external_url[] = "http://node:9400/", receiver_name[] = "pager";
static Log to_file;
static FILE *log_lines;

static uint64_t read_now(const Clock *from UNUSED)
{
    return now_ns;
}

static uint64_t read_real(const Clock *from UNUSED)
{
    return real_ns;
}

static const ClockOps clock_ops = {.monotonic_ns = read_now, .real_ns = read_real};
static const Clock moved = {.ops = &clock_ops};

static uint64_t send_due(Receiver *to, uint64_t at_ns)
{
    Delivery *delivery;
    uint64_t next;

    while ((delivery = delivery_begin_due(to, at_ns, &next))) {
        assert_true(started_count < ARRAY_LEN(started));
        started[started_count++] = delivery;
    }
    return next;
}

static void cancel(Delivery *delivery)
{
    (void)delivery;
}

static const SenderOps ops = {send_due, cancel};

/* The journal's part in this. */
uint64_t journal_put_outbox(Journal *journal, const char *name, const char *key, const char *text, size_t len)
{
    const size_t i = (size_t)(key[0] - 'a');

    (void)journal;
    assert_string_equal(name, "pager");
    assert_true(i < ITEMS && len < sizeof outbox[i]);
    memcpy(outbox[i], text, len);
    outbox[i][len] = '\0';
    return 1;
}

static int set_up(void **state)
{
    (void)state;
    now_ns = 1000 * NS_PER_S;
    real_ns = UINT64_C(1700000000) * NS_PER_S;
    log_lines = tmpfile();
    assert_non_null(log_lines);
    log_init(&to_file, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "test", clock_kernel());
    to_file.fd = fileno(log_lines);
    memset(outbox, 0, sizeof outbox);
    memset(&tree, 0, sizeof tree);
    memset(&route, 0, sizeof route);
    memset(items, 0, sizeof items);
    started_count = 0;
    alerts = (Alerts){.config = {.clock = &moved, .log = &to_file},
                      .hostname = hostname,
                      .external_url = external_url,
                      .tree = &tree,
                      .closed = true};
    config = (ReceiverConfig){.name = "pager", .keep_ns = NS_PER_H, .timeout_ns = 10 * NS_PER_S};
    receiver =
        (Receiver){.alerts = &alerts, .name = receiver_name, .kind = RECEIVER_WEBHOOK, .config = &config, .ops = &ops};
    for (size_t i = 0; i < ITEMS; i++) {
        Incident *incident = &items[i].incident;

        incident->id[0] = (char)('a' + i);
        strcpy(incident->class, "gpu-lost");
        strcpy(incident->title, "GPU 3 is lost");
        incident->state = INCIDENT_OPEN;
        incident->severity = SEVERITY_FATAL;
        incident->route = ROUTE_TICKET;
        incident->opened_real_ns = real_ns;
        incident->pid = -1;
        device_init(&incident->device, DEVICE_GPU);
        deliveries[i] = delivery_new(&items[i], &receiver);
        deliveries[i]->route = &route;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < ITEMS; i++) {
        if (deliveries[i])
            delivery_free(deliveries[i], false);
        vec_done(&items[i].deliveries);
    }
    vec_done(&receiver.deliveries);
    fclose(log_lines);
    return 0;
}

/* What was logged since the last call. */
static const char *read_log(void)
{
    static char text[4096];
    size_t len;

    rewind(log_lines);
    len = fread(text, 1, sizeof text - 1, log_lines);
    text[len] = '\0';
    assert_int_equal(ftruncate(fileno(log_lines), 0), 0);
    rewind(log_lines);
    return text;
}

/* Sends what is due and returns the only one that was; NULL: none. */
static Delivery *send_one(void)
{
    const size_t before = started_count;

    send_due(&receiver, now_ns);
    assert_in_range(started_count - before, 0, 1);
    return started_count > before ? started[before] : NULL;
}

static void finish(Delivery *delivery, Outcome outcome)
{
    delivery_finish(delivery, outcome, 0, outcome == OUTCOME_DELIVERED ? "" : "no answer");
}

/* Sends the news of the first incident, which are `change`, and has it delivered. */
static void deliver(DeliveryChange change)
{
    Delivery *d;

    delivery_update(deliveries[0]);
    assert_int_equal(deliveries[0]->change, change);
    d = send_one();
    assert_ptr_equal(d, deliveries[0]);
    assert_int_equal(d->sending.change, change);
    finish(d, OUTCOME_DELIVERED);
    assert_int_equal(deliveries[0]->change, DELIVERY_NONE);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void an_answer_is_delivered_refused_or_tried_again(void **state)
{
    static const struct {
        unsigned int from, to;
        Outcome outcome;
    } answers[] = {
        {100, 199, OUTCOME_FAILED},   {200, 299, OUTCOME_DELIVERED}, {300, 399, OUTCOME_FAILED},
        {400, 400, OUTCOME_REJECTED}, {401, 401, OUTCOME_FAILED},    {402, 402, OUTCOME_REJECTED},
        {403, 403, OUTCOME_FAILED},   {404, 407, OUTCOME_REJECTED},  {408, 408, OUTCOME_FAILED},
        {409, 428, OUTCOME_REJECTED}, {429, 429, OUTCOME_FAILED},    {430, 499, OUTCOME_REJECTED},
        {500, 599, OUTCOME_FAILED},
    };
    FetchAnswer answer = {.body = "no\nsuch \x80user, and so on", .body_len = 7};
    char why[ALERT_WHY_CAP], text[64], large[600];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        for (answer.status = answers[i].from; answer.status <= answers[i].to; answer.status++) {
            assert_int_equal(receiver_read_answer(&receiver, &answer, why), answers[i].outcome);
            snprintf(text, sizeof text, "HTTP status %u: no such", answer.status);
            assert_string_equal(why, answers[i].outcome == OUTCOME_DELIVERED ? "" : text);
        }
    answer.status = 500;
    answer.body_len = 10;
    (void)receiver_read_answer(&receiver, &answer, why);
    assert_string_equal(why, "HTTP status 500: no such  u"); /* what is no ASCII is a space */
    answer.body_len = 0;
    (void)receiver_read_answer(&receiver, &answer, why);
    assert_string_equal(why, "HTTP status 500");
    memset(large, 'x', sizeof large);
    answer.body = large;
    answer.body_len = sizeof large;
    (void)receiver_read_answer(&receiver, &answer, why);
    assert_int_equal(strlen(why), strlen("HTTP status 500: ") + 80);
    answer.status = 0;
    snprintf(answer.text, sizeof answer.text, "connection refused");
    assert_int_equal(receiver_read_answer(&receiver, &answer, why), OUTCOME_FAILED);
    assert_string_equal(why, "connection refused");
}

/* Doubled with each failure up to the most, at most a fifth less; a Retry-After is kept, up to an hour. */
static void pauses_double_and_end(void **state)
{
    const uint64_t most = ALERT_BACKOFF_MAX_NS;

    (void)state;
    for (unsigned int tries = 0; tries < 70; tries++) {
        const double whole = fmin(300, tries < 2 ? 1 : ldexp(1, (int)tries - 1));
        uint64_t least = UINT64_MAX, largest = 0;

        for (int i = 0; i < 200; i++) {
            const uint64_t wait = alert_backoff_ns(tries, most, 0);

            least = wait < least ? wait : least;
            largest = wait > largest ? wait : largest;
        }
        assert_true((double)largest <= whole * 1e9 && (double)least >= .8 * whole * 1e9);
        /* All 200 in one half of the range would be a chance of 1 to 2^199. */
        assert_true((double)largest > .9 * whole * 1e9 && (double)least < .9 * whole * 1e9);
    }
    assert_true(alert_backoff_ns(1, most, 500) >= 800 * NS_PER_MS);
    assert_true(alert_backoff_ns(1, most, 500) <= NS_PER_S);
    assert_true(alert_backoff_ns(1, most, 7000) == 7 * NS_PER_S);
    assert_true(alert_backoff_ns(1, most, 5 * 3600 * 1000) == NS_PER_H);
    assert_true(alert_backoff_ns(30, 15 * NS_PER_S, 0) <= 15 * NS_PER_S);
}

/* A failure is logged once for each reason, the recovery once. */
static void the_state_of_a_receiver_follows_the_answers(void **state)
{
    (void)state;
    receiver_note_outcome(&receiver, OUTCOME_FAILED, 1, "no route");
    assert_non_null(strstr(read_log(), "receiver 'pager': no route; will try again"));
    assert_true(receiver.troubled && receiver.failed == 1 && receiver.sent == 0);
    assert_string_equal(receiver.why, "no route");
    receiver_note_outcome(&receiver, OUTCOME_FAILED, 1, "no route");
    assert_string_equal(read_log(), "");
    receiver_note_outcome(&receiver, OUTCOME_FAILED, 1, "HTTP status 503");
    assert_non_null(strstr(read_log(), "HTTP status 503; will try again"));
    assert_true(receiver.failed == 3 && receiver.last_ok_real_ns == 0);
    receiver_note_outcome(&receiver, OUTCOME_DELIVERED, 1, "");
    assert_non_null(strstr(read_log(), "receiver 'pager' works again"));
    assert_true(!receiver.troubled && receiver.sent == 1 && receiver.last_ok_real_ns == real_ns);
    assert_string_equal(receiver.why, "");
    receiver_note_outcome(&receiver, OUTCOME_DELIVERED, 1, "");
    assert_string_equal(read_log(), "");
    receiver_note_outcome(&receiver, OUTCOME_REJECTED, 2, "HTTP status 400");
    assert_non_null(strstr(read_log(), "missed 2 notifications: HTTP status 400"));
    assert_true(!receiver.troubled && receiver.dropped == 2 && receiver.failed == 4);
    receiver_note_outcome(&receiver, OUTCOME_REJECTED, 1, "HTTP status 400");
    assert_non_null(strstr(read_log(), "missed 1 notification: HTTP status 400"));
}

static void a_request_is_as_configured(void **state)
{
    const char *headers[ALERT_HEADERS_MAX + 8];
    FetchRequest request;

    (void)state;
    config.headers[0] = "X-Team: gpu";
    config.headers[1] = "X-Site: a";
    config.header_count = 2;
    config.request.user = "ada";
    config.secrets[SECRET_PASSWORD] = (char[]){"word"};
    config.secrets[SECRET_BEARER] = (char[]){"token"};
    receiver_make_request(&receiver, "http://a/", headers, &request);
    assert_int_equal(request.header_count, 3);
    assert_string_equal(request.headers[0], "X-Team: gpu");
    assert_string_equal(request.headers[1], "X-Site: a");
    assert_string_equal(request.headers[2], "Content-Type: application/json");
    assert_string_equal(request.url, "http://a/");
    assert_string_equal(request.user, "ada");
    assert_string_equal(request.password, "word");
    assert_string_equal(request.bearer, "token");
    assert_int_equal(request.timeout_ms, 10000);
    assert_int_equal(request.answer_max, ALERT_ANSWER_MAX);
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

static void each_change_is_sent_once(void **state)
{
    Incident *incident = &items[0].incident;

    (void)state;
    deliver(DELIVERY_OPENED);
    delivery_update(deliveries[0]);
    assert_null(send_one());
    incident->revision++; /* more of the same */
    delivery_update(deliveries[0]);
    assert_null(send_one());
    incident->escalations++;
    deliver(DELIVERY_ESCALATED);
    incident->state = INCIDENT_CLEARED;
    incident->cleared_real_ns = real_ns;
    deliver(DELIVERY_CLEARED);
    assert_true(delivery_is_over(deliveries[0]));
    incident->state = INCIDENT_OPEN;
    incident->reopened++;
    deliver(DELIVERY_REOPENED);
    assert_false(delivery_is_over(deliveries[0]));
    assert_int_equal(receiver.sent, 4);
    assert_int_equal(receiver.in_flight, 0);
}

/* Opened and cleared before anybody heard of it; with no news for whom no route leads to or who must not be told. */
static void what_was_missed_is_sent_as_such(void **state)
{
    Incident *incident = &items[0].incident;

    (void)state;
    incident->silenced = true;
    delivery_update(deliveries[0]);
    assert_int_equal(deliveries[0]->change, DELIVERY_NONE);
    incident->silenced = false;
    delivery_update(deliveries[0]);
    assert_int_equal(deliveries[0]->change, DELIVERY_OPENED);
    incident->state = INCIDENT_CLEARED;
    incident->cleared_real_ns = real_ns;
    deliver(DELIVERY_MISSED);
    deliveries[1]->route = NULL;
    delivery_update(deliveries[1]);
    assert_int_equal(deliveries[1]->change, DELIVERY_NONE);
    items[2].incident.state = INCIDENT_CLEARED; /* over before it was told at all */
    delivery_update(deliveries[2]);
    assert_int_equal(deliveries[2]->change, DELIVERY_NONE);
    assert_null(send_one());
}

/* Who heard of the beginning hears of the end, in maintenance too; of nothing between. */
static void maintenance_holds_back_all_but_the_end(void **state)
{
    Incident *incident = &items[0].incident;

    (void)state;
    deliver(DELIVERY_OPENED);
    incident->silenced = true;
    incident->escalations++;
    delivery_update(deliveries[0]);
    assert_null(send_one());
    incident->state = INCIDENT_CLEARED;
    incident->cleared_real_ns = real_ns;
    deliver(DELIVERY_CLEARED);
    incident->state = INCIDENT_OPEN;
    delivery_update(deliveries[0]);
    assert_null(send_one());
}

/* A page before others, then what waits for longest; four at a time. */
static void pages_go_first_and_then_by_age(void **state)
{
    static const size_t order[] = {5, 1, 3, 0, 2, 4};

    (void)state;
    items[1].incident.route = items[5].incident.route = ROUTE_PAGE;
    for (size_t i = 0; i < ITEMS; i++) {
        const size_t at = (i * 5 + 5) % ITEMS; /* 5 4 3 2 1 0: the last is the oldest */

        delivery_update(deliveries[at]);
        now_ns += NS_PER_S;
    }
    deliveries[3]->since_ns -= 100 * NS_PER_S;
    deliveries[0]->since_ns -= 50 * NS_PER_S;
    deliveries[2]->since_ns -= 10 * NS_PER_S;
    assert_true(send_due(&receiver, now_ns) == ALERT_NEVER);
    assert_int_equal(started_count, ALERT_IN_FLIGHT_MAX);
    for (size_t i = 0; i < ALERT_IN_FLIGHT_MAX; i++)
        finish(started[i], OUTCOME_DELIVERED);
    send_due(&receiver, now_ns);
    assert_int_equal(started_count, ITEMS);
    for (size_t i = 0; i < ITEMS; i++)
        assert_ptr_equal(started[i], deliveries[order[i]]);
}

/* After a failure it waits; when the receiver is back, nothing else waits any longer. */
static void a_failure_is_tried_again_after_its_pause(void **state)
{
    uint64_t next;

    (void)state;
    delivery_update(deliveries[0]);
    delivery_update(deliveries[1]);
    send_due(&receiver, now_ns);
    assert_int_equal(started_count, 2);
    finish(deliveries[0], OUTCOME_FAILED);
    finish(deliveries[1], OUTCOME_FAILED);
    next = send_due(&receiver, now_ns);
    assert_int_equal(started_count, 2);
    assert_true(next > now_ns && next <= now_ns + NS_PER_S);
    assert_true(next == (deliveries[0]->retry_ns < deliveries[1]->retry_ns ? deliveries[0] : deliveries[1])->retry_ns);
    now_ns += NS_PER_S;
    deliveries[1]->retry_ns = now_ns + 200 * NS_PER_S;
    assert_ptr_equal(send_one(), deliveries[0]);
    finish(deliveries[0], OUTCOME_FAILED);
    assert_true(deliveries[0]->tries == 2 && deliveries[0]->retry_ns > now_ns + 3 * NS_PER_S / 2);
    now_ns += 2 * NS_PER_S;
    assert_ptr_equal(send_one(), deliveries[0]);
    finish(deliveries[0], OUTCOME_DELIVERED);
    assert_int_equal(deliveries[0]->tries, 0);
    assert_ptr_equal(send_one(), deliveries[1]);
    finish(deliveries[1], OUTCOME_REJECTED);
    assert_null(send_one()); /* it is refused for good */
    assert_int_equal(receiver.dropped, 1);
    assert_true(deliveries[1]->heard.state == HEARD_OPEN && deliveries[1]->tries == 0);
}

/* From the last notification on, while it is open and a route asks for it. */
static void an_open_incident_is_repeated(void **state)
{
    (void)state;
    deliver(DELIVERY_OPENED);
    assert_true(send_due(&receiver, now_ns) == ALERT_NEVER);
    route.repeat_ns = 60 * NS_PER_S;
    assert_true(send_due(&receiver, now_ns) == now_ns + 60 * NS_PER_S);
    now_ns += 60 * NS_PER_S - 1;
    assert_null(send_one());
    items[0].incident.silenced = true;
    now_ns++;
    assert_null(send_one());
    items[0].incident.silenced = false;
    items[0].incident.severity = SEVERITY_INFO;
    assert_null(send_one());
    items[0].incident.severity = SEVERITY_WARNING;
    receiver.kind = RECEIVER_JOURNALD;
    assert_null(send_one());
    receiver.kind = RECEIVER_WEBHOOK;
    Delivery *d = send_one();
    assert_ptr_equal(d, deliveries[0]);
    assert_int_equal(d->sending.change, DELIVERY_REPEATED);
    assert_string_equal(d->sending.key, "a-0.0-r1700000000");
    finish(d, OUTCOME_DELIVERED);
    items[0].incident.state = INCIDENT_CLEARED;
    items[0].incident.cleared_real_ns = real_ns;
    now_ns += 3600 * NS_PER_S;
    deliver(DELIVERY_CLEARED); /* its end is no repetition */
    now_ns += 3600 * NS_PER_S;
    assert_null(send_one());
}

/* The same news have the same key, whatever the revision. */
static void keys_are_of_the_state(void **state)
{
    Incident *incident = &items[0].incident;

    (void)state;
    incident->escalations = 2;
    incident->reopened = 1;
    incident->revision = 77;
    route.runbook = "https://wiki/all";
    delivery_update(deliveries[0]);
    Delivery *d = send_one();
    assert_non_null(d);
    assert_string_equal(d->sending.key, "a-1.2");
    json_t *body = json_loadb(d->sending.body.text, d->sending.body.len, 0, NULL);
    assert_non_null(body);
    assert_string_equal(json_string_value(json_object_get(body, "receiver")), "pager");
    assert_string_equal(json_string_value(json_object_get(body, "hostname")), "node");
    assert_int_equal(json_integer_value(json_object_get(body, "version")), 2);
    assert_true(json_is_object(json_object_get(body, "labels")) && json_is_object(json_object_get(body, "incident")));
    assert_string_equal(json_string_value(json_object_get(body, "runbook_url")), "https://wiki/all");
    json_decref(body);
    assert_non_null(strstr(d->sending.body.text, "\"key\":\"a-1.2\""));
    assert_non_null(strstr(d->sending.body.text, "\"change\":\"reopened\""));
    assert_non_null(strstr(d->sending.body.text, "\"url\":\"http://node:9400/#/incidents/a\""));
    finish(d, OUTCOME_DELIVERED);
    incident->state = INCIDENT_CLEARED;
    incident->cleared_real_ns = real_ns;
    delivery_update(deliveries[0]);
    d = send_one();
    assert_non_null(d);
    assert_string_equal(d->sending.key, "a-1.end");
    finish(d, OUTCOME_DELIVERED);
}

/* The end of an incident is tried for as long as configured. */
static void old_news_are_dropped(void **state)
{
    Incident *incident = &items[0].incident;

    (void)state;
    deliver(DELIVERY_OPENED);
    incident->state = INCIDENT_CLEARED;
    incident->cleared_real_ns = real_ns;
    delivery_update(deliveries[0]);
    deliveries[0]->retry_ns = now_ns + 9999 * NS_PER_S;
    real_ns += config.keep_ns - 1;
    assert_null(send_one());
    assert_int_equal(deliveries[0]->change, DELIVERY_CLEARED);
    assert_true(outbox[0][0] != '\0');
    real_ns++;
    assert_null(send_one());
    assert_int_equal(deliveries[0]->change, DELIVERY_NONE);
    assert_int_equal(receiver.dropped, 1);
    assert_string_equal(outbox[0], "");
    assert_non_null(strstr(read_log(), "it has been over for too long (keep)"));
    assert_true(delivery_is_over(deliveries[0]));
}

/* What may or may not have been heard is kept before it is sent, and told again after a restart. */
static void the_outbox_holds_what_is_not_certain(void **state)
{
    Delivery kept = {.receiver = &receiver};
    Incident incident;

    (void)state;
    deliveries[0]->labels[0] = '{';
    delivery_update(deliveries[0]);
    assert_true(strstr(outbox[0], "\"told\":\"nothing\"") && strstr(outbox[0], "\"unsure\":false"));
    now_ns += 30 * NS_PER_S;
    real_ns += 30 * NS_PER_S;
    Delivery *d = send_one();
    assert_ptr_equal(d, deliveries[0]);
    assert_non_null(strstr(outbox[0], "\"unsure\":true"));
    assert_int_equal(delivery_read_kept(outbox[0], &kept, &incident), 0);
    assert_true(kept.heard.unsure && kept.heard.state == HEARD_NOTHING);
    assert_true(kept.since_ns == now_ns - 30 * NS_PER_S);
    assert_string_equal(incident.id, "a");
    delivery_restore(deliveries[1], &kept);
    assert_int_equal(deliveries[1]->change, DELIVERY_OPENED);
    assert_true(deliveries[1]->saved);
    assert_true(deliveries[1]->since_ns == now_ns - 30 * NS_PER_S);
    items[1].incident.state = INCIDENT_CLEARED; /* it may have been heard, and is over */
    deliveries[1]->heard.unsure = false;
    kept = (Delivery){.receiver = &receiver, .labels = strdup("{}"), .heard = {.state = HEARD_OPEN}};
    delivery_restore(deliveries[1], &kept);
    assert_int_equal(deliveries[1]->change, DELIVERY_CLEARED);
    delivery_free(deliveries[1], false);
    deliveries[1] = NULL;
    finish(d, OUTCOME_DELIVERED);
    assert_true(strstr(outbox[0], "\"told\":\"open\"") && strstr(outbox[0], "\"unsure\":false"));
    assert_int_equal(delivery_read_kept(outbox[0], &kept, &incident), 0);
    assert_true(kept.heard.state == HEARD_OPEN && kept.heard.real_ns == real_ns);
    free(kept.labels);
    kept.labels = NULL;
    real_ns -= 3600 * NS_PER_S; /* the wall clock was set back: not of the future */
    assert_int_equal(delivery_read_kept(outbox[0], &kept, &incident), 0);
    assert_true(kept.since_ns == now_ns);
    free(kept.labels);
    static const char *const damaged[] = {"\"told\":\"open", "\"labels\":", "\"incident\":"};
    for (size_t i = 0; i < ARRAY_LEN(damaged); i++) { /* one letter of each */
        char *at = strstr(outbox[0], damaged[i]) + strlen(damaged[i]) - 3;

        *at ^= 1;
        assert_int_not_equal(delivery_read_kept(outbox[0], &kept, &incident), 0);
        *at ^= 1;
    }
    assert_int_not_equal(delivery_read_kept("{\"v\":1}", &kept, &incident), 0);
    assert_int_not_equal(delivery_read_kept("[]", &kept, &incident), 0);
    items[0].incident.state = INCIDENT_CLEARED;
    items[0].incident.cleared_real_ns = real_ns;
    deliver(DELIVERY_CLEARED);
    assert_string_equal(outbox[0], "");
}

/* Unsure: it was sent the contrary, and no answer came. What is true now is said again. */
static void what_was_not_certain_is_said_again(void **state)
{
    Incident *incident = &items[0].incident;

    (void)state;
    deliver(DELIVERY_OPENED);
    incident->state = INCIDENT_CLEARED;
    incident->cleared_real_ns = real_ns;
    delivery_update(deliveries[0]);
    Delivery *d = send_one();
    assert_ptr_equal(d, deliveries[0]);
    finish(d, OUTCOME_FAILED);
    assert_true(deliveries[0]->heard.unsure);
    incident->state = INCIDENT_OPEN; /* it came back, and the end may have been heard */
    delivery_update(deliveries[0]);
    assert_int_equal(deliveries[0]->change, DELIVERY_REOPENED);
    incident->silenced = true;
    delivery_update(deliveries[0]);
    assert_int_equal(deliveries[0]->change, DELIVERY_NONE);
    assert_false(delivery_is_over(deliveries[0]));
    incident->silenced = false;
    incident->state = INCIDENT_CLEARED;
    delivery_update(deliveries[0]);
    assert_int_equal(deliveries[0]->change, DELIVERY_CLEARED);
}

/* One that was told is not over before its end was; a sending under way keeps it; an Alertmanager hears of the end for
 * a quarter of an hour. */
static void a_delivery_is_over_when_nothing_is_left_to_tell(void **state)
{
    Delivery *d = deliveries[0];

    (void)state;
    assert_false(delivery_is_over(d)); /* open, and a route leads here */
    d->route = NULL;
    assert_true(delivery_is_over(d));
    d->heard.state = HEARD_OPEN;
    assert_false(delivery_is_over(d));
    d->heard.state = HEARD_NOTHING;
    d->heard.unsure = true;
    assert_false(delivery_is_over(d));
    d->heard.unsure = false;
    d->sending.active = true;
    assert_false(delivery_is_over(d));
    d->sending.active = false;
    d->posted[ALERT_URLS_MAX - 1].posting = 1;
    assert_false(delivery_is_over(d));
    d->posted[ALERT_URLS_MAX - 1].posting = 0;
    items[0].restored = true;
    assert_false(delivery_is_over(d));
    items[0].restored = false;
    receiver.kind = RECEIVER_ALERTMANAGER;
    d->route = &route;
    delivery_update(d);
    assert_true(d->ended_ns == 0);
    items[0].incident.state = INCIDENT_CLEARED;
    delivery_update(d);
    assert_true(d->ended_ns == now_ns);
    assert_true(delivery_is_over(d)); /* nobody heard of it */
    d->heard.state = HEARD_OPEN;
    now_ns += ALERT_RESOLVED_NS - 1;
    delivery_update(d);
    assert_false(delivery_is_over(d));
    now_ns++;
    assert_true(delivery_is_over(d));
    items[0].incident.state = INCIDENT_OPEN;
    delivery_update(d);
    assert_true(d->ended_ns == 0);
}

/* A cancelled notification makes room; one that is forgotten leaves the outbox. */
static void what_is_taken_off_leaves_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < ITEMS; i++)
        delivery_update(deliveries[i]);
    send_due(&receiver, now_ns);
    assert_int_equal(receiver.in_flight, ALERT_IN_FLIGHT_MAX);
    delivery_cancel_all(&receiver);
    assert_int_equal(receiver.in_flight, 0);
    assert_true(outbox[2][0] && outbox[3][0]);
    delivery_free(deliveries[2], true);
    delivery_free(deliveries[3], false);
    assert_string_equal(outbox[2], "");
    assert_true(outbox[3][0] != '\0');
    assert_int_equal(receiver.deliveries.len, ITEMS - 2);
    for (size_t i = 0; i < receiver.deliveries.len; i++)
        assert_true(receiver.deliveries.at[i] != deliveries[2] && receiver.deliveries.at[i] != deliveries[3]);
    deliveries[2] = deliveries[3] = NULL;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

static void links_and_runbooks_are_whole(void **state)
{
    char out[256];

    (void)state;
    delivery_write_link(&alerts, &items[0].incident, out, sizeof out);
    assert_string_equal(out, "http://node:9400/#/incidents/a");
    tree.external_url = "https://fleet/gpu";
    delivery_write_link(&alerts, &items[0].incident, out, sizeof out);
    assert_string_equal(out, "https://fleet/gpu/#/incidents/a");
    route.runbook = "https://wiki/{class}.html";
    delivery_write_runbook(deliveries[0], out, sizeof out);
    assert_string_equal(out, "https://wiki/gpu-lost.html");
    route.runbook = "https://wiki/all";
    delivery_write_runbook(deliveries[0], out, sizeof out);
    assert_string_equal(out, "https://wiki/all");
    route.runbook = NULL;
    snprintf(items[0].incident.runbook, sizeof items[0].incident.runbook, "https://site/{class}");
    delivery_write_runbook(deliveries[0], out, sizeof out);
    assert_string_equal(out, "https://site/gpu-lost");
}

/* As much as there is room for, the first pieces before the last. */
static void evidence_is_listed_in_order(void **state)
{
    static const char *const lines[] = {"one", "two", "three"};
    Incident *incident = &items[0].incident;
    const size_t all = 3 * strlen("1970-01-01T00:00:01.000Z ") + strlen("onetwothree") + 2;
    char wanted[256] = "";

    (void)state;
    incident->first_len = 2;
    incident->last_len = 1;
    for (size_t i = 0; i < 3; i++) {
        IncidentEvidence *evidence = i < 2 ? &incident->first[i] : &incident->last[0];

        evidence->real_ns = (i + 1) * NS_PER_S;
        snprintf(evidence->text, sizeof evidence->text, "%s", lines[i]);
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s1970-01-01T00:00:0%zu.000Z %s",
                 i ? "\n" : "", i + 1, lines[i]);
    }
    for (size_t max = 0; max < 200; max++) {
        CLEANUP(str_done) Str out = str_limited(1000);

        str_add(&out, "before: "); /* does not count */
        delivery_write_evidence(incident, max, &out);
        assert_true(out.len - 8 <= max);
        assert_true(strncmp(out.text + 8, wanted, out.len - 8) == 0);
        assert_true(max < 150 || out.len - 8 == all);
    }
}

static void labels_are_sorted_and_never_empty(void **state)
{
    AlertLabels labels = {0};
    char names[ALERT_LABELS_MAX + 1][8];
    Str text;

    (void)state;
    alert_labels_set(&labels, "b", "2");
    alert_labels_set(&labels, "a", "1");
    alert_labels_set(&labels, "d", "4");
    alert_labels_set(&labels, "c", "3");
    alert_labels_set(&labels, "none", "");
    str_init(&text, 1 << 16);
    alert_labels_json(&labels, &text);
    assert_string_equal(text.text, "{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\",\"d\":\"4\"}");
    alert_labels_set(&labels, "b", "");
    alert_labels_set(&labels, "c", "x");
    assert_int_equal(labels.len, 3);
    assert_string_equal(alert_labels_get(&labels, "b"), "");
    assert_string_equal(alert_labels_get(&labels, "c"), "x");
    assert_string_equal(alert_labels_get(&labels, "d"), "4");
    labels.len = 0;
    for (size_t i = 0; i <= ALERT_LABELS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "l%03zu", i);
        alert_labels_set(&labels, names[i], "x");
    }
    assert_int_equal(labels.len, ALERT_LABELS_MAX);
    alert_labels_set(&labels, names[0], "y"); /* one that is there is changed all the same */
    assert_string_equal(alert_labels_get(&labels, names[0]), "y");
    str_done(&text);
    assert_true(alert_label_name_fits("_a9Z") && alert_label_name_fits("a"));
    assert_false(alert_label_name_fits("") || alert_label_name_fits("9a") || alert_label_name_fits("a-b"));
}

static void owners_are_listed_once_and_matched_one_by_one(void **state)
{
    static const char *const users[] = {"ada", "bob", "ada", ""};
    Incident *incident = &items[0].incident;
    CLEANUP(arena_done) Arena arena;
    AlertLabels labels;

    (void)state;
    arena_init(&arena, 4096);
    for (size_t i = 0; i < ARRAY_LEN(users); i++)
        snprintf(incident->owners[i].user, sizeof incident->owners[i].user, "%s", users[i]);
    incident->owner_count = ARRAY_LEN(users);
    incident->code = 79;
    incident->device.index = 3;
    incident->device.link = 0;
    incident->device.has_pci = true;
    snprintf(incident->device.uuid, sizeof incident->device.uuid, "GPU-a");
    alert_labels_of(incident, "node", &arena, &labels);
    assert_string_equal(alert_labels_get(&labels, "user"), "ada,bob");
    assert_string_equal(alert_labels_get(&labels, "job"), "");
    assert_string_equal(alert_labels_get(&labels, "alertname"), "GpuLost");
    assert_string_equal(alert_labels_get(&labels, "code"), "79");
    assert_string_equal(alert_labels_get(&labels, "class"), "gpu-lost");
    assert_string_equal(alert_labels_get(&labels, "severity"), fault_severities[SEVERITY_FATAL].key);
    assert_string_equal(alert_labels_get(&labels, "route"), fault_routes[ROUTE_TICKET].key);
    assert_string_equal(alert_labels_get(&labels, "cause"), fault_causes[incident->cause].key);
    assert_string_equal(alert_labels_get(&labels, "action"), fault_actions[incident->action].key);
    assert_string_equal(alert_labels_get(&labels, "hostname"), "node");
    assert_string_equal(alert_labels_get(&labels, "process"), "");
    assert_string_equal(alert_labels_get(&labels, "gpu"), "3");
    assert_string_equal(alert_labels_get(&labels, "link"), "0");
    assert_string_equal(alert_labels_get(&labels, "GPU_I_ID"), "");
    assert_string_equal(alert_labels_get(&labels, "UUID"), "GPU-a");
    assert_string_equal(alert_labels_get(&labels, "pci_bus_id"), "00000000:00:00.0");
    assert_string_equal(alert_labels_get(&labels, "device"), "");
    assert_true(alert_label_fits("bob", &labels, "user") && alert_label_fits("a*", &labels, "user"));
    assert_true(alert_label_fits("ada,bob", &labels, "user"));
    assert_false(alert_label_fits("b", &labels, "user"));
    assert_false(alert_label_fits("da", &labels, "user"));
    assert_true(alert_label_fits("*", &labels, "job"));
    assert_false(alert_label_fits("x", &labels, "job"));
    assert_false(alert_label_fits("Gpu", &labels, "alertname"));
    incident->device.gpu_instance = 7;
    incident->device.compute_instance = 1;
    snprintf(incident->device.parent_uuid, sizeof incident->device.parent_uuid, "GPU-parent");
    snprintf(incident->process, sizeof incident->process, "python");
    alert_labels_of(incident, "node", &arena, &labels);
    assert_string_equal(alert_labels_get(&labels, "GPU_I_ID"), "7");
    assert_string_equal(alert_labels_get(&labels, "GPU_C_ID"), "1");
    assert_string_equal(alert_labels_get(&labels, "UUID"), "GPU-parent");
    assert_string_equal(alert_labels_get(&labels, "process"), "python");
    incident->device.kind = DEVICE_SWITCH;
    incident->code = 0;
    alert_labels_of(incident, "node", &arena, &labels);
    assert_string_equal(alert_labels_get(&labels, "device"), "switch");
    assert_string_equal(alert_labels_get(&labels, "gpu"), "");
    assert_string_equal(alert_labels_get(&labels, "code"), "");
    incident->device.kind = DEVICE_NODE;
    alert_labels_of(incident, "node", &arena, &labels);
    assert_string_equal(alert_labels_get(&labels, "UUID"), "");
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(an_answer_is_delivered_refused_or_tried_again),
        TEST(pauses_double_and_end),
        TEST(the_state_of_a_receiver_follows_the_answers),
        TEST(a_request_is_as_configured),
        TEST(each_change_is_sent_once),
        TEST(what_was_missed_is_sent_as_such),
        TEST(maintenance_holds_back_all_but_the_end),
        TEST(pages_go_first_and_then_by_age),
        TEST(a_failure_is_tried_again_after_its_pause),
        TEST(an_open_incident_is_repeated),
        TEST(keys_are_of_the_state),
        TEST(old_news_are_dropped),
        TEST(the_outbox_holds_what_is_not_certain),
        TEST(what_was_not_certain_is_said_again),
        TEST(a_delivery_is_over_when_nothing_is_left_to_tell),
        TEST(what_is_taken_off_leaves_nothing),
        TEST(links_and_runbooks_are_whole),
        TEST(evidence_is_listed_in_order),
        TEST(labels_are_sorted_and_never_empty),
        TEST(owners_are_listed_once_and_matched_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
