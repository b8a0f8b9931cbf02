/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What embed.py makes of docs/runbooks: a table of pages, and all pages as one gzip text. Const. */

#include <stddef.h>

#include "service/runbook/runbook.h"

/* A piece of the unpacked text. */
typedef struct RunbookPiece {
    size_t at, len;
} RunbookPiece;

struct Runbook {
    const char *class, *title;
    RunbookPiece text, html;
};

typedef struct RunbookPacked {
    const char *bytes;
    size_t len, unpacked_len;
} RunbookPacked;

extern const Runbook runbook_rows[]; /* the index first, then by class */
extern const size_t runbook_row_count;
extern const RunbookPacked runbook_packed;
