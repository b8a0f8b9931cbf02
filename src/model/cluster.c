/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cluster.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

bool cluster_read_gpus(const char *text, uint16_t *ret)
{
    uint16_t gpus = 0;

    while (*text) {
        const size_t len = strcspn(text, ",");
        uint64_t number;

        if (number_parsen_u64(text, len, 0, CLUSTER_GPUS_MAX - 1, &number, NULL) < 0)
            return false;
        gpus = (uint16_t)(gpus | 1u << number);
        text += len + (text[len] == ',');
    }
    *ret = gpus;
    return true;
}

const char *cluster_write_gpus(uint16_t gpus, char to[CLUSTER_GPUS_CAP])
{
    size_t len = 0;

    to[0] = '\0';
    for (unsigned i = 0; i < CLUSTER_GPUS_MAX; i++)
        if (gpus >> i & 1)
            len += (size_t)snprintf(to + len, CLUSTER_GPUS_CAP - len, "%s%u", len ? "," : "", i);
    return to;
}
