/* SPDX-License-Identifier: Apache-2.0 */
/* Every way to write a PCI address, and what is none (model/pci.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "model/pci.h"

static void good_texts(void **state)
{
    static const struct {
        const char *text;
        PciAddress expected;
    } rows[] = {
        {"00000000:1B:00.0", {0, 0x1b, 0, 0}},
        {"00000000:1b:00.0", {0, 0x1b, 0, 0}},
        {"0000:1b:00.0", {0, 0x1b, 0, 0}},
        {"1B:00.0", {0, 0x1b, 0, 0}},
        {"PCI:0000:1b:00", {0, 0x1b, 0, 0}},
        {"PCI:0000:c1:00.0", {0, 0xc1, 0, 0}},
        {"0000:1b:00", {0, 0x1b, 0, 0}},
        {"10000:01:1f.7", {0x10000, 1, 0x1f, 7}},
        {"FFFFFFFF:ff:1F.7", {0xffffffff, 0xff, 31, 7}},
        {"0001:00:02.3", {1, 0, 2, 3}},
        {"00:00.0", {0, 0, 0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        PciAddress address = {9, 9, 9, 9};

        assert_int_equal(pci_parse(rows[i].text, &address), 0);
        assert_int_equal(pci_compare(address, rows[i].expected), 0);
    }
}

static void bad_texts(void **state)
{
    static const char *const rows[] = {
        "",
        "0",
        ":",
        "PCI:",
        "PCI:1b:00.0",
        "pci:0000:1b:00",
        "1b:00",
        "1b:0.0",
        "b:00.0",
        "1b:00.",
        "1b:00.8",
        "1b:00.00",
        "1b:20.0",
        "1b:ff.0",
        "000:1b:00.0",
        "000000000:1b:00.0",
        "0000:1b:00.0 ",
        " 0000:1b:00.0",
        "0000:1b:00.0\n",
        "0000:1b:00:0",
        "0000:1b.00.0",
        "0000:1g:00.0",
        "0000:1b:00.0:",
        "-000:1b:00.0",
        "0x00:1b:00.0",
        "0000:+1:00.0",
        "GPU-58e8f5ea-1234",
        "0000:1b:",
        "0000:",
        "0000",
        "00000000",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        PciAddress address = {9, 9, 9, 9};

        assert_int_equal(pci_parse(rows[i], &address), -EINVAL);
        assert_int_equal(pci_compare(address, (PciAddress){9, 9, 9, 9}), 0);
    }
}

static void printed_forms(void **state)
{
    static const struct {
        PciAddress address;
        PciForm form;
        const char *expected;
    } rows[] = {
        {{0, 0x1b, 0, 0}, PCI_FORM_NVML, "00000000:1B:00.0"},
        {{0, 0x1b, 0, 0}, PCI_FORM_SYSFS, "0000:1b:00.0"},
        {{0, 0x1b, 0, 0}, PCI_FORM_SHORT, "1b:00.0"},
        {{2, 0x1b, 0, 1}, PCI_FORM_SHORT, "0002:1b:00.1"},
        {{0, 0x1b, 0, 0}, PCI_FORM_XID, "PCI:0000:1b:00"},
        {{0x10000, 0xff, 31, 7}, PCI_FORM_SYSFS, "10000:ff:1f.7"},
        {{UINT32_MAX, 0xff, 31, 7}, PCI_FORM_NVML, "FFFFFFFF:FF:1F.7"},
        {{UINT32_MAX, 0xff, 31, 7}, PCI_FORM_XID, "PCI:ffffffff:ff:1f"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[PCI_TEXT_CAP];

        assert_string_equal(pci_format(rows[i].address, rows[i].form, text), rows[i].expected);
    }
}

static void what_is_printed_is_parsed(void **state)
{
    static const uint32_t domains[] = {0, 1, 0xffff, 0x10000, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++) {
        for (unsigned n = 0; n < 1u << 16; n += 257) {
            PciAddress address = {domains[i], (uint8_t)(n >> 8), n >> 3 & 31, 0};

            for (PciForm form = PCI_FORM_NVML; form <= PCI_FORM_XID; form++) {
                PciAddress parsed = {9, 9, 9, 9};
                char text[PCI_TEXT_CAP];

                address.function = form == PCI_FORM_XID ? 0 : n & 7;
                assert_int_equal(pci_parse(pci_format(address, form, text), &parsed), 0);
                assert_int_equal(pci_compare(address, parsed), 0);
            }
        }
    }
}

static void order(void **state)
{
    static const PciAddress rows[] = {{0, 0, 0, 0},     {0, 0, 0, 1}, {0, 0, 1, 0},         {0, 1, 0, 0},
                                      {0, 0xff, 31, 7}, {1, 0, 0, 0}, {UINT32_MAX, 0, 0, 0}};
    enum { COUNT = sizeof rows / sizeof rows[0] };

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < COUNT; k++) {
            int way = pci_compare(rows[i], rows[k]);

            assert_int_equal((way > 0) - (way < 0), (i > k) - (i < k));
        }
    }
}

static void as_one_number(void **state)
{
    static const PciAddress addresses[] = {{0},
                                           {.domain = UINT32_MAX, .bus = 0xff, .device = 31, .function = 7},
                                           {.domain = 1, .bus = 0x1b, .function = 1}};
    PciAddress back;

    (void)state;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        assert_true(pci_unpack(pci_pack(addresses[i]), &back));
        assert_int_equal(pci_compare(back, addresses[i]), 0);
    }
    assert_false(pci_unpack(-1, &back));
    assert_false(pci_unpack(INT64_C(1) << 48, &back));
    assert_int_equal(pci_compare(back, addresses[2]), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_one_number),
        cmocka_unit_test(good_texts),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(printed_forms),
        cmocka_unit_test(what_is_printed_is_parsed),
        cmocka_unit_test(order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
