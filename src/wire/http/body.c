/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to send, shared by the connections that send them. */
#include "wire/http/body.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

static HttpBody *body_new(const char *bytes, char *owned, size_t len)
{
    HttpBody *body = xmalloc(sizeof(*body));

    *body = (HttpBody){.bytes = bytes, .owned = owned, .len = len, .refs = 1};
    return body;
}

HttpBody *http_body_new(char *bytes, size_t len)
{
    return body_new(bytes, bytes, len);
}

HttpBody *http_body_static(const char *bytes, size_t len)
{
    return body_new(bytes, NULL, len);
}

HttpBody *http_body_ref(HttpBody *body)
{
    assert(body->refs > 0);
    body->refs++;
    return body;
}

void http_body_unref(HttpBody *body)
{
    if (!body || --body->refs > 0)
        return;
    free(body->owned);
    free(body);
}
