/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_walk.h"

#include <errno.h>

bool json_walk_take(JsonWalk *walk, char c)
{
    while (walk->at < walk->end && (*walk->at == ' ' || *walk->at == '\t' || *walk->at == '\r' || *walk->at == '\n'))
        walk->at++;
    if (walk->at == walk->end || *walk->at != c)
        return false;
    walk->at++;
    return true;
}

json_t *json_walk_value(JsonWalk *walk, Err *err)
{
    json_error_t error;
    json_t *value =
        json_loadb(walk->at, (size_t)(walk->end - walk->at), JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &error);

    if (value)
        walk->at += error.position;
    else
        (void)err_set(err, -EBADMSG, "%s is no JSON: %.100s", walk->what, error.text);
    return value;
}
