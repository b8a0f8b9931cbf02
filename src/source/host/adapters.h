/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The bytes that network adapters have carried, and what their links can, from sysfs below `root`. Any thread. */

#include "model/facts.h"

/* Fills adapter_count and adapters: ports that are up and whose bytes can be read, in no order. */
void adapters_read(const char *root, Facts *facts);
