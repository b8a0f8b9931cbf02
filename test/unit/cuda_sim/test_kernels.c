/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels do to memory: small sizes against plain C, large ones by what they hold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kit.h"

enum { WORDS = 4096, BLOCKS = 3 };
#define LARGE (8ull << 30)

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static float half_of(const uint16_t *halves, uint64_t at)
{
    return float_of((uint32_t)halves[at] << 16);
}

static uint32_t *read_words(Client *c, CUdeviceptr at, uint64_t words)
{
    uint32_t *got = malloc(words * 4);

    CHECK(got);
    client_get(c, got, at, words * 4);
    return got;
}

/* --- small sizes ------------------------------------------------------------------------------------------------- */

static void use_patterns(Client *c)
{
    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, WORDS * 4);
    for (uint32_t pattern = 0; pattern < CUDA_PATTERN_COUNT; pattern++) {
        CudaKernelArgs args = {.a = a, .count = WORDS / 4, .pattern = pattern, .seed = 77 + pattern};
        uint64_t sum = 0, checksums = 0;

        CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, BLOCKS, args), 0);
        uint32_t *got = read_words(c, a, WORDS);
        for (uint64_t i = 0; i < WORDS; i++) {
            CHECK_INT(got[i], cuda_pattern_word(pattern, args.seed, i));
            sum += got[i];
        }
        free(got);
        for (uint32_t b = 0; b < BLOCKS; b++)
            checksums += c->results[b].checksum;
        CHECK_INT((uint32_t)checksums, (uint32_t)sum);
        args.flags = CUDA_KERNEL_INVERT;
        CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, BLOCKS, args), 0);
        CHECK_INT(client_errors(c, BLOCKS), 0);
        CHECK(c->results[0].first_bad == UINT64_MAX);
        CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, BLOCKS, args), 0); /* it is the complement now */
        CHECK_INT(client_errors(c, BLOCKS), WORDS);
        CHECK_INT(c->results[0].first_bad, 0);
        CHECK_INT(c->results[0].want, cuda_pattern_word(pattern, args.seed, 0));
        CHECK_INT(c->results[0].got, ~cuda_pattern_word(pattern, args.seed, 0));
        args.flags = CUDA_KERNEL_INVERTED;
        CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, BLOCKS, args), 0);
        CHECK_INT(client_errors(c, BLOCKS), 0);
        args.flags = CUDA_KERNEL_INVERT;
        CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, BLOCKS, args), 0);
        args.flags = CUDA_KERNEL_INVERTED;
        CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, BLOCKS, args), 0);
        CHECK_INT(client_errors(c, BLOCKS), 0);
    }
}

static void patterns_are_written_and_read(void **state)
{
    (void)state;
    client_case(use_patterns);
}

static void find_word(Client *c)
{
    const uint32_t wrong = 0x12345678;

    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, 1 << 20);
    CudaKernelArgs args = {.a = a, .count = 1 << 16, .pattern = CUDA_PATTERN_ADDRESS};
    CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 4, args), 0);
    client_put(c, a + 4 * 40000, &wrong, 4);
    client_put(c, a + 4 * 50000, &wrong, 4);
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 4, args), 0);
    CHECK_INT(client_errors(c, 4), 2);
    const CudaBlockResult *block = &c->results[40000 / 4 / 4096 % 4]; /* the block that reads it */
    CHECK_INT(block->first_bad, 40000);
    CHECK_INT(block->want, 40000);
    CHECK_INT(block->got, wrong);
}

static void a_wrong_word_is_found(void **state)
{
    (void)state;
    client_case(find_word);
}

static void fill_floats(float *x, uint32_t seed)
{
    for (uint32_t i = 0; i < WORDS; i++)
        x[i] = (float)(int32_t)(cuda_hash(i ^ seed) >> 12) / 1000 - 500;
}

static void add_and_copy(Client *c)
{
    static float x[WORDS], y[WORDS], got[WORDS];

    client_open(c, 1);
    fill_floats(x, 1);
    fill_floats(y, 2);
    const CUdeviceptr a = client_alloc(c, sizeof x), b = client_alloc(c, sizeof x), d = client_alloc(c, sizeof x);
    client_put(c, a, x, sizeof x);
    client_put(c, b, y, sizeof y);
    CudaKernelArgs args = {.a = a, .b = b, .c = d, .count = WORDS / 4};
    CHECK_INT(client_launch(c, CUDA_MEMORY_TRIAD, BLOCKS, args), 0);
    client_get(c, got, d, sizeof got);
    for (uint32_t i = 0; i < WORDS; i++)
        CHECK(got[i] == fmaf(3, y[i], x[i]));
    CHECK_INT(client_launch(c, CUDA_ADD_FLOAT, BLOCKS, args), 0);
    client_get(c, got, a, sizeof got);
    for (uint32_t i = 0; i < WORDS; i++)
        CHECK(got[i] == x[i] + y[i]);
    args.b = d;
    CHECK_INT(client_launch(c, CUDA_MEMORY_COPY, BLOCKS, args), 0);
    client_get(c, x, d, sizeof x);
    CHECK(memcmp(x, got, sizeof x) == 0);
    args.count = WORDS;
    CHECK_INT(client_launch(c, CUDA_COMPARE, BLOCKS, args), 0);
    CHECK_INT(client_errors(c, BLOCKS), 0);
    x[100] += 1;
    client_put(c, d, x, sizeof x);
    CHECK_INT(client_launch(c, CUDA_COMPARE, BLOCKS, args), 0);
    CHECK_INT(client_errors(c, BLOCKS), 1);
    CHECK_INT(c->results[0].first_bad, 100);
    CHECK(float_of(c->results[0].want) == x[100] && float_of(c->results[0].got) == got[100]);
}

static void floats_are_added_copied_and_compared(void **state)
{
    (void)state;
    client_case(add_and_copy);
}

static void follow_chain(Client *c)
{
    uint32_t next[1000], at = 0, sum = 0;

    client_open(c, 1);
    for (uint32_t i = 0; i < 1000; i++)
        next[i] = (i + 7) % 1000;
    const CUdeviceptr a = client_alloc(c, sizeof next);
    client_put(c, a, next, sizeof next);
    CHECK_INT(client_launch(c, CUDA_MEMORY_CHASE, 1, (CudaKernelArgs){.a = a, .rounds = 2500}), 0);
    for (int i = 0; i < 2500; i++)
        sum += at = next[at];
    CHECK_INT(c->results[0].checksum, sum);
    next[7] = 5000; /* out of it */
    client_put(c, a, next, sizeof next);
    CHECK_INT(client_launch(c, CUDA_MEMORY_CHASE, 1, (CudaKernelArgs){.a = a, .rounds = 2500}), CUDA_ILLEGAL_ADDRESS);
}

static void links_are_followed(void **state)
{
    (void)state;
    client_case(follow_chain);
}

static void fill_numbers(Client *c)
{
    double sum = 0, squares = 0;

    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, WORDS * 4);
    CHECK_INT(client_launch(c, CUDA_FILL_INTEGER, BLOCKS, (CudaKernelArgs){.a = a, .count = WORDS, .seed = 9}), 0);
    uint16_t *got = (uint16_t *)read_words(c, a, WORDS);
    for (uint32_t i = 0; i < WORDS; i++) {
        const uint32_t h = cuda_hash(i ^ 9);
        CHECK(half_of(got, 2 * i) == (float)(int)(h & 15) - 8);
        CHECK(half_of(got, 2 * i + 1) == (float)(int)(h >> 16 & 15) - 8);
    }
    free(got);
    CHECK_INT(client_launch(c, CUDA_FILL_NORMAL, BLOCKS, (CudaKernelArgs){.a = a, .count = WORDS, .seed = 9}), 0);
    got = (uint16_t *)read_words(c, a, WORDS);
    for (uint32_t i = 0; i < 2 * WORDS; i++) {
        sum += (double)half_of(got, i);
        squares += (double)half_of(got, i) * (double)half_of(got, i);
    }
    free(got);
    CHECK(fabs(sum / (2 * WORDS)) < 0.05);
    CHECK_NEAR(squares / (2 * WORDS), 1, 0.05);
}

static void numbers_are_made(void **state)
{
    (void)state;
    client_case(fill_numbers);
}

static void multiply_small(Client *c)
{
    enum { M = 128, N = 256, K = 96 };

    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, M * K * 2), b = client_alloc(c, N * K * 2), d = client_alloc(c, M * N * 4),
                      e = client_alloc(c, M * N * 4);
    CHECK_INT(client_launch(c, CUDA_FILL_INTEGER, BLOCKS, (CudaKernelArgs){.a = a, .count = M * K / 2, .seed = 3}), 0);
    CHECK_INT(client_launch(c, CUDA_FILL_INTEGER, BLOCKS, (CudaKernelArgs){.a = b, .count = N * K / 2, .seed = 4}), 0);
    CudaKernelArgs args = {.a = a, .b = b, .c = d, .m = M, .n = N, .k = K};
    CHECK_INT(client_launch(c, CUDA_GEMM_BF16, 2, args), 0);
    const uint64_t checksum = c->results[0].checksum;
    args.c = e;
    CHECK_INT(client_launch(c, CUDA_GEMM_REFERENCE, 4, args), 0);
    CHECK_INT(client_launch(c, CUDA_COMPARE, 4, (CudaKernelArgs){.a = d, .b = e, .count = M * N}), 0);
    CHECK_INT(client_errors(c, 4), 0);
    uint16_t *x = (uint16_t *)read_words(c, a, M * K / 2), *y = (uint16_t *)read_words(c, b, N * K / 2);
    uint32_t *z = read_words(c, d, M * N), sum = 0;
    for (uint32_t i = 0; i < M; i++)
        for (uint32_t j = 0; j < N; j++) {
            float want = 0;
            for (uint32_t k = 0; k < K; k++)
                want += half_of(x, i * K + k) * half_of(y, j * K + k);
            CHECK(float_of(z[i * N + j]) == want);
            sum += j < 128 ? z[i * N + j] : 0;
        }
    CHECK_INT((uint32_t)checksum, sum);
    free(x);
    free(y);
    free(z);
}

static void matrices_are_multiplied(void **state)
{
    (void)state;
    client_case(multiply_small);
}

static void run_probes(Client *c)
{
    client_open(c, 1);
    for (CudaKernel kernel = CUDA_PROBE_FMA32; kernel <= CUDA_PROBE_WGMMA_FP8; kernel++) {
        if (kernel == CUDA_GEMM_BF16)
            continue;
        CHECK_INT(client_launch(c, kernel, H100_SMS, (CudaKernelArgs){.rounds = 500}), 0);
        CHECK_INT(client_errors(c, H100_SMS), 0);
        for (uint32_t b = 0; b < H100_SMS; b++) {
            CHECK_INT(c->results[b].smid, b);
            CHECK_INT(c->results[b].checksum, c->results[0].checksum);
        }
    }
}

static void a_probe_has_a_block_on_each_sm(void **state)
{
    (void)state;
    client_case(run_probes);
}

/* --- large sizes ------------------------------------------------------------------------------------------------- */

static void use_large_memory(Client *c)
{
    const uint32_t wrong = 0x80000000u;

    client_open(c, 1);
    const CUdeviceptr a = client_alloc(c, LARGE), b = client_alloc(c, LARGE);
    CudaKernelArgs args = {.a = a, .b = b, .count = LARGE / 16, .pattern = CUDA_PATTERN_RANDOM, .seed = 5};
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0); /* nobody has written it */
    CHECK_NEAR(client_errors(c, 8), LARGE / 4, 0.001);
    CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 8, args), 0);
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_INT(client_errors(c, 8), 0);
    args.seed = 6;
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_NEAR(client_errors(c, 8), LARGE / 4, 0.001);
    args.seed = 5;
    CHECK_INT(client_launch(c, CUDA_MEMORY_COPY, 8, args), 0);
    args.a = b;
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_INT(client_errors(c, 8), 0);
    client_put(c, b + 4 * 1000000007ull, &wrong, 4);
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_INT(client_errors(c, 8), 1);
    CHECK_INT(client_launch(c, CUDA_COMPARE, 8, (CudaKernelArgs){.a = b, .b = a, .count = LARGE / 4}), 0);
    CHECK_INT(client_errors(c, 8), 1);
    for (uint32_t i = 0; i < 8; i++)
        if (c->results[i].errors) {
            CHECK_INT(c->results[i].first_bad, 1000000007);
            CHECK_INT(c->results[i].got, wrong);
            CHECK_INT(c->results[i].want, cuda_hash(1000000007u ^ 5));
        }
    /* a part of it, as real bytes and as its own pattern */
    uint32_t *got = read_words(c, a + 4096, 1 << 20);
    CHECK_INT(got[12345], cuda_hash((1024 + 12345) ^ 5));
    free(got);
    args = (CudaKernelArgs){.a = a + (1 << 20), .count = 1 << 20, .pattern = CUDA_PATTERN_WALK};
    CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 8, args), 0);
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_INT(client_errors(c, 8), 0);
    CHECK_INT(c->cu.cuMemsetD8Async(a, 0xaa, LARGE, c->stream), 0);
    args = (CudaKernelArgs){.a = a, .count = LARGE / 16, .pattern = CUDA_PATTERN_AA};
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_INT(client_errors(c, 8), 0);
    CHECK_INT(c->cu.cuMemcpyDtoDAsync_v2(b, a, LARGE, c->stream), 0);
    args.a = b;
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_INT(client_errors(c, 8), 0);
    const uint64_t first = client_checksum(c, 8);
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_INT(client_checksum(c, 8), first);
}

static void large_memory_is_known_by_its_patterns(void **state)
{
    (void)state;
    client_case(use_large_memory);
}

/* Large buffers of the host: what is copied again is seen to have changed. */
static void use_host_buffers(Client *c)
{
    const uint64_t bytes = 8 << 20;
    void *first, *second;

    client_open(c, 1);
    CHECK_INT(c->cu.cuMemHostAlloc(&first, bytes, 0), 0);
    CHECK_INT(c->cu.cuMemHostAlloc(&second, bytes, 0), 0);
    const CUdeviceptr a = client_alloc(c, bytes), b = client_alloc(c, bytes);
    uint32_t *x = first, *y = second;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < bytes / 4; i++)
            x[i] = y[i] = cuda_hash(i ^ (round / 2)); /* the same twice */
        client_put(c, a, x, bytes);
        client_put(c, b, y, bytes);
        client_get(c, y, a, bytes);
        CHECK(memcmp(x, y, bytes) == 0);
        memset(y, 0, bytes);
        client_get(c, y, b, bytes);
        CHECK(memcmp(x, y, bytes) == 0);
        CHECK_INT(client_launch(c, CUDA_COMPARE, 8, (CudaKernelArgs){.a = a, .b = b, .count = bytes / 4}), 0);
        CHECK_INT(client_errors(c, 8), 0);
        x[1024 * round] ^= 1;
        client_put(c, a, x, bytes);
        CHECK_INT(client_launch(c, CUDA_COMPARE, 8, (CudaKernelArgs){.a = a, .b = b, .count = 1 << 17}), 0);
        CHECK_INT(client_errors(c, 8), 1);
        client_get(c, y, a, bytes);
        CHECK(memcmp(x, y, bytes) == 0);
    }
}

static void buffers_of_the_host_keep_what_they_hold(void **state)
{
    (void)state;
    client_case(use_host_buffers);
}

static void multiply_large(Client *c)
{
    enum { SIZE = 8192 };
    const uint64_t words = (uint64_t)SIZE * SIZE;
    uint16_t row[SIZE], column[SIZE];
    float got, want = 0;

    client_open(c, 2);
    const CUdeviceptr a = client_alloc(c, words * 2), b = client_alloc(c, words * 2), d = client_alloc(c, words * 4),
                      e = client_alloc(c, words * 4);
    CHECK_INT(client_launch(c, CUDA_FILL_INTEGER, 8, (CudaKernelArgs){.a = a, .count = words / 2, .seed = 1}), 0);
    CHECK_INT(client_launch(c, CUDA_FILL_INTEGER, 8, (CudaKernelArgs){.a = b, .count = words / 2, .seed = 2}), 0);
    CudaKernelArgs args = {.a = a, .b = b, .c = d, .m = SIZE, .n = SIZE, .k = SIZE};
    CHECK_INT(client_launch(c, CUDA_GEMM_BF16, 4096, args), 0);
    const uint64_t checksum = client_checksum(c, 4096);
    args.c = e;
    CHECK_INT(client_launch(c, CUDA_GEMM_BF16, 4096, args), 0);
    CHECK_INT(client_checksum(c, 4096), checksum);
    CHECK_INT(client_launch(c, CUDA_COMPARE, 8, (CudaKernelArgs){.a = d, .b = e, .count = words}), 0);
    CHECK_INT(client_errors(c, 8), 0);
    args.m = 128; /* some rows, by other means */
    for (uint64_t from = 0; from < 1024; from += 128) {
        args.a = a + from * SIZE * 2;
        args.c = e + from * SIZE * 4;
        CHECK_INT(client_launch(c, CUDA_GEMM_REFERENCE, 8, args), 0);
    }
    args.a = a;
    args.c = e;
    CHECK_INT(client_launch(c, CUDA_COMPARE, 8, (CudaKernelArgs){.a = d, .b = e, .count = words}), 0);
    CHECK_INT(client_errors(c, 8), 0);
    client_get(c, row, a + 17ull * SIZE * 2, sizeof row);
    client_get(c, column, b + 4242ull * SIZE * 2, sizeof column);
    for (uint32_t i = 0; i < SIZE; i++)
        want += half_of(row, i) * half_of(column, i);
    client_get(c, &got, d + (17ull * SIZE + 4242) * 4, 4);
    CHECK(got == want);
    CHECK_INT(client_launch(c, CUDA_FILL_NORMAL, 8, (CudaKernelArgs){.a = a, .count = words / 2, .seed = 1}), 0);
    args.m = SIZE;
    CHECK_INT(client_launch(c, CUDA_GEMM_BF16, 4096, args), 0);
    CHECK(client_checksum(c, 4096) != checksum);
}

static void large_matrices_have_the_same_product_each_time(void **state)
{
    (void)state;
    client_case(multiply_large);
}

/* Between GPUs: copies by the engine and by kernels, and a sum. */
static void use_peers(Client *c)
{
    const uint64_t bytes = 256 << 20;
    float got;

    client_open(c, 2);
    const CUdeviceptr a = client_alloc(c, bytes);
    CudaKernelArgs args = {.a = a, .count = bytes / 16, .pattern = CUDA_PATTERN_RANDOM, .seed = 8};
    CHECK_INT(client_launch(c, CUDA_MEMORY_WRITE, 8, args), 0);
    CUstream first = c->stream;
    client_use(c, 1);
    const CUdeviceptr b = client_alloc(c, bytes);
    CHECK_INT(c->cu.cuMemcpyPeerAsync(b, c->context[1], a, c->context[0], bytes, c->stream), 0);
    args.a = b;
    CHECK_INT(client_launch(c, CUDA_MEMORY_VERIFY, 8, args), 0);
    CHECK_INT(client_errors(c, 8), 0);
    CHECK_INT(c->cu.cuMemcpyPeerAsync(b, c->context[0], a, c->context[0], bytes, c->stream), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuCtxEnablePeerAccess(c->context[0], 0), 0);
    CHECK_INT(c->cu.cuCtxEnablePeerAccess(c->context[0], 0), CUDA_PEER_ALREADY);
    CHECK_INT(c->cu.cuCtxEnablePeerAccess(c->context[1], 0), CUDA_BAD_ARGUMENT);
    CHECK_INT(c->cu.cuMemsetD8Async(a, 0, bytes, first), 0);
    args = (CudaKernelArgs){.a = b, .b = a, .count = bytes / 16};
    CHECK_INT(client_launch(c, CUDA_ADD_FLOAT, 8, args), 0);
    CHECK_INT(client_launch(c, CUDA_MEMORY_COPY, 8, args), 0);
    args.count = bytes / 4;
    CHECK_INT(client_launch(c, CUDA_COMPARE, 8, args), 0);
    CHECK_INT(client_errors(c, 8), 0);
    client_get(c, &got, a + 40, 4);
    CHECK(got == float_of(cuda_hash(10 ^ 8)) + 0);
    CHECK_INT(c->cu.cuCtxSetCurrent(c->context[0]), 0); /* the other way access was not enabled */
    CHECK_INT(c->cu.cuStreamCreate(&c->stream, 0), 0);
    memset(c->kernels, 0, sizeof c->kernels);
    CHECK_INT(client_launch(c, CUDA_MEMORY_COPY, 8, (CudaKernelArgs){.a = a, .b = b, .count = 64}),
              CUDA_ILLEGAL_ADDRESS);
}

static void gpus_reach_each_other(void **state)
{
    (void)state;
    client_case(use_peers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_written_and_read),
        cmocka_unit_test(a_wrong_word_is_found),
        cmocka_unit_test(floats_are_added_copied_and_compared),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(numbers_are_made),
        cmocka_unit_test(matrices_are_multiplied),
        cmocka_unit_test(a_probe_has_a_block_on_each_sm),
        cmocka_unit_test(large_memory_is_known_by_its_patterns),
        cmocka_unit_test(large_matrices_have_the_same_product_each_time),
        cmocka_unit_test(gpus_reach_each_other),
        cmocka_unit_test(buffers_of_the_host_keep_what_they_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
