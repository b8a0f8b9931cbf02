/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's loop. It follows the board: the plan, which GPUs are assigned to this sampler, and whether to release
 * the driver. Due times are of the agent's clock, which tests may run faster; waits are capped, so that a change on the
 * board is seen soon without a signal.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "source/nvml/gpu.h"
#include "source/nvml/library.h"
#include "source/nvml/readers.h"
#include "source/sampler/child.h"

static nvmlReturn_t ask_driver(NvmlLibrary *library)
{
    NvmlTarget nobody = {.index = UINT32_MAX};
    BoardFound found = {0};
    nvmlReturn_t r =
        NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlInit_v2, ()); /* the one that programs call */

    if (r != NVML_SUCCESS)
        return r;
    library->up = true;
    board_set_driver(library->self, BOARD_DRIVER_FINE, NODE_DRIVER_FINE, 0, "");
    r = NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlDeviceGetCount_v2, (&found.count));
    if (r == NVML_SUCCESS)
        board_set_found(library->self, &found);
    return r;
}

/* Does what a new client of the driver does: init, count of GPUs, shutdown. A driver may refuse that while it still
 * serves those who came before. The result is on the board as the sampler's `driver`: FINE while the driver is held,
 * then RELEASED where all went well (and `found` has the count), else INIT_FAILED or NO_LIBRARY with trouble, code and
 * why. Init may set GPUs up that are not in use: the agent sends a probe only while a sampler of its own holds the
 * driver. */
static void run_probe(NvmlLibrary *library, const char *path)
{
    BoardSampler *self = library->self;
    char why[NODE_WHY_CAP];
    Err err = {0};
    nvmlReturn_t r;

    if (nvml_library_open(library, path, &err) < 0) {
        board_set_driver(self, BOARD_DRIVER_NO_LIBRARY, NODE_DRIVER_NO_LIBRARY, 0, err.text);
        return;
    }
    r = ask_driver(library);
    nvml_answer_why(r, nvml_library_words(library, r), why, sizeof why);
    nvml_library_close(library);
    if (r == NVML_SUCCESS)
        board_set_driver(self, BOARD_DRIVER_RELEASED, NODE_DRIVER_FINE, 0, "");
    else
        board_set_driver(self, BOARD_DRIVER_INIT_FAILED, nvml_answer_driver(r), (int32_t)r, why);
}

#define WAIT_MAX_NS (50 * NS_PER_MS)
/* Between two reads of events: one with each fast pass and one halfway, so that it costs few wakeups. */
#define EVENTS_PERIOD_NS (50 * NS_PER_MS)
#define EVENTS_SLACK_NS (10 * NS_PER_MS)
#define FOUND_PERIOD_NS (10 * NS_PER_S)
#define START_DELAY_MIN_NS NS_PER_S
#define START_DELAY_MAX_NS (10 * NS_PER_S)
#define BLOCKING_ROOM_NS (25 * NS_PER_MS) /* a blocking call takes 20 ms */

enum { DCGM_CONNECT_MS = 2000 };

struct Child {
    int fd;
    Board *board;
    BoardSampler *self;
    SamplerHello *hello;
    NvmlReader reader;
    DcgmPlace dcgm;
    NvmlGpu *gpus[NODE_GPUS_MAX]; /* those that are ours */
    uint32_t plan_sequence;       /* of the plan in use */
    uint64_t due_ns[METRIC_PACE_END], found_due_ns;
    uint64_t events_ns;   /* when to ask for events next, of the kernel's clock as people wait for them */
    uint32_t events_told; /* events on the board that the agent was notified of */
    uint32_t blocking_next, blocking_left; /* calls of the current round of pace BLOCKING */
    uint64_t start_ns, start_delay_ns;     /* kernel time at which the driver is tried again */
    Absence down;                          /* why there is no driver */
};

/* ---- hello ---- */

static int receive_hello(int fd, SamplerHello *hello, int *ret_board_fd, Err *err)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = hello, .iov_len = sizeof *hello};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    const struct cmsghdr *head;
    ssize_t n;

    do
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_errno(err, "wait for the agent's hello");
    if (n == 0)
        return err_set(err, -EPIPE, "the agent is gone");
    head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_board_fd, CMSG_DATA(head), sizeof(int));
    if (n != sizeof *hello || message.msg_flags & MSG_TRUNC)
        return err_set(err, -EPROTO, "the agent's hello has another length: agent and sampler differ in version");
    return 0;
}

static int check_hello(const SamplerHello *hello, int board_fd, Err *err)
{
    if (hello->protocol != SAMPLER_PROTOCOL || hello->board_version != BOARD_VERSION)
        return err_set(err, -EPROTO, "the agent speaks protocol %u with board %u, this sampler %d with %d",
                       hello->protocol, hello->board_version, SAMPLER_PROTOCOL, BOARD_VERSION);
    if (board_fd < 0)
        return err_set(err, -EPROTO, "no board came with the agent's hello");
    if (hello->slot >= NODE_SAMPLERS_MAX || !memchr(hello->library, '\0', sizeof hello->library) ||
        !memchr(hello->dcgm_library, '\0', sizeof hello->dcgm_library) ||
        !memchr(hello->dcgm_address, '\0', sizeof hello->dcgm_address))
        return err_set(err, -EPROTO, "the agent's hello makes no sense");
    return 0;
}

/* Whoever had the slot before may have been killed in the middle of a call. */
static BoardSampler *claim_slot(Board *board, uint32_t slot)
{
    BoardSampler *self = &board->samplers[slot];

    atomic_store_explicit(&self->call_start_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&self->driver, BOARD_DRIVER_UNKNOWN, memory_order_relaxed);
    atomic_store_explicit(&self->passes, 0, memory_order_relaxed);
    atomic_store_explicit(&self->beat_ns, board_kernel_now(), memory_order_release);
    return self;
}

int child_connect(int fd, Child **ret_child, Err *err)
{
    const SamplerReply reply = {.protocol = SAMPLER_PROTOCOL, .pid = getpid()};
    CLEANUP_FREE SamplerHello *hello = xcalloc(1, sizeof *hello);
    CLEANUP_FD int board_fd = -1;
    Board *board = NULL;
    BoardSampler *self;
    Child *child;

    TRY(receive_hello(fd, hello, &board_fd, err));
    TRY(check_hello(hello, board_fd, err));
    TRY(board_map(board_fd, &board, err));
    self = claim_slot(board, hello->slot);
    if (send(fd, &reply, sizeof reply, MSG_NOSIGNAL) != sizeof reply) {
        board_unmap(board);
        return err_errno(err, "answer the agent's hello");
    }
    child = xcalloc(1, sizeof *child);
    child->fd = fd;
    child->board = board;
    child->hello = TAKE(hello);
    child->self = self;
    child->events_told = atomic_load_explicit(&self->event_head, memory_order_relaxed);
    child->down = ABSENCE_NOT_YET;
    child->plan_sequence = UINT32_MAX;
    child->reader.board = board;
    nvml_library_init(&child->reader.library, child->self, (uint16_t)child->hello->slot);
    child->dcgm = (DcgmPlace){
        .library = child->hello->dcgm_library, .address = child->hello->dcgm_address, .connect_ms = DCGM_CONNECT_MS};
    if (child->hello->dcgm)
        child->reader.counters = nvml_counters_new(&child->reader, &child->dcgm, child->hello->dcgm_after_ns);
    *ret_child = child;
    return 0;
}

/* ---- GPUs ---- */

void child_free(Child *child)
{
    if (!child)
        return;
    for (size_t i = 0; i < ARRAY_LEN(child->gpus); i++)
        nvml_gpu_free(child->gpus[i]);
    nvml_counters_free(child->reader.counters);
    nvml_library_close(&child->reader.library);
    board_unmap(child->board);
    free(child->hello);
    free(child);
}

static uint32_t gpus_on_board(const Child *child)
{
    const uint32_t count = atomic_load_explicit(&child->board->gpu_count, memory_order_acquire);

    return count < NODE_GPUS_MAX ? count : NODE_GPUS_MAX;
}

static void follow_assignment(Child *child)
{
    const uint32_t count = gpus_on_board(child);

    for (uint32_t i = 0; i < NODE_GPUS_MAX; i++) {
        const bool ours = i < count && atomic_load_explicit(&child->board->gpus[i].slot, memory_order_acquire) ==
                                           child->reader.library.slot;
        if (ours && !child->gpus[i]) {
            child->gpus[i] = nvml_gpu_new(&child->reader, i);
        } else if (!ours && child->gpus[i]) {
            nvml_gpu_free(child->gpus[i]);
            child->gpus[i] = NULL;
        }
    }
}

static void lose_all(Child *child, Absence why)
{
    for (size_t i = 0; i < ARRAY_LEN(child->gpus); i++)
        if (child->gpus[i])
            nvml_gpu_set_absent(child->gpus[i], why);
}

/* ---- the driver ---- */

/* Without a driver: values become absent, and the driver is tried again with growing delays. */
static void delay_start(Child *child, Absence why)
{
    child->down = why;
    child->start_delay_ns = child->start_delay_ns ? 2 * child->start_delay_ns : START_DELAY_MIN_NS;
    if (child->start_delay_ns > START_DELAY_MAX_NS)
        child->start_delay_ns = START_DELAY_MAX_NS;
    child->start_ns = board_kernel_now() + child->start_delay_ns;
}

static void close_driver(Child *child)
{
    for (size_t i = 0; i < ARRAY_LEN(child->gpus); i++)
        if (child->gpus[i])
            nvml_gpu_detach(child->gpus[i]);
    nvml_counters_close(child->reader.counters);
    nvml_library_close(&child->reader.library);
}

static void start_driver(Child *child)
{
    NvmlLibrary *library = &child->reader.library;
    char why[NODE_WHY_CAP];
    Err err = {0};
    nvmlReturn_t r;

    if (nvml_library_open(library, child->hello->library, &err) < 0) {
        delay_start(child, ABSENCE_NO_LIBRARY);
        board_set_driver(child->self, BOARD_DRIVER_NO_LIBRARY, NODE_DRIVER_NO_LIBRARY, 0, err.text);
        return;
    }
    r = nvml_library_start(library, child->hello->no_attach);
    if (r != NVML_SUCCESS) {
        nvml_answer_why(r, nvml_library_words(library, r), why, sizeof why);
        close_driver(child);
        delay_start(child, nvml_answer_absence(r));
        board_set_driver(child->self, BOARD_DRIVER_INIT_FAILED, nvml_answer_driver(r), (int32_t)r, why);
        return;
    }
    child->start_delay_ns = 0;
    child->found_due_ns = 0;
    child->plan_sequence = UINT32_MAX;
    memset(child->due_ns, 0, sizeof child->due_ns);
    board_set_driver(child->self, BOARD_DRIVER_FINE, NODE_DRIVER_FINE, 0, "");
}

/* The driver went away under us: at once from the beginning. */
static void restart_driver(Child *child)
{
    const nvmlReturn_t gone = child->reader.library.gone;
    char why[NODE_WHY_CAP];

    nvml_answer_why(gone, NULL, why, sizeof why);
    child->down = nvml_answer_absence(gone);
    child->reader.library.gone = NVML_SUCCESS;
    close_driver(child);
    board_set_driver(child->self, BOARD_DRIVER_INIT_FAILED, nvml_answer_driver(gone), (int32_t)gone, why);
    child->start_ns = 0;
}

static bool is_released(const Child *child)
{
    const uint64_t until = atomic_load_explicit(&child->board->release_until_ns, memory_order_acquire);

    return until != 0 && board_now(child->board) < until;
}

static void let_go(Child *child)
{
    if (atomic_load_explicit(&child->self->driver, memory_order_relaxed) != BOARD_DRIVER_RELEASED) {
        close_driver(child);
        child->start_ns = child->start_delay_ns = 0;
    }
    lose_all(child, ABSENCE_RELEASED);
    board_set_driver(child->self, BOARD_DRIVER_RELEASED, NODE_DRIVER_FINE, 0, "let go for maintenance");
}

/* ---- enumeration ---- */

static bool name_one(Child *child, unsigned int index, PciAddress *ret)
{
    NvmlLibrary *library = &child->reader.library;
    NvmlTarget nobody = {.index = UINT32_MAX};
    nvmlDevice_t handle = NULL;
    nvmlPciInfo_t pci = {.domain = 0};
    nvmlPciInfo_v1_t older = {.domain = 0};

    if (NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlDeviceGetHandleByIndex_v2, (index, &handle)) !=
        NVML_SUCCESS)
        return false;
    if (NVML_CALL(library, &nobody, nvmlDeviceGetPciInfo_v3, (handle, &pci)) != NVML_SUCCESS) {
        if (NVML_CALL(library, &nobody, nvmlDeviceGetPciInfo_v2, (handle, &older)) != NVML_SUCCESS)
            return false;
        pci = (nvmlPciInfo_t){.domain = older.domain, .bus = older.bus, .device = older.device};
    }
    *ret = (PciAddress){.domain = pci.domain, .bus = (uint8_t)pci.bus, .device = (uint8_t)pci.device};
    return true;
}

static void find_gpus(Child *child)
{
    NvmlTarget nobody = {.index = UINT32_MAX};
    BoardFound found = {0};
    unsigned int count = 0;

    if (NVML_CALL_WITHIN(&child->reader.library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlDeviceGetCount_v2, (&count)) !=
        NVML_SUCCESS)
        return;
    found.count = count;
    for (unsigned int i = 0; !child->hello->no_attach && count > gpus_on_board(child) && i < count; i++)
        if (found.len < NODE_GPUS_MAX && name_one(child, i, &found.gpus[found.len]))
            found.len++;
    memcpy(found.driver_version, child->reader.library.driver_version, sizeof found.driver_version);
    memcpy(found.nvml_version, child->reader.library.nvml_version, sizeof found.nvml_version);
    board_set_found(child->self, &found);
}

/* ---- a pass ---- */

static void follow_plan(Child *child)
{
    const uint32_t sequence = atomic_load_explicit(&child->board->plan_sequence, memory_order_acquire);
    BoardPlan plan;

    if (sequence == child->plan_sequence || !board_get_plan(child->board, &plan))
        return;
    child->plan_sequence = sequence;
    nvml_plan_make(&child->reader.plan, &plan, child->reader.library.driver_major);
    memset(child->due_ns, 0, sizeof child->due_ns);
}

/* The paces that are due; each keeps its own grid and does not catch up. */
static uint32_t find_due_paces(Child *child, uint64_t now)
{
    uint32_t due = 0;

    for (MetricPace pace = METRIC_PACE_FAST; pace <= METRIC_PACE_BLOCKING; pace++) {
        const uint64_t period = nvml_plan_period(&child->reader.plan, pace);
        if (pace == METRIC_PACE_ONCE || now < child->due_ns[pace])
            continue;
        due |= 1U << pace;
        child->due_ns[pace] += period;
        if (child->due_ns[pace] <= now)
            child->due_ns[pace] = now + period;
    }
    return due;
}

/* Kernel time that is left until an instant of the agent's clock. */
static uint64_t kernel_until(const Child *child, uint64_t due_ns)
{
    const uint64_t now = board_now(child->board);
    const double speed = child->board->clock.speed;

    if (due_ns <= now)
        return 0;
    return speed > 0 ? (uint64_t)((double)(due_ns - now) / speed) : due_ns - now;
}

/* One blocking call, if it can be over before the next fast pass. */
static void block_once(Child *child)
{
    const uint32_t rows = nvml_blocking_rows();
    const bool fits = nvml_plan_period(&child->reader.plan, METRIC_PACE_FAST) < 2 * BLOCKING_ROOM_NS ||
                      kernel_until(child, child->due_ns[METRIC_PACE_FAST]) >= BLOCKING_ROOM_NS;

    while (fits && child->blocking_left > 0) {
        const uint32_t next = child->blocking_next++ % (NODE_GPUS_MAX * rows);
        NvmlGpu *gpu = child->gpus[next / rows];
        child->blocking_left--;
        if (gpu && nvml_gpu_read_blocking(gpu, next % rows))
            return;
    }
}

/* More often than anything is sampled: an alert hangs on it. */
static void read_events(Child *child, bool passed)
{
    const uint64_t now = board_kernel_now();

    if (passed)
        child->events_ns = now + EVENTS_PERIOD_NS;
    if (now < child->events_ns)
        return;
    child->events_ns = now + EVENTS_PERIOD_NS + EVENTS_SLACK_NS;
    for (size_t i = 0; i < ARRAY_LEN(child->gpus) && !child->reader.library.gone; i++)
        if (child->gpus[i])
            nvml_gpu_read_events(child->gpus[i]);
}

/* Notifies the agent of events on the board. The agent reads them at its next pass anyway, if this is lost. */
static void notify_events(Child *child)
{
    const SamplerReply knock = {.protocol = SAMPLER_PROTOCOL, .pid = getpid()};
    const uint32_t head = atomic_load_explicit(&child->self->event_head, memory_order_relaxed);

    if (head == child->events_told)
        return;
    child->events_told = head;
    (void)send(child->fd, &knock, sizeof knock, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void sample_due(Child *child)
{
    const uint64_t now = board_now(child->board);
    uint32_t due;

    follow_plan(child);
    if (now >= child->found_due_ns) {
        find_gpus(child);
        child->found_due_ns = now + FOUND_PERIOD_NS;
    }
    due = find_due_paces(child, now);
    for (size_t i = 0; i < ARRAY_LEN(child->gpus) && !child->reader.library.gone; i++)
        if (child->gpus[i] && (due || nvml_gpu_is_new(child->gpus[i])))
            nvml_gpu_pass(child->gpus[i], due);
    read_events(child, due & 1U << METRIC_PACE_FAST);
    notify_events(child);
    if (due & 1U << METRIC_PACE_BLOCKING && child->blocking_left == 0)
        child->blocking_left = NODE_GPUS_MAX * nvml_blocking_rows();
    if (due)
        atomic_fetch_add_explicit(&child->self->passes, 1, memory_order_relaxed);
    if (!child->reader.library.gone) {
        nvml_peers_step(&child->reader, child->gpus);
        block_once(child);
        nvml_counters_step(child->reader.counters);
    }
    if (child->reader.library.gone)
        restart_driver(child);
}

void child_pass(Child *child)
{
    atomic_store_explicit(&child->self->beat_ns, board_kernel_now(), memory_order_relaxed);
    follow_assignment(child);
    if (is_released(child)) {
        let_go(child);
        return;
    }
    if (!child->reader.library.up && board_kernel_now() >= child->start_ns)
        start_driver(child);
    if (child->reader.library.up)
        sample_due(child);
    if (!child->reader.library.up)
        lose_all(child, child->down);
}

/* How long nothing is to be done. */
static uint64_t idle_ns(const Child *child)
{
    uint64_t wait = WAIT_MAX_NS;

    if (!child->reader.library.up)
        return wait;
    const uint64_t now = board_kernel_now();
    wait = child->events_ns > now ? number_min_u64(wait, child->events_ns - now) : 0;
    for (MetricPace pace = METRIC_PACE_FAST; pace <= METRIC_PACE_SLOW; pace++) {
        const uint64_t left = kernel_until(child, child->due_ns[pace]);
        if (left < wait)
            wait = left;
    }
    return wait;
}

/* True when the agent is gone. It sends nothing, so anything to read is the end. */
static bool wait_for_end(const Child *child, uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    struct pollfd end = {.fd = child->fd, .events = POLLIN};

    return ppoll(&end, 1, &time, NULL) > 0 && end.revents != 0;
}

void child_run(Child *child)
{
    if (child->hello->probe) {
        run_probe(&child->reader.library, child->hello->library);
        return;
    }
    do
        child_pass(child);
    while (!wait_for_end(child, idle_ns(child)));
}
