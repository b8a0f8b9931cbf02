/* SPDX-License-Identifier: Apache-2.0 */
/* Webhooks: a POST with the notification as JSON, signed where there is a secret. */
#include <gnutls/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "service/alert/inside.h"

enum { SIGNATURE_BYTES = 32, HEADER_MAX = 160 };

/* "t=<seconds>,v1=<HMAC-SHA256 of "<seconds>.<body>" in hex>" */
static void sign(const char *secret, uint64_t second, const Str *body, char out[HEADER_MAX])
{
    unsigned char mac[SIGNATURE_BYTES] = {0};
    gnutls_hmac_hd_t hmac;
    char t[32];
    int len = snprintf(t, sizeof(t), "%llu.", (unsigned long long)second), at;

    at = snprintf(out, HEADER_MAX, "X-Stoker-Signature: t=%llu,v1=", (unsigned long long)second);
    if (gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, secret, strlen(secret)) < 0)
        return;
    gnutls_hmac(hmac, t, (size_t)len);
    gnutls_hmac(hmac, body->text, body->len);
    gnutls_hmac_deinit(hmac, mac);
    for (size_t i = 0; i < sizeof(mac); i++, at += 2)
        snprintf(out + at, HEADER_MAX - (size_t)at, "%02x", mac[i]);
}

static void on_answer(void *self, const FetchAnswer *answer)
{
    Message *message = self;
    char why[160];

    message->call = NULL;
    notify_done(message, receiver_outcome(message->receiver, answer, why), answer->retry_after_ms, why);
}

static void start(Message *message)
{
    const Receiver *receiver = message->receiver;
    const char *headers[ALERT_HEADERS_MAX + 8];
    char key[HEADER_MAX], signature[HEADER_MAX];
    FetchRequest request;
    Err err = {0};

    receiver_request(receiver, receiver->config->urls.items[0], headers, &request);
    snprintf(key, sizeof(key), "Idempotency-Key: %s", message->key);
    headers[request.header_count++] = key;
    if (receiver->secrets.secret) {
        sign(receiver->secrets.secret, alert_real(receiver->alerts) / NS_PER_S, &message->body, signature);
        headers[request.header_count++] = signature;
    }
    request.body = message->body.text;
    request.body_len = message->body.len;
    if (fetch_send(receiver->alerts->fetch, &request, on_answer, message, &message->call, &err) < 0)
        notify_done(message, OUTCOME_FAILED, 0, err.text);
}

static void cancel(Message *message)
{
    fetch_cancel(message->call);
}

const SenderOps webhook_ops = {start, cancel};
