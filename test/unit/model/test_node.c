/* SPDX-License-Identifier: Apache-2.0 */
/* The words for states of GPUs and samplers (model/word.c): they are label values, so they never change unseen. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/node.h"

static void assert_key(const char *key)
{
    assert_true(strlen(key) > 0 && strspn(key, "abcdefghijklmnopqrstuvwxyz_") == strlen(key));
}

static void gpu_states_lead_back(void **state)
{
    (void)state;
    for (GpuState s = 0; s < GPU_STATE_END; s++) {
        assert_key(gpu_states[s].key);
        assert_true(strlen(gpu_states[s].text) > 5);
        assert_null(strpbrk(gpu_states[s].text, "\n\\\""));
        assert_int_equal(word_find(gpu_states, GPU_STATE_END, gpu_states[s].key), s);
        for (GpuState t = s + 1; t < GPU_STATE_END; t++)
            assert_string_not_equal(gpu_states[s].text, gpu_states[t].text);
    }
    assert_int_equal(word_find(gpu_states, GPU_STATE_END, ""), -1);
    assert_int_equal(word_find(gpu_states, GPU_STATE_END, "UP"), -1);
    assert_int_equal(word_find(gpu_states, GPU_STATE_END, "up "), -1);
    assert_int_equal(word_find(gpu_states, GPU_STATE_END, "hun"), -1);
    assert_int_equal(word_find(gpu_states, GPU_STATE_END, NULL), -1);
}

static void these_words_are_promised(void **state)
{
    static const char *const gpu[] = {"starting", "up",        "hung",     "lost",  "missing",
                                      "gone",     "no_driver", "released", "failed"};
    static const char *const sampler[] = {"free", "starting", "running", "stuck", "killed", "abandoned"};

    (void)state;
    assert_int_equal(sizeof gpu / sizeof gpu[0], GPU_STATE_END);
    for (GpuState s = 0; s < GPU_STATE_END; s++)
        assert_string_equal(gpu_states[s].key, gpu[s]);
    assert_int_equal(sizeof sampler / sizeof sampler[0], SAMPLER_STATE_END);
    for (SamplerState s = 0; s < SAMPLER_STATE_END; s++)
        assert_string_equal(sampler_states[s].key, sampler[s]);
}

/* Numbers as the driver has them, labels as dcgm-exporter. */
static void words_for_links(void **state)
{
    static const char *const keys[] = {"ok",
                                       "chipset_not_supported",
                                       "gpu_not_supported",
                                       "topology_not_supported",
                                       "disabled_by_regkey",
                                       "not_supported",
                                       "unknown"};
    static const char *const labels[] = {
        "OK",     "ChipsetNotSupported", "GPUNotSupported", "TopologyNotSupported", "DisabledByRegKey", "NotSupported",
        "Unknown"};

    (void)state;
    assert_int_equal(PEER_STATUS_END, 7);
    for (PeerStatus s = 0; s < PEER_STATUS_END; s++) {
        assert_key(peer_statuses[s].key);
        assert_string_equal(peer_statuses[s].key, keys[s]);
        assert_string_equal(peer_statuses[s].text, labels[s]);
    }
}

/* Zeroed memory says nothing good of a GPU. */
static void zeroes_mean_not_sampled(void **state)
{
    (void)state;
    assert_string_equal(gpu_states[0].key, "starting");
    assert_string_equal(sampler_states[0].key, "free");
}

static void a_process_is_on_its_instance(void **state)
{
    const Device instance = {.kind = DEVICE_COMPUTE_INSTANCE, .gpu_instance = 2, .compute_instance = 1};
    const NodeProcess on = {.gpu_instance = 2, .compute_instance = 1},
                      somewhere = {.gpu_instance = 2, .compute_instance = DEVICE_NO_NUMBER},
                      beside = {.gpu_instance = 2, .compute_instance = 0},
                      other = {.gpu_instance = 1, .compute_instance = 1},
                      whole = {.gpu_instance = DEVICE_NO_NUMBER, .compute_instance = DEVICE_NO_NUMBER};

    (void)state;
    assert_true(node_process_is_on(&on, &instance));
    assert_true(node_process_is_on(&somewhere, &instance));
    assert_false(node_process_is_on(&beside, &instance));
    assert_false(node_process_is_on(&other, &instance));
    assert_false(node_process_is_on(&whole, &instance));
}

/* What was not decided is unknown, not a stray pointer. */
static void activity_and_verdict_of_a_device(void **state)
{
    Reading instances[2] = {{.device = {.gpu_instance = 7}}, {.device = {.gpu_instance = 9, .compute_instance = 1}}};
    Activity words[2] = {{.word = ACTIVITY_FREE}, {.word = ACTIVITY_WAITING}};
    const Why whys[3] = {{.count = 1}, {.count = 2}, {.count = 3}};
    NodeGpu gpu = {.instances = instances, .instance_count = 2, .activity = {.word = ACTIVITY_WORKING}};

    (void)state;
    assert_ptr_equal(node_find_instance(&gpu, 9, 1), &instances[1]);
    assert_null(node_find_instance(&gpu, 9, 0));
    assert_int_equal(node_activity(&gpu, NULL)->word, ACTIVITY_WORKING);
    assert_int_equal(node_activity(&gpu, &instances[1])->word, ACTIVITY_UNKNOWN);
    assert_int_equal(node_why(&gpu, NULL)->count, 0);
    assert_int_equal(node_why(&gpu, &instances[1])->count, 0);
    gpu.instance_activity = words;
    gpu.verdicts = whys;
    gpu.instance_verdicts = whys + 1;
    assert_int_equal(node_activity(&gpu, &instances[1])->word, ACTIVITY_WAITING);
    assert_int_equal(node_why(&gpu, NULL)->count, 1);
    assert_int_equal(node_why(&gpu, &instances[1])->count, 3);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_for_links),
        cmocka_unit_test(activity_and_verdict_of_a_device),
        cmocka_unit_test(gpu_states_lead_back),
        cmocka_unit_test(these_words_are_promised),
        cmocka_unit_test(zeroes_mean_not_sampled),
        cmocka_unit_test(a_process_is_on_its_instance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
