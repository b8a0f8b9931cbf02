/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/fetch/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

/* The build with GnuTLS first, which the HTTP server has loaded already. */
static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};

static const char *const symbols[] = {
#define FUNCTION(name) "curl_" #name,
    FETCH_LIBRARY_TABLE(FUNCTION)
#undef FUNCTION
};

int fetch_library(const FetchLibrary **ret, Err *err)
{
    static union {
        FetchLibrary functions;
        void *at[ARRAY_LEN(symbols)];
    } library;
    static bool ready;
    void *handle = NULL;

    _Static_assert(sizeof(library.functions) == sizeof(library.at), "a function pointer is as wide as a pointer");
    if (!ready) {
        for (size_t i = 0; i < ARRAY_LEN(names) && !handle; i++)
            handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            return err_set(err, -ENOENT, "open %s: %s; is libcurl3-gnutls installed?", names[0], dlerror());
        for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
            library.at[i] = dlsym(handle, symbols[i]);
            if (!library.at[i]) {
                dlclose(handle);
                return err_set(err, -ENOSYS, "libcurl is too old: it has no %s", symbols[i]);
            }
        }
        if (library.functions.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
            return err_set(err, -ENOSYS, "libcurl does not start");
        ready = true;
    }
    *ret = &library.functions;
    return 0;
}
