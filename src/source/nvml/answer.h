/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the driver's answers mean. Numbers and texts of nvmlReturn_t as in the header of driver 610. Pure, any thread.
 */

#include <stdbool.h>
#include <stddef.h>

#include "model/sample.h"
#include "nvml_abi.h"
#include "source/board/board.h"

/* Why there is no value; for SUCCESS ABSENCE_NO_DATA, as somebody asked. */
Absence nvml_answer_absence(nvmlReturn_t answer);
/* What an answer about a GPU as a whole makes of it. */
BoardOutcome nvml_answer_outcome(nvmlReturn_t answer);
/* Whether it says that something is wrong, not merely that a value is not to be had. */
bool nvml_answer_is_failure(nvmlReturn_t answer);
/* What it says of a driver that is asked to start. */
NodeDriver nvml_answer_driver(nvmlReturn_t answer);
/* A sentence for a person on a driver that does not start: what to do where that is known, else the driver's own words
 * (NULL: it has none). Fills why, cut where it does not fit. */
void nvml_answer_why(nvmlReturn_t answer, const char *words, char *why, size_t cap);
