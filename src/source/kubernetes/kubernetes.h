/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the cluster's API server knows: the labels of this node and its pods, which GPU a device of DRA is, a ConfigMap.
 * Each is read whole once and then watched, or read on demand. One object can be changed by a merge patch. On the
 * loop's thread; nothing blocks but the reading of the credentials' small files. A failure leaves what was read last in
 * force, is logged once, and the request is repeated. A server that lets no watch is asked again and again. Memory: one
 * page of an answer (KUBE_PAGE_MAX) at a time, of which one object is decoded at a time, and the text of what is
 * watched.
 */

#include <jansson.h>
#include <uv.h>

#include "base/duration.h"
#include "base/err.h"
#include "base/log.h"
#include "model/allocation.h"

enum { KUBE_PAGE_MAX = 4 << 20, KUBE_PAGES_MAX = 64, KUBE_READS_MAX = 4 };
enum { KUBE_CHANGE_PAGES_MAX = 4096 }; /* of a list of which only changes are told */
#define KUBE_WATCH_NS (4 * NS_PER_MIN)

/* ---- the client (api.c) ---- */

#define KUBE_STATE_TABLE(WORD)                                                                                         \
    WORD(KUBE_WAITING, "waiting") /* no answer yet */                                                                  \
    WORD(KUBE_OK, "ok")                                                                                                \
    WORD(KUBE_NO_ACCOUNT, "no_account")   /* no service account's token, or a kubeconfig that cannot be used */        \
    WORD(KUBE_UNREACHABLE, "unreachable") /* no answer, a server that is too busy, or one that is broken */            \
    WORD(KUBE_DENIED, "denied")           /* 401, 403 */                                                               \
    WORD(KUBE_NOT_FOUND, "not_found")     /* 404 */                                                                    \
    WORD(KUBE_CONFLICT, "conflict")       /* 409: the object was changed since the version that a patch names */       \
    WORD(KUBE_BAD_REPLY, "bad_reply")     /* anything else; too large; not to be used */

typedef enum KubeState { KUBE_STATE_TABLE(WORD_ID) KUBE_STATE_END } KubeState;
extern const WordRow kube_states[KUBE_STATE_END];

/* Something to read: a list, whose objects come one by one, or one object. Borrowed. */
typedef struct KubeRead {
    const char *what; /* for the log and a label: "pods" */
    const char *path; /* "/api/v1/pods?fieldSelector=..." */
    /* The same in an older version of the API, asked where `path` is not found; NULL: none. */
    const char *older_path;
    bool list, metadata_alone;
    bool optional; /* that a server does not have it (404) is not said to people */
    /* Not watched, but read once after each kube_api_ask, repeated until it succeeds. */
    bool on_demand;
    /* The body of a merge patch of the object, valid until the next call, which is sent instead of a reading; `add` is
     * called with the object as it is after it. NULL: read. Called before each attempt; after a conflict the object is
     * read first. So what comes to `add` never goes back in time. NULL: nothing is ever changed. */
    const char *(*patch)(void *self);
    bool strategic; /* the patch is a strategic merge patch, by which a list is merged by its key */
    /* begin, then add for each object, then end, where all of it could be read: it is to be used now. An object may be
     * refused with -errno, which refuses the answer. end: false where something was missing: it is read again soon, or
     * the watch brings it. After each change all objects come again. */
    void (*begin)(void *self);
    int (*add)(void *self, const json_t *object, Err *err);
    bool (*end)(void *self);
    /* Of a list, instead of all objects after each change: the one that has come or changed, or is `gone` and as it
     * last was. Such a list is not kept and may be a whole cluster's: it is read in small pages, from the server's
     * database. Not to be asked for again by kube_api_ask. NULL: all objects come again. */
    int (*change)(void *self, const json_t *object, bool gone, Err *err);
    void *self;
} KubeRead;

typedef struct KubeApiConfig {
    const char *account;    /* the folder of the service account's token and ca.crt, read for each request; copied */
    const char *kubeconfig; /* a file that says server and credentials instead; NULL or "": none; copied */
    uint64_t soon_ns;       /* after a failure, then twice as long each time */
    uint64_t again_ns;      /* after a success where there is no watch, and at most after a failure */
    uint64_t timeout_ns;    /* of one request; a page of a list with `change` has half a minute more */
    uint64_t
        watch_ns; /* a watch ends after a half to all of it, and is given up `timeout_ns` later; 0: as KUBE_WATCH_NS */
    const Log *log;
} KubeApiConfig;

typedef struct KubeApi KubeApi;

/* `count` may be 0: for calls alone. The server is where KUBERNETES_SERVICE_HOST and _PORT say; without them every
 * state is NO_ACCOUNT. -ENOENT where there is no libcurl. */
int kube_api_new(uv_loop_t *loop, const KubeApiConfig *config, const KubeRead *reads, size_t count, KubeApi **ret,
                 Err *err);
/* Cancels what is under way, calls too, and frees it when the loop has closed its handles. Accepts NULL. */
void kube_api_close(KubeApi *api);
/* Reads or patches it now, or tells again what is watched; behind a request that is under way. */
void kube_api_ask(KubeApi *api, size_t read);
KubeState kube_api_state(const KubeApi *api, size_t read);

/* ---- single requests (api.c) ---- */

/* One request, once; nothing is repeated, and nothing of it is logged. */
typedef struct KubeCall KubeCall;

typedef struct KubeRequest {
    const char *method; /* "GET", "POST", "PUT", "DELETE", "PATCH": a merge patch */
    const char *path;   /* "/apis/resource.k8s.io/v1/..."; copied, as the others */
    const char *body;   /* JSON; NULL none */
} KubeRequest;

typedef struct KubeReply {
    KubeState state;      /* KUBE_OK: 2xx */
    const json_t *object; /* the answer's JSON object, valid for the call back; NULL where there is none */
    const char *text;     /* what the server, or the client, says of a state that is not KUBE_OK; "" */
    uint64_t wait_ns;     /* the server wants no other request for so long (Retry-After); 0 */
} KubeReply;

/* `done` is called once, later and from the loop, unless the call is cancelled or the API is closed first. *ret is
 * valid until then. */
void kube_call_new(KubeApi *api, const KubeRequest *request, void (*done)(void *self, const KubeReply *reply),
                   void *self, KubeCall **ret);
void kube_call_cancel(KubeCall *call); /* accepts NULL */

/* A node's name is a DNS name. */
bool kube_is_node_name(const char *text); /* accepts NULL */
/* So is that of a driver, of at most 63 characters. */
bool kube_is_driver_name(const char *text);

/* The path of a list of objects of this node; in `arena`. */
const char *kube_node_path(Arena *arena, const char *collection, const char *field, const char *node);

/* ---- labels of pods (pods.c) ---- */

/*
 * The labels of the pods that hold a device, under names that Prometheus takes: every byte that is none of a-z, A-Z,
 * 0-9 and _ becomes _, and a _ goes before a digit. Of two that become one the first by the name before is kept.
 * `patterns`: extended regular expressions, of which one must be found in the label's own name; none: all labels. At
 * most KUBE_LABELS_MAX of a pod.
 */
enum { KUBE_LABELS_MAX = 64, KUBE_PODS_MAX = 65536 };

typedef struct KubePods KubePods;

/* -EINVAL names the pattern that is none, or that would mean something else to dcgm-exporter (\d). */
int kube_pods_new(const char *const *patterns, size_t count, KubePods **ret, Err *err);
void kube_pods_free(KubePods *pods); /* accepts NULL */
/* How to read them; `path` as kube_node_path gives it. */
KubeRead kube_pods_read(KubePods *pods, const char *path, void (*changed)(void *self), void *self);
/* These pods are of interest from now on; others are forgotten. True where one of them is not known yet. */
bool kube_pods_want(KubePods *pods, const AllocationTable *table);
/* Gives the row its labels and the object that controls its pod, which are valid until the next reading. */
void kube_pods_label(const KubePods *pods, Allocation *row);

/* ---- devices of DRA (slices.c) ---- */

/* Which GPU or MIG device the devices of this node's resource slices are, by their attribute `uuid`. */
typedef struct KubeSlices KubeSlices;

KubeSlices *kube_slices_new(void);
void kube_slices_free(KubeSlices *slices); /* accepts NULL */
KubeRead kube_slices_read(KubeSlices *slices, const char *path, const char *older_path, void (*changed)(void *self),
                          void *self);
/* False where the slices do not tell. *ret_profile "" for a GPU; valid until the next reading. */
bool kube_slices_find(const KubeSlices *slices, const char *driver, const char *pool, const char *device,
                      AllocationDevice *ret, const char **ret_profile);
