/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's page as files that are built in: page, style, scripts and the chart library, packed at build time so that
 * serving one costs nothing but its bytes. Pure and const: a path in, bytes out; any thread.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct WebFile {
    const char *path;   /* below the page's own address: "" is the page, "web/main.js" ... */
    const char *type;   /* Content-Type */
    const char *etag;   /* with its quotes; of the bytes before packing */
    const char *packed; /* gzip; for clients that do not take that: gzip_unpack */
    size_t packed_len, len;
} WebFile;

/* All of them, as embed.py makes them of web/node. */
extern const WebFile web_files[];
extern const size_t web_file_count;

/* The file at this path ("/" in front is not part of it); NULL where there is none. */
const WebFile *web_find(const char *path);

/* Whether an If-None-Match header (RFC 9110 section 13.1.2; NULL: there is none) already has this file: "*", or its tag
 * among others, weak ones included. */
bool web_is_known(const WebFile *file, const char *if_none_match);

/* The Content-Security-Policy of all of them: nothing from elsewhere, nothing inline. */
extern const char web_policy[];
