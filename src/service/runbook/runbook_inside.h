/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The table of the runbooks' pages that data/runbooks.py makes of docs/runbooks, and what identifies its pack. Const.
 */

#include <stddef.h>
#include <stdint.h>

#include "service/runbook/runbook.h"

/* A piece of the unpacked text. */
typedef struct RunbookPiece {
    size_t at, len;
} RunbookPiece;

struct Runbook {
    const char *class, *title;
    RunbookPiece text, html;
};

typedef struct RunbookPack {
    size_t len, unpacked_len;
    uint32_t crc; /* of the unpacked text, as the gzip file has it */
} RunbookPack;

extern const RunbookPack runbook_pack;
extern const Runbook runbook_rows[]; /* the index first, then by class */
extern const size_t runbook_row_count;
