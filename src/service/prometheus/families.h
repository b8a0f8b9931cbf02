/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The families of a page, made once per configuration: a name, its type and help as text, and the function that
 * writes its series. The rows of the CSV, what we add to them, and our own. Owned by the exporter; const afterwards.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "service/prometheus/labels.h"

typedef enum FamilyType { FAMILY_GAUGE, FAMILY_COUNTER, FAMILY_UNTYPED } FamilyType;

typedef struct Page Page;
typedef struct Family Family;
typedef void FamilyWrite(Page *page, const Family *family);

/* One of our own: const tables of own.h. */
typedef struct OwnFamily {
    const char *name;
    FamilyType type;
    const char *help;
    FamilyWrite *write;
    size_t at;       /* where the value lies in what the function reads */
    double scale;    /* what it is divided by; 0: nothing */
    MetricId metric; /* of a family of mig_totals */
} OwnFamily;

struct Family {
    const char *name;
    size_t name_len;
    FamilyType type;
    const char *help;
    FamilyWrite *write;
    LabelView view;
    bool fixed;       /* numbers as 4.8.2 prints them */
    bool from_metric; /* `metric` defines the values */
    MetricName metric;
    const OwnFamily *own; /* else this does */
    struct {
        const char *text; /* the lines HELP and TYPE */
        size_t len;
    } head[2]; /* by ExporterFormat */
};

typedef struct Families {
    Arena arena;
    Family *at; /* 4.8.2: in the order of the CSV; else by name */
    size_t len;
    LabelRow *label_rows;
    size_t label_row_count;
} Families;

/* `counters` must outlive them. */
void families_make(Families *families, const ExporterConfig *config, const Counters *counters);
void families_done(Families *families);

/* Our own families (own.c): of the node and this program, of each GPU, and sums that count nothing twice. */
extern const OwnFamily own_node_families[];
extern const size_t own_node_family_count;
extern const OwnFamily own_gpu_families[];
extern const size_t own_gpu_family_count;
extern const OwnFamily own_total_families[]; /* with mig_totals */
extern const size_t own_total_family_count;
