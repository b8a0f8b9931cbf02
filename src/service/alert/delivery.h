/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the alerts among themselves; not for others.
 *
 *   AlertItem  an incident as it was last given to us, and its deliveries
 *   Delivery   one incident at one receiver: what that one has heard and what it should hear. What is to be sent is not
 *              queued but follows from the two, so that newer states replace older ones. It is kept in the journal's
 *              outbox until there is nothing left to tell
 *   Endpoint   one URL of an Alertmanager, with its POST under way
 *
 * Each file calls only those above it in this list, and alert.c the kinds of receivers through SenderOps:
 *   reports.c       job reports: each goes to a receiver once, beside the incidents
 *   receiver.c      clocks, requests, what an answer means, the state of a receiver
 *   delivery.c      what is to be told, the outbox, what is sent next and what became of it; the notification as JSON
 *   alertmanager.c  Alertmanagers
 *   senders.c       webhooks, commands, systemd's journal; the table of all kinds
 *   alert.c         routes, start, reload, end
 * Everything happens when the timer of alert.c runs. One thread.
 */

#include <uv.h>

#include "base/map.h"
#include "base/vec.h"
#include "service/alert/alert.h"
#include "service/alert/config.h"

enum {
    ALERT_ITEMS_MAX = 1024,
    ALERT_BATCH_MAX = 64,     /* alerts in one POST to an Alertmanager */
    ALERT_IN_FLIGHT_MAX = 4,  /* notifications under way to one receiver */
    ALERT_GHOSTS_MAX = 128,   /* alerts under labels that they no longer have */
    ALERT_BODY_MAX = 4 << 20, /* bytes of a body */
    ALERT_KEY_CAP = 64,
    ALERT_HEADER_MAX = 160, /* bytes of a header of ours */
    ALERT_WHY_CAP = 160,
    ALERT_ANSWER_MAX = 512, /* bytes of an answer that are read, for the log */
    ALERT_PAYLOAD_VERSION = 2,
    ALERT_REPORTS_MAX = 256,    /* job reports that wait for one receiver */
    ALERT_REPORT_MAX = 1 << 20, /* bytes of one */
};
#define ALERT_NEVER UINT64_MAX
#define ALERT_BACKOFF_NS UINT64_C(1000000000)
#define ALERT_BACKOFF_MAX_NS (300 * UINT64_C(1000000000))
#define ALERT_ENDPOINT_BACKOFF_MAX_NS (15 * UINT64_C(1000000000))
#define ALERT_RETRY_AFTER_MAX_NS (3600 * UINT64_C(1000000000))
#define ALERT_RESOLVED_NS (900 * UINT64_C(1000000000)) /* a cleared alert is sent so long, as by Prometheus */

typedef struct AlertItem AlertItem;
typedef struct Delivery Delivery;
typedef struct Receiver Receiver;

typedef enum HeardState { HEARD_NOTHING, HEARD_OPEN, HEARD_CLEARED, HEARD_END } HeardState;

/* What a receiver has heard of an incident. */
typedef struct Heard {
    HeardState state;
    bool unsure; /* it may have heard the contrary since: that was sent, and no answer came */
    uint64_t revision;
    uint32_t escalations;
    uint64_t real_ns; /* when */
} Heard;

typedef enum DeliveryChange {
    DELIVERY_NONE,
    DELIVERY_OPENED,
    DELIVERY_ESCALATED,
    DELIVERY_CLEARED,
    DELIVERY_REOPENED,
    DELIVERY_MISSED,   /* opened and cleared before it could be sent */
    DELIVERY_REPEATED, /* nothing new, but still open */
    DELIVERY_CHANGE_END,
} DeliveryChange;
extern const char *const delivery_change_keys[DELIVERY_CHANGE_END];

/* A notification under way. */
typedef struct Sending {
    bool active;
    DeliveryChange change;
    Heard heard; /* once it is delivered */
    char key[ALERT_KEY_CAP];
    Str body;
    FetchCall *call;          /* webhook */
    struct AlertChild *child; /* command */
} Sending;

/* What one URL of an Alertmanager has of an alert. A stamp is of labels and state; 0: nothing. */
typedef struct Posted {
    uint64_t stamp, sent_ns;
    uint64_t posting; /* the stamp that is under way */
    HeardState posting_state;
} Posted;

struct Delivery {
    AlertItem *item;
    Receiver *receiver;
    const RouteConfig *route; /* NULL: no route leads here any more; only the end is sent */
    char *labels;             /* JSON */
    Heard heard;
    DeliveryChange change; /* what is to be sent */
    uint64_t since_ns;     /* since when, agent's clock */
    uint64_t last_sent_ns; /* 0 never */
    uint64_t retry_ns;     /* not before */
    unsigned int tries;    /* failures in a row */
    bool saved;            /* in the outbox */
    Sending sending;
    /* Alertmanager, by URL */
    Posted posted[ALERT_URLS_MAX];
    uint64_t ended_ns; /* since when it is over, agent's clock */
};

struct AlertItem {
    Incident incident;
    VEC(Delivery *) deliveries;
    bool restored; /* from the outbox; alerts_resume tells whether it is still open */
    uint64_t order;
};

typedef enum Outcome { OUTCOME_DELIVERED, OUTCOME_REJECTED, OUTCOME_FAILED } Outcome;

/* How a kind of receiver is sent to. */
typedef struct SenderOps {
    /* Sends what is due; returns when the next will be, agent's clock. */
    uint64_t (*send_due)(Receiver *receiver, uint64_t now_ns);
    /* Stops a notification under way: it does not come to delivery_finish. NULL: none stays under way. */
    void (*cancel)(Delivery *delivery);
} SenderOps;
const SenderOps *senders_find(ReceiverKind kind); /* senders.c */

typedef struct Endpoint {
    Receiver *receiver;
    size_t index;
    FetchCall *call;
    unsigned int tries;
    uint64_t retry_ns;
    size_t posting; /* alerts under way */
} Endpoint;

/* An alert whose labels changed: the Alertmanager is told that the old one is over. */
typedef struct Ghost {
    char *labels;
    uint64_t opened_real_ns, ended_real_ns, ended_ns;
    Posted posted[ALERT_URLS_MAX];
} Ghost;

/* The report of a job that has ended, on its way to a receiver. */
typedef struct ReportNews {
    char key[ALERT_KEY_CAP];
    Str gz;                 /* its JSON, packed */
    uint64_t known_real_ns; /* since when it is known that it has ended */
    uint64_t retry_ns;      /* not before */
    unsigned int tries;     /* failures in a row */
} ReportNews;

struct Receiver {
    Alerts *alerts;
    char *name;
    ReceiverKind kind;
    ReceiverConfig *config; /* in the tree in force */
    const SenderOps *ops;
    VEC(Delivery *) deliveries;
    size_t in_flight;
    Endpoint endpoints[ALERT_URLS_MAX]; /* Alertmanager */
    VEC(Ghost) ghosts;
    VEC(ReportNews) reports; /* the oldest first */
    FetchCall *report_call;  /* the one under way, of this key */
    char report_key[ALERT_KEY_CAP];
    /* its state */
    uint64_t sent, failed, dropped, last_ok_real_ns;
    bool troubled;
    char why[ALERT_WHY_CAP];
};

struct Alerts {
    uv_loop_t *loop;
    AlertsConfig config; /* without the tree; texts are our own */
    char *hostname, *external_url;
    AlertTree *tree;
    Fetch *fetch; /* NULL: no receiver needs it */
    uv_timer_t timer, grace;
    uv_timer_cb send_due; /* of the timer */
    VEC(Receiver *) receivers;
    Map items;
    uint64_t order;
    Arena scratch;
    bool has_external_url; /* it was configured */
    bool resumed, closing, closed;
    unsigned int handles;
    void (*on_closed)(void *self);
    void *self;
};

/* --- receiver.c --- */

uint64_t alerts_now(const Alerts *alerts);
uint64_t alerts_real(const Alerts *alerts);
const char *alerts_url(const Alerts *alerts);
/* Runs the timer at the loop's next round. */
void alerts_wake(Alerts *alerts);
/* One of the loop's handles is closed; frees with the last. */
void alerts_release(Alerts *alerts);

/* What became of a request for `count` incidents. */
void receiver_note_outcome(Receiver *receiver, Outcome outcome, size_t count, const char *why);
void receiver_note_dropped(Receiver *receiver, size_t count, const char *why);
/* A request as configured. `headers` has room for ALERT_HEADERS_MAX + 8. */
void receiver_make_request(const Receiver *receiver, const char *url, const char **headers, FetchRequest *ret);
/* What an answer means; the reason of a failure in `why`. */
Outcome receiver_read_answer(Receiver *receiver, const FetchAnswer *answer, char why[ALERT_WHY_CAP]);
/* It is back: nothing waits any longer. */
void receiver_retry_now(Receiver *receiver);
/* The pause after `tries` failures: doubled up to `most_ns`, a fifth of it random. */
uint64_t alert_backoff_ns(unsigned int tries, uint64_t most_ns, uint64_t retry_after_ms);

/* --- delivery.c --- */

Delivery *delivery_new(AlertItem *item, Receiver *receiver);
/* Cancels what is under way and takes it off the receiver; `forget`: off the outbox too. The item's list is the
 * caller's. */
void delivery_free(Delivery *delivery, bool forget);
/* Sets and saves what is to be sent, after the incident or its route has changed. */
void delivery_update(Delivery *delivery);
void delivery_save(Delivery *delivery);
/* One from the outbox by its text: sets what was heard, since when and the labels (to be freed, or given to
 * delivery_restore) of `ret`, whose receiver is set. -EINVAL. */
int delivery_read_kept(const char *text, Delivery *ret, Incident *ret_incident);
/* Moves what was read into a new one. */
void delivery_restore(Delivery *delivery, Delivery *kept);
bool delivery_is_over(const Delivery *delivery);
/* Begins the most urgent notification that is due, of a webhook, command or journald: it is under way, with its key and
 * body, until delivery_finish. NULL: none can begin now; *ret_next: when the next is due, agent's clock. */
Delivery *delivery_begin_due(Receiver *receiver, uint64_t now_ns, uint64_t *ret_next);
/* The outcome of a notification. */
void delivery_finish(Delivery *delivery, Outcome outcome, uint64_t retry_after_ms, const char *why);
void delivery_cancel_all(Receiver *receiver);
/* Texts that go out with an incident. The runbook is the route's URL, else the catalogue's, else the agent's own page
 * of the class, else "". */
void delivery_write_affected(const Incident *incident, char *out, size_t size); /* "" where not known */
void delivery_write_evidence(const Incident *incident, size_t max, Str *out);
void delivery_write_link(const Alerts *alerts, const Incident *incident, char *out, size_t size);
void delivery_write_runbook(const Delivery *delivery, char *out, size_t size);

/* --- senders.c --- */

/* A POST to a webhook, signed where that has a secret. */
typedef struct WebhookRequest {
    FetchRequest request;
    const char *headers[ALERT_HEADERS_MAX + 8];
    char key[ALERT_HEADER_MAX], signature[ALERT_HEADER_MAX];
} WebhookRequest;
/* `body` is borrowed, and *ret may not move. */
void webhook_make_request(const Receiver *receiver, const char *key, const Str *body, WebhookRequest *ret);

/* --- reports.c --- */

/* Whether a key of the outbox is that of a report. */
bool reports_are_kept_by(const char *key);
/* One from the outbox; false: it is unreadable. */
bool reports_restore(Receiver *receiver, const char *key, const char *text);
/* Sends what is due; returns when the next will be, agent's clock. */
uint64_t reports_send_due(Receiver *receiver, uint64_t now_ns);
void reports_cancel(Receiver *receiver);
/* Frees those that wait, `forget`: off the outbox too; returns how many there were. */
size_t reports_free(Receiver *receiver, bool forget);

/* --- alertmanager.c --- */

/* Sends what is due; returns when the next will be, agent's clock. */
uint64_t alertmanager_send_due(Receiver *receiver, uint64_t now_ns);
void alertmanager_cancel(Receiver *receiver);
/* The labels of a delivery change: the alert under its old ones is over. */
void alertmanager_end_old_labels(Delivery *delivery);
/* Whether one of its URLs has not heard the newest state. */
bool alertmanager_is_waiting(const Delivery *delivery);
