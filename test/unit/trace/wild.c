/* SPDX-License-Identifier: Apache-2.0 */

#include "wild.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

typedef struct Event {
    ProfileKind kind;
    int64_t lane; /* thread or stream */
    int32_t device;
    int64_t start, duration; /* units */
    const char *name;
    uint32_t link;
} Event;

typedef struct Wild {
    const WildShape *shape;
    Random random;
    VEC(Event) events;
    uint32_t correlation;
} Wild;

static const struct {
    ProfileKind kind;
    const char *name;
} host_words[] = {
    {PROFILE_OP, "aten::mm"},
    {PROFILE_OP, "aten::add"},
    {PROFILE_OP, "aten::item"},
    {PROFILE_CALL, "cudaStreamSynchronize"},
    {PROFILE_CALL, "cudaMalloc"},
    {PROFILE_CALL, "cudaEventQuery"},
    {PROFILE_CALL, "cudaMemcpy"},
    {PROFILE_CALL, "cuModuleLoadData"},
    {PROFILE_ANNOTATION, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
    {PROFILE_ANNOTATION, "gloo:all_reduce"},
    {PROFILE_ANNOTATION, "forward"},
    {PROFILE_OTHER, "something"},
};

static const char *const kernel_words[] = {"gemm", "ncclDevKernel_AllReduce", "elementwise", "ampere_s16816gemm",
                                           "__amd_rocclr_copyBuffer"};

static void add_gpu(Wild *w, int64_t call_start, uint32_t correlation)
{
    Random *r = &w->random;
    bool copy = random_once(r, 5);
    Event event = {.kind = copy ? PROFILE_COPY : PROFILE_KERNEL,
                   .lane = 7 + (int64_t)random_below(r, w->shape->streams),
                   .device = 2 * (int32_t)random_below(r, w->shape->devices),
                   .start = call_start - 3 + (int64_t)random_below(r, random_once(r, 4) ? 120 : 12),
                   .duration = (int64_t)random_below(r, random_once(r, 6) ? 90 : 14),
                   .link = correlation};

    event.name = !copy               ? kernel_words[random_below(r, ARRAY_LEN(kernel_words))]
                 : random_once(r, 2) ? "Memcpy HtoD (Pageable -> Device)"
                                     : "Memcpy DtoH (Device -> Pinned)";
    if (event.start < 0)
        event.start = 0;
    vec_push(&w->events, event);
}

static void add_call(Wild *w, int64_t thread, int64_t start, int64_t end)
{
    Random *r = &w->random;
    uint32_t correlation = ++w->correlation;
    uint64_t count = random_once(r, 12) ? random_below(r, 4) : 1;
    Event event = {.kind = PROFILE_CALL,
                   .lane = thread,
                   .start = start,
                   .duration = end - start,
                   .link = correlation,
                   .name = random_once(r, 6) ? "cudaMemcpyAsync"
                           : count > 1       ? "cudaGraphLaunch"
                                             : "cudaLaunchKernel"};

    if (random_once(r, 15))
        event.link = 0; /* its operations are not linked */
    vec_push(&w->events, event);
    for (uint64_t i = 0; i < count; i++)
        add_gpu(w, start, correlation);
}

/* Fills [start, end) of a thread with neighbours, and those with what is inside them. */
static void fill(Wild *w, int64_t thread, int64_t start, int64_t end, int depth)
{
    Random *r = &w->random;

    while (start < end) {
        int64_t from = start + (int64_t)random_below(r, random_once(r, 5) ? 40 : 4), to;
        size_t word = random_below(r, ARRAY_LEN(host_words));

        to = from + (int64_t)random_below(r, random_once(r, 3) ? 80 : 12);
        to = to < end ? to : end;
        if (from >= to)
            break;
        start = to;
        if (depth == 3 || random_once(r, 3)) {
            add_call(w, thread, from, to);
            continue;
        }
        Event event = {.kind = host_words[word].kind,
                       .lane = thread,
                       .start = from,
                       .duration = to - from,
                       .name = host_words[word].name};

        if (event.kind == PROFILE_OP && thread == 3)
            event.name = "autograd::engine::evaluate_function: MmBackward0";
        if (thread == 1 && random_once(r, 8)) {
            event.kind = PROFILE_PYTHON;
            event.name = random_once(r, 3) ? "torch/utils/data/dataloader.py(628): __next__" : "train.py(10): main";
        }
        vec_push(&w->events, event);
        fill(w, thread, from, to, depth + 1);
    }
}

static void add_steps(Wild *w)
{
    static const char *const names[] = {"ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
    int64_t at = (int64_t)random_below(&w->random, 60);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        int64_t duration = 1 + (int64_t)random_below(&w->random, (uint64_t)w->shape->length / 4);

        /* a thread of its own, so that it does not cross what the threads do */
        vec_push(
            &w->events,
            ((Event){.kind = PROFILE_ANNOTATION, .lane = 50, .start = at, .duration = duration, .name = names[i]}));
        at += duration + (int64_t)random_below(&w->random, 20);
    }
}

static void add_to(Build *b, const Event *event, int64_t unit)
{
    int64_t start = event->start * unit, duration = event->duration * unit;

    if (event->kind == PROFILE_COPY)
        build_copy(b, event->device, event->lane, start, duration, 64, event->name, event->link);
    else if (event->kind == PROFILE_KERNEL)
        build_kernel(b, event->device, event->lane, start, duration, event->name, event->link);
    else
        build_host(b, event->kind, event->lane, start, duration, event->name, event->link);
}

void wild_build(Build *b, const WildShape *shape)
{
    Wild w = {.shape = shape, .random = {shape->seed * UINT64_C(0x9e3779b97f4a7c15) | 1}};
    Random order = {shape->shuffle | 1};

    build_init(b);
    for (unsigned int thread = 1; thread <= shape->threads; thread++)
        fill(&w, thread, (int64_t)random_below(&w.random, 100), shape->length, 0);
    if (shape->steps)
        add_steps(&w);
    for (size_t i = w.events.len; shape->shuffle && i > 1; i--) {
        size_t other = random_below(&order, i);
        Event swap = w.events.at[i - 1];

        w.events.at[i - 1] = w.events.at[other];
        w.events.at[other] = swap;
    }
    for (size_t i = 0; i < w.events.len; i++)
        add_to(b, &w.events.at[i], shape->unit);
    vec_done(&w.events);
    build_seal(b);
}

WildShape wild_shape(uint64_t seed)
{
    Random r = {seed * UINT64_C(0xd1342543de82ef95) | 1};

    random_below(&r, 2);
    return (WildShape){.seed = seed,
                       .unit = random_once(&r, 2) ? 1 : 997,
                       .length = 100 + (int64_t)random_below(&r, 1500),
                       .threads = 1 + (unsigned int)random_below(&r, 3),
                       .devices = 1 + (unsigned int)random_below(&r, 3),
                       .streams = 1 + (unsigned int)random_below(&r, 3),
                       .steps = random_once(&r, 2)};
}
