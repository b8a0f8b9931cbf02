/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <dlfcn.h>
#include <string.h>

static ClientFn found[NVML_FN_COUNT];
static _Atomic unsigned char used[NVML_FN_COUNT];

int library_open(void)
{
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        fprintf(stderr, "client: %s\n", dlerror());
        return -1;
    }
    for (unsigned int fn = 0; fn < NVML_FN_COUNT; fn++) {
        void *p = dlsym(lib, nvml_fn_name(fn));
        memcpy(&found[fn], &p, sizeof p); /* the two kinds of pointer are alike on POSIX */
    }
    return 0;
}

ClientFn library_fn(NvmlFn fn)
{
    atomic_store_explicit(&used[fn], 1, memory_order_relaxed);
    return found[fn];
}

unsigned int library_unused(void)
{
    unsigned int unused = 0;
    for (unsigned int fn = 0; fn < NVML_FN_COUNT; fn++) {
        if (nvml_fn_info(fn)->priority > 2 || !found[fn] || used[fn])
            continue;
        fprintf(stderr, "client: %s has not been called\n", nvml_fn_name(fn));
        unused++;
    }
    return unused;
}
