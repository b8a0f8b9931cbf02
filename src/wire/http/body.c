/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies, and what those on their way to clients take together. */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "wire/http/conn.h"

static HttpBody *make_body(const char *bytes, char *owned, size_t len)
{
    HttpBody *body = xmalloc(sizeof(*body));

    *body = (HttpBody){.bytes = bytes, .owned = owned, .len = len, .refs = 1};
    return body;
}

HttpBody *http_body_new(char *bytes, size_t len)
{
    return make_body(bytes, bytes, len);
}

HttpBody *http_body_static(const char *bytes, size_t len)
{
    return make_body(bytes, NULL, len);
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

size_t body_count_bytes(const HttpBody *body)
{
    return body->owned ? body->len : 0;
}

void body_hold(HttpServer *server, HttpBody *body)
{
    if (body->holds++ == 0) {
        body->number = ++server->body_number;
        server->held_bytes += body_count_bytes(body);
    }
    if (body->dropped)
        server->dropped_bytes -= body_count_bytes(body);
    body->dropped = false;
}

void body_let_go(HttpServer *server, HttpBody *body)
{
    if (--body->holds == 0) {
        server->held_bytes -= body_count_bytes(body);
        if (body->dropped)
            server->dropped_bytes -= body_count_bytes(body);
        body->dropped = false;
    }
    http_body_unref(body);
}
