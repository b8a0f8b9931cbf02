/* SPDX-License-Identifier: Apache-2.0 */
/* The table of xid_text.def. Const data, any thread. */

#include "service/prometheus/xid_text.h"

#include <stddef.h>

static const char *const texts[] = {
#define XID(number, text) [number] = text,
#include "service/prometheus/xid_text.def"
#undef XID
};

const char *xid_text(int64_t xid)
{
    if (xid < 0 || (uint64_t)xid >= sizeof texts / sizeof texts[0] || !texts[xid])
        return "Unknown Error";
    return texts[xid];
}
