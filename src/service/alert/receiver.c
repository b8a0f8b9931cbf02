/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks; a receiver: its requests, what an answer means, its state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/alert/delivery.h"

uint64_t alerts_now(const Alerts *alerts)
{
    return clock_monotonic(alerts->config.clock);
}

uint64_t alerts_real(const Alerts *alerts)
{
    return clock_real(alerts->config.clock);
}

const char *alerts_url(const Alerts *alerts)
{
    return alerts->tree->external_url ? alerts->tree->external_url : alerts->external_url;
}

void alerts_wake(Alerts *alerts)
{
    if (!alerts->closed)
        uv_timer_start(&alerts->timer, alerts->send_due, 0, 0);
}

void alerts_release(Alerts *alerts)
{
    void (*on_closed)(void *self) = alerts->on_closed;
    void *self = alerts->self;

    if (--alerts->handles > 0)
        return;
    free(alerts->hostname);
    free(alerts->external_url);
    free(alerts);
    if (on_closed)
        on_closed(self);
}

/* --- state -------------------------------------------------------------------------------------------------------- */

void receiver_note_dropped(Receiver *receiver, size_t count, const char *why)
{
    receiver->dropped += count;
    log_write(receiver->alerts->config.log, LOG_LEVEL_ERROR, "alerts: receiver '%s' missed %zu notification%s: %s",
              receiver->name, count, count == 1 ? "" : "s", why);
}

void receiver_note_outcome(Receiver *receiver, Outcome outcome, size_t count, const char *why)
{
    const Log *log = receiver->alerts->config.log;

    if (outcome == OUTCOME_DELIVERED) {
        receiver->sent++;
        receiver->last_ok_real_ns = alerts_real(receiver->alerts);
        if (receiver->troubled)
            log_write(log, LOG_LEVEL_INFO, "alerts: receiver '%s' works again", receiver->name);
        receiver->troubled = false;
        receiver->why[0] = '\0';
        return;
    }
    if (outcome == OUTCOME_REJECTED)
        receiver_note_dropped(receiver, count, why);
    else if (!receiver->troubled || strcmp(receiver->why, why) != 0)
        log_write(log, LOG_LEVEL_WARN, "alerts: receiver '%s': %s; will try again", receiver->name, why);
    receiver->troubled |= outcome == OUTCOME_FAILED;
    receiver->failed++;
    snprintf(receiver->why, sizeof(receiver->why), "%s", why);
}

void receiver_retry_now(Receiver *receiver)
{
    for (size_t i = 0; i < receiver->deliveries.len; i++)
        receiver->deliveries.at[i]->retry_ns = 0;
    for (size_t i = 0; i < receiver->reports.len; i++)
        receiver->reports.at[i].retry_ns = 0;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

void receiver_make_request(const Receiver *receiver, const char *url, const char **headers, FetchRequest *ret)
{
    const ReceiverConfig *config = receiver->config;

    for (size_t i = 0; i < config->header_count; i++)
        headers[i] = config->headers[i];
    headers[config->header_count] = "Content-Type: application/json";
    *ret = config->request;
    ret->url = url;
    ret->headers = headers;
    ret->header_count = config->header_count + 1;
    ret->password = config->secrets[SECRET_PASSWORD];
    ret->bearer = config->secrets[SECRET_BEARER];
    ret->timeout_ms = config->timeout_ns / NS_PER_MS;
    ret->answer_max = ALERT_ANSWER_MAX;
}

/* Adds the beginning of an answer, on one line. */
static void add_body(const FetchAnswer *answer, char why[ALERT_WHY_CAP])
{
    size_t len = strlen(why);

    if (!answer->body_len || len + 4 > ALERT_WHY_CAP)
        return;
    why[len++] = ':';
    why[len++] = ' ';
    for (size_t i = 0; i < answer->body_len && i < 80 && len < ALERT_WHY_CAP - 1; i++)
        why[len++] = (char)(answer->body[i] >= ' ' && answer->body[i] < 0x7f ? answer->body[i] : ' ');
    why[len] = '\0';
}

Outcome receiver_read_answer(Receiver *receiver, const FetchAnswer *answer, char why[ALERT_WHY_CAP])
{
    unsigned int status = answer->status;

    why[0] = '\0';
    if (status == 0) {
        snprintf(why, ALERT_WHY_CAP, "%.150s", answer->text);
        return OUTCOME_FAILED;
    }
    if (status >= 200 && status < 300)
        return OUTCOME_DELIVERED;
    snprintf(why, ALERT_WHY_CAP, "HTTP status %u", status);
    add_body(answer, why);
    if (status == 401 || status == 403) { /* the credentials may have been replaced */
        receiver_read_secrets(receiver->config);
        return OUTCOME_FAILED;
    }
    return status >= 400 && status < 500 && status != 408 && status != 429 ? OUTCOME_REJECTED : OUTCOME_FAILED;
}

uint64_t alert_backoff_ns(unsigned int tries, uint64_t most_ns, uint64_t retry_after_ms)
{
    uint64_t wait = ALERT_BACKOFF_NS << (tries < 20 ? tries - (tries > 0) : 20);
    uint32_t chance = 0;

    if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) != sizeof(chance))
        chance = 0;
    if (wait > most_ns)
        wait = most_ns;
    wait = wait - wait / 5 + wait / 5 * (chance % 1000) / 1000; /* spreads the retries of many nodes */
    return number_max_u64(wait, number_min_u64(retry_after_ms * NS_PER_MS, ALERT_RETRY_AFTER_MAX_NS));
}
