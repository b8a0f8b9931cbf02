/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The web-config file of Prometheus and its exporters: TLS, client certificates, basic auth, extra headers, and how
 * many requests are let through. Source of the format: github.com/prometheus/exporter-toolkit,
 * docs/web-configuration.md. What differs:
 *   - http_server_config.http2 is accepted and has no effect: this server speaks HTTP/1.1;
 *   - cipher_suites also restricts TLS 1.3 (whose suites may be named too), and allows every combination of the key
 *     exchanges, ciphers and MACs of the suites listed;
 *   - unknown keys, and TLS settings without a certificate, are errors; bcrypt costs over 18 too.
 * A WebConfig is counted: the server holds the present one, each TLS connection the one it was opened under, and
 * each password check the one it began with. Loop's thread only. */

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "wire/http/auth.h"
#include "wire/http/server.h"

typedef enum WebClientAuth {
    WEB_NO_CLIENT_CERT,
    WEB_REQUEST_CLIENT_CERT,
    WEB_REQUIRE_ANY_CLIENT_CERT,
    WEB_VERIFY_CLIENT_CERT_IF_GIVEN,
    WEB_REQUIRE_AND_VERIFY_CLIENT_CERT
} WebClientAuth;

/* The file as it stands, before any other file it names is opened. Texts lie in `arena`. */
typedef struct WebFile {
    OptSet set;                                        /* where its values stand; without `into` */
    const char *cert_file, *key_file, *client_ca_file; /* as written */
    const char *cert, *key, *client_ca;                /* PEM, instead of a file */
    int client_auth;                                   /* WebClientAuth */
    OptList client_allowed_sans, cipher_suites, curves, excluded_paths;
    int min_version, max_version; /* index into TLS10, TLS11, TLS12, TLS13 */
    bool prefer_server_ciphers;
    bool http2;
    const YamlNode *headers_node, *users_node;
    uint64_t rate_interval_ns, rate_burst;
    bool has_tls;
    const char *priority; /* for GnuTLS, from versions, suites and curves */
    HttpField *headers;
    size_t header_count;
    AuthUser *users;
    size_t user_count;
} WebFile;

/* Reads the text of a web-config into *ret (texts in `arena`); opens nothing. -EINVAL with "name:line:column: ...". */
int web_file_read(const char *name, const char *text, size_t len, Arena *arena, WebFile *ret, Err *err);

typedef struct Tls Tls;

typedef struct WebConfig {
    unsigned refs;
    Arena arena;
    WebFile file;
    const char *files[4]; /* that it names, NULL-ended; where they lie */
    Tls *tls;             /* NULL: plain */
    Auth *auth;           /* NULL: open to everybody */
    double tokens;        /* of the rate limit; at most rate_burst */
    uint64_t tokens_at_ns;
} WebConfig;

/* Reads `path` and the files it names, relative to it. NULL: plain and open. -errno, -EINVAL. */
int web_config_load(const char *path, WebConfig **ret, Err *err);
WebConfig *web_config_ref(WebConfig *web);
void web_config_unref(WebConfig *web); /* accepts NULL */

/* True if the rate limit lets one more request through at this instant. */
bool web_config_admit(WebConfig *web, uint64_t now_ns);

/* True if `path` needs no password. */
bool web_config_excludes(const WebConfig *web, const char *path);
