/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the objects in files and prints the cluster that they are. */
#include <stdio.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cluster_text.h"

enum { FILES_MAX = 16, TEXT_MAX = 256 << 20 };

int main(int argc, char **argv)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(str_done) Str out = str_limited(TEXT_MAX);
    Str files[FILES_MAX];
    KubeText texts[FILES_MAX];
    KubeLeftOut left_out;
    Cluster cluster;
    size_t count = 0;
    Err err = {0};
    int rc = 0;

    for (; rc == 0 && (int)count + 1 < argc && count < FILES_MAX; count++) {
        str_init(&files[count], TEXT_MAX);
        rc = file_read(argv[count + 1], TEXT_MAX, &files[count], &err);
        texts[count] = (KubeText){argv[count + 1], files[count].text, files[count].len};
    }
    if (rc == 0)
        rc = kube_cluster_read(texts, count, &arena, &cluster, &left_out, &err);
    if (rc == 0)
        cluster_text(&cluster, &left_out, &out);
    fputs(rc == 0 ? out.text : err.text, rc == 0 ? stdout : stderr);
    while (count > 0)
        str_done(&files[--count]);
    return rc == 0 ? 0 : 1;
}
