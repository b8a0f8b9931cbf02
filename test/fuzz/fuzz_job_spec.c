/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the description of a training job, rendered for everybody who takes one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "service/render/render.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render_all(const JobSpec *spec, Arena *arena)
{
    for (int target = 0; target < JOB_TARGET_END; target++) {
        Str out = str_limited(JOB_TEXT_MAX);
        Err err = {0};

        if (job_render(spec, (JobTarget)target, arena, &out, &err) < 0 ? !err.text[0] : !out.len)
            abort();
        str_done(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + !size);
    Arena arena = {0};
    JobSpec spec;
    Err err = {0};

    if (!text)
        abort();
    memcpy(text, data, size);
    if (job_spec_read("input", text, size, &arena, &spec, &err) == 0)
        render_all(&spec, &arena);
    else if (!err.text[0])
        abort();
    arena_done(&arena);
    free(text);
    return 0;
}
