/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* --query-*: chosen fields as CSV. */
#include <stdbool.h>
#include <stdio.h>

#include "sim/smi/field.h"

enum { QUERY_FIELDS_MAX = 512 };

typedef struct QueryPlan {
    const Query *query;
    bool header, units;
    size_t count;
    const Field *fields[QUERY_FIELDS_MAX];
} QueryPlan;

/* Reads the list of fields and the --format options. Prints what is wrong and returns 2 (as the exit code), else 0. */
int query_plan(QueryPlan *plan, const Query *query, const char *fields, const char *format);

/* Writes the header line, where wanted, and every row. */
void query_header(const QueryPlan *plan, FILE *file);
void query_rows(const QueryPlan *plan, GpuSet *set, FILE *file);

/* --help-query-NAME */
void query_help(const Query *query);
