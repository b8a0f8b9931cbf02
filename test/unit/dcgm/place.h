/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests share: hooks that check that every call is announced, a GPU, a moment. */

#include "source/dcgm/dcgm.h"

#define NOW_US INT64_C(1700000000000000)
#define NOW_NS UINT64_C(5000000000000)
#define PERIOD UINT64_C(1000000000)

/* What the hooks saw. */
typedef struct Seen {
    unsigned int begun, ended;
    unsigned int calls; /* of the library's functions, by the library itself */
    char now[64];       /* what is announced; "": nothing */
    char log[8192];     /* every announcement, "dlopen dcgmInit ..." */
} Seen;

extern Seen seen;
extern const DcgmHooks hooks;

/* The stand-in, in this process or, with an address, connected. */
DcgmPlace place_of(const char *address);
/* A fresh start: nothing ordered, nothing seen. */
int place_reset(void **state);
/* Opened, or the test fails. */
Dcgm *place_open(void);
/* GPU `which` of the stand-in: 0, 1, 2. */
DcgmTarget place_gpu(int which);
DcgmTarget place_instance(void);
/* Whether a file of this name is mapped. */
bool place_is_mapped(const char *name);

static const DcgmNow place_now = {.time_ns = NOW_NS, .wall_us = NOW_US};
