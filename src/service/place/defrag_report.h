/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Moves that make room, as text and JSON. Pure. */

#include "base/str.h"
#include "engine/place/defrag.h"

typedef struct DefragReport {
    const Cluster *cluster;
    const Defrag *defrag;
    size_t part_pods, shared_nodes; /* of parts of GPUs that the cluster does not hold */
} DefragReport;

void defrag_report_text(const DefragReport *report, Str *out);
/* One object, ended by a newline. */
void defrag_report_json(const DefragReport *report, Str *out);
