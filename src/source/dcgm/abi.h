/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is used of libdcgm's binary interface, written from its facts. Layouts and numbers are those of dcgm_structs.h
 * and dcgm_fields.h; the same in DCGM 3.x and 4.x unless a line says otherwise. Structs carry a version word:
 * size | number << 24. LP64 alone, as the library itself.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/sample.h"

/* Handles of the engine, of a group of entities and of a group of fields are all words (dcgm_structs.h). */
typedef uintptr_t DcgmHandle;

enum {
    DCGM_MODE_AUTO = 1,     /* dcgmOperationMode_t: the engine samples on threads of its own */
    DCGM_GROUP_EMPTY = 1,   /* dcgmGroupType_t */
    DCGM_FLAG_LIVE = 1,     /* dcgmEntitiesGetLatestValues: ask the driver, not the cache */
    DCGM_FIELD_PCI = 57,    /* dcgm_fields.h, DCGM_FI_DEV_PCI_BUSID: a text */
    DCGM_TYPE_DOUBLE = 'd', /* dcgm_fields.h, DCGM_FT_... */
    DCGM_TYPE_INT64 = 'i',
    DCGM_TYPE_TEXT = 's',
    DCGM_TEXT_CAP = 256,
    DCGM_BLOB_CAP = 4096,
    DCGM_GPUS_MAX = 32,         /* DCGM_MAX_NUM_DEVICES */
    DCGM_FIELD_GROUPS_MAX = 64, /* DCGM_MAX_NUM_FIELD_GROUPS */
    DCGM_HIERARCHY_MAX = 448,   /* 32 GPUs with 14 instances each */
};

/* dcgm_field_entity_group_t (dcgm_fields.h) */
enum { DCGM_ENTITY_GPU = 1, DCGM_ENTITY_GPU_INSTANCE = 4, DCGM_ENTITY_COMPUTE_INSTANCE = 5 };

/* Numbers that stand for "no value": the first is general, then not found, not supported, not permitted. */
#define DCGM_BLANK_INT64 INT64_C(0x7ffffffffffffff0)
#define DCGM_BLANK_DOUBLE 140737488355328.0 /* 2^47 */
enum { DCGM_BLANK_NOT_FOUND = 1, DCGM_BLANK_NOT_SUPPORTED = 2, DCGM_BLANK_NOT_PERMITTED = 3 };

/* dcgmReturn_t */
enum {
    DCGM_OK = 0,
    DCGM_BAD_ARGUMENT = -1,
    DCGM_GENERIC = -3,
    DCGM_NOT_SUPPORTED = -6,
    DCGM_INIT_ERROR = -7,
    DCGM_NVML_ERROR = -8,
    DCGM_PENDING = -9,
    DCGM_UNINITIALIZED = -10,
    DCGM_TIMEOUT = -11,
    DCGM_VERSION_MISMATCH = -12,
    DCGM_UNKNOWN_FIELD = -13,
    DCGM_NO_DATA = -14,
    DCGM_STALE_DATA = -15,
    DCGM_NOT_WATCHED = -16,
    DCGM_NO_PERMISSION = -17,
    DCGM_GPU_IS_LOST = -18,
    DCGM_RESET_REQUIRED = -19,
    DCGM_FUNCTION_NOT_FOUND = -20,
    DCGM_CONNECTION_NOT_VALID = -21,
    DCGM_GPU_NOT_SUPPORTED = -22,
    DCGM_MAX_LIMIT = -24,
    DCGM_LIBRARY_NOT_FOUND = -25,
    DCGM_REQUIRES_ROOT = -29,
    DCGM_FIELD_UNSUPPORTED_BY_API = -32,
    DCGM_MODULE_NOT_LOADED = -33,
    DCGM_IN_USE = -34,
    DCGM_PROFILING_NOT_SUPPORTED = -36,
    DCGM_PROFILING_LIBRARY_ERROR = -37,
    DCGM_PROFILING_MULTI_PASS = -38,
    DCGM_INSUFFICIENT_DRIVER = -44,
    DCGM_INSTANCE_NOT_FOUND = -45,
    DCGM_COMPUTE_INSTANCE_NOT_FOUND = -46,
    DCGM_PAUSED = -54,
    DCGM_NVML_NOT_LOADED = -56,
    DCGM_DRIVER_TIMEOUT = -57,
};

#define DCGM_VERSION_WORD(type, number) ((uint32_t)sizeof(type) | (uint32_t)(number) << 24)

/* dcgmGroupEntityPair_t */
typedef struct DcgmEntity {
    uint32_t group; /* DCGM_ENTITY_... */
    uint32_t id;
} DcgmEntity;

/* dcgmFieldValue_v2: one value of one field of one entity */
typedef struct DcgmFieldValue {
    uint32_t version;
    DcgmEntity entity;
    uint16_t field;
    uint16_t type; /* DCGM_TYPE_... */
    int32_t status;
    uint32_t unused;
    int64_t time_us; /* since 1970 */
    union {
        int64_t i64;
        double f64;
        char text[DCGM_TEXT_CAP];
        char blob[DCGM_BLOB_CAP];
    } value;
} DcgmFieldValue;

/* dcgmConnectV2Params_v2 */
typedef struct DcgmConnect {
    uint32_t version;
    uint32_t persist; /* 0: what this connection set up ends with it */
    uint32_t timeout_ms;
    uint32_t unix_socket; /* 1: the address is a path */
} DcgmConnect;

/* dcgmMigHierarchyInfo_v2, with dcgmMigEntityInfo_t inside */
typedef struct DcgmInstance {
    DcgmEntity entity, parent;
    char gpu_uuid[128];
    uint32_t gpu_index;
    uint32_t gpu_instance, compute_instance; /* as NVML numbers them */
    uint32_t profile, slices;
} DcgmInstance;

/* dcgmMigHierarchy_v2 */
typedef struct DcgmHierarchy {
    uint32_t version;
    uint32_t count;
    DcgmInstance instances[DCGM_HIERARCHY_MAX];
} DcgmHierarchy;

_Static_assert(sizeof(DcgmHandle) == 8, "LP64");
_Static_assert(sizeof(DcgmEntity) == 8, "dcgmGroupEntityPair_t");
_Static_assert(offsetof(DcgmFieldValue, field) == 12 && offsetof(DcgmFieldValue, status) == 16 &&
                   offsetof(DcgmFieldValue, time_us) == 24 && offsetof(DcgmFieldValue, value) == 32 &&
                   sizeof(DcgmFieldValue) == 4128,
               "dcgmFieldValue_v2");
_Static_assert(DCGM_VERSION_WORD(DcgmConnect, 2) == 0x02000010, "dcgmConnectV2Params_v2");
_Static_assert(offsetof(DcgmInstance, gpu_index) == 144 && sizeof(DcgmInstance) == 164, "dcgmMigHierarchyInfo_v2");
_Static_assert(offsetof(DcgmHierarchy, instances) == 8 && sizeof(DcgmHierarchy) == 73480, "dcgmMigHierarchy_v2");

/* ---- what answers and blank numbers mean (answer.c); pure, any thread ---- */

/* The reason of an answer other than DCGM_OK. `permitted`: whether this process may read the counters at all; the
 * library has one answer for that and for "in use by another tool". */
Absence dcgm_answer_absence(int answer, bool permitted);

/* Our words for it. Constant text, never NULL. */
const char *dcgm_answer_words(int answer);

/* The errno (negative) for an answer that ends what was begun. */
int dcgm_answer_errno(int answer);

/* Whether such a refusal may be due to one field among several. */
bool dcgm_answer_is_about_fields(int answer);

/* Whether a number means "no value", and why. ret_why is untouched for a value. */
bool dcgm_blank_int64(int64_t value, Absence *ret_why);
bool dcgm_blank_double(double value, Absence *ret_why);
