/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board's memory: rows of readings, lists of a GPU (peers, links, processes), the plan, the clock, what samplers
 * report of themselves, and two rings.
 *
 * Sequences: what lies under one is copied by atomic words. The writer makes the sequence odd, stores every word
 * with release order, makes it even; the reader loads every word with acquire order between two loads of the
 * sequence. A reader that sees a new word therefore sees the odd sequence before it, and no fence is needed. On
 * x86-64 all of these are plain moves. A writer may be killed anywhere: the reader gives up after BOARD_TRIES, and
 * the next writer goes on from an odd sequence. Whatever was copied is made safe to use.
 *
 * Rings (fast readings of a row, events of a sampler): one writer, which never waits and may be killed anywhere; one
 * reader, which remembers its position and finds out what was overwritten. The head counts all that was ever written
 * and wraps at 2^32, which the lengths divide. An entry's time is its first word and never 0: the writer makes it 0,
 * moves the head, writes the rest and then the time. So a reader that sees anything of a new entry also sees the new
 * head, and one that finds 0 knows that the entry is not whole.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "source/board/board.h"

static_assert(BOARD_FAST_LEN > 0 && (BOARD_FAST_LEN & (BOARD_FAST_LEN - 1)) == 0, "heads wrap at 2^32");
static_assert(BOARD_EVENTS_LEN > 0 && (BOARD_EVENTS_LEN & (BOARD_EVENTS_LEN - 1)) == 0, "heads wrap at 2^32");

/* ---- copies by atomic words, of any alignment and size ---- */

typedef uint64_t __attribute__((may_alias)) Word;

static size_t words_in(const void *a, const void *b, size_t size)
{
    return ((uintptr_t)a | (uintptr_t)b) % sizeof(Word) ? 0 : size / sizeof(Word);
}

static void words_load(void *to, const void *from, size_t size)
{
    size_t words = words_in(to, from, size);
    unsigned char *to_byte = to;
    const unsigned char *from_byte = from;

    for (size_t i = 0; i < words; i++)
        ((Word *)to)[i] = __atomic_load_n((const Word *)from + i, __ATOMIC_ACQUIRE);
    for (size_t i = words * sizeof(Word); i < size; i++)
        to_byte[i] = __atomic_load_n(&from_byte[i], __ATOMIC_ACQUIRE);
}

static void words_store(void *to, const void *from, size_t size)
{
    size_t words = words_in(to, from, size);
    unsigned char *to_byte = to;
    const unsigned char *from_byte = from;

    for (size_t i = 0; i < words; i++)
        __atomic_store_n((Word *)to + i, ((const Word *)from)[i], __ATOMIC_RELEASE);
    for (size_t i = words * sizeof(Word); i < size; i++)
        __atomic_store_n(&to_byte[i], from_byte[i], __ATOMIC_RELEASE);
}

/* ---- sequences ---- */

enum { BOARD_TRIES = 4 };

/* The two sequentially consistent accesses keep what is stored later, also by plain stores, behind the odd counter: a
 * store-release and a later load-acquire do not pass each other, and nothing passes a load-acquire upwards. */
static void write_part(_Atomic uint32_t *sequence, void *to, const void *from, size_t size)
{
    const uint32_t odd = (atomic_load_explicit(sequence, memory_order_relaxed) + 1) | 1;

    atomic_store(sequence, odd);
    (void)atomic_load(sequence);
    words_store(to, from, size);
    atomic_store_explicit(sequence, odd + 1, memory_order_release);
}

/* `size` bytes at `from` as they were while the counter was even and the same. False after a few tries. */
static bool copy_part(const _Atomic uint32_t *sequence, void *to, const void *from, size_t size)
{
    for (int i = 0; i < BOARD_TRIES; i++) {
        uint32_t before = atomic_load_explicit(sequence, memory_order_acquire);

        if (before & 1)
            continue;
        words_load(to, from, size);
        if (atomic_load_explicit(sequence, memory_order_relaxed) == before)
            return true;
    }
    return false;
}

static void repair_part(_Atomic uint32_t *sequence, void *at, const void *empty, size_t size)
{
    if (atomic_load_explicit(sequence, memory_order_acquire) & 1)
        write_part(sequence, at, empty, size);
}

static void sanitize_bool(bool *value)
{
    unsigned char byte;

    memcpy(&byte, value, 1);
    *value = byte != 0;
}

static void sanitize_sample(Sample *sample)
{
    sanitize_bool(&sample->valid);
    if (sample->valid && sample->kind != SAMPLE_INT64 && sample->kind != SAMPLE_DOUBLE)
        sample_set_absent(sample, sample->time_ns, ABSENCE_FAILED);
    if (sample->absence >= ABSENCE_END)
        sample->absence = ABSENCE_FAILED;
}

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
    *ret_fd = fd_take(&fd);
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

void board_set_row(BoardRow *row, const Reading *reading)
{
    write_part(&row->sequence, &row->reading, reading, sizeof(*reading));
}

static void sanitize_text(char *text, size_t cap)
{
    text[cap - 1] = '\0';
}

static void sanitize_device(Device *device)
{
    if (device->kind != DEVICE_GPU && device->kind != DEVICE_COMPUTE_INSTANCE)
        device->kind = DEVICE_GPU;
    if (device->vendor >= DEVICE_VENDOR_END)
        device->vendor = DEVICE_VENDOR_UNKNOWN;
    sanitize_bool(&device->has_pci);
    if (device->pci.device > 31 || device->pci.function > 7)
        device->has_pci = false;
    sanitize_text(device->uuid, sizeof(device->uuid));
    sanitize_text(device->parent_uuid, sizeof(device->parent_uuid));
    sanitize_text(device->name, sizeof(device->name));
    sanitize_text(device->board, sizeof(device->board));
    sanitize_text(device->serial, sizeof(device->serial));
}

/* Makes any bytes a valid Reading. */
static void sanitize_reading(Reading *reading)
{
    sanitize_device(&reading->device);
    sanitize_text(reading->profile, sizeof(reading->profile));
    sanitize_bool(&reading->mig);
    sanitize_bool(&reading->instance_head);
    for (size_t i = 0; i < READING_TEXT_END; i++)
        sanitize_text(reading->text[i], sizeof(reading->text[i]));
    for (size_t i = 0; i < METRIC_END; i++)
        sanitize_sample(&reading->sample[i]);
}

bool board_copy(const BoardRow *row, Reading *ret)
{
    Reading copy;

    if (!copy_part(&row->sequence, &copy, &row->reading, sizeof(copy)))
        return false;
    sanitize_reading(&copy);
    *ret = copy;
    return true;
}

static void repair_row(BoardRow *row)
{
    Reading empty;

    reading_init(&empty, row->reading.device.kind == DEVICE_COMPUTE_INSTANCE ? DEVICE_COMPUTE_INSTANCE : DEVICE_GPU);
    repair_part(&row->sequence, &row->reading, &empty, sizeof(empty));
}

void board_repair(BoardGpu *gpu)
{
    static const Sample no_peers[NODE_GPUS_MAX];
    static const BoardLinkList no_links;
    static const BoardProcessList no_processes;

    repair_row(&gpu->gpu);
    for (size_t i = 0; i < NODE_INSTANCES_MAX; i++)
        repair_row(&gpu->instances[i]);
    repair_part(&gpu->peers.sequence, gpu->peers.status, no_peers, sizeof(no_peers));
    repair_part(&gpu->links.sequence, &gpu->links.list, &no_links, sizeof(no_links));
    repair_part(&gpu->processes.sequence, &gpu->processes.list, &no_processes, sizeof(no_processes));
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
    write_part(&board->plan_sequence, &board->plan, plan, sizeof(*plan));
}

bool board_get_plan(const Board *board, BoardPlan *ret)
{
    BoardPlan copy;

    if (!copy_part(&board->plan_sequence, &copy, &board->plan, sizeof(copy)))
        return false;
    *ret = copy;
    return true;
}

uint64_t board_kernel_now(void)
{
    return clock_read(CLOCK_MONOTONIC);
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
    write_part(&sampler->found_sequence, &sampler->found, found, sizeof(*found));
}

bool board_copy_found(const BoardSampler *sampler, BoardFound *ret)
{
    BoardFound copy;

    if (atomic_load_explicit(&sampler->found_sequence, memory_order_acquire) == 0 ||
        !copy_part(&sampler->found_sequence, &copy, &sampler->found, sizeof(copy)))
        return false;
    if (copy.len > NODE_GPUS_MAX)
        copy.len = NODE_GPUS_MAX;
    sanitize_text(copy.driver_version, sizeof(copy.driver_version));
    sanitize_text(copy.nvml_version, sizeof(copy.nvml_version));
    *ret = copy;
    return true;
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
    sanitize_text(why, NODE_WHY_CAP);
}

void board_set_driver(BoardSampler *sampler, BoardDriver driver, NodeDriver trouble, int32_t code, const char *why)
{
    board_set_why(sampler, why);
    atomic_store_explicit(&sampler->trouble, (uint32_t)trouble, memory_order_relaxed);
    atomic_store_explicit(&sampler->code, code, memory_order_relaxed);
    atomic_store_explicit(&sampler->driver, (uint32_t)driver, memory_order_release);
}

NodeDriver board_driver_trouble(const BoardSampler *sampler)
{
    const uint32_t trouble = atomic_load_explicit(&sampler->trouble, memory_order_relaxed);

    return trouble > NODE_DRIVER_FINE && trouble < NODE_DRIVER_END ? (NodeDriver)trouble : NODE_DRIVER_REFUSES;
}

/* ---- peers, links, processes ---- */

/* A whole number from 0 to `max`, or none. */
static void sanitize_number(Sample *sample, int64_t max)
{
    int64_t value;

    sanitize_sample(sample);
    if (sample->valid && (!sample_int64(sample, &value) || value < 0 || value > max))
        sample_set_absent(sample, sample->time_ns, ABSENCE_FAILED);
}

void board_set_peers(BoardPeers *peers, const Sample status[NODE_GPUS_MAX])
{
    write_part(&peers->sequence, peers->status, status, sizeof(peers->status));
}

bool board_copy_peers(const BoardPeers *peers, Sample ret[NODE_GPUS_MAX])
{
    Sample copy[NODE_GPUS_MAX];

    if (!copy_part(&peers->sequence, copy, peers->status, sizeof(copy)))
        return false;
    for (size_t k = 0; k < NODE_GPUS_MAX; k++)
        sanitize_number(&copy[k], PEER_STATUS_END - 1);
    memcpy(ret, copy, sizeof(copy));
    return true;
}

void board_set_links(BoardLinks *links, const BoardLinkList *list)
{
    write_part(&links->sequence, &links->list, list, sizeof(*list));
}

static void sanitize_link(NodeLink *link)
{
    sanitize_number(&link->active, 1);
    for (size_t i = 0; i < NODE_LINK_ERROR_END; i++)
        sanitize_number(&link->errors[i], INT64_MAX);
    for (size_t i = 0; i < NODE_PORT_COUNTERS; i++)
        sanitize_number(&link->ports[i], INT64_MAX);
    sanitize_number(&link->remote, INT64_MAX >> 15); /* a domain is 32 bits wide */
}

bool board_copy_links(const BoardLinks *links, BoardLinkList *ret)
{
    BoardLinkList copy;

    if (!copy_part(&links->sequence, &copy, &links->list, sizeof(copy)))
        return false;
    if (copy.count > NODE_LINKS_MAX)
        copy.count = NODE_LINKS_MAX;
    for (size_t k = 0; k < NODE_LINKS_MAX; k++)
        sanitize_link(&copy.links[k]);
    *ret = copy;
    return true;
}

void board_set_processes(BoardProcesses *processes, const BoardProcessList *list)
{
    write_part(&processes->sequence, &processes->list, list, sizeof(*list));
}

static void sanitize_share(uint8_t *percent)
{
    if (*percent > 100)
        *percent = UINT8_MAX;
}

static void sanitize_process(NodeProcess *process)
{
    sanitize_bool(&process->graphics);
    sanitize_share(&process->sm_percent);
    sanitize_share(&process->memory_percent);
}

bool board_copy_processes(const BoardProcesses *processes, BoardProcessList *ret)
{
    BoardProcessList copy;

    if (!copy_part(&processes->sequence, &copy, &processes->list, sizeof(copy)))
        return false;
    sanitize_number(&copy.count, UINT32_MAX);
    if (copy.len > NODE_PROCESSES_MAX)
        copy.len = NODE_PROCESSES_MAX;
    for (size_t k = 0; k < copy.len; k++)
        sanitize_process(&copy.processes[k]);
    *ret = copy;
    return true;
}

/* ---- rings ---- */

typedef struct Tail {
    unsigned char *entries;
    size_t size; /* of an entry, time first */
    uint32_t len;
} Tail;

static_assert(offsetof(FastReading, time_ns) == 0 && offsetof(XidEvent, time_ns) == 0, "the time comes first");

static void push_entry(const Tail *tail, _Atomic uint32_t *head, uint64_t time_ns, const void *entry)
{
    static const uint64_t unfinished = 0;
    uint32_t at = atomic_load_explicit(head, memory_order_relaxed);
    unsigned char *place = tail->entries + at % tail->len * tail->size;
    const unsigned char *from = entry;
    uint64_t stamp = time_ns ? time_ns : 1;

    words_store(place, &unfinished, sizeof(unfinished));
    atomic_store_explicit(head, at + 1, memory_order_release);
    words_store(place + sizeof(stamp), from + sizeof(stamp), tail->size - sizeof(stamp));
    words_store(place, &stamp, sizeof(stamp));
}

typedef enum Got { GOT_ENTRY, GOT_NOTHING, GOT_UNFINISHED } Got;

/* Copies entry number `at` out, if it is still there. */
static Got copy_entry(const Tail *tail, const _Atomic uint32_t *head, uint32_t at, void *out)
{
    const unsigned char *place = tail->entries + at % tail->len * tail->size;
    uint64_t time_ns, again_ns = 0;
    uint32_t age;

    words_load(out, place, tail->size);
    memcpy(&time_ns, out, sizeof(time_ns));
    words_load(&again_ns, place, sizeof(again_ns));
    age = atomic_load_explicit(head, memory_order_acquire) - at;
    if (age <= tail->len && time_ns != 0 && time_ns == again_ns)
        return GOT_ENTRY;
    return age == 1 ? GOT_UNFINISHED : GOT_NOTHING;
}

/* The position to read from: *head, or the oldest entry where *head is not in the ring. */
static uint32_t first_entry(uint32_t len, uint32_t now, uint32_t head, uint64_t *ret_lost)
{
    uint32_t from = (int32_t)(now - head) >= 0 ? head : 0;

    *ret_lost = now - from > len ? now - from - len : 0;
    return now - from > len ? now - len : from;
}

static size_t take_entries(const Tail *tail, const _Atomic uint32_t *ring_head, uint32_t *head, void *out,
                           uint64_t *ret_lost)
{
    uint32_t now = atomic_load_explicit(ring_head, memory_order_acquire);
    uint32_t at = first_entry(tail->len, now, *head, ret_lost);
    unsigned char *to = out;
    size_t count = 0;

    for (; at != now; at++) {
        Got got = copy_entry(tail, ring_head, at, to + count * tail->size);

        if (got == GOT_UNFINISHED)
            break; /* the newest: next time */
        if (got == GOT_ENTRY)
            count++;
        else
            ++*ret_lost;
    }
    *head = at;
    return count;
}

void board_push_fast(BoardRow *row, const FastReading *fast)
{
    Tail tail = {(unsigned char *)row->fast, sizeof(*fast), BOARD_FAST_LEN};

    push_entry(&tail, &row->fast_head, fast->time_ns, fast);
}

void board_push_event(BoardSampler *sampler, const XidEvent *event)
{
    Tail tail = {(unsigned char *)sampler->events, sizeof(*event), BOARD_EVENTS_LEN};

    push_entry(&tail, &sampler->event_head, event->time_ns, event);
}

/* The reader does not write, but shares the struct with the writer. */
static Tail tail_of(const void *entries, size_t size, uint32_t len)
{
    union {
        const void *in;
        unsigned char *out;
    } at = {.in = entries};

    return (Tail){at.out, size, len};
}

size_t board_read_fast(const BoardRow *row, uint32_t *head, FastReading out[BOARD_FAST_LEN], uint64_t *ret_lost)
{
    Tail tail = tail_of(row->fast, sizeof(*out), BOARD_FAST_LEN);
    size_t count = take_entries(&tail, &row->fast_head, head, out, ret_lost);

    for (size_t i = 0; i < count; i++)
        out[i].valid &= (1U << READING_FAST_CAP) - 1;
    return count;
}

size_t board_read_events(const BoardSampler *sampler, uint32_t *head, XidEvent out[BOARD_EVENTS_LEN],
                         uint64_t *ret_lost)
{
    Tail tail = tail_of(sampler->events, sizeof(*out), BOARD_EVENTS_LEN);

    return take_entries(&tail, &sampler->event_head, head, out, ret_lost);
}
