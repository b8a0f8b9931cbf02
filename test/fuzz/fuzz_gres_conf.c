/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a gres.conf, checked against a node. What is found has a text and a line of the file. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "engine/gres/gres.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *content;
static size_t content_size;

/* A file that is included has the same bytes. */
static int give_content(const char *path, Str *to, Err *err)
{
    (void)path, (void)err;
    str_addn(to, (const char *)content, content_size);
    return 0;
}

static const GresNode node = {
    .count = 2,
    .core_count = 4,
    .gpus = {{.name = "NVIDIA H100 80GB HBM3", .cores_known = true, .cores = {{3}}},
             {.index = 1,
              .minor = 1,
              .name = "NVIDIA A30",
              .mig = true,
              .instance_count = 2,
              .instances = {{.gi_minor = 3, .ci_minor = 4, .profile = "1g.6gb"},
                            {.gi_minor = 5, .ci_minor = 6, .profile = "2g.12gb"}}}},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena arena = {0};
    GresConf *conf;
    content = data;
    content_size = size;
    if (gres_conf_read("gres.conf", "n1", give_content, &arena, &conf, NULL) == 0) {
        gres_check(&node, &arena, conf);
        assert(conf->problem_count <= GRES_FINDINGS_MAX);
        for (size_t i = 0; i < conf->problem_count; i++)
            assert(conf->problems[i].kind < GRES_FINDING_END && conf->problems[i].configured &&
                   conf->problems[i].hardware && conf->problems[i].line <= size + 1);
    }
    arena_done(&arena);
    return 0;
}
