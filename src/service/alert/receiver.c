/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks; a receiver: its secrets, its requests, what an answer means, its state. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/alert/delivery.h"

uint64_t alerts_now(const Alerts *alerts)
{
    return alerts->config.now_ns(alerts->config.clock);
}

uint64_t alerts_real(const Alerts *alerts)
{
    return alerts->config.real_ns(alerts->config.clock);
}

const char *alerts_url(const Alerts *alerts)
{
    return alerts->tree->external_url ? alerts->tree->external_url : alerts->external_url;
}

void alerts_wake(Alerts *alerts)
{
    if (!alerts->closed)
        uv_timer_start(&alerts->timer, alerts->on_timer, 0, 0);
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

/* --- secrets ------------------------------------------------------------------------------------------------------ */

/* Reads one line of text. */
static int read_secret(const char *path, const char *what, char **ret, Err *err)
{
    CLEANUP(str_done) Str text = {0};

    if (!path)
        return 0;
    str_init(&text, ALERT_SECRET_MAX);
    if (file_read(path, ALERT_SECRET_MAX, &text, err) < 0)
        return err_add(err, "%s", what);
    while (text.len && strchr("\r\n", text.text[text.len - 1]))
        str_cut(&text, text.len - 1);
    if (!text.len || strlen(text.text) != text.len || strpbrk(text.text, "\r\n"))
        return err_set(err, -EINVAL, "%s: '%s' is not one line of text", what, path);
    *ret = str_take(&text);
    return 0;
}

int secrets_read(const ReceiverConfig *config, Secrets *ret, Err *err)
{
    CLEANUP(secrets_done) Secrets secrets = {0};

    TRY(read_secret(config->password_file, "password_file", &secrets.password, err));
    TRY(read_secret(config->bearer_file, "bearer_file", &secrets.bearer, err));
    TRY(read_secret(config->secret_file, "secret_file", &secrets.secret, err));
    *ret = (Secrets){TAKE(secrets.password), TAKE(secrets.bearer), TAKE(secrets.secret)};
    return 0;
}

static void wipe_secret(char **secret)
{
    if (*secret)
        explicit_bzero(*secret, strlen(*secret));
    free(*secret);
    *secret = NULL;
}

void secrets_done(Secrets *secrets)
{
    wipe_secret(&secrets->password);
    wipe_secret(&secrets->bearer);
    wipe_secret(&secrets->secret);
}

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Reads the secrets anew; false: they cannot be read or are the same. */
static bool reread_secrets(Receiver *receiver)
{
    CLEANUP(secrets_done) Secrets fresh = {0};
    Secrets old = receiver->secrets;

    if (secrets_read(receiver->config, &fresh, NULL) < 0 ||
        (is_same_text(fresh.password, old.password) && is_same_text(fresh.bearer, old.bearer) &&
         is_same_text(fresh.secret, old.secret)))
        return false;
    receiver->secrets = fresh;
    fresh = old;
    return true;
}

Receiver *receiver_new(Alerts *alerts, const ReceiverConfig *config, const SenderOps *ops, Err *err)
{
    Receiver *receiver = xcalloc(1, sizeof(*receiver));

    if (secrets_read(config, &receiver->secrets, err) < 0) {
        free(receiver);
        return NULL;
    }
    receiver->alerts = alerts;
    receiver->name = xstrdup(config->name);
    receiver->kind = config->kind;
    receiver->config = config;
    receiver->ops = ops;
    for (size_t i = 0; i < ALERT_URLS_MAX; i++)
        receiver->endpoints[i] = (Endpoint){.receiver = receiver, .index = i};
    return receiver;
}

void receiver_free(Receiver *receiver)
{
    for (size_t i = 0; i < receiver->ghosts.len; i++)
        free(receiver->ghosts.at[i].labels);
    vec_done(&receiver->ghosts);
    vec_done(&receiver->deliveries);
    secrets_done(&receiver->secrets);
    free(receiver->name);
    free(receiver);
}

/* --- state -------------------------------------------------------------------------------------------------------- */

void receiver_note_sent(Receiver *receiver)
{
    receiver->sent++;
    receiver->last_ok_real_ns = alerts_real(receiver->alerts);
    if (receiver->troubled)
        log_write(receiver->alerts->config.log, LOG_LEVEL_INFO, "alerts: receiver '%s' works again", receiver->name);
    receiver->troubled = false;
    receiver->why[0] = '\0';
}

void receiver_note_failed(Receiver *receiver, const char *why)
{
    if (!receiver->troubled || strcmp(receiver->why, why) != 0)
        log_write(receiver->alerts->config.log, LOG_LEVEL_WARN, "alerts: receiver '%s': %s; will try again",
                  receiver->name, why);
    receiver->troubled = true;
    receiver->failed++;
    snprintf(receiver->why, sizeof(receiver->why), "%s", why);
}

void receiver_note_dropped(Receiver *receiver, size_t count, const char *why)
{
    receiver->dropped += count;
    log_write(receiver->alerts->config.log, LOG_LEVEL_ERROR, "alerts: receiver '%s' missed %zu incident%s: %s",
              receiver->name, count, count == 1 ? "" : "s", why);
}

void receiver_note_rejected(Receiver *receiver, size_t count, const char *why)
{
    receiver->failed++;
    snprintf(receiver->why, sizeof(receiver->why), "%s", why);
    receiver_note_dropped(receiver, count, why);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

void receiver_make_request(const Receiver *receiver, const char *url, const char **headers, FetchRequest *ret)
{
    const ReceiverConfig *config = receiver->config;

    for (size_t i = 0; i < config->header_count; i++)
        headers[i] = config->headers[i];
    headers[config->header_count] = "Content-Type: application/json";
    *ret = (FetchRequest){
        .method = "POST",
        .url = url,
        .unix_socket = config->unix_socket,
        .headers = headers,
        .header_count = config->header_count + 1,
        .user = config->user,
        .password = receiver->secrets.password,
        .bearer = receiver->secrets.bearer,
        .tls = {.ca_file = config->ca_file,
                .cert_file = config->cert_file,
                .key_file = config->key_file,
                .server_name = config->server_name,
                .insecure = config->insecure},
        .timeout_ms = config->timeout_ns / NS_PER_MS,
        .answer_max = ALERT_ANSWER_MAX,
    };
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
    if (answer->rc < 0) {
        snprintf(why, ALERT_WHY_CAP, "%.150s", answer->text);
        return OUTCOME_FAILED;
    }
    if (status >= 200 && status < 300)
        return OUTCOME_DELIVERED;
    snprintf(why, ALERT_WHY_CAP, "HTTP status %u", status);
    add_body(answer, why);
    if (status == 401 || status == 403) { /* the credentials may have been replaced */
        reread_secrets(receiver);
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
