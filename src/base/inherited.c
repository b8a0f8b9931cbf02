/* SPDX-License-Identifier: Apache-2.0 */
#include "base/inherited.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

void inherited_close_above(int fd)
{
    if (syscall(__NR_close_range, (unsigned)fd + 1, ~0U, 0U) == 0)
        return;
    for (int each = fd + 1; each < (int)sysconf(_SC_OPEN_MAX); each++)
        close(each);
}

void inherited_leave_streams(void)
{
    const int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null_fd < 0)
        return;
    dup2(null_fd, STDOUT_FILENO);
    dup2(null_fd, STDERR_FILENO);
    close(null_fd);
}
