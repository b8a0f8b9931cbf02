/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/physics.h"

#include "sim/core/num.h"
#include "sim/cuda/activity.h"
#include "sim/cuda/devices.h"

static const uint32_t *settings_of(CuDevice *device, uint64_t t_ns)
{
    return cu_state(device, t_ns)->cond.set;
}

/* --- clocks and memory ------------------------------------------------------------------------------------------- */

double cu_sm_mhz(CuDevice *device, uint64_t t_ns)
{
    const uint32_t mhz = device->work.runs ? cu_state(device, t_ns)->sm_mhz : device->board->sm_clock_max;

    return mhz ? mhz : 1;
}

double cu_memory_rate(CuDevice *device, uint64_t t_ns)
{
    const SimNow *now = cu_state(device, t_ns);
    const uint32_t mig = now->cond.set[SIM_KEY_MEMORY_MIG];
    const uint32_t permille = mig && (int32_t)mig - 1 != device->mig ? 0 : now->cond.set[SIM_KEY_MEMORY_PERMILLE];
    const double mhz = device->work.runs ? now->mem_mhz : device->board->mem_clock_max;

    return device->board->bus_width_bits / 8.0 * mhz * 2e6 * device->mem_share * (permille ? permille / 1000.0 : 1);
}

double cu_l2_rate(CuDevice *device, uint64_t t_ns)
{
    const double peak = device->board->bus_width_bits / 8.0 * device->board->mem_clock_max * 2e6 * device->mem_share;

    return CU_L2_FACTOR * peak * cu_sm_mhz(device, t_ns) / device->board->sm_clock_max;
}

/* --- neighbours -------------------------------------------------------------------------------------------------- */

#define BUSY_MAX 0.95
#define BUSY_MIN 0.1
#define TURN_NS 2000000 /* of each process, where they take turns; an estimate */

static bool is_same_gi(const CuDevice *device, const SimProc *proc)
{
    return proc->gi == device->gi;
}

static bool is_same_ci(const CuDevice *device, const SimProc *proc)
{
    return proc->gi == device->gi && proc->ci == device->ci;
}

static bool is_same_gpu(const CuDevice *device, const SimProc *proc)
{
    (void)device;
    (void)proc;
    return true;
}

/* Processes beside this one that `fits`, and whose work is bound by it. */
static uint32_t count_others(CuDevice *device, uint64_t t_ns, SimBound bound,
                             bool (*fits)(const CuDevice *device, const SimProc *proc))
{
    const SimNow *now = cu_state(device, t_ns);
    uint32_t count = 0;

    for (uint32_t i = 0; i < now->proc_count; i++)
        count += !cu_activity_is_own(device, now->proc[i].work) && fits(device, &now->proc[i]) &&
                 cu_process.image->works[now->proc[i].work].phases[0].bound == bound;
    return count;
}

static double others_busy(CuDevice *device, uint64_t t_ns)
{
    const SimNow *now = cu_state(device, t_ns);
    double busy = 0;

    for (uint32_t i = 0; i < now->proc_count; i++)
        if (!cu_activity_is_own(device, now->proc[i].work) && is_same_ci(device, &now->proc[i]))
            busy += now->proc[i].win[SIM_CH_KERNEL] * device->board->sm_count / device->sm_count;
    return busy < BUSY_MAX ? busy : BUSY_MAX;
}

double cu_stretch(CuDevice *device, bool memory, uint64_t t_ns)
{
    if (cu_process.mps) /* side by side: each gets a part of what both need */
        return 1 +
               count_others(device, t_ns, memory ? SIM_BOUND_DRAM : SIM_BOUND_CORE, memory ? is_same_gi : is_same_ci);
    const double busy = others_busy(device, t_ns);
    /* where this process computes too by the node's plan, others have their share of it already */
    const double turns = device->work.kind >= CU_MEMORY && device->work.kind <= CU_GEMM ? 1 / (1 - busy) : 1 + busy;
    const uint32_t all = memory ? count_others(device, t_ns, SIM_BOUND_DRAM, is_same_gi) : 0;
    const uint32_t taking_turns = memory ? count_others(device, t_ns, SIM_BOUND_DRAM, is_same_ci) : 0;

    return turns * (1 + all - taking_turns); /* other compute instances of the GPU instance */
}

uint64_t cu_turn_wait(CuDevice *device, uint64_t t_ns)
{
    if (cu_process.mps || others_busy(device, t_ns) < BUSY_MIN)
        return 0;
    return sim_hash(cu_process.image->seed, t_ns, 7) % TURN_NS;
}

/* --- arithmetic -------------------------------------------------------------------------------------------------- */

/* Dense floating-point operations of the tensor cores of an SM in a clock, of half precision into fp32: data sheets and
 * architecture papers. GeForce boards accumulate in fp32 at half the rate. */
static double tensor_operations(const SimBoard *board)
{
    switch (board->cc_major) {
    case 7:
        return 1024;
    case 8:
        return board->cc_minor == 0 ? 2048 : cu_device_is_geforce(board) ? 512 : 1024;
    case 9:
        return 4096;
    case 10:
        return 8192;
    default:
        return cu_device_is_geforce(board) ? 512 : 1024;
    }
}

/* What mma.sync reaches of it: all but on Hopper (63 to 65 % measured); on Blackwell servers not known, taken as 0.5.
 */
static double mma_share(const SimBoard *board)
{
    return board->cc_major == 9 ? 0.64 : board->cc_major == 10 ? 0.5 : 1;
}

static double double_operations(const SimBoard *board)
{
    const uint32_t cc = board->cc_major * 10 + board->cc_minor;

    return cc == 80 ? 64 : cc == 90 || cc == 100 ? 128 : 4;
}

static double double_tensor_operations(const SimBoard *board)
{
    const uint32_t cc = board->cc_major * 10 + board->cc_minor;

    return cc == 80 || cc == 100 ? 128 : cc == 90 ? 256 : 2;
}

static double float_operations(const SimBoard *board)
{
    return board->cc_major == 7 || (board->cc_major == 8 && board->cc_minor == 0) ? 128 : 256;
}

double cu_sm_operations(const CuDevice *device, CudaKernel kernel)
{
    const SimBoard *board = device->board;
    const double full = tensor_operations(board), mma = full * mma_share(board);
    const bool has_fp8_mma = (board->cc_major == 8 && board->cc_minor == 9) || board->cc_major >= 12;

    switch (kernel) {
    case CUDA_PROBE_FMA32:
        return float_operations(board);
    case CUDA_PROBE_FMA64:
        return double_operations(board);
    case CUDA_PROBE_MMA_TF32:
        return mma / 2;
    case CUDA_PROBE_MMA_INT8:
        return mma * 2;
    case CUDA_PROBE_MMA_S8: /* the shape of Turing runs at half the rate later on */
        return board->cc_major == 7 ? mma * 2 : mma;
    case CUDA_PROBE_MMA_F64:
        return double_tensor_operations(board);
    case CUDA_PROBE_MMA_FP8:
        return has_fp8_mma ? mma * 2 : mma;
    case CUDA_PROBE_WGMMA_BF16:
    case CUDA_PROBE_TCGEN05_BF16:
        return full;
    case CUDA_PROBE_WGMMA_FP8:
        return full * 2;
    case CUDA_GEMM_BF16:
        return mma * CU_GEMM_SHARE;
    case CUDA_GEMM_REFERENCE:
        return float_operations(board) / 2;
    default:
        return mma;
    }
}

double cu_library_operations(const CuDevice *device)
{
    return tensor_operations(device->board) * CU_LIBRARY_SHARE;
}

/* --- SMs that are slow or missing -------------------------------------------------------------------------------- */

/* The number of a setting is one of the board, plus 1: here plus 1, or 0 where this device has not that SM. */
static uint32_t own_sm(const CuDevice *device, uint32_t set)
{
    return set > device->first_sm && set - device->first_sm <= device->sm_count ? set - device->first_sm : 0;
}

double cu_sm_speed(CuDevice *device, uint32_t sm, uint64_t t_ns)
{
    const uint32_t *set = settings_of(device, t_ns);

    return own_sm(device, set[SIM_KEY_MISSING_SM]) == sm + 1 ? 0
           : own_sm(device, set[SIM_KEY_SLOW_SM]) == sm + 1  ? set[SIM_KEY_SLOW_PERMILLE] / 1000.0
                                                             : 1;
}

static uint32_t missing_sm(CuDevice *device, uint64_t t_ns)
{
    const uint32_t sm = own_sm(device, settings_of(device, t_ns)[SIM_KEY_MISSING_SM]);

    return device->sm_count > 1 ? sm : 0;
}

uint32_t cu_sm_present(CuDevice *device, uint64_t t_ns)
{
    return device->sm_count - (missing_sm(device, t_ns) > 0);
}

uint32_t cu_sm_number(CuDevice *device, uint32_t nth, uint64_t t_ns)
{
    const uint32_t missing = missing_sm(device, t_ns);

    return missing > 0 && nth >= missing - 1 ? nth + 1 : nth;
}

double cu_sm_worth(CuDevice *device, uint64_t t_ns)
{
    const uint32_t *set = settings_of(device, t_ns);
    double worth = cu_sm_present(device, t_ns);

    if (own_sm(device, set[SIM_KEY_SLOW_SM]) > 0)
        worth -= 1 - set[SIM_KEY_SLOW_PERMILLE] / 1000.0;
    return worth;
}

/* --- links ------------------------------------------------------------------------------------------------------- */

enum { LINK_PCIE_IN, LINK_PCIE_OUT, LINK_NVLINK_OUT, LINK_NVLINK_IN };

static uint32_t links_up(CuDevice *device)
{
    const SimCond *cond = &cu_state(device, cu_now())->cond;
    uint32_t up = 0;

    for (uint32_t i = 0; i < device->board->link_count && i < SIM_LINK_MAX; i++)
        up += cond->link[i].state != 0; /* a sleeping one wakes up */
    return up;
}

static bool joins_nvlink(CuDevice *from, CuDevice *to)
{
    if (from->board != to->board || links_up(from) == 0 || links_up(to) == 0)
        return false;
    return from->board->link_to_switch || cu_device_bridged(from) == (int)to->gpu;
}

static bool has_bit(CuDevice *device, SimKey key, const CuDevice *other)
{
    return settings_of(device, cu_now())[key] >> other->gpu & 1;
}

bool cu_can_access(CuDevice *from, CuDevice *to)
{
    if (from == to || from->mig != SIM_NONE || to->mig != SIM_NONE || has_bit(from, SIM_KEY_PEER_NONE, to))
        return false;
    return !cu_device_is_geforce(from->board) && !cu_device_is_geforce(to->board);
}

bool cu_is_corrupt(CuDevice *from, CuDevice *to)
{
    return from && to && has_bit(from, SIM_KEY_PEER_CORRUPT, to);
}

CuRoute cu_route_find(CuDevice *from, CuDevice *to, bool access)
{
    CuRoute route = {.from = from, .to = to};

    if (!from || !to)
        return route;
    route.staged = !access || !cu_can_access(from, to) || has_bit(from, SIM_KEY_PEER_STAGED, to);
    route.nvlink = !route.staged && joins_nvlink(from, to);
    return route;
}

void cu_route_links(const CuRoute *route, int ret[2])
{
    ret[0] = route->from ? (int)route->from->gpu * 4 + (route->nvlink ? LINK_NVLINK_OUT : LINK_PCIE_OUT) : -1;
    ret[1] = route->to ? (int)route->to->gpu * 4 + (route->nvlink ? LINK_NVLINK_IN : LINK_PCIE_IN) : -1;
}

/* Bytes per second and direction: 8b/10b up to generation 2, 128b/130b and better from 3 on. */
static double pcie_rate(CuDevice *device, uint64_t t_ns)
{
    const SimCond *cond = &cu_state(device, t_ns)->cond;
    const uint32_t slot_gen = cond->set[SIM_KEY_SLOT_GEN], slot_width = cond->set[SIM_KEY_SLOT_WIDTH];
    const uint32_t gen = slot_gen && slot_gen < cond->pcie_gen ? slot_gen : cond->pcie_gen;
    const uint32_t width = slot_width && slot_width < cond->pcie_width ? slot_width : cond->pcie_width;

    return (gen <= 2 ? 250e6 * gen : 985e6 * (double)(1u << ((gen - 3) & 7))) * width * CU_PCIE_SHARE;
}

double cu_link_rate(const CuRoute *route, int link, uint64_t t_ns)
{
    const bool out = link % 4 == LINK_PCIE_OUT || link % 4 == LINK_NVLINK_OUT;
    CuDevice *device = out ? route->from : route->to;

    if (route->nvlink)
        return 1e6 * device->board->link_mbytes_per_s * links_up(device) * CU_NVLINK_SHARE;
    return pcie_rate(device, t_ns) * (route->staged ? CU_STAGED_SHARE : 1) /
           (1 + count_others(device, t_ns, SIM_BOUND_PCIE, is_same_gpu));
}
