/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What HTTP requests of one moment share: each page is made once, packed once, and sent by all who ask for it. The
 * moment ends with the next tick, or when something else changes that a page shows: pages_clear. What is kept for
 * requests to come has a ceiling, beside that of the bodies on their way (HttpLimits.answer_bytes). One thread.
 */

#include "base/gzip.h"
#include "base/str.h"
#include "wire/http/server.h"

enum { PAGES_MAX = 24, PAGE_NAME_CAP = 384, PAGES_BYTES = 2 * 1024 * 1024, PAGE_PACKED_LEAST = 1024 };

typedef struct Page {
    char name[PAGE_NAME_CAP]; /* path and questions; "" free, or no request shares it */
    unsigned status;
    const char *type, *policy; /* Content-Type; Content-Security-Policy, NULL none */
    HttpBody *plain, *packed;  /* packed: NULL until somebody takes it */
    size_t len;                /* of plain */
    size_t bytes;              /* of both */
    char *text;                /* of plain */
    GzipBeginning beginning;   /* of a page that is the first part of others */
    uint64_t used;
} Page;

typedef struct Pages {
    Page at[PAGES_MAX];
    uint64_t uses;
    size_t bytes;
} Pages;

/* The page of this name; NULL: it is to be made, and added. Valid until the next pages_add or pages_clear. */
Page *pages_find(Pages *pages, const char *name);
/* Takes the text. A page whose name does not fit is not found again. Others go where there would be too many. */
Page *pages_add(Pages *pages, const char *name, Str *text);
void pages_clear(Pages *pages);

/* A reference to its body. Packed where that is asked for and worth it: *ret_packed says so. */
HttpBody *page_body(Pages *pages, Page *page, bool packed, bool *ret_packed);
/* A body of two pages one behind the other, the first of which others share too. */
void page_bodies(Pages *pages, Page *first, Page *second, bool packed, HttpBody *ret[2], bool *ret_packed);
