/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what a scheduler extender is told. The first byte chooses: kube-scheduler's request, answered by all
 * three verbs, or objects of the API server, parted by newlines, after which a pod is asked about. An answer is JSON
 * whatever came; a node is in one of its lists or in none. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/place/extender.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ANSWER_MAX = 1 << 20 };

static const char question[] =
    "{\"Pod\":{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}},"
    "\"NodeNames\":[\"a\",\"b\",\"c\"]}";
static const char *const objects[] = {
    "{\"metadata\":{\"name\":\"a\"},\"status\":{\"capacity\":{\"nvidia.com/"
    "gpu\":\"8\"},\"allocatable\":{\"cpu\":\"96\","
    "\"nvidia.com/gpu\":\"7\"}}}",
    "{\"metadata\":{\"uid\":\"u\",\"annotations\":{\"stoker.dev/"
    "gpus\":\"0,1\"}},\"spec\":{\"nodeName\":\"a\",\"containers\":"
    "[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}",
};

static void change(Live *live, const char *text, size_t len)
{
    json_t *object = json_loadb(text, len, 0, NULL);
    const bool gone = json_is_true(json_object_get(object, "gone"));
    Err err = {0};

    if (json_object_get(json_object_get(object, "spec"), "pool"))
        (void)live_change_slice(live, object, gone, &err);
    else if (json_object_get(json_object_get(object, "status"), "allocation"))
        (void)live_change_claim(live, object, gone, &err);
    else if (json_object_get(object, "spec"))
        (void)live_change_pod(live, object, gone, &err);
    else
        (void)live_change_node(live, object, gone, &err);
    json_decref(object);
}

static json_t *parse(const Str *text)
{
    json_t *made = json_loadb(text->text, text->len, 0, NULL);

    if (!made || text->overflow)
        abort();
    return made;
}

static void check_filter(Live *live, const char *body, size_t len)
{
    CLEANUP(str_done) Str out = str_limited(ANSWER_MAX);
    const ExtenderOutcome outcome = extender_filter(live, true, body, len, &out);
    json_t *answer = parse(&out), *failed = json_object_get(answer, "FailedNodes"), *name;
    const char *error = json_string_value(json_object_get(answer, "Error"));
    size_t i;

    if ((outcome == EXTENDER_REFUSED) != (error[0] != '\0'))
        abort();
    json_array_foreach(json_object_get(answer, "NodeNames"), i,
                       name) if (json_object_get(failed, json_string_value(name))) abort();
    json_decref(answer);
}

static void ask(Live *live, const char *body, size_t len)
{
    CLEANUP(str_done) Str out = str_limited(ANSWER_MAX);
    ExtenderBind bind;
    Err err = {.text = ""};

    check_filter(live, body, len);
    if (extender_prioritize(live, true, body, len, &out, &err) != EXTENDER_REFUSED)
        json_decref(parse(&out));
    else if (!err.text[0])
        abort();
    str_clear(&out);
    if (extender_read_bind(body, len, &bind, &err) < 0)
        return;
    extender_write_binding(&bind, (uint16_t)len, &out);
    json_decref(parse(&out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Live *live = live_new("nvidia.com/gpu", placement_mode_find("pack"));
    char *text = malloc(size + !size); /* of its own size, so that each byte too many is seen */
    const bool questions = size && data[0] == 'q';

    if (size > 1)
        memcpy(text, data + 1, size - 1);
    for (size_t i = 0; i < ARRAY_LEN(objects); i++)
        change(live, objects[i], strlen(objects[i]));
    for (const char *at = text, *end = text + (size ? size - 1 : 0); at < end && !questions;) {
        const char *cut = memchr(at, '\n', (size_t)(end - at));
        const size_t len = (size_t)((cut ? cut : end) - at);

        change(live, at, len);
        at += len + 1;
    }
    if (questions)
        ask(live, text, size - 1);
    else
        ask(live, question, strlen(question));
    live_free(live);
    free(text);
    return 0;
}
