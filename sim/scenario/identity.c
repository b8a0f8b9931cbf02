/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bus numbers are those of eight-GPU baseboards (one switch per GPU since Hopper, one per pair before) and of servers
 * with two PCIe cards behind each root port. The first half of the GPUs belongs to the first socket.
 */
#include "sim/scenario/identity.h"

#include <stdio.h>
#include <string.h>

#include "sim/core/num.h"

static const uint8_t baseboard_bus[] = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf,
                                        0x1e, 0x46, 0x55, 0x64, 0xa0, 0xc6, 0xd4, 0xe2};
static const uint8_t pair_bus[] = {0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd,
                                   0x0a, 0x12, 0x4a, 0x51, 0x8a, 0x93, 0xba, 0xc0};
static const uint8_t card_bus[] = {0x17, 0x18, 0x3d, 0x3e, 0x63, 0x64, 0x99, 0x9a,
                                   0xab, 0xac, 0xbb, 0xbc, 0xcd, 0xce, 0xdb, 0xdc};
/* unverified: the order in which a baseboard numbers its modules */
static const uint8_t module_of[] = {2, 4, 3, 1, 7, 5, 8, 6};

enum { ARCH_AMPERE = 7, SOCKET_CPUS_BASEBOARD = 56, SOCKET_CPUS_SERVER = 32 };

static void place(const SimBoard *board, uint32_t i, uint32_t count, SimGpuId *id)
{
    int baseboard = board->link_count > 0 && board->link_to_switch;
    int pairs = !baseboard || board->arch <= ARCH_AMPERE;
    const uint8_t *bus = !baseboard ? card_bus : pairs ? pair_bus : baseboard_bus;
    id->domain = 0;
    id->bus = bus[i % SIM_GPU_MAX];
    id->device = 0;
    id->minor = i;
    id->module_id = baseboard ? module_of[i % 8] : 0;
    id->switch_group = pairs ? i / 2 : i;
    id->root = baseboard ? id->switch_group : i / 2;
    id->numa_node = count > 1 && i >= (count + 1) / 2 ? 1 : 0;
    uint32_t n = baseboard ? SOCKET_CPUS_BASEBOARD : SOCKET_CPUS_SERVER, first = id->numa_node * n;
    snprintf(id->cpulist, sizeof id->cpulist, "%u-%u,%u-%u", first, first + n - 1, first + 2 * n, first + 3 * n - 1);
}

static void identify(uint64_t seed, uint32_t i, const SimBoard *board, SimGpuId *id)
{
    uint64_t a = sim_hash(seed, i, 0x75756964), b = sim_hash(a, board->pci_device_id, i);
    snprintf(id->uuid, sizeof id->uuid, "GPU-%08x-%04x-%04x-%04x-%012llx", (uint32_t)(a >> 32),
             (uint32_t)(a >> 16) & 0xffff, (uint32_t)a & 0xffff, (uint32_t)(b >> 48),
             (unsigned long long)(b & 0xffffffffffff));
    /* year and week of making, then a running number: thirteen digits */
    snprintf(id->serial, sizeof id->serial, "165%01u%02u%07u", 2 + (uint32_t)(a % 4), 1 + (uint32_t)(b % 52),
             (uint32_t)(sim_hash(a, b, 0x736e) % 10000000));
}

void identity_fill(const Scenario *scenario, uint64_t seed, SimGpuId *gpus)
{
    for (uint32_t i = 0; i < scenario->gpu_count; i++) {
        const ScenarioGpu *gpu = &scenario->gpus[i];
        SimGpuId *id = &gpus[i];
        place(gpu->board, i, scenario->gpu_count, id);
        identify(seed, i, gpu->board, id);
        id->leak = gpu->leak > 0 ? gpu->leak : 1 + 0.03 * sim_noise(seed, i, 1);
        id->cool = gpu->cooling > 0 ? gpu->cooling : 1 + 0.04 * sim_noise(seed, i, 2);
        id->ambient_offset_c = gpu->ambient_k + 1.5 * sim_unit(seed, i, 3);
    }
}
