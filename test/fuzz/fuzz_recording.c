/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: recordings of stoker top, plain or packed. Each line that tells a time is a look, they come in the
 * order of their times and can be found by them; for a share of the inputs a packed one is seen to be as the plain one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/gzip.h"
#include "base/cleanup.h"
#include "test/fuzz/share.h"
#include "verb/top/recording.h"

enum { LINE_MAX_BYTES = 1 << 20, PACKED_MAX = 1 << 22 };

CLEANUP_POINTER(Recording, recording_close);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

/* A file in memory that holds these bytes, one and the same each time. */
static const char *file_of(const void *bytes, size_t len)
{
    static char path[64];
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("recording", MFD_CLOEXEC);
        must(fd >= 0 && setenv("TMPDIR", "/dev/shm", access("/dev/shm", W_OK) == 0) == 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    must(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len);
    return path;
}

static size_t count_looks(const char *text, size_t len)
{
    size_t looks = 0;

    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t line = end ? (size_t)(end - text) - at : len - at;
        uint64_t real_ns;

        looks += recording_time_of(text + at, line, &real_ns);
        at += line + 1;
    }
    return looks;
}

static void check(const Recording *recording)
{
    const size_t count = recording->lines.len;
    CLEANUP(str_done) Str line = {0};

    str_init(&line, LINE_MAX_BYTES);
    must(count > 0 && recording_find(recording, 0) == 0 && recording_find(recording, UINT64_MAX) == count - 1);
    for (size_t i = 0; i < count; i++) {
        const uint64_t real_ns = recording->lines.at[i].real_ns;
        const size_t found = recording_find(recording, real_ns);
        uint64_t told;

        must(i == 0 || recording->lines.at[i - 1].real_ns <= real_ns);
        must(found >= i && recording->lines.at[found].real_ns == real_ns);
        must(recording_line(recording, i, &line, NULL) == 0);
        must(recording_time_of(line.text, line.len, &told) && told == real_ns && !memchr(line.text, '\n', line.len));
    }
}

static void compare(const char *text, size_t size, const Recording *plain)
{
    CLEANUP(recording_close_at) Recording *other = NULL;
    CLEANUP(str_done) Str packed = {0}, one = {0}, two = {0};
    Err err = {0};

    str_init(&packed, PACKED_MAX);
    str_init(&one, LINE_MAX_BYTES);
    str_init(&two, LINE_MAX_BYTES);
    must(gzip_pack(text, size, &packed, NULL) == 0);
    must(recording_open(file_of(packed.text, packed.len), &other, &err) == 0);
    must(other->lines.len == plain->lines.len);
    must(strcmp(other->damage, plain->damage) == 0);
    const size_t last = other->lines.len - 1;
    must(other->lines.at[last].real_ns == plain->lines.at[last].real_ns);
    must(recording_line(other, last, &two, NULL) == 0);
    file_of(text, size);
    must(recording_line(plain, last, &one, NULL) == 0 && one.len == two.len &&
         memcmp(one.text, two.text, one.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const bool packed = inflate_is_gzip(data, size);
    uint32_t dice = share_dice(data, size);
    CLEANUP(recording_close_at) Recording *recording = NULL;
    Err err = {0};

    const int rc = recording_open(file_of(data, size), &recording, &err);
    must(rc < 0 ? !recording && err.code == rc && err.text[0] : rc == 0 && recording);
    must(packed || count_looks(text, size) == (recording ? recording->lines.len : 0));
    if (recording)
        check(recording);
    if (recording && !packed && share_drawn(&dice, 8))
        compare(text, size, recording);
    return 0;
}
