/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * exp, log and a deterministic hash of our own: the library may need libc alone, and readings must be the same bytes on
 * every machine, which libm's per-CPU variants do not promise. Relative error below 1e-14 (test/unit/sim_core).
 */
#include <stdint.h>

double sim_exp(double x);           /* any x; 0 below -708, capped at exp(700) above 700 */
double sim_log(double x);           /* x > 0 */
double sim_pow(double x, double y); /* x > 0; 0 for x <= 0 */
double sim_floor(double x);         /* |x| < 2^62 */

/* Mixes words into a well-spread 64-bit value. */
uint64_t sim_hash(uint64_t a, uint64_t b, uint64_t c);
/* The same as a number in [-1, 1) and [0, 1). */
double sim_noise(uint64_t a, uint64_t b, uint64_t c);
double sim_unit(uint64_t a, uint64_t b, uint64_t c);
