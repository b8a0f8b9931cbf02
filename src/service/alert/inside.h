/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the alerts among themselves.
 *
 *   Item      an incident as it was last told to us, and its Tells
 *   Tell      one incident at one receiver: what that one has heard, what it should hear. What is to be sent is not
 *             queued but follows from the two, so that newer states replace older ones
 *   Group     Tells of one receiver that are sent together (not for Alertmanagers, which group themselves)
 *   Message   a notification under way to a webhook, a command or the journal
 *   Endpoint  one URL of an Alertmanager, with its POST under way
 *
 * Everything happens in alerts_turn, which a timer calls when something is due. One thread.
 */

#include <uv.h>

#include "base/map.h"
#include "base/subproc.h"
#include "base/vec.h"
#include "service/alert/alert.h"
#include "service/alert/config.h"

enum {
    ALERT_ITEMS_MAX = 1024,
    ALERT_MESSAGE_MAX = 64,   /* incidents in one notification or POST */
    ALERT_IN_FLIGHT_MAX = 4,  /* notifications under way to one receiver */
    ALERT_GHOSTS_MAX = 128,   /* alerts under labels that they no longer have */
    ALERT_BODY_MAX = 4 << 20, /* bytes of a body */
    ALERT_SECRET_MAX = 4096,
    ALERT_KEY_CAP = 64,
    ALERT_ANSWER_MAX = 512, /* bytes of an answer that are looked at, for the log */
};
#define ALERT_NEVER UINT64_MAX
#define ALERT_BACKOFF_NS UINT64_C(1000000000)
#define ALERT_BACKOFF_MAX_NS (300 * UINT64_C(1000000000))
#define ALERT_ENDPOINT_BACKOFF_MAX_NS (15 * UINT64_C(1000000000))
#define ALERT_RETRY_AFTER_MAX_NS (3600 * UINT64_C(1000000000))
#define ALERT_RESOLVED_NS (900 * UINT64_C(1000000000)) /* as Prometheus: one that is over is sent so long */

typedef struct Item Item;
typedef struct Tell Tell;
typedef struct Group Group;
typedef struct Message Message;
typedef struct Receiver Receiver;

typedef enum ToldState { TOLD_NOTHING, TOLD_OPEN, TOLD_CLEARED, TOLD_END } ToldState;

/* What a receiver has heard of an incident. */
typedef struct Told {
    ToldState state;
    bool unsure; /* it may have heard the contrary since: that was sent, and no answer came */
    uint64_t revision;
    uint32_t escalations;
    uint64_t real_ns; /* when */
} Told;

typedef enum TellChange {
    TELL_NONE,
    TELL_OPENED,
    TELL_ESCALATED,
    TELL_CLEARED,
    TELL_REOPENED,
    TELL_MISSED,   /* opened and over before anybody could be told */
    TELL_REPEATED, /* nothing new, but it lasts */
    TELL_CHANGE_END,
} TellChange;

struct Tell {
    Item *item;
    Receiver *receiver;
    const RouteConfig *route; /* NULL: no route leads here any more; only its end is told */
    Told told;
    TellChange change;  /* what is to be told, settled by tell_settle */
    uint64_t since_ns;  /* since when, agent's clock */
    uint64_t wait_ns;   /* of its route */
    char *labels;       /* JSON */
    char *group_labels; /* JSON */
    Group *group;
    Message *message; /* under way; NULL */
    bool saved;       /* the outbox has it */
    /* Alertmanager, by URL */
    uint64_t sent_ns[ALERT_URLS_MAX], stamp[ALERT_URLS_MAX];
    uint64_t ended_ns; /* since when it is over, agent's clock */
};

struct Item {
    Incident incident;
    VEC(Tell *) tells;
    bool restored; /* from the outbox; whether it still is open is not known before alerts_resume */
    uint64_t order;
};

struct Group {
    Receiver *receiver;
    char *key, *labels;
    uint64_t last_sent_ns; /* 0: never */
    uint64_t retry_ns;
    unsigned int tries, under_way; /* failures in a row; messages */
    /* reckoned anew in each turn */
    size_t members;
    uint64_t due_ns, repeat_due_ns;
    bool busy, page;
};

typedef struct MessageTell {
    Tell *tell; /* NULL: it is gone meanwhile */
    Told told;  /* what will have been told */
    TellChange change;
} MessageTell;

struct Message {
    Receiver *receiver;
    Message *next;
    VEC(MessageTell) tells;
    VEC(Group *) groups;
    char key[ALERT_KEY_CAP];
    Str body;
    /* of its kind */
    FetchCall *call;
    struct AlertChild *child;
};

typedef enum Outcome { OUTCOME_DELIVERED, OUTCOME_REJECTED, OUTCOME_FAILED } Outcome;

/* How messages of a kind go out. `start` ends in message_done, now or later, and may not be followed by a use of the
 * message. `cancel`: message_done is not called any more. */
typedef struct SenderOps {
    void (*start)(Message *message);
    void (*cancel)(Message *message);
} SenderOps;
extern const SenderOps webhook_ops, command_ops, journald_ops;

typedef struct Endpoint {
    Receiver *receiver;
    size_t index;
    FetchCall *call;
    unsigned int tries;
    uint64_t retry_ns;
    struct EndpointSent {
        Tell *tell;
        uint64_t ghost; /* number, where tell is NULL */
        uint64_t stamp;
        ToldState state;
    } sent[ALERT_MESSAGE_MAX];
    size_t sent_len;
} Endpoint;

/* An alert whose labels changed: the Alertmanager is told that the old one is over. */
typedef struct Ghost {
    uint64_t number;
    char *labels;
    uint64_t opened_real_ns, ended_real_ns, ended_ns;
    uint64_t sent_ns[ALERT_URLS_MAX];
    bool sent[ALERT_URLS_MAX];
} Ghost;

typedef struct Secrets {
    char *password, *bearer, *secret;
} Secrets;

struct Receiver {
    Alerts *alerts;
    char *name;
    ReceiverKind kind;
    const ReceiverConfig *config; /* in the tree in force */
    Secrets secrets;
    VEC(Tell *) tells;
    VEC(Group *) groups;
    Message *messages;
    size_t in_flight;
    double tokens;
    uint64_t tokens_ns;
    bool throttled;
    Endpoint endpoints[ALERT_URLS_MAX]; /* Alertmanager */
    VEC(Ghost) ghosts;
    uint64_t ghost_count;
    /* what is said of it */
    uint64_t sent, failed, dropped, last_ok_real_ns;
    bool troubled;
    char why[160];
};

struct Alerts {
    uv_loop_t *loop;
    AlertsConfig config; /* without the tree; texts are our own */
    char *hostname, *external_url;
    AlertTree *tree;
    Fetch *fetch; /* NULL where no receiver needs it */
    uv_timer_t timer, grace;
    VEC(Receiver *) receivers;
    Map items;
    uint64_t order;
    Arena scratch;
    bool placed; /* the external URL was given */
    bool resumed, closing, closed;
    unsigned int handles;
    void (*on_closed)(void *self);
    void *self;
};

/* alert.c */
uint64_t alert_now(const Alerts *alerts);
uint64_t alert_real(const Alerts *alerts);
void alert_kick(Alerts *alerts);          /* a turn at the loop's next round */
void alert_handle_closed(Alerts *alerts); /* one of the loop's handles is */
const char *alert_url(const Alerts *alerts);

/* tell.c */
Tell *tell_new(Item *item, Receiver *receiver);
/* Takes it off the receiver, what is under way and the outbox; the item's list is the caller's. */
void tell_free(Tell *tell, bool forget);
/* Reckons what is to be told and keeps it in the outbox where that changed or `anew`. */
void tell_settle(Tell *tell, bool anew);
void tell_save(Tell *tell);
/* What the outbox says of a new one; takes the labels. */
void tell_restore(Tell *tell, const Told *told, uint64_t since_ns, char *labels);
/* This goes out now: until the answer is there it may or may not have been heard. */
void tell_try(Tell *tell, ToldState state);
/* True where nothing will ever be told any more. */
bool tell_is_over(const Tell *tell);
const char *tell_change_key(TellChange change);
/* Removes the tells of an item that are over, and the item with its last one where it is over too. */
void item_sweep(Alerts *alerts, Item *item);
void item_free(Item *item, bool forget);

/* route.c: who is told of an item. Makes its tells, labels and groups. */
void alert_route(Alerts *alerts, Item *item);

/* receiver.c */
Receiver *receiver_new(Alerts *alerts, const ReceiverConfig *config, Err *err);
void receiver_free(Receiver *receiver); /* its tells are gone */
int secrets_read(const ReceiverConfig *config, Secrets *ret, Err *err);
void secrets_done(Secrets *secrets);
/* Reads the files of secrets anew; false where they cannot be read or say the same. */
bool receiver_reread(Receiver *receiver);
void receiver_fine(Receiver *receiver, size_t count);
void receiver_trouble(Receiver *receiver, const char *why);
void receiver_rejected(Receiver *receiver, size_t count, const char *why);
void receiver_dropped(Receiver *receiver, size_t count, const char *why);
/* A request as the receiver's configuration has it. `headers` has room for ALERT_HEADERS_MAX + 8. */
void receiver_request(const Receiver *receiver, const char *url, const char **headers, FetchRequest *ret);
/* What an answer means, and in `why` what went wrong. */
Outcome receiver_outcome(Receiver *receiver, const FetchAnswer *answer, char why[160]);
/* Nanoseconds until the next try after `tries` failures, with some chance in it. */
uint64_t alert_backoff(unsigned int tries, uint64_t most_ns, uint64_t retry_after_ms);

/* notify.c: sends what is due and returns when something will be, agent's clock. */
uint64_t notify_turn(Receiver *receiver, uint64_t now_ns);
void notify_done(Message *message, Outcome outcome, uint64_t retry_after_ms, const char *why);
void notify_cancel(Receiver *receiver);
Group *group_of(Receiver *receiver, const char *key, const char *labels);
/* alertmanager.c: the same. */
uint64_t alertmanager_turn(Receiver *receiver, uint64_t now_ns);
void alertmanager_cancel(Receiver *receiver);
/* The labels of a tell change: the alert under its old ones is over. */
void alertmanager_renamed(Tell *tell);
/* Whether one of its URLs has not heard the newest of this. */
bool alertmanager_waits(const Tell *tell);

/* The key of one incident's news: the same news have the same key, whoever reckons them from whatever was kept. */
void notify_key(const MessageTell *told, Str *out);

/* payload.c */
void payload_message(const Message *message, const MessageTell *first, Str *out);
void payload_evidence(const Incident *incident, size_t max, Str *out);
void payload_link(const Alerts *alerts, const Incident *incident, char *out, size_t size);
/* What a tell's runbook is: the route's URL, else the catalogue's, else the page of its class that the agent serves;
 * "". */
void payload_runbook(const Alerts *alerts, const RouteConfig *route, const Incident *incident, char *out, size_t size);

/* kept.c: a tell as the outbox keeps it. */
void kept_write(const Tell *tell, Str *out);
/* -EINVAL. `ret_labels` is to be freed. */
int kept_read(const char *text, size_t len, uint64_t now_ns, uint64_t real_ns, Incident *ret, Told *ret_told,
              uint64_t *ret_since_ns, char **ret_labels);
