/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Rows for functions that only look something up: one line of a table in identity.c, clocks.c, ... is one exported
 * function. `when` (the board has it, else NOT_SUPPORTED) and `value` are expressions that see the call as `c`.
 */
#include "sim/nvml/process.h"

/* fn(device, Type *out); `id` is spelled by the rows below, because fn itself is renamed (see trampolines.py). */
#define NVML_GETTER_BODY(id, fn, takes, Type, when, value)                                                             \
    nvmlReturn_t fn(nvmlDevice_t device, Type *out)                                                                    \
    {                                                                                                                  \
        NvmlCall c;                                                                                                    \
        const nvmlReturn_t entered = nvml_enter_device(id, device, takes, &c);                                         \
        if (entered != NVML_SUCCESS)                                                                                   \
            return entered;                                                                                            \
        if (!out)                                                                                                      \
            return NVML_ERROR_INVALID_ARGUMENT;                                                                        \
        if (!(when))                                                                                                   \
            return NVML_ERROR_NOT_SUPPORTED;                                                                           \
        *out = value;                                                                                                  \
        return NVML_SUCCESS;                                                                                           \
    }
#define NVML_GETTER(fn, takes, Type, when, value) NVML_GETTER_BODY(NVML_FN_##fn, fn, takes, Type, when, (Type)(value))
#define NVML_GETTER_STRUCT(fn, takes, Type, when, value) NVML_GETTER_BODY(NVML_FN_##fn, fn, takes, Type, when, value)

/* fn(device, Type *first, Type *second) */
#define NVML_GETTER_PAIR(fn, takes, Type, when, value1, value2)                                                        \
    nvmlReturn_t fn(nvmlDevice_t device, Type *first, Type *second)                                                    \
    {                                                                                                                  \
        NvmlCall c;                                                                                                    \
        const nvmlReturn_t entered = nvml_enter_device(NVML_FN_##fn, device, takes, &c);                               \
        if (entered != NVML_SUCCESS)                                                                                   \
            return entered;                                                                                            \
        if (!first || !second)                                                                                         \
            return NVML_ERROR_INVALID_ARGUMENT;                                                                        \
        if (!(when))                                                                                                   \
            return NVML_ERROR_NOT_SUPPORTED;                                                                           \
        *first = (Type)(value1);                                                                                       \
        *second = (Type)(value2);                                                                                      \
        return NVML_SUCCESS;                                                                                           \
    }

/* fn(device, Type *out) where *out begins with the version of its struct; `value` sets it anew. */
#define NVML_GETTER_TAGGED(fn, takes, Type, tag, when, value)                                                          \
    nvmlReturn_t fn(nvmlDevice_t device, Type *out)                                                                    \
    {                                                                                                                  \
        NvmlCall c;                                                                                                    \
        nvmlReturn_t r = nvml_enter_device(NVML_FN_##fn, device, takes, &c);                                           \
        if (r != NVML_SUCCESS)                                                                                         \
            return r;                                                                                                  \
        if (!out)                                                                                                      \
            return NVML_ERROR_INVALID_ARGUMENT;                                                                        \
        if ((r = nvml_check_tag(NVML_FN_##fn, out->version, tag)) != NVML_SUCCESS)                                     \
            return r;                                                                                                  \
        if (!(when))                                                                                                   \
            return NVML_ERROR_NOT_SUPPORTED;                                                                           \
        *out = value;                                                                                                  \
        return NVML_SUCCESS;                                                                                           \
    }

/* fn(device, char *out, unsigned int length); an empty text is not supported */
#define NVML_GETTER_TEXT(fn, takes, text)                                                                              \
    nvmlReturn_t fn(nvmlDevice_t device, char *out, unsigned int length)                                               \
    {                                                                                                                  \
        NvmlCall c;                                                                                                    \
        const nvmlReturn_t entered = nvml_enter_device(NVML_FN_##fn, device, takes, &c);                               \
        if (entered != NVML_SUCCESS)                                                                                   \
            return entered;                                                                                            \
        if (out && !*(text))                                                                                           \
            return NVML_ERROR_NOT_SUPPORTED;                                                                           \
        return nvml_copy_text(out, length, text);                                                                      \
    }

/* Nearest whole number of something that is not negative. */
static inline unsigned long long nvml_round(double x)
{
    return x > 0 ? (unsigned long long)(x + 0.5) : 0;
}

/* A share of time as percent, 0..100. */
static inline unsigned int nvml_percent(double share)
{
    return share >= 1 ? 100u : (unsigned int)nvml_round(share * 100);
}
