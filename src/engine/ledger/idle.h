/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Owners that hold a device idle for longer than a policy allows. Each is evidence of the class IDLE_CLASS for as long
 * as it lasts, with what it costs so far; whether a device is idle is the word of engine/activity. Pure: time is that
 * of the node. One thread.
 */

#include "base/arena.h"
#include "base/yaml.h"
#include "engine/health/detect.h"
#include "engine/ledger/price.h"
#include "model/incident.h"
#include "model/owner.h"

#define IDLE_CLASS "gpu-held-idle"

/* How long an owner may hold a device idle where its policy does not say. */
#define IDLE_AFTER_NS (UINT64_C(15) * 60 * 1000000000)

enum { IDLE_POLICIES_MAX = 256 };

/* Patterns with * and ?; NULL: any. */
typedef struct IdlePolicy {
    const char *namespace, *partition, *user;
    uint64_t after_ns; /* 0: never */
} IdlePolicy;

/* The first that fits an owner decides. */
typedef struct IdlePolicies {
    size_t count;
    IdlePolicy at[];
} IdlePolicies;

/* Reads `idle:` of the configuration; NULL gives *ret NULL. Errors name file, line and key. */
int idle_policies_read(const YamlNode *node, Arena *arena, const IdlePolicies **ret, Err *err);

/* What a tick gives. */
typedef struct IdleLook {
    const Node *node;
    const Holding *holdings;
    size_t holding_count;
    const JobInfoList *jobs;      /* for partitions */
    const IdlePolicies *policies; /* NULL: nothing is watched */
    const Prices *prices;         /* NULL: none */
    const Incident *const *open;  /* the open incidents: what was told before a restart goes on */
    size_t open_count;
    const FaultClass *class; /* IDLE_CLASS of the catalogue in force; NULL: it has none */
} IdleLook;

typedef struct IdleWatch IdleWatch;

IdleWatch *idle_watch_new(void);
void idle_watch_free(IdleWatch *watch); /* accepts NULL */

/* One tick: calls `evidence` for each owner that is over its time. */
void idle_watch_update(IdleWatch *watch, const IdleLook *look, void (*evidence)(void *self, const Evidence *evidence),
                       void *self);
