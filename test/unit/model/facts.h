/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads fields.csv, the table of facts that the catalogue is held against. Owned by the caller; facts_done. */

#include <stddef.h>

typedef enum FactColumn {
    FACT_ID,
    FACT_NAME,
    FACT_TYPE,
    FACT_UNIT,
    FACT_ON,
    FACT_SOURCE_KIND,
    FACT_SOURCE,
    FACT_NOTES,
    FACT_COLUMNS,
} FactColumn;

typedef struct Facts {
    char *text; /* the file, cut into the cells */
    size_t count;
    struct {
        char *cell[FACT_COLUMNS];
    } rows[256];
} Facts;

/* Reads the whole file; ends the test program if it is not as expected. */
void facts_read(Facts *facts, const char *path);
void facts_done(Facts *facts);
