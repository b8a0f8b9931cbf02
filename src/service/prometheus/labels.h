/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The series and their labels: a Target for each GPU or MIG instance shown, times its owners, times its jobs. Labels
 * are rendered once, as the `{labels} ` between a name and a value, and again only when something they depend on has
 * changed. Texts lie in the arena of the set. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "service/prometheus/exporter.h"

/* Different families have different labels. */
typedef enum LabelView {
    LABELS_CLASSIC, /* dcgm-exporter's */
    LABELS_NEWER,   /* the same with the label rows under the names of 4.9 */
    LABELS_OWN,     /* of our own families: without modelName and label rows, which stoker_gpu_info has */
    LABELS_END,
} LabelView;

/* The order of the groups in 4.8.2's template; from LABEL_ROW on sorted by name within the group. */
typedef enum LabelGroup {
    LABEL_LINK,
    LABEL_GPU,
    LABEL_UUID,
    LABEL_BUS_ID,
    LABEL_DEVICE,
    LABEL_MODEL,
    LABEL_PROFILE,
    LABEL_INSTANCE,
    LABEL_HOSTNAME,
    LABEL_ROW,
    LABEL_ATTRIBUTE,
} LabelGroup;

typedef struct Label {
    const char *name, *value;
    uint8_t group; /* LabelGroup */
    uint8_t views; /* bit per LabelView it is part of */
} Label;

enum {
    TARGET_WHOLE_GPU = -1,
    LABELS_ALL_VIEWS = (1 << LABELS_END) - 1,
    LABELS_DCGM_VIEWS = 1 << LABELS_CLASSIC | 1 << LABELS_NEWER
};

typedef struct Target {
    size_t gpu;         /* in node->gpus */
    ptrdiff_t instance; /* in its instances: the head of a GPU instance; or TARGET_WHOLE_GPU */
    uint32_t link;      /* of one in Targets.links, from 0 */
    bool shown;         /* has series */
    bool derives;       /* a GPU for which DCGM_EXP_ series are shown */
    const char *pod, *namespace, *container; /* whose of several this is; NULL: the device has one owner, or none */
    uint32_t replicas;                       /* of the device that this one has; each has a series */
    const Label *labels;
    size_t label_count;
    struct {
        const char *text; /* "{...} " */
        size_t len;
    } body[LABELS_END];
} Target;

/* Zeroed memory is an empty set; all lies in `arena`. */
typedef struct Targets {
    Arena arena;
    uint64_t mark;  /* of what they were made from; 0: nothing yet */
    Target *series; /* sorted by labels (4.8.2: by device) */
    size_t series_count;
    Target *gpus; /* every GPU of the node with an identity, in its order, without allocations and jobs */
    size_t gpu_count;
    Target *links; /* NVLinks of the GPUs that are shown; none where no row is about links */
    size_t link_count;
    size_t node_gpus; /* GPUs of the node they were made for */
} Targets;

/* A row of the CSV that is a label. */
typedef struct LabelRow {
    MetricId metric;
    const char *name, *newer_name;
} LabelRow;

/* What labels are made from, beside the node. */
typedef struct LabelInput {
    const ExporterConfig *config;
    const LabelRow *rows;
    size_t row_count;
    const AllocationTable *allocations; /* may be NULL */
    const JobAllocation *jobs;
    size_t job_count;
    bool links; /* a row is about links */
} LabelInput;

/* Makes them again where the node's devices, owners or jobs have changed. */
void targets_update(Targets *targets, const Node *node, const LabelInput *input);

/* Appends `text`; bytes that are not UTF-8 become U+FFFD each, CR has no escape and stays. */
typedef enum EscapeKind {
    ESCAPE_VALUE, /* of a label, and the help of OpenMetrics: \\ \" \n */
    ESCAPE_HELP,  /* of the text format: \\ \n */
} EscapeKind;
void escape_add(Str *out, const char *text, EscapeKind kind);

/* Whether the profile sorts labels by name; 4.8.2 has an order of its own. */
bool labels_sorted(ExporterProfile profile);

/* Appends "{...} " of one view, with `extra` labels, in the order they shall have, merged in. */
void labels_render(Str *out, const Label *labels, size_t count, LabelView view, bool sorted, const Label *extra,
                   size_t extra_count);
