/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: unpacking what nobody packed, under a ceiling that the first byte chooses; and what was packed comes
 * back, for a share of the inputs. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "base/cleanup.h"
#include "test/fuzz/share.h"

enum { UNIT_BYTES = 1024, PACKED_MAX = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

static void and_back(const char *text, size_t size)
{
    CLEANUP(str_done) Str packed = {0}, back = {0};

    str_init(&packed, PACKED_MAX);
    str_init(&back, PACKED_MAX);
    must(gzip_pack(text, size, &packed, NULL) == 0);
    must(gzip_unpack(packed.text, packed.len, &back, NULL) == 0);
    must(back.len == size && memcmp(back.text, text, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(str_done) Str out = {0};
    uint32_t dice = share_dice(data, size);
    int rc;

    if (size == 0)
        return 0;
    str_init(&out, (size_t)data[0] * UNIT_BYTES);
    rc = gzip_unpack((const char *)data + 1, size - 1, &out, NULL);
    must(rc == 0 || rc == -EBADMSG || rc == -EFBIG);
    must(rc == 0 || out.len == 0);
    if (share_drawn(&dice, 8))
        and_back((const char *)data, size);
    return 0;
}
