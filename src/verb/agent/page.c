/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's page and its files. */
#include <string.h>

#include "base/cleanup.h"
#include "service/web/web.h"
#include "verb/agent/agent.h"

enum { FIELDS_MAX = 8 };

bool agent_answer_file(HttpRequest *request, const char *path, bool takes_gzip)
{
    const WebFile *file = web_find(path);
    CLEANUP(str_done) Str plain = {0};
    HttpBody *body;
    Err err;

    if (!file)
        return false;
    /* asked for anew each time and answered by its tag: after an upgrade nobody sees half of the old page */
    HttpField fields[FIELDS_MAX] = {{"Vary", "Accept, Accept-Encoding"},
                                    {"ETag", file->etag},
                                    {"Cache-Control", "no-cache"},
                                    {"Content-Security-Policy", web_policy},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cross-Origin-Opener-Policy", "same-origin"}};
    size_t count = 7;
    if (web_is_known(file, http_header(request, "If-None-Match"))) {
        http_answer(request, 304, NULL, NULL, fields, count);
        return true;
    }
    if (takes_gzip) {
        fields[count++] = (HttpField){"Content-Encoding", "gzip"};
        body = http_body_static(file->packed, file->packed_len);
    } else {
        str_init(&plain, file->len + 1);
        if (web_unpack(file, &plain, &err) < 0) {
            http_answer(request, 500, "text/plain; charset=utf-8", http_body_static("the file is damaged\n", 20), NULL,
                        0);
            return true;
        }
        const size_t len = plain.len;
        body = http_body_new(str_take(&plain), len);
    }
    http_answer(request, 200, file->type, body, fields, count);
    return true;
}
