/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stoker's own kernels as a caller sees them: names, arguments, results. The PTX text of each kernel follows this
 * header (src/source/cuda/kernels.py makes it), the worker calls by it, and the simulated libcuda stands in by it,
 * since it cannot run PTX.
 *
 * Every kernel has one parameter, a CudaKernelArgs by value, and thread 0 of every block writes one CudaBlockResult at
 * args.result + 64 * (linear block index). A kernel looks at the word at args.stop now and then and returns early when
 * it is not 0; its blocks then say so in `stopped`.
 */
#include <stdint.h>

typedef struct CudaKernelArgs {
    uint64_t a, b, c; /* device addresses, see KERNEL rows */
    uint64_t result;  /* of CudaBlockResult[blocks] */
    uint64_t stop;    /* of a uint32_t in host memory that the device sees */
    uint64_t count;   /* 16-byte words, or what the row says */
    uint32_t m, n, k; /* of a matrix product */
    uint32_t rounds;
    uint32_t pattern; /* CudaPattern */
    uint32_t seed;
    uint32_t flags; /* CUDA_KERNEL_* */
    uint32_t pad;
} CudaKernelArgs;
_Static_assert(sizeof(CudaKernelArgs) == 80, "kernels read it by offset");

enum {
    CUDA_KERNEL_INVERT = 1,   /* memory_verify: leaves the complement of the pattern; memory_write: writes it */
    CUDA_KERNEL_INVERTED = 2, /* memory_verify: expects the complement; with INVERT it leaves what it has found right */
};

typedef struct CudaBlockResult {
    uint32_t smid;
    uint32_t stopped;
    uint64_t clocks;           /* difference of %clock64 over the block's work */
    uint64_t begin_ns, end_ns; /* %globaltimer */
    uint64_t checksum;         /* of what was computed or read: the same for the same arguments and data */
    uint64_t errors;           /* values that are not what they have to be */
    uint64_t first_bad;        /* lowest index with an error, in 32-bit words or as the row says; UINT64_MAX: none */
    uint32_t want, got;        /* of that */
} CudaBlockResult;
_Static_assert(sizeof(CudaBlockResult) == 64, "kernels write it by offset");

/* 32-bit words of memory tests by their index, see cuda_pattern_word. */
typedef enum CudaPattern {
    CUDA_PATTERN_ZERO,    /* 0x00000000 */
    CUDA_PATTERN_AA,      /* 0xaaaaaaaa */
    CUDA_PATTERN_BYTES,   /* 0x00ff00ff */
    CUDA_PATTERN_WALK,    /* one bit, in each word the next */
    CUDA_PATTERN_ADDRESS, /* its own index */
    CUDA_PATTERN_RANDOM,  /* cuda_hash(index ^ seed) */
    CUDA_PATTERN_MODULO,  /* ones in every 20th word (index % 20 == seed % 20), zeros else */
    CUDA_PATTERN_CHECKER, /* 0x55555555 and 0xaaaaaaaa in turn, by 32-byte sector */
    CUDA_PATTERN_COUNT
} CudaPattern;

static inline uint32_t cuda_hash(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

static inline uint32_t cuda_pattern_word(uint32_t pattern, uint32_t seed, uint64_t index)
{
    const uint32_t i = (uint32_t)index;

    switch (pattern) {
    case CUDA_PATTERN_AA:
        return 0xaaaaaaaau;
    case CUDA_PATTERN_BYTES:
        return 0x00ff00ffu;
    case CUDA_PATTERN_WALK:
        return 1u << (i & 31);
    case CUDA_PATTERN_ADDRESS:
        return i;
    case CUDA_PATTERN_RANDOM:
        return cuda_hash(i ^ seed);
    case CUDA_PATTERN_MODULO:
        return index % 20 == seed % 20 ? 0xffffffffu : 0;
    case CUDA_PATTERN_CHECKER:
        return i >> 3 & 1 ? 0xaaaaaaaau : 0x55555555u;
    default:
        return 0;
    }
}

/*
 * KERNEL(id, name, text, threads per block, operations of one block per round)
 *
 * `text`: which PTX text has it (CudaText). Threads: the most of a block for memory, fill, compare, add and probe
 * kernels (which take fewer; mma probes whole warps), what it has to be for gemm_*, probe_wgmma_* and probe_tcgen05_*.
 * Any number of blocks, no dynamic shared memory. Operations: floating-point or integer operations (a multiply-add is
 * two) of one block in one of args.rounds; 0: not a probe.
 *
 * The word at args.stop is read when a block begins, and then every 2^20 clocks by one thread of each block.
 *
 * memory_write    words [0, count) of a get the pattern (word index = 4 * index of the 16-byte word + 0..3)
 * memory_verify   words [0, count) of a are compared with the pattern; see the flags
 * memory_read     reads [0, count) of a `rounds` times, past L1 (with a small count: out of L2). All threads have work
 *                 where count is at least 4 * blocks * threads
 * memory_copy     b = a, count words; b may be another GPU's memory
 * memory_triad    c = a + 3 * b as float (one rounding), count words
 * memory_chase    one thread of one block follows `rounds` links from index 0: a[i] (uint32_t) is the next index
 * fill_normal     count bfloat16 pairs (32-bit words) of a: normal numbers from cuda_hash(index ^ seed)
 * fill_integer    the same with integers -8..7
 * compare         count 32-bit words of a and b: errors where they differ, first_bad the index, want = b, got = a
 * add_float       a += b as float, count words; b may be another GPU's memory
 * gemm_bf16       c (m x n float, row major) = a (m x k bfloat16, row major) * b (n x k bfloat16, row major, so that
 *                 each row of b is a column of the product); tiles of 128 x 128, a block each, block index = row-major
 *                 tile; m, n multiples of 128, k of 32, none 0. The checksum of a block is the 32-bit sum of
 *                 cuda_hash(bits of c[i] ^ i) over its tile; it looks at the stop word at its start alone (48 KiB of
 *                 shared memory; two blocks fit on an SM)
 * gemm_reference  the same product with multiply-adds off the tensor cores, exact for integers, where both write the
 *                 same bits; any grid; the checksums of all blocks add up to the same
 * probe_fma*      registers alone, a block on each SM: `rounds` rounds (any number) of 16 fma.rn on each of the 16 (of
 *                 fma64 8) chains of a thread. With fewer threads a round has fewer operations. Every accumulator is
 *                 compared with what it has to be, exactly: errors. first_bad is thread * accumulators of a thread +
 *                 number; want and got are its bits, of a double those of the half that differs, the upper one first.
 *                 The clocks are of the rounds alone. The checksum is the same for each block, GPU and driver
 * probe_mma_*     the same with 2 mma.sync on each of the 8 chains of a warp
 * probe_wgmma_*   the same with 4 wgmma m64n256 by one warpgroup, both operands in shared memory (41 KiB)
 * probe_tcgen05_* the same with 4 tcgen05.mma m128n256 (25 KiB of shared memory, 256 columns of tensor memory). A
 *                 tensor core that does not answer for 2^31 clocks: errors 1, first_bad 0, want 1, got 0
 *
 * Addresses are multiples of 16. The checksum of a memory kernel is the 32-bit sum of the words that its block has read
 * (memory_verify, _read, _copy, _chase: the links; compare: those of a) or written (memory_write, _triad, fill_*,
 * add_float), so that the 32-bit sum over all blocks is the same for each grid.
 */
#define CUDA_KERNEL_TABLE(KERNEL)                                                                                      \
    KERNEL(CUDA_MEMORY_WRITE, "memory_write", CUDA_TEXT_BASE, 1024, 0)                                                 \
    KERNEL(CUDA_MEMORY_VERIFY, "memory_verify", CUDA_TEXT_BASE, 1024, 0)                                               \
    KERNEL(CUDA_MEMORY_READ, "memory_read", CUDA_TEXT_BASE, 1024, 0)                                                   \
    KERNEL(CUDA_MEMORY_COPY, "memory_copy", CUDA_TEXT_BASE, 1024, 0)                                                   \
    KERNEL(CUDA_MEMORY_TRIAD, "memory_triad", CUDA_TEXT_BASE, 1024, 0)                                                 \
    KERNEL(CUDA_MEMORY_CHASE, "memory_chase", CUDA_TEXT_BASE, 1, 0)                                                    \
    KERNEL(CUDA_FILL_NORMAL, "fill_normal", CUDA_TEXT_BASE, 256, 0)                                                    \
    KERNEL(CUDA_FILL_INTEGER, "fill_integer", CUDA_TEXT_BASE, 256, 0)                                                  \
    KERNEL(CUDA_GEMM_REFERENCE, "gemm_reference", CUDA_TEXT_BASE, 256, 0)                                              \
    KERNEL(CUDA_COMPARE, "compare", CUDA_TEXT_BASE, 256, 0)                                                            \
    KERNEL(CUDA_ADD_FLOAT, "add_float", CUDA_TEXT_BASE, 256, 0)                                                        \
    KERNEL(CUDA_PROBE_FMA32, "probe_fma32", CUDA_TEXT_BASE, 1024, 1024 * 16 * 16 * 2)                                  \
    KERNEL(CUDA_PROBE_FMA64, "probe_fma64", CUDA_TEXT_BASE, 1024, 1024 * 8 * 16 * 2)                                   \
    KERNEL(CUDA_PROBE_MMA_F16, "probe_mma_f16", CUDA_TEXT_TURING, 256, 8 * 16 * 16 * 8 * 8 * 2)                        \
    KERNEL(CUDA_PROBE_MMA_S8, "probe_mma_s8", CUDA_TEXT_TURING, 256, 8 * 16 * 8 * 8 * 16 * 2)                          \
    KERNEL(CUDA_PROBE_MMA_BF16, "probe_mma_bf16", CUDA_TEXT_AMPERE, 256, 8 * 16 * 16 * 8 * 16 * 2)                     \
    KERNEL(CUDA_PROBE_MMA_TF32, "probe_mma_tf32", CUDA_TEXT_AMPERE, 256, 8 * 16 * 16 * 8 * 8 * 2)                      \
    KERNEL(CUDA_PROBE_MMA_INT8, "probe_mma_int8", CUDA_TEXT_AMPERE, 256, 8 * 16 * 16 * 8 * 32 * 2)                     \
    KERNEL(CUDA_PROBE_MMA_F64, "probe_mma_f64", CUDA_TEXT_AMPERE, 256, 8 * 16 * 8 * 8 * 4 * 2)                         \
    KERNEL(CUDA_GEMM_BF16, "gemm_bf16", CUDA_TEXT_AMPERE, 256, 0)                                                      \
    KERNEL(CUDA_PROBE_MMA_FP8, "probe_mma_fp8", CUDA_TEXT_ADA, 256, 8 * 16 * 16 * 8 * 32 * 2)                          \
    KERNEL(CUDA_PROBE_WGMMA_BF16, "probe_wgmma_bf16", CUDA_TEXT_HOPPER, 128, 4 * 64 * 256 * 16 * 2)                    \
    KERNEL(CUDA_PROBE_WGMMA_FP8, "probe_wgmma_fp8", CUDA_TEXT_HOPPER, 128, 4 * 64 * 256 * 32 * 2)                      \
    KERNEL(CUDA_PROBE_TCGEN05_BF16, "probe_tcgen05_bf16", CUDA_TEXT_BLACKWELL, 128, 4 * 128 * 256 * 16 * 2)

typedef enum CudaKernel {
#define KERNEL_ID(id, name, text, threads, operations) id,
    CUDA_KERNEL_TABLE(KERNEL_ID)
#undef KERNEL_ID
        CUDA_KERNEL_COUNT
} CudaKernel;

/*
 * TEXT(id, file, target, lowest and highest compute capability (major * 10 + minor) that it is for). The plain targets
 * run on all newer GPUs; those with an `a` on the one named alone: CUDA_TEXT_BLACKWELL_103 has the kernels of
 * CUDA_TEXT_BLACKWELL for the next one (B300).
 */
#define CUDA_TEXT_TABLE(TEXT)                                                                                          \
    TEXT(CUDA_TEXT_BASE, "base", "sm_70", 70, 999)                                                                     \
    TEXT(CUDA_TEXT_TURING, "turing", "sm_75", 75, 999)                                                                 \
    TEXT(CUDA_TEXT_AMPERE, "ampere", "sm_80", 80, 999)                                                                 \
    TEXT(CUDA_TEXT_ADA, "ada", "sm_89", 89, 999)                                                                       \
    TEXT(CUDA_TEXT_HOPPER, "hopper", "sm_90a", 90, 90)                                                                 \
    TEXT(CUDA_TEXT_BLACKWELL, "blackwell", "sm_100a", 100, 100)                                                        \
    TEXT(CUDA_TEXT_BLACKWELL_103, "blackwell_103", "sm_103a", 103, 103)

typedef enum CudaText {
#define TEXT_ID(id, file, target, lowest, highest) id,
    CUDA_TEXT_TABLE(TEXT_ID)
#undef TEXT_ID
        CUDA_TEXT_COUNT
} CudaText;
