/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a page of a made-up node, with something in every family. usage: page PROFILE text|openmetrics */

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kit.h"

static ExporterProfile profile_of(const char *name)
{
    for (int i = 0; exporter_profile_names[i]; i++)
        if (strcmp(exporter_profile_names[i], name) == 0)
            return (ExporterProfile)i;
    fprintf(stderr, "page: no profile %s\n", name);
    exit(2);
}

static void make_node(Kit *kit)
{
    kit_node(kit, 4);
    kit_split(kit, 1, 3);
    kit_fill(kit, 1);
    kit->gpus[2].state = GPU_LOST;
    sample_set_absent(&kit->gpus[0].reading.sample[METRIC_MEMORY_TEMP], KIT_NOW, ABSENCE_NOT_SUPPORTED);
    kit->gpus[0].gpm_known = true;
    kit->node.sampler_count = 2;
    kit->samplers[0] = (NodeSampler){.state = SAMPLER_RUNNING, .rss_bytes = 4194304, .cpu_ns = 1500000000};
    kit->samplers[1] = (NodeSampler){
        .state = SAMPLER_STUCK, .gpu = "0000:1c:00.0", .function = "nvmlDeviceGetPowerUsage", .wchan = "d"};
    kit->input.self.pods_state = "ok";
    kit->input.self.cpu_ns = kit->input.self.open_fds = 7;
    kit->config.kubernetes = true;
    kit->config.mig_totals = true;
    kit_owner(kit, "GPU-0::0", "one \"x\"", "c");
    kit_owner(kit, "GPU-0::1", "two", "c");
}

int main(int argc, char **argv)
{
    ExporterFormat format = argc == 3 && strcmp(argv[2], "openmetrics") == 0 ? EXPORTER_OPENMETRICS : EXPORTER_TEXT;
    WindowGpu window = {.gpu = {.bus = 0x1a}};
    Exporter *exporter;
    Counters counters;
    Kit kit;
    Str page;

    if (argc != 3)
        return 2;
    make_node(&kit);
    kit.config.profile = profile_of(argv[1]);
    counters_init(&counters);
    counters_default(&counters);
    exporter = exporter_new(&kit.config, &counters, NULL);
    kit_event(&kit, exporter, 0, 45, kit.node.time_ns);
    exporter_tick(exporter, &kit.node);
    for (int i = 0; i < READING_FAST_CAP; i++)
        window.value[i] = (WindowValue){.min = 1, .max = 3, .sum = 4, .count = 2};
    str_init(&page, 16 << 20);
    kit_add_page(&kit, exporter, format, &page);
    exporter_window(exporter, &kit.node, &window, 1, NS_PER_S, format, &page);
    fwrite(page.text, 1, page.len, stdout);
    str_done(&page);
    exporter_free(exporter);
    kit_done(&kit);
    return 0;
}
