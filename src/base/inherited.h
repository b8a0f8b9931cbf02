/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors that a program has from who started it. Apart from base/subproc, for programs that are small. */
#pragma once

/* Closes those above `fd`. */
void inherited_close_above(int fd);

/* Gives up stdout and stderr, for /dev/null: in a process that may never end because a driver holds it, which would
 * keep whoever reads them waiting. */
void inherited_leave_streams(void);
