/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the API server is and what a request to it carries: of a service account's folder, or of a kubeconfig. Files
 * are read for each request, so what has changed counts for the next one. A credential plug-in runs as a child of its
 * own, without a terminal, and what it gave is used until it expires or is refused. Keys and certificates are passed to
 * libcurl as files in memory. On the loop's thread; nothing blocks but reading these small files.
 */

#include <uv.h>

#include "base/err.h"
#include "base/log.h"
#include "wire/fetch/fetch.h"

/* For a request that is sent now; valid until the next credentials_read. */
typedef struct KubeAuth {
    const char *url;    /* "https://10.0.0.1:6443" */
    const char *bearer; /* NULL: none */
    FetchTls tls;
    uint32_t ticket; /* which answer of the plug-in it is; for credentials_refused */
} KubeAuth;

typedef struct Credentials Credentials;

/* `account`: the folder of token and ca.crt; `kubeconfig`: a file that is used instead, NULL or "": none; both copied.
 * `ready` is called when a plug-in has ended that credentials_read had to wait for. */
Credentials *credentials_new(uv_loop_t *loop, const char *account, const char *kubeconfig, const Log *log,
                             void (*ready)(void *self), void *self);
void credentials_close(Credentials *credentials); /* frees it when the loop has closed its handle; accepts NULL */

/* CREDENTIALS_LATER: a plug-in runs, ask again when `ready` is called. -errno says what is missing, and where. */
enum { CREDENTIALS_LATER = 1 };
int credentials_read(Credentials *credentials, KubeAuth *ret, Err *err);

/* The server did not accept them (401). True where others can be had now. */
bool credentials_refused(Credentials *credentials, uint32_t ticket);
