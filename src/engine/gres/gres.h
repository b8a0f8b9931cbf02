/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Slurm's gres.conf: the lines that are right for a node, and what is wrong with those of a file (gres.conf(5)). Only
 * lines of gpu, and files of NVIDIA's devices. Pure: what the driver reports goes in, texts and findings come out. Any
 * thread.
 */

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "model/gres.h"

/* --- device.c: what a node has ------------------------------------------------------------------------------------ */

enum { GRES_DEVICES_MAX = GRES_GPUS_MAX * GRES_INSTANCES_MAX };

/* What slurmd gives to jobs: a whole GPU or a MIG device. Borrows from the node. */
typedef struct GresDevice {
    const GresGpu *gpu;
    const GresInstance *instance; /* NULL: the whole GPU */
} GresDevice;

/* All devices in the order of the PCI bus, in which slurmd has to know them. GPUs that could not be read, and GPUs in
 * MIG mode without an instance, are left out. Returns how many. */
size_t gres_list_devices(const GresNode *node, GresDevice ret[GRES_DEVICES_MAX]);

/* Type as AutoDetect=nvml makes it of the driver's names: "nvidia_h100_80gb_hbm3", "nvidia_h100_80gb_hbm3_1g.10gb". */
void gres_add_type(const GresDevice *device, Str *to);
/* "/dev/nvidia0", or the three files of a MIG device with commas. */
void gres_add_files(const GresDevice *device, Str *to);
/* "0-55,112"; nothing for an empty set. */
void gres_add_cores(const CoreSet *cores, Str *to);
/* "-1,12,0,0": NVLinks to each GPU, -1 at its own place. */
void gres_add_links(const GresNode *node, const GresGpu *gpu, Str *to);
/* Whether a file for this node has Links: GPUs are linked to each other, not over switches, and none is in MIG mode. */
bool gres_has_links(const GresNode *node);
/* For slurm.conf: "gpu:TYPE:8", with commas. */
void gres_add_totals(const GresNode *node, Str *to);

/* --- conf.c: reading ---------------------------------------------------------------------------------------------- */

enum { GRES_RECORDS_MAX = 1024, GRES_FINDINGS_MAX = 256, GRES_FILES_MAX = 1024, GRES_INCLUDES_MAX = 16 };

typedef enum GresFinding {
#define FINDING(id, key, fatal, text, effect) id,
#include "engine/gres/finding.def"
#undef FINDING
    GRES_FINDING_END
} GresFinding;

typedef struct GresFindingRow {
    const char *key, *text, *effect;
    bool fatal;
} GresFindingRow;

extern const GresFindingRow gres_findings[GRES_FINDING_END];

typedef struct GresProblem {
    GresFinding kind;
    const char *file;
    unsigned line;                     /* 0: the file as a whole */
    const char *configured, *hardware; /* what stands there, and what the node has; "" */
} GresProblem;

/* A line of this node. NULL: the key is not on it. */
typedef struct GresRecord {
    const char *file;
    unsigned line;
    const char *name, *type, *files, *multiple, *count, *cores, *links;
} GresRecord;

/* All of it lies in the arena. */
typedef struct GresConf {
    const char *path, *autodetect; /* of this node, in lower case; "": none */
    unsigned autodetect_line;
    size_t record_count, problem_count;
    GresRecord records[GRES_RECORDS_MAX];
    GresProblem problems[GRES_FINDINGS_MAX]; /* more are dropped */
} GresConf;

/* Reads a file, for `Include` too. */
typedef int (*GresReadFile)(const char *path, Str *to, Err *err);

/* Reads `path` and what it includes (relative to its folder) for the node of this name. What slurmd could not parse
 * becomes a problem. -errno: `path` cannot be read. */
int gres_conf_read(const char *path, const char *node_name, GresReadFile read, Arena *arena, GresConf **ret, Err *err);

void gres_conf_add(GresConf *conf, GresFinding kind, const char *file, unsigned line, const char *configured,
                   const char *hardware);

/* Calls for each name of Slurm's host list, such as "/dev/nvidia[0-3,5],/dev/nvidia7", until a call returns another
 * value than 0, which is returned. -EINVAL: no such list; -E2BIG: more than `max` names. */
int gres_expand(const char *list, size_t max, int (*each)(void *at, const char *name), void *at);

/* --- check.c ------------------------------------------------------------------------------------------------------ */

/* Adds to the problems what differs from the hardware. */
void gres_check(const GresNode *node, Arena *arena, GresConf *conf);
