/* SPDX-License-Identifier: Apache-2.0 */
/* How two devices are joined, as the topology view says it (service/top/joined.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/attribute.h"
#include "service/top/inside.h"

enum { GPUS = 3, LINKS = 4 };

typedef struct World {
    Node node;
    NodeGpu gpus[GPUS];
    NodePeer peers[GPUS][GPUS];
    NodeLink links[GPUS][LINKS];
    Place places[GPUS + 3];
    Snapshot seen;
    JoinedList joined;
} World;

static void put(Place *place, const char *adapter, const char *path, int32_t numa_node)
{
    strcpy(place->adapter, adapter);
    place->numa_node = numa_node;
    assert_true(place_set_path(place, path));
}

/* Three GPUs of which the first two are below one switch; an adapter beside each of these, one far away. */
static World *world(void)
{
    static World w;

    memset(&w, 0, sizeof w);
    w.node = (Node){.gpus = w.gpus, .gpu_count = GPUS};
    put(&w.places[0], "", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0", 0);
    put(&w.places[1], "", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0", 0);
    put(&w.places[2], "", "pci0000:80/0000:80:01.0/0000:81:00.0", 1);
    put(&w.places[3], "mlx5_0", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0/0000:15:00.0", 0);
    put(&w.places[4], "mlx5_1", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0/0000:15:00.1", 0);
    put(&w.places[5], "mlx5_2", "pci0000:10/0000:10:02.0/0000:20:00.0", 0);
    for (uint32_t i = 0; i < GPUS; i++) {
        NodeGpu *gpu = &w.gpus[i];

        reading_init(&gpu->reading, DEVICE_GPU);
        gpu->reading.device.index = i;
        gpu->reading.device.has_pci = true;
        gpu->reading.device.pci = w.places[i].pci;
        gpu->state = GPU_UP;
        gpu->peers = w.peers[i];
        gpu->peer_count = GPUS;
        gpu->links = w.links[i];
        gpu->link_count = LINKS;
        for (uint32_t k = 0; k < GPUS; k++) {
            w.peers[i][k].index = k;
            sample_set_int64(&w.peers[i][k].status, 1, PEER_NOT_SUPPORTED);
        }
        for (uint32_t k = 0; k < LINKS; k++)
            sample_set_int64(&w.links[i][k].active, 1, 1);
    }
    w.seen.node = &w.node;
    w.seen.places = (PlaceList){w.places, GPUS + 3};
    return &w;
}

static void peers_are(World *w, PeerStatus status)
{
    for (uint32_t i = 0; i < GPUS; i++)
        for (uint32_t k = 0; k < GPUS; k++)
            sample_set_int64(&w->peers[i][k].status, 1, status);
}

static void assert_pair(World *w, size_t a, size_t b, const char *text, Ink ink)
{
    char out[JOINED_TEXT_CAP];
    Ink got;

    joined_find(&w->seen, &w->joined);
    assert_string_equal(joined_pair(&w->node, &w->joined.at[a], &w->joined.at[b], out, &got), text);
    assert_int_equal(got, ink);
}

static void over_pcie(void **state UNUSED)
{
    World *w = world();

    assert_pair(w, 0, 0, "X", INK_DIM);
    assert_pair(w, 0, 1, "PIX", INK_DIM);
    assert_pair(w, 2, 0, "SYS", INK_DIM);
    assert_pair(w, 0, 3, "PIX", INK_DIM);
    assert_pair(w, 5, 0, "PHB", INK_DIM);
    assert_pair(w, 3, 4, "PIX", INK_DIM);
}

static void over_nvlink(void **state UNUSED)
{
    World *w = world();

    peers_are(w, PEER_OK);
    assert_pair(w, 0, 1, "NV", INK_GOOD); /* which links lead where nobody tells */
    sample_set_int64(&w->links[1][2].active, 1, 0);
    assert_pair(w, 0, 1, "NV", INK_BAD);
    for (int i = 0; i < GPUS; i++)
        sample_set_int64(&w->gpus[i].reading.sample[METRIC_FABRIC_MANAGER_STATUS], 1, 3);
    assert_pair(w, 0, 2, "NV4", INK_GOOD);
    assert_pair(w, 0, 1, "NV3", INK_BAD);
    w->gpus[0].peer_count = 0; /* nobody asks about pairs */
    assert_pair(w, 0, 2, "NV4", INK_GOOD);
    assert_pair(w, 0, 3, "PIX", INK_DIM);
}

static void where_links_lead(void **state UNUSED)
{
    World *w = world();

    peers_are(w, PEER_OK);
    for (uint32_t i = 0; i < LINKS; i++) { /* three from the first to the second, one to the third */
        sample_set_int64(&w->links[0][i].remote, 1, pci_pack(w->places[i < 3 ? 1 : 2].pci));
        sample_set_int64(&w->links[1][i].remote, 1, pci_pack(w->places[0].pci));
    }
    assert_pair(w, 0, 1, "NV3", INK_GOOD);
    assert_pair(w, 0, 2, "NV", INK_GOOD); /* of the third it is not told */
    sample_set_int64(&w->links[1][0].active, 1, 0);
    sample_set_int64(&w->links[1][1].active, 1, 0);
    assert_pair(w, 1, 0, "NV2", INK_BAD);
    for (uint32_t i = 0; i < LINKS; i++) { /* all to switches */
        sample_set_int64(&w->links[0][i].remote, 1, pci_pack((PciAddress){.bus = 0xf0}));
        sample_set_int64(&w->links[2][i].remote, 1, pci_pack((PciAddress){.bus = 0xf1}));
    }
    assert_pair(w, 0, 2, "NV4", INK_GOOD);
}

static void two_gpus_have_all_links_in_common(void **state UNUSED)
{
    World *w = world();

    peers_are(w, PEER_OK);
    w->node.gpu_count = 2;
    assert_pair(w, 0, 1, "NV4", INK_GOOD);
}

static void what_is_off_or_down(void **state UNUSED)
{
    World *w = world();

    peers_are(w, PEER_DISABLED_BY_REGKEY);
    assert_pair(w, 0, 1, "off", INK_WARN);
    w->gpus[1].state = GPU_LOST;
    assert_pair(w, 0, 1, "down", INK_BAD);
    assert_pair(w, 1, 3, "down", INK_BAD);
    assert_pair(w, 0, 2, "off", INK_WARN);
}

static void what_nobody_knows(void **state UNUSED)
{
    World *w = world();

    w->seen.places.len = 0;
    assert_pair(w, 0, 1, "no", INK_DIM); /* of NVLink alone it is known */
    peers_are(w, PEER_UNKNOWN);
    assert_pair(w, 0, 1, "?", INK_DIM);
    assert_int_equal(w->joined.len, GPUS);
}

static void the_nearest_adapter(void **state UNUSED)
{
    World *w = world();
    size_t more;

    joined_find(&w->seen, &w->joined);
    assert_string_equal(joined_nearest(&w->joined, &w->joined.at[0], &more)->place->adapter, "mlx5_0");
    assert_int_equal(more, 1);
    assert_null(joined_nearest(&w->joined, &w->joined.at[2], &more)); /* all are behind the other processor */
    assert_int_equal(more, 0);
    strcpy(w->places[3].path, "");
    joined_find(&w->seen, &w->joined);
    assert_string_equal(joined_nearest(&w->joined, &w->joined.at[1], &more)->place->adapter, "mlx5_1");
    assert_int_equal(more, 0);
}

static void names(void **state UNUSED)
{
    World *w = world();
    char out[JOINED_TEXT_CAP];

    w->gpus[1].reading.device.index = DEVICE_NO_NUMBER;
    joined_find(&w->seen, &w->joined);
    assert_int_equal(w->joined.len, GPUS + 3);
    assert_string_equal(joined_name(&w->joined.at[0], out), "GPU0");
    assert_string_equal(joined_name(&w->joined.at[1], out), "GPU?");
    assert_string_equal(joined_name(&w->joined.at[4], out), "NIC1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_pcie),           cmocka_unit_test(over_nvlink),
        cmocka_unit_test(where_links_lead),    cmocka_unit_test(two_gpus_have_all_links_in_common),
        cmocka_unit_test(what_is_off_or_down), cmocka_unit_test(what_nobody_knows),
        cmocka_unit_test(the_nearest_adapter), cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
