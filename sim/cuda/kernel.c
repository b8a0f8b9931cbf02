/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "sim/core/num.h"
#include "sim/cuda/activity.h"
#include "sim/cuda/devices.h"
#include "sim/cuda/space.h"

enum { A = 1, B = 2, C = 4, TILE = 128, UNROLL = 4, WRONG_MAX = 64, SUMMED_WORDS = 1 << 16, STOPPED_NS = 5000 };
#define PART_OF_L2 0.75 /* a larger buffer does not stay in it */
#define SHORT_S 20e-6   /* a kernel that is waited for */

typedef struct KernelRow {
    const char *name;
    uint32_t threads;
    double operations; /* of a block in a round; 0: not a probe */
} KernelRow;

static const KernelRow kernels[CUDA_KERNEL_COUNT] = {
#define KERNEL_ROW(id, name, text, threads, operations) [id] = {name, threads, operations},
    CUDA_KERNEL_TABLE(KERNEL_ROW)
#undef KERNEL_ROW
};

/* What a kernel reads and writes: `unit` bytes for each of args.count. */
typedef struct KernelUse {
    uint8_t reads, writes, unit;
    double share; /* of the memory's peak */
} KernelUse;

static const KernelUse uses[CUDA_KERNEL_COUNT] = {
    [CUDA_MEMORY_WRITE] = {0, A, 16, CU_SHARE_WRITE},     [CUDA_MEMORY_VERIFY] = {A, 0, 16, CU_SHARE_READ},
    [CUDA_MEMORY_READ] = {A, 0, 16, CU_SHARE_READ},       [CUDA_MEMORY_COPY] = {A, B, 16, CU_SHARE_COPY},
    [CUDA_MEMORY_TRIAD] = {A | B, C, 16, CU_SHARE_TRIAD}, [CUDA_FILL_NORMAL] = {0, A, 4, CU_SHARE_WRITE},
    [CUDA_FILL_INTEGER] = {0, A, 4, CU_SHARE_WRITE},      [CUDA_COMPARE] = {A | B, 0, 4, CU_SHARE_READ},
    [CUDA_ADD_FLOAT] = {A | B, A, 16, CU_SHARE_TRIAD},
};

CudaKernel cu_kernel_find(const char *name)
{
    CudaKernel kernel = 0;

    while (kernel < CUDA_KERNEL_COUNT && strcmp(kernels[kernel].name, name) != 0)
        kernel++;
    return kernel;
}

static bool is_product(CudaKernel kernel)
{
    return kernel == CUDA_GEMM_BF16 || kernel == CUDA_GEMM_REFERENCE;
}

static KernelUse use_of(const CuLaunch *launch)
{
    KernelUse use = uses[launch->kernel];

    if (launch->kernel == CUDA_MEMORY_VERIFY && launch->args.flags & CUDA_KERNEL_INVERT)
        use = (KernelUse){A, A, 16, CU_SHARE_COPY};
    return use;
}

/* --- what it may touch ------------------------------------------------------------------------------------------- */

/* Whether the device's kernels reach a stretch: its own memory, that of the host, or of a peer with access. */
static bool can_reach(CuDevice *device, uint64_t address, uint64_t bytes)
{
    const CuArea *area = cu_space_find(address, bytes);

    if (!area)
        return false;
    if (!area->device || area->device == device)
        return true;
    return device->peers[area->device->ordinal];
}

/* Bytes of argument `which` of a kernel; 0: it does not use it. */
static uint64_t argument_bytes(const CuLaunch *launch, unsigned which)
{
    const CudaKernelArgs *args = &launch->args;
    const KernelUse use = use_of(launch);

    if (is_product(launch->kernel))
        return which == A   ? (uint64_t)args->m * args->k * 2
               : which == B ? (uint64_t)args->n * args->k * 2
                            : (uint64_t)args->m * args->n * 4;
    if (launch->kernel == CUDA_MEMORY_CHASE)
        return which == A ? 4 : 0;
    return (use.reads | use.writes) & which ? args->count * use.unit : 0;
}

static uint64_t argument_at(const CuLaunch *launch, unsigned which)
{
    return which == A ? launch->args.a : which == B ? launch->args.b : launch->args.c;
}

static CUresult check_addresses(CuDevice *device, const CuLaunch *launch)
{
    for (unsigned which = A; which <= C; which <<= 1) {
        const uint64_t bytes = argument_bytes(launch, which), address = argument_at(launch, which);
        const uint64_t unit = uses[launch->kernel].unit ? uses[launch->kernel].unit : 4;

        if (bytes == 0)
            continue;
        if (address % unit != 0)
            return CUDA_MISALIGNED;
        if (!can_reach(device, address, bytes))
            return CUDA_ILLEGAL_ADDRESS;
    }
    if (!can_reach(device, launch->args.result, (uint64_t)launch->blocks * sizeof(CudaBlockResult)) ||
        !can_reach(device, launch->args.stop, 4))
        return CUDA_ILLEGAL_ADDRESS;
    return CUDA_SUCCESS;
}

/* --- how long it takes ------------------------------------------------------------------------------------------- */

/* Bytes through a link: of what is not in the device's own memory. False: all of it is. */
static bool find_route(CuOp *op)
{
    const CuLaunch *launch = &op->launch;
    const KernelUse use = use_of(launch);

    for (unsigned which = A; which <= C; which <<= 1) {
        const uint64_t bytes = argument_bytes(launch, which);
        const CuArea *area = bytes ? cu_space_find(argument_at(launch, which), bytes) : NULL;

        if (!area || area->device == op->device)
            continue;
        op->route = use.writes & which ? cu_route_find(op->device, area->device, true)
                                       : cu_route_find(area->device, op->device, true);
        op->left = (double)bytes;
        return true;
    }
    return false;
}

static double probe_clocks(CuOp *op, uint32_t sm)
{
    const CuLaunch *launch = &op->launch;
    const double speed = cu_sm_speed(op->device, sm, op->begin_ns);

    return kernels[launch->kernel].operations * launch->args.rounds /
           (cu_sm_operations(op->device, launch->kernel) * (speed > 0 ? speed : 1));
}

/* Blocks go to the SMs in turn. */
static double probe_seconds(CuOp *op)
{
    const uint32_t present = cu_sm_present(op->device, op->begin_ns);
    double longest = 0;

    for (uint32_t nth = 0; nth < present && nth < op->launch.blocks; nth++) {
        const uint32_t waves = (op->launch.blocks - nth + present - 1) / present;
        const double clocks = probe_clocks(op, cu_sm_number(op->device, nth, op->begin_ns)) * waves;
        longest = clocks > longest ? clocks : longest;
    }
    return longest / (op->launch.mhz * 1e6);
}

static double memory_seconds(CuOp *op)
{
    const CuLaunch *launch = &op->launch;
    const KernelUse use = use_of(launch);
    const double l2 = (double)cu_device_l2_mib(op->device->board) * 1048576 * op->device->mem_share * PART_OF_L2;
    const double once = (double)launch->args.count * use.unit;
    const uint32_t times = (uint32_t)(__builtin_popcount(use.reads) + __builtin_popcount(use.writes));

    if (launch->kernel == CUDA_MEMORY_READ && once <= l2)
        return once * launch->args.rounds / cu_l2_rate(op->device, op->begin_ns);
    const double bytes = once * (launch->kernel == CUDA_MEMORY_READ ? launch->args.rounds : times);
    return bytes / (cu_memory_rate(op->device, op->begin_ns) * use.share);
}

static double product_operations(const CuOp *op)
{
    return op->launch.args.flags & CU_PRODUCT_OF_LIBRARY ? cu_library_operations(op->device)
                                                         : cu_sm_operations(op->device, op->launch.kernel);
}

static double seconds_alone(CuOp *op)
{
    const CudaKernelArgs *args = &op->launch.args;
    const CudaKernel kernel = op->launch.kernel;

    if (kernel == CUDA_MEMORY_CHASE)
        return args->rounds * CU_CHASE_NS / 1e9;
    if (kernels[kernel].operations > 0)
        return probe_seconds(op);
    if (is_product(kernel))
        return 2.0 * args->m * args->n * args->k /
               (product_operations(op) * cu_sm_worth(op->device, op->begin_ns) * op->launch.mhz * 1e6);
    return memory_seconds(op);
}

static double stretch_of(CuOp *op)
{
    const bool memory = kernels[op->launch.kernel].operations <= 0 && !is_product(op->launch.kernel);

    return cu_stretch(op->device, memory, op->begin_ns);
}

/* A result that the scenario orders for the n-th launch. */
static bool fails_now(CuDevice *device, const uint32_t *set)
{
    const uint32_t code = set[SIM_KEY_CUDA_RESULT];
    const bool sticky =
        code == 214 || code == 220 || code == 226 || code == 700 || code == 702 || (code >= 714 && code <= 719);

    if (!sticky || device->launches <= set[SIM_KEY_CUDA_AFTER])
        return false;
    device->sticky = (CUresult)code;
    return true;
}

static const volatile uint32_t *find_stop_word(CUdeviceptr address)
{
    const CuArea *area = cu_space_find(address, 4);

    return area->real ? (const uint32_t *)(void *)(area->real + (address - area->base)) : NULL;
}

static void begin_kernel(CuOp *op)
{
    CuDevice *device = op->device;
    const uint32_t *set = cu_state(device, op->begin_ns)->cond.set;
    const CUresult wrong = check_addresses(device, &op->launch);

    op->launch.nth = ++device->launches;
    if (fails_now(device, set))
        return;
    if (wrong != CUDA_SUCCESS) {
        device->sticky = wrong;
        return;
    }
    if (set[SIM_KEY_CUDA_HANG] == 1) {
        op->forever = true;
        return;
    }
    op->stop = find_stop_word(op->launch.args.stop);
    op->launch.mhz = cu_sm_mhz(device, op->begin_ns);
    if (op->stop && *op->stop != 0) {
        op->stopped = true;
        op->end_ns = op->begin_ns + STOPPED_NS;
        return;
    }
    if (find_route(op)) {
        op->kind = CU_OP_MOVE;
        op->activity = CU_PEER;
        return;
    }
    const double alone_s = seconds_alone(op);
    if (alone_s < SHORT_S) { /* its stream was empty, so that others have their turn */
        op->begin_ns += cu_turn_wait(device, op->begin_ns);
        op->end_ns = op->begin_ns;
    }
    op->end_ns += (uint64_t)((alone_s * stretch_of(op) + CU_LAUNCH_S) * 1e9);
}

/* --- what it does ------------------------------------------------------------------------------------------------ */

static CuPieces view_argument(const CuLaunch *launch, unsigned which)
{
    CuPieces pieces = {0};

    cu_space_view(argument_at(launch, which), argument_bytes(launch, which), &pieces);
    return pieces;
}

/* The block that handles an index: each takes UNROLL times its threads in a row. */
static uint32_t block_of(const CuLaunch *launch, uint64_t index)
{
    return (uint32_t)(index / (UNROLL * kernels[launch->kernel].threads) % launch->blocks);
}

/* Checksums are the sums of the words; of much memory they follow from what it holds. */
static void sum_blocks(const CuLaunch *launch, const CuPieces *pieces, uint32_t times, CudaBlockResult *blocks)
{
    const uint32_t each = uses[launch->kernel].unit / 4;
    const uint64_t words = argument_bytes(launch, A) / 4, hash = cu_pieces_hash(pieces);

    for (uint32_t b = 0; b < launch->blocks; b++)
        blocks[b].checksum = words > SUMMED_WORDS ? (uint32_t)sim_hash(hash, words, b) : 0;
    if (words > SUMMED_WORDS)
        return;
    for (uint64_t i = 0; i < words; i++) {
        CudaBlockResult *block = &blocks[block_of(launch, i / each)];
        block->checksum = (uint32_t)(block->checksum + cu_pieces_word(pieces, i) * times);
    }
}

static void note_error(CudaBlockResult *block, uint64_t count, uint64_t index, uint32_t want, uint32_t got)
{
    block->errors += count;
    if (index >= block->first_bad)
        return;
    block->first_bad = index;
    block->want = want;
    block->got = got;
}

/* Few errors go to the blocks that read them, many are spread. */
static void spread_errors(const CuLaunch *launch, const CuPieces *want, const CuPieces *got, CudaBlockResult *blocks)
{
    const uint32_t each = uses[launch->kernel].unit / 4;
    CuDifference d;

    cu_pieces_compare(want, got, &d);
    const uint64_t rest = d.count > d.listed ? d.count - d.listed : 0;

    for (uint64_t i = 0; i < d.listed; i++)
        note_error(&blocks[block_of(launch, d.first[i] / each)], 1, d.first[i], cu_pieces_word(want, d.first[i]),
                   cu_pieces_word(got, d.first[i]));
    for (uint32_t b = 0; rest > 0 && b < launch->blocks; b++)
        note_error(&blocks[b], rest / launch->blocks + (b < rest % launch->blocks), d.first[0], d.want, d.got);
}

static void verify_memory(const CuLaunch *launch, CudaBlockResult *blocks)
{
    const CudaKernelArgs *args = &launch->args;
    CuContent *content = cu_content_pattern(args->pattern, args->seed, args->flags & CUDA_KERNEL_INVERTED);
    CuPieces got = view_argument(launch, A), want = {0};

    cu_pieces_add(&want, content, 0, args->count * 4);
    cu_content_drop(content);
    sum_blocks(launch, &got, 1, blocks);
    spread_errors(launch, &want, &got, blocks);
    if (args->flags & CUDA_KERNEL_INVERT)
        cu_space_fill(args->a, args->count * 4, cu_content_pattern(args->pattern, args->seed, true));
    cu_pieces_done(&want);
    cu_pieces_done(&got);
}

/* Stores pieces as the argument `which`. */
static void store_argument(const CuLaunch *launch, unsigned which, CuPieces *pieces, CudaBlockResult *blocks)
{
    sum_blocks(launch, pieces, 1, blocks);
    cu_space_store(argument_at(launch, which), pieces);
    cu_pieces_done(pieces);
}

static void store_content(const CuLaunch *launch, unsigned which, CuContent *content, CudaBlockResult *blocks)
{
    CuPieces pieces = {0};

    cu_pieces_add(&pieces, content, 0, argument_bytes(launch, which) / 4);
    cu_content_drop(content);
    store_argument(launch, which, &pieces, blocks);
}

static void copy_memory(CuOp *op, CudaBlockResult *blocks)
{
    CuPieces pieces = view_argument(&op->launch, A);

    store_argument(&op->launch, B, &pieces, blocks);
    if (cu_is_corrupt(op->route.from, op->route.to))
        cu_space_damage(op->launch.args.b, op->launch.args.count * 4);
}

static void add_memory(const CuLaunch *launch, uint8_t to, float factor, CudaBlockResult *blocks)
{
    CuPieces a = view_argument(launch, A), b = view_argument(launch, B);

    store_content(launch, to, cu_content_sum(&a, &b, factor), blocks);
}

static void compare_memory(const CuLaunch *launch, CudaBlockResult *blocks)
{
    CuPieces got = view_argument(launch, A), want = view_argument(launch, B);

    sum_blocks(launch, &got, 1, blocks);
    spread_errors(launch, &want, &got, blocks);
    cu_pieces_done(&got);
    cu_pieces_done(&want);
}

static void chase_links(CuOp *op, CudaBlockResult *blocks)
{
    const CudaKernelArgs *args = &op->launch.args;
    const CuArea *area = cu_space_find(args->a, 4);
    const uint64_t words = (area->base + area->bytes - args->a) / 4;
    CuPieces pieces = {0};
    uint32_t at = 0;

    cu_space_view(args->a, words * 4, &pieces);
    for (uint32_t i = 0; i < args->rounds; i++) {
        at = cu_pieces_word(&pieces, at);
        blocks[0].checksum = (uint32_t)(blocks[0].checksum + at);
        if (at >= words) {
            op->device->sticky = CUDA_ILLEGAL_ADDRESS;
            break;
        }
    }
    cu_pieces_done(&pieces);
}

/* --- wrong results ----------------------------------------------------------------------------------------------- */

typedef struct Wrong {
    double rate;
    uint32_t sm, how;
    uint64_t seed;
} Wrong;

static Wrong read_wrong(CuOp *op)
{
    const uint32_t *set = cu_state(op->device, op->begin_ns)->cond.set;
    Wrong wrong = {.sm = (set[SIM_KEY_WRONG_SM] ? set[SIM_KEY_WRONG_SM] - 1 : 0) - op->device->first_sm,
                   .how = set[SIM_KEY_WRONG_HOW]};
    float rate;

    memcpy(&rate, &set[SIM_KEY_WRONG_RATE], sizeof rate);
    wrong.rate = (double)rate;
    wrong.seed = sim_hash(cu_process.image->seed, op->launch.kernel,
                          wrong.how & SIM_WRONG_REPEATS ? op->launch.args.seed : op->launch.nth + op->begin_ns);
    return wrong;
}

/* How many of so many operations go wrong. */
static uint64_t count_wrong(const Wrong *wrong, double operations)
{
    const double mean = wrong->rate * operations;
    const double left = sim_exp(-mean);
    uint64_t count = 0;

    if (wrong->rate > 0 && wrong->how & SIM_WRONG_REPEATS)
        return mean > 1 ? (uint64_t)mean : 1;
    if (mean > 30)
        return (uint64_t)mean;
    double product = sim_unit(wrong->seed, 0, 1);
    while (product > left && count < WRONG_MAX)
        product *= sim_unit(wrong->seed, ++count, 1);
    return count;
}

static uint32_t wrong_bits(const Wrong *wrong, uint64_t nth, uint32_t right)
{
    return wrong->how & SIM_WRONG_NAN ? 0x7fc00000u : right ^ 1u << (12 + sim_hash(wrong->seed, nth, 2) % 12);
}

static void run_probe(CuOp *op, CudaBlockResult *blocks)
{
    const CuLaunch *launch = &op->launch;
    const Wrong wrong = read_wrong(op);
    const uint32_t right = 0x45800000u, accumulators = kernels[launch->kernel].threads * 8;

    for (uint32_t b = 0; b < launch->blocks; b++) {
        blocks[b].checksum = sim_hash(launch->kernel, launch->args.rounds, 3);
        if (blocks[b].smid != wrong.sm)
            continue;
        const uint64_t count = count_wrong(&wrong, kernels[launch->kernel].operations * launch->args.rounds);
        if (count == 0)
            continue;
        note_error(&blocks[b], count < accumulators ? count : accumulators, sim_hash(wrong.seed, b, 4) % accumulators,
                   right, wrong_bits(&wrong, 0, right));
        blocks[b].checksum ^= blocks[b].got;
    }
}

/* Some words of the tiles that the wrong SM made. */
static void spoil_product(CuOp *op, CudaBlockResult *blocks)
{
    const CudaKernelArgs *args = &op->launch.args;
    const uint32_t across = args->n / TILE;
    const Wrong wrong = read_wrong(op);
    uint32_t mine = 0;

    for (uint32_t b = 0; b < op->launch.blocks; b++)
        mine += blocks[b].smid == wrong.sm;
    const uint64_t count = mine ? count_wrong(&wrong, 2.0 * TILE * TILE * args->k * mine) : 0;
    for (uint64_t i = 0; i < count && i < WRONG_MAX; i++) {
        const uint64_t h = sim_hash(wrong.seed, i, 5);
        uint32_t b = (uint32_t)(h % mine);

        for (uint32_t at = 0; at < op->launch.blocks; at++)
            if (blocks[at].smid == wrong.sm && b-- == 0) {
                b = at;
                break;
            }
        const uint64_t row = (uint64_t)b / across * TILE + (h >> 32) % TILE,
                       column = b % across * TILE + (h >> 48) % TILE;
        const uint64_t address = args->c + (row * args->n + column) * 4;
        const uint32_t right = cu_space_word(address), got = wrong_bits(&wrong, i, right);
        cu_space_set_word(address, got);
        blocks[b].checksum = (uint32_t)(blocks[b].checksum + got - right);
    }
}

static void sum_tiles(const CuLaunch *launch, uint64_t id, CudaBlockResult *blocks)
{
    const CudaKernelArgs *args = &launch->args;
    const uint64_t words = (uint64_t)args->m * args->n;

    for (uint32_t b = 0; b < launch->blocks; b++)
        blocks[b].checksum = words > SUMMED_WORDS ? (uint32_t)sim_hash(id, b, 6) : 0;
    for (uint64_t i = 0; words <= SUMMED_WORDS && i < words; i++) {
        const uint64_t tile = i / args->n / TILE * (args->n / TILE) + i % args->n / TILE;
        CudaBlockResult *block = &blocks[launch->kernel == CUDA_GEMM_BF16 ? tile : 0u];
        block->checksum = (uint32_t)(block->checksum + cu_space_word(args->c + i * 4));
    }
}

static void multiply_matrices(CuOp *op, CudaBlockResult *blocks)
{
    const CudaKernelArgs *args = &op->launch.args;
    CuPieces a = view_argument(&op->launch, A), b = view_argument(&op->launch, B);
    CuPieces product = {0};
    uint64_t phase;
    CuContent *content = cu_content_product(&a, &b, args->n, args->k, op->launch.kernel, &phase);
    const uint64_t id = cu_content_id(content);

    cu_pieces_add(&product, content, phase, (uint64_t)args->m * args->n);
    cu_content_drop(content);
    cu_space_store(args->c, &product);
    cu_pieces_done(&product);
    sum_tiles(&op->launch, id, blocks);
    if (op->launch.kernel == CUDA_GEMM_BF16)
        spoil_product(op, blocks);
}

/* --- its end ----------------------------------------------------------------------------------------------------- */

static void do_kernel(CuOp *op, CudaBlockResult *blocks)
{
    const CuLaunch *launch = &op->launch;
    const CudaKernelArgs *args = &launch->args;

    switch (launch->kernel) {
    case CUDA_MEMORY_WRITE:
        store_content(launch, A, cu_content_pattern(args->pattern, args->seed, args->flags & CUDA_KERNEL_INVERT),
                      blocks);
        break;
    case CUDA_MEMORY_VERIFY:
        verify_memory(launch, blocks);
        break;
    case CUDA_MEMORY_READ: {
        CuPieces pieces = view_argument(launch, A);
        sum_blocks(launch, &pieces, args->rounds, blocks);
        cu_pieces_done(&pieces);
        break;
    }
    case CUDA_MEMORY_COPY:
        copy_memory(op, blocks);
        break;
    case CUDA_MEMORY_TRIAD:
        add_memory(launch, C, 3, blocks);
        break;
    case CUDA_ADD_FLOAT:
        add_memory(launch, A, 1, blocks);
        break;
    case CUDA_MEMORY_CHASE:
        chase_links(op, blocks);
        break;
    case CUDA_FILL_NORMAL:
        store_content(launch, A, cu_content_normal(args->seed), blocks);
        break;
    case CUDA_FILL_INTEGER:
        store_content(launch, A, cu_content_integer(args->seed), blocks);
        break;
    case CUDA_COMPARE:
        compare_memory(launch, blocks);
        break;
    case CUDA_GEMM_BF16:
    case CUDA_GEMM_REFERENCE:
        multiply_matrices(op, blocks);
        break;
    default:
        run_probe(op, blocks);
        break;
    }
}

/* Where and when each block ran. */
static void time_blocks(CuOp *op, CudaBlockResult *blocks)
{
    const CuLaunch *launch = &op->launch;
    const uint32_t present = cu_sm_present(op->device, op->begin_ns);
    const uint64_t epoch_ns = cu_process.image->epoch_us * 1000, all_ns = op->end_ns - op->begin_ns;
    const double stretch = stretch_of(op);

    for (uint32_t b = 0; b < launch->blocks; b++) {
        CudaBlockResult *block = &blocks[b];
        double begin = 0, clocks = (double)all_ns * launch->mhz / 1000;

        block->smid = cu_sm_number(op->device, b % present, op->begin_ns);
        if (kernels[launch->kernel].operations > 0 && !op->stopped) {
            clocks = probe_clocks(op, block->smid) * stretch;
            begin = clocks * (b / present);
        }
        block->clocks = (uint64_t)(clocks + 0.5);
        block->begin_ns = epoch_ns + op->begin_ns + (uint64_t)(begin / launch->mhz * 1000 + 0.5);
        block->end_ns = epoch_ns + op->begin_ns + (uint64_t)((begin + clocks) / launch->mhz * 1000 + 0.5);
        block->first_bad = UINT64_MAX;
        block->stopped = op->stopped;
    }
}

static void finish_kernel(CuOp *op)
{
    CudaBlockResult *blocks = calloc(op->launch.blocks, sizeof *blocks);

    if (!blocks)
        abort();
    if (check_addresses(op->device, &op->launch) != CUDA_SUCCESS) { /* freed meanwhile */
        op->device->sticky = CUDA_ILLEGAL_ADDRESS;
    } else {
        time_blocks(op, blocks);
        if (!op->stopped)
            do_kernel(op, blocks);
        cu_space_write(op->launch.args.result, blocks, op->launch.blocks * sizeof *blocks);
    }
    free(blocks);
}

static CuActivity activity_of(const CuLaunch *launch)
{
    const CudaKernel kernel = launch->kernel;

    if (is_product(kernel))
        return CU_GEMM;
    if (kernel == CUDA_PROBE_FMA32 || kernel == CUDA_PROBE_FMA64)
        return CU_FLOAT;
    return kernels[kernel].operations > 0 ? CU_TENSOR : CU_MEMORY;
}

void cu_kernel_queue(CUstream stream, CudaKernel kernel, uint32_t blocks, const CudaKernelArgs *args)
{
    CuOp op = {.kind = CU_OP_TIMED,
               .exclusive = true,
               .begin = begin_kernel,
               .finish = finish_kernel,
               .launch = {.kernel = kernel, .blocks = blocks, .args = *args}};

    op.activity = activity_of(&op.launch);
    cu_queue_add(stream, &op);
}
