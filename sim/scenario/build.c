/* SPDX-License-Identifier: Apache-2.0 */
/* From a Scenario to its image. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/kinds.h"
#include "sim/core/num.h"
#include "sim/scenario/owner.h"
#include "sim/scenario/parse.h"

CLEANUP_POINTER(SimImage, sim_image_close);

/* --- identity of the GPUs: derived from the boards, their positions and the seed alone --------------------------- */

/* Bus numbers are those of eight-GPU baseboards (one switch per GPU since Hopper, one per pair before) and of servers
 * with two PCIe cards behind each root port. The first half of the GPUs belongs to the first socket. */
static const uint8_t baseboard_bus[] = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf,
                                        0x1e, 0x46, 0x55, 0x64, 0xa0, 0xc6, 0xd4, 0xe2};
static const uint8_t pair_bus[] = {0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd,
                                   0x0a, 0x12, 0x4a, 0x51, 0x8a, 0x93, 0xba, 0xc0};
static const uint8_t card_bus[] = {0x17, 0x18, 0x3d, 0x3e, 0x63, 0x64, 0x99, 0x9a,
                                   0xab, 0xac, 0xbb, 0xbc, 0xcd, 0xce, 0xdb, 0xdc};
/* unverified: the order in which a baseboard numbers its modules */
static const uint8_t module_of[] = {2, 4, 3, 1, 7, 5, 8, 6};

enum { ARCH_AMPERE = 7, SOCKET_CPUS_BASEBOARD = 56, SOCKET_CPUS_SERVER = 32 };

static void place_gpu(const SimBoard *board, uint32_t i, uint32_t count, SimGpuId *id)
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

static void identify_gpu(uint64_t seed, uint32_t i, const SimBoard *board, SimGpuId *id)
{
    uint64_t a = sim_hash(seed, i, 0x75756964), b = sim_hash(a, board->pci_device_id, i);
    snprintf(id->uuid, sizeof id->uuid, "GPU-%08x-%04x-%04x-%04x-%012llx", (uint32_t)(a >> 32),
             (uint32_t)(a >> 16) & 0xffff, (uint32_t)a & 0xffff, (uint32_t)(b >> 48),
             (unsigned long long)(b & 0xffffffffffff));
    /* year and week of making, then a running number: thirteen digits */
    snprintf(id->serial, sizeof id->serial, "165%01u%02u%07u", 2 + (uint32_t)(a % 4), 1 + (uint32_t)(b % 52),
             (uint32_t)(sim_hash(a, b, 0x736e) % 10000000));
}

static void fill_identities(const Scenario *scenario, uint64_t seed, SimGpuId *gpus)
{
    for (uint32_t i = 0; i < scenario->gpu_count; i++) {
        const ScenarioGpu *gpu = &scenario->gpus[i];
        SimGpuId *id = &gpus[i];
        place_gpu(gpu->board, i, scenario->gpu_count, id);
        identify_gpu(seed, i, gpu->board, id);
        id->leak = gpu->leak > 0 ? gpu->leak : 1 + 0.03 * sim_noise(seed, i, 1);
        id->cool = gpu->cooling > 0 ? gpu->cooling : 1 + 0.04 * sim_noise(seed, i, 2);
        id->ambient_offset_c = gpu->ambient_k + 1.5 * sim_unit(seed, i, 3);
    }
}

/* --- the image --------------------------------------------------------------------------------------------------- */

static void text_put(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void node_fill(SimImage *image, const Scenario *s, const ScenarioBuild *how, uint64_t seed)
{
    const char *driver = how->driver ? how->driver : s->node.driver;
    image->generation = how->generation ? how->generation
                        : how->driver   ? scenario_generation(how->driver)
                                        : s->node.generation;
    text_put(image->scenario, sizeof image->scenario, s->name);
    text_put(image->driver, sizeof image->driver, driver);
    image->cuda_version = how->driver ? scenario_cuda(driver) : s->node.cuda_version;
    snprintf(image->nvml, sizeof image->nvml, "%u.%s", image->cuda_version / 1000, driver);
    text_put(image->hostname, sizeof image->hostname, s->node.hostname);
    text_put(image->kernel_log, sizeof image->kernel_log, how->kernel_log);
    text_put(image->root, sizeof image->root, how->root);
    image->cgroups = s->node.cgroups;
    image->pids = s->node.pids;
    image->network_permille = (uint32_t)(1000 * s->node.network + 0.5);
    image->seed = seed;
    image->epoch_us = s->node.start_us ? s->node.start_us : how->now_us ? how->now_us : now_us();
}

static void boards_fill(SimImage *image, const Scenario *s)
{
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        uint32_t k = 0;
        while (k < image->board_count && strcmp(image->boards[k].key, s->gpus[i].board->key) != 0)
            k++;
        if (k == image->board_count)
            image->boards[image->board_count++] = *s->gpus[i].board;
        image->gpus[i].board = k;
    }
}

static int has_barrier(const SimWork *work)
{
    for (uint32_t i = 0; i < work->phase_count; i++)
        if (work->phases[i].flags & SIM_PHASE_BARRIER)
            return 1;
    return 0;
}

static void owner_put(SimOwner *out, const ScenarioWork *w, uint64_t seed)
{
    text_put(out->user, sizeof out->user, w->user);
    text_put(out->command, sizeof out->command, w->command);
    text_put(out->cgroup, sizeof out->cgroup, w->cgroup);
    text_put(out->pod, sizeof out->pod, w->pod);
    out->cores = owner_cores(w->kind);
    out->writes_mib = w->writes_mib;
    out->rss_mib = 700 + 400 * sim_unit(seed, w->pid, 2) + 0.03 * w->memory_mib; /* the driver's library maps as much */
}

/* Replicas that never wait for each other are no job, or one that ends would hang the others. */
int scenario_work_fill(SimWork *out, const ScenarioWork *w, const SimBoard *board, uint64_t seed, Err *err)
{
    text_put(out->entry, sizeof out->entry, w->name);
    text_put(out->kind, sizeof out->kind, w->kind);
    text_put(out->name, sizeof out->name, w->process);
    out->gpu = w->gpu;
    out->mig = w->mig;
    out->rank = w->rank;
    out->uid = w->uid;
    out->proc_type = w->mps ? SIM_PROC_MPS : SIM_PROC_COMPUTE;
    owner_put(&out->owner, w, seed);
    out->before = w->before;
    out->from_ns = w->start_ns;
    out->fixed_pid = w->pid;
    out->live_pid = w->live_pid;
    out->memory_mib = w->memory_mib;
    out->leak_mib_per_s = w->leak_mib_per_s;
    out->slow = w->slow;
    out->offset_s = w->offset_s;
    SimKindParam param = {.step_s = w->step_s,
                          .intensity = w->intensity,
                          .load = w->load,
                          .ranks = w->ranks,
                          .seed = sim_hash(seed, w->draw, 0x776f726b)};
    int rc = sim_kind_fill(out, board, &param);
    if (rc < 0)
        return err_set(err, rc, "work '%s': kind '%s' cannot run on %s", w->name, w->kind, board->name);
    out->job = has_barrier(out) ? w->job : SIM_NONE;
    return 0;
}

static int ops_fill(SimImage *image, const Scenario *s, Err *err)
{
    for (size_t i = 0; i < s->op_count; i++) {
        SimOp op = s->ops[i].op;
        op.origin = SIM_FROM_SCENARIO;
        op.text = 0;
        if (s->ops[i].text && !(op.text = sim_text_add(image, s->ops[i].text)))
            return err_set(err, -E2BIG, "scenario '%s': its texts are longer than %d bytes", s->name, SIM_TEXT_MAX);
        if (sim_op_add(image, &op) < 0)
            return err_set(err, -E2BIG, "scenario '%s': more than %d ops", s->name, SIM_OP_MAX);
    }
    return 0;
}

static int image_fill(SimImage *image, const Scenario *s, const ScenarioBuild *how, Err *err)
{
    uint64_t seed = how->seed ? how->seed : s->node.seed;
    node_fill(image, s, how, seed);
    boards_fill(image, s);
    fill_identities(s, seed, image->gpus);
    for (size_t i = 0; i < s->work_count; i++) {
        TRY(scenario_work_fill(&image->works[i], &s->works[i], s->gpus[s->works[i].gpu].board, seed, err));
        image->work_count = (uint32_t)i + 1;
    }
    TRY(ops_fill(image, s, err));
    sim_plan_build(image);
    if (image->events_dropped || image->segs_dropped)
        return err_set(err, -E2BIG, "scenario '%s' is too long: %u events and %u changes do not fit", s->name,
                       image->events_dropped, image->segs_dropped);
    return 0;
}

int scenario_build(const Scenario *scenario, const ScenarioBuild *how, const char *path, SimImage **ret, Err *err)
{
    static const ScenarioBuild none = {0};
    CLEANUP(sim_image_close_at) SimImage *image = sim_image_create(path, scenario->gpu_count);
    if (!image)
        return err_errno(err, "create '%s'", path);
    int rc = image_fill(image, scenario, how ? how : &none, err);
    if (rc < 0) {
        unlink(path);
        return rc;
    }
    *ret = TAKE(image);
    return 0;
}

int scenario_compile(const char *const *scenario_dirs, const char *const *board_dirs, const char *what,
                     const ScenarioBuild *how, const char *path, SimImage **ret, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(board_set_done) BoardSet boards;
    const Scenario *scenario = NULL;
    board_set_init(&boards, board_dirs);
    TRY(scenario_load(scenario_dirs, what, &boards, &arena, &scenario, err));
    return scenario_build(scenario, how, path, ret, err);
}
