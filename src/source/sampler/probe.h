/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a new client of the driver meets: init, count of GPUs, shutdown, as any program begins and ends. A driver may
 * refuse that while it still serves those who came before. Said on the board by the sampler's `driver`: FINE while the
 * driver is held, then RELEASED where all went well, else INIT_FAILED or NO_LIBRARY with trouble, code and why.
 * Init may set GPUs up that nobody uses: the agent sends a probe only while a sampler of its own holds the driver.
 */

#include "source/nvml/library.h"

/* `path` as for nvml_library_open. The library is closed again. */
void probe_run(NvmlLibrary *library, const char *path);
