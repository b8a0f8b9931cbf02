/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * -q: everything about a GPU, as one table of nodes that both the text and the XML are written from.
 */
#include "sim/smi/out.h"

/* Sections of -d. */
typedef enum TreeSection {
    TREE_MEMORY = 1 << 0,
    TREE_UTILIZATION = 1 << 1,
    TREE_ECC = 1 << 2,
    TREE_TEMPERATURE = 1 << 3,
    TREE_POWER = 1 << 4,
    TREE_CLOCK = 1 << 5,
    TREE_COMPUTE = 1 << 6,
    TREE_PIDS = 1 << 7,
    TREE_PERFORMANCE = 1 << 8,
    TREE_SUPPORTED_CLOCKS = 1 << 9,
    TREE_PAGE_RETIREMENT = 1 << 10,
    TREE_ACCOUNTING = 1 << 11,
    TREE_ENCODER_STATS = 1 << 12,
    TREE_TARGET_TEMP = 1 << 13,
    TREE_VOLTAGE = 1 << 14,
    TREE_FBC_STATS = 1 << 15,
    TREE_ROW_REMAPPER = 1 << 16,
    TREE_GSP = 1 << 17,
    TREE_POWER_SMOOTHING = 1 << 18,
    TREE_POWER_PROFILES = 1 << 19,
    TREE_ASKED = 1 << 30, /* text: only shown when its section is asked for */
} TreeSection;

/* Reads "ECC,POWER"; 0 and the word printed where one is unknown. */
unsigned int tree_sections(const char *words);

/* Writes the log of all GPUs of the set. `sections` 0: everything. */
void tree_write(GpuSet *set, FILE *file, bool xml, unsigned int sections);

/* Nodes that depend on the board or list something; `of->item` is NULL. */
typedef void TreeBuild(Out *out, const Subject *of);
TreeBuild tree_mig_devices, tree_ecc_errors, tree_retired, tree_remapped, tree_thresholds, tree_memory_threshold,
    tree_supported_clocks, tree_processes, tree_accounted, tree_power_samples, tree_utilization_samples,
    tree_clock_samples;
