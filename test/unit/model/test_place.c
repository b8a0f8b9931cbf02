/* SPDX-License-Identifier: Apache-2.0 */
/* Where devices are, and what is between two of them (model/place.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/place.h"

#define SWITCH "pci0000:17/0000:17:01.0/0000:18:00.0"

static Place place(const char *path, int32_t numa_node)
{
    Place one = {.numa_node = numa_node};

    assert_true(place_set_path(&one, path));
    return one;
}

static TopologyPath between(const char *a, int32_t numa_a, const char *b, int32_t numa_b)
{
    const Place one = place(a, numa_a), other = place(b, numa_b);

    assert_int_equal(place_between(&one, &other), place_between(&other, &one));
    return place_between(&one, &other);
}

static void the_path_in_a_link(void **state)
{
    Place one = {.pci = {.bus = 9}};

    (void)state;
    assert_true(place_set_path(&one, "../../../devices/pci0000:17/0000:17:01.0/0000:1b:00.0"));
    assert_string_equal(one.path, "pci0000:17/0000:17:01.0/0000:1b:00.0");
    assert_int_equal(one.pci.bus, 0x1b);
    assert_true(place_set_path(&one, "../../devices/pci0000:17/0000:17:01.0/0000:1c:00.1/infiniband/mlx5_0"));
    assert_string_equal(one.path, "pci0000:17/0000:17:01.0/0000:1c:00.1");
    assert_int_equal(one.pci.function, 1);
    assert_true(place_set_path(&one, "../devices/platform/soc@0/1c00000.pcie/pci0002:00/0002:00:00.0/0002:01:00.0"));
    assert_string_equal(one.path, "pci0002:00/0002:00:00.0/0002:01:00.0");
    assert_int_equal(one.pci.domain, 2);
    /* a device behind a controller of its own domain (VMD) */
    assert_true(place_set_path(&one, "pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0"));
    assert_int_equal(one.pci.domain, 0x10000);
}

static void links_to_elsewhere(void **state)
{
    static const char *const texts[] = {
        "",
        "/",
        "..",
        "../../devices/virtual/net/lo",
        "pci0000:17",
        "pci",
        "../pci0000:17/",
        "0000:1b:00.0",
        "../../devices/pci0000:17/usb1/1-1",
        "pci0000:17/zz:00.0/x.y",
    };
    Place one;
    char deep[PLACE_PATH_CAP * 2] = "pci0000:17";

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        one = (Place){.pci = {.bus = 9}, .path = "before"};
        assert_false(place_set_path(&one, texts[i]));
        assert_string_equal(one.path, "");
        assert_int_equal(one.pci.bus, 9);
    }
    while (strlen(deep) < PLACE_PATH_CAP)
        strcat(deep, "/0000:17:01.0");
    assert_false(place_set_path(&one, deep));
}

static void what_is_between(void **state)
{
    (void)state;
    const char *const one = SWITCH "/0000:19:00.0/0000:1b:00.0", *const beside = SWITCH "/0000:19:04.0/0000:1c:00.0",
                      *const behind = SWITCH "/0000:19:08.0/0000:1d:00.0/0000:1e:00.0/0000:1f:00.0",
                      *const root_port = "pci0000:17/0000:17:02.0/0000:30:00.0",
                      *const far = "pci0000:9a/0000:9a:01.0/0000:9b:00.0";

    assert_int_equal(between(one, 0, one, 0), TOPOLOGY_SELF);
    assert_int_equal(between(one, 0, beside, 0), TOPOLOGY_PIX);
    assert_int_equal(between("pci0000:17/0000:17:01.0/0000:18:00.0", 0, "pci0000:17/0000:17:01.0/0000:18:00.1", 0),
                     TOPOLOGY_PIX); /* two functions of one card */
    assert_int_equal(between(one, 0, behind, 0), TOPOLOGY_PXB);
    assert_int_equal(between(one, 0, root_port, 0), TOPOLOGY_PHB);
    assert_int_equal(between("pci0000:00/0000:00:04.0", -1, "pci0000:00/0000:00:05.0", -1), TOPOLOGY_PHB);
    assert_int_equal(between(one, 0, far, 0), TOPOLOGY_NODE);
    assert_int_equal(between(one, 0, far, 1), TOPOLOGY_SYS);
    assert_int_equal(between(one, -1, far, -1), TOPOLOGY_NODE);
    assert_int_equal(between(one, 0, far, -1), TOPOLOGY_SYS);
    /* the same device number on another host bridge shares nothing */
    assert_int_equal(between("pci0000:1/0000:00:01.0", 0, "pci0000:10/0000:00:01.0", 1), TOPOLOGY_SYS);
}

static void nobody_knows(void **state)
{
    const Place known = place(SWITCH "/0000:19:00.0/0000:1b:00.0", 0), unknown = {.numa_node = 0};

    (void)state;
    assert_int_equal(place_between(&known, &unknown), TOPOLOGY_UNKNOWN);
    assert_int_equal(place_between(&unknown, &unknown), TOPOLOGY_UNKNOWN);
}

static void gpus_are_found_by_address(void **state)
{
    Place places[2] = {place("pci0000:17/0000:17:01.0/0000:1b:00.0", 0),
                       place("pci0000:17/0000:17:01.0/0000:1b:00.0", 0)};
    PlaceList list = {places, 2};

    (void)state;
    strcpy(places[0].adapter, "mlx5_0");
    assert_ptr_equal(place_list_gpu(&list, places[0].pci), &places[1]);
    assert_null(place_list_gpu(&list, (PciAddress){.bus = 2}));
    list.len = 1;
    assert_null(place_list_gpu(&list, places[0].pci));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_in_a_link),        cmocka_unit_test(links_to_elsewhere),
        cmocka_unit_test(what_is_between),           cmocka_unit_test(nobody_knows),
        cmocka_unit_test(gpus_are_found_by_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
