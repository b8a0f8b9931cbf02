/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi mig: arguments, creating, destroying. */
#include "sim/smi/mig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

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
               info.id, gpu->index, gi->info.id, mig_bare_name(profile->name), profile->id);
    return rc;
}

/* Without a word: the profile that takes the whole instance. */
static const nvmlComputeInstanceProfileInfo_v2_t *pick_compute(const MigInstance *gi, const char *word,
                                                               const nvmlComputeInstanceProfileInfo_v2_t *profiles,
                                                               unsigned int count)
{
    char *end;
    unsigned long id = word ? strtoul(word, &end, 10) : 0;

    for (unsigned int i = 0; i < count; i++) {
        if (word ? (end != word && !*end && profiles[i].id == id) ||
                       strcmp(mig_bare_name(profiles[i].name), mig_bare_name(word)) == 0
                 : profiles[i].sliceCount == gi->profile.sliceCount)
            return &profiles[i];
    }
    return NULL;
}

static nvmlReturn_t add_compute(const Gpu *gpu, const MigInstance *gi, const char *word)
{
    nvmlComputeInstanceProfileInfo_v2_t profiles[MIG_CI_PROFILES];
    unsigned int count = mig_compute_profiles(gi, profiles);
    const nvmlComputeInstanceProfileInfo_v2_t *profile = pick_compute(gi, word, profiles, count);

    if (profile)
        return create_compute(gpu, gi, profile);
    printf("Unable to find compute instance profile %s on GPU %2u GPU instance ID %2u\n", word ? word : "of full size",
           gpu->index, gi->info.id);
    return NVML_ERROR_NOT_FOUND;
}

/* "19", "1g.10gb", each with ":start" for a place. */
static const nvmlGpuInstanceProfileInfo_v2_t *
pick_profile(const char *word, int *ret_start, const nvmlGpuInstanceProfileInfo_v2_t *profiles, unsigned int count)
{
    char name[96], *end;

    snprintf(name, sizeof(name), "%s", mig_bare_name(word));
    char *colon = strchr(name, ':');
    *ret_start = colon ? atoi(colon + 1) : -1;
    if (colon)
        *colon = '\0';
    unsigned long id = strtoul(name, &end, 10);
    for (unsigned int i = 0; i < count; i++) {
        if ((end != name && !*end && profiles[i].id == id) || strcmp(mig_bare_name(profiles[i].name), name) == 0)
            return &profiles[i];
    }
    return NULL;
}

static nvmlReturn_t create(const Gpu *gpu, const nvmlGpuInstanceProfileInfo_v2_t *profile, int start,
                           nvmlGpuInstance_t *ret)
{
    nvmlGpuInstancePlacement_t places[MIG_INSTANCES_MAX], place = {.start = (unsigned int)start};
    unsigned int count = MIG_INSTANCES_MAX;

    if (start < 0)
        return NV(DeviceCreateGpuInstance, gpu->handle, profile->id, ret);
    nvmlReturn_t rc = NV(DeviceGetGpuInstancePossiblePlacements_v2, gpu->handle, profile->id, places, &count);
    if (rc != NVML_SUCCESS || !count)
        return rc == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : rc;
    place.size = places[0].size;
    return NV(DeviceCreateGpuInstanceWithPlacement, gpu->handle, profile->id, &place, ret);
}

static nvmlReturn_t create_instance(const Gpu *gpu, const char *word, bool with_compute)
{
    nvmlGpuInstanceProfileInfo_v2_t profiles[MIG_PROFILES_MAX];
    unsigned int count = mig_profiles(gpu, profiles);
    int start;
    const nvmlGpuInstanceProfileInfo_v2_t *profile = pick_profile(word, &start, profiles, count);
    MigInstance gi = {0};
    nvmlReturn_t rc = profile ? create(gpu, profile, start, &gi.handle) : NVML_ERROR_INVALID_ARGUMENT;

    if (rc == NVML_SUCCESS)
        rc = NV(GpuInstanceGetInfo, gi.handle, &gi.info);
    if (rc != NVML_SUCCESS) {
        printf("Unable to create a GPU instance on GPU %2u using profile %s: %s\n", gpu->index, word,
               nvml_error_text(rc));
        return rc;
    }
    gi.profile = *profile;
    printf("Successfully created GPU instance ID %2u on GPU %2u using profile MIG %s (ID %2u)\n", gi.info.id,
           gpu->index, mig_bare_name(profile->name), profile->id);
    return with_compute ? add_compute(gpu, &gi, NULL) : NVML_SUCCESS;
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

static nvmlReturn_t create_computes(const MigChoice *choice)
{
    MigInstance all[MIG_INSTANCES_MAX];
    nvmlReturn_t rc = NVML_SUCCESS;
    bool any = false;

    for (unsigned int i = 0; rc == NVML_SUCCESS && i < choice->set->count; i++) {
        const Gpu *gpu = &choice->set->gpus[i];
        unsigned int count = mig_instances(gpu, choice->gi_ids, all);
        for (unsigned int k = 0; rc == NVML_SUCCESS && k < count; k++) {
            char words[1024], *rest = words;
            any = true;
            if (!choice->value)
                rc = add_compute(gpu, &all[k], NULL);
            snprintf(words, sizeof(words), "%s", choice->value ? choice->value : "");
            for (char *word; choice->value && rc == NVML_SUCCESS && (word = strsep(&rest, ",")) != NULL;)
                rc = add_compute(gpu, &all[k], word);
        }
    }
    if (!any)
        rc = NVML_ERROR_NOT_FOUND;
    if (rc != NVML_SUCCESS)
        printf("Failed to create compute instances: %s\n", nvml_error_text(rc));
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
        unsigned int count = mig_instances(&choice->set->gpus[i], choice->gi_ids, all);
        for (unsigned int k = 0; k < count; k++) {
            unsigned int found = mig_computes(&all[k], choice->ci_ids, computes);
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
        unsigned int count = mig_instances(&choice->set->gpus[i], choice->gi_ids, all);
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
    enum { WITHOUT, WITH, MAYBE } value;
    nvmlReturn_t (*run)(const MigChoice *choice);
} commands[] = {
    {"-lgip", "--list-gpu-instance-profiles", WITHOUT, mig_list_profiles},
    {"-lgipp", "--list-gpu-instance-possible-placements", WITHOUT, mig_list_placements},
    {"-cgi", "--create-gpu-instance", WITH, create_instances},
    {"-dgi", "--destroy-gpu-instance", WITHOUT, destroy_instances},
    {"-lgi", "--list-gpu-instances", WITHOUT, mig_list_instances},
    {"-lcip", "--list-compute-instance-profiles", WITHOUT, mig_list_compute_profiles},
    {"-cci", "--create-compute-instance", MAYBE, create_computes},
    {"-dci", "--destroy-compute-instance", WITHOUT, destroy_computes},
    {"-lci", "--list-compute-instances", WITHOUT, mig_list_computes},
};

/* Puts the text of "-i 0" or "-i=0" into *out and moves *at over it; false where the argument is another. */
static bool take(int argc, char **argv, int *at, const char *letter, const char *word, bool needed, const char **out)
{
    const char *arg = argv[*at], *equals = strchr(arg, '=');
    size_t length = equals ? (size_t)(equals - arg) : strlen(arg);

    if (!(strlen(letter) == length && strncmp(arg, letter, length) == 0) &&
        !(strlen(word) == length && strncmp(arg, word, length) == 0))
        return false;
    if (equals)
        *out = equals + 1;
    else if (*at + 1 < argc && (needed || argv[*at + 1][0] != '-'))
        *out = argv[++*at];
    return true;
}

static const struct MigCommand *read_arguments(int argc, char **argv, MigChoice *choice, const char **ids)
{
    const struct MigCommand *found = NULL;

    for (int i = 1; i < argc; i++) {
        const char *unused = NULL;
        const struct MigCommand *command = NULL;
        for (size_t k = 0; k < ARRAY_LEN(commands) && !command; k++) {
            const struct MigCommand *one = &commands[k];
            if (one->value == WITHOUT
                    ? strcmp(argv[i], one->letter) == 0 || strcmp(argv[i], one->word) == 0
                    : take(argc, argv, &i, one->letter, one->word, one->value == WITH, &choice->value))
                command = one;
        }
        if (command)
            found = command;
        else if (strcmp(argv[i], "-C") == 0 || strcmp(argv[i], "--default-compute-instance") == 0)
            choice->with_compute = true;
        else if (!take(argc, argv, &i, "-i", "--id", true, ids) &&
                 !take(argc, argv, &i, "-gi", "--gpu-instance-id", true, &choice->gi_ids) &&
                 !take(argc, argv, &i, "-ci", "--compute-instance-id", true, &choice->ci_ids) &&
                 !take(argc, argv, &i, "-f", "--force", false, &unused))
            return NULL;
    }
    if (found && found->value == WITH && !choice->value)
        return NULL;
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
        puts("nvidia-smi mig -lgip | -lgipp | -lgi | -lcip | -lci | -cgi PROFILE[:START],.. [-C] | -cci [PROFILE,..]\n"
             "               | -dci | -dgi   [-i GPU] [-gi ID,..] [-ci ID,..]");
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
