/* SPDX-License-Identifier: Apache-2.0 */
/* Basic auth: claims, hashes and the memory of checks. */
#include "wire/http/auth.h"

#include <crypt.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum { KEY_BYTES = 32, WRONG_KEPT = 64, HASH_LEN = 60, HASH_HEAD = 7, CLAIM_MAX = 8 * 1024 };

/* A digest of zeroes is none: no claim has it but by a chance of 1 to 2^256. */
struct Auth {
    const AuthUser *users;
    size_t count;
    AuthDigest *right; /* per user */
    AuthDigest wrong[WRONG_KEPT];
    uint8_t key[KEY_BYTES];
};

bool auth_is_hash(const char *hash)
{
    int cost;

    if (strlen(hash) != HASH_LEN || strncmp(hash, "$2", 2) != 0 || !strchr("aby", hash[2]) || hash[3] != '$' ||
        hash[6] != '$' || hash[4] < '0' || hash[4] > '9' || hash[5] < '0' || hash[5] > '9')
        return false;
    cost = 10 * (hash[4] - '0') + (hash[5] - '0');
    return cost >= AUTH_COST_MIN && cost <= AUTH_COST_MAX &&
           strspn(hash + HASH_HEAD, "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") ==
               HASH_LEN - HASH_HEAD;
}

Auth *auth_new(const AuthUser *users, size_t count)
{
    Auth *auth = xcalloc(1, sizeof(*auth));

    auth->users = users;
    auth->count = count;
    auth->right = xcalloc(count, sizeof(*auth->right));
    if (gnutls_rnd(GNUTLS_RND_KEY, auth->key, sizeof(auth->key)) < 0)
        abort(); /* without randomness the memory of passwords could be guessed */
    return auth;
}

void auth_free(Auth *auth)
{
    if (!auth)
        return;
    gnutls_memset(auth->key, 0, sizeof(auth->key));
    free(auth->right);
    free(auth);
}

/* The decoded text after "Basic ", NUL-terminated; NULL if it is none. */
static char *decode_basic(const char *header, size_t *ret_len)
{
    gnutls_datum_t coded, plain = {0};
    char *text;

    if (!header || strncasecmp(header, "Basic ", 6) != 0)
        return NULL;
    header += 6 + strspn(header + 6, " ");
    coded.size = (unsigned)strspn(header, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=");
    if (!coded.size || coded.size > CLAIM_MAX || header[coded.size + strspn(header + coded.size, " ")])
        return NULL;
    coded.data = (unsigned char *)xmemdup0(header, coded.size);
    if (gnutls_base64_decode2(&coded, &plain) < 0)
        plain.data = NULL;
    free(coded.data);
    if (!plain.data)
        return NULL;
    text = xmemdup0((const char *)plain.data, plain.size);
    *ret_len = plain.size;
    gnutls_memset(plain.data, 0, plain.size);
    gnutls_free(plain.data);
    return text;
}

bool auth_claim(const Auth *auth, const char *header, AuthClaim *ret)
{
    size_t len = 0;
    char *text = decode_basic(header, &len), *colon;

    *ret = (AuthClaim){0};
    if (!text)
        return false;
    colon = strchr(text, ':');
    if (!colon || strlen(text) != len ||
        gnutls_hmac_fast(GNUTLS_MAC_SHA256, auth->key, sizeof(auth->key), text, len, ret->digest.bytes) < 0) {
        free(text);
        return false;
    }
    ret->password = xstrdup(colon + 1);
    gnutls_memset(colon, 0, strlen(colon));
    ret->user = text;
    return true;
}

void auth_claim_done(AuthClaim *claim)
{
    if (claim->password)
        gnutls_memset(claim->password, 0, strlen(claim->password));
    cleanup_free(&claim->password);
    cleanup_free(&claim->user);
}

/* Index of the user, count where there is none. Every name is looked at, so that the time tells nothing of which. */
static size_t find_user(const Auth *auth, const char *name)
{
    size_t len = strlen(name) + 1, found = auth->count;

    for (size_t i = 0; i < auth->count; i++)
        if (strlen(auth->users[i].name) + 1 == len && gnutls_memcmp(auth->users[i].name, name, len) == 0)
            found = i;
    return found;
}

static bool is_same(const AuthDigest *kept, const AuthDigest *digest)
{
    return gnutls_memcmp(kept->bytes, digest->bytes, AUTH_DIGEST_BYTES) == 0;
}

AuthVerdict auth_recall(const Auth *auth, const AuthClaim *claim)
{
    size_t user = find_user(auth, claim->user);

    if (user < auth->count && is_same(&auth->right[user], &claim->digest))
        return AUTH_RIGHT;
    return is_same(&auth->wrong[claim->digest.bytes[0] % WRONG_KEPT], &claim->digest) ? AUTH_WRONG : AUTH_UNKNOWN;
}

const char *auth_hash_of(const Auth *auth, const AuthClaim *claim, bool *ret_known)
{
    size_t user = find_user(auth, claim->user);

    *ret_known = user < auth->count;
    return auth->users[*ret_known ? user : 0].hash;
}

bool auth_matches(const char *hash, const char *password)
{
    struct crypt_data *data = xcalloc(1, sizeof(*data));
    /* Not crypt_r: AddressSanitizer takes that name for itself, and then nothing links libcrypt. */
    const char *made = crypt_rn(password, hash, data, (int)sizeof(*data));
    bool same = made && strlen(made) == strlen(hash) && gnutls_memcmp(made, hash, strlen(hash)) == 0;

    gnutls_memset(data, 0, sizeof(*data));
    free(data);
    return same;
}

void auth_remember(Auth *auth, const AuthClaim *claim, bool right)
{
    size_t user = find_user(auth, claim->user);

    if (!right)
        auth->wrong[claim->digest.bytes[0] % WRONG_KEPT] = claim->digest;
    else if (user < auth->count)
        auth->right[user] = claim->digest;
}
