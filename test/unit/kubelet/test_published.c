/* SPDX-License-Identifier: Apache-2.0 */
/* Drawn nodes: what is offered, the labels, and the devices for claims, against published.txt. */
#include "box.h"

#include "../golden.h"
#include "../mig/boards.h"
#include "engine/kubelet/claim.h"

enum { NODES = 20, GPUS = 3 };

typedef struct Drawn {
    Box *box;
    MigNode mig;
    MakeNode make;
} Drawn;

static uint64_t seed;

static uint32_t draw(size_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 20) % below);
}

/* An instance of a drawn profile where there is room. */
static void add_instance(Drawn *d, size_t gpu)
{
    MigGpu *mig = &d->mig.gpus[gpu];
    MakeGpu *make = &d->make.gpus[gpu];
    NodeGpu *at = &d->box->gpus[gpu];
    const uint8_t profile = (uint8_t)draw(mig->board.profile_count);
    const MigProfile *p = &mig->board.profiles[profile];
    const MigLayout wanted = {
        .enabled = true, .count = 1, .instances = {{.profile = profile, .start = MIG_START_ANY, .compute_count = 1}}};
    MigLayout all = mig->now;
    MigPlan plan;

    all.instances[all.count++] = wanted.instances[0];
    all.instances[all.count - 1].compute[0] = p->slices;
    mig_plan(&mig->board, &mig->now, &all, &plan);
    if (plan.outcome != MIG_POSSIBLE || plan.destroy_count > 0 || mig->now.count == INSTANCES)
        return;
    mig->now.instances[mig->now.count] = plan.create[0];
    mig->now.instances[mig->now.count++].id = (uint32_t)at->instance_count + 7;
    split(d->box, gpu, at->instance_count + 1, "");
    for (size_t i = 0; i < at->instance_count; i++)
        snprintf(d->box->instances[gpu][i].profile, READING_PROFILE_CAP, "%s",
                 mig->board.profiles[mig->now.instances[i].profile].name);
    make->instances[make->instance_count] = (MakeInstance){.gpu_instance = mig->now.instances[mig->now.count - 1].id,
                                                           .multiprocessors = p->sm_count,
                                                           .gpu_slices = p->slices,
                                                           .compute_slices = p->slices,
                                                           .copy_engines = p->copy_engines,
                                                           .decoders = p->engines[MIG_DECODER],
                                                           .encoders = p->engines[MIG_ENCODER],
                                                           .jpeg_engines = p->engines[MIG_JPEG],
                                                           .ofa_engines = p->engines[MIG_OFA],
                                                           .memory_mib = p->memory_mib};
    snprintf(make->instances[make->instance_count].uuid, DEVICE_UUID_CAP, "MIG-%zu-%zu", gpu, make->instance_count);
    make->instance_count++;
}

static void draw_gpu(Drawn *d, size_t gpu)
{
    static const char *const boards[] = {"H100-80GB", "A100-40GB", "A30-24GB"};
    static const char *const names[] = {"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA A30"};
    static const int compute[] = {90, 80, 80};
    const uint32_t which = draw(ARRAY_LEN(boards));
    Device *device = &d->box->gpus[gpu].reading.device;

    device->minor = draw(8) ? (uint32_t)gpu : DEVICE_NO_NUMBER;
    snprintf(device->name, sizeof device->name, "%s", names[which]);
    d->mig.gpus[gpu] = (MigGpu){.index = (unsigned)gpu, .capable = true, .board = *board_of(boards[which])};
    d->make.gpus[gpu] = (MakeGpu){.compute_major = draw(5) ? compute[which] / 10 : 0,
                                  .compute_minor = compute[which] % 10,
                                  .memory_mib = 40960 * (1 + which),
                                  .memory_bus_bits = 5120,
                                  .memory_max_mhz = 2619,
                                  .mig_capable = true};
    snprintf(d->mig.gpus[gpu].uuid, DEVICE_UUID_CAP, "%s", device->uuid);
    snprintf(d->make.gpus[gpu].uuid, DEVICE_UUID_CAP, "%s", device->uuid);
    if (draw(3) == 0)
        snprintf(d->make.gpus[gpu].fabric, MAKE_FABRIC_CAP, "6ef0b8a2-93e6-4c1c-a9b9-6a7e2f2a77de.%u", draw(2));
    if (draw(3) == 0)
        return;
    d->mig.gpus[gpu].now.enabled = d->box->gpus[gpu].reading.mig = true;
    for (uint32_t tries = draw(5); tries > 0; tries--)
        add_instance(d, gpu);
}

static void draw_node(Drawn *d)
{
    *d = (Drawn){.box = make_box(GPUS), .mig = {.count = GPUS}, .make = {.cuda_version = 12040, .count = GPUS}};
    snprintf(d->make.driver_version, sizeof d->make.driver_version, "%s", draw(3) ? "550.90.07" : "570.5");
    for (size_t i = 0; i < GPUS; i++) {
        draw_gpu(d, i);
        d->box->places[i].numa_node = (int32_t)draw(3) - 1;
        link_up(d->box, i, address(draw(2) ? 200 : 1));
    }
    if (draw(3) == 0) {
        const uint32_t instance = draw(2) ? 7 : DEVICE_NO_NUMBER;

        open_incident(d->box, draw(GPUS), instance, 79);
    }
    const bool drained = draw(4) == 0;
    d->box->gpus[draw(GPUS)].drained = drained;
}

static void add_offer(Str *out, const Offer *offer)
{
    for (size_t i = 0; i < offer->resources.len; i++) {
        const OfferResource *resource = &offer->resources.at[i];

        str_addf(out, "%s, %s, %u replicas:\n", resource->name, offer_sharings[resource->sharing].key,
                 resource->replicas);
        for (size_t k = 0; k < resource->units.len; k++) {
            const OfferUnit *unit = &resource->units.at[k];

            str_addf(out, " %s of GPU %u, minor %d, %s, node %d, %s%s%s%s\n", unit->device.uuid, unit->gpu_index,
                     (int)unit->device.minor, unit->profile, unit->numa_node, unit->healthy ? "healthy" : unit->why,
                     unit->incident[0] ? ", incident " : "", unit->incident, unit->fine_ns ? ", held back" : "");
        }
    }
    for (size_t i = 0; i < offer->split.len; i++)
        str_addf(out, " split: %s\n", offer->split.at[i].device.uuid);
    if (offer->why[0])
        str_addf(out, " %s\n", offer->why);
}

/* A device or a set of counters per line. */
static void add_devices(Str *out, const ClaimNode *node)
{
    CLEANUP(str_done) Str json = str_limited(GOLDEN_MAX);
    unsigned depth = 0;

    claim_devices(node, &json);
    for (size_t i = 0; i < json.len; i++) {
        if (json.text[i] == '{' && ++depth == 2)
            str_addc(out, '\n');
        depth -= json.text[i] == '}';
        str_addc(out, json.text[i]);
    }
    str_addc(out, '\n');
}

/* The MIG devices that were made for claims: those of some GPUs. */
static size_t draw_places(const Drawn *d, ClaimPlace places[GPUS * INSTANCES])
{
    size_t count = 0;

    for (size_t i = 0; i < GPUS; i++) {
        const MigGpu *gpu = &d->mig.gpus[i];
        const bool whole = draw(4) > 0;

        for (size_t k = 0; k < gpu->now.count - (whole ? 0 : gpu->now.count > 0); k++)
            places[count++] = (ClaimPlace){.gpu = gpu->uuid,
                                           .profile_id = gpu->board.profiles[gpu->now.instances[k].profile].id,
                                           .start = gpu->now.instances[k].start};
    }
    return count;
}

static void add_node(Str *out, const Drawn *d)
{
    const OfferShare shares[] = {{"nvidia.com/gpu", 2}, {"nvidia.com/mig-1g.10gb", 3}};
    const OfferConfig config = {.mig = (OfferMig)draw(OFFER_MIG_END),
                                .sharing = (OfferSharing)draw(OFFER_SHARING_END),
                                .shares = shares,
                                .share_count = draw(3),
                                .rename = draw(2),
                                .hold_ns = 60};
    const LabelHost host = {.machine = draw(2) ? "PowerEdge XE9680" : "",
                            .mode = "compute",
                            .real_s = draw(2) * 1700000000u,
                            .physical = draw(2),
                            .mig = draw(4) ? &d->mig : NULL};
    Offer offer = offer_of(d->box, &config), later = {0};
    ClaimPlace places[GPUS * INSTANCES];
    const ClaimNode node = {.snapshot = &d->box->snapshot,
                            .make = &d->make,
                            .mig = &d->mig,
                            .offer = &offer,
                            .makes_mig = draw(3) > 0,
                            .places = places,
                            .place_count = draw_places(d, places)};

    add_offer(out, &offer);
    offer_labels(&d->box->snapshot, &d->make, &config, &offer, &host, out);
    add_devices(out, &node);
    if (d->box->snapshot.incident_count > 0) { /* it is over: its devices are held back for a while */
        d->box->snapshot.incident_count = 0;
        offer_make(&d->box->snapshot, &config, &offer, 30, &later);
        str_addf(out, "later, until %llu\n", (unsigned long long)offer_due(&later, config.hold_ns));
        add_offer(out, &later);
        offer_done(&later);
    }
    offer_done(&offer);
}

static void what_is_published(void **state)
{
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);

    (void)state;
    for (uint64_t i = 1; i <= NODES; i++) {
        static Drawn drawn;

        seed = i * 88172645463325252u;
        draw_node(&drawn);
        str_addf(&out, "--- node %llu\n", (unsigned long long)i);
        add_node(&out, &drawn);
        free(drawn.box);
    }
    assert_golden(PUBLISHED, &out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_published)};

    load_tables(argc > 1 ? argv[1] : "data/mig/boards.yaml");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_done(&board_arena);
    return failed;
}
