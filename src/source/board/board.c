/* SPDX-License-Identifier: Apache-2.0 */
/* The board's memory, its rows of readings, the plan, the clock, and what samplers tell of themselves. */

#include "source/board/board.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/owner.h"
#include "source/board/turn.h"
#include "source/board/words.h"

static_assert(BOARD_FAST_LEN > 0 && (BOARD_FAST_LEN & (BOARD_FAST_LEN - 1)) == 0, "heads wrap at 2^32");
static_assert(BOARD_EVENTS_LEN > 0 && (BOARD_EVENTS_LEN & (BOARD_EVENTS_LEN - 1)) == 0, "heads wrap at 2^32");

/* ---- the memory ---- */

static int make_memfd(Err *err)
{
    static const unsigned noexec_seal = 8U; /* MFD_NOEXEC_SEAL, Linux 6.3; some machines insist on it */
    int fd = memfd_create("stoker-board", MFD_CLOEXEC | MFD_ALLOW_SEALING | noexec_seal);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("stoker-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? err_errno(err, "make the board's memory") : fd;
}

static Board *map_fd(int fd, Err *err)
{
    void *at = mmap(NULL, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        err_errno(err, "map the board");
    return at == MAP_FAILED ? NULL : at;
}

int board_new(Board **ret_board, int *ret_fd, Err *err)
{
    CLEANUP_FD int fd = make_memfd(err);
    Board *board;

    TRY(fd);
    if (ftruncate(fd, (off_t)sizeof(Board)) < 0)
        return err_errno(err, "size the board");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return err_errno(err, "seal the board");
    board = map_fd(fd, err);
    if (!board)
        return -ENOMEM;
    board->version = BOARD_VERSION;
    board->size = sizeof(Board);
    board->clock.speed = 1;
    board->clock.start_ns = clock_monotonic(clock_kernel());
    board->clock.kernel_start_ns = board_kernel_now();
    *ret_board = board;
    *ret_fd = owner_take_fd(&fd);
    return 0;
}

int board_map(int fd, Board **ret_board, Err *err)
{
    struct stat st;
    Board *board;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || fstat(fd, &st) < 0)
        return err_errno(err, "look at the board");
    if (!(seals & F_SEAL_SHRINK))
        return err_set(err, -EPROTO, "the board could shrink under us: it is not sealed");
    if (st.st_size != (off_t)sizeof(Board))
        return err_set(err, -EPROTO, "the board has %lld bytes instead of %zu: agent and sampler differ in version",
                       (long long)st.st_size, sizeof(Board));
    board = map_fd(fd, err);
    if (!board)
        return -ENOMEM;
    if (board->version != BOARD_VERSION || board->size != sizeof(Board)) {
        err_set(err, -EPROTO, "the board is of version %u instead of %d", board->version, BOARD_VERSION);
        board_unmap(board);
        return -EPROTO;
    }
    *ret_board = board;
    return 0;
}

void board_unmap(Board *board)
{
    if (board)
        munmap(board, sizeof(*board));
}

/* ---- rows ---- */

Reading *board_begin(BoardRow *row)
{
    turn_begin(&row->turn);
    return &row->reading;
}

void board_commit(BoardRow *row)
{
    turn_commit(&row->turn);
}

static void tame_text(char *text, size_t cap)
{
    text[cap - 1] = '\0';
}

static void tame_device(Device *device)
{
    if (device->kind != DEVICE_GPU && device->kind != DEVICE_COMPUTE_INSTANCE)
        device->kind = DEVICE_GPU;
    if (device->vendor >= DEVICE_VENDOR_END)
        device->vendor = DEVICE_VENDOR_UNKNOWN;
    tame_bool(&device->has_pci);
    if (device->pci.device > 31 || device->pci.function > 7)
        device->has_pci = false;
    tame_text(device->uuid, sizeof(device->uuid));
    tame_text(device->parent_uuid, sizeof(device->parent_uuid));
    tame_text(device->name, sizeof(device->name));
    tame_text(device->board, sizeof(device->board));
    tame_text(device->serial, sizeof(device->serial));
}

/* Any bytes become a Reading that every function can take. */
static void tame_reading(Reading *reading)
{
    tame_device(&reading->device);
    tame_text(reading->profile, sizeof(reading->profile));
    tame_bool(&reading->mig);
    tame_bool(&reading->instance_head);
    for (size_t i = 0; i < READING_TEXT_END; i++)
        tame_text(reading->text[i], sizeof(reading->text[i]));
    for (size_t i = 0; i < METRIC_END; i++)
        tame_sample(&reading->sample[i]);
}

bool board_copy(const BoardRow *row, Reading *ret)
{
    Reading copy;

    for (int i = 0; i < BOARD_TRIES; i++) {
        if (!turn_copy(&row->turn, &copy, &row->reading, sizeof(copy)))
            continue;
        tame_reading(&copy);
        *ret = copy;
        return true;
    }
    return false;
}

void board_repair(BoardRow *row)
{
    Reading empty;
    DeviceKind kind;

    if (!(atomic_load_explicit(&row->turn, memory_order_acquire) & 1))
        return;
    kind = row->reading.device.kind == DEVICE_COMPUTE_INSTANCE ? DEVICE_COMPUTE_INSTANCE : DEVICE_GPU;
    reading_init(&empty, kind);
    turn_begin(&row->turn);
    words_store(&row->reading, &empty, sizeof(empty));
    turn_commit(&row->turn);
}

/* ---- instances ---- */

uint32_t board_instances(const BoardGpu *gpu)
{
    uint32_t count = atomic_load_explicit(&gpu->instance_count, memory_order_acquire);

    return count < NODE_INSTANCES_MAX ? count : NODE_INSTANCES_MAX;
}

/* ---- the plan and the clock ---- */

void board_set_plan(Board *board, const BoardPlan *plan)
{
    turn_begin(&board->plan_turn);
    words_store(&board->plan, plan, sizeof(*plan));
    turn_commit(&board->plan_turn);
}

bool board_get_plan(const Board *board, BoardPlan *ret)
{
    BoardPlan copy;

    for (int i = 0; i < BOARD_TRIES; i++)
        if (turn_copy(&board->plan_turn, &copy, &board->plan, sizeof(copy))) {
            *ret = copy;
            return true;
        }
    return false;
}

uint64_t board_kernel_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t board_at(const Board *board, uint64_t kernel_ns)
{
    const BoardClock *clock = &board->clock;
    uint64_t since = kernel_ns > clock->kernel_start_ns ? kernel_ns - clock->kernel_start_ns : 0;

    if (clock->speed > 0 && (clock->speed < 1 || clock->speed > 1))
        return clock->start_ns + (uint64_t)((double)since * clock->speed);
    return clock->start_ns + since;
}

uint64_t board_now(const Board *board)
{
    return board_at(board, board_kernel_now());
}

/* ---- what a sampler found ---- */

void board_set_found(BoardSampler *sampler, const BoardFound *found)
{
    assert(found->len <= NODE_GPUS_MAX);
    turn_begin(&sampler->found_turn);
    words_store(&sampler->found_count, &found->count, sizeof(found->count));
    words_store(&sampler->found_len, &found->len, sizeof(found->len));
    words_store(sampler->found, found->gpus, sizeof(found->gpus));
    words_store(sampler->driver_version, found->driver_version, sizeof(found->driver_version));
    words_store(sampler->nvml_version, found->nvml_version, sizeof(found->nvml_version));
    turn_commit(&sampler->found_turn);
}

static bool try_copy_found(const BoardSampler *sampler, BoardFound *ret)
{
    uint32_t before = atomic_load_explicit(&sampler->found_turn, memory_order_acquire);

    if (before == 0 || before & 1)
        return false;
    words_load(&ret->count, &sampler->found_count, sizeof(ret->count));
    words_load(&ret->len, &sampler->found_len, sizeof(ret->len));
    words_load(ret->gpus, sampler->found, sizeof(ret->gpus));
    words_load(ret->driver_version, sampler->driver_version, sizeof(ret->driver_version));
    words_load(ret->nvml_version, sampler->nvml_version, sizeof(ret->nvml_version));
    return atomic_load_explicit(&sampler->found_turn, memory_order_relaxed) == before;
}

bool board_copy_found(const BoardSampler *sampler, BoardFound *ret)
{
    BoardFound copy;

    for (int i = 0; i < BOARD_TRIES; i++) {
        if (!try_copy_found(sampler, &copy))
            continue;
        if (copy.len > NODE_GPUS_MAX)
            copy.len = NODE_GPUS_MAX;
        tame_text(copy.driver_version, sizeof(copy.driver_version));
        tame_text(copy.nvml_version, sizeof(copy.nvml_version));
        *ret = copy;
        return true;
    }
    return false;
}

void board_set_why(BoardSampler *sampler, const char *why)
{
    char text[NODE_WHY_CAP] = "";

    memcpy(text, why, strnlen(why, sizeof(text) - 1));
    words_store(sampler->why, text, sizeof(text));
}

void board_copy_why(const BoardSampler *sampler, char why[NODE_WHY_CAP])
{
    words_load(why, sampler->why, NODE_WHY_CAP);
    tame_text(why, NODE_WHY_CAP);
}

void board_set_driver(BoardSampler *sampler, BoardDriver driver, NodeDriver trouble, int32_t code, const char *why)
{
    board_set_why(sampler, why);
    atomic_store_explicit(&sampler->trouble, (uint32_t)trouble, memory_order_relaxed);
    atomic_store_explicit(&sampler->code, code, memory_order_relaxed);
    atomic_store_explicit(&sampler->driver, (uint32_t)driver, memory_order_release);
}

NodeDriver board_trouble(const BoardSampler *sampler)
{
    const uint32_t trouble = atomic_load_explicit(&sampler->trouble, memory_order_relaxed);

    return trouble > NODE_DRIVER_FINE && trouble < NODE_DRIVER_END ? (NodeDriver)trouble : NODE_DRIVER_REFUSES;
}
