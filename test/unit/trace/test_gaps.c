/* SPDX-License-Identifier: Apache-2.0 */
/* Why the GPU was idle, in cases as they are met (engine/trace/gaps*.c). Times in microseconds. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "build.h"

#define US INT64_C(1000)

/* A first kernel [0, 100) and a last [1000, 1010), with what the host did between; what comes of the gap between. */
typedef struct Case {
    Build b;
    TraceRank rank;
    const TraceGap *gap;
} Case;

static void begin(Case *c)
{
    build_init(&c->b);
    build_launch(&c->b, 1, -20 * US, 10 * US, 0, 7, 0, 100 * US, "before");
}

/* The last kernel is launched at `launch`. */
static void end(Case *c, int64_t launch)
{
    build_launch(&c->b, 1, launch * US, 5 * US, 0, 7, 1000 * US, 10 * US, "after");
    build_seal(&c->b);
    build_rank(&c->b, &c->rank);
    assert_true(c->rank.gaps.len >= 1);
    c->gap = &c->rank.gaps.at[0];
    assert_int_equal(c->gap->start, 100 * US);
    assert_int_equal(c->gap->end, 1000 * US);
    assert_string_equal(c->gap->before, "before");
    assert_string_equal(c->gap->after, "after");
}

static void done(Case *c)
{
    build_rank_done(&c->rank);
    build_done(&c->b);
}

static void check_cause(const Case *c, TraceCause cause, int64_t slice_us)
{
    if (c->gap->cause != cause)
        fail_msg("%s, not %s", trace_cause_words[c->gap->cause], trace_cause_words[cause]);
    assert_int_equal(c->gap->slice_ns[cause], slice_us * US);
    assert_int_equal(c->rank.idle_by_cause[cause].total_ns, 900 * US);
}

static void loader(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_range(&c.b, 1, 150 * US, 700 * US, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
    build_op(&c.b, 1, 200 * US, 600 * US, "aten::stack");
    build_call(&c.b, 1, 820 * US, 10 * US, "cudaHostAlloc", 0);
    build_op(&c.b, 1, 980 * US, 20 * US, "aten::conv2d");
    build_op(&c.b, 9, 0, 2000 * US, "aten::resize"); /* a worker's thread does not count */
    end(&c, 990);
    check_cause(&c, TRACE_CAUSE_DATA_LOADING, 700);
    assert_string_equal(c.gap->host, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
    assert_int_equal(c.gap->host_ns, 700 * US);
    assert_string_equal(c.gap->thread, "1");
    done(&c);
}

/* Frames of the loader in Python, with what they call. */
static void loader_with_stack(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_python(&c.b, 1, -100 * US, 3000 * US, "train.py(10): main");
    build_python(&c.b, 1, 150 * US, 700 * US, "torch/utils/data/dataloader.py(628): __next__");
    build_python(&c.b, 1, 160 * US, 600 * US, "my_dataset.py(7): __getitem__");
    end(&c, 990);
    check_cause(&c, TRACE_CAUSE_DATA_LOADING, 700);
    assert_int_equal(c.gap->slice_ns[TRACE_CAUSE_PYTHON], (50 + 140) * US);
    assert_string_equal(c.gap->host, "torch/utils/data/dataloader.py(628): __next__");
    done(&c);
}

/* loss.item(): the copy back and the wait for it end shortly behind the last kernel; then Python, then a launch. */
static void item(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_op(&c.b, 1, 20 * US, 90 * US, "aten::item");
    build_op(&c.b, 1, 25 * US, 80 * US, "aten::_local_scalar_dense");
    build_call(&c.b, 1, 40 * US, 64 * US, "cudaStreamSynchronize", 0);
    build_op(&c.b, 1, 600 * US, 395 * US, "aten::add");
    end(&c, 990);
    check_cause(&c, TRACE_CAUSE_SYNCHRONISATION, 10);
    assert_true(c.gap->synced);
    assert_int_equal(c.gap->slice_ns[TRACE_CAUSE_PYTHON], 490 * US);
    assert_int_equal(c.gap->slice_ns[TRACE_CAUSE_HOST_BOUND], 395 * US);
    assert_int_equal(c.gap->slice_ns[TRACE_CAUSE_QUEUED], 5 * US);
    done(&c);
}

/* Behind a wait Python ran for `python_us`, and nothing else for `rest_us`. */
static TraceCause cause_behind_wait(int64_t python_us, int64_t rest_us)
{
    const int64_t launch = 150 + python_us + rest_us;
    Case c;

    begin(&c);
    build_call(&c.b, 1, 40 * US, 64 * US, "cudaStreamSynchronize", 0);
    build_python(&c.b, 1, 150 * US, python_us * US, "train.py(88): update_targets");
    build_op(&c.b, 1, (150 + python_us) * US, rest_us * US, "aten::add");
    build_launch(&c.b, 1, launch * US, 5 * US, 0, 7, (launch + 10) * US, 10 * US, "after");
    build_seal(&c.b);
    build_rank(&c.b, &c.rank);
    const TraceCause cause = c.rank.gaps.at[0].cause;
    assert_true(c.rank.gaps.at[0].synced);
    if (cause == TRACE_CAUSE_PYTHON)
        assert_string_equal(c.rank.gaps.at[0].host, "train.py(88): update_targets");
    done(&c);
    return cause;
}

/* Python that runs for a millisecond is to blame, whatever was waited for before. */
static void long_python_behind_a_wait(void **state)
{
    (void)state;
    assert_int_equal(cause_behind_wait(1000, 100), TRACE_CAUSE_PYTHON);
    assert_int_equal(cause_behind_wait(999, 100), TRACE_CAUSE_SYNCHRONISATION);
    assert_int_equal(cause_behind_wait(1000, 1000), TRACE_CAUSE_SYNCHRONISATION);
}

/* The wait ended 6 us before the kernel, as the clocks say; it began after the kernel's launch, so it was for it. */
static void wait_under_skewed_clocks(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_call(&c.b, 1, 0, 94 * US, "cudaDeviceSynchronize", 0);
    build_op(&c.b, 1, 600 * US, 395 * US, "aten::add");
    end(&c, 990);
    assert_true(c.gap->synced);
    assert_int_equal(c.gap->cause, TRACE_CAUSE_SYNCHRONISATION);
    done(&c);
}

/* A wait that was over long before is none. */
static void launch_bound(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_call(&c.b, 1, 0, 50 * US, "cudaDeviceSynchronize", 0);
    build_op(&c.b, 1, 95 * US, 500 * US, "aten::add");
    build_op(&c.b, 1, 700 * US, 295 * US, "aten::mul");
    build_call(&c.b, 1, 710 * US, 100 * US, "cudaFuncGetAttributes", 0);
    end(&c, 988);
    check_cause(&c, TRACE_CAUSE_HOST_BOUND, 495 + 293);
    assert_false(c.gap->synced);
    assert_string_equal(c.gap->host, "aten::add");
    assert_int_equal(c.gap->slice_ns[TRACE_CAUSE_PYTHON], 105 * US);
    assert_int_equal(c.gap->slice_ns[TRACE_CAUSE_QUEUED], 7 * US);
    done(&c);
}

/* The host was ahead: the work waited for something on the device. */
static void launched_before(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_call(&c.b, 1, 60 * US, 2000 * US, "cudaDeviceSynchronize", 0);
    end(&c, 50);
    check_cause(&c, TRACE_CAUSE_QUEUED, 900);
    done(&c);
}

static void pageable_copy(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_op(&c.b, 1, 110 * US, 895 * US, "aten::copy_");
    build_call(&c.b, 1, 120 * US, 880 * US, "cudaMemcpyAsync", 50);
    build_copy(&c.b, 0, 7, 1000 * US, 2 * US, 1 << 20, "Memcpy HtoD (Pageable -> Device)", 50);
    build_seal(&c.b);
    build_rank(&c.b, &c.rank);
    c.gap = &c.rank.gaps.at[0];
    check_cause(&c, TRACE_CAUSE_COPY, 880);
    done(&c);
}

/* Memory ran out: the allocator frees and allocates. */
static void allocator(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_op(&c.b, 1, 20 * US, 950 * US, "aten::empty");
    build_call(&c.b, 1, 30 * US, 80 * US, "cudaStreamSynchronize", 0);
    build_call(&c.b, 1, 120 * US, 400 * US, "cudaFree", 0);
    build_call(&c.b, 1, 530 * US, 300 * US, "cudaMalloc", 0);
    end(&c, 990);
    check_cause(&c, TRACE_CAUSE_ALLOCATOR, 700);
    assert_true(c.gap->synced);
    assert_string_equal(c.gap->host, "cudaFree");
    done(&c);
}

static void compilation(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_range(&c.b, 1, 100 * US, 800 * US, "entire_frame_compile (dynamo_timed)");
    build_python(&c.b, 1, 110 * US, 700 * US, "torch/fx/graph.py(1): python_code");
    build_call(&c.b, 1, 850 * US, 20 * US, "cuModuleLoadData", 0);
    end(&c, 990);
    check_cause(&c, TRACE_CAUSE_COMPILE, 800);
    done(&c);
}

static void barrier(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_op(&c.b, 1, 105 * US, 800 * US, "c10d::barrier");
    build_python(&c.b, 1, 120 * US, 700 * US, "threading.py(300): wait");
    end(&c, 990);
    check_cause(&c, TRACE_CAUSE_COLLECTIVE_WAIT, 800);
    done(&c);
}

/* The profiler step says that Python runs; only calls are recorded besides. */
static void python_between_operators(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_range(&c.b, 1, -50 * US, 2000 * US, "ProfilerStep#1");
    build_op(&c.b, 1, 985 * US, 12 * US, "aten::mm");
    end(&c, 990);
    check_cause(&c, TRACE_CAUSE_PYTHON, 885);
    assert_int_equal(c.gap->step, 0);
    assert_int_equal(c.rank.steps.at[0].devices.at[0].idle_by_cause[TRACE_CAUSE_PYTHON].count, 3);
    done(&c);
}

static void nothing_but_calls(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    end(&c, 990);
    check_cause(&c, TRACE_CAUSE_UNKNOWN, 890);
    done(&c);
}

/* The backward pass is launched by another thread, which did nothing before; the main thread did. */
static void another_thread_takes_over(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_op(&c.b, 1, 100 * US, 700 * US, "aten::slow_on_the_host");
    build_op(&c.b, 2, 900 * US, 90 * US, "autograd::engine::evaluate_function: MmBackward0");
    build_call(&c.b, 2, 950 * US, 10 * US, "cudaLaunchKernel", 60);
    build_kernel(&c.b, 0, 7, 1000 * US, 10 * US, "after", 60);
    build_seal(&c.b);
    build_rank(&c.b, &c.rank);
    c.gap = &c.rank.gaps.at[0];
    check_cause(&c, TRACE_CAUSE_HOST_BOUND, 700 + 60);
    assert_int_equal(c.gap->slice_ns[TRACE_CAUSE_QUEUED], 40 * US);
    assert_string_equal(c.gap->thread, "2");
    done(&c);
}

/* Without a recorded launch, the thread that launched what was before counts. */
static void launch_not_recorded(void **state)
{
    Case c;

    (void)state;
    begin(&c);
    build_op(&c.b, 1, 100 * US, 890 * US, "aten::add");
    build_kernel(&c.b, 0, 7, 1000 * US, 10 * US, "after", 0);
    build_seal(&c.b);
    build_rank(&c.b, &c.rank);
    c.gap = &c.rank.gaps.at[0];
    check_cause(&c, TRACE_CAUSE_HOST_BOUND, 890);
    assert_int_equal(c.gap->slice_ns[TRACE_CAUSE_UNKNOWN], 10 * US); /* behind the thread's last event */
    done(&c);
}

/* What the host did is a cause of its own. */
static void host_work_by_name(void **state)
{
    static const struct {
        const char *name;
        TraceCause cause;
    } frames[] = {
        {"<built-in function collect>", TRACE_CAUSE_COLLECTING},
        {"transformers/tokenization_utils_base.py(2): __call__", TRACE_CAUSE_TOKENISING},
        {"torch/serialization.py(9): save", TRACE_CAUSE_CHECKPOINT},
        {"logging/__init__.py(1): info", TRACE_CAUSE_LOGGING},
        {"my/video.py(1): read_video_pyav", TRACE_CAUSE_DATA_LOADING},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
        Case c;

        begin(&c);
        build_python(&c.b, 1, -100 * US, 3000 * US, "train.py(10): main");
        build_python(&c.b, 1, 150 * US, 700 * US, frames[i].name);
        build_python(&c.b, 1, 160 * US, 600 * US, "threading.py(7): acquire");
        end(&c, 990);
        check_cause(&c, frames[i].cause, 700);
        assert_string_equal(c.gap->host, frames[i].name);
        done(&c);
    }
}

/* Launches [start_ms, + 5 ms) of a kernel that runs right behind. */
static void slow_launch(Build *b, int64_t start_ms, const char *kernel)
{
    build_launch(b, 1, start_ms * 1000 * US, 5000 * US, 0, 7, (start_ms + 5) * 1000 * US, 1000 * US, kernel);
}

/* A kernel's first launch loads its code; a later one that is as slow is the host's fault. */
static void first_launches(void **state)
{
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_launch(&b, 1, 0, 5 * US, 0, 7, 10 * US, 100 * US, "a");
    slow_launch(&b, 1, "a");
    slow_launch(&b, 10, "b");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.idle_by_cause[TRACE_CAUSE_LOADING].total_ns, 8000 * US);
    assert_int_equal(rank.idle_by_cause[TRACE_CAUSE_LOADING].count, 1);
    assert_int_equal(rank.idle_by_cause[TRACE_CAUSE_HOST_BOUND].count, 1);
    build_rank_done(&rank);
    build_done(&b);
}

/* Idle time with calls of cudaFree of so many milliseconds each, 100 ms apart; a step is as long where there are any.
 */
static TraceCause cause_of_calls(const int64_t *ms, size_t count, bool steps)
{
    TraceCause cause;
    TraceRank rank;
    Build b;

    build_init(&b);
    for (size_t i = 0; i < count; i++) {
        const int64_t at = (int64_t)i * 100000 * US;

        if (steps)
            build_range(&b, 9, at, 100000 * US,
                        i == 0   ? "ProfilerStep#0"
                        : i == 1 ? "ProfilerStep#1"
                                 : "ProfilerStep#2");
        build_call(&b, 1, at + 2000 * US, ms[i] * 1000 * US, "cudaFree", 0);
        build_launch(&b, 1, at + 90000 * US, 5 * US, 0, 7, at + 90010 * US, 100 * US, "a");
    }
    build_seal(&b);
    build_rank(&b, &rank);
    cause = rank.edges.at[0].cause;
    for (size_t i = 0; i < rank.edges.len; i++)
        if (rank.edges.at[i].end == 90010 * US)
            cause = rank.edges.at[i].cause;
    build_rank_done(&rank);
    build_done(&b);
    return cause;
}

/* One call of many seconds makes the context; calls that come back in each step are the allocator's. */
static void context_or_allocator(void **state)
{
    (void)state;
    assert_int_equal(cause_of_calls((int64_t[]){80, 2, 2}, 3, true), TRACE_CAUSE_INITIALISING);
    assert_int_equal(cause_of_calls((int64_t[]){80}, 1, false), TRACE_CAUSE_INITIALISING);
    assert_int_equal(cause_of_calls((int64_t[]){80, 70, 75}, 3, true), TRACE_CAUSE_ALLOCATOR);
    assert_int_equal(cause_of_calls((int64_t[]){80, 70, 75, 70, 70}, 5, false), TRACE_CAUSE_ALLOCATOR);
}

/* Kernels without a recorded launch, and then those of the profile, the first of which waits in the queue. */
static void launched_before_the_profile(void **state)
{
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_op(&b, 1, 0, 700 * US, "aten::mm");
    build_kernel(&b, 0, 7, 10 * US, 50 * US, "old", 0);
    build_kernel(&b, 0, 7, 80 * US, 50 * US, "old", 0);
    build_launch(&b, 1, 60 * US, 5 * US, 0, 7, 600 * US, 50 * US, "new");
    build_kernel(&b, 0, 7, 700 * US, 50 * US, "old", 0); /* not known why this one is not linked */
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.idle_by_cause[TRACE_CAUSE_BEFORE_PROFILE].total_ns, (20 + 470) * US);
    assert_int_equal(rank.idle_by_cause[TRACE_CAUSE_HOST_BOUND].total_ns, 50 * US);
    build_rank_done(&rank);
    build_done(&b);
}

/* The host read a film before the first kernel, in many small frames, and wrote a file after the last. */
static void edges_of_a_profile(void **state)
{
    const TraceGap *edge;
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_python(&b, 1, -300 * US, 1500 * US, "train.py(10): main");
    build_python(&b, 1, -300 * US, 10 * US, "<built-in method enable>");
    build_python(&b, 1, -250 * US, 220 * US, "film.py(3): read_film");
    for (int i = 0; i < 10; i++)
        build_python(&b, 1, (-240 + i * 20) * US, 15 * US, "film.py(9): resize");
    build_python(&b, 1, -25 * US, 20 * US, "model.py(1): forward");
    build_launch(&b, 1, -10 * US, 5 * US, 0, 7, 0, 100 * US, "first");
    build_python(&b, 1, 150 * US, 200 * US, "results.py(5): write");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.gaps.len, 0);
    assert_int_equal(rank.edges.len, 2);
    edge = &rank.edges.at[0];
    assert_int_equal(edge->start, -300 * US);
    assert_int_equal(edge->end, 0);
    assert_string_equal(edge->before, "");
    assert_string_equal(edge->after, "first");
    assert_string_equal(edge->host, "film.py(3): read_film");
    assert_int_equal(edge->host_ns, 220 * US);
    edge = &rank.edges.at[1];
    assert_int_equal(edge->start, 100 * US);
    assert_int_equal(edge->end, 350 * US);
    assert_string_equal(edge->after, "");
    assert_string_equal(edge->host, "results.py(5): write");
    build_rank_done(&rank);
    build_done(&b);
}

/* A part that was cut out of a profile: only frames, and the call that launched, are known before its first moment. */
static void edges_of_a_part(void **state)
{
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_python(&b, 1, -900 * US, 3000 * US, "train.py(10): main");
    build_launch(&b, 1, -500 * US, 5 * US, 0, 7, 0, 100 * US, "first");
    build_op(&b, 1, 10 * US, 20 * US, "aten::mm");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.edges.len, 0);
    build_rank_done(&rank);
    build_done(&b);
}

/* A step begins inside the idle time before the first kernel: what is before it costs the step nothing. */
static void edge_around_a_step(void **state)
{
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    build_op(&b, 1, -400 * US, 90 * US, "aten::empty");
    build_range(&b, 1, -300 * US, 500 * US, "ProfilerStep#1");
    build_op(&b, 1, -280 * US, 270 * US, "aten::read");
    build_launch(&b, 1, -10 * US, 5 * US, 0, 7, 0, 100 * US, "first");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.edges.len, 3);
    assert_int_equal(rank.edges.at[0].start, -300 * US);
    assert_int_equal(rank.edges.at[0].end, 0);
    assert_int_equal(rank.edges.at[0].step, 0);
    assert_string_equal(rank.edges.at[0].host, "aten::read");
    assert_int_equal(rank.edges.at[1].start, -400 * US);
    assert_int_equal(rank.edges.at[1].end, -300 * US);
    assert_int_equal(rank.edges.at[1].step, -1);
    assert_int_equal(rank.edges.at[2].start, 100 * US);
    assert_int_equal(rank.edges.at[2].end, 200 * US);
    build_rank_done(&rank);
    build_done(&b);
}

static void short_gaps(void **state)
{
    TraceRank rank;
    Build b;

    (void)state;
    build_init(&b);
    b.config.gap_threshold_ns = 1000;
    build_launch(&b, 1, 0, 100, 0, 7, 200, 100, "a");
    build_launch(&b, 1, 310, 100, 0, 7, 1299, 100, "b");
    build_launch(&b, 1, 1400, 900, 0, 7, 2399, 100, "c");
    build_seal(&b);
    build_rank(&b, &rank);
    assert_int_equal(rank.idle_by_cause[TRACE_CAUSE_SHORT].count, 1);
    assert_int_equal(rank.idle_by_cause[TRACE_CAUSE_SHORT].total_ns, 999);
    assert_int_equal(rank.idle_by_cause[TRACE_CAUSE_HOST_BOUND].total_ns, 1000);
    build_rank_done(&rank);
    build_done(&b);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(loader),
        cmocka_unit_test(loader_with_stack),
        cmocka_unit_test(item),
        cmocka_unit_test(long_python_behind_a_wait),
        cmocka_unit_test(wait_under_skewed_clocks),
        cmocka_unit_test(launch_bound),
        cmocka_unit_test(launched_before),
        cmocka_unit_test(pageable_copy),
        cmocka_unit_test(allocator),
        cmocka_unit_test(compilation),
        cmocka_unit_test(barrier),
        cmocka_unit_test(python_between_operators),
        cmocka_unit_test(nothing_but_calls),
        cmocka_unit_test(another_thread_takes_over),
        cmocka_unit_test(launch_not_recorded),
        cmocka_unit_test(host_work_by_name),
        cmocka_unit_test(first_launches),
        cmocka_unit_test(context_or_allocator),
        cmocka_unit_test(launched_before_the_profile),
        cmocka_unit_test(edges_of_a_profile),
        cmocka_unit_test(edges_of_a_part),
        cmocka_unit_test(edge_around_a_step),
        cmocka_unit_test(short_gaps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
