/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The events of one file as HTA's table: every row of the event list that has a duration and a category, whatever it
 * is, in the file's order. 48 bytes a row. The owner embeds it; one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

typedef enum HtaType {
    HTA_COMPUTATION,
    HTA_COMMUNICATION,
    HTA_MEMORY,
    HTA_OTHER,
} HtaType;

enum {
    HTA_STEP = 1,    /* its name starts with "ProfilerStep" */
    HTA_QUEUE = 2,   /* a call that HTA knows to put work into a queue */
    HTA_LAUNCH = 4,  /* one of those that its launch statistics look at */
    HTA_IDLE = 8,    /* of a category that its idle time breakdown looks at */
    HTA_CPU_OP = 16, /* category cpu_op */
    HTA_SYNC = 32,   /* category cuda_sync */
    HTA_WAIT = 64,   /* "Event Sync" or "Context Sync" */
    HTA_HOST = 128,  /* no category of the GPU's */
};

typedef struct HtaRow {
    int64_t start, duration; /* ns, as the file says: may be below 0 */
    int64_t correlation;     /* -1 none */
    double bandwidth;
    uint32_t index; /* place in the event list */
    uint32_t name;  /* of HtaRows.names; steps and GPU rows alone, else 0 */
    int32_t stream; /* -1: a row of the host, as HTA sees it */
    uint8_t flags;
} HtaRow;

typedef struct HtaName {
    const char *text;
    HtaType type;
} HtaName;

typedef struct HtaRows {
    int64_t rank;
    const char *file; /* borrowed */
    VEC(HtaRow) rows;
    VEC(HtaName) names;
    uint64_t events; /* objects seen */
    size_t memory_max;
    bool full; /* rows were dropped: over memory_max */
    bool ns;   /* times with digits below a microsecond */
    Map name_ids;
    Str room;
} HtaRows;

/* `memory_max`: bytes of rows, 0: no limit. */
void hta_rows_init(HtaRows *rows, size_t memory_max);
void hta_rows_done(HtaRows *rows); /* accepts a zeroed one */

/* The next object of the event list, from '{' to '}'; every one must be given, used or not, since places count. */
void hta_rows_add(HtaRows *rows, const char *bytes, size_t len);

/* HTA's class of a row on the GPU. */
HtaType hta_type(const char *name);
/* "Memcpy HtoD", "Memset", "Memcpy Unknown": into `out`, of at least 16 bytes. */
const char *hta_memory_kind(const char *name, char out[16]);

static inline const char *hta_name(const HtaRows *rows, const HtaRow *row)
{
    return rows->names.at[row->name].text;
}
