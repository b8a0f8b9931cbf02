/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver: its secrets, its requests, what an answer means, and what is said of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/number.h"
#include "base/owner.h"
#include "service/alert/inside.h"

/* The text of a file without the end of its last line. */
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
    *ret = secrets;
    secrets = (Secrets){0};
    return 0;
}

static void wipe(char **secret)
{
    if (*secret)
        explicit_bzero(*secret, strlen(*secret));
    free(*secret);
    *secret = NULL;
}

void secrets_done(Secrets *secrets)
{
    wipe(&secrets->password);
    wipe(&secrets->bearer);
    wipe(&secrets->secret);
}

static bool same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

bool receiver_reread(Receiver *receiver)
{
    CLEANUP(secrets_done) Secrets fresh = {0};
    Secrets old = receiver->secrets;

    if (secrets_read(receiver->config, &fresh, NULL) < 0 ||
        (same(fresh.password, old.password) && same(fresh.bearer, old.bearer) && same(fresh.secret, old.secret)))
        return false;
    receiver->secrets = fresh;
    fresh = old;
    return true;
}

Receiver *receiver_new(Alerts *alerts, const ReceiverConfig *config, Err *err)
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
    receiver->tokens = (double)config->rate_count;
    for (size_t i = 0; i < ALERT_URLS_MAX; i++)
        receiver->endpoints[i] = (Endpoint){.receiver = receiver, .index = i};
    return receiver;
}

void receiver_free(Receiver *receiver)
{
    notify_cancel(receiver);
    alertmanager_cancel(receiver);
    for (size_t i = 0; i < receiver->groups.len; i++) {
        free(receiver->groups.at[i]->key);
        free(receiver->groups.at[i]->labels);
        free(receiver->groups.at[i]);
    }
    for (size_t i = 0; i < receiver->ghosts.len; i++)
        free(receiver->ghosts.at[i].labels);
    vec_done(&receiver->groups);
    vec_done(&receiver->ghosts);
    vec_done(&receiver->tells);
    secrets_done(&receiver->secrets);
    free(receiver->name);
    free(receiver);
}

void receiver_fine(Receiver *receiver, size_t count)
{
    receiver->sent += count;
    receiver->last_ok_real_ns = alert_real(receiver->alerts);
    if (receiver->troubled)
        log_write(receiver->alerts->config.log, LOG_LEVEL_INFO, "alerts: receiver '%s' can be told again",
                  receiver->name);
    receiver->troubled = false;
    receiver->why[0] = '\0';
}

void receiver_trouble(Receiver *receiver, const char *why)
{
    if (!receiver->troubled || strcmp(receiver->why, why) != 0)
        log_write(receiver->alerts->config.log, LOG_LEVEL_WARN, "alerts: receiver '%s': %s; it is tried again",
                  receiver->name, why);
    receiver->troubled = true;
    receiver->failed++;
    snprintf(receiver->why, sizeof(receiver->why), "%s", why);
}

void receiver_dropped(Receiver *receiver, size_t count, const char *why)
{
    receiver->dropped += count;
    log_write(receiver->alerts->config.log, LOG_LEVEL_ERROR, "alerts: receiver '%s' was not told of %zu incident%s: %s",
              receiver->name, count, count == 1 ? "" : "s", why);
}

void receiver_rejected(Receiver *receiver, size_t count, const char *why)
{
    receiver->failed++;
    snprintf(receiver->why, sizeof(receiver->why), "%s", why);
    receiver_dropped(receiver, count, why);
}

void receiver_request(const Receiver *receiver, const char *url, const char **headers, FetchRequest *ret)
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

/* The beginning of an answer, on one line. */
static void add_body(const FetchAnswer *answer, char why[160])
{
    size_t len = strlen(why);

    if (!answer->body_len || len + 4 > 160)
        return;
    why[len++] = ':';
    why[len++] = ' ';
    for (size_t i = 0; i < answer->body_len && i < 80 && len < 159; i++)
        why[len++] = (char)(answer->body[i] >= ' ' && answer->body[i] < 0x7f ? answer->body[i] : ' ');
    why[len] = '\0';
}

Outcome receiver_outcome(Receiver *receiver, const FetchAnswer *answer, char why[160])
{
    unsigned int status = answer->status;

    why[0] = '\0';
    if (answer->rc < 0) {
        snprintf(why, 160, "%.150s", answer->text);
        return OUTCOME_FAILED;
    }
    if (status >= 200 && status < 300)
        return OUTCOME_DELIVERED;
    snprintf(why, 160, "HTTP status %u", status);
    add_body(answer, why);
    if (status == 401 || status == 403) { /* somebody will put the credentials right */
        receiver_reread(receiver);
        return OUTCOME_FAILED;
    }
    return status >= 400 && status < 500 && status != 408 && status != 429 ? OUTCOME_REJECTED : OUTCOME_FAILED;
}

uint64_t alert_backoff(unsigned int tries, uint64_t most_ns, uint64_t retry_after_ms)
{
    uint64_t wait = ALERT_BACKOFF_NS << (tries < 20 ? tries - (tries > 0) : 20);
    uint32_t chance = 0;

    if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) != sizeof(chance))
        chance = 0;
    if (wait > most_ns)
        wait = most_ns;
    wait = wait - wait / 5 + wait / 5 * (chance % 1000) / 1000; /* so that many nodes do not come at once */
    return number_max_u64(wait, number_min_u64(retry_after_ms * NS_PER_MS, ALERT_RETRY_AFTER_MAX_NS));
}
