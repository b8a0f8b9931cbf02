/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a snapshot's values, and the lines of code that blocks come from. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/allocator/inside.h"
#include "engine/trace/classify.h"

enum { FRAMES_MAX = 1024, NAME_BYTES_MAX = 512 };

#define BYTES_MAX ((int64_t)1 << 40) /* of one block: sums over all that a snapshot may have do not overflow */

/* ---- members ---- */

int64_t allocator_bytes(const json_t *object, const char *key, int64_t other)
{
    const json_t *value = json_object_get(object, key);
    const json_int_t number = json_integer_value(value);

    return !json_is_integer(value) ? other : number < 0 ? 0 : number > BYTES_MAX ? BYTES_MAX : number;
}

uint64_t allocator_address(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *text_or(const json_t *object, const char *key, const char *other)
{
    const json_t *value = json_object_get(object, key);

    return json_is_string(value) ? json_string_value(value) : other;
}

bool allocator_is_active(const json_t *block, bool *ret_awaiting)
{
    const char *state = text_or(block, "state", "");

    *ret_awaiting = strcmp(state, "active_allocated") != 0;
    return strncmp(state, "active", 6) == 0;
}

/* ---- lines of code ---- */

/* Frames of an entry; older snapshots have those of a block in its history. */
static const json_t *frames_of(const json_t *entry)
{
    const json_t *frames = json_object_get(entry, "frames");

    return frames ? frames : json_object_get(json_array_get(json_object_get(entry, "history"), 0), "frames");
}

/* The innermost frame of the user's Python, else the innermost of any Python, else the innermost. */
static const json_t *choose_frame(const json_t *frames)
{
    const json_t *python = NULL;

    for (size_t i = 0; i < json_array_size(frames) && i < FRAMES_MAX; i++) {
        const json_t *frame = json_array_get(frames, i);
        const char *file = text_or(frame, "filename", "");

        if (!str_ends_with(file, ".py"))
            continue;
        if (trace_is_user_path(file))
            return frame;
        python = python ? python : frame;
    }
    return python ? python : json_array_get(frames, 0);
}

static const char *name_frame(AllocatorNames *names, const json_t *frame)
{
    const char *file = text_or(frame, "filename", "??"), *slash = strrchr(file, '/');
    char text[NAME_BYTES_MAX];

    if (!frame)
        return "";
    if (slash)
        for (file = slash; file > text_or(frame, "filename", "") && file[-1] != '/'; file--)
            ; /* the folder too: many files are called model.py */
    snprintf(text, sizeof text, "%s:%" PRId64 " %s", file, allocator_bytes(frame, "line", 0),
             text_or(frame, "name", ""));
    const char *known = map_get(&names->by_text, text);
    if (known)
        return known;
    char *name = arena_strdup(names->arena, text);
    map_put(&names->by_text, text, name);
    return name;
}

const char *allocator_site(AllocatorNames *names, const json_t *entry)
{
    const json_t *frames = frames_of(entry);
    const uint64_t key = (uint64_t)(uintptr_t)frames;
    const char *known = frames ? map_u64_get(&names->by_frames, key) : "";

    if (known)
        return known;
    const char *site = name_frame(names, choose_frame(frames));
    map_u64_put(&names->by_frames, key, (void *)(uintptr_t)site);
    return site;
}

void allocator_add_site(AllocatorSites *sites, Map *by_site, const char *name, int64_t bytes)
{
    const uint64_t key = name[0] ? (uint64_t)(uintptr_t)name : 0;
    size_t at = (size_t)(uintptr_t)map_u64_get(by_site, key);

    if (!at) {
        vec_push(sites, ((AllocatorSite){.name = name}));
        at = sites->len;
        map_u64_put(by_site, key, (void *)(uintptr_t)at);
    }
    sites->at[at - 1].bytes += bytes;
    sites->at[at - 1].blocks++;
}

static int compare_sites(const void *a_, const void *b_)
{
    const AllocatorSite *a = a_, *b = b_;

    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->name, b->name);
}

void allocator_sort_sites(AllocatorSites *sites)
{
    vec_sort(sites, compare_sites);
}
