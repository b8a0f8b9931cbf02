/* SPDX-License-Identifier: Apache-2.0 */
/* service/alert/alertmanager.c without a network: which alerts are posted to which URL, when, and with which times. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/alert/delivery.h"

enum { ITEMS = ALERT_BATCH_MAX + 2, POSTS = 16, RESEND_S = 60 };

/* --- the rig ------------------------------------------------------------------------------------------------------ */

typedef struct Post {
    char url[64];
    json_t *alerts;
    FetchDone done;
    void *self;
} Post;

static uint64_t now_ns, real_ns;
static char hostname[] = "node", external_url[] = "http://node:9400/", receiver_name[] = "am";
static const char *urls[] = {"http://a:9093", "http://b:9093/x//"};
static Alerts alerts;
static AlertTree tree;
static ReceiverConfig config;
static Receiver receiver;
static RouteConfig route;
static AlertItem items[ITEMS];
static size_t item_count;
static Post posts[POSTS];
static size_t post_count, cancelled, saved;
static int refuse; /* what fetch_send returns */

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

int fetch_send(Fetch *fetch, const FetchRequest *request, FetchDone done, void *self, FetchCall **ret_call, Err *err)
{
    Post *post = &posts[post_count];

    (void)fetch;
    if (refuse < 0)
        return err_set(err, refuse, "no such URL");
    assert_true(post_count < POSTS);
    post_count++;
    snprintf(post->url, sizeof post->url, "%s", request->url);
    post->alerts = json_loadb(request->body, request->body_len, 0, NULL);
    assert_true(json_is_array(post->alerts));
    post->done = done;
    post->self = self;
    *ret_call = (FetchCall *)post;
    return 0;
}

void fetch_cancel(FetchCall *call)
{
    cancelled += call != NULL;
}

uint64_t journal_put_outbox(Journal *journal, const char *name, const char *key, const char *text, size_t len)
{
    (void)journal;
    (void)name;
    (void)key;
    (void)text;
    saved += len > 0;
    return 1;
}

static Delivery *add_delivery(const char *labels)
{
    AlertItem *item = &items[item_count];
    Incident *incident = &item->incident;

    snprintf(incident->id, sizeof incident->id, "i%zu", item_count++);
    strcpy(incident->class, "gpu-lost");
    strcpy(incident->title, "GPU 3 is lost");
    incident->state = INCIDENT_OPEN;
    incident->severity = SEVERITY_FATAL;
    incident->route = ROUTE_TICKET;
    incident->opened_real_ns = real_ns - 5 * NS_PER_S;
    incident->count = 2;
    incident->pid = -1;
    device_init(&incident->device, DEVICE_GPU);
    Delivery *delivery = delivery_new(item, &receiver);
    delivery->route = &route;
    free(delivery->labels);
    delivery->labels = strdup(labels);
    return delivery;
}

static int set_up(void **state)
{
    (void)state;
    now_ns = 1000 * NS_PER_S;
    real_ns = UINT64_C(1700000000) * NS_PER_S;
    memset(items, 0, sizeof items);
    memset(&tree, 0, sizeof tree);
    item_count = post_count = cancelled = saved = 0;
    refuse = 0;
    alerts = (Alerts){
        .config = {.clock = &moved}, .hostname = hostname, .external_url = external_url, .tree = &tree, .closed = true};
    config = (ReceiverConfig){.name = "am", .urls = {.items = urls, .len = 2}, .resend_ns = RESEND_S * NS_PER_S};
    receiver = (Receiver){.alerts = &alerts, .name = receiver_name, .kind = RECEIVER_ALERTMANAGER, .config = &config};
    for (size_t i = 0; i < ALERT_URLS_MAX; i++)
        receiver.endpoints[i] = (Endpoint){.receiver = &receiver, .index = i};
    return 0;
}

static void forget_posts(void)
{
    for (size_t i = 0; i < post_count; i++)
        json_decref(posts[i].alerts);
    post_count = 0;
}

static int tear_down(void **state)
{
    (void)state;
    forget_posts();
    while (receiver.deliveries.len > 0)
        delivery_free(receiver.deliveries.at[0], false);
    for (size_t i = 0; i < item_count; i++)
        vec_done(&items[i].deliveries);
    for (size_t i = 0; i < receiver.ghosts.len; i++)
        free(receiver.ghosts.at[i].labels);
    vec_done(&receiver.ghosts);
    vec_done(&receiver.deliveries);
    return 0;
}

static uint64_t send_due(void)
{
    return alertmanager_send_due(&receiver, now_ns);
}

static void answer(size_t post, unsigned int status)
{
    posts[post].done(posts[post].self, &(FetchAnswer){.status = status});
}

/* Sends what is due to both URLs, which take it, and returns how many alerts the first one got. */
static size_t deliver(void)
{
    forget_posts();
    send_due();
    for (size_t i = 0; i < post_count; i++)
        answer(i, 200);
    return post_count > 0 ? json_array_size(posts[0].alerts) : 0;
}

static void pass(uint64_t seconds)
{
    now_ns += seconds * NS_PER_S;
    real_ns += seconds * NS_PER_S;
}

static const char *text_of(size_t post, size_t i, const char *key)
{
    return json_string_value(json_object_get(json_array_get(posts[post].alerts, i), key));
}

static const char *annotation_of(size_t post, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(json_array_get(posts[post].alerts, 0), "annotations"), key));
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void an_open_alert_is_sent_again_and_again(void **state)
{
    Delivery *d = add_delivery("{\"a\":\"1\"}");

    (void)state;
    assert_true(alertmanager_is_waiting(d));
    assert_true(send_due() == ALERT_NEVER); /* until the answers */
    assert_int_equal(post_count, 2);
    assert_string_equal(posts[0].url, "http://a:9093/api/v2/alerts");
    assert_string_equal(posts[1].url, "http://b:9093/x/api/v2/alerts");
    assert_string_equal(text_of(0, 0, "startsAt"), "2023-11-14T22:13:15.000Z");
    assert_string_equal(text_of(0, 0, "endsAt"), "2023-11-14T22:17:20.000Z"); /* in four times the resend */
    assert_string_equal(text_of(0, 0, "generatorURL"), "http://node:9400/#/incidents/i0");
    assert_string_equal(annotation_of(0, "summary"), "GPU 3 is lost");
    assert_string_equal(annotation_of(0, "count"), "2");
    assert_string_equal(annotation_of(0, "incident"), "i0");
    assert_null(annotation_of(0, "maintenance"));
    assert_null(annotation_of(0, "job"));
    send_due();
    assert_int_equal(post_count, 2);
    answer(0, 200);
    assert_true(alertmanager_is_waiting(d)); /* the other one */
    answer(1, 200);
    assert_false(alertmanager_is_waiting(d));
    assert_int_equal(receiver.sent, 2);
    assert_true(d->heard.state == HEARD_OPEN && d->heard.real_ns == real_ns);
    assert_int_equal(saved, 1);
    assert_true(send_due() == now_ns + RESEND_S * NS_PER_S);
    pass(RESEND_S);
    now_ns--;
    send_due();
    assert_int_equal(post_count, 2);
    now_ns++;
    assert_int_equal(deliver(), 1);
    assert_int_equal(saved, 1); /* nothing new */
}

/* All that is known of it. */
static void an_alert_has_annotations(void **state)
{
    static const char wanted[] =
        "{\"summary\":\"GPU 3 is lost\",\"description\":\"It fell off the bus. Affected: ada.\","
        "\"action\":\"Drain and reboot this node\",\"runbook_url\":\"https://wiki/all\",\"incident\":\"i0\","
        "\"count\":\"2\",\"job\":\"17\",\"affected\":\"ada\",\"maintenance\":\"w1\","
        "\"evidence\":\"2023-11-14T22:13:20.000Z Xid 79\"}";
    Incident *incident = &add_delivery("{\"a\":\"1\"}")->item->incident;
    char *annotations;

    (void)state;
    deliver();
    assert_null(annotation_of(0, "evidence"));
    assert_null(annotation_of(0, "affected"));
    assert_null(annotation_of(0, "description"));
    snprintf(incident->verdict, sizeof incident->verdict, "It fell off the bus.");
    snprintf(incident->job, sizeof incident->job, "17");
    snprintf(incident->window, sizeof incident->window, "w1");
    snprintf(incident->owners[0].user, sizeof incident->owners[0].user, "ada");
    incident->owner_count = incident->first_len = 1;
    incident->first[0].real_ns = real_ns;
    snprintf(incident->first[0].text, sizeof incident->first[0].text, "Xid 79");
    incident->action = ACTION_DRAIN_AND_REBOOT;
    incident->silenced = true;
    route.runbook = "https://wiki/all";
    pass(RESEND_S);
    assert_int_equal(deliver(), 1);
    annotations = json_dumps(json_object_get(json_array_get(posts[0].alerts, 0), "annotations"), JSON_COMPACT);
    assert_string_equal(annotations, wanted);
    free(annotations);
    route.runbook = NULL;
}

/* Each URL on its own: the pause of one that fails delays no other. */
static void a_url_that_fails_delays_no_other(void **state)
{
    Delivery *d = add_delivery("{}");

    (void)state;
    send_due();
    answer(0, 503);
    assert_string_equal(receiver.why, "http://a:9093: HTTP status 503");
    answer(1, 200);
    assert_true(d->posted[0].stamp == 0 && d->posted[1].stamp != 0 && d->posted[0].posting == 0);
    assert_int_equal(receiver.endpoints[0].tries, 1);
    assert_true(receiver.troubled == false && receiver.failed == 1); /* the last answer counts */
    uint64_t next = send_due();
    assert_int_equal(post_count, 2);
    assert_true(next == receiver.endpoints[0].retry_ns && next > now_ns && next <= now_ns + NS_PER_S);
    pass(1);
    send_due();
    assert_int_equal(post_count, 3);
    assert_string_equal(posts[2].url, "http://a:9093/api/v2/alerts");
    answer(2, 200);
    assert_true(receiver.endpoints[0].tries == 0 && receiver.endpoints[0].retry_ns == 0);
    refuse = -EINVAL; /* it cannot be sent at all */
    pass(RESEND_S);
    next = send_due();
    assert_int_equal(receiver.endpoints[0].tries, 1);
    assert_true(next > now_ns && next <= now_ns + NS_PER_S);
    assert_string_equal(receiver.why, "no such URL");
}

/* What is refused is counted as missed and sent with the next round, not at once. */
static void a_refusal_waits_for_the_next_round(void **state)
{
    (void)state;
    (void)add_delivery("{\"a\":\"1\"}");
    (void)add_delivery("{\"a\":\"2\"}");
    config.urls.len = 1;
    send_due();
    assert_int_equal(json_array_size(posts[0].alerts), 2);
    answer(0, 400);
    assert_int_equal(receiver.dropped, 2);
    assert_true(send_due() == now_ns + RESEND_S * NS_PER_S);
    pass(RESEND_S);
    send_due();
    assert_int_equal(post_count, 2);
}

/* For a quarter of an hour, as Prometheus does, with the time of its end. */
static void an_end_is_sent_for_a_quarter_of_an_hour(void **state)
{
    Delivery *d = add_delivery("{}");
    size_t sent = 0;

    (void)state;
    assert_int_equal(deliver(), 1);
    pass(10);
    d->item->incident.state = INCIDENT_CLEARED;
    d->item->incident.cleared_real_ns = real_ns - 2 * NS_PER_S;
    delivery_update(d);
    assert_int_equal(deliver(), 1); /* at once */
    assert_string_equal(text_of(0, 0, "endsAt"), "2023-11-14T22:13:28.000Z");
    assert_int_equal(d->heard.state, HEARD_CLEARED);
    for (int i = 0; i < 30; i++) {
        pass(RESEND_S);
        sent += deliver();
    }
    assert_int_equal(sent, 14);
    assert_true(delivery_is_over(d));
    d->item->incident.cleared_real_ns = 1; /* before it began: it ends as it begins */
    d->posted[0].stamp = 0;
    assert_int_equal(deliver(), 1);
    assert_string_equal(text_of(0, 0, "endsAt"), text_of(0, 0, "startsAt"));
}

/* One that nobody heard of needs no end; one without a route ends now. */
static void only_what_was_heard_ends(void **state)
{
    Delivery *d = add_delivery("{}");

    (void)state;
    d->item->incident.state = INCIDENT_CLEARED;
    assert_int_equal(deliver(), 0);
    assert_false(alertmanager_is_waiting(d));
    d->item->incident.state = INCIDENT_OPEN;
    d->item->restored = true;
    assert_int_equal(deliver(), 0);
    d->item->restored = false;
    assert_int_equal(deliver(), 1);
    pass(5);
    d->route = NULL;
    delivery_update(d);
    assert_int_equal(deliver(), 1);
    assert_string_equal(text_of(0, 0, "endsAt"), "2023-11-14T22:13:25.000Z");
}

static void maintenance_keeps_what_was_heard(void **state)
{
    Delivery *quiet = add_delivery("{\"a\":\"1\"}"), *heard = add_delivery("{\"a\":\"2\"}");

    (void)state;
    quiet->item->incident.silenced = true;
    assert_int_equal(deliver(), 1);
    heard->item->incident.silenced = true;
    strcpy(heard->item->incident.window, "w1");
    strcpy(heard->item->incident.job, "4711");
    pass(RESEND_S);
    assert_int_equal(deliver(), 1);
    assert_string_equal(annotation_of(0, "maintenance"), "w1");
    assert_string_equal(annotation_of(0, "job"), "4711");
    quiet->item->incident.silenced = false;
    assert_int_equal(deliver(), 1); /* the other one is not due */
}

/* Two incidents of the same labels are one alert there: the end of one must not end the other. */
static void an_end_does_not_end_another_of_the_same_labels(void **state)
{
    Delivery *first = add_delivery("{\"a\":\"1\"}");

    (void)state;
    (void)add_delivery("{\"a\":\"1\"}");
    assert_int_equal(deliver(), 2);
    first->item->incident.state = INCIDENT_CLEARED;
    first->item->incident.cleared_real_ns = real_ns;
    delivery_update(first);
    assert_int_equal(deliver(), 0); /* nothing to post, and it counts as told */
    assert_int_equal(post_count, 0);
    assert_int_equal(first->heard.state, HEARD_CLEARED);
    assert_false(alertmanager_is_waiting(first));
}

/* An alert whose labels changed ends under its old ones. */
static void old_labels_end(void **state)
{
    Delivery *d = add_delivery("{\"a\":\"1\"}");

    (void)state;
    assert_int_equal(deliver(), 1);
    pass(7);
    alertmanager_end_old_labels(d);
    free(d->labels);
    d->labels = strdup("{\"a\":\"2\"}");
    assert_int_equal(deliver(), 2);
    assert_string_equal(text_of(0, 1, "startsAt"), "2023-11-14T22:13:15.000Z");
    assert_string_equal(text_of(0, 1, "endsAt"), "2023-11-14T22:13:27.000Z");
    pass(RESEND_S);
    assert_int_equal(deliver(), 2);
    alertmanager_end_old_labels(d); /* it has them again: they do not end */
    assert_int_equal(receiver.ghosts.len, 2);
    forget_posts();
    assert_int_equal(deliver(), 0);
    pass(ALERT_RESOLVED_NS / NS_PER_S - RESEND_S - 1);
    send_due();
    assert_int_equal(receiver.ghosts.len, 2);
    pass(1);
    send_due();
    assert_int_equal(receiver.ghosts.len, 1);
    for (int i = 0; i < ALERT_GHOSTS_MAX + 3; i++)
        alertmanager_end_old_labels(d);
    assert_int_equal(receiver.ghosts.len, ALERT_GHOSTS_MAX);
}

static void a_post_holds_so_many_alerts(void **state)
{
    char labels[32];

    (void)state;
    for (int i = 0; i < ITEMS; i++) {
        snprintf(labels, sizeof labels, "{\"a\":\"%d\"}", i);
        (void)add_delivery(labels);
    }
    config.urls.len = 1;
    assert_int_equal(deliver(), ALERT_BATCH_MAX);
    assert_int_equal(deliver(), ITEMS - ALERT_BATCH_MAX);
    assert_int_equal(deliver(), 0);
}

static void what_is_cancelled_was_not_sent(void **state)
{
    Delivery *d = add_delivery("{}");

    (void)state;
    send_due();
    assert_true(d->posted[0].posting != 0 && d->posted[1].posting != 0);
    alertmanager_cancel(&receiver);
    assert_int_equal(cancelled, 2);
    assert_true(d->posted[0].posting == 0 && d->posted[0].stamp == 0 && d->heard.state == HEARD_NOTHING);
    send_due();
    assert_int_equal(post_count, 4);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(an_open_alert_is_sent_again_and_again),
        TEST(an_alert_has_annotations),
        TEST(a_url_that_fails_delays_no_other),
        TEST(a_refusal_waits_for_the_next_round),
        TEST(an_end_is_sent_for_a_quarter_of_an_hour),
        TEST(only_what_was_heard_ends),
        TEST(maintenance_keeps_what_was_heard),
        TEST(an_end_does_not_end_another_of_the_same_labels),
        TEST(old_labels_end),
        TEST(a_post_holds_so_many_alerts),
        TEST(what_is_cancelled_was_not_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
