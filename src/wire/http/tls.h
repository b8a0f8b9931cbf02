/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* TLS from a web-config: certificate, versions, suites, and who may come in by which client certificate. */

#include <gnutls/gnutls.h>

#include "base/arena.h"
#include "base/err.h"
#include "wire/http/web_config.h"

/* The priority string for versions, cipher_suites and curve_preferences of `file`. -EINVAL names what is unknown and
 * what is allowed. */
int tls_priority(const WebFile *file, Arena *arena, const char **ret, Err *err);

/* Loads certificate, key and CA. `base` is the web-config file, to which relative paths are relative. -errno, -EINVAL
 * with the file's name and where it is named. */
int tls_new(const WebFile *file, const char *base, Tls **ret, Err *err);
void tls_free(Tls *tls); /* accepts NULL */

/* Prepares a session of a server before its handshake. */
int tls_session_begin(const Tls *tls, gnutls_session_t session);

/* 0 if the session's client certificate satisfies the policy, or none is asked for; otherwise -EACCES with the
 * reason. To be called in the handshake, as the session's verify function. */
int tls_session_verify(const Tls *tls, gnutls_session_t session, Err *err);

/* True if a client must show a certificate. */
bool tls_wants_cert(const Tls *tls);
