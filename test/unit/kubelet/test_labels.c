/* SPDX-License-Identifier: Apache-2.0 */
/* Labels against what is offered, on nodes that are drawn: no device is lost, none is in two resources, and what the
 * labels count is there; and the labels for schedulers. */
#include <ctype.h>

#include "box.h"

enum { ROUNDS = 1000, LABELS_BYTES = 64 << 10 };

static const char *const models[] = {"NVIDIA H100 80GB HBM3", "NVIDIA A30", "Tesla T4"};
static const char *const profiles[] = {"1g.10gb", "1g.10gb+me", "2g.20gb", "3g.40gb", "1c.3g.40gb"};

static size_t draw(size_t below)
{
    return (size_t)random() % below;
}

/* --- labels ------------------------------------------------------------------------------------------------------- */

typedef struct Labels {
    Str text;
    size_t count;
    char *keys[512], *values[512];
} Labels;

static bool is_word(const char *text, const char *more)
{
    const size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(more, text[i]))
            return false;
    return len == 0 || (len <= 63 && isalnum((unsigned char)text[0]) && isalnum((unsigned char)text[len - 1]));
}

/* Every line is a label that Kubernetes takes, and no key comes twice. */
static Labels *read_labels(const Box *box, const MakeNode *make, const OfferConfig *config, const Offer *offer,
                           const MigNode *mig)
{
    Labels *labels = calloc(1, sizeof *labels);
    const LabelHost host = {.machine = "", .mode = "compute", .mig = mig};

    assert_non_null(labels);
    str_init(&labels->text, LABELS_BYTES);
    offer_labels(&box->snapshot, make, config, offer, &host, &labels->text);
    for (char *save = NULL, *line = strtok_r(labels->text.text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *equals = strchr(line, '='), *slash = strchr(line, '/');

        assert_true(slash && equals > slash + 1 && labels->count < 512);
        *equals = '\0';
        assert_true(is_word(slash + 1, "-_.") && is_word(equals + 1, "-_."));
        for (size_t i = 0; i < labels->count; i++)
            assert_string_not_equal(labels->keys[i], line);
        labels->keys[labels->count] = line;
        labels->values[labels->count++] = equals + 1;
    }
    return labels;
}

static void free_labels(Labels *labels)
{
    str_done(&labels->text);
    free(labels);
}

/* NULL: there is none. */
static const char *find_value(const Labels *labels, const char *key)
{
    for (size_t i = 0; i < labels->count; i++)
        if (strcmp(labels->keys[i], key) == 0)
            return labels->values[i];
    return NULL;
}

static size_t find_number(const Labels *labels, const char *key)
{
    const char *value = find_value(labels, key);

    assert_non_null(value);
    return strtoul(value, NULL, 10);
}

/* The sum, or with `many` the number, of the labels whose keys begin and end so. */
static size_t sum_labels(const Labels *labels, const char *begin, const char *end, bool many)
{
    size_t sum = 0;

    for (size_t i = 0; i < labels->count; i++) {
        const size_t len = strlen(labels->keys[i]);

        if (strncmp(labels->keys[i], begin, strlen(begin)) == 0 && len > strlen(end) &&
            strcmp(labels->keys[i] + len - strlen(end), end) == 0)
            sum += many ? 1 : strtoul(labels->values[i], NULL, 10);
    }
    return sum;
}

/* --- what is drawn ------------------------------------------------------------------------------------------------ */

static void draw_instances(Box *box, size_t gpu, const char *same)
{
    split(box, gpu, draw(INSTANCES + 1), same ? same : "");
    for (size_t i = 0; i < box->gpus[gpu].instance_count && !same; i++)
        snprintf(box->instances[gpu][i].profile, READING_PROFILE_CAP, "%s", profiles[draw(5)]);
}

static void draw_fault(Box *box)
{
    const size_t gpu = draw(box->node.gpu_count), count = box->gpus[gpu].instance_count;
    const bool part = count && draw(2);
    Incident *fault = &box->faults[box->snapshot.incident_count];

    open_incident(box, gpu, part ? box->instances[gpu][draw(count)].device.gpu_instance : DEVICE_NO_NUMBER, 79);
    if (draw(3) == 0)
        fault->cause = CAUSE_APPLICATION;
    else if (draw(3) == 0)
        fault->severity = SEVERITY_WARNING;
}

static Box *draw_box(void)
{
    Box *box = make_box(1 + draw(8));
    const char *same = draw(2) ? profiles[draw(4)] : NULL;
    const size_t mig_part = draw(3); /* none, half, all */

    for (size_t i = 0; i < box->node.gpu_count; i++) {
        snprintf(box->gpus[i].reading.device.name, DEVICE_NAME_CAP, "%s", models[draw(3)]);
        if (draw(2) < mig_part)
            draw_instances(box, i, same);
        box->gpus[i].drained = draw(8) == 0; /* an operator has taken it out */
        box->gpus[i].state = box->gpus[i].drained ? GPU_LOST : GPU_UP;
    }
    for (size_t faults = draw(FAULTS_MAX); faults > 0; faults--)
        draw_fault(box);
    return box;
}

/* --- what has to be offered --------------------------------------------------------------------------------------- */

/* Whether `single` can offer the MIG devices of this node as one resource. */
static bool is_uniform(const Box *box)
{
    const char *profile = NULL;

    for (size_t i = 0; i < box->node.gpu_count; i++) {
        if (!box->gpus[i].reading.mig || box->gpus[i].instance_count == 0)
            return false;
        for (size_t k = 0; k < box->gpus[i].instance_count; k++) {
            if (profile && strcmp(profile, box->instances[i][k].profile) != 0)
                return false;
            profile = box->instances[i][k].profile;
        }
    }
    return true;
}

static bool has_mig(const Box *box)
{
    for (size_t i = 0; i < box->node.gpu_count; i++)
        if (box->gpus[i].reading.mig)
            return true;
    return false;
}

/* "" of what is not offered. `instance` NULL: the GPU itself. */
static const char *expect_resource(const Box *box, OfferMig mig, size_t gpu, const Reading *instance)
{
    static char name[OFFER_NAME_CAP];
    const bool split_gpu = box->gpus[gpu].reading.mig && mig != OFFER_MIG_NONE;

    if (mig == OFFER_MIG_SINGLE && has_mig(box))
        return instance && is_uniform(box) ? "nvidia.com/gpu" : "";
    if (split_gpu != (instance != NULL))
        return "";
    if (!instance)
        return "nvidia.com/gpu";
    snprintf(name, sizeof name, "nvidia.com/mig-%s", instance->profile);
    if (strchr(name, '+'))
        *strchr(name, '+') = '.';
    return strncmp(instance->profile, "1c.", 3) == 0 ? "" : name;
}

static bool expect_health(const Box *box, size_t gpu, const Reading *instance)
{
    for (size_t i = 0; i < box->snapshot.incident_count; i++) {
        const Incident *fault = &box->faults[i];
        const uint32_t part = fault->device.gpu_instance;

        if (fault->device.index == gpu && fault->cause != CAUSE_APPLICATION && fault->severity == SEVERITY_FATAL &&
            (!instance || part == DEVICE_NO_NUMBER || part == instance->device.gpu_instance))
            return false;
    }
    return !box->gpus[gpu].drained;
}

/* One GPU or MIG device: in the resource that it belongs to, once, and in no other. Returns whether it is offered. */
static bool check_device(const Box *box, const OfferConfig *config, const Offer *offer, size_t gpu,
                         const Reading *instance)
{
    const char *uuid = (instance ? instance : &box->gpus[gpu].reading)->device.uuid;
    const char *expected = expect_resource(box, config->mig, gpu, instance);
    size_t found = 0;

    for (size_t i = 0; i < offer->resources.len; i++)
        for (size_t k = 0; k < offer->resources.at[i].units.len; k++) {
            const OfferUnit *unit = &offer->resources.at[i].units.at[k];

            if (strcmp(unit->device.uuid, uuid) != 0)
                continue;
            found++;
            const char *name = offer->resources.at[i].name, *rest = name + strlen(expected);
            assert_int_equal(strncmp(name, expected, strlen(expected)), 0);
            assert_true(strcmp(rest, "") == 0 || strcmp(rest, ".shared") == 0);
            assert_int_equal(unit->healthy, expect_health(box, gpu, instance));
        }
    assert_int_equal(found, expected[0] != '\0');
    return found;
}

static size_t check_devices(const Box *box, const OfferConfig *config, const Offer *offer)
{
    size_t count = 0;

    for (size_t i = 0; i < box->node.gpu_count; i++) {
        count += check_device(box, config, offer, i, NULL);
        for (size_t k = 0; k < box->gpus[i].instance_count; k++)
            count += check_device(box, config, offer, i, &box->instances[i][k]);
    }
    return count;
}

/* The labels of one resource. */
static void check_resource(const Labels *labels, const OfferResource *resource)
{
    const char *shared = strstr(resource->name, ".shared"), *profile = resource->units.at[0].profile;
    const int len = shared ? (int)(shared - resource->name) : (int)strlen(resource->name);
    char key[128], suffix[64];

    snprintf(key, sizeof key, "%.*s.count", len, resource->name);
    assert_int_equal(find_number(labels, key), resource->units.len);
    snprintf(key, sizeof key, "%.*s.replicas", len, resource->name);
    assert_int_equal(find_number(labels, key), resource->replicas);
    snprintf(key, sizeof key, "%.*s.product", len, resource->name);
    const char *product = find_value(labels, key);
    assert_non_null(product);
    snprintf(suffix, sizeof suffix, "-MIG-%s", profile);
    if (strcspn(suffix, "+") < strlen(suffix))
        suffix[strcspn(suffix, "+")] = '\0';
    assert_int_equal(strstr(product, "-MIG-") != NULL, profile[0] != '\0');
    assert_true(!profile[0] || strstr(product, suffix));
    assert_int_equal(strstr(product, "-SHARED") != NULL, resource->replicas > 1 && !shared);
}

static void check_labels(const Box *box, const OfferConfig *config, const Offer *offer, const Labels *labels)
{
    size_t healthy, mig = 0;
    bool bad = false, worse = false;

    for (size_t i = 0; i < offer->resources.len; i++) {
        check_resource(labels, &offer->resources.at[i]);
        mig += strncmp(offer->resources.at[i].name, "nvidia.com/mig-", 15) == 0;
    }
    assert_int_equal(sum_labels(labels, "nvidia.com/mig-", ".count", true), mig);
    if (mig == offer->resources.len)
        assert_int_equal(find_number(labels, "nvidia.com/gpu.count"), 0);
    assert_int_equal(find_number(labels, "stoker.dev/gpu.devices"), offer_count(offer, &healthy));
    assert_int_equal(find_number(labels, "stoker.dev/gpu.devices.healthy"), healthy);
    assert_int_equal(sum_labels(labels, "stoker.dev/gpu.", ".count", false), box->node.gpu_count);
    for (size_t i = 0; i < box->snapshot.incident_count; i++) {
        bad |= box->faults[i].cause != CAUSE_APPLICATION;
        worse |= box->faults[i].cause != CAUSE_APPLICATION && box->faults[i].severity == SEVERITY_FATAL;
    }
    assert_string_equal(find_value(labels, "stoker.dev/gpu.health"), worse ? "fatal" : bad ? "warning" : "ok");
    if (config->mig == OFFER_MIG_SINGLE && has_mig(box) && !is_uniform(box))
        assert_non_null(strstr(find_value(labels, "nvidia.com/gpu.product"), "-MIG-INVALID"));
}

static void test_labels_agree_with_the_offer(void **state)
{
    (void)state;
    srandom(20261129);
    for (int round = 0; round < ROUNDS; round++) {
        const OfferShare shares[] = {{"nvidia.com/gpu", 1 + (uint32_t)draw(4)}, {"nvidia.com/mig-2g.20gb", 2}};
        const OfferConfig config = {.mig = (OfferMig)draw(OFFER_MIG_END),
                                    .sharing = (OfferSharing)draw(OFFER_SHARING_END),
                                    .shares = shares,
                                    .share_count = draw(3),
                                    .rename = draw(2)};
        const MakeNode make = {0};
        Box *box = draw_box();
        Offer offer = offer_of(box, &config);
        Labels *labels = read_labels(box, &make, &config, &offer, NULL);
        size_t healthy;

        assert_int_equal(check_devices(box, &config, &offer), offer_count(&offer, &healthy));
        check_labels(box, &config, &offer, labels);
        free_labels(labels);
        offer_done(&offer);
        free(box);
    }
}

/* --- for schedulers ----------------------------------------------------------------------------------------------- */

#define DOMAIN "6ef0b8a2-93e6-4c1c-a9b9-6a7e2f2a77de"

static Labels *label_box(const Box *box, const MakeNode *make, const MigNode *mig)
{
    const OfferConfig config = {.mig = OFFER_MIG_MIXED};
    Offer offer = offer_of(box, &config);
    Labels *labels = read_labels(box, make, &config, &offer, mig);

    offer_done(&offer);
    return labels;
}

static MakeNode *make_two(const char *first, const char *second)
{
    MakeNode *make = calloc(1, sizeof *make);

    assert_non_null(make);
    make->count = 2;
    for (size_t i = 0; i < 2; i++)
        snprintf(make->gpus[i].uuid, DEVICE_UUID_CAP, "GPU-%zu", i);
    snprintf(make->gpus[0].fabric, MAKE_FABRIC_CAP, "%s", first);
    snprintf(make->gpus[1].fabric, MAKE_FABRIC_CAP, "%s", second);
    return make;
}

static void check_domain(const char *first, const char *second, const char *domain, const char *clique)
{
    MakeNode *make = make_two(first, second);
    Box *box = make_box(2);
    Labels *labels = label_box(box, make, NULL);
    const char *found = find_value(labels, "stoker.dev/nvlink.domain");

    assert_int_equal(found != NULL, domain != NULL);
    assert_int_equal(find_value(labels, "stoker.dev/nvlink.clique") != NULL, domain != NULL);
    if (domain) {
        assert_string_equal(found, domain);
        assert_string_equal(find_value(labels, "stoker.dev/nvlink.clique"), clique);
    }
    free_labels(labels);
    free(box);
    free(make);
}

static void test_nvlink_domain(void **state)
{
    (void)state;
    check_domain(DOMAIN ".32766", DOMAIN ".32766", DOMAIN, "32766");
    check_domain(DOMAIN ".1", DOMAIN ".2", NULL, NULL);
    check_domain(DOMAIN ".1", "", NULL, NULL); /* one is not registered */
    check_domain("", "", NULL, NULL);
    check_domain("00000000-0000-0000-0000-000000000000.0", "00000000-0000-0000-0000-000000000000.0", NULL, NULL);
}

static void test_peaks(void **state)
{
    MakeNode *make = make_two("", "");
    Box *box = make_box(2);

    (void)state;
    Labels *labels = label_box(box, make, NULL);
    assert_null(find_value(labels, "stoker.dev/gpu.peak.memory-gb-s"));
    free_labels(labels);
    make->gpus[0].memory_bus_bits = 5120;
    make->gpus[0].memory_max_mhz = 2619;
    labels = label_box(box, make, NULL);
    assert_string_equal(find_value(labels, "stoker.dev/gpu.peak.memory-gb-s"),
                        "3352"); /* data sheet of the H100: 3.35 TB/s */
    assert_string_equal(find_value(labels, "stoker.dev/gpu.peak.tflops-fp8"), "1979"); /* 3,958 with sparsity */
    assert_string_equal(find_value(labels, "stoker.dev/gpu.peak.tflops-fp64"), "67");
    assert_null(find_value(labels, "stoker.dev/gpu.peak.tflops-fp4")); /* it has none */
    free_labels(labels);
    free(box);
    free(make);
}

/* A GPU with the profiles of small and half, of which `small` small ones are there. */
static void fill_gpu(MigGpu *gpu, size_t index, size_t small)
{
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%zu", index);
    gpu->board.profile_count = 2;
    gpu->board.profiles[0] = (MigProfile){.name = "1g.6gb+me", .slices = 1, .max = 4, .size = 1, .starts = 0xf};
    gpu->board.profiles[1] = (MigProfile){.name = "2g.12gb", .slices = 2, .max = 2, .size = 2, .starts = 0x5};
    gpu->board.slices = gpu->board.grid = 4;
    gpu->now.enabled = true;
    for (size_t i = 0; i < small; i++)
        gpu->now.instances[gpu->now.count++] = (MigInstance){.profile = 0, .start = (uint8_t)i};
}

static void check_room(const Box *box, const MigNode *mig, const char *small, const char *half)
{
    const MakeNode make = {0};
    Labels *labels = label_box(box, &make, mig);
    const char *found[] = {find_value(labels, "stoker.dev/mig.free.1g.6gb.me"),
                           find_value(labels, "stoker.dev/mig.free.2g.12gb")};
    const char *expected[] = {small, half};

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(found[i] != NULL, expected[i] != NULL);
        if (found[i])
            assert_string_equal(found[i], expected[i]);
    }
    free_labels(labels);
}

static void test_free_profiles(void **state)
{
    MigNode *mig = calloc(1, sizeof *mig);
    Box *box = make_box(2);

    (void)state;
    assert_non_null(mig);
    mig->count = 2;
    fill_gpu(&mig->gpus[0], 0, 1);
    fill_gpu(&mig->gpus[1], 1, 2);
    check_room(box, NULL, NULL, NULL);
    check_room(box, mig, "5", "2");
    open_incident(box, 1, 1, 94);
    check_room(box, mig, "5", "2"); /* one MIG device is broken, not its GPU */
    open_incident(box, 1, DEVICE_NO_NUMBER, 79);
    check_room(box, mig, "3", "1"); /* of the GPU that can be used */
    box->snapshot.incident_count = 0;
    snprintf(mig->gpus[0].why, MIG_WHY_SIZE, "it cannot be read");
    check_room(box, mig, "2", "1");
    fill_gpu(&mig->gpus[1], 1, 0);
    mig->gpus[1].now.instances[2] = (MigInstance){.profile = 0, .start = 2};
    mig->gpus[1].now.count = 3;
    check_room(box, mig, "1", NULL); /* a slice is free, and no pair */
    mig->gpus[1].now = (MigLayout){0};
    check_room(box, mig, NULL, NULL); /* not in MIG mode */
    free(mig);
    free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_agree_with_the_offer),
        cmocka_unit_test(test_nvlink_domain),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_free_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
