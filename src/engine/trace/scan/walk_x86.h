/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The walks of x86-64, for the table that chooses one. */

#include "engine/trace/scan/walk.h"

WalkEvent walk_event_avx2, walk_event_sse2, walk_event_plain;
