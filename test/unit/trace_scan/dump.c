/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the profile of a trace file: scan_dump FILE [threads]. For test_differential.py and for looking. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "kit.h"

static char *read_all(const char *path, size_t *ret_len)
{
    CLEANUP(fclose_at) FILE *file = fopen(path, "rb");

    if (!file || fseek(file, 0, SEEK_END) != 0)
        return NULL;
    const size_t len = (size_t)ftell(file);
    CLEANUP_FREE char *text = xmalloc(len + 1);

    rewind(file);
    if (fread(text, 1, len, file) != len)
        return NULL;
    *ret_len = len;
    return TAKE(text);
}

int main(int argc, char **argv)
{
    const KitWay way = {.threads = argc > 2 ? (unsigned int)atoi(argv[2]) : 0, .part_bytes = 64 << 10};
    size_t len = 0;
    CLEANUP_FREE char *text = argc > 1 ? read_all(argv[1], &len) : NULL;
    Profile profile;
    Err err = {0};
    Str out;

    if (!text) {
        perror("scan_dump");
        return 2;
    }
    const int rc = kit_scan(text, len, NULL, &way, &profile, &err);

    if (rc < 0) {
        fprintf(stderr, "%s\n", err.text);
    } else {
        str_init(&out, (size_t)4 << 30);
        kit_print(&profile, &out);
        fwrite(out.text, 1, out.len, stdout);
        str_done(&out);
    }
    profile_done(&profile);
    return rc < 0;
}
