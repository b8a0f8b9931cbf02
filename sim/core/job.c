/* SPDX-License-Identifier: Apache-2.0 */
/* Works of one job: ranks wait for the slowest, and for ever for one that is gone. */
#include "sim/core/closing.h"

typedef struct Job {
    int32_t id;
    uint32_t members, present;
    double slowest_s;
} Job;

static void job_count(const SimImage *image, Closing *all, const PlanGpu *gpus, Job *job)
{
    for (uint32_t w = 0; w < image->work_count; w++)
        job->members += image->works[w].job == job->id;
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        for (uint32_t i = 0; gpus[g].open && i < all[g].seg->slot_count; i++) {
            if (closing_work(image, &all[g], i)->job != job->id)
                continue;
            job->present++;
            double s = pattern_seconds(closing_work(image, &all[g], i), &all[g].use[i]);
            job->slowest_s = s > job->slowest_s ? s : job->slowest_s;
        }
    }
}

/* Ranks wait for the slowest; ranks whose peers are gone spin in the collective for ever. */
static void job_settle(const SimImage *image, Closing *all, const PlanGpu *gpus, const Job *job)
{
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        for (uint32_t i = 0; gpus[g].open && i < all[g].seg->slot_count; i++) {
            const SimWork *work = closing_work(image, &all[g], i);
            if (work->job != job->id)
                continue;
            PatternUse *use = &all[g].use[i];
            use->hung = job->present < job->members;
            double wait = job->slowest_s - pattern_seconds(work, use);
            use->wait_s = wait > 1e-6 ? wait : 0;
            pattern_build(work, use, &all[g].pattern[i]);
        }
    }
}

void jobs_settle(const SimImage *image, Closing *all, const PlanGpu *gpus)
{
    uint8_t seen[SIM_WORK_MAX] = {0};
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        for (uint32_t i = 0; gpus[g].open && i < all[g].seg->slot_count; i++) {
            int32_t id = closing_work(image, &all[g], i)->job;
            if (id < 0 || id >= SIM_WORK_MAX || seen[id])
                continue;
            seen[id] = 1;
            Job job = {.id = id};
            job_count(image, all, gpus, &job);
            if (job.members > 1)
                job_settle(image, all, gpus, &job);
        }
    }
}
