/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way into every function: init check, hang rules, handle, liveness. The common path makes no system call and
 * takes no lock.
 */
#include "sim/nvml/process.h"
#include "sim/nvml/stub.h"

#include <string.h>
#include <unistd.h>

nvmlReturn_t nvml_enter(NvmlFn fn, SimImage **ret_image)
{
    SimImage *image = nvml_image();
    if (!image) {
        nvml_strict(fn, "called before nvmlInit");
        return NVML_ERROR_UNINITIALIZED;
    }
    if (atomic_load_explicit(&image->hang_any, memory_order_relaxed))
        nvml_hang(image, fn, SIM_NONE);
    *ret_image = image;
    return NVML_SUCCESS;
}

/* Finds the instances of a MIG handle in the GPU's present condition. */
static nvmlReturn_t find_instances(NvmlFn fn, nvmlDevice_t device, NvmlCall *c)
{
    const SimCond *cond = &c->now->cond;
    uint32_t found = 0;

    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used && cond->gi[i].id == (uint32_t)device->gi_id) {
            c->gi = cond->gi[i];
            found |= 1;
        }
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == (uint32_t)device->gi_id &&
            cond->ci[i].id == (uint32_t)device->ci_id) {
            c->ci = cond->ci[i];
            found |= 2;
        }
    if (cond->mig_mode && found == 3)
        return NVML_SUCCESS;
    nvml_strict(fn, "handle of a MIG device that is gone");
    return NVML_ERROR_INVALID_ARGUMENT;
}

/* What the real library answers for a kind of handle that a function does not take. */
static nvmlReturn_t check_takes(NvmlTakes takes, const NvmlCall *c)
{
    switch (takes) {
    case NVML_TAKES_GPU:
        return c->mig ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
    case NVML_TAKES_GPU_NS:
        return c->mig ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    case NVML_TAKES_NO_MIG:
        return c->mig || c->now->cond.mig_mode ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    case NVML_TAKES_ANY:
        break;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_enter_device(NvmlFn fn, nvmlDevice_t device, NvmlTakes takes, NvmlCall *ret)
{
    NvmlCall c = {0};
    nvmlReturn_t r = nvml_enter(fn, &c.image);

    if (r != NVML_SUCCESS)
        return r;
    if (!nvml_handle_valid(device)) {
        nvml_strict(fn, "not a device handle");
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    c.gpu = device->gpu;
    c.mig = device->gi_id != SIM_NONE;
    if (atomic_load_explicit(&c.image->hang_any, memory_order_relaxed))
        nvml_hang(c.image, fn, (int32_t)c.gpu);
    c.now = sim_state_now(c.image, c.gpu);
    if (c.now->cond.lost || !c.now->cond.present)
        return NVML_ERROR_GPU_IS_LOST;
    if (c.now->cond.reset_required)
        return NVML_ERROR_RESET_REQUIRED;
    c.id = &c.image->gpus[c.gpu];
    c.board = &c.image->boards[c.id->board];
    if (c.mig && (r = find_instances(fn, device, &c)) != NVML_SUCCESS)
        return r;
    if ((r = check_takes(takes, &c)) != NVML_SUCCESS)
        return r;
    const unsigned int deprecated = nvml_fn_info(fn)->deprecated_since;
    if (deprecated && nvml_library_generation >= deprecated)
        return NVML_ERROR_DEPRECATED;
    *ret = c;
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_stub_enter(const char *name, nvmlReturn_t refusal)
{
    const NvmlFn fn = nvml_fn_find(name);
    SimImage *image;
    nvmlReturn_t r = nvml_enter(fn, &image);

    if (r == NVML_SUCCESS)
        r = refusal;
    if (atomic_load_explicit(&nvml_trace_fd, memory_order_relaxed) != -1)
        nvml_trace(fn, NULL, r);
    return r;
}

nvmlReturn_t nvml_need_root(void)
{
    return geteuid() == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t nvml_copy_text(char *out, unsigned int length, const char *text)
{
    const size_t need = strlen(text) + 1;

    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (length < need)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, need);
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_check_tag(NvmlFn fn, unsigned int got, unsigned int wanted)
{
    if (got == wanted)
        return NVML_SUCCESS;
    nvml_strict(fn, "struct version 0x%08x, wanted 0x%08x", got, wanted);
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

unsigned long long nvml_stamp(SimImage *image, uint64_t t_ns)
{
    return sim_clock_wall_us(image, t_ns);
}
