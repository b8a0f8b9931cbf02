/* SPDX-License-Identifier: Apache-2.0 */
/* Any node under any configuration makes a page that a strict reader takes; and the reader refuses what it should. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "check.h"
#include "kit.h"
#include "../slow.h"

static uint64_t seed;

static uint64_t any(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % below;
}

static void any_text(char *out, size_t size)
{
    static const char bytes[] = "ab \"\\\n\t{}=,#\xc3\xbc\xff\xe2\x82\xac\x01";
    size_t len = any(size);

    for (size_t i = 0; i < len; i++)
        out[i] = bytes[any(sizeof bytes - 1)];
    out[len] = '\0';
}

static void any_reading(Reading *reading, uint64_t now)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        Sample *sample = &reading->sample[id];
        uint64_t time = now - any(5) * NS_PER_S;

        switch (any(5)) {
        case 0:
            sample_set_absent(sample, time, (Absence)any(ABSENCE_END));
            break;
        case 1:
            sample_set_double(sample, time, (double)any(1000000) / (double)(1 + any(1000)));
            break;
        case 2:
            sample_set_int64(sample, time, (int64_t)(any(UINT32_MAX) << any(30)));
            break;
        default:
            break;
        }
    }
    for (ReadingText text = 0; text < READING_TEXT_END; text++)
        any_text(reading->text[text], 20);
}

static void any_node(Kit *kit)
{
    kit_node(kit, any(KIT_GPUS + 1));
    any_text(kit->node.hostname, 30);
    kit->node.sampler_count = any(4);
    for (size_t i = 0; i < kit->node.sampler_count; i++) {
        kit->samplers[i].state = (SamplerState)any(SAMPLER_STATE_END);
        kit->samplers[i].rss_bytes = any(1000);
        any_text(kit->samplers[i].wchan, 20);
    }
    for (size_t i = 0; i < kit->node.gpu_count; i++) {
        NodeGpu *gpu = &kit->gpus[i];

        gpu->state = any(3) ? GPU_UP : (GpuState)any(GPU_STATE_END);
        gpu->gpm_known = any(2);
        any_text(gpu->reading.device.name, 30);
        if (!any(8)) { /* so little is known that two may look the same */
            gpu->reading.device.uuid[0] = '\0';
            gpu->reading.device.index = DEVICE_NO_NUMBER;
            gpu->reading.device.has_pci = any(2);
        }
        if (!any(3))
            kit_split(kit, i, any(KIT_INSTANCES + 1));
        any_reading(&gpu->reading, kit->node.time_ns);
        for (size_t k = 0; k < gpu->instance_count; k++) {
            gpu->instances[k].instance_head = any(4);
            any_text(gpu->instances[k].profile, 10);
            any_reading(&gpu->instances[k], kit->node.time_ns);
        }
    }
}

static void any_owners(Kit *kit)
{
    for (uint64_t i = any(10); i > 0; i--) {
        char id[64], pod[20], container[20];

        any_text(pod, sizeof pod);
        any_text(container, sizeof container);
        switch (any(3)) {
        case 0:
            snprintf(id, sizeof id, "GPU-%d::%d", (int)any(KIT_GPUS), (int)any(3));
            break;
        case 1:
            snprintf(id, sizeof id, "MIG-%d-%d", (int)any(KIT_GPUS), (int)any(KIT_INSTANCES));
            break;
        default:
            snprintf(id, sizeof id, "nvidia%d/gi%d", (int)any(KIT_GPUS), (int)(7 + any(3)));
            break;
        }
        kit_owner(kit, id, pod, container);
    }
}

static void any_config(Kit *kit)
{
    static const char *const selectors[] = {"f", "g", "i", "g+i", "g:0", "i:7"};
    ExporterConfig *config = &kit->config;
    Err err;

    config->profile = (ExporterProfile)any(4);
    config->no_hostname = any(2);
    config->old_namespace = any(2);
    config->replace_blanks = any(2);
    config->kubernetes = any(2);
    config->pod_uid = any(2);
    config->virtual_gpus = any(2);
    config->mig_totals = any(2);
    assert_int_equal(exporter_devices_parse(selectors[any(ARRAY_LEN(selectors))], &config->devices, &err), 0);
}

/* Every metric there is, under all its names, with any type. */
static char *any_csv(void)
{
    static const char *const types[] = {"gauge", "counter", "histogram", "summary", "label"};
    Str csv;

    str_init(&csv, 1 << 20);
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);

        if (any(2))
            str_addf(&csv, "%s,%s,\"he\\lp \"\" \n%d\"\n", metric->name,
                     metric->type == METRIC_LABEL ? "label" : types[any(20) ? any(2) : any(5)], (int)id);
        if (metric->newer.text && any(2))
            str_addf(&csv, "%s,%s,x\n", metric->newer.text, metric->type == METRIC_LABEL ? "label" : types[any(2)]);
    }
    str_add(&csv, "dcgm_gpu_temp,gauge,x\n");
    return str_take(&csv);
}

static void any_page(void **state)
{
    (void)state;
    for (seed = 1; seed < 120 / TEST_SLOW; seed++) {
        uint64_t begin = seed;
        JobAllocation jobs[2] = {{(uint32_t)any(8), DEVICE_NO_NUMBER, "1"}, {(uint32_t)any(8), 8, "2\n"}};
        WindowGpu window = {.gpu = {.bus = 0x1a}};
        Exporter *exporter;
        char *csv = any_csv();
        Str page, why;
        Kit kit;

        str_init(&page, 64 << 20);
        str_init(&why, 2000);
        any_node(&kit);
        any_owners(&kit);
        any_config(&kit);
        kit.input.jobs = jobs;
        kit.input.job_count = 2;
        exporter = kit_exporter(&kit, csv);
        for (int i = 0; i < READING_FAST_CAP; i++)
            window.value[i] = (WindowValue){.min = 1, .max = 3, .sum = 4, .count = any(3)};
        for (int tick = 0; tick < 3; tick++) {
            if (kit.node.gpu_count)
                kit_event(&kit, exporter, any(kit.node.gpu_count), any(100), kit.node.time_ns);
            exporter_tick(exporter, &kit.node);
            for (ExporterFormat format = EXPORTER_TEXT; format <= EXPORTER_OPENMETRICS; format++) {
                str_clear(&page);
                kit_add_page(&kit, exporter, format, &page);
                exporter_window(exporter, &kit.node, &window, 1, NS_PER_S, format, &page);
                if (!check_page(page.text, format == EXPORTER_OPENMETRICS, &why))
                    fail_msg("seed %d: %s", (int)begin, why.text);
            }
            kit_advance(&kit, 2 * NS_PER_S);
        }
        exporter_free(exporter);
        kit_done(&kit);
        free(csv);
        str_done(&page);
        str_done(&why);
        seed = begin;
    }
}

static void the_reader_is_strict(void **state)
{
#define HEAD "# HELP a x\n# TYPE a gauge\n"
    static const char *const fine[] = {HEAD "a 1\n", HEAD "a{} 1\n", HEAD "a{b=\"\\\\\\n\\\"\"} -1e-05\n", "",
                                       HEAD "a 1\na{b=\"1\"} 1\na{b=\"2\"} NaN\n"};
    static const char *const wrong[] = {
        "a 1\n",                                /* no head */
        HEAD,                                   /* no line */
        HEAD "a 1",                             /* no end */
        HEAD "a 1\na 2\n",                      /* twice */
        HEAD "b 1\n",                           /* another family */
        HEAD "a 1\n" HEAD "a 2\n",              /* family twice */
        HEAD "a{b=\"1\",b=\"2\"} 1\n",          /* label twice */
        HEAD "a{b=\"\xff\"} 1\n",               /* not UTF-8 */
        HEAD "a{b=\"\\x\"} 1\n",                /* no such escape */
        HEAD "a{b=\"1\n\"} 1\n",                /* a raw line end */
        HEAD "a{b=\"1\",} 1\n",                 /* comma */
        HEAD "a{1b=\"1\"} 1\n",                 /* label name */
        HEAD "a 0x10\n",                        /* value */
        HEAD "a  1\n",                          /* two blanks */
        HEAD "\n",                              /* an empty line */
        "# HELP a x\n# TYPE a label\na 1\n",    /* type */
        "# HELP a x\na 1\n",                    /* no TYPE */
        "# HELP a x\n# TYPE a counter\na -1\n", /* negative */
        "# HELP a \\x\n# TYPE a gauge\na 1\n",  /* escape in a help text */
    };
    static const char *const open_fine[] = {"# EOF\n", HEAD "a 1\n# EOF\n",
                                            "# HELP a x\n# TYPE a counter\na_total 1\n# EOF\n"};
    static const char *const open_wrong[] = {
        HEAD "a 1\n",                                                   /* no EOF */
        HEAD "a 1\n# EOF\na{b=\"1\"} 1\n",                              /* after EOF */
        "# HELP a x\n# TYPE a counter\na 1\n# EOF\n",                   /* no _total */
        "# HELP a_total x\n# TYPE a_total counter\na_total 1\n# EOF\n", /* _total in the family */
        "# HELP a x\n# TYPE a untyped\na 1\n# EOF\n",                   /* type of the other format */
    };
    Str why;

    (void)state;
    str_init(&why, 10000);
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        assert_true(check_page(fine[i], false, &why));
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_false(check_page(wrong[i], false, &why));
    for (size_t i = 0; i < ARRAY_LEN(open_fine); i++)
        assert_true(check_page(open_fine[i], true, &why));
    for (size_t i = 0; i < ARRAY_LEN(open_wrong); i++)
        assert_false(check_page(open_wrong[i], true, &why));
    str_done(&why);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_page),
        cmocka_unit_test(the_reader_is_strict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
