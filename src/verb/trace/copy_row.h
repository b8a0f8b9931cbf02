/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Copies a row of a host thread from one profile to another that is not sealed, its texts and arguments with it. */

#include "model/profile.h"

void trace_copy_row(Profile *into, const Profile *from, size_t host_row);
