/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A kubeconfig file: the server and the user of its current context, and the answer of a credential plug-in
 * (client.authentication.k8s.io/v1 and v1beta1). Pure: nothing is opened or started here. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml.h"

/* PEM: in a file, or in the kubeconfig itself as base64, which comes first. Both NULL: none. */
typedef struct KubePem {
    const char *key;  /* what the kubeconfig calls it: "certificate-authority" */
    const char *file; /* a relative one was made relative to the kubeconfig's folder */
    const char *base64;
} KubePem;

typedef struct KubePlugin {
    const char *const *argv; /* NULL-terminated; NULL: there is no plug-in */
    const char *const *env;  /* "NAME=value", NULL-terminated */
    const char *version;     /* "client.authentication.k8s.io/v1" */
    const char *hint;        /* how to install it; "" */
    bool cluster;            /* it wants to know the cluster */
} KubePlugin;

typedef struct Kubeconfig {
    const char *server;      /* "https://10.0.0.1:6443" */
    const char *server_name; /* in the server's certificate; NULL: the URL's */
    bool insecure;
    KubePem ca, cert, client_key;
    const char *token, *token_file; /* NULL: none; the file comes first */
    KubePlugin plugin;
} Kubeconfig;

/* What a plug-in gave. */
typedef struct KubeTicket {
    const char *token, *cert, *client_key; /* cert and key as PEM; NULL: none */
    uint64_t expires_ns;                   /* real time; 0: never */
} KubeTicket;

/* `name` is the file's. All lies in `arena`. -EINVAL names the file, the line and the key. */
int kubeconfig_read(const char *name, const char *text, size_t len, Arena *arena, Kubeconfig *ret, Err *err);
/* `text` is what a plug-in of `version` wrote. -EBADMSG. */
int kubeconfig_read_ticket(const char *text, size_t len, const char *version, Arena *arena, KubeTicket *ret, Err *err);
