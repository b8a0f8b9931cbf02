/* SPDX-License-Identifier: Apache-2.0 */
#include "model/event.h"

#include <string.h>

static const struct {
    const char *key;
} kinds[] = {
#define EVENT(id, key, text) {key},
    EVENT_TABLE(EVENT)
#undef EVENT
};

void event_init(Event *event, EventKind kind, EventOrigin origin)
{
    *event = (Event){
        .kind = kind,
        .origin = origin,
        .gpu_instance = DEVICE_NO_NUMBER,
        .compute_instance = DEVICE_NO_NUMBER,
        .link = DEVICE_NO_NUMBER,
        .recovery_action = EVENT_NO_ACTION,
        .gpc = -1,
        .tpc = -1,
        .sm = -1,
        .pid = -1,
    };
}

const char *event_kind_key(EventKind kind)
{
    return kinds[kind].key;
}

bool event_kind_find(const char *key, EventKind *ret_kind)
{
    for (int i = 0; i < EVENT_KIND_END; i++) {
        if (strcmp(kinds[i].key, key) == 0) {
            *ret_kind = (EventKind)i;
            return true;
        }
    }
    return false;
}

const char *event_origin_key(EventOrigin origin)
{
    static const char *const keys[] = {"kmsg", "journal", "nvml", "fabric-log", "agent"};

    _Static_assert(sizeof keys / sizeof keys[0] == EVENT_ORIGIN_END, "a key for each origin");
    return keys[origin];
}
