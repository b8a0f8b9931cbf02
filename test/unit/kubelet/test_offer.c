/* SPDX-License-Identifier: Apache-2.0 */
/* What is offered and which devices go together: the choice against every set there is, on boxes with switches, bridges
 * and nothing but PCIe. */
#include <errno.h>

#include "box.h"

/* --- the best set ------------------------------------------------------------------------------------------------- */

static unsigned score_set(const Snapshot *snapshot, size_t count, uint32_t set)
{
    unsigned sum = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (set >> i & 1 && set >> k & 1)
                sum += offer_link_score(snapshot, i, k);
    return sum;
}

static uint32_t set_of(const char *const *ids, size_t size)
{
    uint32_t set = 0;

    for (size_t i = 0; i < size; i++)
        set |= UINT32_C(1) << atoi(ids[i] + strlen("GPU-"));
    return set;
}

/* Who has what the node tells of its GPUs chooses the same. */
static void check_elsewhere(const Box *box, uint32_t open, uint32_t must, size_t size, uint32_t chosen)
{
    char text[GPU_LINKS_TEXT_CAP];
    GpuLinks links, read;

    offer_links(&box->snapshot, &links);
    assert_true(gpu_links_read(gpu_links_write(&links, text), &read));
    assert_memory_equal(&read, &links, sizeof links);
    assert_int_equal(gpu_links_choose(&read, NULL, (uint16_t)open, (uint16_t)must, (unsigned)size), chosen);
}

/* No set of free GPUs that holds those that must be in it is better. */
static void check_choice(const Box *box, const OfferResource *resource, uint32_t open, uint32_t must, size_t size)
{
    const size_t count = box->node.gpu_count;
    const char *free_ids[GPUS_MAX], *must_ids[GPUS_MAX], *chosen[GPUS_MAX];
    size_t free_count = 0, must_count = 0;

    for (size_t i = count; i-- > 0;) {
        if (open >> i & 1)
            free_ids[free_count++] = resource->units.at[i].device.uuid;
        if (must >> i & 1)
            must_ids[must_count++] = resource->units.at[i].device.uuid;
    }
    assert_int_equal(offer_prefer(resource, &box->snapshot, (OfferPolicy){0}, free_ids, free_count, must_ids,
                                  must_count, size, chosen, NULL),
                     0);
    const uint32_t set = set_of(chosen, size);
    const unsigned in = score_set(&box->snapshot, count, set), left = score_set(&box->snapshot, count, open & ~set);
    assert_int_equal(__builtin_popcount(set), size);
    assert_int_equal(set & ~open, 0);
    assert_int_equal(set & must, must);
    check_elsewhere(box, open, must, size, set);
    for (uint32_t other = 0; other < UINT32_C(1) << count; other++) {
        if (other & ~open || (other & must) != must || (size_t)__builtin_popcount(other) != size)
            continue;
        const unsigned other_in = score_set(&box->snapshot, count, other);
        assert_true(other_in <= in);
        assert_false(other_in == in && score_set(&box->snapshot, count, open & ~other) > left);
    }
}

static void test_best_sets(void **state)
{
    (void)state;
    srandom(20261129);
    for (int round = 0; round < 40; round++) {
        const size_t count = 2 + (size_t)random() % 7;
        Box *box = make_box(count);
        const int kind = round % 4;

        for (size_t i = 0; i < count && kind > 0; i++)
            for (int k = 0; k < LINKS; k++) {
                const size_t other = (size_t)random() % count;

                if (kind == 1) /* all to a switch */
                    link_up(box, i, address(200));
                else if (other != i) { /* bridges, sometimes seen from one end alone */
                    link_up(box, i, address((unsigned)other + 1));
                    if (kind == 2)
                        link_up(box, other, address((unsigned)i + 1));
                }
            }
        Offer offer = offer_of(box, &(OfferConfig){0});
        for (size_t size = 1; size <= count; size++) {
            const uint32_t all = (UINT32_C(1) << count) - 1;
            uint32_t open = all & ((uint32_t)random() | (uint32_t)random());

            while ((size_t)__builtin_popcount(open) < size)
                open |= UINT32_C(1) << ((size_t)random() % count);
            check_choice(box, &offer.resources.at[0], open, 0, size);
            check_choice(box, &offer.resources.at[0], all, UINT32_C(1) << ((size_t)random() % count), size);
        }
        offer_done(&offer);
        free(box);
    }
}

static void test_switch_and_bridge(void **state)
{
    Box *box = make_box(8);

    (void)state;
    for (size_t i = 0; i < 8; i++)
        link_up(box, i, address(200));
    assert_int_equal(offer_link_score(&box->snapshot, 0, 1), 100 + 20 + 10); /* one link, and one host bridge */
    assert_int_equal(offer_link_score(&box->snapshot, 0, 7), 100 + 10);      /* the same link, the other socket */
    free(box);
}

/* Several GPUs are for what talks over the network, one leaves those near it to others. */
static void test_near_the_network(void **state)
{
    static const struct {
        unsigned bridge;
        size_t size;
        uint32_t chosen;
    } cases[] = {{2, 2, 0x30}, {0, 2, 0x03}, {0, 1, 0x10}, {3, 1, 0x01}, {3, 4, 0xf0}};
    Box *box = make_box(8);
    const char *all[8], *chosen[4];

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        link_up(box, i, address(200));
        all[i] = box->gpus[i].reading.device.uuid;
    }
    box->snapshot.places.len = 9;
    Offer offer = offer_of(box, &(OfferConfig){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Place *adapter = &box->places[8];

        *adapter = (Place){.pci = address(100), .adapter = "mlx5_0", .numa_node = cases[i].bridge < 2 ? 0 : 1};
        snprintf(adapter->path, sizeof adapter->path, "pci0000:%02x/0000:64:00.0", cases[i].bridge);
        assert_int_equal(offer_prefer(&offer.resources.at[0], &box->snapshot, (OfferPolicy){0}, all, 8, NULL, 0,
                                      cases[i].size, chosen, NULL),
                         0);
        assert_int_equal(set_of(chosen, cases[i].size), cases[i].chosen);
        check_elsewhere(box, 0xff, 0, cases[i].size, cases[i].chosen);
    }
    offer_done(&offer);
    free(box);
}

static void test_links_as_text(void **state)
{
    static const char *const wrong[] = {
        "",          ";",       ",",      "a",   "1,",     "1,2",
        "1,2;",      "1,2;3,4", "1,2;3;", "1;2", "1,2;;",  "1,2;3;4",
        "1,2,3;4;5", "10000",   "-1",     "1 ",  "1,2;3x", "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0;"};
    GpuLinks links = {.count = 77};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(gpu_links_read(wrong[i], &links));
    assert_int_equal(links.count, 77);
    assert_true(gpu_links_read("1,9999;3", &links));
    assert_int_equal(links.count, 2);
    assert_int_equal(links.score[1][0], 9999);
    assert_true(gpu_links_read("5", &links));
    assert_int_equal(gpu_links_choose(&links, NULL, 0, 0, 1), 0); /* none is free */
}

/* Four hosts of two GPUs, all on one switch: what is apart is on another socket, and not beside one in use. */
static void test_apart(void **state)
{
    static const char *const some[] = {"GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7"};
    const OfferPolicy apart = {.apart = true};
    Box *box = make_box(8);
    const char *chosen[4], *must = "GPU-2";

    (void)state;
    for (size_t i = 0; i < 8; i++)
        link_up(box, i, address(200));
    Offer offer = offer_of(box, &(OfferConfig){0});
    OfferResource *gpus = &offer.resources.at[0];
    assert_int_equal(offer_prefer(gpus, &box->snapshot, apart, some, 7, NULL, 0, 1, chosen, NULL), 0);
    assert_string_equal(chosen[0], "GPU-4"); /* GPU-0 is in use */
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){0}, some, 7, NULL, 0, 1, chosen, NULL), 0);
    assert_string_equal(chosen[0], "GPU-1"); /* leaves the pairs whole */
    assert_int_equal(offer_prefer(gpus, &box->snapshot, apart, some, 7, &must, 1, 4, chosen, NULL), 0);
    assert_int_equal(set_of(chosen, 4), 1 << 2 | 1 << 4 | 1 << 6 | 1 << 1); /* one of each host, and none beside it */
    gpus->units.at[0].healthy = false;                                      /* does not heat */
    assert_int_equal(offer_prefer(gpus, &box->snapshot, apart, some, 7, NULL, 0, 1, chosen, NULL), 0);
    assert_string_equal(chosen[0], "GPU-1");
    offer_done(&offer);
    free(box);
}

/* Faster links go before a place apart, be they NVLink or, without it, PCIe. */
static void test_apart_keeps_links(void **state)
{
    Box *box = make_box(4);
    const char *all[] = {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}, *chosen[2];

    (void)state;
    Offer offer = offer_of(box, &(OfferConfig){0});
    const OfferResource *gpus = &offer.resources.at[0];
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){.apart = true}, all, 4, NULL, 0, 2, chosen, NULL),
                     0);
    assert_int_equal(set_of(chosen, 2), 1 << 0 | 1 << 1);
    for (size_t i = 0; i < 4; i++) { /* a bridge over the sockets */
        link_up(box, i, address((unsigned)(i + 2) % 4 + 1));
        if (i % 2)
            link_up(box, i, address((unsigned)(i + 2) % 4 + 1));
    }
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){.apart = true}, all, 4, NULL, 0, 2, chosen, NULL),
                     0);
    assert_int_equal(set_of(chosen, 2), 1 << 1 | 1 << 3);
    offer_done(&offer);
    free(box);
}

/* More GPUs than all sets of which are compared: the neighbours still come together. */
static void test_more_than_are_compared(void **state)
{
    enum { COUNT = 24 };
    static NodeGpu gpus[COUNT];
    static Place places[COUNT];
    Node node = {.gpus = gpus, .gpu_count = COUNT};
    const Snapshot snapshot = {.node = &node, .places = {places, COUNT}};
    const char *ids[COUNT], *chosen[2];
    Offer offer = {0};

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        reading_init(&gpus[i].reading, DEVICE_GPU);
        gpus[i].reading.device.has_pci = true;
        gpus[i].reading.device.pci = address((unsigned)i + 1);
        snprintf(gpus[i].reading.device.uuid, DEVICE_UUID_CAP, "GPU-%zu", i);
        places[i] = (Place){.pci = address((unsigned)i + 1), .numa_node = (int32_t)(i / 12)};
        snprintf(places[i].path, sizeof places[i].path, "pci0000:%02zx/0000:%02zx:00.0", i / 2, i + 1);
    }
    offer_make(&snapshot, &(OfferConfig){0}, NULL, 0, &offer);
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = offer.resources.at[0].units.at[i].device.uuid;
    assert_int_equal(
        offer_prefer(&offer.resources.at[0], &snapshot, (OfferPolicy){0}, ids, COUNT, &ids[13], 1, 2, chosen, NULL), 0);
    assert_int_equal(set_of(chosen, 2), 1 << 12 | 1 << 13);
    assert_int_equal(offer_prefer(&offer.resources.at[0], &snapshot, (OfferPolicy){.apart = true}, &ids[1], COUNT - 1,
                                  NULL, 0, 1, chosen, NULL),
                     0);
    assert_int_equal(set_of(chosen, 1), 1 << 12); /* on the other socket than the one in use */
    offer_done(&offer);
}

/* --- MIG and replicas --------------------------------------------------------------------------------------------- */

static void test_mig_devices_are_packed(void **state)
{
    Box *box = make_box(2);
    const char *open[] = {"MIG-0-0", "MIG-0-1", "MIG-0-2", "MIG-1-1", "MIG-1-2"}, *chosen[3];

    (void)state;
    split(box, 0, 4, "1g.10gb");
    split(box, 1, 4, "1g.10gb");
    Offer offer = offer_of(box, &(OfferConfig){.mig = OFFER_MIG_MIXED});
    assert_int_equal(offer.resources.len, 1);
    assert_string_equal(offer.resources.at[0].name, "nvidia.com/mig-1g.10gb");
    assert_int_equal(
        offer_prefer(&offer.resources.at[0], &box->snapshot, (OfferPolicy){0}, open, 5, NULL, 0, 3, chosen, NULL), 0);
    assert_string_equal(chosen[0], "MIG-1-1"); /* of the GPU of which fewer are free, */
    assert_string_equal(chosen[1], "MIG-1-2");
    assert_string_equal(chosen[2], "MIG-0-0");
    offer_done(&offer);
    free(box);
}

static void test_a_part_of_an_instance_costs_only_itself(void **state) /* G8 */
{
    Box *box = make_box(2);

    (void)state;
    split(box, 0, 3, "1g.10gb+me");
    snprintf(box->instances[0][1].profile, READING_PROFILE_CAP, "1c.3g.40gb");
    Offer offer = offer_of(box, &(OfferConfig){.mig = OFFER_MIG_MIXED});
    assert_int_equal(offer.resources.len, 2);
    assert_string_equal(offer.resources.at[0].name, "nvidia.com/gpu");
    assert_string_equal(offer.resources.at[1].name, "nvidia.com/mig-1g.10gb.me");
    assert_int_equal(offer.resources.at[1].units.len, 2);
    assert_non_null(strstr(offer.why, "1c.3g.40gb"));
    offer_done(&offer);
    free(box);
}

static void test_replicas(void **state)
{
    const OfferShare share = {"nvidia.com/gpu", 3};
    const OfferConfig config = {.sharing = OFFER_SHARING_TIME, .shares = &share, .share_count = 1};
    const char *open[] = {"GPU-0::0", "GPU-1::1", "GPU-1::2", "GPU-1::0"}, *chosen[4], *one = "GPU-0::0";
    Box *box = make_box(2);
    Err err;

    (void)state;
    Offer offer = offer_of(box, &config);
    const OfferResource *gpus = &offer.resources.at[0];
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){0}, open, 4, NULL, 0, 2, chosen, NULL), 0);
    assert_string_equal(chosen[0], "GPU-1::1");
    assert_string_equal(chosen[1], "GPU-1::2");
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){.spread = OFFER_SPREAD_PACKED}, open, 4, NULL, 0,
                                  2, chosen, NULL),
                     0);
    assert_string_equal(chosen[0], "GPU-0::0");
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){0}, open, 4, &one, 1, 4, chosen, NULL), 0);
    assert_string_equal(chosen[0], "GPU-0::0");
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){0}, open, 4, NULL, 0, 5, chosen, &err), -EINVAL);
    const char *const twice[] = {"GPU-0::0", "GPU-0::0", "GPU-0::1"};
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){0}, twice, 3, NULL, 0, 2, chosen, NULL), 0);
    assert_string_not_equal(chosen[0], chosen[1]);
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){0}, twice, 3, NULL, 0, 3, chosen, &err), -EINVAL);
    assert_int_equal(offer_prefer(gpus, &box->snapshot, (OfferPolicy){0}, twice, 3, twice, 2, 2, chosen, &err),
                     -EINVAL);
    assert_null(offer_unit(gpus, "GPU-0::3"));
    assert_null(offer_unit(gpus, "GPU-0"));
    assert_null(offer_unit(gpus, "GPU-0::"));
    assert_ptr_equal(offer_unit(gpus, "GPU-1::2"), &gpus->units.at[1]);
    offer_done(&offer);
    free(box);
}

/* --- health ------------------------------------------------------------------------------------------------------- */

static size_t count_healthy(const Offer *offer)
{
    size_t count = 0;

    for (size_t i = 0; i < offer->resources.len; i++)
        for (size_t k = 0; k < offer->resources.at[i].units.len; k++)
            count += offer->resources.at[i].units.at[k].healthy;
    return count;
}

static void test_a_fault_hits_what_it_names(void **state) /* G5 */
{
    Box *box = make_box(2);
    const OfferConfig config = {.mig = OFFER_MIG_MIXED};

    (void)state;
    split(box, 0, 2, "1g.10gb");
    open_incident(box, 0, 8, 94);
    Offer offer = offer_of(box, &config);
    assert_int_equal(count_healthy(&offer), 2); /* one instance is out, its neighbour and the other GPU are not */
    assert_false(offer.resources.at[1].units.at[1].healthy);
    assert_string_equal(offer.resources.at[1].units.at[1].incident, "1abc");
    open_incident(box, 0, DEVICE_NO_NUMBER, 79);
    offer_make(&box->snapshot, &config, NULL, 0, &offer);
    assert_int_equal(count_healthy(&offer), 1); /* both of the lost GPU */
    offer_done(&offer);
    free(box);
}

static void test_healthy_again_after_a_while(void **state)
{
    Box *box = make_box(1);
    const OfferConfig config = {.hold_ns = 100};
    Offer offer = {0};

    (void)state;
    open_incident(box, 0, DEVICE_NO_NUMBER, 79);
    for (int round = 0; round < 1000; round++) { /* flaps never make it healthy */
        const uint64_t now = 1000 + 60 * (uint64_t)round;
        Offer next = {0};

        box->snapshot.incident_count = round % 2 == 0;
        offer_make(&box->snapshot, &config, &offer, now, &next);
        offer_done(&offer);
        offer = next;
        assert_int_equal(count_healthy(&offer), 0);
        assert_int_equal(offer_due(&offer, 100), round % 2 ? now + 100 : UINT64_MAX);
    }
    Offer last = {0};
    offer_make(&box->snapshot, &config, &offer, offer_due(&offer, 100), &last);
    assert_int_equal(count_healthy(&last), 1);
    assert_int_equal(offer_due(&last, 100), UINT64_MAX);
    offer_done(&offer);
    offer_unserve(&last.resources.at[0].units.at[0], "no daemon"); /* which no incident is, and nothing is waited for */
    assert_int_equal(count_healthy(&last), 0);
    offer_make(&box->snapshot, &config, &last, 1, &offer);
    assert_int_equal(count_healthy(&offer), 1);
    offer_done(&offer);
    offer_done(&last);
    free(box);
}

static void test_codes(void **state)
{
    OfferCodes codes;
    Err err;

    (void)state;
    assert_int_equal(offer_read_codes(NULL, NULL, &codes, &err), 0);
    assert_false(codes.ignore_all || codes.ignored_count || codes.heed_all || codes.heeded_count);
    assert_int_equal(offer_read_codes("all, 31", "48,  79,", &codes, &err), 0);
    assert_true(codes.ignore_all && codes.ignored_count == 1 && codes.heeded_count == 2 && codes.heeded[1] == 79);
    assert_int_equal(offer_read_codes("x31", NULL, &codes, &err), -EINVAL);
    assert_non_null(strstr(err.text, "'x31'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_sets),
        cmocka_unit_test(test_switch_and_bridge),
        cmocka_unit_test(test_near_the_network),
        cmocka_unit_test(test_links_as_text),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_apart_keeps_links),
        cmocka_unit_test(test_more_than_are_compared),
        cmocka_unit_test(test_mig_devices_are_packed),
        cmocka_unit_test(test_a_part_of_an_instance_costs_only_itself),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_a_fault_hits_what_it_names),
        cmocka_unit_test(test_healthy_again_after_a_while),
        cmocka_unit_test(test_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
