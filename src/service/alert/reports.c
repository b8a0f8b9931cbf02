/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of jobs, pods and containers that have ended, on their way to webhooks. Each is sent once, in a request of
 * its own, one at a time to each receiver, so that they never hold up an incident. */
#include "service/alert/delivery.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/gzip.h"
#include "base/json.h"
#include "base/number.h"

CLEANUP_POINTER(json_t, json_decref);

enum { KEPT_VERSION = 1 };

static const char key_start[] = "job-";

/* --- the queue ---------------------------------------------------------------------------------------------------- */

static void forget_report(const Receiver *receiver, const ReportNews *news)
{
    journal_put_outbox(receiver->alerts->config.journal, receiver->name, news->key, "", 0);
}

static void remove_report(Receiver *receiver, size_t i)
{
    str_done(&receiver->reports.at[i].gz);
    vec_remove(&receiver->reports, i);
}

static void drop_report(Receiver *receiver, size_t i, const char *why)
{
    receiver_note_dropped(receiver, 1, why);
    forget_report(receiver, &receiver->reports.at[i]);
    remove_report(receiver, i);
}

static bool is_under_way(const Receiver *receiver, size_t i)
{
    return receiver->report_call && strcmp(receiver->reports.at[i].key, receiver->report_key) == 0;
}

/* False: it is too large, or damaged. */
static bool add_report(Receiver *receiver, const char *key, uint64_t known_real_ns, const char *json, size_t len)
{
    ReportNews news = {.known_real_ns = known_real_ns, .gz = str_limited(ALERT_BODY_MAX)};

    if (len > ALERT_REPORT_MAX || gzip_pack(json, len, &news.gz, NULL) < 0) {
        str_done(&news.gz);
        return false;
    }
    snprintf(news.key, sizeof news.key, "%s", key);
    if (receiver->reports.len == ALERT_REPORTS_MAX)
        drop_report(receiver, is_under_way(receiver, 0) ? 1 : 0, "too many job reports wait");
    vec_push(&receiver->reports, news);
    return true;
}

static bool has_report(const Receiver *receiver, const char *key)
{
    for (size_t i = 0; i < receiver->reports.len; i++)
        if (strcmp(receiver->reports.at[i].key, key) == 0)
            return true;
    return false;
}

/* --- the outbox --------------------------------------------------------------------------------------------------- */

static void save_report(const Receiver *receiver, const char *key, uint64_t known_real_ns, const char *json, size_t len)
{
    CLEANUP(str_done) Str text = str_limited(ALERT_BODY_MAX);

    json_open(&text, NULL, '{');
    json_add_i64(&text, "v", KEPT_VERSION);
    json_add_u64(&text, "ended", known_real_ns);
    json_add_key(&text, "report");
    str_addn(&text, json, len);
    json_close(&text, '}');
    journal_put_outbox(receiver->alerts->config.journal, receiver->name, key, text.text, text.len);
}

bool reports_are_kept_by(const char *key)
{
    return strncmp(key, key_start, sizeof key_start - 1) == 0;
}

bool reports_restore(Receiver *receiver, const char *key, const char *text)
{
    const size_t len = strlen(text);
    CLEANUP(json_decref_at) json_t *kept = len <= ALERT_BODY_MAX ? json_loadb(text, len, 0, NULL) : NULL;
    const json_t *report = json_object_get(kept, "report");
    const json_int_t ended = json_integer_value(json_object_get(kept, "ended"));

    if (json_integer_value(json_object_get(kept, "v")) != KEPT_VERSION || !json_is_object(report) || ended < 0)
        return false;
    char *json = json_dumps(report, JSON_COMPACT);
    const bool fine = json && add_report(receiver, key, (uint64_t)ended, json, strlen(json));
    free(json);
    return fine;
}

void alerts_report(Alerts *alerts, const char *id, uint64_t known_real_ns, const char *json, size_t len)
{
    char key[ALERT_KEY_CAP];

    snprintf(key, sizeof key, "%s%s", key_start, id);
    for (size_t i = 0; i < alerts->receivers.len; i++) {
        Receiver *receiver = alerts->receivers.at[i];

        if (!receiver->config->gets_reports || has_report(receiver, key))
            continue;
        if (add_report(receiver, key, known_real_ns, json, len))
            save_report(receiver, key, known_real_ns, json, len);
        else
            receiver_note_dropped(receiver, 1, "the job's report is too large");
    }
    alerts_wake(alerts);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

void reports_cancel(Receiver *receiver)
{
    if (!receiver->report_call)
        return;
    fetch_cancel(receiver->report_call);
    receiver->report_call = NULL;
}

size_t reports_free(Receiver *receiver, bool forget)
{
    const size_t count = receiver->reports.len;

    reports_cancel(receiver);
    for (size_t i = 0; i < count; i++) {
        if (forget)
            forget_report(receiver, &receiver->reports.at[i]);
        str_done(&receiver->reports.at[i].gz);
    }
    vec_done(&receiver->reports);
    return count;
}

static ReportNews *find_under_way(Receiver *receiver)
{
    for (size_t i = 0; i < receiver->reports.len; i++)
        if (strcmp(receiver->reports.at[i].key, receiver->report_key) == 0)
            return &receiver->reports.at[i];
    return NULL;
}

static void finish_report(Receiver *receiver, Outcome outcome, uint64_t retry_after_ms, const char *why)
{
    const bool recovered = receiver->troubled && outcome == OUTCOME_DELIVERED;
    ReportNews *news = find_under_way(receiver);

    receiver->report_call = NULL;
    receiver_note_outcome(receiver, outcome, 1, why);
    if (news && outcome == OUTCOME_FAILED) {
        news->retry_ns =
            alerts_now(receiver->alerts) + alert_backoff_ns(++news->tries, ALERT_BACKOFF_MAX_NS, retry_after_ms);
    } else if (news) {
        forget_report(receiver, news);
        remove_report(receiver, (size_t)(news - receiver->reports.at));
    }
    if (recovered)
        receiver_retry_now(receiver);
    alerts_wake(receiver->alerts);
}

static void handle_answer(void *self, const FetchAnswer *answer)
{
    Receiver *receiver = self;
    char why[ALERT_WHY_CAP];
    const Outcome outcome = receiver_read_answer(receiver, answer, why);

    finish_report(receiver, outcome, answer->retry_after_ms, why);
}

/* False: it was damaged in memory. */
static bool write_body(const Receiver *receiver, const ReportNews *news, Str *out)
{
    const char *url = alerts_url(receiver->alerts);
    const size_t len = strlen(url);
    char link[512];

    snprintf(link, sizeof link, "%s%sapi/v1/jobs/%s", url, len && url[len - 1] == '/' ? "" : "/",
             news->key + sizeof key_start - 1);
    json_open(out, NULL, '{');
    json_add_i64(out, "version", ALERT_PAYLOAD_VERSION);
    json_add_text(out, "receiver", receiver->name);
    json_add_text(out, "key", news->key);
    json_add_text(out, "hostname", receiver->alerts->hostname);
    json_add_text(out, "change", "job-ended");
    json_add_text(out, "url", link);
    json_add_key(out, "report");
    const int rc = gzip_unpack(news->gz.text, news->gz.len, out, NULL);
    json_close(out, '}');
    return rc == 0 && !out->overflow;
}

static void send_report(Receiver *receiver, size_t i)
{
    CLEANUP(str_done) Str body = str_limited(ALERT_BODY_MAX);
    const ReportNews *news = &receiver->reports.at[i];
    WebhookRequest made;
    Err err = {0};

    if (!write_body(receiver, news, &body)) {
        drop_report(receiver, i, "its job report cannot be read");
        alerts_wake(receiver->alerts);
        return;
    }
    snprintf(receiver->report_key, sizeof receiver->report_key, "%s", news->key);
    webhook_make_request(receiver, news->key, &body, &made);
    if (fetch_send(receiver->alerts->fetch, &made.request, handle_answer, receiver, &receiver->report_call, &err) < 0)
        finish_report(receiver, OUTCOME_FAILED, 0, err.text);
}

/* Drops those that could not be sent for as long as configured. */
static void drop_stale(Receiver *receiver)
{
    const uint64_t real_ns = alerts_real(receiver->alerts);

    for (size_t i = receiver->reports.len; i-- > 0;) {
        const uint64_t known_ns = receiver->reports.at[i].known_real_ns;

        if (!is_under_way(receiver, i) && real_ns > known_ns && real_ns - known_ns >= receiver->config->keep_ns)
            drop_report(receiver, i, "a job report has waited for too long (keep)");
    }
}

uint64_t reports_send_due(Receiver *receiver, uint64_t now_ns)
{
    uint64_t next = ALERT_NEVER;

    drop_stale(receiver);
    if (receiver->report_call)
        return ALERT_NEVER;
    for (size_t i = 0; i < receiver->reports.len; i++) {
        if (receiver->reports.at[i].retry_ns <= now_ns) {
            send_report(receiver, i);
            return ALERT_NEVER; /* its end wakes us */
        }
        next = number_min_u64(next, receiver->reports.at[i].retry_ns);
    }
    return next;
}
