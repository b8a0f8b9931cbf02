/* SPDX-License-Identifier: Apache-2.0 */
/* HTA's table has every event of a file, more than a Profile keeps: it is made from the text beside the scan. */
#include "verb/trace/hta.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "verb/trace/load.h"

OWNER_POINTER(TraceInput, trace_input_close);

static void take(void *context, const TraceRaw *raw)
{
    hta_rows_add(context, raw->bytes, raw->len);
}

static int read_file(const char *path, const bool *stop, HtaRows *rows, Err *err)
{
    CLEANUP(trace_input_close_at) TraceInput *input = NULL;
    CLEANUP(profile_done) Profile profile = {0};
    TraceScanOptions options = {.skip_host = true, .skip_python = true, .raw = take, .context = rows};

    profile_init(&profile);
    TRY(trace_input_open(path, NULL, stop, &input, err));
    TRY(trace_load(input, &options, 1, &profile, err));
    if (rows->full)
        return err_set(err, -ENOSPC, "%s: the events do not fit into --memory, which HTA's definitions need", path);
    rows->rank = profile.rank;
    rows->file = path;
    return 0;
}

/* A file that names no rank is rank 0 to HTA; where that is taken, the next that is free. */
static void number_ranks(HtaRows *const *rows, size_t count)
{
    int64_t next = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; rows[i]->rank < 0 && k <= count; k++) {
            bool taken = false;
            for (size_t j = 0; j < count; j++)
                taken |= rows[j]->rank == next;
            rows[i]->rank = taken ? -1 : next;
            next += taken;
        }
}

void trace_hta(TraceHta *hta, HtaReport *ret)
{
    size_t count = hta->files->len;
    CLEANUP_FREE HtaRows *rows = xcalloc(count + 1, sizeof *rows);
    CLEANUP_FREE HtaRows **good = xcalloc(count + 1, sizeof(HtaRows *));

    for (size_t i = 0; i < count && !*hta->stop; i++) {
        Err err = {0};

        hta_rows_init(&rows[i], hta->memory / (count ? count : 1));
        if (read_file(hta->files->at[i], hta->stop, &rows[i], &err) == 0) {
            good[hta->read++] = &rows[i];
        } else if (!*hta->stop) {
            fprintf(stderr, "%s: %s\n", hta->path, err.text);
            hta->failed++;
        }
    }
    number_ranks(good, hta->read);
    hta_report_init(ret, (const HtaRows *const *)good, hta->read, hta->options);
    for (size_t i = 0; i < count; i++)
        hta_rows_done(&rows[i]);
}
