/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: logs, parted by form feeds, in pieces that the first byte chooses; and all that is told of them. Whole
 * and in pieces give the same report. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "service/report/nccl.h"

enum { OUT_MAX = 1 << 24, INPUTS_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

OWNER_POINTER(NcclJob, nccl_free);

/* A log, or whatever else its beginning makes of it. */
static void read_input(NcclJob *job, const char *name, const uint8_t *data, size_t size, size_t piece)
{
    nccl_begin(job, name);
    for (size_t at = 0; at < size; at += piece)
        nccl_feed(job, data + at, size - at < piece ? size - at : piece);
    nccl_end(job, size % 8 == 7 ? "its end is missing" : NULL);
}

static void report_of(const uint8_t *data, size_t size, size_t piece, Str *out)
{
    CLEANUP(nccl_free_at) NcclJob *job = nccl_new();
    const NcclStyle style = {.width = 100, .verbose = true, .utf8 = true};

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
    nccl_report_text(report, &style, out);
    nccl_report_json(report, out);
    nccl_report_csv(report, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(str_done) Str whole = {0}, pieces = {0};

    if (size == 0)
        return 0;
    str_init(&whole, OUT_MAX);
    report_of(data + 1, size - 1, size, &whole);
    if (data[0] % 16 == 0) { /* not each time: it is slow */
        str_init(&pieces, OUT_MAX);
        report_of(data + 1, size - 1, (size_t)data[0] / 16 + 1, &pieces);
        if (pieces.len != whole.len || memcmp(pieces.text, whole.text, whole.len) != 0)
            abort();
    }
    return 0;
}
