/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The walks of arm64, for the table that chooses one. */

#include "engine/trace/scan/walk.h"

WalkEvent walk_event_neon, walk_event_plain;
