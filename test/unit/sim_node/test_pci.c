/* SPDX-License-Identifier: Apache-2.0 */
/* The PCI tree of nodes of all boards and sizes, and configuration space as a reader walks it. Covers pci.c and
 * pci_config.c. */
#include "node_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const boards[] = {"a100-sxm4-80gb",
                                     "a30-24gb",
                                     "b200-180gb",
                                     "h100-nvl-94gb",
                                     "h100-sxm-80gb",
                                     "h200-sxm-141gb",
                                     "l40s",
                                     "rtx-4080-super",
                                     "rtx-pro-6000-blackwell-server",
                                     "t4"};
static const uint32_t counts[] = {1, 2, 3, 4, 8, 16};

typedef void (*LayoutCheck)(const SimImage *image, const PciLayout *layout);

static void for_all(LayoutCheck check)
{
    for (size_t b = 0; b < ARRAY_LEN(boards); b++)
        for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
            char yaml[256];
            snprintf(yaml, sizeof yaml, "about: x\ntruth: []\ngpus: {board: %s, count: %u}\nwork: []\n", boards[b],
                     counts[c]);
            Kit *kit = kit_new(yaml);
            PciLayout layout;
            pci_layout(kit->image, &layout);
            check(kit->image, &layout);
            kit_free(kit);
        }
}

static void check_numbers(const SimImage *image, const PciLayout *l)
{
    assert_int_equal(l->gpu_count, image->gpu_count);
    for (uint32_t g = 0; g < l->gpu_count; g++) {
        const PciFn *fn = &l->fn[l->gpu[g]];
        assert_int_equal(fn->kind, PCI_GPU);
        assert_int_equal(fn->which, g);
        assert_int_equal(fn->domain, image->gpus[g].domain);
        assert_int_equal(fn->bus, image->gpus[g].bus);
        assert_int_equal(fn->device, image->gpus[g].device);
    }
    for (uint32_t i = 0; i < l->count; i++) {
        const PciFn *a = &l->fn[i];
        assert_in_range(a->bus, 1, 255);
        assert_in_range(a->device, 0, 31);
        for (uint32_t k = 0; k < i; k++) {
            const PciFn *b = &l->fn[k];
            assert_false(a->domain == b->domain && a->bus == b->bus && a->device == b->device);
            /* no two bridges lead to the same bus */
            assert_false(a->kind <= PCI_DOWNSTREAM && b->kind <= PCI_DOWNSTREAM && a->secondary == b->secondary);
        }
        if (a->parent == SIM_NONE) {
            assert_int_equal(a->bus, a->root_bus);
            continue;
        }
        const PciFn *up = &l->fn[a->parent];
        assert_true((uint32_t)a->parent < i);
        assert_true(up->kind <= PCI_DOWNSTREAM);
        assert_int_equal(a->bus, up->secondary);
        assert_int_equal(a->root_bus, up->root_bus);
        assert_in_range(a->bus, 1, up->last);
    }
}

static void test_every_function_has_its_own_address(void **state)
{
    (void)state;
    for_all(check_numbers);
}

/* The last function that both have above them: 2 a switch, 1 the host bridge alone, 0 nothing. */
static int common(const PciLayout *l, uint32_t a, uint32_t b)
{
    for (int x = l->fn[l->gpu[a]].parent; x != SIM_NONE; x = l->fn[x].parent)
        for (int y = l->fn[l->gpu[b]].parent; y != SIM_NONE; y = l->fn[y].parent)
            if (x == y)
                return 2;
    return l->fn[l->gpu[a]].root_bus == l->fn[l->gpu[b]].root_bus;
}

static void check_distances(const SimImage *image, const PciLayout *l)
{
    for (uint32_t a = 0; a < image->gpu_count; a++)
        for (uint32_t b = 0; b < image->gpu_count; b++) {
            const SimGpuId *x = &image->gpus[a], *y = &image->gpus[b];
            int same_root = x->root == y->root && x->numa_node == y->numa_node;
            int wanted = same_root && x->switch_group == y->switch_group ? 2 : same_root;
            assert_int_equal(common(l, a, b), wanted);
        }
}

static void test_ancestors_say_what_nvml_says(void **state)
{
    (void)state;
    for_all(check_distances);
}

static void check_adapters(const SimImage *image, const PciLayout *l)
{
    assert_in_range(l->nic_count, 1, image->gpu_count);
    for (uint32_t g = 0; g < image->gpu_count; g++) { /* each GPU has one behind its own switch */
        int found = 0;
        int up = l->fn[l->fn[l->gpu[g]].parent].parent;
        for (uint32_t n = 0; n < l->nic_count; n++)
            found += l->fn[l->fn[l->nic[n]].parent].parent == up;
        assert_true(found >= 1);
    }
    const SimBoard *board = &image->boards[0];
    uint32_t switches = !board->link_to_switch || board->arch > 9 ? 0 : board->arch == 7 ? 6 : 4;
    assert_int_equal(l->switch_count, switches);
}

static void test_adapters_and_switches(void **state)
{
    (void)state;
    for_all(check_adapters);
}

static void test_bus_zero_is_a_virtual_machine(void **state)
{
    (void)state;
    Kit *kit = kit_new("about: x\ntruth: []\ngpus: {board: t4, count: 2}\nwork: []\n");
    PciLayout l;
    char path[PCI_PATH_MAX];
    for (uint32_t g = 0; g < 2; g++) {
        kit->image->gpus[g].bus = 0;
        kit->image->gpus[g].device = 4 + g;
    }
    pci_layout(kit->image, &l);
    assert_int_equal(pci_path(&l, &l.fn[l.gpu[1]], path), 2);
    assert_string_equal(path, "pci0000:00/0000:00:05.0");
    assert_int_equal(l.count, 2);
    kit_free(kit);
}

static void test_domains_are_separate(void **state)
{
    (void)state;
    Kit *kit = kit_new("about: x\ntruth: []\ngpus: {board: t4, count: 16}\nwork: []\n");
    PciLayout l;
    for (uint32_t g = 0; g < 16; g++) { /* one domain each, all on bus 1: nothing free below */
        kit->image->gpus[g].domain = 0x10000 + g;
        kit->image->gpus[g].bus = 1;
        kit->image->gpus[g].root = kit->image->gpus[g].switch_group = g;
    }
    pci_layout(kit->image, &l);
    for (uint32_t g = 0; g < 16; g++) {
        char path[PCI_PATH_MAX], start[32];
        pci_path(&l, &l.fn[l.gpu[g]], path);
        snprintf(start, sizeof start, "pci%05x:", 0x10000 + g);
        assert_int_equal(strncmp(path, start, strlen(start)), 0);
    }
    kit_free(kit);
}

/* ---- configuration space ---- */

static uint32_t get16(const uint8_t *c, uint32_t at)
{
    return c[at] | (uint32_t)c[at + 1] << 8;
}

static uint32_t get32(const uint8_t *c, uint32_t at)
{
    return get16(c, at) | get16(c, at + 2) << 16;
}

static uint32_t find_capability(const uint8_t *c, uint32_t id)
{
    uint32_t steps = 0;
    for (uint32_t at = c[0x34]; at; at = c[at + 1]) {
        assert_true(at >= 0x40 && at % 4 == 0 && ++steps < 32);
        if (c[at] == id)
            return at;
    }
    return 0;
}

static uint32_t find_extended(const uint8_t *c, uint32_t id)
{
    uint32_t steps = 0;
    for (uint32_t at = 0x100; at; at = get32(c, at) >> 20) {
        assert_true(at >= 0x100 && ++steps < 32);
        if ((get32(c, at) & 0xffff) == id)
            return at;
    }
    return 0;
}

static void check_config(const SimImage *image, const PciLayout *l)
{
    static const uint32_t port_types[] = {4, 5, 6, 0, 0, 0};
    for (uint32_t i = 0; i < l->count; i++) {
        const PciFn *fn = &l->fn[i];
        PciLink link = {1 + i % 5, 1u << i % 5, 5, 16};
        PciIds ids = pci_ids(image, fn);
        uint8_t c[PCI_CONFIG_MAX];
        uint32_t size = pci_config(image, fn, &link, c);
        assert_int_equal(size, fn->kind <= PCI_DOWNSTREAM ? 256 : 4096);
        assert_int_equal(get16(c, 0), ids.vendor);
        assert_int_equal(get16(c, 2), ids.device);
        assert_int_equal(get32(c, 8) >> 8, ids.class_code);
        assert_int_equal(c[8], ids.revision);
        uint32_t exp = find_capability(c, 0x10);
        assert_true(exp && find_capability(c, 0x01) && find_capability(c, 0x05));
        assert_int_equal(get16(c, exp + 2) >> 4 & 0xf, port_types[fn->kind]);
        assert_int_equal(get32(c, exp + 0x0c) & 0xf, 5);
        assert_int_equal(get32(c, exp + 0x0c) >> 4 & 0x3f, 16);
        assert_int_equal(get16(c, exp + 0x12) & 0xf, link.gen);
        assert_int_equal(get16(c, exp + 0x12) >> 4 & 0x3f, link.width);
        if (fn->kind <= PCI_DOWNSTREAM) {
            assert_int_equal(c[0x0e] & 0x7f, 1);
            assert_int_equal(c[0x18], fn->bus);
            assert_int_equal(c[0x19], fn->secondary);
            assert_int_equal(c[0x1a], fn->last);
        } else {
            assert_int_equal(get16(c, 0x2c), ids.subsystem_vendor);
            assert_int_equal(get16(c, 0x2e), ids.subsystem_device);
            assert_true(find_extended(c, 0x0001));
        }
    }
}

static void test_configuration_space(void **state)
{
    (void)state;
    for_all(check_config);
}

static int same_line(const uint8_t *c, uint32_t bar, unsigned long long start)
{
    return (get32(c, 0x10 + 4 * bar) & 0xfffffff0u) == (uint32_t)start;
}

static void test_regions(void **state)
{
    (void)state;
    Kit *kit = kit_new("about: x\ntruth: []\ngpus: {board: h100-sxm-80gb, count: 8}\nwork: []\n");
    PciLayout l;
    unsigned long long last_end = 0;
    pci_layout(kit->image, &l);
    for (uint32_t g = 0; g < 8; g++) {
        CLEANUP(str_done) Str text;
        PciLink link = {5, 16, 5, 16};
        uint8_t c[PCI_CONFIG_MAX];
        uint32_t lines = 0;
        unsigned long long biggest = 0;
        str_init(&text, 4096);
        pci_resources(kit->image, &l.fn[l.gpu[g]], &text);
        pci_config(kit->image, &l.fn[l.gpu[g]], &link, c);
        for (char *p = text.text; *p; p = strchr(p, '\n') + 1, lines++) {
            unsigned long long start, end, flags;
            assert_int_equal(sscanf(p, "0x%llx 0x%llx 0x%llx\n", &start, &end, &flags), 3);
            if (!end)
                continue;
            assert_true(end > start && start % (end - start + 1) == 0); /* aligned to its size */
            assert_true(same_line(c, lines, start));
            biggest = end - start + 1 > biggest ? end - start + 1 : biggest;
            assert_true(start > last_end || lines > 0); /* GPUs do not overlap */
            last_end = end > last_end ? end : last_end;
        }
        assert_int_equal(lines, 13);
        assert_int_equal(biggest, (unsigned long long)kit->image->boards[0].bar1_mib << 20);
    }
    kit_free(kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_function_has_its_own_address),
        cmocka_unit_test(test_ancestors_say_what_nvml_says),
        cmocka_unit_test(test_adapters_and_switches),
        cmocka_unit_test(test_bus_zero_is_a_virtual_machine),
        cmocka_unit_test(test_domains_are_separate),
        cmocka_unit_test(test_configuration_space),
        cmocka_unit_test(test_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
