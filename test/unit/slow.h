/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How many times shorter a long loop is: a sanitizer slows a program down by about as much. */
#ifdef __SANITIZE_THREAD__
enum { TEST_SLOW = 10 };
#elif defined(__SANITIZE_ADDRESS__)
enum { TEST_SLOW = 5 };
#else
enum { TEST_SLOW = 1 };
#endif
