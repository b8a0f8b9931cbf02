/* SPDX-License-Identifier: Apache-2.0 */
/* See runbook.h. */
#include "service/runbook/runbook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/gzip.h"
#include "base/owner.h"
#include "service/runbook/runbook_inside.h"

size_t runbook_count(void)
{
    return runbook_row_count - 1;
}

const Runbook *runbook_at(size_t i)
{
    return &runbook_rows[i + 1];
}

const Runbook *runbook_index(void)
{
    return &runbook_rows[0];
}

const Runbook *runbook_find(const char *class)
{
    for (size_t i = 1; i < runbook_row_count; i++)
        if (strcmp(runbook_rows[i].class, class) == 0)
            return &runbook_rows[i];
    return NULL;
}

const char *runbook_class(const Runbook *runbook)
{
    return runbook->class;
}

const char *runbook_title(const Runbook *runbook)
{
    return runbook->title;
}

static int add_piece(const RunbookPiece *piece, Str *out, Err *err)
{
    CLEANUP(str_done) Str all = {0};

    str_init(&all, runbook_packed.unpacked_len + 1);
    str_reserve(&all, runbook_packed.unpacked_len);
    TRY(gzip_unpack(runbook_packed.bytes, runbook_packed.len, &all, err));
    if (piece->at + piece->len > all.len)
        return err_set(err, -EBADMSG, "the runbooks in this program are cut");
    str_addn(out, all.text + piece->at, piece->len);
    return out->overflow ? err_set(err, -EFBIG, "the runbook is too large") : 0;
}

int runbook_text(const Runbook *runbook, Str *out, Err *err)
{
    return add_piece(&runbook->text, out, err);
}

int runbook_html(const Runbook *runbook, Str *out, Err *err)
{
    return add_piece(&runbook->html, out, err);
}

void runbook_url(const char *base, const char *class, char *out, size_t size)
{
    const size_t len = strlen(base);

    if (len == 0 || !runbook_find(class))
        out[0] = '\0';
    else
        snprintf(out, size, "%s%s" RUNBOOK_PLACE "/%s", base, base[len - 1] == '/' ? "" : "/", class);
}
