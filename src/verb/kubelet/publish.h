/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The devices of this node as ResourceSlices (resource.k8s.io/v1) on the API server. On the loop's thread.
 */

#include <jansson.h>

#include "source/kubernetes/kubernetes.h"

typedef struct PublisherConfig {
    const char *driver, *node; /* the node's name is the pool's too */
    KubeApiConfig api;
    const Log *log;
} PublisherConfig;

typedef struct Publisher Publisher;

/* `config` is borrowed. */
int publisher_new(uv_loop_t *loop, const PublisherConfig *config, Publisher **ret, Err *err);
KubeApi *publisher_api(Publisher *publisher);
/* As DraPort.publish. */
void publisher_set(Publisher *publisher, json_t *devices, json_t *counters, json_t *tainted);
/* Looks at what is published now: somebody may have removed it. */
void publisher_ask(Publisher *publisher);
void publisher_close(Publisher *publisher); /* accepts NULL */
