/* SPDX-License-Identifier: Apache-2.0 */
/* Until nobody includes it any more: base/cleanup.h under its old name. */
#pragma once
#include "base/cleanup.h"
#define OWNER_POINTER CLEANUP_POINTER
#define owner_take_fd fd_take
#define owner_close fd_close
#define owner_free cleanup_free
