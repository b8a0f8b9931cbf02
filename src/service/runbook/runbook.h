/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The runbooks: one page for each built-in class of faults, which says what it means, how to confirm it, what to do and
 * when to replace. They are docs/runbooks, with the HTML made at build time, packed into one installed file, so that an
 * alert leads somewhere in a machine room without a network. The table of pages is in the program: const, any thread.
 * The pack is read once; a page is unpacked for each request (under a millisecond, less than a megabyte of memory).
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* A piece of the unpacked text. */
typedef struct RunbookPiece {
    size_t at, len;
} RunbookPiece;

typedef struct Runbook {
    const char *class; /* of the index, which leads to all others: "" */
    const char *title; /* a phrase: "the GPU has fallen off the bus" */
    RunbookPiece text, html;
} Runbook;

/* The table that data/runbooks.py makes of docs/runbooks: the index first, then by class; and what identifies its pack:
 * crc is of the unpacked text, as the gzip file has it. */
extern const Runbook runbook_rows[];
extern const size_t runbook_row_count;
typedef struct RunbookPack {
    size_t len, unpacked_len;
    uint32_t crc;
} RunbookPack;
extern const RunbookPack runbook_pack;

/* The page of a class; NULL: none, as for a site's own classes. */
const Runbook *runbook_find(const char *class);

/* The pack, as read from its file. */
typedef struct RunbookPages {
    Str packed;
} RunbookPages;

/* Reads the pack. -errno; -EBADMSG if it belongs to another build of the program. After a failure pages has no page. */
int runbook_pages_open(RunbookPages *pages, const char *path, Err *err);
/* Accepts an empty one. */
void runbook_pages_done(RunbookPages *pages);

/* Appends the page as Markdown. -EFBIG beyond out's ceiling, -ENODATA without a pack. */
int runbook_text(const RunbookPages *pages, const Runbook *runbook, Str *out, Err *err);
/* Appends the page as a whole HTML document, to be served as PLACE/CLASS, the index as PLACE/ (RUNBOOK_PLACE below the
 * agent's address): links among pages are relative. Errors as above. */
int runbook_html(const RunbookPages *pages, const Runbook *runbook, Str *out, Err *err);
/* The Content-Security-Policy that such a document wants: its own style by hash, nothing else. */
extern const char runbook_policy[];

#define RUNBOOK_PLACE "runbooks"
#define RUNBOOK_FILE "runbooks.gz" /* among the installed data files */

/* Where the agent at `base` ("http://node7:9400/", with or without the last slash) serves the page of a class, into
 * out; "" where there is no page or no base. */
void runbook_url(const char *base, const char *class, char *out, size_t size);
