/* SPDX-License-Identifier: Apache-2.0 */
/* What the reader (verb/agent/board_reader.c) makes of what GPUs say of each other, of their links and processes: on a
 * board that the test writes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "verb/agent/board_reader.h"
#include "world.h"

enum { GPUS = 3 };

static World w;
static BoardReader *reader;

static uint64_t now(void)
{
    return board_at(w.board, w.now_ns);
}

static void write_index(uint32_t gpu, uint32_t index)
{
    static Reading reading;

    reading_init(&reading, DEVICE_GPU);
    reading.device.uuid[0] = (char)('a' + gpu);
    reading.device.index = index;
    board_set_row(&w.board->gpus[gpu].gpu, &reading);
}

static void write_status(uint32_t gpu, PeerStatus status)
{
    Sample row[NODE_GPUS_MAX] = {{0}};

    for (uint32_t i = 0; i < GPUS; i++)
        if (i != gpu)
            sample_set_int64(&row[i], now(), status);
    board_set_peers(&w.board->gpus[gpu].peers, row);
}

static int set_up(void **state)
{
    const BoardPlan plan = {.period_ns = {[METRIC_PACE_SLOW] = 10 * NS_PER_S}};

    (void)state;
    world_init(&w, GPUS);
    board_set_plan(w.board, &plan);
    reader = board_reader_new(w.board, w.supervisor, "node-1");
    world_run(&w, NS_PER_S);
    for (uint32_t i = 0; i < GPUS; i++) {
        write_index(i, GPUS - 1 - i); /* the last on the bus is the driver's first */
        write_status(i, PEER_OK);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    board_reader_free(reader);
    world_done(&w);
    return 0;
}

static const NodeGpu *look(uint32_t index)
{
    return &board_reader_read(reader, now(), 0)->gpus[index];
}

static void assert_peer(const NodeGpu *gpu, size_t at, uint32_t index, PeerStatus expected)
{
    int64_t status = -1;

    assert_true(at < gpu->peer_count);
    assert_int_equal(gpu->peers[at].index, index);
    assert_true(sample_int64(&gpu->peers[at].status, &status));
    assert_int_equal(status, expected);
}

static void assert_absent(const NodeGpu *gpu, Absence why)
{
    assert_int_equal(gpu->peer_count, GPUS - 1);
    for (size_t i = 0; i < gpu->peer_count; i++) {
        assert_false(gpu->peers[i].status.valid);
        assert_int_equal(gpu->peers[i].status.absence, why);
    }
}

static void by_the_drivers_index(void **state)
{
    (void)state;
    write_status(GPUS - 1, PEER_NOT_SUPPORTED); /* index 0 */
    assert_int_equal(look(0)->peer_count, 2);
    assert_peer(look(0), 0, 1, PEER_NOT_SUPPORTED);
    assert_peer(look(0), 1, 2, PEER_NOT_SUPPORTED);
    assert_peer(look(1), 0, 0, PEER_OK);
    assert_peer(look(1), 1, 2, PEER_OK);
}

static void a_peer_in_trouble_is_unknown(void **state)
{
    (void)state;
    w.gpus[0].outcome = BOARD_LOST; /* index 2 */
    world_run(&w, NS_PER_S);
    for (uint32_t i = 0; i < 2; i++) {
        assert_peer(look(i), 0, 1 - i, PEER_OK);
        assert_peer(look(i), 1, 2, PEER_UNKNOWN);
    }
    assert_absent(look(2), ABSENCE_GPU_LOST);
    w.gpus[0].outcome = BOARD_FINE;
    w.gpus[0].hangs = true;
    world_until(&w, 0, GPU_HUNG, 5 * NS_PER_S);
    assert_peer(look(0), 1, 2, PEER_UNKNOWN);
    assert_absent(look(2), ABSENCE_TIMED_OUT);
}

static void old_ones_are_not_shown(void **state)
{
    (void)state;
    world_run(&w, 25 * NS_PER_S);
    assert_peer(look(0), 0, 1, PEER_OK);
    world_run(&w, 10 * NS_PER_S);
    assert_absent(look(0), ABSENCE_TIMED_OUT);
    write_status(GPUS - 1, PEER_OK);
    assert_peer(look(0), 0, 1, PEER_OK);
    assert_absent(look(1), ABSENCE_TIMED_OUT);
}

static void nothing_is_said_where_nobody_asks(void **state)
{
    static const Sample nothing[NODE_GPUS_MAX];

    (void)state;
    board_set_peers(&w.board->gpus[0].peers, nothing);
    assert_absent(look(2), ABSENCE_NOT_YET);
    w.gpus[0].outcome = BOARD_LOST;
    world_run(&w, NS_PER_S);
    assert_absent(look(2), ABSENCE_NOT_YET);
}

static void a_torn_row_leaves_the_one_before(void **state)
{
    (void)state;
    assert_peer(look(2), 0, 0, PEER_OK);
    atomic_fetch_add(&w.board->gpus[0].peers.sequence, 1);
    assert_peer(look(2), 0, 0, PEER_OK);
    world_run(&w, 40 * NS_PER_S);
    assert_absent(look(2), ABSENCE_TIMED_OUT); /* but not for ever */
}

/* One that left had the index that another has now: a label is there once. */
static void an_index_names_one_gpu(void **state)
{
    const Node *node;

    (void)state;
    w.gpus[0].outcome = BOARD_LOST;
    world_run(&w, NS_PER_S);
    write_index(0, 1);
    node = board_reader_read(reader, now(), 0);
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        if (gpu->state != GPU_UP)
            continue;
        assert_int_equal(gpu->peer_count, 1);
        assert_peer(gpu, 0, gpu->reading.device.index == 1 ? 0 : 1, PEER_OK);
    }
    write_index(0, DEVICE_NO_NUMBER);
    assert_int_equal(look(0)->peer_count, 1);
    assert_peer(look(0), 0, 1, PEER_OK);
}

/* ---- links and processes ---- */

static void write_lists(uint32_t gpu, uint32_t links, uint32_t processes)
{
    BoardLinkList link_list = {.count = links};
    BoardProcessList process_list = {.len = processes};

    for (uint32_t i = 0; i < links; i++) {
        sample_set_int64(&link_list.links[i].active, now(), 1);
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++)
            sample_set_int64(&link_list.links[i].errors[k], now(), i);
    }
    sample_set_int64(&process_list.count, now(), processes + 3);
    for (uint32_t i = 0; i < processes; i++)
        process_list.processes[i] = (NodeProcess){.pid = 100 + i};
    board_set_links(&w.board->gpus[gpu].links, &link_list);
    board_set_processes(&w.board->gpus[gpu].processes, &process_list);
}

static void assert_lists(const NodeGpu *gpu, uint32_t links, uint32_t processes)
{
    int64_t listed = -1;

    assert_int_equal(gpu->link_count, links);
    for (uint32_t i = 0; i < links; i++)
        assert_true(gpu->links[i].active.valid && gpu->links[i].errors[NODE_LINK_REPLAY].value.i == i);
    assert_true(sample_int64(&gpu->process_list, &listed));
    assert_int_equal(listed, processes + 3);
    assert_int_equal(gpu->process_count, processes);
    for (uint32_t i = 0; i < processes; i++)
        assert_int_equal(gpu->processes[i].pid, 100 + i);
}

static void assert_no_lists(const NodeGpu *gpu, uint32_t links, Absence why)
{
    assert_int_equal(gpu->link_count, links);
    for (uint32_t i = 0; i < links; i++) {
        assert_true(!gpu->links[i].active.valid && gpu->links[i].active.absence == why);
        assert_true(!gpu->links[i].errors[NODE_LINK_RECOVERY].valid);
    }
    assert_true(!gpu->process_list.valid && gpu->process_list.absence == why);
    assert_int_equal(gpu->process_count, 0);
}

static void lists_are_passed_on(void **state)
{
    (void)state;
    assert_no_lists(look(2), 0, ABSENCE_NOT_YET);
    write_lists(0, 18, 2);
    assert_lists(look(2), 18, 2);
    assert_no_lists(look(1), 0, ABSENCE_NOT_YET);
    write_lists(0, 18, NODE_PROCESSES_MAX);
    assert_lists(look(2), 18, NODE_PROCESSES_MAX);
    write_lists(0, 12, 0);
    assert_lists(look(2), 12, 0);
}

static void lists_of_a_gpu_in_trouble_are_absent(void **state)
{
    (void)state;
    write_lists(0, 18, 2);
    w.gpus[0].outcome = BOARD_LOST;
    world_run(&w, NS_PER_S);
    assert_no_lists(look(2), 18, ABSENCE_GPU_LOST);
}

static void old_lists_are_not_shown(void **state)
{
    (void)state;
    write_lists(0, 18, 2);
    world_run(&w, 25 * NS_PER_S);
    assert_lists(look(2), 18, 2);
    world_run(&w, 10 * NS_PER_S);
    assert_no_lists(look(2), 18, ABSENCE_TIMED_OUT);
}

static void a_torn_list_leaves_the_one_before(void **state)
{
    (void)state;
    write_lists(0, 18, 2);
    assert_lists(look(2), 18, 2);
    atomic_fetch_add(&w.board->gpus[0].links.sequence, 1);
    atomic_fetch_add(&w.board->gpus[0].processes.sequence, 1);
    assert_lists(look(2), 18, 2);
}

/* ---- MIG ---- */

static void write_layout(uint32_t gpu, bool known, bool mig, uint32_t count, const char *last)
{
    static Reading reading;

    for (uint32_t i = 0; i < count; i++) {
        reading_init(&reading, DEVICE_COMPUTE_INSTANCE);
        reading.device.uuid[0] = (char)('A' + i);
        snprintf(reading.profile, sizeof reading.profile, "%s", i + 1 < count ? "1g.10gb" : last);
        board_set_row(&w.board->gpus[gpu].instances[i], &reading);
    }
    atomic_store(&w.board->gpus[gpu].instance_count, count);
    reading_init(&reading, DEVICE_GPU);
    reading.device.uuid[0] = (char)('a' + gpu);
    reading.device.index = GPUS - 1 - gpu;
    reading.mig = mig;
    reading.mig_known = known;
    board_set_row(&w.board->gpus[gpu].gpu, &reading);
}

static void a_layout_is_a_word_where_it_is_known(void **state)
{
    (void)state;
    assert_string_equal(look(2)->mig_layout, "");
    write_layout(0, true, false, 0, "");
    assert_string_equal(look(2)->mig_layout, "off");
    write_layout(0, true, true, 3, "3g.40gb");
    assert_string_equal(look(2)->mig_layout, "3g.40gb+2x1g.10gb");
    write_layout(0, true, true, 3, ""); /* a device that does not say its profile */
    assert_string_equal(look(2)->mig_layout, "");
    write_layout(0, false, true, 0, "");
    assert_string_equal(look(2)->mig_layout, "");
    write_layout(0, true, true, 0, "");
    assert_string_equal(look(2)->mig_layout, "none");
    w.gpus[0].hangs = true;
    world_until(&w, 0, GPU_HUNG, 5 * NS_PER_S);
    assert_string_equal(look(2)->mig_layout, "");
}

/* ---- what stands behind a state ---- */

static void drained_is_the_last_word(void **state)
{
    (void)state;
    assert_false(look(2)->drained);
    atomic_store(&w.board->gpus[0].drained, 1);
    assert_false(look(2)->drained);
    atomic_store(&w.board->gpus[0].drained, 2);
    assert_true(look(2)->drained);
    world_bus(&w, (1 << GPUS) - 2);
    world_run(&w, NS_PER_S);
    assert_int_equal(look(2)->state, GPU_GONE);
    assert_true(look(2)->drained);
    atomic_store(&w.board->gpus[0].drained, 7); /* nonsense */
    assert_false(look(2)->drained);
}

static void numbers_come_with_the_texts(void **state)
{
    const Node *node = board_reader_node(reader);

    (void)state;
    w.gpus[0].outcome = BOARD_REFUSED;
    w.gpus[0].code = 999;
    world_run(&w, NS_PER_S);
    assert_int_equal(look(2)->trouble, GPU_TROUBLE_REFUSED);
    assert_int_equal(look(2)->code, 999);
    assert_int_equal(node->driver, NODE_DRIVER_FINE);
    assert_int_equal(node->probe.driver, NODE_DRIVER_FINE);
    w.crashes = true;
    world_run(&w, NS_PER_S);
    w.crashes = false;
    w.init_fails = true;
    world_run(&w, 10 * NS_PER_S);
    look(2);
    assert_int_equal(node->driver, NODE_DRIVER_UNLOADED);
    assert_int_equal(node->driver_code, 9);
    assert_string_equal(node->driver_why, "driver not loaded");
}

static void one_that_was_here_is_named_until_nobody_misses_it(void **state)
{
    Device device;

    (void)state;
    device_init(&device, DEVICE_GPU);
    snprintf(device.uuid, sizeof device.uuid, "GPU-old");
    snprintf(device.serial, sizeof device.serial, "1650");
    const uint32_t at = supervisor_add_gone_gpu(w.supervisor, world_pci(9), true);
    board_reader_know(reader, at, &device, "last seen yesterday");
    world_run(&w, NS_PER_S);
    const Node *node = board_reader_read(reader, now(), 0);
    assert_int_equal(node->gpu_count, GPUS + 1);
    const NodeGpu *gone = &node->gpus[GPUS]; /* without an index: the last */
    assert_int_equal(gone->state, GPU_GONE);
    assert_string_equal(gone->reading.device.uuid, "GPU-old");
    assert_string_equal(gone->reading.device.serial, "1650");
    assert_int_equal(pci_compare(gone->reading.device.pci, world_pci(9)), 0);
    assert_string_equal(gone->why, "last seen yesterday");
    assert_true(gone->drained);
    supervisor_hide_gone_gpu(w.supervisor, world_pci(9));
    node = board_reader_read(reader, now(), 0);
    assert_int_equal(node->gpu_count, GPUS);
    for (uint32_t i = 0; i < GPUS; i++) {
        assert_int_equal(node->gpus[i].state, GPU_UP);
        assert_int_equal(node->gpus[i].peer_count, GPUS - 1);
    }
}

/* The GPU with the highest index, which the driver has lost since before the start. */
static const NodeGpu *recalled_gpu(void)
{
    const Node *node = board_reader_read(reader, now(), 0);

    for (size_t i = 0; i < node->gpu_count; i++)
        if (pci_compare(node->gpus[i].reading.device.pci, world_pci(0)) == 0)
            return &node->gpus[i];
    fail_msg("it is nowhere");
    return NULL;
}

static void one_that_cannot_say_who_it_is_is_who_it_was(void **state)
{
    Device device;
    Reading reading;

    (void)state;
    assert_true(board_copy(&w.board->gpus[0].gpu, &reading));
    const Device own = reading.device;
    reading_init(&reading, DEVICE_GPU);
    board_set_row(&w.board->gpus[0].gpu, &reading); /* it has not said it */
    board_reader_free(reader);
    reader = board_reader_new(w.board, w.supervisor, "node");
    device = own;
    device.pci = world_pci(0);
    device.has_pci = true;
    snprintf(device.uuid, sizeof device.uuid, "GPU-old");
    snprintf(device.name, sizeof device.name, "NVIDIA OLD");
    board_reader_recall(reader, &device);
    assert_string_equal(recalled_gpu()->reading.device.uuid, ""); /* up or not tried: it may be another one */

    w.gpus[0].outcome = BOARD_LOST;
    world_run(&w, NS_PER_S);
    assert_int_equal(recalled_gpu()->state, GPU_LOST);
    assert_string_equal(recalled_gpu()->reading.device.uuid, "GPU-old");
    assert_string_equal(recalled_gpu()->reading.device.name, "NVIDIA OLD");
    assert_int_equal(recalled_gpu()->reading.device.index, own.index);
    assert_int_equal(recalled_gpu()->last_sample_ns > 0, true);

    assert_true(board_copy(&w.board->gpus[1].gpu, &reading)); /* another has that index now */
    const Device other = reading.device;
    reading.device.index = own.index;
    board_set_row(&w.board->gpus[1].gpu, &reading);
    assert_string_equal(recalled_gpu()->reading.device.uuid, "GPU-old");
    assert_int_equal(recalled_gpu()->reading.device.index, DEVICE_NO_NUMBER);
    reading.device = other;
    snprintf(reading.device.uuid, sizeof reading.device.uuid, "GPU-old"); /* it is in another slot */
    board_set_row(&w.board->gpus[1].gpu, &reading);
    assert_string_equal(recalled_gpu()->reading.device.uuid, "");
    reading.device = other;
    board_set_row(&w.board->gpus[1].gpu, &reading);
    assert_string_equal(recalled_gpu()->reading.device.uuid, "GPU-old");

    board_reader_disown(reader, &device);
    assert_string_equal(recalled_gpu()->reading.device.uuid, "");
    board_reader_recall(reader, &device);
    assert_true(board_copy(&w.board->gpus[0].gpu, &reading)); /* it says who it is: another one */
    reading.device = own;
    board_set_row(&w.board->gpus[0].gpu, &reading);
    assert_string_equal(recalled_gpu()->reading.device.uuid, own.uuid);
}

int main(void)
{
#define PEERS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        PEERS(one_that_cannot_say_who_it_is_is_who_it_was),
        PEERS(a_layout_is_a_word_where_it_is_known),
        PEERS(drained_is_the_last_word),
        PEERS(numbers_come_with_the_texts),
        PEERS(by_the_drivers_index),
        PEERS(one_that_was_here_is_named_until_nobody_misses_it),
        PEERS(a_peer_in_trouble_is_unknown),
        PEERS(old_ones_are_not_shown),
        PEERS(nothing_is_said_where_nobody_asks),
        PEERS(a_torn_row_leaves_the_one_before),
        PEERS(an_index_names_one_gpu),
        PEERS(lists_are_passed_on),
        PEERS(lists_of_a_gpu_in_trouble_are_absent),
        PEERS(old_lists_are_not_shown),
        PEERS(a_torn_list_leaves_the_one_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
