/* SPDX-License-Identifier: Apache-2.0 */
/* Writes profiles as PyTorch's profiler writes them, of any size: a training loop of several ranks whose layers run
 * nested operators, launch kernels through the CUDA runtime, reduce gradients in buckets while the backward pass goes
 * on, copy a batch in and read a loss back. The whole loop is played for all ranks at once, so that the collectives of
 * all files meet; the same seed gives the same bytes. One line of JSON per file on stdout says what was written.
 *
 * usage: gen_trace [--size MB] [--steps N] [--ranks N] [--seed N] [--python] [--memory] [--straggler RANK] OUT
 *        OUT is a file (.json or .json.gz); with --ranks over 1 a folder */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/gzip.h"
#include "base/number.h"
#include "base/cleanup.h"

enum { RANKS_MAX = 64, BUFFER = 1 << 20, EVENT_MAX = 4096, BUCKET_LAYERS = 4, OPS_OF_LAYER = 6 };
enum { QUEUE_MAX = 1024 }; /* launches that a stream takes before the next one waits */
enum { PID = 1200, MAIN_TID = 1200, BACKWARD_TID = 1340, COMPUTE_STREAM = 7, COMM_STREAM = 20 };

typedef struct Plan {
    int64_t size, steps, layers;
    int ranks, straggler;
    uint64_t seed;
    bool python, memory;
    const char *out;
} Plan;

typedef struct Out {
    int fd; /* -1: only counts */
    Deflate *deflate;
    uint64_t bytes, events;
    size_t used;
    char buffer[BUFFER];
} Out;

typedef enum Pass { PASS_HOST, PASS_GPU } Pass;

typedef struct Rank {
    int64_t host, backward, compute, comm; /* where each timeline stands, ns */
    uint64_t external, correlation, noise, collectives;
    int64_t allocated;
    int64_t started[QUEUE_MAX]; /* when the last operations of the compute stream began */
    size_t launches;
} Rank;

typedef struct Play {
    const Plan *plan;
    Rank ranks[RANKS_MAX];
    int rank; /* whose events are written */
    Pass pass;
    Out *out;
    bool first;
} Play;

static const char *const layer_ops[OPS_OF_LAYER] = {
    "aten::layer_norm", "aten::linear", "aten::scaled_dot_product_attention",
    "aten::linear",     "aten::gelu",   "aten::add"};
static const char *const inner_ops[OPS_OF_LAYER] = {"aten::native_layer_norm",
                                                    "aten::addmm",
                                                    "aten::_flash_attention_forward",
                                                    "aten::addmm",
                                                    "aten::gelu",
                                                    "aten::add"};
static const char *const kernels[OPS_OF_LAYER] = {
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, "
    "c10::BFloat16 const*, "
    "c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_"
    "cublas",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> "
    ">("
    "pytorch_flash::Flash_fwd_params)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_execute_segment_k_off_kernel__5x_"
    "cublas",
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#1}, std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, "
    "3ul> >"
    "(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"};
static const int64_t kernel_ns[OPS_OF_LAYER] = {9000, 61000, 48000, 83000, 12000, 5200};
static const char *const nccl_kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/* ---- output ---- */

static int push(void *context, const void *bytes, size_t len, Err *err)
{
    const Out *out = context;

    for (size_t at = 0; at < len;) {
        ssize_t n = write(out->fd, (const char *)bytes + at, len - at);
        if (n < 0)
            return err_errno(err, "write");
        at += (size_t)n;
    }
    return 0;
}

static void flush(Out *out)
{
    Err err;

    out->bytes += out->used;
    if (out->fd >= 0) {
        int rc = out->deflate ? deflate_write(out->deflate, out->buffer, out->used, &err)
                              : push(out, out->buffer, out->used, &err);
        if (rc < 0) {
            fprintf(stderr, "gen_trace: %s\n", err.text);
            exit(1);
        }
    }
    out->used = 0;
}

static void text(Out *out, const char *words)
{
    size_t len = strlen(words);

    memcpy(out->buffer + out->used, words, len);
    out->used += len;
}

static void number(Out *out, uint64_t value)
{
    out->used += number_write_u64(out->buffer + out->used, value);
}

/* Nanoseconds as the profiler prints them: microseconds with three decimals. */
static void time_us(Out *out, int64_t ns)
{
    char *at;
    uint64_t rest = (uint64_t)ns % 1000;

    number(out, (uint64_t)ns / 1000);
    at = out->buffer + out->used;
    at[0] = '.';
    at[1] = (char)('0' + rest / 100);
    at[2] = (char)('0' + rest / 10 % 10);
    at[3] = (char)('0' + rest % 10);
    out->used += 4;
}

static void begin(Play *play)
{
    if (play->out->used > BUFFER - EVENT_MAX)
        flush(play->out);
    text(play->out, play->first ? "  {\n    " : ",\n  {\n    ");
    play->first = false;
    play->out->events++;
}

static void complete(Play *play, const char *category, const char *name, int64_t pid, int64_t tid, int64_t start,
                     int64_t end)
{
    Out *out = play->out;

    begin(play);
    text(out, "\"ph\": \"X\", \"cat\": \"");
    text(out, category);
    text(out, "\", \"name\": \"");
    text(out, name);
    text(out, "\", \"pid\": ");
    number(out, (uint64_t)pid);
    text(out, ", \"tid\": ");
    number(out, (uint64_t)tid);
    text(out, ",\n    \"ts\": ");
    time_us(out, start);
    text(out, ", \"dur\": ");
    time_us(out, end - start);
    text(out, ",\n    \"args\": {\n      ");
}

static void end_args(Out *out)
{
    text(out, "\n    }\n  }");
}

static void pair(Out *out, const char *key, uint64_t value)
{
    text(out, key);
    number(out, value);
}

static void flow(Play *play, char phase, uint64_t id, int64_t pid, int64_t tid, int64_t at)
{
    Out *out = play->out;
    char head[] = "\"ph\": \"s\", \"id\": ";

    head[7] = phase;
    begin(play);
    pair(out, head, id);
    pair(out, ", \"pid\": ", (uint64_t)pid);
    pair(out, ", \"tid\": ", (uint64_t)tid);
    text(out, ", \"ts\": ");
    time_us(out, at);
    text(out, ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"");
    text(out, phase == 'f' ? ", \"bp\": \"e\"\n  }" : "\n  }");
}

/* ---- what happens ---- */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* `ns`, up to a tenth longer. */
static int64_t about(Rank *rank, int64_t ns)
{
    rank->noise = mix(rank->noise);
    return ns + (int64_t)(rank->noise % (uint64_t)(ns / 10 + 1));
}

static bool written(const Play *play, int r, Pass pass)
{
    return play->rank == r && play->pass == pass;
}

static void op(Play *play, int r, const char *category, const char *name, int64_t tid, int64_t start, int64_t end,
               uint64_t external, bool shapes)
{
    if (!written(play, r, PASS_HOST))
        return;
    complete(play, category, name, PID, tid, start, end);
    pair(play->out, "\"External id\": ", external);
    pair(play->out, ",\"Record function id\": ", external);
    if (shapes)
        text(play->out,
             ", \"Concrete Inputs\": [\"\", \"\", \"\"], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\", "
             "\"c10::BFloat16\"], \"Input Dims\": [[4096], [8192, 1024], [1024, 4096]]");
    pair(play->out, ", \"Ev Idx\": ", external);
    end_args(play->out);
}

static void python(Play *play, int r, const char *name, int64_t start, int64_t end, uint64_t id)
{
    if (!play->plan->python || !written(play, r, PASS_HOST))
        return;
    complete(play, "python_function", name, PID, MAIN_TID, start, end);
    pair(play->out, "\"Python parent id\": ", id / 3);
    pair(play->out, ", \"Python id\": ", id);
    pair(play->out, ", \"Ev Idx\": ", id);
    end_args(play->out);
}

static void memory(Play *play, int r, int64_t tid, int64_t at, int64_t bytes)
{
    Rank *rank = &play->ranks[r];
    Out *out = play->out;

    rank->allocated += bytes;
    if (!play->plan->memory || !written(play, r, PASS_HOST))
        return;
    begin(play);
    text(out, "\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    ");
    pair(out, "\"pid\": ", PID);
    pair(out, ", \"tid\": ", (uint64_t)tid);
    text(out, ",\n    \"ts\": ");
    time_us(out, at);
    pair(out, ",\n    \"args\": {\n      \"Total Reserved\": ", (uint64_t)40 << 30);
    pair(out, ", \"Total Allocated\": ", (uint64_t)rank->allocated);
    text(out, bytes < 0 ? ", \"Bytes\": -" : ", \"Bytes\": ");
    number(out, (uint64_t)llabs(bytes));
    pair(out, ", \"Addr\": ", 140000000000000u + rank->external % 4096 * 512);
    text(out, ", \"Device Id\": 0, \"Device Type\": 1");
    end_args(out);
}

static void call(Play *play, int r, const char *name, int64_t tid, int64_t start, int64_t end)
{
    const Rank *rank = &play->ranks[r];
    Out *out = play->out;

    if (!written(play, r, PASS_GPU))
        return;
    complete(play, "cuda_runtime", name, PID, tid, start, end);
    pair(out, "\"External id\": ", rank->external);
    pair(out, ",      \"cbid\": 211, \"correlation\": ", rank->correlation);
    end_args(out);
    flow(play, 's', rank->correlation, PID, tid, start);
}

/* A kernel on `stream` that was launched at *host on `tid`; moves host and stream on. Returns its start. */
static int64_t kernel(Play *play, int r, const char *name, int64_t tid, int64_t *host, int64_t *stream_at,
                      int64_t stream, int64_t ns)
{
    Rank *rank = &play->ranks[r];
    Out *out = play->out;
    int64_t launch = *host, end = launch + about(rank, 4300), start = end + about(rank, 1500);

    rank->correlation += 3;
    if (stream == COMPUTE_STREAM) { /* waits until the queue has room */
        int64_t *slot = &rank->started[rank->launches++ % QUEUE_MAX];
        end = *slot > end ? *slot : end;
        start = end + about(rank, 1500);
        start = start < *stream_at + 900 ? *stream_at + 900 : start;
        *slot = start;
    }
    call(play, r, "cudaLaunchKernel", tid, launch, end);
    *host = end;
    if (start < *stream_at + 900)
        start = *stream_at + 900;
    *stream_at = start + ns;
    if (!written(play, r, PASS_GPU))
        return start;
    complete(play, "kernel", name, 0, stream, start, *stream_at);
    pair(out, "\"External id\": ", rank->external);
    pair(out, ",      \"queued\": 0, \"device\": 0, \"context\": 1,      \"stream\": ", (uint64_t)stream);
    pair(out, ", \"correlation\": ", rank->correlation);
    text(out,
         ",      \"registers per thread\": 168,      \"shared memory\": 196608,      \"blocks per SM\": 1.939394,      "
         "\"warps per SM\": 7.757576,      \"grid\": [");
    pair(out, "", 32 + (uint64_t)ns / 1000 % 7 * 32);
    text(out, ", 8, 1],      \"block\": [128, 1, 1],      \"est. achieved occupancy %\": ");
    number(out, stream == COMM_STREAM ? 12 : 25 + (uint64_t)name[strlen(name) / 2] % 50);
    if (stream == COMM_STREAM) {
        text(out, ", \"Collective name\": \"allreduce\", \"In msg nelems\": 12582912, \"Out msg nelems\": 12582912, "
                  "\"Group size\": ");
        number(out, (uint64_t)play->plan->ranks);
        text(out, ", \"dtype\": \"BFloat16\", \"Process Group Name\": \"0\", \"Process Group Description\": "
                  "\"default_pg\", \"Seq\": ");
        number(out, rank->collectives);
    }
    end_args(out);
    flow(play, 'f', rank->correlation, 0, stream, start);
    return start;
}

static void copy(Play *play, int r, const char *call_name, const char *name, uint64_t bytes)
{
    Rank *rank = &play->ranks[r];
    Out *out = play->out;
    int64_t launch = rank->host, start, ns = about(rank, (int64_t)bytes / 25 + 1200);

    rank->correlation += 3;
    rank->host += about(rank, 5000);
    call(play, r, call_name, MAIN_TID, launch, rank->host);
    start = rank->host + about(rank, 1500);
    if (start < rank->compute + 900)
        start = rank->compute + 900;
    rank->compute = start + ns;
    if (!written(play, r, PASS_GPU))
        return;
    complete(play, "gpu_memcpy", name, 0, COMPUTE_STREAM, start, rank->compute);
    pair(out, "\"External id\": ", rank->external);
    pair(out, ",      \"device\": 0, \"context\": 1,      \"stream\": 7, \"correlation\": ", rank->correlation);
    pair(out, ",      \"bytes\": ", bytes);
    pair(out, ", \"memory bandwidth (GB/s)\": ", bytes / (uint64_t)ns);
    end_args(out);
    flow(play, 'f', rank->correlation, 0, COMPUTE_STREAM, start);
}

/* One operator with another inside it that launches a kernel. */
static void layer_op(Play *play, int r, int which, bool backward, int64_t tid, int64_t *host)
{
    Rank *rank = &play->ranks[r];
    int64_t outer = *host, ns = kernel_ns[which] * (backward ? 2 : 1), inner;
    uint64_t external = ++rank->external;

    *host += about(rank, 2600);
    inner = *host;
    rank->external++;
    *host += about(rank, 3400);
    memory(play, r, tid, *host, rank->external % 2 ? 8 << 20 : -(8 << 20));
    ns = about(rank, r == play->plan->straggler ? ns + ns / 4 : ns);
    kernel(play, r, kernels[which], tid, host, &rank->compute, COMPUTE_STREAM, ns);
    *host += about(rank, 1100);
    op(play, r, "cpu_op", inner_ops[which], tid, inner, *host, rank->external, true);
    *host += about(rank, 900);
    op(play, r, "cpu_op", layer_ops[which], tid, outer, *host, external, true);
    python(play, r, "torch/nn/modules/module.py(1751): _call_impl", outer - 700, *host + 100, external * 3);
    python(play, r, "torch/nn/modules/module.py(1740): _wrapped_call_impl", outer - 900, *host + 200, external * 3 + 1);
    python(play, r, "<built-in function linear>", outer - 300, *host + 50, external * 3 + 2);
    *host += about(rank, 1500);
}

/* All ranks reduce a bucket: each starts when its gradients are there, all end together. */
static void all_reduce(Play *play)
{
    int64_t starts[RANKS_MAX], last = 0;

    for (int r = 0; r < play->plan->ranks; r++) {
        const Rank *rank = &play->ranks[r];
        int64_t ready = rank->backward + 9000 > rank->compute ? rank->backward + 9000 : rank->compute;
        starts[r] = ready > rank->comm + 900 ? ready : rank->comm + 900;
        last = starts[r] > last ? starts[r] : last;
    }
    for (int r = 0; r < play->plan->ranks; r++) {
        Rank *rank = &play->ranks[r];
        int64_t begin_ns = rank->backward, before = starts[r] - 900;
        uint64_t external = ++rank->external;
        rank->backward += about(rank, 6000);
        rank->collectives++;
        rank->comm = before;
        kernel(play, r, nccl_kernel, BACKWARD_TID, &rank->backward, &rank->comm, COMM_STREAM,
               last - starts[r] + 210000);
        rank->comm = last + 210000;
        rank->backward += about(rank, 3000);
        op(play, r, "user_annotation", "nccl:all_reduce", BACKWARD_TID, begin_ns, rank->backward, external, false);
    }
}

static void forward(Play *play, int r)
{
    Rank *rank = &play->ranks[r];
    int64_t start = rank->host;

    rank->external++;
    rank->host += about(rank, 2100000 / (play->plan->layers > 40 ? 1 : 4));
    op(play, r, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", MAIN_TID, start,
       rank->host, rank->external, false);
    copy(play, r, "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", 4 << 20);
    start = rank->host;
    for (int64_t l = 0; l < play->plan->layers; l++)
        for (int which = 0; which < OPS_OF_LAYER; which++)
            layer_op(play, r, which, false, MAIN_TID, &rank->host);
    python(play, r, "model.py(88): forward", start, rank->host, rank->external * 3 + 3);
    rank->backward = rank->host + about(rank, 20000);
}

/* The loss is read: the host waits until the GPU has got there. */
static void finish_step(Play *play, int r, int64_t step, int64_t start)
{
    Rank *rank = &play->ranks[r];
    char name[64];
    int64_t begin_ns;

    rank->host = rank->backward;
    if (rank->compute < rank->comm)
        rank->compute = rank->comm; /* the optimizer waits for the gradients */
    for (int i = 0; i < OPS_OF_LAYER; i++)
        layer_op(play, r, OPS_OF_LAYER - 1, false, MAIN_TID, &rank->host);
    copy(play, r, "cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", 4);
    begin_ns = rank->host;
    rank->correlation += 3;
    rank->host = (rank->compute > rank->host ? rank->compute : rank->host) + about(rank, 6000);
    call(play, r, "cudaStreamSynchronize", MAIN_TID, begin_ns, rank->host);
    rank->external++;
    op(play, r, "cpu_op", "aten::_local_scalar_dense", MAIN_TID, begin_ns - 9000, rank->host + 900, rank->external,
       false);
    rank->host += about(rank, 30000);
    snprintf(name, sizeof name, "ProfilerStep#%" PRId64, step + 3);
    rank->external++;
    op(play, r, "user_annotation", name, MAIN_TID, start, rank->host, rank->external, false);
    rank->host += about(rank, 4000);
}

static void play_steps(Play *play)
{
    int ranks = play->plan->ranks;

    for (int64_t step = 0; step < play->plan->steps; step++) {
        int64_t starts[RANKS_MAX];
        for (int r = 0; r < ranks; r++) {
            starts[r] = play->ranks[r].host;
            forward(play, r);
        }
        for (int64_t l = 0; l < play->plan->layers; l++) {
            for (int r = 0; r < ranks; r++)
                for (int which = OPS_OF_LAYER - 1; which >= 0; which--)
                    layer_op(play, r, which, true, BACKWARD_TID, &play->ranks[r].backward);
            if (l % BUCKET_LAYERS == BUCKET_LAYERS - 1 || l == play->plan->layers - 1)
                all_reduce(play);
        }
        for (int r = 0; r < ranks; r++)
            finish_step(play, r, step, starts[r]);
    }
}

static void metadata(Play *play, const char *what, const char *key, const char *value, uint64_t pid, uint64_t tid)
{
    Out *out = play->out;

    begin(play);
    text(out, "\"name\": \"");
    text(out, what);
    text(out, "\", \"ph\": \"M\", \"ts\": 1000000.000, \"pid\": ");
    number(out, pid);
    pair(out, ", \"tid\": ", tid);
    text(out, ",\n    \"args\": {\n      \"");
    text(out, key);
    text(out, "\": ");
    text(out, value);
    end_args(out);
}

static void head(Play *play)
{
    Out *out = play->out;

    text(out, "\n{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": \"NVIDIA "
              "H100 80GB HBM3\", "
              "\"totalGlobalMem\": 85028765696,\n      \"computeMajor\": 9, \"computeMinor\": 0,\n      "
              "\"maxThreadsPerBlock\": "
              "1024, \"maxThreadsPerMultiprocessor\": 2048,\n      \"regsPerBlock\": 65536, \"warpSize\": 32,\n      "
              "\"sharedMemPerBlock\": 49152, \"numSms\": 132\n    }\n  ],\n  \"cupti_version\": 24,\n  "
              "\"cuda_runtime_version\": 12040,\n"
              "  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": ");
    number(out, (uint64_t)play->rank);
    pair(out, ", \"world_size\": ", (uint64_t)play->plan->ranks);
    pair(out,
         ", \"pg_count\": 1, \"pg_config\": [{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": "
         "\"cuda:nccl\", \"pg_size\": ",
         (uint64_t)play->plan->ranks);
    text(out, ", \"ranks\": [");
    for (int r = 0; r < play->plan->ranks; r++) {
        text(out, r ? ", " : "");
        number(out, (uint64_t)r);
    }
    text(out, "]}], \"nccl_version\": \"2.21.5\"},\n  \"record_shapes\": 1,\n");
    text(out, play->plan->python ? "  \"with_stack\": 1,\n" : "");
    text(out, play->plan->memory ? "  \"profile_memory\": 1,\n" : "");
    text(out,
         "  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 1759276800000000000,\n  \"traceEvents\": [\n");
}

static void tail(Play *play)
{
    metadata(play, "process_name", "name", "\"python\"", PID, 0);
    metadata(play, "process_labels", "labels", "\"CPU\"", PID, 0);
    metadata(play, "process_name", "name", "\"python\"", 0, 0);
    metadata(play, "process_labels", "labels", "\"GPU 0\"", 0, 0);
    metadata(play, "thread_name", "name", "\"stream 7 \"", 0, COMPUTE_STREAM);
    metadata(play, "thread_name", "name", "\"stream 20 \"", 0, COMM_STREAM);
    metadata(play, "thread_name", "name", "\"thread 1200 (pt_main_thread)\"", PID, MAIN_TID);
    metadata(play, "thread_name", "name", "\"thread 1340 (pt_autograd_0)\"", PID, BACKWARD_TID);
    text(play->out, "\n  ],\n  \"traceName\": \"generated.pt.trace.json\"\n}\n");
}

static void write_rank(Play *play)
{
    play->first = true;
    head(play);
    for (play->pass = PASS_HOST; play->pass <= PASS_GPU; play->pass++) {
        for (int r = 0; r < play->plan->ranks; r++)
            play->ranks[r] = (Rank){.host = 1000000000 + r * 40000,
                                    .noise = mix(play->plan->seed * 131 + (uint64_t)r),
                                    .compute = 1000000000,
                                    .comm = 1000000000,
                                    .allocated = (int64_t)8 << 30};
        play_steps(play);
    }
    tail(play);
    flush(play->out);
}

/* As many layers as give about the wanted size. */
static void choose_layers(Plan *plan, Out *out)
{
    uint64_t bytes[2];
    Plan small = *plan;

    small.steps = 1;
    for (int i = 0; i < 2; i++) {
        static Play play;
        small.layers = i ? 9 : 1;
        play = (Play){.plan = &small, .out = out};
        *out = (Out){.fd = -1};
        write_rank(&play);
        bytes[i] = out->bytes;
    }
    int64_t per_layer = (int64_t)(bytes[1] - bytes[0]) / 8;
    plan->layers = (plan->size / plan->steps - ((int64_t)bytes[0] - per_layer)) / per_layer;
    if (plan->layers < 1)
        plan->layers = 1;
}

static int write_file(const Plan *plan, Out *out, int rank, const char *path)
{
    static Play play;
    size_t len = strlen(path);
    Err err;

    *out = (Out){.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (out->fd < 0) {
        perror(path);
        return 1;
    }
    if (len > 3 && strcmp(path + len - 3, ".gz") == 0)
        out->deflate = deflate_new(push, out);
    play = (Play){.plan = plan, .rank = rank, .out = out};
    write_rank(&play);
    if (out->deflate && deflate_end(out->deflate, &err) < 0) {
        fprintf(stderr, "gen_trace: %s\n", err.text);
        return 1;
    }
    deflate_free(out->deflate);
    if (close(out->fd) < 0) {
        perror(path);
        return 1;
    }
    printf("{\"file\": \"%s\", \"bytes\": %" PRIu64 ", \"events\": %" PRIu64 ", \"steps\": %" PRId64
           ", \"layers\": %" PRId64 "}\n",
           path, out->bytes, out->events, plan->steps, plan->layers);
    return 0;
}

static int usage(void)
{
    fputs("usage: gen_trace [--size MB] [--steps N] [--ranks N] [--seed N] [--straggler RANK] [--python] [--memory] "
          "OUT\n",
          stderr);
    return 2;
}

static int parse(Plan *plan, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(word, "--python") == 0)
            plan->python = true;
        else if (strcmp(word, "--memory") == 0)
            plan->memory = true;
        else if (word[0] != '-')
            plan->out = word;
        else if (i++ + 1 >= argc)
            return usage();
        else if (strcmp(word, "--size") == 0)
            plan->size = (int64_t)(strtod(value, NULL) * 1e6);
        else if (strcmp(word, "--steps") == 0)
            plan->steps = strtoll(value, NULL, 10);
        else if (strcmp(word, "--ranks") == 0)
            plan->ranks = (int)strtol(value, NULL, 10);
        else if (strcmp(word, "--straggler") == 0)
            plan->straggler = (int)strtol(value, NULL, 10);
        else if (strcmp(word, "--seed") == 0)
            plan->seed = strtoull(value, NULL, 10);
        else
            return usage();
    }
    return plan->out && plan->steps > 0 && plan->ranks > 0 && plan->ranks <= RANKS_MAX ? 0 : usage();
}

int main(int argc, char **argv)
{
    Plan plan = {.size = 10000000, .steps = 5, .ranks = 1, .seed = 1, .straggler = -1};
    CLEANUP_FREE Out *out = xmalloc(sizeof *out);
    int rc = parse(&plan, argc, argv);

    if (rc)
        return rc;
    choose_layers(&plan, out);
    if (plan.ranks == 1)
        return write_file(&plan, out, 0, plan.out);
    if (mkdir(plan.out, 0755) < 0 && errno != EEXIST) {
        perror(plan.out);
        return 1;
    }
    for (int r = 0; r < plan.ranks && rc == 0; r++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/rank_%03d.pt.trace.json", plan.out, r);
        rc = write_file(&plan, out, r, path);
    }
    return rc;
}
