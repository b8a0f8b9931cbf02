/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: topology and graph XML, drawn and written as JSON. */
#include <stdint.h>

#include "base/owner.h"
#include "service/report/nccl.h"

enum { OUT_MAX = 1 << 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

OWNER_POINTER(NcclJob, nccl_free);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(nccl_free_at) NcclJob *job = nccl_new();
    CLEANUP(str_done) Str out = {0};
    const NcclStyle style = {.width = 100, .verbose = true};

    str_init(&out, OUT_MAX);
    nccl_begin(job, "topo.xml");
    nccl_feed(job, "<!---->", 7); /* always XML */
    nccl_feed(job, data, size);
    nccl_end(job, NULL);
    const NcclReport *report = nccl_finish(job);
    nccl_report_text(report, &style, &out);
    nccl_report_json(report, &out);
    return 0;
}
