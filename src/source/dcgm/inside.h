/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of this folder share. The only way to call the library is DCGM_CALL. */

#include "source/dcgm/abi.h"
#include "source/dcgm/answer.h"
#include "source/dcgm/dcgm.h"

typedef struct DcgmTable {
#define FN(name, need, arguments) int(*name) arguments;
#include "source/dcgm/functions.def"
#undef FN
} DcgmTable;

/* A group of fields in the engine, shared by all watches of the same list. */
typedef struct DcgmFields {
    DcgmHandle handle;
    uint32_t users; /* 0: the place is free */
    uint32_t count;
    uint16_t ids[DCGM_FIELDS_MAX];
} DcgmFields;

/* The address of a GPU that the engine was asked for. */
typedef struct DcgmKnown {
    uint32_t id;
    PciAddress pci;
} DcgmKnown;

struct Dcgm {
    DcgmHooks hooks;
    const char *name; /* of the library */
    void *library;
    bool up;        /* between dcgmInit and dcgmShutdown */
    bool running;   /* `engine` is one */
    bool remote;    /* and is another process */
    bool lost;      /* it went away */
    bool permitted; /* profiling is open to us, as far as we can tell */
    DcgmHandle engine;
    unsigned int names_used; /* groups have names that no one else has */
    uint64_t birth_ns;
    DcgmFields fields[DCGM_FIELD_GROUPS_MAX];
    uint32_t known_count;
    DcgmKnown known[DCGM_GPUS_MAX];
    DcgmWatch *watches;
    DcgmTable table_;
    DcgmFieldValue values[DCGM_FIELDS_MAX]; /* of one call at a time */
};

/* A field of a watch. */
typedef struct DcgmField {
    MetricValue kind;
    uint32_t out;       /* place in the caller's samples */
    uint16_t id;        /* DCGM's */
    uint8_t refused;    /* Absence, where `fields` is NULL */
    bool had;           /* there has been a value */
    DcgmFields *fields; /* the group it is watched with; NULL: it is not */
} DcgmField;

/* The fields of a watch that belong to one entity. */
typedef struct DcgmPart {
    DcgmEntity entity;
    DcgmHandle group;
    bool grouped; /* `group` is one */
    uint32_t first, count;
    uint32_t asked; /* how many of them are read, in this order: */
    uint16_t ids[DCGM_FIELDS_MAX];
    uint8_t at[DCGM_FIELDS_MAX]; /* and where they lie in DcgmWatch.fields */
} DcgmPart;

struct DcgmWatch {
    Dcgm *dcgm;
    DcgmWatch *next;
    DcgmTarget target;
    uint64_t period_ns;
    char words[160]; /* what refused; "": nothing did */
    uint32_t count, parts_count;
    DcgmPart parts[2];
    DcgmField fields[DCGM_FIELDS_MAX];
};

/* Answer of the library; where the engine is gone it is not called. */
#define DCGM_CALL(dcgm, fn, args)                                                                                      \
    __extension__({                                                                                                    \
        int answer_ = DCGM_CONNECTION_NOT_VALID;                                                                       \
        if (!(dcgm)->lost) {                                                                                           \
            (dcgm)->hooks.before((dcgm)->hooks.self, #fn);                                                             \
            answer_ = (dcgm)->table_.fn args;                                                                          \
            (dcgm)->hooks.after((dcgm)->hooks.self);                                                                   \
            dcgm_note(dcgm, answer_);                                                                                  \
        }                                                                                                              \
        answer_;                                                                                                       \
    })

/* Remembers that the engine is gone, if the answer says so. */
void dcgm_note(Dcgm *dcgm, int answer);

/* A name that no other group of this or another client has. Returns `text`. */
enum { DCGM_NAME_CAP = 64 };
const char *dcgm_name(Dcgm *dcgm, char text[DCGM_NAME_CAP]);

/* The engine's number of the GPU at this address. 0, or as dcgm_watch_new. */
int dcgm_find_gpu(Dcgm *dcgm, PciAddress gpu, uint32_t *ret_id, Err *err);
/* Its numbers of a GPU instance on it and a compute instance in that. */
int dcgm_find_instances(Dcgm *dcgm, uint32_t gpu, const DcgmTarget *target, uint32_t *ret_gpu_instance,
                        uint32_t *ret_compute_instance, Err *err);
