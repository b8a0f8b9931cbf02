/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of the incident engine share: a node of eight GPUs, a clock, and a list of all that was told. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "double.h"
#include "engine/health/incidents.h"

#define SECOND UINT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

enum { KIT_TOLD_MAX = 4096, KIT_GPUS = 8 };

typedef struct KitTold {
    IncidentChange change;
    Incident incident;
} KitTold;

typedef struct Kit {
    Incidents *incidents;
    Maintenance *maintenance;
    uint64_t now_ns, real_ns;
    size_t told_count;
    KitTold *told;
    Node node;
    NodeGpu gpus[KIT_GPUS];
} Kit;

int kit_open(void **state);
int kit_close(void **state);
void kit_init(Kit *kit);
void kit_done(Kit *kit);
/* A new engine in place of the old one, which knows nothing. */
void kit_restart(Kit *kit);

PciAddress kit_pci(int gpu);
void kit_advance(Kit *kit, uint64_t ns);
void kit_turn(Kit *kit);
/* One tick without a condition: the node is looked at, time is settled. */
void kit_tick(Kit *kit, uint64_t ns);
/* An XID of the kernel log; nothing but GPU and code is known. Change it before kit_give. */
Event kit_xid(const Kit *kit, int gpu, int32_t code);
void kit_give(Kit *kit, const Event *event);
/* The two in one, and a turn. */
void kit_say(Kit *kit, int gpu, int32_t code);
void kit_app(Kit *kit, int gpu, int32_t code, int32_t pid, const char *process);
/* A condition holds now. gpu -1: of the node. link DEVICE_NO_NUMBER: none. */
void kit_hold(Kit *kit, const char *class, int gpu, uint32_t link);
/* Ticks of a second each for so long, in which it holds. */
void kit_hold_for(Kit *kit, const char *class, int gpu, uint32_t link, uint64_t ns);

size_t kit_told(const Kit *kit, IncidentChange change, const char *class); /* NULL: of all */
const Incident *kit_find(const Kit *kit, const char *class, int gpu);      /* the newest one, open or cleared */
const Incident *kit_open_one(const Kit *kit, const char *class, int gpu);  /* fails where there is none open */
size_t kit_open_count(const Kit *kit);
