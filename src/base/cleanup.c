/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind CLEANUP_FREE and CLEANUP_FD. */
#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fd_take(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

void cleanup_free(void *pointer_at)
{
    void *pointer;

    /* memcpy: the variable is a pointer of any type, which void ** must not alias. */
    memcpy(&pointer, pointer_at, sizeof(pointer));
    free(pointer);
    memset(pointer_at, 0, sizeof(pointer));
}

void fd_close(int *fd)
{
    int saved = errno;

    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    errno = saved;
}
