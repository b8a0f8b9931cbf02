/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: logs, parted by form feeds, and what is told of them, in one form or another; for a share of the inputs
 * in all forms, and the same in pieces that the first byte chooses as whole. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/report/nccl.h"
#include "test/fuzz/share.h"
#include "test/unit/report_sink.h"

enum { OUT_MAX = 1 << 24, INPUTS_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_POINTER(NcclJob, nccl_free);

/* A log, or whatever else its beginning makes of it. */
static void read_input(NcclJob *job, const char *name, const uint8_t *data, size_t size, size_t piece)
{
    nccl_begin(job, name);
    for (size_t at = 0; at < size; at += piece)
        nccl_feed(job, data + at, size - at < piece ? size - at : piece);
    nccl_end(job, size % 8 == 7 ? "its end is missing" : NULL);
}

/* Forms that a report is written in, any of them together. */
enum { FORM_TEXT = 1, FORM_JSON = 2, FORM_CSV = 4 };

static void report_of(const uint8_t *data, size_t size, size_t piece, int forms, Str *out)
{
    CLEANUP(nccl_free_at) NcclJob *job = nccl_new();
    const ReportOptions style = {.width = 100, .verbose = true, .utf8 = true};

    for (int i = 0; i < INPUTS_MAX; i++) {
        const uint8_t *end = size ? memchr(data, '\f', size) : NULL;
        size_t len = end ? (size_t)(end - data) : size;
        read_input(job, i ? "rank_1" : "log", data, len, piece);
        if (!end)
            break;
        size -= len + 1;
        data += len + 1;
    }
    const NcclReport *report = nccl_finish(job);
    if (forms & FORM_TEXT)
        nccl_report_text(report, &style, report_sink_str(out), NULL);
    if (forms & FORM_JSON)
        nccl_report_json(report, report_sink_str(out), NULL);
    if (forms & FORM_CSV)
        nccl_report_csv(report, report_sink_str(out), NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(str_done) Str whole = {0}, pieces = {0};
    uint32_t dice = share_dice(data, size);
    const bool compared = share_drawn(&dice, 16);
    const int forms = (share_drawn(&dice, 3) || compared ? FORM_TEXT : 0) |
                      (share_drawn(&dice, 3) || compared ? FORM_JSON : 0) | (share_drawn(&dice, 6) ? FORM_CSV : 0);

    if (size == 0)
        return 0;
    str_init(&whole, OUT_MAX);
    report_of(data + 1, size - 1, size, forms, &whole);
    if (compared) {
        str_init(&pieces, OUT_MAX);
        report_of(data + 1, size - 1, (size_t)data[0] / 16 + 1, forms, &pieces);
        if (pieces.len != whole.len || memcmp(pieces.text, whole.text, whole.len) != 0)
            abort();
    }
    return 0;
}
