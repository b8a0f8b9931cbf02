/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The instant that a replay shows: how it moves with the clock, stops, jumps and changes its speed. Pure: time is an
 * argument. One thread. */

#include <stdbool.h>
#include <stdint.h>

typedef struct Play {
    uint64_t from_ns, to_ns; /* what can be shown, wall clock */
    uint64_t at_ns;          /* what is shown as of last_ns */
    uint64_t last_ns;        /* monotonic */
    double speed;            /* above 0 */
    bool paused;
} Play;

enum { PLAY_SPEED_MAX = 10000 };

void play_begin(Play *play, uint64_t from_ns, uint64_t to_ns, uint64_t at_ns, uint64_t now_ns);
/* Moves on to now_ns; what is shown then, never outside of from..to. */
uint64_t play_turn(Play *play, uint64_t now_ns);
void play_pause(Play *play, bool paused, uint64_t now_ns);
void play_speed(Play *play, double speed, uint64_t now_ns);
void play_seek(Play *play, double seconds, uint64_t now_ns);
/* When (monotonic) `real_ns` will be shown: 0 now, UINT64_MAX never as things are. */
uint64_t play_due(const Play *play, uint64_t real_ns);
bool play_ended(const Play *play);
