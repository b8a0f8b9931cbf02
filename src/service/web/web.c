/* SPDX-License-Identifier: Apache-2.0 */
/* See web.h. */
#include "service/web/web.h"

#include <string.h>

const char web_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const WebFile *web_find(const char *path)
{
    for (size_t i = 0; i < web_file_count; i++)
        if (strcmp(web_files[i].path, path) == 0)
            return &web_files[i];
    return NULL;
}

bool web_is_known(const WebFile *file, const char *if_none_match)
{
    const size_t len = strlen(file->etag);

    for (const char *at = if_none_match; at && *at; at += *at == ',') {
        at += strspn(at, " \t");
        if (*at == '*')
            return true;
        if (strncmp(at, "W/", 2) == 0)
            at += 2;
        if (strncmp(at, file->etag, len) == 0 && strchr(", \t", at[len]))
            return true;
        at += strcspn(at, ",");
    }
    return false;
}
