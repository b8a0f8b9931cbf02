/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The fault catalogue with a site's files over it, as the agent, `stoker xid` and --check-config load it. Stateless,
 * any thread.
 */

#include "base/err.h"
#include "engine/health/catalogue.h"

enum { FAULTS_FILES_MAX = 256, FAULTS_BYTES_MAX = 1024 * 1024 };

/* The built-in catalogue with the files of `paths` over it, in their order; a folder stands for its *.yaml and *.yml in
 * the order of their names. -ENOENT, -EACCES and so on name the path; -E2BIG more than FAULTS_FILES_MAX files, or one
 * over FAULTS_BYTES_MAX; -EINVAL names file, line and column. */
int faults_load(const char *const *paths, size_t count, Catalogue **ret, Err *err);
