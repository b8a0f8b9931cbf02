/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that nobody may touch, where AddressSanitizer is there to see it; otherwise nothing. Any thread. */
#pragma once

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REDZONE_CHECKED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(REDZONE_CHECKED)
#define REDZONE_CHECKED 1
#endif

#ifdef REDZONE_CHECKED
#include <sanitizer/asan_interface.h>
enum { REDZONE_BYTES = 16 };
#define redzone_close(memory, size) __asan_poison_memory_region((memory), (size))
#define redzone_open(memory, size) __asan_unpoison_memory_region((memory), (size))
#define redzone_hit(memory) (__asan_address_is_poisoned(memory) != 0)
#else
enum { REDZONE_BYTES = 0 };
#define redzone_close(memory, size) ((void)(memory), (void)(size))
#define redzone_open(memory, size) ((void)(memory), (void)(size))
#define redzone_hit(memory) ((void)(memory), 0)
#endif
