/* SPDX-License-Identifier: Apache-2.0 */
#include "model/event.h"

void event_init(Event *event, EventKind kind, EventOrigin origin)
{
    *event = (Event){
        .kind = kind,
        .origin = origin,
        .count = 1,
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
