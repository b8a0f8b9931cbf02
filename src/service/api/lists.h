/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists of a GPU as JSON members, each with a comma before it; nothing where nobody asked the driver. Not for others.
 */

#include "service/api/api.h"

void write_links(Str *out, const NodeGpu *gpu);
void write_processes(Str *out, const NodeGpu *gpu, const ApiBeside *beside);
