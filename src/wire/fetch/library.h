/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libcurl, opened when the first client is made and never closed: with all that it brings along it adds some six
 * megabytes to a process, which one that fetches nothing does not pay. One thread.
 */

#include <curl/curl.h>

#include "base/err.h"

/* FUNCTION(name): curl_<name>. */
#define FETCH_LIBRARY_TABLE(FUNCTION)                                                                                  \
    FUNCTION(global_init)                                                                                              \
    FUNCTION(easy_init)                                                                                                \
    FUNCTION(easy_setopt)                                                                                              \
    FUNCTION(easy_getinfo)                                                                                             \
    FUNCTION(easy_strerror)                                                                                            \
    FUNCTION(easy_cleanup)                                                                                             \
    FUNCTION(multi_init)                                                                                               \
    FUNCTION(multi_setopt)                                                                                             \
    FUNCTION(multi_add_handle)                                                                                         \
    FUNCTION(multi_remove_handle)                                                                                      \
    FUNCTION(multi_socket_action)                                                                                      \
    FUNCTION(multi_assign)                                                                                             \
    FUNCTION(multi_timeout)                                                                                            \
    FUNCTION(multi_info_read)                                                                                          \
    FUNCTION(multi_strerror)                                                                                           \
    FUNCTION(multi_cleanup)                                                                                            \
    FUNCTION(slist_append)                                                                                             \
    FUNCTION(slist_free_all)                                                                                           \
    FUNCTION(url)                                                                                                      \
    FUNCTION(url_set)                                                                                                  \
    FUNCTION(url_get)                                                                                                  \
    FUNCTION(url_cleanup)                                                                                              \
    FUNCTION(free)

typedef struct FetchLibrary {
#define FUNCTION(name) __typeof__(curl_##name) *name;
    FETCH_LIBRARY_TABLE(FUNCTION)
#undef FUNCTION
} FetchLibrary;

/* -ENOENT where it is not installed, -ENOSYS where it is too old. */
int fetch_library(const FetchLibrary **ret, Err *err);
