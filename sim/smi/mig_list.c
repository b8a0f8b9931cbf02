/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of `mig`. */
#include "sim/smi/mig.h"

#include <stdio.h>
#include <string.h>

static void rule(int width, char fill)
{
    char line[128];

    memset(line, fill, sizeof(line));
    printf(fill == '-' ? "+%.*s+\n" : "|%.*s|\n", width, line);
}

/* Title and heads, each padded to the width. */
static void head(int width, const char *const *lines)
{
    rule(width, '-');
    for (; *lines; lines++)
        printf("|%-*s|\n", width, *lines);
    rule(width, '=');
}

static nvmlReturn_t none_found(const char *what)
{
    printf("No %s found: Not Found\n", what);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t mig_list_profiles(const MigChoice *choice)
{
    static const char *const lines[] = {
        " GPU instance profiles:", " GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  ",
        "                                Free/Total   GiB              CE    JPEG  OFA  ", NULL};
    nvmlGpuInstanceProfileInfo_v2_t profiles[MIG_PROFILES_MAX];

    head(79, lines);
    for (unsigned int i = 0; i < choice->set->count; i++) {
        const Gpu *gpu = &choice->set->gpus[i];
        unsigned int count = mig_profiles(gpu, profiles);
        for (unsigned int k = 0; k < count; k++) {
            const nvmlGpuInstanceProfileInfo_v2_t *one = &profiles[k];
            unsigned int left = 0;
            (void)NV(DeviceGetGpuInstanceRemainingCapacity, gpu->handle, one->id, &left);
            printf("|%4u  MIG %-14s %3u %5u/%-2u %10.2f %8s %6u %5u %5u   |\n", gpu->index, mig_bare_name(one->name),
                   one->id, left, one->instanceCount, (double)one->memorySizeMB / 1024,
                   one->isP2pSupported ? "Yes" : "No", one->multiprocessorCount, one->decoderCount, one->encoderCount);
            printf("|%64u %5u %5u   |\n", one->copyEngineCount, one->jpegCount, one->ofaCount);
            rule(79, '-');
        }
    }
    return NVML_SUCCESS;
}

nvmlReturn_t mig_list_placements(const MigChoice *choice)
{
    nvmlGpuInstanceProfileInfo_v2_t profiles[MIG_PROFILES_MAX];
    nvmlGpuInstancePlacement_t places[MIG_INSTANCES_MAX];

    for (unsigned int i = 0; i < choice->set->count; i++) {
        const Gpu *gpu = &choice->set->gpus[i];
        unsigned int count = mig_profiles(gpu, profiles);
        for (unsigned int k = 0; k < count; k++) {
            unsigned int found = MIG_INSTANCES_MAX;
            if (NV(DeviceGetGpuInstancePossiblePlacements_v2, gpu->handle, profiles[k].id, places, &found) !=
                    NVML_SUCCESS ||
                !found)
                continue;
            printf("GPU %2u Profile ID %2u Placement%s: {", gpu->index, profiles[k].id, found > 1 ? "s" : " ");
            for (unsigned int p = 0; p < found; p++)
                printf("%s%u", p ? "," : "", places[p].start);
            printf("}:%u\n", places[0].size);
        }
    }
    return NVML_SUCCESS;
}

nvmlReturn_t mig_list_instances(const MigChoice *choice)
{
    static const char *const lines[] = {" GPU instances:", " GPU   Name               Profile  Instance   Placement  ",
                                        "                            ID       ID       Start:Size ", NULL};
    MigInstance all[MIG_INSTANCES_MAX];
    bool any = false;

    for (unsigned int i = 0; i < choice->set->count; i++) {
        unsigned int count = mig_instances(&choice->set->gpus[i], choice->gi_ids, all);
        for (unsigned int k = 0; k < count; k++) {
            if (!any)
                head(57, lines);
            any = true;
            printf("|%4u  MIG %-16s %3u %8u %10u:%-6u|\n", choice->set->gpus[i].index,
                   mig_bare_name(all[k].profile.name), all[k].profile.id, all[k].info.id, all[k].info.placement.start,
                   all[k].info.placement.size);
            rule(57, '-');
        }
    }
    return any ? NVML_SUCCESS : none_found("GPU instances");
}

nvmlReturn_t mig_list_compute_profiles(const MigChoice *choice)
{
    static const char *const lines[] = {
        " Compute instance profiles:",
        " GPU     GPU       Name             Profile  Instances   Exclusive       Shared       ",
        "       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  ",
        "         ID                                                          CE    JPEG       ", NULL};
    MigInstance all[MIG_INSTANCES_MAX];
    nvmlComputeInstanceProfileInfo_v2_t profiles[MIG_CI_PROFILES];
    bool any = false;

    for (unsigned int i = 0; i < choice->set->count; i++) {
        unsigned int count = mig_instances(&choice->set->gpus[i], choice->gi_ids, all);
        for (unsigned int k = 0; k < count; k++) {
            unsigned int found = mig_compute_profiles(&all[k], profiles);
            for (unsigned int p = 0; p < found; p++) {
                const nvmlComputeInstanceProfileInfo_v2_t *one = &profiles[p];
                unsigned int left = 0;
                (void)NV(GpuInstanceGetComputeInstanceRemainingCapacity, all[k].handle, one->id, &left);
                if (!any)
                    head(86, lines);
                any = true;
                printf("|%4u %6u       MIG %-14s %3u%s%6u/%-2u %11u %8u %5u %5u   |\n", choice->set->gpus[i].index,
                       all[k].info.id, mig_bare_name(one->name), one->id,
                       one->sliceCount == all[k].profile.sliceCount ? "*" : " ", left, one->instanceCount,
                       one->multiprocessorCount, one->sharedDecoderCount, one->sharedEncoderCount, one->sharedOfaCount);
                printf("|%71u %5u         |\n", one->sharedCopyEngineCount, one->sharedJpegCount);
                rule(86, '-');
            }
        }
    }
    return any ? NVML_SUCCESS : none_found("GPU instances");
}

nvmlReturn_t mig_list_computes(const MigChoice *choice)
{
    static const char *const lines[] = {
        " Compute instances:", " GPU     GPU       Name             Profile   Instance   Placement  ",
        "       Instance                       ID        ID       Start:Size ",
        "         ID                                                         ", NULL};
    MigInstance all[MIG_INSTANCES_MAX];
    MigCompute computes[MIG_INSTANCES_MAX];
    bool any = false;

    for (unsigned int i = 0; i < choice->set->count; i++) {
        unsigned int count = mig_instances(&choice->set->gpus[i], choice->gi_ids, all);
        for (unsigned int k = 0; k < count; k++) {
            unsigned int found = mig_computes(&all[k], choice->ci_ids, computes);
            for (unsigned int c = 0; c < found; c++) {
                if (!any)
                    head(68, lines);
                any = true;
                printf("|%4u %6u       MIG %-14s %3u %9u %10u:%-6u|\n", choice->set->gpus[i].index, all[k].info.id,
                       mig_bare_name(computes[c].profile.name), computes[c].profile.id, computes[c].info.id,
                       computes[c].info.placement.start, computes[c].info.placement.size);
                rule(68, '-');
            }
        }
    }
    return any ? NVML_SUCCESS : none_found("compute instances");
}
