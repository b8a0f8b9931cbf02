/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: snapshots of a recording and answers of an agent (service/api/{snapshot_read,history_read}).
 * What is taken can be written and is taken again; what is refused leaves nothing and says why. */
#include <stdint.h>
#include <stdlib.h>

#include "service/api/snapshot_read.h"
#include "service/status/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 64 << 20 };

static void check_snapshot(const char *text, size_t size)
{
    SnapshotBuffer *read = snapshot_buffer_new();
    Err err = {0};
    Str out;

    str_init(&out, OUT_MAX);
    if (snapshot_read(read, text, size, &err) < 0) {
        if (read->snapshot.node || err.code >= 0 || !err.text[0])
            abort();
    } else {
        status_json(&read->snapshot, &out);
        if (out.overflow || snapshot_read(read, out.text, out.len, &err) < 0)
            abort();
    }
    str_done(&out);
    snapshot_buffer_free(read);
}

static void check_history(const char *text, size_t size)
{
    HistoryPoints points = {0};
    Err err = {0};

    if (history_read(text, size, &points, &err) < 0 && (points.len > 0 || err.code >= 0))
        abort();
    vec_done(&points);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_snapshot((const char *)data, size);
    check_history((const char *)data, size);
    return 0;
}
