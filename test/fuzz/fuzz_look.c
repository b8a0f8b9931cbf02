/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: looks of a recording and answers of an agent (service/top/look, service/api/node_read, history_read).
 * What is taken can be written and is taken again; what is refused leaves nothing and says why. */
#include <stdint.h>
#include <stdlib.h>

#include "service/api/history_read.h"
#include "service/top/look.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 64 << 20 };

static void check_look(const char *text, size_t size)
{
    TopSeen seen = {0};
    Err err = {0};
    Look look;
    Str out;

    look_init(&look);
    str_init(&out, OUT_MAX);
    if (look_read(&look, text, size, &err) < 0) {
        look_seen(&look, &seen);
        if (seen.status.node || err.code >= 0 || !err.text[0])
            abort();
    } else {
        look_seen(&look, &seen);
        status_json(&seen.status, &out);
        if (out.overflow || look_read(&look, out.text, out.len, &err) < 0)
            abort();
    }
    str_done(&out);
    look_done(&look);
}

static void check_history(const char *text, size_t size)
{
    HistoryPoints points = {0};
    HistoryHead head;
    Err err = {0};

    if (history_read(text, size, &points, &head, &err) < 0 && (points.len > 0 || err.code >= 0))
        abort();
    vec_done(&points);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_look((const char *)data, size);
    check_history((const char *)data, size);
    return 0;
}
