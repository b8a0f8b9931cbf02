/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What came of a replayed workload, as text and JSON. Pure. */

#include "base/str.h"
#include "engine/place/replay.h"

/* `decisions_per_s`: how fast it went; NaN: not known. */
void replay_text(const Replay *replay, const char *mode, double decisions_per_s, Str *out);
/* One object, ended by a newline; values `at` a per cent of arrived demand are by that per cent. */
void replay_json(const Replay *replay, const char *mode, double decisions_per_s, Str *out);
