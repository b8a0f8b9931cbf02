/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the web-config reader. What it accepts is what the server can use, and every refusal says where. */
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#include "wire/http/web_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const WebFile *file)
{
    gnutls_priority_t priority = NULL;

    for (size_t i = 0; i < file->user_count; i++)
        if (!auth_is_hash(file->users[i].hash) || !*file->users[i].name || strchr(file->users[i].name, ':'))
            abort();
    for (size_t i = 0; i < file->header_count; i++)
        if (strpbrk(file->headers[i].value, "\r\n"))
            abort();
    if (!file->has_tls)
        return;
    if (!(file->cert || file->cert_file) || !(file->key || file->key_file))
        abort();
    if (gnutls_priority_init2(&priority, file->priority, NULL, 0) < 0)
        abort();
    gnutls_priority_deinit(priority);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena arena = {0};
    WebFile file = {0};
    Err err = {0};
    int rc = web_file_read("fuzz", (const char *)data, size, &arena, &file, &err);

    if (rc == 0)
        check(&file);
    else if (err.code != rc || strncmp(err.text, "fuzz:", 5) != 0)
        abort();
    arena_done(&arena);
    return 0;
}
