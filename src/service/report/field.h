/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The plain fields of each struct of a report as tables: JSON keys and CSV columns come from the same rows. Lists
 * within a struct (steps' devices, ...) are written by json.c and csv.c. Not for others. */

#include "service/report/out.h"
#include "service/report/report.h"

typedef enum FieldType {
    FIELD_I64,
    FIELD_U64,
    FIELD_KNOWN,      /* int64_t, unknown below 0 */
    FIELD_I32,        /* int32_t */
    FIELD_KNOWN32,    /* int32_t, unknown below 0 */
    FIELD_TIME,       /* int64_t, unknown INT64_MIN */
    FIELD_DOUBLE,     /* unknown NaN */
    FIELD_TEXT,       /* const char *, "" is a text */
    FIELD_KNOWN_TEXT, /* const char *, unknown "" */
    FIELD_BOOL,
    FIELD_CAUSE,  /* TraceCause */
    FIELD_CLASS,  /* TraceClass */
    FIELD_HOST,   /* TraceHostClass */
    FIELD_PATH,   /* TracePathKind */
    FIELD_TRIPLE, /* uint32_t[3], unknown 0 */
} FieldType;

typedef struct Field {
    const char *name; /* NULL ends a list */
    FieldType type;
    size_t offset;
} Field;

extern const Field field_device[], field_gap[], field_cause_sum[], field_step[], field_step_device[], field_kernel[],
    field_copy[], field_operator[], field_call[], field_annotation[], field_launch[], field_queue[],
    field_queue_point[], field_collective[], field_collective_sum[], field_path[], field_path_name[], field_memory[],
    field_memory_point[], field_loss[], field_rank[], field_rank_time[], field_straggler[], field_verdict[],
    field_diff[], field_diff_row[];

/* "key":value of every field of `row`, without braces. */
void field_json(Out *out, const Field *fields, const void *row);
/* One value under a key of the caller's, NULL in an array. */
void field_json_one(Out *out, const char *key, const Field *field, const void *row);
/* One value as a CSV cell, unknown ones empty. */
void field_cell(Out *out, const Field *field, const void *row);
