/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stand-in for libdcgm: four GPUs (ids 10, 11, 12, 13; 0000:17:00.0, 0000:65:00.0, 0000:CA:00.0, and one that cannot
 * tell its address), the second with GPU instance 3 (entity 103) and in it compute instance 0 (entity 203). It keeps
 * books and aborts where something is left at dcgmShutdown or is used wrongly. What it shall do comes by environment:
 *
 * FAKE_DCGM_FAIL=function:code     that call answers so
 * FAKE_DCGM_HANG=function          that call never comes back
 * FAKE_DCGM_BAD_FIELD=id:code      watching a list with that field answers so
 * FAKE_DCGM_WATCH=gpu:code         watching that entity answers so
 * FAKE_DCGM_VALUES=                fine (or unset), blank, not_found, not_supported, not_permitted, nan, stale, none,
 *                                  reversed, text, status:code
 * FAKE_DCGM_NOW_US=                the time of the values; the clock's
 * FAKE_DCGM_CRASH=function         that call ends the program
 * FAKE_DCGM_GPUS=address,...       up to three, instead of those above
 * FAKE_DCGM_TRACE=file             gets a line "pid function" for every call
 * FAKE_DCGM_ORDERS=file            lines "NAME=..." of it, read anew in every call, stand above the environment
 */

#include <stdbool.h>
#include <stdint.h>

#include "source/dcgm/abi.h"

#define PUBLIC __attribute__((visibility("default")))

enum { FAKE_ENGINE = 0x5EED, FAKE_GROUPS = 128 };

/* The program under test tells what it announced: the library asks it in every call, where it has this. */
__attribute__((weak)) void fake_called(const char *function);
/* The text of a variable, from the orders or the environment; NULL: not set. Good until the next call. */
const char *fake_text(const char *name);

typedef struct FakeGroup {
    bool used;
    DcgmEntity entity;
} FakeGroup;

typedef struct FakeFields {
    bool used;
    int count;
    unsigned short ids[128];
} FakeFields;

typedef struct FakeWatch {
    bool used;
    DcgmHandle group, fields;
} FakeWatch;

extern FakeGroup fake_groups[FAKE_GROUPS];
extern FakeFields fake_fields[FAKE_GROUPS];
extern FakeWatch fake_watches[FAKE_GROUPS];

/* At the beginning of every call. The answer that is ordered, or DCGM_OK. */
int fake_enter(const char *function);
void fake_check(bool fine, const char *what);
bool fake_is_watched(DcgmEntity entity, unsigned short field);
/* Whether variable `name` is "KEY:CODE" with this key; then its code. */
bool fake_order(const char *name, const char *key, int *ret_code);
