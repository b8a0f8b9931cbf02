/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: answers of the API server. Behind a 0xff comes the next part: the first is a list or an object, the
 * others are bytes of its watch. What is kept can always be told. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/kubernetes/objects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count_object(void *self, const json_t *object, Err *err)
{
    if (!object)
        return err_set(err, -1, "no object");
    ++*(size_t *)self;
    return 0;
}

static void check_objects(const KubeObjects *objects)
{
    size_t told = 0, bytes = 0;
    const MapEntry *entry;
    Err err = {0};

    for (size_t at = 0; (entry = map_next(&objects->kept, &at));)
        bytes += strlen(entry->value);
    if (bytes != objects->bytes || kube_objects_tell(objects, count_object, &told, &err) < 0 ||
        told != objects->kept.len)
        abort();
}

/* False where everything would be read again. */
static bool read_part(KubeObjects *objects, const char *text, size_t len, bool first, bool list)
{
    size_t count = 0;
    bool changed = false;
    Err err = {0};
    const int rc = !first ? kube_objects_watch(objects, text, len, &changed, &err)
                   : list ? kube_objects_read_page(objects, text, len, count_object, &count, &err)
                          : kube_objects_read_one(objects, text, len, count_object, &count, &err);

    if (rc < 0 && !err.text[0])
        abort();
    check_objects(objects);
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    KubeObjects objects;
    const bool list = size && *at++ == 'l';
    bool first = true, more = size > 0;

    kube_objects_init(&objects);
    while (more) {
        const char *cut = memchr(at, 0xff, (size_t)(end - at));
        const size_t len = (size_t)((cut ? cut : end) - at);
        char *part = malloc(len + !len); /* of its own size, so that each byte too many is seen */

        memcpy(part, at, len);
        more = read_part(&objects, part, len, first, list) && cut;
        free(part);
        first = false;
        at += len + 1;
    }
    kube_objects_done(&objects);
    return 0;
}
