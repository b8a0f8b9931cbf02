/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a machine for one who reads profiles, each a pass over a file with nothing else done to the bytes.
 *
 * usage: bench_trace read|memchr|inflate FILE     prints seconds and bytes
 *        read     read() in blocks of 256 KiB
 *        memchr   the same, and looks for every double quote
 *        inflate  isa-l, blocks of 128 KiB */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/gzip.h"
#include "base/cleanup.h"

enum { BLOCK = 256 * 1024 };

static ssize_t pull(void *context, void *buffer, size_t len, Err *err)
{
    ssize_t n = read(*(const int *)context, buffer, len);

    return n < 0 ? err_errno(err, "read") : n;
}

static uint64_t quotes(const char *bytes, size_t len)
{
    const char *at = bytes, *end = bytes + len;
    uint64_t count = 0;

    while (at < end && (at = memchr(at, '"', (size_t)(end - at)))) {
        at++;
        count++;
    }
    return count;
}

static int run(const char *what, int fd, uint64_t *bytes, uint64_t *found, Err *err)
{
    CLEANUP_FREE char *block = xmalloc(BLOCK);
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &fd);
    bool packed = strcmp(what, "inflate") == 0, look = strcmp(what, "memchr") == 0;
    ssize_t n;

    while ((n = packed ? inflate_read(inflate, block, INFLATE_OUTPUT, err) : pull(&fd, block, BLOCK, err)) > 0) {
        *bytes += (uint64_t)n;
        if (look)
            *found += quotes(block, (size_t)n);
    }
    return (int)n;
}

int main(int argc, char **argv)
{
    uint64_t bytes = 0, found = 0, began = clock_monotonic(clock_kernel());
    CLEANUP_FD int fd = -1;
    Err err;

    if (argc != 3) {
        fputs("usage: bench_trace read|memchr|inflate FILE\n", stderr);
        return 2;
    }
    fd = open(argv[2], O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        perror(argv[2]);
        return 1;
    }
    if (run(argv[1], fd, &bytes, &found, &err) < 0) {
        fprintf(stderr, "%s: %s\n", argv[2], err.text);
        return 1;
    }
    printf("{\"seconds\": %.6f, \"bytes\": %" PRIu64 ", \"found\": %" PRIu64 "}\n",
           (double)(clock_monotonic(clock_kernel()) - began) / 1e9, bytes, found);
    return 0;
}
