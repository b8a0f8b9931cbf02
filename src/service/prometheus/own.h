/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Our own families, as const tables: of the node and this program, of each GPU, and sums that count nothing twice. */

#include "service/prometheus/families.h"

extern const OwnFamily own_node_families[];
extern const size_t own_node_family_count;
extern const OwnFamily own_gpu_families[];
extern const size_t own_gpu_family_count;
extern const OwnFamily own_total_families[]; /* with mig_totals */
extern const size_t own_total_family_count;
