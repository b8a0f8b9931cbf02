/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials, sessions and client certificates, over GnuTLS; Go's names of suites and curves as its priority string.
 */
#include "wire/http/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "base/str.h"

/* -- priorities ------------------------------------------------------------------------------------------------------
 */

enum { PRIORITY_MAX = 4096, VERSION_TLS13 = 3 };

/* crypto/tls's CipherSuites(), and those it counted among them before Go 1.22, in GnuTLS's words. */
static const struct {
    const char *name, *words;
    bool old, new; /* in TLS 1.2 and before, in TLS 1.3 */
} suites[] = {
    {"TLS_AES_128_GCM_SHA256", ":+ECDHE-RSA:+AES-128-GCM:+AEAD", false, true},
    {"TLS_AES_256_GCM_SHA384", ":+ECDHE-RSA:+AES-256-GCM:+AEAD", false, true},
    {"TLS_CHACHA20_POLY1305_SHA256", ":+ECDHE-RSA:+CHACHA20-POLY1305:+AEAD", false, true},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", ":+ECDHE-ECDSA:+AES-128-CBC:+SHA1", true, false},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", ":+ECDHE-ECDSA:+AES-256-CBC:+SHA1", true, false},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", ":+ECDHE-RSA:+AES-128-CBC:+SHA1", true, false},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", ":+ECDHE-RSA:+AES-256-CBC:+SHA1", true, false},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", ":+ECDHE-ECDSA:+AES-128-GCM:+AEAD", true, true},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", ":+ECDHE-ECDSA:+AES-256-GCM:+AEAD", true, true},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", ":+ECDHE-RSA:+AES-128-GCM:+AEAD", true, true},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ":+ECDHE-RSA:+AES-256-GCM:+AEAD", true, true},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", ":+ECDHE-RSA:+CHACHA20-POLY1305:+AEAD", true, true},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", ":+ECDHE-ECDSA:+CHACHA20-POLY1305:+AEAD", true, true},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", ":+RSA:+AES-128-CBC:+SHA1", true, false},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", ":+RSA:+AES-256-CBC:+SHA1", true, false},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", ":+RSA:+AES-128-GCM:+AEAD", true, true},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", ":+RSA:+AES-256-GCM:+AEAD", true, true},
};

static const struct {
    const char *name, *words;
} curves[] = {
    {"CurveP256", ":+GROUP-SECP256R1"},
    {"CurveP384", ":+GROUP-SECP384R1"},
    {"CurveP521", ":+GROUP-SECP521R1"},
    {"X25519", ":+GROUP-X25519"},
};

static int fail_name(const WebFile *file, const char *key, const OptList *list, size_t i, Err *err)
{
    return opt_fail(&file->set, key, i, err,
                    "unknown name '%.60s' (they are Go's, as TLS_AES_128_GCM_SHA256 or CurveP256)", list->items[i]);
}

static int add_suites(const WebFile *file, Str *out, bool *ret_old, bool *ret_new, Err *err)
{
    *ret_old = *ret_new = !file->cipher_suites.len;
    if (file->cipher_suites.len)
        str_add(out, ":-CIPHER-ALL:-MAC-ALL:-KX-ALL");
    for (size_t i = 0; i < file->cipher_suites.len; i++) {
        size_t s = 0;

        while (s < ARRAY_LEN(suites) && strcmp(suites[s].name, file->cipher_suites.items[i]) != 0)
            s++;
        if (s == ARRAY_LEN(suites))
            return fail_name(file, "tls_server_config.cipher_suites", &file->cipher_suites, i, err);
        str_add(out, suites[s].words);
        *ret_old |= suites[s].old;
        *ret_new |= suites[s].new;
    }
    return 0;
}

static int add_curves(const WebFile *file, Str *out, Err *err)
{
    if (file->curves.len)
        str_add(out, ":-GROUP-ALL");
    for (size_t i = 0; i < file->curves.len; i++) {
        size_t c = 0;

        while (c < ARRAY_LEN(curves) && strcmp(curves[c].name, file->curves.items[i]) != 0)
            c++;
        if (c == ARRAY_LEN(curves))
            return fail_name(file, "tls_server_config.curve_preferences", &file->curves, i, err);
        str_add(out, curves[c].words);
    }
    return 0;
}

/* A version for which no suite is listed is left out: offering it would only make handshakes fail. */
static int add_versions(const WebFile *file, bool old, bool new, Str *out, Err *err)
{
    const size_t before = out->len;

    for (int v = file->max_version; v >= file->min_version; v--)
        if (v == VERSION_TLS13 ? new : old)
            str_addf(out, ":+VERS-TLS1.%d", v);
    return out->len > before ? 0
                             : opt_fail(&file->set, "tls_server_config.cipher_suites", 0, err,
                                        "no TLS version is left for these 'cipher_suites'");
}

int tls_priority(const WebFile *file, Arena *arena, const char **ret, Err *err)
{
    char room[PRIORITY_MAX];
    bool old, new;
    Str out;

    str_init_room(&out, room, sizeof(room));
    str_add(&out, "NORMAL:-VERS-ALL");
    TRY(add_suites(file, &out, &old, &new, err));
    TRY(add_versions(file, old, new, &out, err));
    TRY(add_curves(file, &out, err));
    if (file->prefer_server_ciphers)
        str_add(&out, ":%SERVER_PRECEDENCE");
    TRY(str_check(&out, "the list of cipher suites", err));
    *ret = arena_strdup(arena, out.text);
    return 0;
}

/* -- credentials and sessions ----------------------------------------------------------------------------------------
 */

enum { PEM_MAX = 1024 * 1024, SAN_MAX = 1024, SANS_MAX = 256 };

struct Tls {
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    WebClientAuth client_auth;
    OptList sans; /* borrowed from the WebFile */
};

CLEANUP_POINTER(Tls, tls_free);

/* PEM that stands in the web-config itself, or in a file. */
typedef struct Pem {
    const char *text, *file, *text_key, *file_key;
} Pem;

static int fail_pem(const WebFile *file, const Pem *pem, Err *err)
{
    return opt_add_place(&file->set, pem->text ? pem->text_key : pem->file_key, 0, err);
}

/* The text itself, or the content of the file, which may lie beside `base`. What it is called goes into `called`. */
static int read_pem(const Pem *pem, const char *base, Str *ret, Str *called, Err *err)
{
    const char *slash = strrchr(base, '/');

    if (pem->text) {
        str_addf(called, "'%s'", pem->text_key);
        str_add(ret, pem->text);
        return str_check(ret, pem->text_key, err);
    }
    if (*pem->file != '/' && slash)
        str_addn(called, base, (size_t)(slash - base) + 1);
    str_add(called, pem->file);
    TRY(str_check(called, "the path", err));
    return file_read(called->text, PEM_MAX, ret, err);
}

static int fail_tls(int code, const char *what, Err *err)
{
    return err_set(err, -EINVAL, "%s: %s", what, gnutls_strerror(code));
}

static gnutls_datum_t make_datum(const Str *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text->text, .size = (unsigned)text->len};
}

static void wipe_text(Str *text)
{
    if (text->cap)
        gnutls_memset(text->text, 0, text->len);
    str_done(text);
}

static int load_cert(Tls *tls, const WebFile *file, const char *base, Err *err)
{
    CLEANUP(str_done) Str cert = str_limited(PEM_MAX);
    CLEANUP(str_done) Str cert_name = str_limited(ERR_TEXT_MAX);
    CLEANUP(str_done) Str key_name = str_limited(ERR_TEXT_MAX);
    CLEANUP(wipe_text) Str key = {0};
    const Pem of_cert = {file->cert, file->cert_file, "tls_server_config.cert", "tls_server_config.cert_file"};
    const Pem of_key = {file->key, file->key_file, "tls_server_config.key", "tls_server_config.key_file"};
    gnutls_datum_t cert_data, key_data;
    int rc;

    str_init(&key, PEM_MAX);
    if (read_pem(&of_cert, base, &cert, &cert_name, err) < 0)
        return fail_pem(file, &of_cert, err);
    if (read_pem(&of_key, base, &key, &key_name, err) < 0)
        return fail_pem(file, &of_key, err);
    cert_data = make_datum(&cert);
    key_data = make_datum(&key);
    rc = gnutls_certificate_set_x509_key_mem2(tls->credentials, &cert_data, &key_data, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc >= 0)
        return 0;
    if (rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        (void)err_set(err, -EINVAL, "the key in %.180s does not belong to the certificate in %.180s", key_name.text,
                      cert_name.text);
    else
        (void)err_set(err, -EINVAL, "certificate %.160s with key %.160s: %s", cert_name.text, key_name.text,
                      gnutls_strerror(rc));
    return fail_pem(file, rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH ? &of_key : &of_cert, err);
}

static int load_ca(Tls *tls, const WebFile *file, const char *base, Err *err)
{
    CLEANUP(str_done) Str ca = str_limited(PEM_MAX);
    CLEANUP(str_done) Str name = str_limited(ERR_TEXT_MAX);
    const Pem of_ca = {file->client_ca, file->client_ca_file, "tls_server_config.client_ca",
                       "tls_server_config.client_ca_file"};
    gnutls_datum_t data;
    int rc;

    if (!file->client_ca && !file->client_ca_file)
        return 0;
    if (read_pem(&of_ca, base, &ca, &name, err) < 0)
        return fail_pem(file, &of_ca, err);
    data = make_datum(&ca);
    rc = gnutls_certificate_set_x509_trust_mem(tls->credentials, &data, GNUTLS_X509_FMT_PEM);
    if (rc > 0)
        return 0;
    (void)err_set(err, -EINVAL, "%.300s: %s", name.text, rc < 0 ? gnutls_strerror(rc) : "no certificate in it");
    return fail_pem(file, &of_ca, err);
}

int tls_new(const WebFile *file, const char *base, Tls **ret, Err *err)
{
    CLEANUP(tls_free_at) Tls *tls = xcalloc(1, sizeof(*tls));
    const char *wrong = NULL;
    int rc;

    tls->client_auth = (WebClientAuth)file->client_auth;
    tls->sans = file->client_allowed_sans;
    rc = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (rc < 0)
        return fail_tls(rc, "TLS", err);
    rc = gnutls_priority_init2(&tls->priority, file->priority, &wrong, 0);
    if (rc < 0)
        return err_set(err, -EINVAL, "%.200s: this GnuTLS refuses '%.60s' of these cipher suites, curves and versions",
                       base, wrong ? wrong : file->priority);
    TRY(load_cert(tls, file, base, err));
    TRY(load_ca(tls, file, base, err));
    *ret = TAKE(tls);
    return 0;
}

void tls_free(Tls *tls)
{
    if (!tls)
        return;
    if (tls->credentials)
        gnutls_certificate_free_credentials(tls->credentials);
    if (tls->priority)
        gnutls_priority_deinit(tls->priority);
    free(tls);
}

bool tls_wants_cert(const Tls *tls)
{
    return tls->client_auth == WEB_REQUIRE_ANY_CLIENT_CERT || tls->client_auth == WEB_REQUIRE_AND_VERIFY_CLIENT_CERT;
}

int tls_session_begin(const Tls *tls, gnutls_session_t session)
{
    gnutls_certificate_request_t request = GNUTLS_CERT_REQUEST;
    int rc = gnutls_priority_set(session, tls->priority);

    if (rc == 0)
        rc = gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    if (tls->client_auth == WEB_NO_CLIENT_CERT)
        request = GNUTLS_CERT_IGNORE;
    else if (tls_wants_cert(tls))
        request = GNUTLS_CERT_REQUIRE;
    gnutls_certificate_server_set_request(session, request);
    return rc;
}

/* An allowed name that is an address is compared as one, since addresses have many spellings. */
static bool is_address(const char *allowed, const unsigned char *address, size_t len)
{
    unsigned char v4[4], v6[16];

    if (len == sizeof(v4))
        return inet_pton(AF_INET, allowed, v4) == 1 && memcmp(v4, address, len) == 0;
    return len == sizeof(v6) && inet_pton(AF_INET6, allowed, v6) == 1 && memcmp(v6, address, len) == 0;
}

static bool is_allowed(const Tls *tls, int type, const char *san, size_t len)
{
    for (size_t i = 0; i < tls->sans.len; i++) {
        const char *allowed = tls->sans.items[i];

        if (type == GNUTLS_SAN_IPADDRESS && is_address(allowed, (const unsigned char *)san, len))
            return true;
        if ((type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_RFC822NAME || type == GNUTLS_SAN_URI) &&
            strlen(allowed) == len && memcmp(allowed, san, len) == 0)
            return true;
    }
    return false;
}

static bool has_allowed_san(const Tls *tls, const gnutls_datum_t *cert)
{
    gnutls_x509_crt_t crt = NULL;
    bool found = false;

    if (gnutls_x509_crt_init(&crt) < 0)
        return false;
    if (gnutls_x509_crt_import(crt, cert, GNUTLS_X509_FMT_DER) == 0) {
        for (unsigned i = 0; i < SANS_MAX && !found; i++) {
            char san[SAN_MAX];
            size_t len = sizeof(san);
            int type = gnutls_x509_crt_get_subject_alt_name(crt, i, san, &len, NULL);

            if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
                break;
            found = type >= 0 && is_allowed(tls, type, san, len);
        }
    }
    gnutls_x509_crt_deinit(crt);
    return found;
}

static int verify_chain(gnutls_session_t session, Err *err)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID};
    char oid[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_datum_t text = {0};
    unsigned status = 0;
    int rc;

    purpose.data = (unsigned char *)oid;
    rc = gnutls_certificate_verify_peers(session, &purpose, 1, &status);
    if (rc < 0)
        return err_set(err, -EACCES, "client certificate: %s", gnutls_strerror(rc));
    if (!status)
        return 0;
    if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) < 0)
        return err_set(err, -EACCES, "client certificate is not trusted");
    err_set(err, -EACCES, "client certificate: %s", (const char *)text.data);
    gnutls_free(text.data);
    return -EACCES;
}

int tls_session_verify(const Tls *tls, gnutls_session_t session, Err *err)
{
    const gnutls_datum_t *certs;
    unsigned count = 0;

    if (tls->client_auth == WEB_NO_CLIENT_CERT)
        return 0;
    certs = gnutls_certificate_get_peers(session, &count);
    if (!certs || !count)
        return tls_wants_cert(tls) ? err_set(err, -EACCES, "no client certificate") : 0;
    if (tls->client_auth >= WEB_VERIFY_CLIENT_CERT_IF_GIVEN)
        TRY(verify_chain(session, err));
    if (tls->sans.len && !has_allowed_san(tls, &certs[0]))
        return err_set(err, -EACCES, "client certificate has none of the allowed names (client_allowed_sans)");
    return 0;
}
