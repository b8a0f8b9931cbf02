/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the scenario tests share: the folders of the tree, reading a scenario, a place for images. One thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim/scenario/scenario.h"

extern const char *const kit_boards[], *const kit_scenarios[]; /* NULL-ended */

typedef struct Kit {
    Arena arena;
    BoardSet boards;
    Err err;
} Kit;
void kit_init(Kit *kit);
void kit_done(Kit *kit);

/* Reads "t.yaml" from `text`; fails the test where that fails. */
const Scenario *kit_parse(Kit *kit, const char *text);
/* The error of reading `text`. */
const char *kit_error(Kit *kit, const char *text);
/* Builds an image in a folder of its own; kit_image_done removes it. */
SimImage *kit_build(Kit *kit, const Scenario *scenario);
void kit_image_done(SimImage *image);
/* Splits at blanks ('"' keeps them) into at most 16 words. */
int kit_words(Kit *kit, const char *text, const char **words);
