/* SPDX-License-Identifier: Apache-2.0 */
/* The trace scanner over a text as PyTorch's profiler writes it (about 260 bytes and 28 quotes an event), of SCAN_MIB
 * MiB (default 64): the whole of it per iteration, in one thread, in two and as a stream, beside what only looks at the
 * bytes. The text is in memory; a copy of each block stands for reading it. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "engine/trace/scan/scan.h"

static Str text;
static size_t events;

static uint32_t below(uint32_t count)
{
    static uint32_t seed = 1;

    seed = seed * 1664525 + 1013904223;
    return (seed >> 9) % count;
}

static void add_op(unsigned int n, const char *ts)
{
    static const char *const names[] = {"aten::empty",      "aten::mm",
                                        "aten::_to_copy",   "aten::native_layer_norm",
                                        "aten::as_strided", "autograd::engine::evaluate_function: AddmmBackward0"};

    str_addf(&text,
             "  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 2910249, \"tid\": %d,\n    "
             "\"ts\": %s, \"dur\": %u.%03u,\n"
             "    \"args\": {\n      \"External id\": %u,\"Record function id\": 0, \"Ev Idx\": %u\n    }\n  },\n",
             names[n % 6], below(4) ? 2910249 : 2919752, ts, below(300), below(1000), n, n);
}

static void add_launch(unsigned int n, const char *ts)
{
    str_addf(&text,
             "  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 2910249, "
             "\"tid\": 2910249,\n"
             "    \"ts\": %s, \"dur\": %u.%03u,\n    \"args\": {\n      \"External id\": %u,\"cbid\": 211, "
             "\"correlation\": %u\n    }\n  },\n"
             "  {\n    \"ph\": \"s\", \"id\": %u, \"pid\": 2910249, \"tid\": 2910249, \"ts\": %s,\n    \"cat\": "
             "\"ac2g\", \"name\": \"ac2g\"\n  },\n",
             ts, below(30), below(1000), n, n, n, ts);
}

static void add_kernel(unsigned int n, const char *ts)
{
    static const char *const functors[] = {"FillFunctor", "CUDAFunctor_add", "BinaryFunctor", "AUnaryFunctor"};
    const char *functor = functors[below(4)];

    str_addf(
        &text,
        "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void at::native::vectorized_elementwise_kernel<4, "
        "at::native::%s<float>, "
        "at::detail::Array<char*, 1> >(int, at::native::%s<float>, at::detail::Array<char*, 1>)\", \"pid\": 0, "
        "\"tid\": 7,\n"
        "    \"ts\": %s, \"dur\": %u.%03u,\n    \"args\": {\n      \"External id\": %u,\n      \"queued\": 0, "
        "\"device\": 0, \"context\": 1,\n"
        "      \"stream\": 7, \"correlation\": %u,\n      \"registers per thread\": 16,\n      \"shared memory\": 0,\n"
        "      \"blocks per SM\": 0.3,\n      \"warps per SM\": 1.2,\n      \"grid\": [%u, 1, 1],\n      \"block\": "
        "[128, 1, 1],\n"
        "      \"est. achieved occupancy %%\": 2\n    }\n  },\n"
        "  {\n    \"ph\": \"f\", \"id\": %u, \"pid\": 0, \"tid\": 7, \"ts\": %s,\n    \"cat\": \"ac2g\", \"name\": "
        "\"ac2g\", \"bp\": \"e\"\n  },\n",
        functor, functor, ts, below(90), below(1000), n, n, 8 * (1 + below(40)), n, ts);
}

static void make_text(size_t bytes)
{
    uint64_t now = 4458676522690655;

    str_init(&text, bytes + 4096);
    str_add(&text, "{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n");
    for (unsigned int n = 1000; text.len < bytes; n++) {
        char ts[32];

        now += 500 + below(8000);
        snprintf(ts, sizeof ts, "%llu.%03llu", (unsigned long long)(now / 1000), (unsigned long long)(now % 1000));
        add_op(n, ts);
        if (n % 2) {
            add_launch(n, ts);
            add_kernel(n, ts);
        }
    }
    str_cut(&text, text.len - 2);
    str_add(&text, "\n  ],\n  \"traceName\": \"bench.json\"\n}");
}

static ssize_t read_text(void *context, void *buffer, size_t len, Err *err)
{
    size_t *at = context;

    (void)err;
    len = len < text.len - *at ? len : text.len - *at;
    memcpy(buffer, text.text + *at, len);
    *at += len;
    return (ssize_t)len;
}

static void scan(size_t n, unsigned int threads)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        const TraceSource source = {.read = read_text, .context = &at};
        Profile profile;
        Err err = {0};

        profile_init(&profile);
        if (trace_scan_parallel(&source, NULL, threads, &profile, &err) < 0 || profile_lost(&profile))
            abort();
        events = (size_t)profile.events;
        profile_done(&profile);
    }
}

static void one_thread(size_t n)
{
    scan(n, 1);
}

static void two_threads(size_t n)
{
    scan(n, 2);
}

static void quotes(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t count = 0;

        for (const char *p = text.text; (p = memchr(p, '"', (size_t)(text.text + text.len - p))); p++)
            count++;
        bench_use(&count);
    }
}

static void copy_blocks(size_t n)
{
    static char block[256 << 10];

    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < text.len; at += sizeof block) {
            memcpy(block, text.text + at, text.len - at < sizeof block ? text.len - at : sizeof block);
            bench_use(block);
        }
}

int main(void)
{
    static const Bench list[] = {
        {.name = "trace scan, one thread", .run = one_thread, .most = 1},
        {.name = "trace scan, two threads", .run = two_threads, .most = 1},
        {.name = "memchr over the quotes", .run = quotes, .most = 1},
        {.name = "copy in blocks", .run = copy_blocks, .most = 1},
    };
    const char *mib = getenv("SCAN_MIB");

    make_text((size_t)(mib ? atoi(mib) : 64) << 20);
    bench_all(list, sizeof list / sizeof list[0]);
    scan(1, 1);
    fprintf(stderr, "%zu bytes, %zu events\n", text.len, events);
    str_done(&text);
    return 0;
}
