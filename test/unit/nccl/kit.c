/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <stdio.h>
#include <string.h>

/* "key=VALUE\n" at the front, which goes. */
static void option(const char **text, size_t *len, const char *key, char out[64])
{
    size_t front = strlen(key), n = strcspn(*text, "\n");

    if (strncmp(*text, key, front) != 0)
        return;
    snprintf(out, 64, "%.*s", (int)(n - front), *text + front);
    *text += n + 1;
    *len -= n + 1;
}

static void feed(NcclJob *job, const char *text, size_t len, size_t piece)
{
    char name[64] = "input", trouble[64] = "";

    option(&text, &len, "name=", name);
    option(&text, &len, "trouble=", trouble);
    nccl_begin(job, name);
    for (size_t at = 0; at < len; at += piece)
        nccl_feed(job, text + at, len - at < piece ? len - at : piece);
    nccl_end(job, trouble[0] ? trouble : NULL);
}

NcclJob *kit_read_in_pieces(const char *text, size_t piece)
{
    NcclJob *job = nccl_new();

    for (;;) {
        size_t len = strcspn(text, "\f");
        feed(job, text, len, piece);
        if (!text[len])
            return job;
        text += len + 1;
    }
}

NcclJob *kit_read(const char *text)
{
    return kit_read_in_pieces(text, SIZE_MAX / 2);
}

const NcclFinding *kit_find(const NcclReport *report, const char *id)
{
    for (size_t i = 0; i < report->findings.len; i++)
        if (strcmp(report->findings.at[i].id, id) == 0)
            return &report->findings.at[i];
    return NULL;
}
