/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health/incident_id.h"

#include <string.h>

#include "base/duration.h"
#include "base/number.h"

enum { WIDTH = 9, WIDTH_MAX = 13 };

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

uint64_t incident_id_next(uint64_t last, uint64_t real_ns, char out[INCIDENT_ID_CAP])
{
    uint64_t number = number_max_u64(real_ns / NS_PER_MS, last + 1), rest = number;
    char text[WIDTH_MAX];
    int at = WIDTH_MAX;

    for (int width = 0; width < WIDTH || rest > 0; width++, rest /= 32)
        text[--at] = digits[rest % 32];
    memcpy(out, text + at, (size_t)(WIDTH_MAX - at));
    out[WIDTH_MAX - at] = '\0';
    return number;
}

uint64_t incident_id_number(const char *id)
{
    uint64_t number = 0;
    size_t length = strlen(id);

    if (length < WIDTH || length > WIDTH_MAX)
        return 0;
    for (; *id; id++) {
        const char *digit = strchr(digits, *id);

        if (!digit || number > UINT64_MAX / 32)
            return 0;
        number = number * 32 + (uint64_t)(digit - digits);
    }
    return number;
}
