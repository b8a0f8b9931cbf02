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

/* Reads the pack, to be freed by str_done. -errno; -EBADMSG if it belongs to another build of the program. After a
 * failure it is empty and has no page. */
int runbook_open(Str *ret_pack, const char *path, Err *err);
/* Appends a page: its text is Markdown; its HTML a whole document, to be served as PLACE/CLASS, the index as PLACE/
 * (RUNBOOK_PLACE below the agent's address): links among pages are relative. -EFBIG beyond out's ceiling, -ENODATA with
 * an empty pack. */
int runbook_read(const Str *pack, const RunbookPiece *piece, Str *out, Err *err);
/* The Content-Security-Policy that the HTML wants: its own style by hash, nothing else. */
extern const char runbook_policy[];

#define RUNBOOK_PLACE "runbooks"
#define RUNBOOK_FILE "runbooks.gz" /* among the installed data files */

/* Where the agent at `base` ("http://node7:9400/", with or without the last slash) serves the page of a class, into
 * out; "" where there is no page or no base. */
void runbook_url(const char *base, const char *class, char *out, size_t size);
