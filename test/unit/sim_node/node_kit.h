/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the tests of sim/node share: a node from a few lines of YAML, a folder that goes away, reading files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "sim/node/node.h"
#include "sim/scenario/scenario.h"

typedef struct Kit {
    Arena arena;
    BoardSet boards;
    Err err;
    SimImage *image;
    char dir[64]; /* a folder of the test's own */
    char text[512 * 1024];
} Kit;

/* The node of this YAML text, its clock paused at 0; fails the test where it is wrong. */
Kit *kit_new(const char *yaml);
/* The same with another driver version in the image. */
Kit *kit_new_driver(const char *yaml, const char *driver);
void kit_free(Kit *kit);

/* A path below the kit's folder; good until the 8th call after. */
const char *kit_path(const Kit *kit, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The content of a file below the kit's folder; fails the test where it is not there. Good until the next call. */
const char *kit_read(Kit *kit, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int kit_exists(const Kit *kit, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Applies an op now; fails the test where it is refused. */
void kit_apply(Kit *kit, SimOp op);
void kit_ok(int rc, const Kit *kit);
