/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/play.h"

#include <math.h>

#include "base/duration.h"

static uint64_t within(const Play *play, double at)
{
    if (!(at > (double)play->from_ns))
        return play->from_ns;
    if (at >= (double)play->to_ns)
        return play->to_ns;
    const uint64_t ns = (uint64_t)at;
    return ns < play->from_ns ? play->from_ns : ns > play->to_ns ? play->to_ns : ns;
}

void play_begin(Play *play, uint64_t from_ns, uint64_t to_ns, uint64_t at_ns, uint64_t now_ns)
{
    play->from_ns = from_ns;
    play->to_ns = to_ns > from_ns ? to_ns : from_ns;
    play->at_ns = within(play, (double)at_ns);
    play->last_ns = now_ns;
    if (!(play->speed > 0))
        play->speed = 1;
}

uint64_t play_turn(Play *play, uint64_t now_ns)
{
    if (!play->paused && now_ns > play->last_ns) {
        const double passed = (double)(now_ns - play->last_ns) * play->speed;
        const double left = (double)(play->to_ns - play->at_ns);

        play->at_ns = passed >= left ? play->to_ns : play->at_ns + (uint64_t)passed;
    }
    play->last_ns = now_ns;
    return play->at_ns;
}

void play_pause(Play *play, bool paused, uint64_t now_ns)
{
    play_turn(play, now_ns);
    play->paused = paused;
}

void play_speed(Play *play, double speed, uint64_t now_ns)
{
    play_turn(play, now_ns);
    if (isfinite(speed) && speed > 0)
        play->speed = fmin(speed, PLAY_SPEED_MAX);
}

void play_seek(Play *play, double seconds, uint64_t now_ns)
{
    play_turn(play, now_ns);
    if (!isfinite(seconds))
        return;
    /* nanoseconds since 1970 are no exact doubles: the way is added, not the place */
    const double way = seconds * (double)NS_PER_S, back = (double)(play->at_ns - play->from_ns),
                 ahead = (double)(play->to_ns - play->at_ns);
    if (way < 0)
        play->at_ns = -way >= back ? play->from_ns : play->at_ns - (uint64_t)-way;
    else
        play->at_ns = way >= ahead ? play->to_ns : play->at_ns + (uint64_t)way;
}

uint64_t play_due(const Play *play, uint64_t real_ns)
{
    if (real_ns <= play->at_ns)
        return 0;
    if (play->paused || real_ns > play->to_ns)
        return UINT64_MAX;
    return play->last_ns + (uint64_t)ceil((double)(real_ns - play->at_ns) / play->speed);
}

bool play_ended(const Play *play)
{
    return play->at_ns == play->to_ns;
}
