/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/trace/snapshot.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/human.h"
#include "base/str.h"
#include "source/profile/input.h"

enum { CHUNK = 256 * 1024 };

bool snapshot_is(const char *path)
{
    CLEANUP(profile_input_close_at) ProfileInput *input = NULL;
    struct stat st;
    size_t len;

    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || profile_input_open_any(path, &input, NULL) < 0)
        return false;
    const char *head = profile_input_head(input, &len);

    return allocator_is_pickle(head, len);
}

static int read_whole(ProfileInput *input, Str *into, Err *err)
{
    CLEANUP_FREE char *chunk = xmalloc(CHUNK);
    char most[HUMAN_MAX];
    uint64_t at;
    ssize_t n;

    while ((n = profile_input_read(input, chunk, CHUNK, err)) > 0) {
        if (into->len + (size_t)n > ALLOCATOR_BYTES_MAX)
            return err_set(err, -EFBIG, "larger than %s; record fewer events (max_entries=)",
                           human_bytes(most, ALLOCATOR_BYTES_MAX));
        str_addn(into, chunk, (size_t)n);
    }
    const char *damage = profile_input_damage(input, &at);

    return n < 0 ? (int)n : damage[0] ? err_set(err, -EBADMSG, "%s", damage) : 0;
}

int snapshot_load(const char *path, AllocatorReport *ret, Err *err)
{
    CLEANUP(profile_input_close_at) ProfileInput *input = NULL;
    CLEANUP(str_done) Str text = str_limited(ALLOCATOR_BYTES_MAX + CHUNK);

    TRY(profile_input_open_any(path, &input, err));
    int rc = read_whole(input, &text, err);
    if (rc == 0)
        rc = allocator_read((Span){text.text, text.len}, ret, err);
    return rc < 0 ? err_add(err, "'%s'", path) : 0;
}
