/* SPDX-License-Identifier: Apache-2.0 */
/* Covers look.c, tasks.c and source/pci/detail.c: what is told of trees that are made here. */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "kit.h"
#include "source/host/host.h"

static int begin(void **state)
{
    static Tree tree;

    tree_new(&tree);
    *state = &tree;
    return 0;
}

static int end(void **state)
{
    tree_free(*state);
    return 0;
}

static Facts look(const Tree *tree)
{
    HostScan scan = {0};

    host_scan_read(tree->root, &scan);
    vec_done(&scan.places);
    assert_int_equal(scan.rc, 0);
    return scan.facts;
}

/* ---- the bus ---- */

static void a_gpu_with_its_port(void **state)
{
    const Tree *tree = *state;

    tree_gpu(tree);
    const Facts facts = look(tree);
    const FactsGpu *gpu = &facts.gpus[0];
    assert_int_equal(facts.gpu_count, 1);
    assert_int_equal(gpu->pci.bus, 0xbb);
    assert_true(gpu->present && !gpu->config_lost && !gpu->asleep && gpu->has_aer);
    assert_string_equal(gpu->driver, "nvidia");
    assert_int_equal(gpu->current.speed_mts, 16000);
    assert_int_equal(gpu->current.width, 8);
    assert_int_equal(gpu->max.width, 16);
    assert_int_equal(gpu->slot.speed_mts, 32000);
    assert_int_equal(gpu->slot.width, 8);
    assert_int_equal(gpu->aer[FACTS_AER_CORRECTABLE], 3);
    assert_true(gpu->aer[FACTS_AER_NONFATAL] == UINT64_MAX);
    assert_int_equal(gpu->aer[FACTS_AER_FATAL], 0);
    assert_int_equal(gpu->port_aer[FACTS_AER_CORRECTABLE], 4);
    assert_int_equal(gpu->port_aer[FACTS_AER_FATAL], 1);
    assert_false(facts.has_switches);
}

#define GPU "sys/devices/pci0000:aa/0000:aa:01.0/0000:bb:00.0"

static void what_a_gpu_may_lack(void **state)
{
    const Tree *tree = *state;

    tree_gpu(tree);
    tree_file(tree, GPU "/config", "\xff\xff\xff\xff");
    tree_gone(tree, GPU "/driver");
    assert_true(look(tree).gpus[0].config_lost);
    assert_string_equal(look(tree).gpus[0].driver, "");
    tree_file(tree, GPU "/power/runtime_status", "suspended\n");
    assert_true(look(tree).gpus[0].asleep && !look(tree).gpus[0].config_lost);
    assert_int_equal(look(tree).gpus[0].current.width, 0);
    tree_gone(tree, GPU "/aer_dev_correctable");
    tree_gone(tree, GPU "/aer_dev_fatal");
    assert_true(look(tree).gpus[0].has_aer);
    tree_gone(tree, GPU "/aer_dev_nonfatal");
    assert_false(look(tree).gpus[0].has_aer);
}

static void one_without_a_port(void **state)
{
    const Tree *tree = *state;

    tree_file(tree, "sys/devices/pci0000:00/0000:00:05.0/class", "0x030000\n");
    tree_file(tree, "sys/devices/pci0000:00/0000:00:05.0/vendor", "0x10de\n");
    tree_file(tree, "sys/devices/pci0000:00/0000:00:05.0/config", "\xde\x10\x30\x23");
    tree_link(tree, "sys/bus/pci/devices/0000:00:05.0", "../../../devices/pci0000:00/0000:00:05.0");
    const Facts facts = look(tree);
    assert_int_equal(facts.gpu_count, 1);
    assert_int_equal(facts.gpus[0].slot.width, 0);
    assert_false(facts.gpus[0].has_aer);
}

static void switches(void **state)
{
    const Tree *tree = *state;

    tree_gpu(tree);
    tree_file(tree, "sys/bus/pci/devices/0000:05:00.0/class", "0x068000\n");
    tree_file(tree, "sys/bus/pci/devices/0000:05:00.0/vendor", "0x8086\n");
    assert_false(look(tree).has_switches);
    tree_file(tree, "sys/bus/pci/devices/0000:05:00.0/vendor", "0x10de\n");
    assert_true(look(tree).has_switches);
    assert_int_equal(look(tree).gpu_count, 1);
}

static void nothing_at_all(void **state)
{
    const Facts facts = look(*state);

    assert_int_equal(facts.gpu_count, 0);
    assert_false(facts.proc_known || facts.module_loaded || facts.persistenced || facts.device_denied);
    assert_string_equal(facts.boot_id, "");
}

/* ---- /proc ---- */

static void versions(void **state)
{
    static const struct {
        const char *text, *version;
    } rows[] = {
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue Mar  5 22:13:55 UTC 2024\nGCC version: "
         "12.3.0\n",
         "535.161.08"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16)\n",
         "570.86.15"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  590.48.01  Release Build\n", "590.48.01"},
        {"no version here\n", ""},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        tree_file(*state, "proc/driver/nvidia/version", "%s", rows[i].text);
        const Facts facts = look(*state);
        assert_true(facts.module_loaded);
        assert_string_equal(facts.module_version, rows[i].version);
    }
    tree_gone(*state, "proc/driver");
    assert_false(look(*state).module_loaded);
}

static void the_boot(void **state)
{
    tree_file(*state, "proc/sys/kernel/random/boot_id", "0b1c2d3e-1111-4222-8333-444455556666\n");
    tree_file(*state, "proc/stat", "cpu  1 2 3\nintr 5\nbtime 1767600000\nprocesses 7\n");
    const Facts facts = look(*state);
    assert_string_equal(facts.boot_id, "0b1c2d3e-1111-4222-8333-444455556666");
    assert_true(facts.boot_real_ns == 1767600000 * NS_PER_S);
    tree_file(*state, "proc/sys/kernel/random/boot_id", "%0200d\n", 1); /* longer than any */
    assert_true(strlen(look(*state).boot_id) < sizeof(facts.boot_id));
}

static void services(void **state)
{
    tree_task(*state, 10, "nvidia-persiste", 'S', "do_poll");
    tree_task(*state, 11, "nv-fabricmanag", 'S', "0"); /* another */
    Facts facts = look(*state);
    assert_true(facts.proc_known && facts.persistenced && !facts.fabric_manager);
    tree_task(*state, 11, "nv-fabricmanage", 'S', "0");
    tree_task(*state, 10, "nvidia-persiste", 'Z', "0");
    facts = look(*state);
    assert_true(!facts.persistenced && facts.fabric_manager);
    assert_true(!facts.imex && !facts.all_tasks);
    tree_task(*state, 12, "nvidia-imex", 'S', "0");
    tree_task(*state, 2, "bash", 'S', "0"); /* of a container */
    facts = look(*state);
    assert_true(facts.imex && !facts.all_tasks);
    tree_task(*state, 2, "kthreadd", 'S', "0");
    assert_true(look(*state).all_tasks);
    assert_int_equal(facts.stuck_count, 0);
}

static const FactsTask *stuck(const Facts *facts, pid_t pid)
{
    for (size_t i = 0; i < facts->stuck_len; i++)
        if (facts->stuck[i].pid == pid)
            return &facts->stuck[i];
    fail_msg("task %d is not told", (int)pid);
    return facts->stuck;
}

static void who_hangs_in_the_driver(void **state)
{
    const Tree *tree = *state;

    tree_task(tree, 20, "nvidia-smi", 'D', "rwsem_down_read_slowpath");
    tree_task(tree, 21, "python (3) D", 'D', "os_acquire_rwlock_write");
    tree_task(tree, 22, "train", 'D', "down");
    tree_link(tree, "proc/22/fd/7", "/dev/nvidia3");
    tree_task(tree, 23, "nvidia-smi", 'S', "do_poll");    /* waits, but can be killed */
    tree_task(tree, 24, "kworker/3:1", 'D', "nvme_wait"); /* a disk, whose name begins alike */
    tree_task(tree, 25, "dd", 'D', "io_schedule");
    tree_link(tree, "proc/25/fd/1", "/dev/sda");
    tree_task(tree, 26, "odd", 'D', "0");        /* hidden */
    tree_file(tree, "proc/27/stat", "27 (half"); /* gone while it was read */
    const Facts facts = look(tree);
    assert_int_equal(facts.stuck_count, 3);
    assert_int_equal(facts.stuck_len, 3);
    assert_string_equal(stuck(&facts, 20)->name, "nvidia-smi");
    assert_string_equal(stuck(&facts, 21)->name, "python (3) D");
    assert_string_equal(stuck(&facts, 21)->wchan, "os_acquire_rwlock_write");
    assert_string_equal(stuck(&facts, 22)->name, "train");
}

static void more_than_the_list_holds(void **state)
{
    for (int i = 0; i < FACTS_STUCK_MAX + 5; i++)
        tree_task(*state, 100 + i, "nvidia-smi", 'D', "0");
    const Facts facts = look(*state);
    assert_int_equal(facts.stuck_count, FACTS_STUCK_MAX + 5);
    assert_int_equal(facts.stuck_len, FACTS_STUCK_MAX);
}

/* ---- from look to look ---- */

static void what_was_there_before(void **state)
{
    const Tree *tree = *state;
    HostScan known = {.rc = 0}, fresh = {.rc = 0};

    tree_gpu(tree);
    tree_task(tree, 20, "nvidia-smi", 'D', "0");
    known.facts.log = FACTS_LOG_DENIED;
    host_scan_read(tree->root, &fresh);
    host_scan_merge(&known, &fresh, 100);
    assert_int_equal(known.facts.time_ns, 100);
    assert_int_equal(known.facts.stuck[0].since_ns, 100);
    tree_gone(tree, "sys/bus/pci/devices/0000:bb:00.0");
    tree_task(tree, 19, "nvidia-smi", 'D', "0");
    host_scan_read(tree->root, &fresh);
    host_scan_merge(&known, &fresh, 200);
    assert_int_equal(known.facts.gpu_count, 1);
    assert_false(known.facts.gpus[0].present);
    assert_int_equal(known.facts.gpus[0].pci.bus, 0xbb);
    assert_int_equal(stuck(&known.facts, 20)->since_ns, 100);
    assert_int_equal(stuck(&known.facts, 19)->since_ns, 200);
    assert_int_equal(known.facts.log, FACTS_LOG_DENIED);
    tree_file(tree, "proc/20/stat",
              "20 (nvidia-smi) D 1 2 3 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 9999 0 0 0\n"); /* another */
    host_scan_read(tree->root, &fresh);
    host_scan_merge(&known, &fresh, 300);
    assert_int_equal(stuck(&known.facts, 20)->since_ns, 300);
    assert_int_equal(known.facts.gpu_count, 1);
    vec_done(&fresh.places);
    vec_done(&known.places);
}

static void a_bus_that_cannot_be_read_takes_no_gpu_away(void **state)
{
    const Tree *tree = *state;
    HostScan known = {.rc = 0}, fresh = {.rc = 0};

    tree_gpu(tree);
    host_scan_read(tree->root, &fresh);
    host_scan_merge(&known, &fresh, 100);
    tree_gone(tree, "sys/bus/pci/devices");
    tree_file(tree, "sys/bus/pci/devices", "no folder\n");
    host_scan_read(tree->root, &fresh);
    assert_true(fresh.rc < 0);
    host_scan_merge(&known, &fresh, 200);
    assert_true(known.facts.gpu_count == 1 && known.facts.gpus[0].present);
    assert_int_equal(known.facts.time_ns, 200);
    vec_done(&fresh.places);
    vec_done(&known.places);
}

/* ---- places ---- */

static void adapter(const Tree *tree, const char *name, const char *function)
{
    char path[TREE_PATH_CAP], target[TREE_PATH_CAP];

    snprintf(path, sizeof path, "sys/devices/pci0000:aa/%s/infiniband/%s/node_guid", function, name);
    tree_file(tree, path, "0000:0000:0000:0001\n");
    snprintf(path, sizeof path, "sys/devices/pci0000:aa/%s/infiniband/%s/device", function, name);
    tree_link(tree, path, "../..");
    snprintf(path, sizeof path, "sys/class/infiniband/%s", name);
    snprintf(target, sizeof target, "../../devices/pci0000:aa/%s/infiniband/%s", function, name);
    tree_link(tree, path, target);
}

static void where_gpus_and_adapters_are(void **state)
{
    const Tree *tree = *state;
    HostScan look = {0};

    tree_gpu(tree);
    tree_file(tree, GPU "/numa_node", "1\n");
    tree_file(tree, GPU "/local_cpulist", "32-63,96-127\n");
    adapter(tree, "mlx5_10", "0000:aa:02.0/0000:cd:00.0");
    adapter(tree, "mlx5_9", "0000:aa:01.0/0000:cc:00.0");
    tree_file(tree, "sys/devices/pci0000:aa/0000:aa:01.0/0000:cc:00.0/numa_node", "-1\n");
    tree_link(tree, "sys/class/infiniband/rxe0",
              "../../devices/virtual/infiniband/rxe0"); /* in software: it is nowhere */
    host_scan_read(tree->root, &look);
    assert_int_equal(look.places.len, 3);
    const Place *gpu = &look.places.at[0], *near = &look.places.at[1], *far = &look.places.at[2];
    assert_string_equal(gpu->path, "pci0000:aa/0000:aa:01.0/0000:bb:00.0");
    assert_int_equal(gpu->pci.bus, 0xbb);
    assert_int_equal(gpu->numa_node, 1);
    assert_string_equal(gpu->cpus, "32-63,96-127");
    assert_string_equal(near->adapter, "mlx5_9");
    assert_int_equal(near->pci.bus, 0xcc);
    assert_int_equal(near->numa_node, -1);
    assert_string_equal(near->cpus, "");
    assert_string_equal(far->adapter, "mlx5_10");
    assert_int_equal(place_between(gpu, near), TOPOLOGY_PIX);
    assert_int_equal(place_between(gpu, far), TOPOLOGY_PHB);
    vec_done(&look.places);
}

static const FactsAdapter *find_adapter(const Facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->adapter_count; i++)
        if (strcmp(facts->adapters[i].name, name) == 0)
            return &facts->adapters[i];
    return NULL;
}

static void put_port(const Tree *tree, const char *name, int port, const char *file, const char *text)
{
    char path[TREE_PATH_CAP];

    snprintf(path, sizeof path, "sys/class/infiniband/%s/ports/%d/%s", name, port, file);
    tree_file(tree, path, "%s\n", text);
}

/* Ports that are up, with what they have carried and can carry. Words are of four octets on a link of two lanes too. */
static void adapters_are_read_with_their_links(void **state)
{
    const Tree *tree = *state;
    HostScan look = {0};

    tree_gpu(tree);
    host_scan_read(tree->root, &look);
    assert_int_equal(look.facts.adapter_count, 0);
    for (int port = 1; port <= 3; port++) {
        put_port(tree, "mlx5_0", port, "state", port == 2 ? "1: DOWN" : "4: ACTIVE");
        put_port(tree, "mlx5_0", port, "rate", port == 3 ? "100 Gb/sec (2X HDR)" : "400 Gb/sec (4X NDR)");
        put_port(tree, "mlx5_0", port, "counters/port_xmit_data", "1000");
        put_port(tree, "mlx5_0", port, "counters/port_rcv_data", "2000");
    }
    put_port(tree, "mlx5_0", 1, "hw_counters/packet_seq_err", "3");
    put_port(tree, "mlx5_0", 1, "hw_counters/local_ack_timeout_err", "4");
    put_port(tree, "mlx5_0", 1, "hw_counters/rp_cnp_handled", "5");
    put_port(tree, "efa0", 1, "state", "4: ACTIVE");
    put_port(tree, "efa0", 1, "rate", "100 Gb/sec (4X EDR)");
    put_port(tree, "efa0", 1, "hw_counters/tx_bytes", "77");
    put_port(tree, "efa0", 1, "hw_counters/rx_bytes", "88");
    put_port(tree, "silent", 1, "state", "4: ACTIVE");
    put_port(tree, "silent", 1, "counters/port_xmit_data", "N/A (no PMA)");
    put_port(tree, "silent", 1, "counters/port_rcv_data", "N/A (no PMA)");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"eth0", "virtual0", "eth1"};
        char path[TREE_PATH_CAP];

        snprintf(path, sizeof path, "sys/class/net/%s/operstate", names[i]);
        tree_file(tree, path, "up\n");
        snprintf(path, sizeof path, "sys/class/net/%s/speed", names[i]);
        tree_file(tree, path, i == 2 ? "-1\n" : "25000\n");
        snprintf(path, sizeof path, "sys/class/net/%s/statistics/tx_bytes", names[i]);
        tree_file(tree, path, "11\n");
        snprintf(path, sizeof path, "sys/class/net/%s/statistics/rx_bytes", names[i]);
        tree_file(tree, path, "22\n");
        snprintf(path, sizeof path, "sys/class/net/%s/device/vendor", names[i]);
        if (i != 1)
            tree_file(tree, path, "0x15b3\n");
    }
    host_scan_read(tree->root, &look);
    const Facts *facts = &look.facts;
    const FactsAdapter *first = find_adapter(facts, "mlx5_0"), *third = find_adapter(facts, "mlx5_0/3"),
                       *efa = find_adapter(facts, "efa0"), *eth = find_adapter(facts, "eth0"),
                       *slow = find_adapter(facts, "eth1");
    assert_int_equal(facts->adapter_count, 5);
    assert_null(find_adapter(facts, "mlx5_0/2"));
    assert_null(find_adapter(facts, "virtual0"));
    assert_non_null(first);
    assert_non_null(third);
    assert_non_null(efa);
    assert_non_null(eth);
    assert_non_null(slow);
    assert_int_equal(first->sent_bytes, 4000);
    assert_int_equal(first->received_bytes, 8000);
    assert_true(first->link > 49.9e9 && first->link < 50.1e9);
    assert_int_equal(first->retries, 7);
    assert_int_equal(first->congestion_notices, 5);
    assert_int_equal(third->sent_bytes, 4000);
    assert_true(third->link > 12.4e9 && third->link < 12.6e9);
    assert_int_equal(efa->sent_bytes, 77);
    assert_int_equal(efa->received_bytes, 88);
    assert_true(eth->link > 3.1e9 && eth->link < 3.2e9);
    assert_int_equal(eth->received_bytes, 22);
    assert_true(isnan(slow->link));
    vec_done(&look.places);
}

static void a_list_of_cpus_that_is_too_long_is_not_known(void **state)
{
    const Tree *tree = *state;
    char cpus[2 * PLACE_CPUS_CAP] = "0";
    HostScan look = {0};

    for (int i = 2; strlen(cpus) < PLACE_CPUS_CAP; i += 2)
        snprintf(cpus + strlen(cpus), sizeof cpus - strlen(cpus), ",%d", i);
    tree_gpu(tree);
    tree_file(tree, GPU "/local_cpulist", "%s\n", cpus);
    host_scan_read(tree->root, &look);
    assert_int_equal(look.places.len, 1);
    assert_string_equal(look.places.at[0].cpus, "");
    vec_done(&look.places);
}

static void a_gpu_that_is_gone_was_somewhere(void **state)
{
    const Tree *tree = *state;
    HostScan known = {0}, fresh = {0};

    tree_gpu(tree);
    adapter(tree, "mlx5_0", "0000:aa:01.0/0000:cc:00.0");
    adapter(tree, "mlx5_1", "0000:aa:02.0/0000:cd:00.0");
    host_scan_read(tree->root, &fresh);
    host_scan_merge(&known, &fresh, 100);
    assert_int_equal(known.places.len, 3);
    tree_gone(tree, "sys/bus/pci/devices/0000:bb:00.0");
    tree_gone(tree, "sys/class/infiniband/mlx5_0");
    host_scan_read(tree->root, &fresh);
    host_scan_merge(&known, &fresh, 200);
    assert_int_equal(known.places.len, 2);
    assert_int_equal(known.places.at[0].pci.bus, 0xbb);
    assert_string_equal(known.places.at[0].path, "pci0000:aa/0000:aa:01.0/0000:bb:00.0");
    assert_string_equal(known.places.at[1].adapter, "mlx5_1");
    vec_done(&known.places);
    vec_done(&fresh.places);
}

/* Loaders of a process on a GPU: its children that are on none. Pressure as the kernel has it. */
static void what_feeds_a_gpu(void **state)
{
    static const char line[] = "%d (pt_data) S %d 1 1 0 -1 0 0 0 0 0 %d 50 0 0 20 0 1 0 7777 1000 10 0\n";
    const Tree *tree = *state;
    HostScan scan = {.rc = 0};

    process_owner_init(vec_add(&scan.processes), 20);
    process_owner_init(vec_add(&scan.processes), 21);
    tree_task(tree, 20, "python", 'S', "0");
    tree_file(tree, "proc/21/stat", line, 21, 20, 100); /* on a GPU itself: no loader */
    tree_file(tree, "proc/22/stat", line, 22, 20, 250);
    tree_file(tree, "proc/23/stat", line, 23, 20, 150);
    tree_file(tree, "proc/24/stat", line, 24, 23, 900); /* not its own child */
    host_scan_read(tree->root, &scan);
    assert_false(scan.facts.pressure_known);
    assert_int_equal(scan.processes.at[0].children, 2);
    assert_int_equal(scan.processes.at[0].child_cpu_ns / (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK)), 500);
    assert_int_equal(scan.processes.at[1].children, 0);
    tree_file(tree, "proc/pressure/io", "some avg10=34.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=9.00 avg60=0\n");
    assert_false((host_scan_read(tree->root, &scan), scan.facts.pressure_known)); /* one of the two */
    tree_file(tree, "proc/pressure/cpu", "some avg10=2.00 avg60=1.00 avg300=0.00 total=5\n");
    host_scan_read(tree->root, &scan);
    assert_true(scan.facts.pressure_known);
    assert_true(scan.facts.io_pressure > .344 && scan.facts.io_pressure < .346);
    assert_true(scan.facts.cpu_pressure > .019 && scan.facts.cpu_pressure < .021);
    vec_done(&scan.processes);
    vec_done(&scan.places);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_gpu_with_its_port),
        TEST(what_a_gpu_may_lack),
        TEST(one_without_a_port),
        TEST(switches),
        TEST(nothing_at_all),
        TEST(versions),
        TEST(the_boot),
        TEST(services),
        TEST(who_hangs_in_the_driver),
        TEST(what_feeds_a_gpu),
        TEST(more_than_the_list_holds),
        TEST(what_was_there_before),
        TEST(a_bus_that_cannot_be_read_takes_no_gpu_away),
        TEST(where_gpus_and_adapters_are),
        TEST(adapters_are_read_with_their_links),
        TEST(a_list_of_cpus_that_is_too_long_is_not_known),
        TEST(a_gpu_that_is_gone_was_somewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
