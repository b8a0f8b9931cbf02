/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing of begins and ends by thread and time. */
#include "verb/trace/halves.h"

#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

/* The value of a key as it stands in the text, quotes of a text left out. */
static const char *value_of(const TraceRaw *raw, const char *key, size_t *ret_len)
{
    const char *end = raw->bytes + raw->len;
    const char *at = memmem(raw->bytes, raw->len, key, strlen(key));

    *ret_len = 0;
    if (!at)
        return "";
    at += strlen(key);
    while (at < end && strchr(" \t\r\n:", *at))
        at++;
    if (at < end && *at == '"') {
        for (at++; at + *ret_len < end && at[*ret_len] != '"'; ++*ret_len)
            *ret_len += at[*ret_len] == '\\' && at + *ret_len + 1 < end;
        return at;
    }
    while (at + *ret_len < end && !strchr(",}\" \n\r\t", at[*ret_len]))
        ++*ret_len;
    return at;
}

void halves_add(Halves *halves, const TraceRaw *raw)
{
    size_t pid_len, tid_len, name_len;
    const char *pid = value_of(raw, "\"pid\"", &pid_len), *tid = value_of(raw, "\"tid\"", &tid_len);
    const char *name = value_of(raw, "\"name\"", &name_len);
    bool named = memmem(raw->bytes, raw->len, "\"name\"", 6) != NULL;
    char *thread = arena_alloc(&halves->arena, pid_len + tid_len + 1);

    if (!raw->has_time)
        return;
    memcpy(thread, pid, pid_len);
    memcpy(thread + pid_len + 1, tid, tid_len);
    vec_push(&halves->events, ((HalfEvent){.text = arena_strndup(&halves->arena, raw->bytes, raw->len),
                                           .len = raw->len,
                                           .start = raw->start,
                                           .order = raw->offset,
                                           .thread = thread,
                                           .name = arena_strndup(&halves->arena, name, name_len),
                                           .named = named,
                                           .thread_len = pid_len + tid_len + 1,
                                           .begin = raw->phase == 'B',
                                           .kind = raw->kept ? raw->kind : PROFILE_OTHER,
                                           .link = raw->link,
                                           .device = raw->device,
                                           .stream = raw->stream}));
}

static int compare_threads(const HalfEvent *a, const HalfEvent *b)
{
    if (a->thread_len != b->thread_len)
        return a->thread_len < b->thread_len ? -1 : 1;
    return memcmp(a->thread, b->thread, a->thread_len);
}

static int compare(const void *x, const void *y)
{
    const HalfEvent *a = x, *b = y;
    int thread = compare_threads(a, b);

    if (thread)
        return thread;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

typedef VEC(size_t) Open;

/* As the scanner does: the last open begin of the end's name; for an end without a name, the last one. */
static size_t matching(const Halves *halves, const Open *open, const HalfEvent *end)
{
    for (size_t i = open->len; i-- > 0;)
        if (!end->named || strcmp(halves->events.at[open->at[i]].name, end->name) == 0)
            return i;
    return open->len;
}

static int compare_order(const void *x, const void *y)
{
    const HalfEvent *a = x, *b = y;

    return (a->order > b->order) - (a->order < b->order);
}

static void choose(Halves *halves, HalvesWant *want, void *context)
{
    Open open = {0};

    for (size_t i = 0; i < halves->events.len; i++) {
        HalfEvent *event = &halves->events.at[i];
        if (open.len > 0 && compare_threads(event, &halves->events.at[open.at[0]]) != 0)
            vec_clear(&open);
        if (event->begin) {
            vec_push(&open, i);
            continue;
        }
        size_t at = matching(halves, &open, event);
        if (at == open.len)
            continue;
        HalfEvent *begin = &halves->events.at[open.at[at]];
        vec_remove(&open, at);
        begin->wanted = event->wanted = want(context, begin, event);
    }
    vec_done(&open);
}

void halves_write(Halves *halves, HalvesWant *want, void (*put)(void *context, const HalfEvent *event), void *context)
{
    if (halves->events.len == 0)
        return;
    qsort(halves->events.at, halves->events.len, sizeof *halves->events.at, compare);
    choose(halves, want, context);
    qsort(halves->events.at, halves->events.len, sizeof *halves->events.at, compare_order);
    for (size_t i = 0; i < halves->events.len; i++)
        if (halves->events.at[i].wanted)
            put(context, &halves->events.at[i]);
}

void halves_done(Halves *halves)
{
    vec_done(&halves->events);
    arena_done(&halves->arena);
}
