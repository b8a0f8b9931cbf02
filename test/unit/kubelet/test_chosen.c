/* SPDX-License-Identifier: Apache-2.0 */
/* Which pod the kubelet asks for, by what is known of the pods that wait (service/kubelet/chosen.c). */
#include <errno.h>

#include "box.h"
#include "base/cleanup.h"
#include "service/kubelet/kubelet.h"

enum { GPUS = 8 };
#define GPU "nvidia.com/gpu"
#define NONE "none"

CLEANUP_POINTER(json_t, json_decref);

static Box *box;
static Offer offer;
static Chosen *chosen;

static int set_up(void **state)
{
    (void)state;
    box = make_box(GPUS);
    offer = offer_of(box, &(OfferConfig){0});
    chosen = chosen_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    chosen_free(chosen);
    offer_done(&offer);
    offer = (Offer){0};
    free(box);
    return 0;
}

/* A pod that was scheduled at this second (below 0: its time is not known), with a container for each of `limits`. */
typedef struct Row {
    const char *uid, *gpus, *limits[3];
    int second;
    bool started, init;
} Row;

#define POD(id, which, at, ...)                                                                                        \
    {                                                                                                                  \
        .uid = id, .gpus = which, .second = at, .limits = { __VA_ARGS__ }                                              \
    }

static void add(const Row *row)
{
    CLEANUP(json_decref_at)
    json_t *pod = json_pack("{s:{s:s,s:{}},s:{s:[],s:[]},s:{s:[{s:s},{s:s}]}}", "metadata", "uid", row->uid,
                            "annotations", "spec", "initContainers", "containers", "status", "conditions", "type",
                            "Ready", "type", "PodScheduled");
    json_t *spec = json_object_get(pod, "spec"), *status = json_object_get(pod, "status");
    char time[32];
    Err err;

    if (row->gpus)
        json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"), "stoker.dev/gpus",
                            json_string(row->gpus));
    for (size_t i = 0; i < 3 && row->limits[i]; i++)
        json_array_append_new(json_object_get(spec, row->init && i == 0 ? "initContainers" : "containers"),
                              json_pack("{s:{s:{s:s,s:s}}}", "resources", "limits", "cpu", "7", GPU, row->limits[i]));
    snprintf(time, sizeof time, "2026-03-01T10:00:%02dZ", row->second);
    if (row->second >= 0)
        json_object_set_new(json_array_get(json_object_get(status, "conditions"), 1), "lastTransitionTime",
                            json_string(time));
    if (row->started)
        json_object_set_new(status, "startTime", json_string(time));
    assert_int_equal(chosen_add(chosen, pod, &err), 0);
}

static void know(const Row *rows, size_t count)
{
    chosen_begin(chosen);
    for (size_t i = 0; i < count; i++)
        add(&rows[i]);
    assert_true(chosen_end(chosen));
}
#define KNOW(...) know((const Row[]){__VA_ARGS__}, sizeof((const Row[]){__VA_ARGS__}) / sizeof(Row))

static size_t name_gpus(const char *numbers, char text[GPUS][8], const char *ids[GPUS])
{
    size_t count = strlen(numbers);

    for (size_t i = 0; i < count; i++) {
        snprintf(text[i], 8, "GPU-%c", numbers[i]);
        ids[i] = text[i];
    }
    return count;
}

/* The numbers of the GPUs for `size` devices of these. */
static const char *find(const char *available, const char *must, size_t size)
{
    static char found[GPUS + 1];
    char texts[GPUS][8], musts[GPUS][8];
    const char *ids[GPUS], *must_ids[GPUS], *ret[GPUS + 1] = {0};
    const size_t count = name_gpus(available, texts, ids), must_count = name_gpus(must, musts, must_ids);

    if (!chosen_find(chosen, &offer.resources.at[0], ids, count, must_ids, must_count, size, ret)) {
        assert_null(ret[0]);
        return NONE;
    }
    for (size_t i = 0; i < size; i++)
        found[i] = ret[i][strlen("GPU-")];
    found[size] = '\0';
    assert_null(ret[size]);
    return found;
}

/* What came of it is `outcome`, and nothing else is counted. */
static void note(const char *gpus, int outcome)
{
    uint64_t before[CHOSEN_OUTCOME_END];
    char texts[GPUS][8], *copies[GPUS];
    const char *ids[GPUS];
    const size_t count = name_gpus(gpus, texts, ids);

    for (size_t i = 0; i < count; i++)
        copies[i] = texts[i];
    memcpy(before, chosen_counts(chosen), sizeof before);
    chosen_note(chosen, &offer.resources.at[0], copies, count);
    for (int i = 0; i < CHOSEN_OUTCOME_END; i++)
        assert_int_equal(chosen_counts(chosen)[i] - before[i], i == outcome);
}

#define ALL "76543210"

static void the_one_that_was_scheduled_first(void **state)
{
    (void)state;
    assert_string_equal(find(ALL, "", 1), NONE);
    KNOW(POD("late", "5", 9, "1"), POD("first", "3", 2, "1"), POD("same", "1", 2, "1"), POD("old", "6", -1, "1"),
         POD("two", "7,4", 0, "2"));
    assert_string_equal(find(ALL, "", 1), "3");
    assert_string_equal(find("7654210", "", 1), "1"); /* its GPU is taken: the kubelet asks for the next */
    assert_string_equal(find("765420", "", 1), "5");
    assert_string_equal(find("76420", "", 1), "6");
    assert_string_equal(find("7420", "", 1), NONE);
    assert_string_equal(find("7420", "", 2), "47");
    assert_string_equal(find("7320", "", 2), NONE);
    assert_string_equal(find(ALL, "", 3), NONE);
}

static void a_pod_that_has_started_is_out(void **state)
{
    (void)state;
    KNOW({.uid = "a", .gpus = "3", .limits = {"1"}, .second = 1, .started = true}, POD("b", "5", 2, "1"));
    assert_string_equal(find(ALL, "", 1), "5");
    KNOW({.uid = "a", .gpus = "3", .limits = {"1"}, .second = 1, .started = true});
    assert_string_equal(find(ALL, "", 1), NONE);
    assert_false(chosen_is_awaited(chosen, GPU, 1));
}

static void the_numbers_have_to_agree(void **state)
{
    (void)state;
    KNOW(POD("more", "3,4", 1, "1"), POD("less", "3", 1, "2"), POD("text", "GPU 3", 1, "1"), POD("none", NULL, 1, "1"),
         POD("empty", "", 1, "1"), POD("far", "16", 1, "1"), POD("milli", "3", 1, "1500m"),
         POD("parts", "1,2", 1, "1", "1"), POD("nothing", "1", 1, NULL));
    assert_string_equal(find(ALL, "", 0), NONE);
    assert_string_equal(find(ALL, "", 1), NONE);
    assert_string_equal(find(ALL, "", 2), NONE);
    KNOW({.uid = "init", .gpus = "1,2", .limits = {"2", "2"}, .second = 1, .init = true});
    assert_string_equal(find(ALL, "", 2), "12");
    KNOW({.uid = "init",
          .gpus = "1,2",
          .limits = {"2", "0"},
          .second = 1,
          .init = true}); /* the first container alone asks */
    assert_string_equal(find(ALL, "", 2), "12");
}

static void what_must_be_among_them(void **state)
{
    (void)state;
    KNOW(POD("a", "1,2", 1, "2"), POD("b", "3,4", 2, "2"));
    assert_string_equal(find(ALL, "3", 2), "34");
    assert_string_equal(find(ALL, "34", 2), "34");
    assert_string_equal(find(ALL, "5", 2), NONE);
    assert_string_equal(find(ALL, "9", 2), NONE); /* no GPU of this node */
}

static void unhealthy_gpus_are_not_given(void **state)
{
    (void)state;
    KNOW(POD("a", "1,2", 1, "2"));
    assert_string_equal(find(ALL, "", 2), "12");
    offer.resources.at[0].units.at[2].healthy = false;
    assert_string_equal(find(ALL, "", 2), NONE);
}

static void shared_ones_and_parts_are_left_alone(void **state)
{
    (void)state;
    KNOW(POD("a", "1", 1, "1"));
    offer.resources.at[0].sharing = OFFER_SHARING_TIME;
    offer.resources.at[0].replicas = 2;
    assert_string_equal(find(ALL, "", 1), NONE);
    note("1", -1);
    offer.resources.at[0].sharing = OFFER_SHARING_NONE;
    snprintf(offer.resources.at[0].units.at[1].profile, MIG_NAME_SIZE, "1g.10gb");
    assert_string_equal(find(ALL, "", 1), NONE);
    note("1", -1);
    snprintf(offer.resources.at[0].name, OFFER_NAME_CAP, "nvidia.com/mig-1g.10gb");
    offer.resources.at[0].units.at[1].profile[0] = '\0';
    assert_string_equal(find(ALL, "", 1), NONE); /* it asks for another resource */
}

static void what_came_of_it(void **state)
{
    const Row rows[] = {POD("a", "1,2", 1, "2"), POD("b", "3,4", 2, "2"), POD("c", NULL, 3, "1")};

    (void)state;
    note("12", CHOSEN_UNKNOWN);
    know(rows, 3);
    assert_true(chosen_is_awaited(chosen, GPU, 1) && chosen_is_awaited(chosen, GPU, 2));
    assert_false(chosen_is_awaited(chosen, GPU, 3) || chosen_is_awaited(chosen, "nvidia.com/mig-1g.10gb", 1));
    note("5", CHOSEN_UNKNOWN);
    note("56", CHOSEN_OTHER);
    note("43", CHOSEN_AS_CHOSEN);
    know(rows, 3); /* which is remembered */
    assert_true(chosen_is_awaited(chosen, GPU, 2));
    note("12", CHOSEN_AS_CHOSEN);
    know(rows, 3);
    assert_false(chosen_is_awaited(chosen, GPU, 2));
    note("12", CHOSEN_AS_CHOSEN); /* its next container, with the same */
    note("56", CHOSEN_UNKNOWN);   /* both have theirs */
    know(rows + 1, 1);
    know(rows, 2);
    note("56", CHOSEN_OTHER); /* one that came again is another */
}

static void what_is_no_pod(void **state)
{
    static const char *const texts[] = {"{}", "{\"metadata\":{\"uid\":\"a\"}}",
                                        "{\"metadata\":{\"uid\":1},\"spec\":{}}"};
    Err err;

    (void)state;
    KNOW(POD("a", "1", 1, "1"));
    for (size_t i = 0; i < 3; i++) {
        CLEANUP(json_decref_at) json_t *object = json_loads(texts[i], 0, NULL);

        chosen_begin(chosen);
        assert_int_equal(chosen_add(chosen, object, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "no pod"));
    }
    assert_string_equal(find(ALL, "", 1), "1"); /* what was known stays */
    chosen_begin(chosen);
    for (int i = 0; i <= CHOSEN_PODS_MAX; i++) {
        char uid[16];

        snprintf(uid, sizeof uid, "%d", i);
        add(&(Row)POD(uid, i == CHOSEN_PODS_MAX ? "2" : "3", 1, "1"));
    }
    chosen_end(chosen);
    assert_string_equal(find(ALL, "", 1), "3");
    assert_string_equal(find("2", "", 1), NONE);
    chosen_free(NULL);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(the_one_that_was_scheduled_first),
        TEST(a_pod_that_has_started_is_out),
        TEST(the_numbers_have_to_agree),
        TEST(what_must_be_among_them),
        TEST(unhealthy_gpus_are_not_given),
        TEST(shared_ones_and_parts_are_left_alone),
        TEST(what_came_of_it),
        TEST(what_is_no_pod),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
