/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi mig: lists, creates and destroys GPU instances. */
#include "sim/smi/smi.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { MIG_PROFILES_MAX = 32, MIG_INSTANCES_MAX = 64, MIG_CI_PROFILES = 9 };

/* What the arguments choose. */
typedef struct MigChoice {
    GpuSet *set;        /* GPUs with MIG enabled */
    const char *gi_ids; /* -gi, NULL: all */
    const char *value;  /* of -cgi: "19,14" */
    bool with_compute;  /* -C */
} MigChoice;

typedef struct MigInstance {
    nvmlGpuInstance_t handle;
    nvmlGpuInstanceInfo_t info;
    nvmlGpuInstanceProfileInfo_v2_t profile;
} MigInstance;

typedef struct MigCompute {
    nvmlComputeInstance_t handle;
    nvmlComputeInstanceInfo_t info;
} MigCompute;

/* --- profiles in the order of their size, instances by id; the functions return how many there are ---------------- */

static const char *skip_prefix(const char *name)
{
    return strncmp(name, "MIG ", 4) == 0 ? name + 4 : name;
}

static int compare_size(const void *a, const void *b)
{
    const nvmlGpuInstanceProfileInfo_v2_t *x = a, *y = b;

    if (x->sliceCount != y->sliceCount)
        return x->sliceCount < y->sliceCount ? -1 : 1;
    if (x->memorySizeMB != y->memorySizeMB)
        return x->memorySizeMB < y->memorySizeMB ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static unsigned int find_profiles(const Gpu *gpu, nvmlGpuInstanceProfileInfo_v2_t *out)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < MIG_PROFILES_MAX; i++) {
        nvmlGpuInstanceProfileInfo_v2_t *info = &out[count];
        *info = (nvmlGpuInstanceProfileInfo_v2_t){.version = NVML_STRUCT_TAG(nvmlGpuInstanceProfileInfo_v2_t, 2)};
        count += NV(DeviceGetGpuInstanceProfileInfoV, gpu->handle, i, info) == NVML_SUCCESS;
    }
    qsort(out, count, sizeof(*out), compare_size);
    return count;
}

/* Whether `id` is in "1,3"; NULL holds all. */
static bool is_chosen(const char *ids, unsigned int id)
{
    for (const char *at = ids; at && *at;) {
        char *end;
        if (strtoul(at, &end, 10) == id && end != at)
            return true;
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return !ids;
}

static int compare_instance_id(const void *a, const void *b)
{
    const MigInstance *x = a, *y = b;

    return x->info.id < y->info.id ? -1 : x->info.id > y->info.id;
}

static unsigned int find_instances(const Gpu *gpu, const char *only_ids, MigInstance *out)
{
    nvmlGpuInstanceProfileInfo_v2_t profiles[MIG_PROFILES_MAX];
    unsigned int profile_count = find_profiles(gpu, profiles), count = 0;

    for (unsigned int i = 0; i < profile_count; i++) {
        nvmlGpuInstance_t handles[MIG_INSTANCES_MAX];
        unsigned int found = 0;
        if (NV(DeviceGetGpuInstances, gpu->handle, profiles[i].id, handles, &found) != NVML_SUCCESS)
            continue;
        for (unsigned int k = 0; k < found && count < MIG_INSTANCES_MAX; k++) {
            MigInstance *gi = &out[count];
            *gi = (MigInstance){.handle = handles[k], .profile = profiles[i]};
            count += NV(GpuInstanceGetInfo, handles[k], &gi->info) == NVML_SUCCESS && is_chosen(only_ids, gi->info.id);
        }
    }
    qsort(out, count, sizeof(*out), compare_instance_id);
    return count;
}

static unsigned int find_compute_profiles(const MigInstance *gi, nvmlComputeInstanceProfileInfo_v2_t *out)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < MIG_CI_PROFILES; i++) {
        nvmlComputeInstanceProfileInfo_v2_t *info = &out[count];
        *info =
            (nvmlComputeInstanceProfileInfo_v2_t){.version = NVML_STRUCT_TAG(nvmlComputeInstanceProfileInfo_v2_t, 2)};
        count += NV(GpuInstanceGetComputeInstanceProfileInfoV, gi->handle, i, 0, info) == NVML_SUCCESS;
    }
    return count;
}

static unsigned int find_computes(const MigInstance *gi, MigCompute *out)
{
    nvmlComputeInstanceProfileInfo_v2_t profiles[MIG_CI_PROFILES];
    unsigned int profile_count = find_compute_profiles(gi, profiles), count = 0;

    for (unsigned int i = 0; i < profile_count; i++) {
        nvmlComputeInstance_t handles[MIG_INSTANCES_MAX];
        unsigned int found = 0;
        if (NV(GpuInstanceGetComputeInstances, gi->handle, profiles[i].id, handles, &found) != NVML_SUCCESS)
            continue;
        for (unsigned int k = 0; k < found && count < MIG_INSTANCES_MAX; k++) {
            MigCompute *ci = &out[count];
            *ci = (MigCompute){.handle = handles[k]};
            count += NV(ComputeInstanceGetInfo_v2, handles[k], &ci->info) == NVML_SUCCESS;
        }
    }
    return count;
}

/* --- commands ------------------------------------------------------------------------------------------------------
 */

static void write_rule(int width, char fill)
{
    char line[128];

    memset(line, fill, sizeof(line));
    printf(fill == '-' ? "+%.*s+\n" : "|%.*s|\n", width, line);
}

/* Title and heads, each padded to the width. */
static void write_head(int width, const char *const *lines)
{
    write_rule(width, '-');
    for (; *lines; lines++)
        printf("|%-*s|\n", width, *lines);
    write_rule(width, '=');
}

static nvmlReturn_t list_instances(const MigChoice *choice)
{
    static const char *const lines[] = {" GPU instances:", " GPU   Name               Profile  Instance   Placement  ",
                                        "                            ID       ID       Start:Size ", NULL};
    MigInstance all[MIG_INSTANCES_MAX];
    bool any = false;

    for (unsigned int i = 0; i < choice->set->count; i++) {
        unsigned int count = find_instances(&choice->set->gpus[i], choice->gi_ids, all);
        for (unsigned int k = 0; k < count; k++) {
            if (!any)
                write_head(57, lines);
            any = true;
            printf("|%4u  MIG %-16s %3u %8u %10u:%-6u|\n", choice->set->gpus[i].index, skip_prefix(all[k].profile.name),
                   all[k].profile.id, all[k].info.id, all[k].info.placement.start, all[k].info.placement.size);
            write_rule(57, '-');
        }
    }
    if (!any)
        printf("No GPU instances found: Not Found\n");
    return any ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t create_compute(const Gpu *gpu, const MigInstance *gi,
                                   const nvmlComputeInstanceProfileInfo_v2_t *profile)
{
    nvmlComputeInstance_t handle = NULL;
    nvmlComputeInstanceInfo_t info = {0};
    nvmlReturn_t rc = NV(GpuInstanceCreateComputeInstance, gi->handle, profile->id, &handle);

    if (rc == NVML_SUCCESS)
        rc = NV(ComputeInstanceGetInfo_v2, handle, &info);
    if (rc != NVML_SUCCESS)
        printf("Unable to create a compute instance on GPU %2u GPU instance ID %2u using profile %u: %s\n", gpu->index,
               gi->info.id, profile->id, nvml_error_text(rc));
    else
        printf("Successfully created compute instance ID %2u on GPU %2u GPU instance ID %2u using profile MIG %s "
               "(ID %2u)\n",
               info.id, gpu->index, gi->info.id, skip_prefix(profile->name), profile->id);
    return rc;
}

/* With the profile that takes the whole instance. */
static nvmlReturn_t add_compute(const Gpu *gpu, const MigInstance *gi)
{
    nvmlComputeInstanceProfileInfo_v2_t profiles[MIG_CI_PROFILES];
    unsigned int count = find_compute_profiles(gi, profiles);

    for (unsigned int i = 0; i < count; i++)
        if (profiles[i].sliceCount == gi->profile.sliceCount)
            return create_compute(gpu, gi, &profiles[i]);
    printf("Unable to find compute instance profile of full size on GPU %2u GPU instance ID %2u\n", gpu->index,
           gi->info.id);
    return NVML_ERROR_NOT_FOUND;
}

/* By "19" or "1g.10gb". */
static const nvmlGpuInstanceProfileInfo_v2_t *
pick_profile(const char *word, const nvmlGpuInstanceProfileInfo_v2_t *profiles, unsigned int count)
{
    char *end;
    unsigned long id = strtoul(word, &end, 10);

    for (unsigned int i = 0; i < count; i++)
        if ((end != word && !*end && profiles[i].id == id) ||
            strcmp(skip_prefix(profiles[i].name), skip_prefix(word)) == 0)
            return &profiles[i];
    return NULL;
}

static nvmlReturn_t create_instance(const Gpu *gpu, const char *word, bool with_compute)
{
    nvmlGpuInstanceProfileInfo_v2_t profiles[MIG_PROFILES_MAX];
    unsigned int count = find_profiles(gpu, profiles);
    const nvmlGpuInstanceProfileInfo_v2_t *profile = pick_profile(word, profiles, count);
    MigInstance gi = {0};
    nvmlReturn_t rc =
        profile ? NV(DeviceCreateGpuInstance, gpu->handle, profile->id, &gi.handle) : NVML_ERROR_INVALID_ARGUMENT;

    if (rc == NVML_SUCCESS)
        rc = NV(GpuInstanceGetInfo, gi.handle, &gi.info);
    if (rc != NVML_SUCCESS) {
        printf("Unable to create a GPU instance on GPU %2u using profile %s: %s\n", gpu->index, word,
               nvml_error_text(rc));
        return rc;
    }
    gi.profile = *profile;
    printf("Successfully created GPU instance ID %2u on GPU %2u using profile MIG %s (ID %2u)\n", gi.info.id,
           gpu->index, skip_prefix(profile->name), profile->id);
    return with_compute ? add_compute(gpu, &gi) : NVML_SUCCESS;
}

static nvmlReturn_t create_instances(const MigChoice *choice)
{
    nvmlReturn_t rc = NVML_SUCCESS;

    for (unsigned int i = 0; rc == NVML_SUCCESS && i < choice->set->count; i++) {
        char words[1024], *rest = words;
        snprintf(words, sizeof(words), "%s", choice->value);
        for (char *word; rc == NVML_SUCCESS && (word = strsep(&rest, ",")) != NULL;)
            rc = create_instance(&choice->set->gpus[i], word, choice->with_compute);
    }
    if (rc != NVML_SUCCESS)
        printf("Failed to create GPU instances: %s\n", nvml_error_text(rc));
    return rc;
}

static nvmlReturn_t destroy_computes(const MigChoice *choice)
{
    MigInstance all[MIG_INSTANCES_MAX];
    MigCompute computes[MIG_INSTANCES_MAX];
    nvmlReturn_t rc = NVML_SUCCESS;
    bool any = false;

    for (unsigned int i = 0; i < choice->set->count; i++) {
        unsigned int index = choice->set->gpus[i].index;
        unsigned int count = find_instances(&choice->set->gpus[i], choice->gi_ids, all);
        for (unsigned int k = 0; k < count; k++) {
            unsigned int found = find_computes(&all[k], computes);
            for (unsigned int c = 0; c < found; c++) {
                nvmlReturn_t one = NV(ComputeInstanceDestroy, computes[c].handle);
                any = true;
                rc = one != NVML_SUCCESS ? one : rc;
                printf(one == NVML_SUCCESS
                           ? "Successfully destroyed compute instance ID %2u from GPU %2u GPU instance ID %2u\n"
                           : "Unable to destroy compute instance ID %2u from GPU %2u GPU instance ID %2u\n",
                       computes[c].info.id, index, all[k].info.id);
            }
        }
    }
    if (!any) {
        printf("No compute instances found: Not Found\n");
        return NVML_ERROR_NOT_FOUND;
    }
    if (rc != NVML_SUCCESS)
        printf("Failed to destroy compute instances: %s\n", nvml_error_text(rc));
    return rc;
}

static nvmlReturn_t destroy_instances(const MigChoice *choice)
{
    MigInstance all[MIG_INSTANCES_MAX];
    nvmlReturn_t rc = NVML_SUCCESS;
    bool any = false;

    for (unsigned int i = 0; i < choice->set->count; i++) {
        unsigned int index = choice->set->gpus[i].index;
        unsigned int count = find_instances(&choice->set->gpus[i], choice->gi_ids, all);
        for (unsigned int k = 0; k < count; k++) {
            nvmlReturn_t one = NV(GpuInstanceDestroy, all[k].handle);
            any = true;
            rc = one != NVML_SUCCESS ? one : rc;
            if (one == NVML_SUCCESS)
                printf("Successfully destroyed GPU instance ID %2u from GPU %2u\n", all[k].info.id, index);
            else
                printf("Unable to destroy GPU instance ID %2u from GPU %2u: %s\n", all[k].info.id, index,
                       nvml_error_text(one));
        }
    }
    if (!any) {
        printf("No GPU instances found: Not Found\n");
        return NVML_ERROR_NOT_FOUND;
    }
    if (rc != NVML_SUCCESS)
        printf("Failed to destroy GPU instances: %s\n", nvml_error_text(rc));
    return rc;
}

static const struct MigCommand {
    const char *letter, *word;
    bool takes;
    nvmlReturn_t (*run)(const MigChoice *choice);
} commands[] = {
    {"-cgi", "--create-gpu-instance", true, create_instances},
    {"-dgi", "--destroy-gpu-instance", false, destroy_instances},
    {"-lgi", "--list-gpu-instances", false, list_instances},
    {"-dci", "--destroy-compute-instance", false, destroy_computes},
};

/* The text of "-i 0" or "-i=0", and *at moved over it; NULL: another argument, or none follows. */
static const char *read_value(int argc, char **argv, int *at, const char *letter, const char *word)
{
    const char *arg = argv[*at], *equals = strchr(arg, '=');
    const size_t len = equals ? (size_t)(equals - arg) : strlen(arg);

    if (!(strlen(letter) == len && strncmp(arg, letter, len) == 0) &&
        !(strlen(word) == len && strncmp(arg, word, len) == 0))
        return NULL;
    if (equals)
        return equals + 1;
    return *at + 1 < argc ? argv[++*at] : NULL;
}

static const struct MigCommand *read_command(int argc, char **argv, int *at, MigChoice *choice)
{
    for (size_t k = 0; k < ARRAY_LEN(commands); k++) {
        const struct MigCommand *one = &commands[k];
        if (one->takes ? (choice->value = read_value(argc, argv, at, one->letter, one->word)) != NULL
                       : strcmp(argv[*at], one->letter) == 0 || strcmp(argv[*at], one->word) == 0)
            return one;
    }
    return NULL;
}

static const struct MigCommand *read_arguments(int argc, char **argv, MigChoice *choice, const char **ids)
{
    const struct MigCommand *found = NULL;

    for (int i = 1; i < argc; i++) {
        const struct MigCommand *command = found ? NULL : read_command(argc, argv, &i, choice);
        const char *value;

        if (command)
            found = command;
        else if (strcmp(argv[i], "-C") == 0 || strcmp(argv[i], "--default-compute-instance") == 0)
            choice->with_compute = true;
        else if ((value = read_value(argc, argv, &i, "-i", "--id")) != NULL)
            *ids = value;
        else if ((value = read_value(argc, argv, &i, "-gi", "--gpu-instance-id")) != NULL)
            choice->gi_ids = value;
        else
            return NULL;
    }
    return found;
}

/* Leaves the GPUs that have MIG on. */
static void keep_enabled(GpuSet *set)
{
    unsigned int kept = 0;

    for (unsigned int i = 0; i < set->count; i++) {
        if (gpu_mig_enabled(&set->gpus[i]))
            set->gpus[kept++] = set->gpus[i];
    }
    set->count = kept;
}

int mig_main(int argc, char **argv)
{
    static GpuSet set;
    MigChoice choice = {.set = &set};
    const char *ids = NULL;
    const struct MigCommand *command = read_arguments(argc, argv, &choice, &ids);

    if (!command) {
        puts("nvidia-smi mig -lgi | -cgi PROFILE,.. [-C] | -dci | -dgi   [-i GPU] [-gi ID,..]");
        return argc > 1 && strcmp(argv[1], "-h") == 0 ? 0 : NVML_ERROR_INVALID_ARGUMENT;
    }
    nvmlReturn_t rc = gpu_set_open(ids, &set);
    if (rc != NVML_SUCCESS)
        return nvml_exit_code(rc);
    keep_enabled(&set);
    if (!set.count) {
        puts("No MIG-enabled devices found.");
        return NVML_ERROR_NOT_FOUND;
    }
    return nvml_exit_code(command->run(&choice));
}
