/* SPDX-License-Identifier: Apache-2.0 */
/* service/place: what a cluster's objects come to, and kube-scheduler's requests about it. The random cluster is held
 * against a naive count: however its objects come and go, as many GPUs are free as nobody has. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "service/place/extender.h"

enum { ROOM = 4096 };

static Live *new_live(void)
{
    return live_new("nvidia.com/gpu", placement_mode_find("pack"));
}

static json_t *parse(const char *text)
{
    json_t *made = json_loads(text, 0, NULL);

    assert_non_null(made);
    return made;
}

static void put_ill_node(Live *live, const char *name, unsigned devices, unsigned usable, const char *unhealthy,
                         const char *condition)
{
    char text[ROOM];
    Err err = {0};

    snprintf(
        text, sizeof text,
        "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"nvidia.com/gpu.product\":\"H100\"},\"annotations\":{"
        "\"stoker.dev/gpus-unhealthy\":\"%s\"}},\"status\":{\"capacity\":{\"nvidia.com/gpu\":\"%u\"},\"allocatable\":"
        "{\"cpu\":\"95500m\",\"nvidia.com/gpu\":\"%u\"},\"conditions\":[%s]}}",
        name, unhealthy, devices, usable, condition);
    json_t *node = parse(text);
    assert_int_equal(live_change_node(live, node, false, &err), 0);
    json_decref(node);
}

static void put_node(Live *live, const char *name, unsigned devices, unsigned usable, const char *condition)
{
    put_ill_node(live, name, devices, usable, "", condition);
}

static json_t *make_pod(const char *uid, const char *node, unsigned gpus, const char *held, const char *phase)
{
    char text[ROOM];

    snprintf(
        text, sizeof text,
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\",\"annotations\":{\"stoker.dev/gpus\":\"%s\"}},\"spec\":{%s%s%s"
        "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"4\",\"nvidia.com/gpu\":\"%u\"}}}]},"
        "\"status\":{\"phase\":\"%s\"}}",
        uid, uid, held, node ? "\"nodeName\":\"" : "", node ? node : "", node ? "\"," : "", gpus, phase);
    return parse(text);
}

static void put_pod(Live *live, const char *uid, const char *node, unsigned gpus, const char *held)
{
    json_t *pod = make_pod(uid, node, gpus, held, "Running");
    Err err = {0};

    assert_int_equal(live_change_pod(live, pod, false, &err), 0);
    json_decref(pod);
}

static void end_pod(Live *live, const char *uid, bool by_phase)
{
    json_t *pod = make_pod(uid, "a", 1, "", by_phase ? "Succeeded" : "Running");
    Err err = {0};

    assert_int_equal(live_change_pod(live, pod, !by_phase, &err), 0);
    json_decref(pod);
}

static LiveFit judge(Live *live, unsigned gpus, const char *node)
{
    const ClusterRequest request = {.cpu_milli = 4000, .gpu_milli = CLUSTER_GPU, .gpu_count = (uint8_t)gpus};
    double score = 0;

    return live_judge(live, &request, live_find(live, node, strlen(node)), &score);
}

/* How many GPUs of a node are free, by what fits. */
static unsigned count_free(Live *live, const char *node)
{
    unsigned most = 0;

    for (unsigned n = 1; n <= CLUSTER_GPUS_MAX; n++)
        most = judge(live, n, node) == LIVE_FITS ? n : most;
    return most;
}

static int reserve(Live *live, const char *uid, unsigned gpus, const char *node, uint64_t until_ns, uint16_t *ret_gpus)
{
    const ClusterRequest request = {.cpu_milli = 4000, .gpu_milli = CLUSTER_GPU, .gpu_count = (uint8_t)gpus};
    Err err = {0};

    return live_reserve(live, uid, &request, node, until_ns, ret_gpus, &err);
}

/* --- what pods ask for -------------------------------------------------------------------------------------------- */

static void requests_are_summed_as_the_scheduler_does(void **state)
{
    static const struct {
        const char *spec;
        uint32_t cpu_milli;
        uint8_t gpus;
    } rows[] = {
        {"{}", 0, 0},
        {"{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"250m\"},\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}",
         250, 2},
        {"{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"0.5\",\"nvidia.com/"
         "gpu\":1}}},{\"resources\":{\"requests\":"
         "{\"cpu\":2,\"nvidia.com/gpu\":\"3\"}}}]}",
         2500, 4},
        {"{\"initContainers\":[{\"resources\":{\"requests\":{\"cpu\":\"8\",\"nvidia.com/"
         "gpu\":\"2\"}}}],\"containers\":[{"
         "\"resources\":{\"requests\":{\"cpu\":\"4\",\"nvidia.com/gpu\":\"1\"}}}]}",
         8000, 2},
        {"{\"initContainers\":[{\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"1\",\"nvidia.com/"
         "gpu\":\"1\"}}},"
         "{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}],\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"4\","
         "\"nvidia.com/gpu\":\"2\"}}}],\"overhead\":{\"cpu\":\"100m\"}}",
         5100, 3},
        {"{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1Gi\",\"nvidia.com/gpu\":\"17\"}}}]}", UINT32_MAX,
         0},
        {"{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1e3\",\"nvidia.com/gpu\":1e1}}}]}", 1000000, 10},
        {"{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1k\",\"nvidia.com/gpu\":\"16\"}}}]}", 1000000, 16},
        {"{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"-1\",\"nvidia.com/gpu\":\"-1\"}}}]}", 0, 0},
        {"{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":-1,\"nvidia.com/gpu\":[\"1\"]}}}]}", 0, 0},
        {"{\"containers\":{\"resources\":4}}", 0, 0},
    };
    Live *live = new_live();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[ROOM];

        snprintf(text, sizeof text, "{\"spec\":%s}", rows[i].spec);
        json_t *pod = parse(text);
        const ClusterRequest r = live_read_request(live, pod);
        assert_int_equal(r.cpu_milli, rows[i].cpu_milli);
        assert_int_equal(r.gpu_count, rows[i].gpus);
        json_decref(pod);
    }
    live_free(live);
}

/* --- what nodes have ---------------------------------------------------------------------------------------------- */

static void gpus_without_a_name_count(void **state)
{
    Live *live = new_live();

    (void)state;
    put_pod(live, "early", "a", 1, "0"); /* before its node */
    put_node(live, "a", 8, 8, "");
    assert_int_equal(count_free(live, "a"), 7);
    put_pod(live, "two", "a", 2, "");
    assert_int_equal(count_free(live, "a"), 5);
    put_pod(live, "same", "a", 1, "0"); /* says that it has what another one has */
    assert_int_equal(count_free(live, "a"), 4);
    static const char *const wrong[] = {"9,16", "1", "1,2,3", "x", "1,,2", "1,1", "-1,2", "1;2"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        put_pod(live, "wrong", "a", 2, wrong[i]);
        assert_int_equal(count_free(live, "a"), 2);
    }
    end_pod(live, "two", true);
    end_pod(live, "same", false);
    end_pod(live, "wrong", false);
    end_pod(live, "never", false);
    assert_int_equal(count_free(live, "a"), 7);
    live_free(live);
}

static void a_node_goes_and_comes_back(void **state)
{
    Live *live = new_live();
    json_t *node = parse("{\"metadata\":{\"name\":\"a\"}}"), *none = parse("{\"metadata\":{}}");
    Err err = {0};

    (void)state;
    put_node(live, "a", 8, 8, "");
    put_pod(live, "p", "a", 3, "");
    assert_int_equal(live_change_node(live, node, true, &err), 0);
    assert_int_equal(judge(live, 1, "a"), LIVE_UNKNOWN);
    put_node(live, "a", 8, 8, "");
    assert_int_equal(count_free(live, "a"), 5); /* its pod was not forgotten */
    live_begin_nodes(live);
    live_end_nodes(live); /* a list without it */
    assert_int_equal(judge(live, 1, "a"), LIVE_UNKNOWN);
    end_pod(live, "p", false);
    assert_int_equal(live_counts(live).nodes, 0);
    assert_int_equal(live_change_node(live, node, true, &err), 0); /* once more */
    assert_true(live_change_node(live, none, false, &err) < 0 && live_change_pod(live, none, false, &err) < 0);
    json_decref(node);
    json_decref(none);
    live_free(live);
}

static void some_nodes_are_not_decided_on(void **state)
{
    Live *live = new_live();

    (void)state;
    put_node(live, "shared", 80, 80, "");
    put_node(live, "none", 0, 0, "");
    put_node(live, "most", 16, 16, "");
    assert_int_equal(judge(live, 1, "shared"), LIVE_UNKNOWN);
    assert_int_equal(judge(live, 1, "none"), LIVE_UNKNOWN);
    assert_int_equal(judge(live, 1, "never"), LIVE_UNKNOWN);
    assert_int_equal(judge(live, 16, "most"), LIVE_FITS);
    live_free(live);
}

static void a_broken_gpu_is_not_chosen(void **state)
{
    static const char lost[] =
        "{\"type\":\"GPUsHealthy\",\"status\":\"False\",\"message\":\"1 of 4 devices unhealthy: GPU 1 is lost\"}";
    static const char fine[] = "{\"type\":\"GPUsHealthy\",\"status\":\"True\",\"message\":\"4 devices\"}";
    const ClusterRequest four = {.gpu_milli = CLUSTER_GPU, .gpu_count = 4};
    CLEANUP(str_done) Str why = str_limited(ROOM);
    Live *live = new_live();
    uint16_t gpus;

    (void)state;
    for (unsigned usable = 4; usable >= 3; usable--) {   /* the kubelet learns of it a little later */
        put_ill_node(live, "a", 4, usable, "1,9", lost); /* of the ninth nothing is known */
        assert_int_equal(count_free(live, "a"), 3);
        assert_int_equal(judge(live, 4, "a"), LIVE_TOO_SMALL);
        assert_int_equal(reserve(live, "p", 3, "a", 9, &gpus), 0);
        assert_int_equal(gpus, 0xd);
        live_release(live, "p");
    }
    live_explain(live_find(live, "a", 1), &four, &why);
    assert_string_equal(why.text, "3 of 4 GPUs can be used, 4 wanted; 1 of 4 devices unhealthy: GPU 1 is lost");
    put_node(live, "a", 4, 4, fine);
    assert_int_equal(count_free(live, "a"), 4);
    put_ill_node(live, "a", 4, 2, "0,2", lost);
    assert_int_equal(reserve(live, "p", 2, "a", 9, &gpus), 0);
    assert_int_equal(gpus, 0xa);
    live_release(live, "p");
    put_ill_node(live, "a", 4, 1, "0,2", lost); /* others too, without a word */
    assert_int_equal(count_free(live, "a"), 1);
    put_ill_node(live, "a", 4, 3, "GPU 0", lost);
    assert_int_equal(reserve(live, "p", 3, "a", 9, &gpus), 0);
    assert_int_equal(gpus, 0x7);
    live_free(live);
}

/* --- dynamic resource allocation ---------------------------------------------------------------------------------- */

typedef int (*Change)(void *live, const json_t *object, bool gone, Err *err);

static void put_object(Live *live, Change change, const char *text, bool gone)
{
    json_t *object = parse(text);
    Err err = {0};

    if (change(live, object, gone, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(object);
}

/* `devices`: "gpu-0" is a GPU, "nic-0" none, "!gpu-0" one with a taint. */
static void put_slice(Live *live, const char *name, const char *node, unsigned generation, const char *const *devices)
{
    CLEANUP(str_done) Str text = str_limited(ROOM);

    str_addf(&text,
             "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"driver\":\"gpu.nvidia.com\",\"nodeName\":\"%s\",\"pool\":{"
             "\"name\":\"%s\",\"generation\":%u},\"devices\":[",
             name, node, node, generation);
    for (size_t i = 0; devices[i]; i++) {
        const bool tainted = devices[i][0] == '!';
        const char *device = devices[i] + tainted;

        str_addf(
            &text,
            "%s{\"name\":\"%s\",\"attributes\":{\"type\":{\"string\":\"%.3s\"},\"productName\":{\"string\":\"NVIDIA "
            "H100\"}},\"taints\":[{\"effect\":\"%s\"}]}",
            i ? "," : "", device, strstr(device, "-mig-") ? "mig" : device, tainted ? "NoSchedule" : "None");
    }
    str_add(&text, "]}}");
    put_object(live, live_change_slice, text.text, false);
}

static void put_claim(Live *live, const char *uid, const char *device, const char *more, bool gone)
{
    char text[ROOM];

    snprintf(text, sizeof text,
             "{\"metadata\":{\"uid\":\"%s\"%s},\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"driver\":"
             "\"gpu.nvidia.com\",\"pool\":\"a\",\"device\":\"%s\"}]},\"nodeSelector\":{\"nodeSelectorTerms\":[{"
             "\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"a\"]}]}]}}}}",
             uid, more, device);
    put_object(live, live_change_claim, text, gone);
}

static const char *const four[] = {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "nic-0", "gpu-3-mig-1g10gb-19-0", NULL};

static void a_node_has_the_gpus_of_its_slices(void **state)
{
    static const char *const less[] = {"gpu-0", "!gpu-1", "gpu-2", NULL};
    Live *live = new_live();
    uint16_t gpus = 1;

    (void)state;
    put_slice(live, "s", "a", 1, four); /* before the node */
    assert_int_equal(judge(live, 1, "a"), LIVE_UNKNOWN);
    put_node(live, "a", 0, 0, "");
    assert_int_equal(count_free(live, "a"), 4);
    for (int i = 0; i < 2; i++) { /* asked twice it is one pod, whose GPUs have no names */
        assert_int_equal(reserve(live, "p", 3, "a", 9, &gpus), 0);
        assert_int_equal(gpus, 0);
        assert_int_equal(count_free(live, "a"), 1);
    }
    assert_int_equal(reserve(live, "q", 2, "a", 9, &gpus), -EBUSY);
    live_release(live, "p");
    put_slice(live, "t", "a", 2, less); /* the older slice is of the past */
    assert_int_equal(count_free(live, "a"), 2);
    assert_int_equal(judge(live, 3, "a"), LIVE_TOO_SMALL);
    put_object(live, live_change_slice, "{\"metadata\":{\"name\":\"t\"}}", true);
    assert_int_equal(count_free(live, "a"), 4);
    put_node(live, "a", 2, 2, ""); /* of a device plugin: not twice */
    assert_int_equal(count_free(live, "a"), 2);
    assert_int_equal(reserve(live, "p", 2, "a", 9, &gpus), 0);
    assert_int_equal(gpus, 3);
    live_free(live);
}

static void what_claims_have_is_in_use(void **state)
{
    Live *live = new_live();

    (void)state;
    put_claim(live, "u", "gpu-1", "", false); /* before slices and node */
    put_slice(live, "s", "a", 1, four);
    put_node(live, "a", 0, 0, "");
    assert_int_equal(count_free(live, "a"), 3);
    put_claim(live, "v", "gpu-3-mig-1g10gb-19-0", "", false);
    put_claim(live, "w", "gpu-3-mig-1g10gb-19-1", "", false); /* of the same GPU */
    put_claim(live, "x", "nic-0", "", false);
    assert_int_equal(count_free(live, "a"), 2);
    put_claim(live, "e", "gpu-0", ",\"annotations\":{\"resource.kubernetes.io/extended-resource-claim\":\"true\"}",
              false); /* counted with its pod */
    assert_int_equal(count_free(live, "a"), 2);
    put_pod(live, "p", "a", 1, "");
    assert_int_equal(count_free(live, "a"), 1);
    put_claim(live, "u", "gpu-1", "", true);
    assert_int_equal(count_free(live, "a"), 2);
    put_object(live, live_change_claim, "{\"metadata\":{\"uid\":\"v\"},\"status\":{}}", false); /* deallocated */
    assert_int_equal(count_free(live, "a"), 2);
    put_object(live, live_change_claim, "{\"metadata\":{\"uid\":\"w\"},\"status\":{}}", false);
    assert_int_equal(count_free(live, "a"), 3);
    live_free(live);
}

static void a_list_of_slices_or_claims_is_whole(void **state)
{
    Live *live = new_live();

    (void)state;
    put_node(live, "a", 0, 0, "");
    live_begin_slices(live);
    put_slice(live, "s", "a", 1, four);
    assert_true(live_end_slices(live));
    live_begin_claims(live);
    put_claim(live, "u", "gpu-1", "", false);
    put_claim(live, "v", "gpu-2", "", false);
    assert_true(live_end_claims(live));
    assert_int_equal(count_free(live, "a"), 2);
    live_begin_claims(live);
    put_claim(live, "v", "gpu-2", "", false);
    assert_true(live_end_claims(live));
    assert_int_equal(count_free(live, "a"), 3);
    live_begin_slices(live);
    put_slice(live, "of-b", "b", 1, four);
    assert_true(live_end_slices(live));
    assert_int_equal(judge(live, 1, "a"), LIVE_UNKNOWN);
    assert_int_equal(live_counts(live).nodes, 2);
    live_begin_slices(live);
    assert_true(live_end_slices(live));
    assert_int_equal(live_counts(live).nodes, 1); /* b was known by its slice alone */
    live_free(live);
}

static void a_slice_that_is_odd_is_no_gpu(void **state)
{
    static const char *const odd[] = {
        "{\"metadata\":{\"name\":\"s\"}}",
        "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"nodeName\":\"a\",\"devices\":{}}}",
        "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"nodeName\":\"a\",\"devices\":[1,{},{\"name\":\"x\",\"attributes\":["
        "]}]}}",
    };
    static const char older[] = "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"nodeName\":\"a\",\"driver\":\"d\","
                                "\"devices\":[{\"name\":\"x\",\"basic\":{"
                                "\"attributes\":{\"d/type\":{\"string\":\"gpu\"}},\"taints\":3}}]}}";
    Live *live = new_live();
    Err err = {0};

    (void)state;
    put_node(live, "a", 0, 0, "");
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        put_object(live, live_change_slice, odd[i], false);
        assert_int_equal(judge(live, 1, "a"), LIVE_UNKNOWN);
    }
    put_object(live, live_change_slice, older, false);
    assert_int_equal(count_free(live, "a"), 1);
    json_t *none = parse("{}");
    assert_true(live_change_slice(live, none, false, &err) < 0 && live_change_claim(live, none, false, &err) < 0);
    json_decref(none);
    live_free(live);
}

/* How much better the node "a" is than "b" for a pod that either suits, where others want a's model or any. */
static double prefer_first(const char *selector)
{
    static const char node[] =
        "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"nvidia.com/gpu.product\":\"%s\"}},\"status\":{"
        "\"capacity\":{\"nvidia.com/gpu\":\"8\"},\"allocatable\":{\"cpu\":\"96\",\"nvidia.com/gpu\":\"8\"}}}";
    const ClusterRequest request = {.cpu_milli = 4000, .gpu_milli = CLUSTER_GPU, .gpu_count = 1};
    Live *live = new_live();
    double scores[2] = {0};
    char text[ROOM];
    Err err = {0};

    for (unsigned i = 0; i < 4; i++) { /* pods before nodes */
        snprintf(
            text, sizeof text,
            "{\"metadata\":{\"uid\":\"%u\"},\"spec\":{\"nodeName\":\"c\"%s,\"containers\":[{\"resources\":{\"limits\":{"
            "\"nvidia.com/gpu\":\"2\"}}}]}}",
            i, selector);
        json_t *pod = parse(text);
        assert_int_equal(live_change_pod(live, pod, false, &err), 0);
        json_decref(pod);
    }
    for (unsigned i = 0; i < 3; i++) {
        snprintf(text, sizeof text, node, (const char *[]){"a", "b", "c"}[i], i == 1 ? "Other" : "Wanted");
        json_t *object = parse(text);
        assert_int_equal(live_change_node(live, object, false, &err), 0);
        json_decref(object);
    }
    assert_int_equal(live_judge(live, &request, live_find(live, "a", 1), &scores[0]), LIVE_FITS);
    assert_int_equal(live_judge(live, &request, live_find(live, "b", 1), &scores[1]), LIVE_FITS);
    live_free(live);
    return scores[0] - scores[1];
}

static void a_model_that_others_need_is_kept(void **state)
{
    const double any = prefer_first("");

    (void)state;
    assert_true(prefer_first(",\"nodeSelector\":{\"nvidia.com/gpu.product\":\"Wanted\"}") < any);
    assert_true(prefer_first(",\"nodeSelector\":{\"nvidia.com/gpu.product\":\"Other\"}") > any);
}

/* --- reservations ------------------------------------------------------------------------------------------------- */

static void what_is_reserved_is_given_back_in_time(void **state)
{
    Live *live = new_live();
    uint16_t gpus = 0, again = 0;

    (void)state;
    put_node(live, "a", 4, 4, "");
    put_node(live, "b", 4, 4, "");
    assert_int_equal(reserve(live, "p", 2, "a", 100, &gpus), 0);
    assert_int_equal(reserve(live, "p", 2, "a", 100, &again), 0);
    assert_int_equal(gpus, again);
    assert_int_equal(count_free(live, "a"), 2);
    assert_true(reserve(live, "q", 3, "a", 100, &again) < 0);
    assert_int_equal(reserve(live, "p", 3, "b", 100, &again), 0); /* another node: not both */
    assert_int_equal(count_free(live, "a") + count_free(live, "b"), 5);
    put_pod(live, "p", NULL, 3, ""); /* told once more before it is bound */
    live_begin_pods(live);
    live_end_pods(live); /* and is not in a list of those that are */
    assert_int_equal(count_free(live, "b"), 1);
    live_tick(live, 99);
    assert_int_equal(live_counts(live).reserved, 1);
    live_tick(live, 100);
    assert_int_equal(live_counts(live).reserved, 0);
    assert_int_equal(count_free(live, "b"), 4);
    live_free(live);
}

static void a_pod_that_is_seen_is_reserved_no_more(void **state)
{
    Live *live = new_live();
    uint16_t gpus;

    (void)state;
    put_node(live, "a", 4, 4, "");
    assert_int_equal(reserve(live, "p", 2, "a", 100, &gpus), 0);
    put_pod(live, "p", "a", 2, "0,1");
    live_release(live, "p");
    live_tick(live, 1000);
    assert_int_equal(live_counts(live).reserved, 0);
    assert_int_equal(count_free(live, "a"), 2);
    put_pod(live, "p", NULL, 2, ""); /* it has no node any more */
    assert_int_equal(count_free(live, "a"), 4);
    assert_int_equal(reserve(live, "p", 2, "never", 100, &gpus), 0);
    assert_int_equal(gpus, 0);
    assert_int_equal(live_counts(live).reserved, 0);
    live_free(live);
}

/* --- a random cluster --------------------------------------------------------------------------------------------- */

enum { NODES = 5, PODS = 30, STEPS = 4000 };

typedef struct NaivePod {
    unsigned node, gpus; /* gpus 0: it is not there */
} NaivePod;

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % n;
}

static void change_at_random(Live *live, NaivePod *pod, const char *uid, uint64_t *seed)
{
    static const char *const held[] = {"", "0", "0,1", "0,1,2", "5,6,7"};
    const unsigned node = below(seed, NODES), gpus = 1 + below(seed, 3);
    char name[2] = {(char)('a' + node), 0};
    uint16_t got;

    switch (below(seed, 4)) {
    case 0:
        end_pod(live, uid, below(seed, 2));
        *pod = (NaivePod){0};
        break;
    case 1:
        if (pod->gpus == 0 && reserve(live, uid, gpus, name, UINT64_MAX, &got) == 0)
            *pod = (NaivePod){node, gpus};
        break;
    default:
        put_pod(live, uid, name, gpus, held[below(seed, ARRAY_LEN(held))]);
        *pod = (NaivePod){node, gpus};
    }
}

static void as_many_are_free_as_nobody_has(void **state)
{
    NaivePod pods[PODS] = {{0}};
    Live *live = new_live();
    uint64_t seed = 1;

    (void)state;
    for (char name[2] = "a"; name[0] < 'a' + NODES; name[0]++)
        put_node(live, name, 8, 8, "");
    for (unsigned step = 0; step < STEPS; step++) {
        const unsigned which = below(&seed, PODS);
        unsigned taken[NODES] = {0};
        char uid[8];

        snprintf(uid, sizeof uid, "p%u", which);
        change_at_random(live, &pods[which], uid, &seed);
        if (below(&seed, 50) == 0)
            live_tick(live, step * UINT64_C(1000000000)); /* nothing is due: all is made anew now and then */
        for (unsigned i = 0; i < PODS; i++)
            taken[pods[i].node] += pods[i].gpus;
        for (unsigned i = 0; i < NODES; i++)
            assert_int_equal(count_free(live, (char[2]){(char)('a' + i), 0}), taken[i] < 8 ? 8 - taken[i] : 0);
    }
    live_free(live);
}

/* --- kube-scheduler's JSON ---------------------------------------------------------------------------------------- */

static void names_are_read_by_hand(void **state)
{
    static const struct {
        const char *body, *error, *answer;
    } rows[] = {
        {"{\"Pod\":{},\"Nodes\":null,\"NodeNames\":[]}", NULL, "[]"},
        {" { \"NodeNames\" : [ \"a\" , \"b-1.c\" ] , \"Pod\" : { } } \n", NULL,
         "[{\"Host\":\"a\",\"Score\":0},{\"Host\":\"b-1.c\",\"Score\":0}]"},
        {"{\"Pod\":{},\"NodeNames\":[\"a\",]}", "NodeNames[1]", NULL},
        {"{\"Pod\":{},\"NodeNames\":[\"a\" \"b\"]}", "NodeNames does not end", NULL},
        {"{\"Pod\":{},\"NodeNames\":[\"a\"", "NodeNames does not end", NULL},
        {"{\"Pod\":{},\"NodeNames\":[\"a", "NodeNames[0]", NULL},
        {"{\"Pod\":{},\"NodeNames\":[\"\"]}", "NodeNames[0]", NULL},
        {"{\"Pod\":{},\"NodeNames\":[\"a\\u0062\"]}", "NodeNames[0]", NULL},
        {"{\"Pod\":{},\"NodeNames\":[\"a\"]", "does not end", NULL},
        {"{\"Pod\":{},\"NodeNames\":null}", "nodeCacheCapable", NULL},
        {"{\"Pod\":[],\"NodeNames\":[]}", "no Pod", NULL},
        {"{\"Pod\":{}", "does not end", NULL},
        {"{\"Pod\" {}}", "no JSON object", NULL},
        {"{3:4}", "no JSON object", NULL},
        {"{", "no JSON", NULL},
        {"", "no JSON object", NULL},
    };
    Live *live = new_live();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(str_done) Str out = str_limited(ROOM), filtered = str_limited(ROOM);
        Err err = {.text = ""};
        const size_t len = strlen(rows[i].body);
        const ExtenderOutcome outcome = extender_prioritize(live, true, rows[i].body, len, &out, &err);

        assert_int_equal(outcome, rows[i].error ? EXTENDER_REFUSED : EXTENDER_PASSED);
        assert_int_equal(extender_filter(live, true, rows[i].body, len, &filtered), outcome);
        if (rows[i].error) {
            assert_non_null(strstr(err.text, rows[i].error));
            assert_non_null(strstr(filtered.text, "{\"NodeNames\":[],"));
            assert_true(out.len == 0);
        } else {
            assert_string_equal(out.text, rows[i].answer);
        }
    }
    live_free(live);
}

static void without_facts_every_node_fits(void **state)
{
    static const char body[] =
        "{\"Pod\":{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"nvidia.com/gpu\":\"8\"}}}]}},"
        "\"NodeNames\":[\"a\",\"b\"]}";
    CLEANUP(str_done) Str open = str_limited(ROOM), decided = str_limited(ROOM);
    Live *live = new_live();

    (void)state;
    put_node(live, "a", 4, 4, "");
    assert_int_equal(extender_filter(live, false, body, strlen(body), &open), EXTENDER_OPEN);
    assert_string_equal(
        open.text, "{\"NodeNames\":[\"a\",\"b\"],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}");
    assert_int_equal(extender_filter(live, true, body, strlen(body), &decided), EXTENDER_DECIDED);
    assert_string_equal(decided.text,
                        "{\"NodeNames\":[\"b\"],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{\"a\":\"stoker: "
                        "4 of 4 GPUs can be used, 8 wanted\"},\"Error\":\"\"}");
    live_free(live);
}

/* Bridges between GPUs 0 and 2, and 1 and 3. */
static void gpus_that_go_well_together_are_chosen(void **state)
{
#define LINKED(text)                                                                                                   \
    "{'metadata':{'name':'a','annotations':{'stoker.dev/gpu-links':'" text                                             \
    "'}},'status':{'capacity':{'nvidia.com/gpu':'4'},'allocatable':{'cpu':'95','nvidia.com/gpu':'4'}}}"
    static const struct {
        const char *node;
        uint16_t two, one, held, two_beside; /* those chosen; two beside a pod that holds GPU `held` */
    } cases[] = {{LINKED("0,20,1820,20;0,20,1820;0,20;0"), 0x5, 0x1, 0, 0xa},
                 {LINKED("0,20,1820,20;0,20,1820;0,20;0"), 0x5, 0x1, 3, 0x5},
                 {LINKED("10,20,20,20;10,20,20;50,20;50"), 0xc, 0x1, 3, 0x5}, /* the network is near 2 and 3 */
                 {LINKED("0,20,1820;0,20;0"), 0x3, 0x1, 0, 0x6},              /* of three GPUs */
                 {LINKED("fast"), 0x3, 0x1, 0, 0x6}};
    Err err = {0};
    uint16_t gpus;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Live *live = new_live();
        char text[ROOM], held[2] = {(char)('0' + cases[i].held), '\0'};

        snprintf(text, sizeof text, "%s", cases[i].node);
        for (char *at = text; *at; at++)
            *at = *at == '\'' ? '"' : *at;
        json_t *node = parse(text);
        assert_int_equal(live_change_node(live, node, false, &err), 0);
        assert_int_equal(reserve(live, "p", 2, "a", 5, &gpus), 0);
        assert_int_equal(gpus, cases[i].two);
        live_release(live, "p");
        assert_int_equal(reserve(live, "p", 1, "a", 5, &gpus), 0);
        assert_int_equal(gpus, cases[i].one);
        live_release(live, "p");
        put_pod(live, "q", "a", 1, held);
        assert_int_equal(live_change_node(live, node, false, &err), 0); /* again: what it said is not forgotten */
        assert_int_equal(reserve(live, "p", 2, "a", 5, &gpus), 0);
        assert_int_equal(gpus, cases[i].two_beside);
        json_decref(node);
        live_free(live);
    }
}

static void a_binding_has_the_gpus(void **state)
{
    static const char body[] = "{\"PodName\":\"p\",\"PodNamespace\":\"team\",\"PodUID\":\"0e6c\",\"Node\":\"a.b\"}";
    CLEANUP(str_done) Str with = str_limited(ROOM), without = str_limited(ROOM);
    ExtenderBind bind;
    Err err = {0};

    (void)state;
    assert_int_equal(extender_read_bind(body, strlen(body), &bind, &err), 0);
    extender_write_binding(&bind, 0x8009, &with);
    assert_string_equal(with.text, "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"p\","
                                   "\"namespace\":\"team\",\"uid\":\"0e6c\","
                                   "\"annotations\":{\"stoker.dev/gpus\":\"0,3,15\",\"stoker.dev/"
                                   "placed-by\":\"stoker\"}},\"target\":{\"apiVersion\":"
                                   "\"v1\",\"kind\":\"Node\",\"name\":\"a.b\"}}");
    extender_write_binding(&bind, 0, &without);
    assert_null(strstr(without.text, "annotations"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_summed_as_the_scheduler_does),
        cmocka_unit_test(gpus_without_a_name_count),
        cmocka_unit_test(a_node_goes_and_comes_back),
        cmocka_unit_test(some_nodes_are_not_decided_on),
        cmocka_unit_test(a_broken_gpu_is_not_chosen),
        cmocka_unit_test(a_node_has_the_gpus_of_its_slices),
        cmocka_unit_test(what_claims_have_is_in_use),
        cmocka_unit_test(a_list_of_slices_or_claims_is_whole),
        cmocka_unit_test(a_slice_that_is_odd_is_no_gpu),
        cmocka_unit_test(a_model_that_others_need_is_kept),
        cmocka_unit_test(what_is_reserved_is_given_back_in_time),
        cmocka_unit_test(a_pod_that_is_seen_is_reserved_no_more),
        cmocka_unit_test(as_many_are_free_as_nobody_has),
        cmocka_unit_test(names_are_read_by_hand),
        cmocka_unit_test(without_facts_every_node_fits),
        cmocka_unit_test(gpus_that_go_well_together_are_chosen),
        cmocka_unit_test(a_binding_has_the_gpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
