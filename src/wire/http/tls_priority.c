/* SPDX-License-Identifier: Apache-2.0 */
/* Go's names of versions, cipher suites and curves as a priority string of GnuTLS. */
#include <errno.h>
#include <string.h>

#include "base/owner.h"
#include "base/str.h"
#include "wire/http/tls.h"

enum { PRIORITY_MAX = 4096, VERSION_TLS12 = 2, VERSION_TLS13 = 3 };

typedef struct Suite {
    const char *name;
    const char *kx; /* NULL: a suite of TLS 1.3, which has none */
    const char *cipher, *mac;
} Suite;

/* crypto/tls's CipherSuites(), and those it counted among them before Go 1.22. */
static const Suite suites[] = {
    {"TLS_AES_128_GCM_SHA256", NULL, "AES-128-GCM", "AEAD"},
    {"TLS_AES_256_GCM_SHA384", NULL, "AES-256-GCM", "AEAD"},
    {"TLS_CHACHA20_POLY1305_SHA256", NULL, "CHACHA20-POLY1305", "AEAD"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA", "AES-128-CBC", "SHA1"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA", "AES-256-CBC", "SHA1"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA", "AES-128-CBC", "SHA1"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA", "AES-256-CBC", "SHA1"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA", "AES-128-GCM", "AEAD"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA", "AES-256-GCM", "AEAD"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA", "AES-128-GCM", "AEAD"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA", "AES-256-GCM", "AEAD"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA", "CHACHA20-POLY1305", "AEAD"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA", "CHACHA20-POLY1305", "AEAD"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", "RSA", "AES-128-CBC", "SHA1"},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", "RSA", "AES-256-CBC", "SHA1"},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "RSA", "AES-128-GCM", "AEAD"},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "RSA", "AES-256-GCM", "AEAD"},
};

static const struct Curve {
    const char *name, *group;
} curves[] = {
    {"CurveP256", "SECP256R1"},
    {"CurveP384", "SECP384R1"},
    {"CurveP521", "SECP521R1"},
    {"X25519", "X25519"},
};

static const char *const versions[] = {"VERS-TLS1.0", "VERS-TLS1.1", "VERS-TLS1.2", "VERS-TLS1.3"};

/* Adds ":+WORD" once. */
static void add_word(Str *out, const char *word)
{
    char with[64];
    Str text;

    str_init_room(&text, with, sizeof(with));
    str_addf(&text, ":+%s:", word);
    str_addc(out, ':');
    if (!strstr(out->text, with))
        str_addf(out, "+%s", word);
    else
        str_cut(out, out->len - 1);
}

static int fail_name(const YamlNode *tls, const char *key, size_t i, const char *name, const char *const *names,
                     size_t count, Err *err)
{
    const YamlNode *list = yaml_get(tls, key), *at = list;
    const char *nearest = opt_nearest(name, names, count);
    char room[ERR_TEXT_MAX];
    Str text;

    if (list && list->kind == YAML_SEQ && i < list->len)
        at = list->items[i];
    str_init_room(&text, room, sizeof(room));
    str_addf(&text, "unknown name '%.60s' in '%s'", name, key);
    if (nearest)
        str_addf(&text, ", did you mean '%s'?", nearest);
    else
        str_add(&text, "; known are ");
    for (size_t n = 0; !nearest && n < count; n++)
        str_addf(&text, "%s%s", n ? ", " : "", names[n]);
    return yaml_fail(at, err, "%s", text.text);
}

static int find_suites(const WebFile *file, const YamlNode *tls, const Suite **ret, Err *err)
{
    const char *names[ARRAY_LEN(suites)];

    for (size_t i = 0; i < ARRAY_LEN(suites); i++)
        names[i] = suites[i].name;
    for (size_t i = 0; i < file->cipher_suites.len; i++) {
        size_t s = 0;

        while (s < ARRAY_LEN(suites) && strcmp(suites[s].name, file->cipher_suites.items[i]) != 0)
            s++;
        if (s == ARRAY_LEN(suites))
            return fail_name(tls, "cipher_suites", i, file->cipher_suites.items[i], names, ARRAY_LEN(suites), err);
        ret[i] = &suites[s];
    }
    return 0;
}

static int add_curves(const WebFile *file, const YamlNode *tls, Str *out, Err *err)
{
    const char *names[ARRAY_LEN(curves)];

    for (size_t i = 0; i < ARRAY_LEN(curves); i++)
        names[i] = curves[i].name;
    if (file->curves.len)
        str_add(out, ":-GROUP-ALL");
    for (size_t i = 0; i < file->curves.len; i++) {
        size_t c = 0;
        char word[32];

        while (c < ARRAY_LEN(curves) && strcmp(curves[c].name, file->curves.items[i]) != 0)
            c++;
        if (c == ARRAY_LEN(curves))
            return fail_name(tls, "curve_preferences", i, file->curves.items[i], names, ARRAY_LEN(curves), err);
        stpcpy(stpcpy(word, "GROUP-"), curves[c].group);
        add_word(out, word);
    }
    return 0;
}

/* A version for which no suite is listed is left out: offering it would only make handshakes fail. */
static int add_versions(const WebFile *file, const YamlNode *tls, const Suite *const *listed, Str *out, Err *err)
{
    bool old = !file->cipher_suites.len, new = old;
    size_t added = 0;

    for (size_t i = 0; i < file->cipher_suites.len; i++) {
        old |= listed[i]->kx != NULL;
        new |= !strcmp(listed[i]->mac, "AEAD");
    }
    for (int v = file->max_version; v >= file->min_version; v--) {
        if (v == VERSION_TLS13 ? !new : !old)
            continue;
        add_word(out, versions[v]);
        added++;
    }
    return added ? 0 : yaml_fail(tls, err, "no TLS version is left for these 'cipher_suites'");
}

static void add_suites(const WebFile *file, const Suite *const *listed, Str *out)
{
    if (!file->cipher_suites.len)
        return;
    str_add(out, ":-CIPHER-ALL:-MAC-ALL:-KX-ALL");
    for (size_t i = 0; i < file->cipher_suites.len; i++) {
        add_word(out, listed[i]->cipher);
        add_word(out, listed[i]->mac);
        add_word(out, listed[i]->kx ? listed[i]->kx : "ECDHE-RSA");
    }
}

int tls_priority(const WebFile *file, const YamlNode *tls_node, Arena *arena, const char **ret, Err *err)
{
    const Suite **listed = arena_calloc(arena, file->cipher_suites.len + 1, sizeof(const Suite *));
    char room[PRIORITY_MAX];
    Str out;

    str_init_room(&out, room, sizeof(room));
    str_add(&out, "NORMAL:-VERS-ALL");
    TRY(find_suites(file, tls_node, listed, err));
    TRY(add_versions(file, tls_node, listed, &out, err));
    add_suites(file, listed, &out);
    TRY(add_curves(file, tls_node, &out, err));
    if (file->prefer_server_ciphers)
        str_add(&out, ":%SERVER_PRECEDENCE");
    TRY(str_check(&out, "the list of cipher suites", err));
    *ret = arena_strdup(arena, out.text);
    return 0;
}
