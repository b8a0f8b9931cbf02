/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that requests share. */
#include "verb/agent/pages.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

/* As long as the text: what it grew beyond that would count for nothing and be held all the same. */
static char *take_text(Str *text)
{
    const size_t len = text->len;

    return xrealloc(str_take(text), len + 1, 1);
}

static void drop_page(Pages *pages, Page *page)
{
    http_body_unref(page->plain);
    http_body_unref(page->packed);
    pages->bytes -= page->bytes;
    *page = (Page){0};
}

void pages_clear(Pages *pages)
{
    for (size_t i = 0; i < PAGES_MAX; i++)
        drop_page(pages, &pages->at[i]);
}

Page *pages_find(Pages *pages, const char *name)
{
    for (size_t i = 0; i < PAGES_MAX; i++)
        if (pages->at[i].name[0] && strcmp(pages->at[i].name, name) == 0) {
            pages->at[i].used = ++pages->uses;
            return &pages->at[i];
        }
    return NULL;
}

/* An empty place, or that of the page that was not asked for for longest. */
static Page *find_oldest(Pages *pages)
{
    Page *oldest = &pages->at[0];

    for (Page *page = oldest; page < pages->at + PAGES_MAX; page++)
        if (page->used < oldest->used)
            oldest = page;
    return oldest;
}

/* More bytes of a page: others go. The two that were used last stay, however large they are: an answer may be of both.
 */
static void count_bytes(Pages *pages, Page *page, size_t bytes)
{
    page->bytes += bytes;
    pages->bytes += bytes;
    while (pages->bytes > PAGES_BYTES) {
        Page *least = NULL;

        for (Page *other = pages->at; other < pages->at + PAGES_MAX; other++)
            if (other->bytes && other->used + 1 < pages->uses && (!least || other->used < least->used))
                least = other;
        if (!least)
            return;
        drop_page(pages, least);
    }
}

Page *pages_add(Pages *pages, const char *name, Str *text)
{
    Page *page = find_oldest(pages);

    drop_page(pages, page);
    page->used = ++pages->uses;
    if (strlen(name) < PAGE_NAME_CAP)
        stpcpy(page->name, name);
    page->len = text->len;
    page->text = take_text(text);
    page->plain = http_body_new(page->text, page->len);
    count_bytes(pages, page, page->len);
    return page;
}

/* NULL, and nothing is kept, where the packer fails. */
static HttpBody *keep_packed(Pages *pages, Page *page, Str *packed, int rc)
{
    const size_t len = packed->len;

    if (rc < 0)
        return NULL;
    page->packed = http_body_new(take_text(packed), len);
    count_bytes(pages, page, len);
    return page->packed;
}

HttpBody *page_body(Pages *pages, Page *page, bool packed, bool *ret_packed)
{
    CLEANUP(str_done) Str text = str_limited(page->len + PAGES_BYTES);
    Err err;

    *ret_packed = packed && page->len >= PAGE_PACKED_LEAST;
    if (*ret_packed && !page->packed)
        *ret_packed = keep_packed(pages, page, &text, gzip_pack(page->text, page->len, &text, &err)) != NULL;
    return http_body_ref(*ret_packed ? page->packed : page->plain);
}

void page_bodies(Pages *pages, Page *first, Page *second, bool packed, HttpBody *ret[2], bool *ret_packed)
{
    CLEANUP(str_done) Str head = str_limited(first->len + PAGES_BYTES), tail = str_limited(second->len + PAGES_BYTES);
    Err err;

    if (packed && !first->packed)
        packed = keep_packed(pages, first, &head,
                             gzip_begin(first->text, first->len, &head, &first->beginning, &err)) != NULL;
    if (packed && !second->packed)
        packed = keep_packed(pages, second, &tail,
                             gzip_finish(&first->beginning, second->text, second->len, &tail, &err)) != NULL;
    *ret_packed = packed;
    ret[0] = http_body_ref(packed ? first->packed : first->plain);
    ret[1] = http_body_ref(packed ? second->packed : second->plain);
}
