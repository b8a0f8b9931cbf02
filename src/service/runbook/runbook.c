/* SPDX-License-Identifier: Apache-2.0 */
/* See runbook.h. */
#include "service/runbook/runbook.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/gzip.h"
#include "base/cleanup.h"

enum { PACK_MAX = 1 << 20 };

const Runbook *runbook_find(const char *class)
{
    for (size_t i = 1; i < runbook_row_count; i++)
        if (strcmp(runbook_rows[i].class, class) == 0)
            return &runbook_rows[i];
    return NULL;
}

/* The end of a gzip file: CRC-32 and length of the unpacked text, little endian. */
static bool is_of_this_build(const Str *packed)
{
    uint32_t crc;

    if (packed->len != runbook_pack.len || packed->len < 8)
        return false;
    memcpy(&crc, packed->text + packed->len - 8, sizeof crc);
    return le32toh(crc) == runbook_pack.crc;
}

int runbook_open(Str *ret_pack, const char *path, Err *err)
{
    CLEANUP(str_done) Str packed = {0};

    *ret_pack = (Str){0};
    str_init(&packed, PACK_MAX);
    TRY(file_read(path, PACK_MAX, &packed, err));
    if (!is_of_this_build(&packed))
        return err_set(err, -EBADMSG, "'%s' belongs to another build of Stoker; install Stoker whole", path);
    *ret_pack = packed;
    packed = (Str){0};
    return 0;
}

int runbook_read(const Str *pack, const RunbookPiece *piece, Str *out, Err *err)
{
    CLEANUP(str_done) Str all = {0};

    if (pack->len == 0)
        return err_set(err, -ENODATA, "the runbooks are not installed here; the agent's log has the reason");
    str_init(&all, runbook_pack.unpacked_len + 1);
    str_reserve(&all, runbook_pack.unpacked_len);
    TRY(gzip_unpack(pack->text, pack->len, &all, err));
    str_addn(out, all.text + piece->at, piece->len);
    return out->overflow ? err_set(err, -EFBIG, "the runbook is too large") : 0;
}

void runbook_url(const char *base, const char *class, char *out, size_t size)
{
    const size_t len = strlen(base);

    if (len == 0 || !runbook_find(class))
        out[0] = '\0';
    else
        snprintf(out, size, "%s%s" RUNBOOK_PLACE "/%s", base, base[len - 1] == '/' ? "" : "/", class);
}
