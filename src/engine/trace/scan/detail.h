/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What an event's args say beyond its time: launches, copies, operators, collectives, synchronisation, memory. */

#include "engine/trace/scan/inside.h"

/* Indices of the profile's details, PROFILE_NONE where args say nothing of the kind. */
uint32_t detail_launch(TraceScan *scan);
uint32_t detail_copy(TraceScan *scan, const ProfileEvent *event);
uint32_t detail_op(TraceScan *scan);

void detail_sync(TraceScan *scan, int64_t start, int64_t duration);
void detail_memory(TraceScan *scan, int64_t start);
