/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which thread or stream an event belongs to, and in whose ids others speak of it. */

#include "engine/trace/scan/inside.h"

/* The thread that pid and tid of the event at hand name; what is missing is 0. */
ThreadKey thread_key(TraceScan *scan);
uint32_t thread_lane(TraceScan *scan, const ThreadKey *key);
uint32_t event_thread(TraceScan *scan); /* of the event at hand */

/* The event's device and stream: its args, else pid and tid; -1 where neither is a number. */
int32_t gpu_device(TraceScan *scan);
int64_t gpu_stream(TraceScan *scan);
uint32_t gpu_lane(TraceScan *scan, int32_t device, int64_t stream);
uint32_t event_stream(TraceScan *scan);

/* The number at the end of a text ("stream 7"): false where there is none. */
bool number_behind(const char *text, size_t len, int64_t *ret);

/* The id in a slot as the text has it: 0 where there is none. */
int64_t id_in(const TraceScan *scan, Slot slot);

/* An id for `row` of a field's table: a placeholder (0) where it gets its number at the end. */
uint32_t id_put(TraceScan *scan, int64_t id, WideField field, size_t row);
uint32_t id_of(TraceScan *scan, Slot slot, WideField field, size_t row);

/* The number that an earlier reading gave to an id, 0 none. */
uint32_t id_known(const TraceScan *scan, int64_t id);

static inline bool has(const TraceScan *scan, Slot slot)
{
    return scan->walk->present & SLOT_BIT(slot);
}

static inline const Slice *slice_of(const TraceScan *scan, Slot slot)
{
    return &scan->walk->slot[slot];
}

/* A number in a slot, `none` where there is no number. */
static inline int64_t number_of(const TraceScan *scan, Slot slot, int64_t none)
{
    int64_t value;

    return has(scan, slot) && value_integer(slice_of(scan, slot), &value) ? value : none;
}

/* The name of a slot's text, PROFILE_NONE where there is none; what stands there as a word counts but for null. */
uint32_t name_of(TraceScan *scan, Slot slot);
