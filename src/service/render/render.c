/* SPDX-License-Identifier: Apache-2.0 */
#include "service/render/render.h"

#define WORD_KEY(id, key) [id] = (key),
const char *const job_targets[] = {JOB_TARGET_TABLE(WORD_KEY)[JOB_TARGET_END] = NULL};

int job_render(const JobSpec *spec, JobTarget target, Arena *arena, Str *to, Err *err)
{
    TRY(target == JOB_FOR_SLURM ? render_slurm(spec, arena, to, err) : render_kubernetes(spec, target, arena, to, err));
    return str_check(to, "the job", err);
}
