/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Members of a snapshot's JSON that are a field of a struct each: node_json.c writes them by these rows,
 * snapshot_read.c reads them by the same. A list ends with a row without a name. Const.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "model/device.h"

typedef enum FieldKind {
    FIELD_TEXT,    /* a char array; left out where it is empty */
    FIELD_POINTER, /* a const char *; left out where it is NULL or empty */
    FIELD_BOOL,
    FIELD_NUMBER,  /* of 1, 4 or 8 bytes; one over `max` is not known */
    FIELD_SHARE,   /* a double; NAN is not known */
    FIELD_SECONDS, /* a duration in nanoseconds */
    FIELD_TIME,    /* an instant of the node's monotonic clock, as wall clock */
} FieldKind;

typedef struct Field {
    const char *name;
    FieldKind kind;
    size_t at, size;
    uint64_t max;   /* of a number */
    bool skip_zero; /* 0 or false is left out */
} Field;

extern const Field node_fields[];            /* Node */
extern const Field device_fields[];          /* Device */
extern const Field gpu_fields[];             /* NodeGpu */
extern const Field activity_fields[];        /* Activity */
extern const Field activity_share_fields[];  /* Activity, where window_s is not 0 */
extern const Field roof_fields[];            /* Roof; its nearest roof is a word beside them */
extern const Field process_fields[];         /* NodeProcess */
extern const Field process_owner_fields[];   /* ProcessOwner */
extern const Field process_usage_fields[];   /* ProcessOwner, where start_ns is not 0 */
extern const Field owner_fields[];           /* Owner; texts, null where not known */
extern const Field job_info_fields[];        /* JobInfo */
extern const Field holding_process_fields[]; /* HoldingProcess */
extern const Field allocation_fields[];      /* Allocation */
extern const Field sampler_fields[];         /* NodeSampler */
extern const Field place_fields[];           /* Place */

/* A device's index, which may be null, and what else it is known by, as members. */
void json_add_device(Str *out, const Device *device);
