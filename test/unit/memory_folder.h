/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <unistd.h>

/* Where tests make nodes, which are thousands of small files: in memory, if there is such a folder. */
static inline const char *memory_folder(void)
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}
