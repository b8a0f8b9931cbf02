/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: nodes, pods and an order in openb's format, parted by form feeds. What is read is within its limits, and
 * every number points at something. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "source/openb/openb.h"

enum { PARTS = 3, PATH_CAP = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

/* A file in memory for each part, the same each time. */
static const char *file_of(size_t part, const uint8_t *bytes, size_t len)
{
    static char paths[PARTS][PATH_CAP];
    static int files[PARTS];

    if (!paths[part][0]) {
        files[part] = memfd_create("openb", MFD_CLOEXEC);
        must(files[part] >= 0);
        snprintf(paths[part], PATH_CAP, "/proc/self/fd/%d", files[part]);
    }
    must(ftruncate(files[part], 0) == 0 && pwrite(files[part], bytes, len, 0) == (ssize_t)len);
    return paths[part];
}

static void check_workload(const OpenbWorkload *work)
{
    must(work->node_count > 0 && work->pod_count > 0);
    for (size_t i = 0; i < work->node_count; i++)
        must(work->nodes[i].gpu_count <= CLUSTER_GPUS_MAX && work->nodes[i].model < work->model_count);
    for (size_t i = 0; i < work->pod_count; i++) {
        const ClusterRequest *r = &work->pods[i];

        must(r->gpu_milli <= CLUSTER_GPU && (r->gpu_count == 0) == (r->gpu_milli == 0));
        must(r->gpu_count <= 1 || r->gpu_milli == CLUSTER_GPU);
        must(work->jobs[i].role_count == 1 && work->jobs[i].roles[0].min > 0);
    }
    for (size_t i = 0; i < work->order_count; i++)
        must(work->order[i] < work->pod_count);
    for (size_t i = 0; i < work->node_count && work->node_order; i++)
        must(work->node_order[i] < work->node_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *paths[PARTS] = {NULL};
    Arena arena = {0};
    OpenbWorkload work;
    Err err;

    for (size_t part = 0; part < PARTS; part++) {
        const uint8_t *end = size ? memchr(data, '\f', size) : NULL;
        const size_t len = end ? (size_t)(end - data) : size;

        paths[part] = part < 2 || len > 0 ? file_of(part, data, len) : NULL;
        data += end ? len + 1 : len;
        size -= end ? len + 1 : len;
    }
    if (openb_read(paths[0], paths[1], paths[2], &arena, &work, &err) == 0)
        check_workload(&work);
    else
        must(err.text[0] != '\0');
    arena_done(&arena);
    return 0;
}
