/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board (source/board/board.c, tail.c): rows that are written, torn, left half written by a killed process and
 * filled with anything. Writer and reader use mappings of their own, as agent and sampler do.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"
#include "source/board/board.h"

enum { WHOLE_COPIES = 3000, KILLS = 40, EVENTS = 20000 };

typedef struct Fixture {
    Board *agent, *sampler;
    int fd;
    _Atomic bool stop;
} Fixture;

static int set_up(void **state)
{
    static Fixture f;
    Err err;

    memset(&f, 0, sizeof(f));
    assert_int_equal(board_new(&f.agent, &f.fd, &err), 0);
    assert_int_equal(board_map(f.fd, &f.sampler, &err), 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    Fixture *f = *state;

    board_unmap(f->agent);
    board_unmap(f->sampler);
    close(f->fd);
    return 0;
}

/* Every part of the reading says `number`. */
static void fill(Reading *reading, uint64_t number)
{
    reading_init(reading, DEVICE_GPU);
    memset(reading->device.uuid, 'a' + (int)(number % 26), sizeof(reading->device.uuid) - 1);
    for (size_t i = 0; i < METRIC_END; i++)
        sample_set_int64(&reading->sample[i], number, (int64_t)number);
}

/* As a writer leaves it that is killed in the middle. */
static Reading *tear_row(BoardRow *row)
{
    atomic_store(&row->sequence, (atomic_load(&row->sequence) + 1) | 1);
    return &row->reading;
}

static void write_row(BoardRow *row, uint64_t number)
{
    static _Thread_local Reading reading;

    fill(&reading, number);
    board_set_row(row, &reading);
}

static uint64_t number_of(const Reading *reading)
{
    int64_t number;

    assert_true(sample_int64(&reading->sample[0], &number));
    return (uint64_t)number;
}

static void assert_whole(const Reading *reading)
{
    static Reading expected;

    fill(&expected, number_of(reading));
    assert_memory_equal(reading, &expected, sizeof(expected));
}

static void a_board_is_mapped(void **state)
{
    Fixture *f = *state;
    Board *other;
    Err err;

    assert_int_equal(f->agent->version, BOARD_VERSION);
    assert_int_equal(ftruncate(f->fd, 4096), -1);
    f->agent->gpus[3].pci.bus = 7;
    assert_int_equal(f->sampler->gpus[3].pci.bus, 7);
    f->agent->version = BOARD_VERSION + 1;
    assert_int_equal(board_map(f->fd, &other, &err), -EPROTO);
    assert_non_null(strstr(err.text, "version"));
    f->agent->version = BOARD_VERSION;
    f->agent->size--;
    assert_int_equal(board_map(f->fd, &other, &err), -EPROTO);
    f->agent->size++;
}

static void other_descriptors_are_refused(void **state)
{
    Board *board = NULL;
    int ends[2];
    Err err;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_true(board_map(ends[0], &board, &err) < 0);
    assert_true(board_map(-1, &board, &err) < 0);
    assert_null(board);
    close(ends[0]);
    close(ends[1]);
}

static void a_row_is_copied(void **state)
{
    Fixture *f = *state;
    BoardRow *row = &f->sampler->gpus[1].instances[NODE_INSTANCES_MAX - 1];
    static Reading reading;

    assert_true(board_copy(&f->agent->gpus[1].instances[NODE_INSTANCES_MAX - 1], &reading));
    assert_int_equal(reading.sample[0].valid, 0);
    for (uint64_t number = 1; number < 5; number++) {
        write_row(row, number);
        assert_true(board_copy(&f->agent->gpus[1].instances[NODE_INSTANCES_MAX - 1], &reading));
        assert_int_equal(number_of(&reading), number);
        assert_whole(&reading);
    }
}

static void a_torn_row_is_refused_and_repaired(void **state)
{
    Fixture *f = *state;
    const BoardRow *row = &f->agent->gpus[0].gpu;
    static Reading reading;

    write_row(&f->sampler->gpus[0].gpu, 5);
    board_repair(&f->agent->gpus[0]);
    assert_true(board_copy(row, &reading));
    assert_int_equal(number_of(&reading), 5); /* a whole one stays */

    tear_row(&f->sampler->gpus[0].gpu)->device.uuid[0] = 'X';
    assert_false(board_copy(row, &reading));
    assert_int_equal(number_of(&reading), 5); /* untouched */
    board_repair(&f->agent->gpus[0]);
    assert_true(board_copy(row, &reading));
    assert_string_equal(reading.device.uuid, "");
    assert_int_equal(reading.device.kind, DEVICE_GPU);
    assert_int_equal(reading.device.index, DEVICE_NO_NUMBER);
    for (size_t i = 0; i < METRIC_END; i++)
        assert_false(reading.sample[i].valid);

    tear_row(&f->sampler->gpus[0].gpu); /* killed here; the next one takes the row over */
    write_row(&f->sampler->gpus[0].gpu, 6);
    assert_true(board_copy(row, &reading));
    assert_whole(&reading);
}

static void write_peers(BoardPeers *peers, int64_t status)
{
    Sample row[NODE_GPUS_MAX] = {{0}};

    for (size_t i = 0; i < NODE_GPUS_MAX; i++)
        sample_set_int64(&row[i], (uint64_t)status + 100, status);
    board_set_peers(peers, row);
}

static void assert_peers(const Sample row[NODE_GPUS_MAX], int64_t expected)
{
    for (size_t i = 0; i < NODE_GPUS_MAX; i++) {
        int64_t status = -1;

        assert_int_equal(sample_int64(&row[i], &status), expected >= 0);
        assert_int_equal(status, expected);
        assert_int_equal(row[i].time_ns, expected >= 0 ? (uint64_t)expected + 100 : 0);
    }
}

static void what_gpus_say_of_each_other(void **state)
{
    Fixture *f = *state;
    const BoardPeers *peers = &f->agent->gpus[NODE_GPUS_MAX - 1].peers;
    BoardPeers *written = &f->sampler->gpus[NODE_GPUS_MAX - 1].peers;
    Sample row[NODE_GPUS_MAX];

    assert_true(board_copy_peers(peers, row));
    assert_peers(row, -1);
    for (int64_t status = 0; status < PEER_STATUS_END; status++) {
        write_peers(written, status);
        assert_true(board_copy_peers(peers, row));
        assert_peers(row, status);
    }
    board_repair(&f->agent->gpus[NODE_GPUS_MAX - 1]);
    assert_true(board_copy_peers(peers, row));
    assert_peers(row, PEER_UNKNOWN); /* a whole one stays */

    write_peers(written, PEER_OK);
    atomic_fetch_add(&written->sequence, 1); /* killed here */
    assert_false(board_copy_peers(peers, row));
    assert_peers(row, PEER_UNKNOWN); /* untouched */
    board_repair(&f->agent->gpus[NODE_GPUS_MAX - 1]);
    assert_true(board_copy_peers(peers, row));
    assert_peers(row, -1);

    atomic_fetch_add(&written->sequence, 1); /* again; the next one takes it over */
    write_peers(written, PEER_OK);
    assert_true(board_copy_peers(peers, row));
    assert_peers(row, PEER_OK);
}

static void a_status_that_is_none_is_absent(void **state)
{
    static const int64_t wrong[] = {-1, PEER_STATUS_END, INT64_MIN, INT64_MAX};
    Fixture *f = *state;
    Sample row[NODE_GPUS_MAX] = {{0}};
    unsigned seed = 1;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        sample_set_int64(&row[i], 1, wrong[i]);
    sample_set_double(&row[4], 1, 2);
    board_set_peers(&f->sampler->gpus[0].peers, row);
    assert_true(board_copy_peers(&f->agent->gpus[0].peers, row));
    for (size_t i = 0; i < 5; i++) {
        assert_false(row[i].valid);
        assert_int_equal(row[i].absence, ABSENCE_FAILED);
    }
    for (int round = 0; round < 200; round++) {
        unsigned char *bytes = (unsigned char *)f->sampler->gpus[0].peers.status;

        for (size_t i = 0; i < sizeof(row); i++)
            bytes[i] = (unsigned char)rand_r(&seed);
        assert_true(board_copy_peers(&f->agent->gpus[0].peers, row));
        for (size_t i = 0; i < NODE_GPUS_MAX; i++) {
            int64_t status = 0;

            if (sample_int64(&row[i], &status))
                assert_non_null(peer_statuses[status].text);
            else
                assert_non_null(absences[row[i].absence].key);
        }
    }
}

static void counters_wrap(void **state)
{
    Fixture *f = *state;
    static Reading reading;

    atomic_store(&f->agent->gpus[0].gpu.sequence, UINT32_MAX - 1);
    for (uint64_t number = 1; number < 4; number++) {
        write_row(&f->sampler->gpus[0].gpu, number);
        assert_true(board_copy(&f->agent->gpus[0].gpu, &reading));
        assert_int_equal(number_of(&reading), number);
    }
    atomic_store(&f->agent->gpus[0].gpu.sequence, UINT32_MAX); /* left odd at the end */
    write_row(&f->sampler->gpus[0].gpu, 9);
    assert_true(board_copy(&f->agent->gpus[0].gpu, &reading));
    assert_int_equal(number_of(&reading), 9);
}

static void any_bytes_become_a_reading(void **state)
{
    Fixture *f = *state;
    static Reading reading;
    unsigned seed = 1;

    for (int round = 0; round < 200; round++) {
        unsigned char *bytes = (unsigned char *)&f->sampler->gpus[0].gpu.reading;
        char key[DEVICE_KEY_CAP], text[PCI_TEXT_CAP];

        for (size_t i = 0; i < sizeof(Reading); i++)
            bytes[i] = round == 0 ? 0xff : (unsigned char)rand_r(&seed);
        assert_true(board_copy(&f->agent->gpus[0].gpu, &reading));
        assert_true(strlen(reading.device.uuid) < sizeof(reading.device.uuid));
        assert_true(strlen(reading.device.name) < sizeof(reading.device.name));
        assert_true(strlen(reading.profile) < sizeof(reading.profile));
        for (size_t i = 0; i < READING_TEXT_END; i++)
            assert_true(strlen(reading.text[i]) < sizeof(reading.text[i]));
        for (size_t i = 0; i < METRIC_END; i++) {
            double value;

            if (!sample_double(&reading.sample[i], &value))
                assert_non_null(absences[reading.sample[i].absence].key);
        }
        assert_non_null(device_kinds[reading.device.kind].key);
        if (reading.device.has_pci)
            pci_format(reading.device.pci, PCI_FORM_NVML, text);
        device_key(&reading.device, key);
    }
}

static void counts_are_not_believed(void **state)
{
    Fixture *f = *state;
    BoardSampler *sampler = &f->sampler->samplers[0];
    BoardFound found = {.count = 8, .len = 2, .gpus = {{.bus = 1}, {.bus = 2}}, .driver_version = "570.1"};
    BoardFound copy = {.count = 77};
    char why[NODE_WHY_CAP];

    atomic_store(&f->sampler->gpus[0].instance_count, 4000000000U);
    assert_int_equal(board_instances(&f->agent->gpus[0]), NODE_INSTANCES_MAX);
    atomic_store(&f->sampler->gpus[0].instance_count, 3);
    assert_int_equal(board_instances(&f->agent->gpus[0]), 3);

    assert_false(board_copy_found(&f->agent->samplers[0], &copy));
    assert_int_equal(copy.count, 77);
    board_set_found(sampler, &found);
    assert_true(board_copy_found(&f->agent->samplers[0], &copy));
    assert_int_equal(copy.count, 8);
    assert_int_equal(copy.gpus[1].bus, 2);
    assert_string_equal(copy.driver_version, "570.1");
    sampler->found.len = UINT32_MAX;
    memset(sampler->found.driver_version, 'x', sizeof(sampler->found.driver_version));
    memset(sampler->why, 'y', sizeof(sampler->why));
    assert_true(board_copy_found(&f->agent->samplers[0], &copy));
    assert_int_equal(copy.len, NODE_GPUS_MAX);
    assert_int_equal(strlen(copy.driver_version), READING_TEXT_CAP - 1);
    board_copy_why(&f->agent->samplers[0], why);
    assert_int_equal(strlen(why), NODE_WHY_CAP - 1);
    atomic_fetch_add(&sampler->found_sequence, 1);
    assert_false(board_copy_found(&f->agent->samplers[0], &copy));

    board_set_driver(sampler, BOARD_DRIVER_INIT_FAILED, NODE_DRIVER_DENIED, 4, "no permission");
    assert_int_equal(board_driver_trouble(&f->agent->samplers[0]), NODE_DRIVER_DENIED);
    assert_int_equal(atomic_load(&f->agent->samplers[0].code), 4);
    assert_int_equal(atomic_load(&f->agent->samplers[0].driver), BOARD_DRIVER_INIT_FAILED);
    for (uint32_t i = 0; i < 3; i++) {
        atomic_store(&sampler->trouble, i == 0 ? NODE_DRIVER_FINE : i == 1 ? NODE_DRIVER_END : UINT32_MAX);
        assert_int_equal(board_driver_trouble(&f->agent->samplers[0]), NODE_DRIVER_REFUSES);
    }
}

static void *write_for_ever(void *arg)
{
    Fixture *f = arg;

    for (uint64_t number = 1; !atomic_load(&f->stop); number++)
        write_row(&f->sampler->gpus[0].gpu, number);
    return NULL;
}

static void copies_are_whole_while_it_writes(void **state)
{
    Fixture *f = *state;
    static Reading reading;
    pthread_t writer;
    uint64_t last = 0;

    write_row(&f->sampler->gpus[0].gpu, 1);
    assert_int_equal(pthread_create(&writer, NULL, write_for_ever, f), 0);
    for (int whole = 0; whole < WHOLE_COPIES;) {
        if (!board_copy(&f->agent->gpus[0].gpu, &reading))
            continue;
        whole++;
        assert_whole(&reading);
        assert_true(number_of(&reading) >= last || number_of(&reading) == 1);
        last = number_of(&reading);
    }
    atomic_store(&f->stop, true);
    pthread_join(writer, NULL);
}

static void killed_writers_leave_no_half_row(void **state)
{
    Fixture *f = *state;
    static Reading reading;
    unsigned seed = 7;

    for (int i = 0; i < KILLS; i++) {
        pid_t pid = fork();
        bool whole;

        assert_true(pid >= 0);
        if (pid == 0)
            write_for_ever(f);
        nanosleep(&(struct timespec){.tv_nsec = rand_r(&seed) % 2000000}, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        whole = board_copy(&f->agent->gpus[0].gpu, &reading);
        if (whole && reading.sample[0].valid)
            assert_whole(&reading);
        board_repair(&f->agent->gpus[0]);
        assert_true(board_copy(&f->agent->gpus[0].gpu, &reading));
        assert_true(whole || !reading.sample[0].valid);
    }
}

static void push_numbers(BoardRow *row, uint64_t from, uint64_t to)
{
    for (; from < to; from++)
        board_push_fast(row, &(FastReading){.time_ns = from, .valid = 1, .value = {(double)from}});
}

/* The next `count` readings are from, from + 1, ... */
static void assert_fast(const BoardRow *row, uint32_t *head, uint64_t from, size_t count, uint64_t lost)
{
    static FastReading out[BOARD_FAST_LEN];
    uint64_t got_lost = 99;

    assert_int_equal(board_read_fast(row, head, out, &got_lost), count);
    assert_int_equal(got_lost, lost);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(out[i].time_ns, from + i);
        assert_true(out[i].value[0] > (double)(from + i) - 0.5 && out[i].value[0] < (double)(from + i) + 0.5);
    }
}

static void fast_readings_are_taken_once(void **state)
{
    Fixture *f = *state;
    BoardRow *to = &f->sampler->gpus[0].gpu;
    const BoardRow *from = &f->agent->gpus[0].gpu;
    uint32_t head = 0;

    assert_fast(from, &head, 0, 0, 0);
    push_numbers(to, 1, 11);
    assert_fast(from, &head, 1, 10, 0);
    assert_fast(from, &head, 0, 0, 0);
    push_numbers(to, 11, 11 + BOARD_FAST_LEN);
    assert_fast(from, &head, 11, BOARD_FAST_LEN, 0);
    push_numbers(to, 50, 50 + BOARD_FAST_LEN + 9);
    assert_fast(from, &head, 59, BOARD_FAST_LEN, 9);
}

static void fast_heads_wrap(void **state)
{
    Fixture *f = *state;
    uint32_t head = UINT32_MAX - 4;

    atomic_store(&f->sampler->gpus[0].gpu.fast_head, head);
    push_numbers(&f->sampler->gpus[0].gpu, 1, 11);
    assert_int_equal(atomic_load(&f->agent->gpus[0].gpu.fast_head), 5);
    assert_fast(&f->agent->gpus[0].gpu, &head, 1, 10, 0);
    assert_int_equal(head, 5);
    push_numbers(&f->sampler->gpus[0].gpu, 11, 12);
    assert_fast(&f->agent->gpus[0].gpu, &head, 11, 1, 0);
}

static void a_ring_that_began_anew_is_read_from_its_start(void **state)
{
    Fixture *f = *state;
    uint32_t head = 1000;

    push_numbers(&f->sampler->gpus[0].gpu, 1, 4);
    assert_fast(&f->agent->gpus[0].gpu, &head, 1, 3, 0);
    head = 1000;
    push_numbers(&f->sampler->gpus[0].gpu, 4, 4 + BOARD_FAST_LEN);
    assert_fast(&f->agent->gpus[0].gpu, &head, 4, BOARD_FAST_LEN, 3);
}

static void a_half_written_entry_is_not_taken(void **state)
{
    Fixture *f = *state;
    BoardRow *row = &f->sampler->gpus[0].gpu;
    uint32_t head = 0;

    push_numbers(row, 1, 1 + BOARD_FAST_LEN);
    row->fast[0].time_ns = 0; /* killed when it began to overwrite the oldest */
    assert_fast(&f->agent->gpus[0].gpu, &head, 2, BOARD_FAST_LEN - 1, 1);

    push_numbers(row, 40, 42);
    row->fast[(BOARD_FAST_LEN + 1) % BOARD_FAST_LEN].time_ns = 0; /* killed within the newest */
    assert_fast(&f->agent->gpus[0].gpu, &head, 40, 1, 0);
    assert_fast(&f->agent->gpus[0].gpu, &head, 0, 0, 0);
    push_numbers(row, 50, 52); /* its successor */
    assert_fast(&f->agent->gpus[0].gpu, &head, 50, 2, 1);
}

static void unknown_fast_values_are_masked(void **state)
{
    Fixture *f = *state;
    static FastReading out[BOARD_FAST_LEN];
    uint32_t head = 0;
    uint64_t lost;

    board_push_fast(&f->sampler->gpus[0].gpu, &(FastReading){.time_ns = 1, .valid = UINT32_MAX});
    assert_int_equal(board_read_fast(&f->agent->gpus[0].gpu, &head, out, &lost), 1);
    assert_int_equal(out[0].valid, (1U << READING_FAST_CAP) - 1);
}

static void *push_events(void *arg)
{
    Fixture *f = arg;

    for (uint64_t i = 1; i <= EVENTS; i++)
        board_push_event(&f->sampler->samplers[2], &(XidEvent){.time_ns = i, .gpu = {.bus = (uint8_t)i}, .xid = i});
    atomic_store(&f->stop, true);
    return NULL;
}

static void every_event_is_taken_or_counted(void **state)
{
    Fixture *f = *state;
    static XidEvent out[BOARD_EVENTS_LEN];
    uint64_t taken = 0, lost = 0, last = 0;
    uint32_t head = 0;
    pthread_t writer;
    bool end = false;

    assert_int_equal(pthread_create(&writer, NULL, push_events, f), 0);
    while (!end) {
        uint64_t missed;
        size_t count;

        end = atomic_load(&f->stop);
        count = board_read_events(&f->agent->samplers[2], &head, out, &missed);
        for (size_t i = 0; i < count; i++) {
            assert_true(out[i].xid > last);
            assert_int_equal(out[i].time_ns, out[i].xid);
            assert_int_equal(out[i].gpu.bus, out[i].xid % 256);
            last = out[i].xid;
        }
        taken += count;
        lost += missed;
    }
    pthread_join(writer, NULL);
    assert_int_equal(taken + lost, EVENTS);
    assert_int_equal(last, EVENTS);
}

static void a_plan_is_published(void **state)
{
    Fixture *f = *state;
    BoardPlan plan = {.period_ns = {[METRIC_PACE_NORMAL] = 5}}, copy = {0};
    uint32_t turn = atomic_load(&f->sampler->plan_sequence);
    MetricId last = METRIC_END - 1;

    plan.wanted[last / 64] |= 1ULL << (last % 64);
    board_set_plan(f->agent, &plan);
    assert_int_not_equal(atomic_load(&f->sampler->plan_sequence), turn);
    assert_true(board_get_plan(f->sampler, &copy));
    assert_true(board_wants(&copy, last));
    assert_false(board_wants(&copy, 0));
    assert_int_equal(copy.period_ns[METRIC_PACE_NORMAL], 5);
    atomic_fetch_add(&f->agent->plan_sequence, 1);
    copy.period_ns[METRIC_PACE_NORMAL] = 6;
    assert_false(board_get_plan(f->sampler, &copy));
    assert_int_equal(copy.period_ns[METRIC_PACE_NORMAL], 6);
}

static void the_clock_may_run_faster(void **state)
{
    Fixture *f = *state;
    uint64_t before, after;

    before = board_now(f->agent);
    assert_true(board_now(f->sampler) >= before);
    f->agent->clock = (BoardClock){.start_ns = 1000, .kernel_start_ns = board_kernel_now() - NS_PER_S, .speed = 3600};
    after = board_now(f->sampler);
    assert_true(after >= 1000 + 3600 * NS_PER_S);
    f->agent->clock.kernel_start_ns = UINT64_MAX;
    assert_int_equal(board_now(f->sampler), 1000);
}

/* Every sample of the list says `number`. */
static void write_links(BoardLinks *links, uint32_t count, int64_t number)
{
    BoardLinkList list = {.count = count};

    for (size_t i = 0; i < NODE_LINKS_MAX; i++) {
        sample_set_int64(&list.links[i].active, 1, number & 1);
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++)
            sample_set_int64(&list.links[i].errors[k], 1, number);
        for (size_t k = 0; k < NODE_PORT_COUNTERS; k++)
            sample_set_int64(&list.links[i].ports[k], 1, number);
    }
    board_set_links(links, &list);
}

static void assert_links(const BoardLinkList *list, uint32_t count, int64_t expected)
{
    assert_int_equal(list->count, count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < NODE_LINK_ERROR_END + NODE_PORT_COUNTERS; k++) {
            const NodeLink *link = &list->links[i];
            int64_t number = -1;
            assert_true(sample_int64(k < NODE_LINK_ERROR_END ? &link->errors[k] : &link->ports[k - NODE_LINK_ERROR_END],
                                     &number));
            assert_int_equal(number, expected);
        }
}

static void links_are_copied_torn_and_repaired(void **state)
{
    Fixture *f = *state;
    const BoardLinks *links = &f->agent->gpus[NODE_GPUS_MAX - 1].links;
    BoardLinks *written = &f->sampler->gpus[NODE_GPUS_MAX - 1].links;
    BoardLinkList list;

    assert_true(board_copy_links(links, &list));
    assert_int_equal(list.count, 0);
    write_links(written, 18, 7);
    assert_true(board_copy_links(links, &list));
    assert_links(&list, 18, 7);
    board_repair(&f->agent->gpus[NODE_GPUS_MAX - 1]);
    assert_true(board_copy_links(links, &list));
    assert_links(&list, 18, 7); /* a whole one stays */
    atomic_fetch_add(&written->sequence, 1);
    write_links(written, 12, 8); /* the next writer goes on */
    assert_true(board_copy_links(links, &list));
    assert_links(&list, 12, 8);
    atomic_fetch_add(&written->sequence, 1);
    assert_false(board_copy_links(links, &list));
    assert_links(&list, 12, 8); /* untouched */
    board_repair(&f->agent->gpus[NODE_GPUS_MAX - 1]);
    assert_true(board_copy_links(links, &list));
    assert_int_equal(list.count, 0);
    assert_int_equal(list.links[0].active.absence, ABSENCE_NOT_YET);
}

static void processes_shrink_grow_and_tear(void **state)
{
    static const uint32_t lens[] = {0, 5, NODE_PROCESSES_MAX, 1, 0, 64};
    Fixture *f = *state;
    BoardProcesses *written = &f->sampler->gpus[0].processes;
    BoardProcessList list = {.len = 0}, copy;

    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        sample_set_int64(&list.count, i + 1, lens[i] + 100);
        list.len = lens[i];
        for (uint32_t k = 0; k < lens[i]; k++)
            list.processes[k] = (NodeProcess){.pid = 10 * (uint32_t)i + k, .used_bytes = UINT64_MAX, .sm_percent = 100};
        board_set_processes(written, &list);
        assert_true(board_copy_processes(&f->agent->gpus[0].processes, &copy));
        assert_int_equal(copy.len, lens[i]);
        assert_int_equal(copy.count.value.i, lens[i] + 100);
        for (uint32_t k = 0; k < lens[i]; k++)
            assert_int_equal(copy.processes[k].pid, 10 * i + k);
    }
    atomic_fetch_add(&written->sequence, 1);
    assert_false(board_copy_processes(&f->agent->gpus[0].processes, &copy));
    assert_int_equal(copy.len, 64); /* untouched */
    board_repair(&f->agent->gpus[0]);
    assert_true(board_copy_processes(&f->agent->gpus[0].processes, &copy));
    assert_true(copy.len == 0 && !copy.count.valid && copy.count.absence == ABSENCE_NOT_YET);
}

/* Whatever a sampler left there, what comes out can be used. */
static void lists_of_any_bytes_are_tamed(void **state)
{
    Fixture *f = *state;
    unsigned char *links = (unsigned char *)&f->sampler->gpus[0].links.list;
    unsigned char *processes = (unsigned char *)&f->sampler->gpus[0].processes.list;

    srandom(7);
    for (int i = 0; i < 300; i++) {
        BoardLinkList link_list;
        BoardProcessList process_list;
        for (size_t k = 0; k < sizeof(link_list); k++)
            links[k] = (unsigned char)random();
        for (size_t k = 0; k < sizeof(process_list); k++)
            processes[k] = (unsigned char)random();
        assert_true(board_copy_links(&f->agent->gpus[0].links, &link_list));
        assert_true(board_copy_processes(&f->agent->gpus[0].processes, &process_list));
        assert_in_range(link_list.count, 0, NODE_LINKS_MAX);
        assert_in_range(process_list.len, 0, NODE_PROCESSES_MAX);
        for (size_t k = 0; k < link_list.count; k++) {
            const Sample *active = &link_list.links[k].active;
            assert_true(active->valid ? active->value.i == 0 || active->value.i == 1 : active->absence < ABSENCE_END);
        }
        for (size_t k = 0; k < process_list.len; k++)
            assert_true(process_list.processes[k].sm_percent <= 100 ||
                        process_list.processes[k].sm_percent == UINT8_MAX);
    }
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ROW(a_board_is_mapped),
        ROW(other_descriptors_are_refused),
        ROW(a_row_is_copied),
        ROW(a_torn_row_is_refused_and_repaired),
        ROW(what_gpus_say_of_each_other),
        ROW(a_status_that_is_none_is_absent),
        ROW(links_are_copied_torn_and_repaired),
        ROW(processes_shrink_grow_and_tear),
        ROW(lists_of_any_bytes_are_tamed),
        ROW(counters_wrap),
        ROW(any_bytes_become_a_reading),
        ROW(counts_are_not_believed),
        ROW(copies_are_whole_while_it_writes),
        ROW(killed_writers_leave_no_half_row),
        ROW(fast_readings_are_taken_once),
        ROW(fast_heads_wrap),
        ROW(a_ring_that_began_anew_is_read_from_its_start),
        ROW(a_half_written_entry_is_not_taken),
        ROW(unknown_fast_values_are_masked),
        ROW(every_event_is_taken_or_counted),
        ROW(a_plan_is_published),
        ROW(the_clock_may_run_faster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
