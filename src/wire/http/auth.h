/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Basic auth with bcrypt hashes, and the memory of what was checked. A check costs 50 to 100 ms and so belongs into
 * a worker; its outcome is remembered under a keyed digest of user and password (HMAC-SHA256, key random per Auth),
 * never the password. Each user's last right password is kept, and a few wrong ones, which cost as much to find out. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUTH_DIGEST_BYTES = 32, AUTH_COST_MIN = 4, AUTH_COST_MAX = 18 };

typedef struct AuthUser {
    const char *name;
    const char *hash; /* "$2y$10$..." */
} AuthUser;

typedef struct AuthDigest {
    uint8_t bytes[AUTH_DIGEST_BYTES];
} AuthDigest;

typedef enum AuthVerdict { AUTH_WRONG, AUTH_RIGHT, AUTH_UNKNOWN } AuthVerdict;

/* What a client sent. */
typedef struct AuthClaim {
    char *user, *password; /* owned; NULL for a claim that cannot be right */
    AuthDigest digest;
} AuthClaim;

typedef struct Auth Auth;

/* Whether `hash` is a bcrypt hash that auth_matches can check. */
bool auth_is_hash(const char *hash);

Auth *auth_new(const AuthUser *users, size_t count); /* users are borrowed; count is not 0 */
void auth_free(Auth *auth);                          /* accepts NULL */

/* Reads the value of an Authorization header (NULL: none). False if it is no basic auth or malformed. */
bool auth_claim(const Auth *auth, const char *header, AuthClaim *ret);
void auth_claim_done(AuthClaim *claim);

/* What is known of a claim already. */
AuthVerdict auth_recall(const Auth *auth, const AuthClaim *claim);

/* The hash to check a claim against. For an unknown user it is another user's, so that it costs as much;
 * *ret_known is then false and the claim wrong whatever the check says. */
const char *auth_hash_of(const Auth *auth, const AuthClaim *claim, bool *ret_known);

/* The slow check. Any thread. */
bool auth_matches(const char *hash, const char *password);

/* Remembers the outcome. */
void auth_remember(Auth *auth, const AuthClaim *claim, bool right);
