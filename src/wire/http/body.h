/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What an HttpBody is, for the files of the server. Loop's thread only: the count is not atomic. */

#include "wire/http/server.h"

struct HttpBody {
    const char *bytes;
    char *owned; /* to free; NULL for static bytes */
    size_t len;
    unsigned refs;
};
