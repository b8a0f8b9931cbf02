/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The API server's answers: a list, page by page, one object, and the events of a watch. The objects are kept as JSON
 * text, so that what has changed can be told together with what has not. Pure; one thread.
 */

#include <jansson.h>

#include "base/err.h"
#include "base/map.h"
#include "base/str.h"

/* More than KEPT_MAX is not kept, and then there is nothing to watch from. */
enum { KUBE_OBJECTS_KEPT_MAX = 16 << 20, KUBE_OBJECTS_LINE_MAX = 4 << 20 };

typedef int (*KubeChange)(void *self, const json_t *object, bool gone, Err *err);

typedef struct KubeObjects {
    KubeChange change; /* takes each change of a watch, and nothing is kept; NULL: all is kept. Set after the init */
    void *change_self;
    Map kept;      /* "namespace/name" -> JSON text */
    size_t bytes;  /* of them */
    size_t pages;  /* of the list that is being read */
    Str next_page; /* the token of the list's next page; "": that was the last */
    Str version;   /* what a watch goes on from; "": nothing to watch from */
    Str line;      /* the beginning of a watch's next event */
} KubeObjects;

typedef int (*KubeAdd)(void *self, const json_t *object, Err *err);

void kube_objects_init(KubeObjects *objects);
void kube_objects_done(KubeObjects *objects);
void kube_objects_clear(KubeObjects *objects);

/* Each object of an answer goes to `add` and is kept. -errno, also what `add` says: it is not to be used. */
int kube_objects_read_page(KubeObjects *objects, const char *text, size_t len, KubeAdd add, void *self, Err *err);
int kube_objects_read_one(KubeObjects *objects, const char *text, size_t len, KubeAdd add, void *self, Err *err);

/* The next bytes of a watch. *ret_changed: some object that is kept has come, changed or gone; left alone otherwise.
 * KUBE_OBJECTS_GONE: the server does not know the version any more. -errno: read everything again. */
enum { KUBE_OBJECTS_GONE = 1 };
int kube_objects_watch(KubeObjects *objects, const char *bytes, size_t len, bool *ret_changed, Err *err);

/* Gives all that are kept to `add`. */
int kube_objects_tell(const KubeObjects *objects, KubeAdd add, void *self, Err *err);
