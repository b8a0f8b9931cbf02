/* SPDX-License-Identifier: Apache-2.0 */
/* Critical path: engine/trace/path.c. Times in the comments are microseconds. */
#include <stdlib.h>
#include <string.h>

#include "engine/trace/analyse.h"
#include "kit.h"

/* The path of the only range, in microseconds by kind. */
static const TracePath *path_of(Kit *kit)
{
    kit_seal(kit);
    kit_run(kit, trace_paths, &kit->rank);
    assert_int_equal(kit->rank.paths.len, 1);
    return &kit->rank.paths.at[0];
}

static void check(const TracePath *path, int64_t total, int64_t host, int64_t compute, int64_t launch, int64_t queue)
{
    assert_int_equal(path->total_ns, total * US);
    assert_int_equal(path->by_kind_ns[TRACE_PATH_HOST], host * US);
    assert_int_equal(path->by_kind_ns[TRACE_PATH_COMPUTE], compute * US);
    assert_int_equal(path->by_kind_ns[TRACE_PATH_LAUNCH], launch * US);
    assert_int_equal(path->by_kind_ns[TRACE_PATH_QUEUE], queue * US);
}

static int64_t named(const TracePath *path, const char *name)
{
    int64_t sum = 0;
    for (size_t i = 0; i < path->names.len; i++)
        sum += strcmp(path->names.at[i].name, name) == 0 ? path->names.at[i].total_ns : 0;
    return sum / US;
}

/* Calls at 0, 5, 10; kernels [10, 110), [112, 200), [200, 300): the GPU is what everything waits for.
 * Path: call 5, latency 5 (5..10), a 100, queue 2, b 88, c 100. */
static void bound_by_the_gpu(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_launched(&kit, 100, 0, 7, "a", 10, 100, 1);
    kit_launched(&kit, 100, 5, 7, "b", 112, 88, 2);
    kit_launched(&kit, 100, 10, 7, "c", 200, 100, 3);
    const TracePath *path = path_of(&kit);
    check(path, 300, 5, 288, 5, 2);
    assert_string_equal(path->what, "all");
    assert_string_equal(path->names.at[0].name, "a"); /* a and c: equal, by name */
    assert_int_equal(named(path, "cudaLaunchKernel"), 5);
    kit_done(&kit);
}

/* An operator of 50 us before each launch, kernels of 10: the host is. op [0, 50) call [50, 55) a [60, 70)
 * op [55, 105) call [105, 110) b [115, 125). Path: 110 on the host, 5 to start, 10 of b. */
static void bound_by_the_host(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_host(&kit, PROFILE_OP, 100, "op1", 0, 50, 0);
    kit_launched(&kit, 100, 50, 7, "a", 60, 10, 1);
    kit_host(&kit, PROFILE_OP, 100, "op2", 55, 50, 0);
    kit_launched(&kit, 100, 105, 7, "b", 115, 10, 2);
    const TracePath *path = path_of(&kit);
    check(path, 125, 110, 10, 5, 0);
    assert_int_equal(named(path, "op1"), 50);
    assert_int_equal(named(path, "cudaLaunchKernel"), 10);
    kit_done(&kit);
}

/* The host waits for a until 110, then thinks 40 and launches b: call [0, 5) a [10, 100), sync [5, 104), op [104, 144),
 * call [144, 149), b [150, 160). Path: 5 + 5 latency + 90 a + 4 back + 40 + 5 + 1 latency + 10. */
static void through_a_synchronisation(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_launched(&kit, 100, 0, 7, "a", 10, 90, 1);
    kit_host(&kit, PROFILE_CALL, 100, "cudaStreamSynchronize", 5, 99, 0);
    kit_host(&kit, PROFILE_OP, 100, "op", 104, 40, 0);
    kit_launched(&kit, 100, 144, 7, "b", 150, 10, 2);
    const TracePath *path = path_of(&kit);
    check(path, 160, 5 + 4 + 40 + 5, 100, 6, 0);
    assert_int_equal(named(path, "cudaStreamSynchronize"), 4);
    assert_int_equal(named(path, "a"), 5 + 90); /* until it began, and itself */
    kit_done(&kit);
}

/* The same with clocks that differ: the kernel seems to end 2 us after the call that waited for it. */
static void synchronisation_with_skew(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_launched(&kit, 100, 0, 7, "a", 10, 96, 1);
    kit_host(&kit, PROFILE_CALL, 100, "cudaStreamSynchronize", 5, 99, 0);
    kit_host(&kit, PROFILE_OP, 100, "op", 104, 40, 0);
    kit_launched(&kit, 100, 144, 7, "b", 150, 10, 2);
    const TracePath *path = path_of(&kit);
    check(path, 160, 5 + 40 + 5, 94 + 10, 6, 0);
    kit_done(&kit);
}

/* Of operations that all run to the end: what computes before what communicates or copies, of these the one that began
 * last, else that of the lower stream. In either order of the streams. */
static void of_several_that_run_to_the_end(void **state)
{
    static const struct {
        const char *chosen, *other;
        int64_t chosen_start, other_start;
    } cases[] = {
        {"a", "ncclDevKernel_AllReduce", 100, 200},
        {"a", "Memcpy HtoD (Pinned -> Device)", 100, 200},
        {"ncclDevKernel_AllReduce", "Memcpy HtoD (Pinned -> Device)", 100, 200},
        {"a", "b", 200, 100},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const int64_t start = cases[i / 2].chosen_start, other = cases[i / 2].other_start;
        Kit kit;
        kit_init(&kit);
        kit_launched(&kit, 100, 0, i % 2 ? 7 : 8, cases[i / 2].chosen, start, 300 - start, 1);
        kit_launched(&kit, 100, 5, i % 2 ? 8 : 7, cases[i / 2].other, other, 300 - other, 2);
        const TracePath *path = path_of(&kit);
        assert_in_range(named(path, cases[i / 2].chosen), 300 - start, 300);
        assert_int_equal(named(path, cases[i / 2].other), 0);
        kit_done(&kit);
    }
    for (int first = 7; first <= 8; first++) {
        Kit kit;
        kit_init(&kit);
        kit_launched(&kit, 100, 0, first, first == 7 ? "on 7" : "on 8", 150, 150, 1);
        kit_launched(&kit, 100, 5, 15 - first, first == 7 ? "on 8" : "on 7", 150, 150, 2);
        const TracePath *path = path_of(&kit);
        assert_in_range(named(path, "on 7"), 150, 300);
        assert_int_equal(named(path, "on 8"), 0);
        kit_done(&kit);
    }
}

/* All launched at once; b on another stream begins when a has ended, as an event wait makes it do. Nobody recorded the
 * wait in the first round; in the second it is recorded, and for the stream that ended earlier. */
static void across_streams(void **state)
{
    (void)state;
    for (int recorded = 0; recorded < 2; recorded++) {
        Kit kit;
        kit_init(&kit);
        kit_launched(&kit, 100, 0, 7, "a", 10, 190, 1);
        kit_launched(&kit, 100, 5, 9, "other", 20, 100, 2);
        kit_launched(&kit, 100, 10, 8, "ncclDevKernel_AllReduce", 203, 100, 3);
        if (recorded) {
            ProfileSync sync = {.start = 9 * US,
                                .name = kit_name(&kit, "Stream Wait Event"),
                                .device = 0,
                                .stream = 8,
                                .wait_stream = 9};
            vec_push(&kit.profile.syncs, sync);
        }
        const TracePath *path = path_of(&kit);
        assert_int_equal(path->by_kind_ns[TRACE_PATH_COMMUNICATION], 100 * US);
        if (recorded)
            check(path, 303, 10, 100, 10, 83); /* calls [0, 10), latency 10, other [20, 120), queue, all_reduce */
        else
            check(path, 303, 5, 190, 5, 3); /* call, latency 5, a, queue 3, all_reduce */
        kit_done(&kit);
    }
}

/* DataLoader [0, 70) with an operator inside, then a launch. */
static void data_loading(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 70, 0);
    kit_host(&kit, PROFILE_OP, 100, "aten::stack", 20, 30, 0);
    kit_launched(&kit, 100, 75, 7, "a", 90, 10, 1);
    const TracePath *path = path_of(&kit);
    assert_int_equal(path->by_kind_ns[TRACE_PATH_DATA], 70 * US);
    check(path, 100, 10, 10, 10, 0); /* 5 of nothing, 5 of the call */
    assert_int_equal(named(path, "aten::stack"), 30);
    assert_int_equal(named(path, "(no event)"), 5);
    kit_done(&kit);
}

/* Forward on thread 100 until 50, backward on thread 200 in [60, 150), the optimizer on 100 from 160 on; thread 100 is
 * in the step's annotation all the time. The path goes over to the other thread and back. */
static void over_to_the_backward_thread(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "ProfilerStep#3", 0, 200, 0);
    kit_host(&kit, PROFILE_OP, 100, "forward", 0, 50, 0);
    kit_launched(&kit, 100, 40, 7, "f", 50, 10, 1);
    kit_host(&kit, PROFILE_OP, 200, "backward", 60, 90, 0);
    kit_launched(&kit, 200, 140, 7, "b", 150, 5, 2);
    kit_host(&kit, PROFILE_OP, 100, "optimizer", 160, 40, 0);
    kit_launched(&kit, 100, 180, 7, "o", 190, 15, 3);
    const TracePath *path = path_of(&kit);
    assert_string_equal(path->what, "ProfilerStep#3");
    /* o's end 205: o 15, latency 5, call 5, optimizer 20 (160..180), step 10, backward 85 + call 5, nothing 10, forward
     */
    check(path, 205, 185, 15, 5, 0);
    assert_int_equal(named(path, "backward"), 85);
    assert_int_equal(named(path, "forward"), 45);
    assert_int_equal(named(path, "optimizer"), 20);
    assert_int_equal(named(path, "ProfilerStep#3"), 10);
    assert_int_equal(named(path, "(no event)"), 10);
    kit_done(&kit);
}

/* Of more than 64 streams, those with most operations are walked: here all others have two. */
static void most_streams_are_enough(void **state)
{
    (void)state;
    for (int others = 63; others <= 64; others++) {
        uint32_t link = 0;
        Kit kit;
        kit_init(&kit);
        for (int stream = 10; stream < 10 + others; stream++) {
            kit_launched(&kit, 100, stream, stream, "busy", 200, 10, ++link);
            kit_launched(&kit, 100, stream, stream, "busy", 210, 10, ++link);
        }
        kit_launched(&kit, 100, 150, 7, "lonely", 300, 100, ++link);
        assert_int_equal(named(path_of(&kit), "lonely"), others == 63 ? 180 : 0); /* 80 of its queue */
        kit_done(&kit);
    }
}

/* Each step has a path of its own and begins where the one before ends. */
static void per_step(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    for (int i = 0; i < 3; i++) {
        kit_host(&kit, PROFILE_ANNOTATION, 100,
                 (const char *[]){"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"}[i], i * 100, 90, 0);
        kit_launched(&kit, 100, i * 100 + 10, 7, "k", i * 100 + 20, 60, (uint32_t)i + 1);
        kit_host(&kit, PROFILE_CALL, 100, "cudaDeviceSynchronize", i * 100 + 15, 70, 0);
    }
    kit_seal(&kit);
    kit_run(&kit, trace_paths, &kit.rank);
    assert_int_equal(kit.rank.paths.len, 3);
    for (size_t i = 0; i < 3; i++) {
        const TracePath *path = &kit.rank.paths.at[i];
        assert_int_equal(path->by_kind_ns[TRACE_PATH_COMPUTE], 60 * US);
        assert_int_equal(path->by_kind_ns[TRACE_PATH_LAUNCH], 5 * US);
        assert_int_equal(path->total_ns, (i < 2 ? 100 : 90) * US);
    }
    kit_done(&kit);
}

/* Nothing at all; only a GPU; only a host. */
static void one_side_alone(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_seal(&kit);
    kit_run(&kit, trace_paths, &kit.rank);
    assert_int_equal(kit.rank.paths.len, 0);
    kit_done(&kit);
    kit_init(&kit);
    kit_gpu(&kit, 0, 7, "a", 0, 10, 0);
    kit_gpu(&kit, 0, 7, "b", 30, 10, 0);
    check(path_of(&kit), 40, 0, 20, 0, 20);
    kit_done(&kit);
    kit_init(&kit);
    kit_host(&kit, PROFILE_OP, 100, "a", 0, 10, 0);
    kit_host(&kit, PROFILE_OP, 100, "b", 30, 10, 0);
    check(path_of(&kit), 40, 40, 0, 0, 0);
    kit_done(&kit);
}

/*   stream 7  |------------a------------|
 *               |--b--|
 *   stream 9  |c|                            The last one to end is a.   */
static void operations_of_a_stream_overlap(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_gpu(&kit, 0, 7, "a", 0, 100, 0);
    kit_gpu(&kit, 0, 7, "b", 10, 10, 0);
    kit_gpu(&kit, 0, 9, "c", 0, 5, 0);
    check(path_of(&kit), 100, 0, 100, 0, 0);
    kit_done(&kit);
}

/* ---- random profiles ---- */

typedef struct Plan {
    struct {
        bool gpu;
        ProfileKind kind;
        int64_t lane, start, us;
        const char *name;
        uint32_t link;
    } events[400];
    size_t len;
} Plan;

static void plan_add(Plan *plan, bool gpu, ProfileKind kind, int64_t lane, const char *name, int64_t start, int64_t us,
                     uint32_t link)
{
    plan->events[plan->len].gpu = gpu;
    plan->events[plan->len].kind = kind;
    plan->events[plan->len].lane = lane;
    plan->events[plan->len].name = name;
    plan->events[plan->len].start = start;
    plan->events[plan->len].us = us;
    plan->events[plan->len].link = link;
    plan->len++;
}

/* Threads with operators, launches and synchronisations; `wild`: anything anywhere, overlapping as it likes. */
static void make_plan(Plan *plan, KitRandom *random, bool wild)
{
    static const char *const kernels[] = {"gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD (Pageable -> Device)", "add"};
    uint32_t link = 1;
    plan->len = 0;
    int64_t stream_free[3] = {0};
    for (int64_t thread = 100; thread < 102; thread++) {
        int64_t time = kit_between(random, 0, 50);
        while (time < 2000 && plan->len < 190 * (size_t)(thread - 99)) {
            int64_t length = kit_between(random, 0, 60), at = wild ? kit_between(random, 0, 2000) : time;
            switch (kit_random(random) % 5) {
            case 0:
                plan_add(plan, false, PROFILE_CALL, thread, "cudaDeviceSynchronize", at, length, 0);
                break;
            case 1:
                plan_add(plan, false, PROFILE_PYTHON, thread, "py", at, length, 0);
                break;
            case 2:
                plan_add(plan, false, PROFILE_OP, thread, "aten::mm", at, length, 0);
                break;
            default: {
                int64_t stream = (int64_t)(kit_random(random) % 3);
                int64_t begin = at + kit_between(random, wild ? -20 : 5, 30), us = kit_between(random, 0, 80);
                begin = !wild && begin < stream_free[stream] ? stream_free[stream] : begin;
                plan_add(plan, false, PROFILE_CALL, thread, "cudaLaunchKernel", at, 5, link);
                plan_add(plan, true, PROFILE_KERNEL, stream, kernels[kit_random(random) % 4], begin, us,
                         kit_random(random) % 8 ? link : 0);
                stream_free[stream] = begin + us;
                link++;
                length = 5;
            }
            }
            time += length + kit_between(random, 0, 20);
        }
    }
}

static void build(Kit *kit, const Plan *plan, KitRandom *order)
{
    size_t at[400];
    for (size_t i = 0; i < plan->len; i++)
        at[i] = i;
    for (size_t i = plan->len; order && i > 1; i--) {
        size_t other = kit_random(order) % i, last = at[i - 1];
        at[i - 1] = at[other];
        at[other] = last;
    }
    kit_init(kit);
    for (size_t i = 0; i < plan->len; i++) {
        size_t e = at[i];
        if (plan->events[e].gpu)
            kit_gpu(kit, 0, plan->events[e].lane, plan->events[e].name, plan->events[e].start, plan->events[e].us,
                    plan->events[e].link);
        else
            kit_host(kit, plan->events[e].kind, plan->events[e].lane, plan->events[e].name, plan->events[e].start,
                     plan->events[e].us, plan->events[e].link);
    }
    kit_seal(kit);
    kit_run(kit, trace_paths, &kit->rank);
}

static int64_t sum_of(const TracePath *path)
{
    int64_t sum = 0;
    for (int i = 0; i < TRACE_PATH_KIND_COUNT; i++)
        sum += path->by_kind_ns[i];
    return sum;
}

static void adds_up_in_any_order(void **state)
{
    (void)state;
    static Plan plan;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        KitRandom random = {.state = seed};
        Kit kit, other;
        make_plan(&plan, &random, seed % 2);
        build(&kit, &plan, NULL);
        build(&other, &plan, &random);
        assert_int_equal(kit.rank.paths.len, 1);
        const TracePath *path = &kit.rank.paths.at[0], *same = &other.rank.paths.at[0];
        assert_int_equal(sum_of(path), path->total_ns);
        assert_memory_equal(path->by_kind_ns, same->by_kind_ns, sizeof(path->by_kind_ns));
        int64_t names = 0;
        assert_int_equal(path->names.len, same->names.len);
        for (size_t i = 0; i < path->names.len; i++) {
            assert_string_equal(path->names.at[i].name, same->names.at[i].name);
            assert_int_equal(path->names.at[i].count, same->names.at[i].count);
            names += path->names.at[i].total_ns;
        }
        assert_int_equal(names, path->total_ns);
        kit_done(&kit);
        kit_done(&other);
    }
}

/* ---- a second, plain implementation for one stream and one thread: looks at every event at every turn ---- */

typedef struct Plain {
    const TraceIndex *index;
    const Profile *profile;
    int64_t time, from, jumped;
    int64_t kinds[TRACE_PATH_KIND_COUNT];
    bool used[400];
} Plain;

static void plain_take(Plain *plain, int64_t to, TracePathKind kind)
{
    to = to < plain->from ? plain->from : to;
    if (to < plain->time) {
        plain->kinds[kind] += plain->time - to;
        plain->time = to;
    }
}

/* The unused operation that ended last by now. */
static uint32_t plain_last(const Plain *plain)
{
    const ProfileEvents *gpu = &plain->profile->gpu;
    uint32_t best = PROFILE_NONE;
    for (uint32_t i = 0; i < gpu->len; i++) {
        if (!plain->used[i] && profile_end(gpu, i) <= plain->time &&
            (best == PROFILE_NONE || profile_end(gpu, i) >= profile_end(gpu, best)))
            best = i;
    }
    return best;
}

static uint32_t plain_running(const Plain *plain)
{
    const ProfileEvents *gpu = &plain->profile->gpu;
    for (uint32_t i = 0; i < gpu->len; i++) {
        if (!plain->used[i] && gpu->start[i] < plain->time && profile_end(gpu, i) >= plain->time)
            return i;
    }
    return PROFILE_NONE;
}

static void plain_use(Plain *plain, uint32_t row)
{
    for (uint32_t i = row; i < plain->profile->gpu.len; i++)
        plain->used[i] = true;
}

/* One turn on the GPU; PROFILE_NONE: goes on at the host. */
static uint32_t plain_gpu(Plain *plain, uint32_t row)
{
    const ProfileEvents *gpu = &plain->profile->gpu, *host = &plain->profile->host;
    static const TracePathKind kinds[] = {TRACE_PATH_COMPUTE, TRACE_PATH_COMMUNICATION, TRACE_PATH_COPY};
    plain_use(plain, row);
    plain_take(plain, gpu->start[row], kinds[plain->index->gpu_class[row]]);
    uint32_t call = plain->index->launch[row], before = plain_last(plain);
    int64_t ready = call == PROFILE_NONE ? INT64_MIN : profile_end(host, call);
    ready = ready > plain->time ? plain->time : ready;
    if (before != PROFILE_NONE && profile_end(gpu, before) >= ready) {
        plain_take(plain, profile_end(gpu, before), TRACE_PATH_QUEUE);
        return before;
    }
    plain_take(plain, call == PROFILE_NONE ? plain->time : ready, TRACE_PATH_LAUNCH);
    return PROFILE_NONE;
}

/* One turn on the host: a nanosecond belongs to the innermost event, which is the one that began last. */
static uint32_t plain_host(Plain *plain)
{
    const ProfileEvents *gpu = &plain->profile->gpu, *host = &plain->profile->host;
    uint32_t owner = PROFILE_NONE;
    int64_t until = plain->from;
    for (uint32_t i = 0; i < host->len; i++) {
        if (host->start[i] < plain->time && profile_end(host, i) >= plain->time)
            owner = i;
        if (profile_end(host, i) < plain->time && profile_end(host, i) > until)
            until = profile_end(host, i);
    }
    if (owner != PROFILE_NONE && host->start[owner] > until)
        until = host->start[owner];
    if (owner != PROFILE_NONE && plain->index->host_class[owner] == TRACE_HOST_SYNC) {
        uint32_t done = plain_running(plain);
        int64_t end = plain->time;
        if (done == PROFILE_NONE || profile_end(gpu, done) > plain->time + 5 * US) {
            done = plain_last(plain);
            end = done == PROFILE_NONE ? INT64_MIN : profile_end(gpu, done);
        }
        if (done != PROFILE_NONE && end > host->start[owner] && end < plain->jumped) {
            plain_take(plain, end, TRACE_PATH_HOST);
            plain->jumped = end;
            return done;
        }
    }
    plain_take(plain, until, TRACE_PATH_HOST);
    return PROFILE_NONE;
}

static void as_the_plain_one(void **state)
{
    (void)state;
    static const char *const kernels[] = {"gemm", "ncclDevKernel_AllReduce", "Memcpy DtoD (Device -> Device)"};
    for (uint64_t seed = 1; seed <= 500; seed++) {
        KitRandom random = {.state = seed * 77};
        Kit kit;
        int64_t time = 0, free_at = 0;
        kit_init(&kit);
        for (uint32_t i = 1; i <= 60; i++) {
            int64_t length = kit_between(&random, 1, 60);
            if (kit_random(&random) % 4 == 0)
                kit_host(&kit, PROFILE_CALL, 100, "cudaDeviceSynchronize", time, length, 0);
            else
                kit_host(&kit, PROFILE_OP, 100, "outer", time, length, 0);
            if (length > 8) /* a launch inside */
                kit_host(&kit, PROFILE_CALL, 100, "cudaLaunchKernel", time + 2, 5, i);
            int64_t begin = time + kit_between(&random, 1, 40);
            begin = begin < free_at ? free_at : begin;
            free_at = begin + kit_between(&random, 1, 50);
            if (length > 8)
                kit_gpu(&kit, 0, 7, kernels[kit_random(&random) % 3], begin, free_at - begin, i);
            time += length + kit_between(&random, 0, 9);
        }
        const TracePath *path = path_of(&kit);
        Plain plain = {.index = &kit.index, .profile = &kit.profile, .jumped = INT64_MAX};
        plain.time = path->total_ns; /* the first operator begins at 0 */
        uint32_t row = plain_running(&plain);
        while (plain.time > 0)
            row = row == PROFILE_NONE ? plain_host(&plain) : plain_gpu(&plain, row);
        assert_memory_equal(plain.kinds, path->by_kind_ns, sizeof(plain.kinds));
        kit_done(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_by_the_gpu),
        cmocka_unit_test(bound_by_the_host),
        cmocka_unit_test(through_a_synchronisation),
        cmocka_unit_test(synchronisation_with_skew),
        cmocka_unit_test(of_several_that_run_to_the_end),
        cmocka_unit_test(across_streams),
        cmocka_unit_test(data_loading),
        cmocka_unit_test(over_to_the_backward_thread),
        cmocka_unit_test(most_streams_are_enough),
        cmocka_unit_test(per_step),
        cmocka_unit_test(one_side_alone),
        cmocka_unit_test(operations_of_a_stream_overlap),
        cmocka_unit_test(adds_up_in_any_order),
        cmocka_unit_test(as_the_plain_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
