/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What --query-* can be asked for: a row per field. The header line, the values and the help come from these rows.
 */
#include <stddef.h>

#include "sim/smi/get.h"

typedef struct Field {
    const char *name;  /* the header line shows this one, whichever was asked for */
    const char *alias; /* a second name, NULL */
    const char *unit;  /* "MiB", NULL */
    Getter *get;
    int arg;
    const char *about;
} Field;

/* Calls `each` for every row that a query has for a GPU. */
typedef void QueryEach(const Subject *of, void *user);
typedef void QueryRows(Gpu *gpu, QueryEach *each, void *user);

typedef struct Query {
    const char *name; /* "gpu" of --query-gpu */
    const char *about;
    const Field *fields;
    size_t count;
    QueryRows *rows;
} Query;

extern const Field field_gpu[];
extern const size_t field_gpu_count;

/* All queries; the last has no name. */
extern const Query queries[];
const Query *query_find(const char *name);

/* Items of the rows: accounted processes, retired pages, pairs of clocks. */
typedef struct FieldAccounted {
    unsigned int pid;
    nvmlAccountingStats_t stats;
} FieldAccounted;
/* Calls each with of->item a FieldAccounted for every accounted process. */
void field_accounted_rows(Gpu *gpu, QueryEach *each, void *user);
/* Name of a process as the driver knows it. */
void field_process_name(unsigned int pid, Value *ret);
