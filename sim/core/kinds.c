/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The named kinds of work as phases of activity, relative to what the GPU can do. Traffic is given as a fraction of the
 * board's PCIe and NVLink bandwidth and turned into bytes here.
 */
#include "sim/core/kinds.h"

#include <errno.h>
#include <string.h>

#include "sim/core/num.h"

/* One phase of a kind: seconds at full speed, its bound, its use (fractions of the board's peak). */
typedef struct PhaseRow {
    double seconds;
    uint8_t bound, flags;
    double kernel, sm, occ, hmma, imma, dfma, fp64, fp32, fp16, integer, dram, dram_t, pcie_tx, pcie_rx, link;
    double enc, dec;
} PhaseRow;

typedef struct KindRow {
    const char *name, *about;
    double memory; /* fraction of the GPU's memory */
    double leak_mib_per_s;
    uint8_t graphics;
    uint8_t bursts; /* the rows are stretched into a long irregular pattern of requests */
    uint8_t count;
    PhaseRow rows[6];
} KindRow;

#define C SIM_BOUND_CORE
#define D SIM_BOUND_DRAM
#define F SIM_BOUND_FIXED
#define L SIM_BOUND_LINK
#define BAR SIM_PHASE_BARRIER

/* clang-format off */
static const KindRow kinds[] = {
    {.name = "train", .about = "a training step: forward, backward, gradient exchange, optimiser",
     .memory = 0.82, .count = 5, .rows = {
      {.seconds = 0.095, .bound = C, .kernel = 1, .sm = 0.94, .occ = 0.34, .hmma = 0.50, .fp32 = 0.10, .fp16 = 0.02, .integer = 0.10, .dram = 0.42, .dram_t = 0.72, .pcie_tx = 0.002, .pcie_rx = 0.004},
      {.seconds = 0.190, .bound = C, .kernel = 1, .sm = 0.96, .occ = 0.36, .hmma = 0.54, .fp32 = 0.12, .fp16 = 0.02, .integer = 0.11, .dram = 0.50, .dram_t = 0.78, .pcie_tx = 0.002, .pcie_rx = 0.002, .link = 0.10},
      {.seconds = 0.060, .bound = L, .flags = BAR, .kernel = 1, .sm = 0.30, .occ = 0.10, .fp32 = 0.04, .fp16 = 0.05, .integer = 0.05, .dram = 0.20, .dram_t = 0.45, .pcie_tx = 0.010, .pcie_rx = 0.010, .link = 0.78},
      {.seconds = 0.025, .bound = D, .kernel = 1, .sm = 0.88, .occ = 0.52, .fp32 = 0.16, .fp16 = 0.02, .integer = 0.06, .dram = 0.86, .dram_t = 0.98, .pcie_tx = 0.001, .pcie_rx = 0.001},
      {.seconds = 0.006, .bound = F, .pcie_tx = 0.020, .pcie_rx = 0.030}}},
    {.name = "train-starved", .about = "a training step that waits for its data loader: the power sawtooth",
     .memory = 0.70, .count = 4, .rows = {
      {.seconds = 0.070, .bound = C, .kernel = 1, .sm = 0.94, .occ = 0.34, .hmma = 0.50, .fp32 = 0.10, .fp16 = 0.02, .integer = 0.10, .dram = 0.42, .dram_t = 0.72, .pcie_tx = 0.002, .pcie_rx = 0.010},
      {.seconds = 0.130, .bound = C, .kernel = 1, .sm = 0.96, .occ = 0.36, .hmma = 0.54, .fp32 = 0.12, .fp16 = 0.02, .integer = 0.11, .dram = 0.50, .dram_t = 0.78, .pcie_tx = 0.002, .pcie_rx = 0.002, .link = 0.08},
      {.seconds = 0.030, .bound = L, .flags = BAR, .kernel = 1, .sm = 0.30, .occ = 0.10, .fp32 = 0.04, .fp16 = 0.05, .integer = 0.05, .dram = 0.20, .dram_t = 0.45, .pcie_tx = 0.010, .pcie_rx = 0.010, .link = 0.60},
      {.seconds = 0.520, .bound = F, .pcie_tx = 0.001, .pcie_rx = 0.060}}},
    {.name = "train-pausing", .about = "training that pauses for 8 s each minute",
     .memory = 0.82, .count = 3, .rows = {
      {.seconds = 51.7, .bound = C, .kernel = 1, .sm = 0.94, .occ = 0.35, .hmma = 0.50, .fp32 = 0.11, .fp16 = 0.02, .integer = 0.10, .dram = 0.48, .dram_t = 0.76, .pcie_tx = 0.002, .pcie_rx = 0.003, .link = 0.08},
      {.seconds = 0.3, .bound = L, .flags = BAR, .kernel = 1, .sm = 0.30, .occ = 0.10, .fp32 = 0.04, .fp16 = 0.05, .integer = 0.05, .dram = 0.20, .dram_t = 0.45, .pcie_tx = 0.010, .pcie_rx = 0.010, .link = 0.78},
      {.seconds = 8, .bound = F, .pcie_tx = 0.010}}},
    {.name = "train-fp32", .about = "training in single precision: tensor cores sleep",
     .memory = 0.60, .count = 4, .rows = {
      {.seconds = 0.180, .bound = C, .kernel = 1, .sm = 0.93, .occ = 0.40, .fp32 = 0.62, .integer = 0.12, .dram = 0.30, .dram_t = 0.60, .pcie_tx = 0.002, .pcie_rx = 0.004},
      {.seconds = 0.360, .bound = C, .kernel = 1, .sm = 0.95, .occ = 0.42, .fp32 = 0.66, .integer = 0.12, .dram = 0.34, .dram_t = 0.64, .pcie_tx = 0.002, .pcie_rx = 0.002, .link = 0.06},
      {.seconds = 0.060, .bound = L, .flags = BAR, .kernel = 1, .sm = 0.30, .occ = 0.10, .fp32 = 0.04, .fp16 = 0.02, .integer = 0.05, .dram = 0.20, .dram_t = 0.45, .pcie_tx = 0.010, .pcie_rx = 0.010, .link = 0.70},
      {.seconds = 0.012, .bound = F, .pcie_tx = 0.010, .pcie_rx = 0.020}}},
    {.name = "decode", .about = "memory-bound token generation",
     .memory = 0.88, .count = 2, .rows = {
      {.seconds = 0.0280, .bound = D, .kernel = 1, .sm = 0.62, .occ = 0.22, .hmma = 0.06, .fp32 = 0.05, .fp16 = 0.04, .integer = 0.07, .dram = 0.86, .dram_t = 0.97, .pcie_tx = 0.001, .pcie_rx = 0.001, .link = 0.02},
      {.seconds = 0.0016, .bound = F, .pcie_tx = 0.004, .pcie_rx = 0.002}}},
    {.name = "inference", .about = "requests that come in bursts",
     .memory = 0.55, .bursts = 1, .count = 2, .rows = {
      {.seconds = 0.080, .bound = C, .kernel = 1, .sm = 0.78, .occ = 0.28, .hmma = 0.34, .imma = 0.06, .fp32 = 0.08, .fp16 = 0.05, .integer = 0.10, .dram = 0.38, .dram_t = 0.66, .pcie_tx = 0.006, .pcie_rx = 0.012},
      {.seconds = 0.120, .bound = F}}},
    {.name = "tiny-kernels", .about = "one small kernel after another: always resident, one SM at work",
     .memory = 0.06, .count = 1, .rows = {
      {.seconds = 1.0, .bound = C, .kernel = 1, .sm = 0.0076, .occ = 0.0005, .fp32 = 0.003, .integer = 0.002, .dram = 0.0005, .dram_t = 0.004, .pcie_tx = 0.0005, .pcie_rx = 0.0005}}},
    {.name = "idle-context", .about = "holds memory and does nothing",
     .memory = 0.75, .count = 1, .rows = {
      {.seconds = 1.0, .bound = F}}},
    {.name = "hung-collective", .about = "spins in a collective whose peers are gone",
     .memory = 0.82, .count = 1, .rows = {
      {.seconds = 1.0, .bound = F, .kernel = 1, .sm = 0.14, .occ = 0.035, .integer = 0.02, .dram = 0.002, .dram_t = 0.01}}},
    {.name = "leak", .about = "inference that loses memory with every request",
     .memory = 0.25, .leak_mib_per_s = 4.0, .bursts = 1, .count = 2, .rows = {
      {.seconds = 0.060, .bound = C, .kernel = 1, .sm = 0.70, .occ = 0.25, .hmma = 0.30, .fp32 = 0.08, .fp16 = 0.05, .integer = 0.10, .dram = 0.34, .dram_t = 0.60, .pcie_tx = 0.004, .pcie_rx = 0.008},
      {.seconds = 0.180, .bound = F}}},
    {.name = "noisy", .about = "a neighbour that takes all it can get: memory traffic and long kernels",
     .memory = 0.20, .count = 1, .rows = {
      {.seconds = 0.500, .bound = D, .kernel = 1, .sm = 0.97, .occ = 0.70, .fp32 = 0.20, .integer = 0.15, .dram = 0.90, .dram_t = 0.99, .pcie_tx = 0.02, .pcie_rx = 0.02}}},
    {.name = "hpc-fp64", .about = "double-precision simulation",
     .memory = 0.50, .count = 3, .rows = {
      {.seconds = 0.240, .bound = C, .kernel = 1, .sm = 0.95, .occ = 0.45, .dfma = 0.28, .fp64 = 0.44, .fp32 = 0.06, .integer = 0.12, .dram = 0.46, .dram_t = 0.80, .pcie_tx = 0.002, .pcie_rx = 0.002},
      {.seconds = 0.050, .bound = L, .flags = BAR, .kernel = 1, .sm = 0.40, .occ = 0.12, .fp64 = 0.04, .fp32 = 0.02, .integer = 0.05, .dram = 0.30, .dram_t = 0.50, .pcie_tx = 0.02, .pcie_rx = 0.02, .link = 0.40},
      {.seconds = 0.010, .bound = F, .pcie_tx = 0.05, .pcie_rx = 0.05}}},
    {.name = "quantized", .about = "8-bit inference at full tilt",
     .memory = 0.45, .count = 2, .rows = {
      {.seconds = 0.020, .bound = C, .kernel = 1, .sm = 0.90, .occ = 0.32, .hmma = 0.05, .imma = 0.48, .fp32 = 0.06, .fp16 = 0.03, .integer = 0.14, .dram = 0.48, .dram_t = 0.78, .pcie_tx = 0.004, .pcie_rx = 0.006},
      {.seconds = 0.001, .bound = F, .pcie_tx = 0.01, .pcie_rx = 0.01}}},
    {.name = "video", .about = "decoding, filtering and encoding of video",
     .memory = 0.10, .count = 2, .rows = {
      {.seconds = 0.012, .bound = C, .kernel = 1, .sm = 0.25, .occ = 0.12, .fp32 = 0.10, .fp16 = 0.05, .integer = 0.10, .dram = 0.14, .dram_t = 0.40, .pcie_tx = 0.02, .pcie_rx = 0.05, .enc = 0.62, .dec = 0.71},
      {.seconds = 0.008, .bound = F, .dram = 0.04, .dram_t = 0.10, .pcie_tx = 0.01, .pcie_rx = 0.02, .enc = 0.40, .dec = 0.50}}},
    {.name = "burn", .about = "a stress test: everything at once",
     .memory = 0.90, .count = 1, .rows = {
      {.seconds = 1.0, .bound = C, .kernel = 1, .sm = 0.99, .occ = 0.60, .hmma = 0.72, .fp32 = 0.20, .fp16 = 0.05, .integer = 0.15, .dram = 0.62, .dram_t = 0.98, .pcie_tx = 0.001, .pcie_rx = 0.001}}},
    {.name = "desktop", .about = "a display server",
     .memory = 0.01, .graphics = 1, .count = 2, .rows = {
      {.seconds = 0.002, .bound = C, .kernel = 1, .sm = 0.10, .occ = 0.05, .fp32 = 0.03, .integer = 0.03, .dram = 0.03, .dram_t = 0.08, .pcie_tx = 0.001, .pcie_rx = 0.001},
      {.seconds = 0.0147, .bound = F}}},
};
/* clang-format on */

static const KindRow *kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

const char *sim_kind_name(uint32_t i)
{
    return i < sizeof kinds / sizeof kinds[0] ? kinds[i].name : NULL;
}

const char *sim_kind_about(uint32_t i)
{
    return i < sizeof kinds / sizeof kinds[0] ? kinds[i].about : NULL;
}

double sim_kind_memory(const char *kind)
{
    const KindRow *row = kind_find(kind);
    return row ? row->memory : 0;
}

/* Bytes per second and direction of a PCIe link: 8b/10b up to generation 2, 128b/130b and better from 3 on. */
static double pcie_bytes(const SimBoard *board)
{
    double per_lane = board->pcie_gen <= 2 ? 250e6 * board->pcie_gen : 985e6 * (double)(1u << (board->pcie_gen - 3));
    return per_lane * board->pcie_width * 0.88; /* what copies reach */
}

static SimPhase phase_of(const PhaseRow *row, const SimBoard *board, double intensity, double time_scale)
{
    double link = (double)board->link_mbytes_per_s * 1e6 * board->link_count;
    SimPhase p = {.seconds = row->seconds * time_scale, .bound = row->bound, .flags = row->flags};
    p.act[SIM_CH_KERNEL] = row->kernel;
    p.act[SIM_CH_SM] = row->sm * intensity;
    p.act[SIM_CH_OCC] = row->occ * intensity;
    p.act[SIM_CH_HMMA] = row->hmma * intensity;
    p.act[SIM_CH_IMMA] = row->imma * intensity;
    p.act[SIM_CH_DFMA] = row->dfma * intensity;
    p.act[SIM_CH_TENSOR] = p.act[SIM_CH_HMMA] + p.act[SIM_CH_IMMA] + p.act[SIM_CH_DFMA];
    p.act[SIM_CH_FP64] = row->fp64 * intensity;
    p.act[SIM_CH_FP32] = row->fp32 * intensity;
    p.act[SIM_CH_FP16] = row->fp16 * intensity;
    p.act[SIM_CH_INT] = row->integer * intensity;
    p.act[SIM_CH_DRAM] = row->dram * intensity;
    p.act[SIM_CH_DRAM_T] = row->dram_t * intensity;
    p.act[SIM_CH_ENC] = row->enc;
    p.act[SIM_CH_DEC] = row->dec;
    p.act[SIM_CH_PCIE_TX] = row->pcie_tx * pcie_bytes(board);
    p.act[SIM_CH_PCIE_RX] = row->pcie_rx * pcie_bytes(board);
    p.act[SIM_CH_NVL_TX] = p.act[SIM_CH_NVL_RX] = row->link * link * intensity;
    return p;
}

/* Requests at irregular times: busy and idle phases of pseudo-random length, the same for the same seed. */
static void fill_bursts(SimWork *work, const KindRow *kind, const SimBoard *board, const SimKindParam *param,
                        double intensity, double time_scale)
{
    double own = kind->rows[0].seconds / (kind->rows[0].seconds + kind->rows[1].seconds);
    double load = param->load > 0 && param->load < 1 ? param->load : own;
    work->phase_count = 0;
    for (uint32_t i = 0; i < SIM_PHASE_MAX; i += 2) {
        /* cut exponentials with mean one */
        double busy = time_scale * (0.3 - sim_log(1 - 0.95 * sim_unit(param->seed, i, 11))) / 1.1423;
        double idle = (1 - load) / load * kind->rows[0].seconds / kind->rows[1].seconds * time_scale *
                      (0.2 - sim_log(1 - 0.97 * sim_unit(param->seed, i, 12))) / 1.0915;
        work->phases[work->phase_count++] = phase_of(&kind->rows[0], board, intensity, busy);
        work->phases[work->phase_count++] = phase_of(&kind->rows[1], board, intensity, idle);
    }
}

int sim_kind_fill(SimWork *work, const SimBoard *board, const SimKindParam *param)
{
    const KindRow *kind = kind_find(work->kind);
    if (!kind)
        return -EINVAL;
    double intensity = param->intensity > 0 ? param->intensity : 1, own = 0;
    for (uint32_t i = 0; i < kind->count; i++)
        own += kind->rows[i].seconds;
    double time_scale = param->step_s > 0 ? param->step_s / own : 1;
    work->proc_type = kind->graphics ? SIM_PROC_GRAPHICS : work->proc_type;
    if (kind->leak_mib_per_s > 0 && work->leak_mib_per_s <= 0)
        work->leak_mib_per_s = kind->leak_mib_per_s;
    if (kind->bursts) {
        fill_bursts(work, kind, board, param, intensity, time_scale);
        return 0;
    }
    work->phase_count = 0;
    for (uint32_t i = 0; i < kind->count; i++) {
        const PhaseRow *row = &kind->rows[i];
        if ((row->flags & BAR) && (param->ranks <= 1 || board->link_count == 0) && row->bound == L) {
            if (param->ranks <= 1)
                continue;
            SimPhase p = phase_of(row, board, intensity, time_scale); /* the exchange goes over PCIe */
            p.bound = SIM_BOUND_PCIE;
            p.act[SIM_CH_PCIE_TX] = p.act[SIM_CH_PCIE_RX] = 0.7 * pcie_bytes(board);
            work->phases[work->phase_count++] = p;
            continue;
        }
        work->phases[work->phase_count++] = phase_of(row, board, intensity, time_scale);
    }
    work->phases[0].act[SIM_CH_STEPS] = work->phases[0].seconds > 0 ? 1 / work->phases[0].seconds : 0;
    return 0;
}
