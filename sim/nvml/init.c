/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvmlInit and nvmlShutdown: a count, and the image named by STOKER_SIM. A mapping stays until the process ends: a
 * thread that is still in a call when another shuts down must not lose it. Initialising again with the same file uses
 * the same mapping.
 */
#include "sim/nvml/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAPPINGS_MAX = 64 }; /* files that one process goes through; more stay mapped without being closed */

typedef struct Mapping {
    SimImage *image;
    dev_t dev;
    ino_t ino;
    off_t size;
} Mapping;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int init_count;        /* under the lock */
static Mapping mappings[MAPPINGS_MAX]; /* under the lock */
static unsigned int mapping_count;
static _Atomic(SimImage *) live;

SimImage *nvml_image(void)
{
    return atomic_load_explicit(&live, memory_order_acquire);
}

static int flag_from_env(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

static SimImage *known_mapping(const struct stat *st)
{
    for (unsigned int i = 0; i < mapping_count; i++) {
        const Mapping *m = &mappings[i];
        if (m->dev == st->st_dev && m->ino == st->st_ino && m->size == st->st_size && m->image->magic == SIM_MAGIC)
            return m->image;
    }
    return NULL;
}

/* The image named by the environment, under the lock; NULL with errno. */
static SimImage *map_image(void)
{
    const char *path = getenv("STOKER_SIM");
    struct stat st;

    if (!path || !*path) {
        errno = ENOENT;
        return NULL;
    }
    if (stat(path, &st) < 0)
        return NULL;
    SimImage *image = known_mapping(&st);
    if (image)
        return image;
    image = sim_image_open(path);
    if (image && mapping_count < MAPPINGS_MAX)
        mappings[mapping_count++] = (Mapping){image, st.st_dev, st.st_ino, st.st_size};
    return image;
}

/* What the kernel driver of the node answers to a new client. */
static nvmlReturn_t driver_answer(SimImage *image)
{
    SimNodeSeg node;

    sim_node_at(image, sim_clock_now(image), &node);
    switch ((SimDriver)node.key[SIM_NODE_DRIVER]) {
    case SIM_DRIVER_LOADED:
        break;
    case SIM_DRIVER_UNLOADED:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    case SIM_DRIVER_MISMATCH:
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    case SIM_DRIVER_UNKNOWN_ERROR:
        return NVML_ERROR_UNKNOWN;
    case SIM_DRIVER_NO_PERMISSION:
        return NVML_ERROR_NO_PERMISSION;
    }
    return image->generation == nvml_library_generation ? NVML_SUCCESS : NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}

/* Attaching touches every GPU, so it hangs with any of them. */
static void attach(SimImage *image, NvmlFn fn)
{
    for (uint32_t i = 0; i < nvml_process.visible_count; i++)
        nvml_hang(image, fn, (int32_t)nvml_process.visible[i]);
}

static nvmlReturn_t first_init(NvmlFn fn, unsigned int flags)
{
    SimImage *image = map_image();
    if (!image) {
        const int code = errno;
        nvml_strict(fn, "no image of a node behind STOKER_SIM: %s", strerror(code));
        return code == EPROTO ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        nvml_hang(image, fn, SIM_NONE);
    const nvmlReturn_t r = driver_answer(image);
    if (r != NVML_SUCCESS)
        return r;
    nvml_process.no_block = flag_from_env("STOKER_SIM_NOBLOCK");
    nvml_process.no_libcuda = flag_from_env("STOKER_SIM_NO_LIBCUDA");
    nvml_handles_build(image);
    if (nvml_process.visible_count == 0 && !(flags & NVML_INIT_FLAG_NO_GPUS))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (!(flags & NVML_INIT_FLAG_NO_ATTACH) && atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        attach(image, fn);
    atomic_store_explicit(&live, image, memory_order_release);
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_init(NvmlFn fn, unsigned int flags)
{
    nvmlReturn_t r = NVML_SUCCESS;

    pthread_mutex_lock(&init_lock);
    if (init_count == 0)
        r = first_init(fn, flags);
    if (r == NVML_SUCCESS)
        init_count++;
    pthread_mutex_unlock(&init_lock);
    return r;
}

static void report_leaks(const char *when)
{
    const unsigned int sets = nvml_event_sets_open ? nvml_event_sets_open() : 0;

    if (sets > 0)
        nvml_strict(NVML_FN_nvmlShutdown, "%u event sets were not freed at %s", sets, when);
}

nvmlReturn_t nvml_shutdown(void)
{
    SimImage *image = nvml_image();

    if (image && atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        nvml_hang(image, NVML_FN_nvmlShutdown, SIM_NONE);
    pthread_mutex_lock(&init_lock);
    if (init_count > 0 && --init_count == 0) {
        report_leaks("the last shutdown");
        atomic_store_explicit(&live, NULL, memory_order_release);
    }
    pthread_mutex_unlock(&init_lock);
    return NVML_SUCCESS; /* more shutdowns than inits are no error on the real library */
}

void nvml_version_text(char *buf, size_t size)
{
    pthread_mutex_lock(&init_lock);
    SimImage *image = nvml_image();
    if (!image)
        image = map_image();
    if (image && image->nvml[0])
        snprintf(buf, size, "%s", image->nvml);
    else
        snprintf(buf, size, "%u.%u.00", nvml_library_generation >= 580 ? 13u : 12u, nvml_library_generation);
    pthread_mutex_unlock(&init_lock);
}

/* At the end of the process. */
static void __attribute__((destructor)) leave(void)
{
    if (nvml_image())
        report_leaks("exit");
    atomic_store_explicit(&live, NULL, memory_order_release);
}

/* ---- exported ---- */

nvmlReturn_t nvmlInit(void)
{
    return nvml_init(NVML_FN_nvmlInit, 0);
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvml_init(NVML_FN_nvmlInit_v2, 0);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    return nvml_init(NVML_FN_nvmlInitWithFlags, flags);
}

nvmlReturn_t nvmlShutdown(void)
{
    return nvml_shutdown();
}
