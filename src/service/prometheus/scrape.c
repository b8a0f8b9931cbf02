/* SPDX-License-Identifier: Apache-2.0 */
/* Minimum, mean and maximum since a scraper's last visit. Pure but for memory, one thread. */

#include "service/prometheus/scrape.h"

#include <string.h>

#include "base/duration.h"

typedef enum Part { PART_MAX, PART_MEAN, PART_MIN, PART_END } Part;

const char *scrape_base_name(MetricId id)
{
    switch (id) {
    case METRIC_SM_CLOCK:
        return "stoker_sm_clock_hertz";
    case METRIC_MEM_CLOCK:
        return "stoker_memory_clock_hertz";
    case METRIC_POWER_USAGE:
        return "stoker_power_watts";
    case METRIC_POWER_USAGE_INSTANT:
        return "stoker_power_instant_watts";
    case METRIC_GPU_UTIL:
        return "stoker_gpu_utilization_ratio";
    case METRIC_MEM_COPY_UTIL:
        return "stoker_memory_utilization_ratio";
    default:
        return NULL;
    }
}

static Family make_family(Arena *arena, const char *name, const char *help)
{
    Family family = {.name = name, .name_len = strlen(name), .type = FAMILY_GAUGE, .help = help, .view = LABELS_OWN};

    family_head(&family, arena);
    return family;
}

void scrape_make(ScrapeFamilies *families)
{
    static const char *const parts[PART_END] = {"max", "mean", "min"};
    static const char *const words[PART_END] = {"highest", "mean", "lowest"};
    Arena *arena = &families->arena;

    memset(families, 0, sizeof *families);
    for (int fast = 0; fast < READING_FAST_CAP; fast++) {
        MetricId id = metric_fast_at(fast);
        const char *base = id == METRIC_END ? NULL : scrape_base_name(id);

        for (Part part = 0; base && part < PART_END; part++)
            families->at[fast][part] =
                make_family(arena, arena_printf(arena, "%s_%s", base, parts[part]),
                     arena_printf(arena, "%s; %s since this scraper came last", metric_get(id)->help, words[part]));
    }
    families->window = make_family(arena, "stoker_window_seconds",
                            "Time since this scraper came last, which the lowest, mean and highest values are about");
}

void scrape_done(ScrapeFamilies *families)
{
    arena_done(&families->arena);
    memset(families, 0, sizeof *families);
}

static const WindowGpu *window_of(const WindowGpu *windows, size_t count, const Reading *gpu)
{
    for (size_t i = 0; gpu->device.has_pci && i < count; i++)
        if (pci_compare(windows[i].gpu, gpu->device.pci) == 0)
            return &windows[i];
    return NULL;
}

static double part_of(const WindowValue *value, Part part)
{
    switch (part) {
    case PART_MAX:
        return value->max;
    case PART_MIN:
        return value->min;
    default:
        return value->sum / (double)value->count;
    }
}

static void write_part(Page *page, const Family *family, int fast, Part part, const WindowGpu *windows, size_t count)
{
    double factor = unit_factor(metric_get(metric_fast_at(fast))->unit);

    for (size_t i = 0; i < page->targets->gpu_count; i++) {
        const Target *target = &page->targets->gpus[i];
        const WindowGpu *window = window_of(windows, count, &page_gpu(page, target)->reading);

        if (window && window->value[fast].count)
            page_target(page, family, target, page_scaled(part_of(&window->value[fast], part), factor));
    }
}

void scrape_write(Page *page, const ScrapeFamilies *families, const WindowGpu *windows, size_t count, uint64_t span_ns)
{
    for (int fast = 0; fast < READING_FAST_CAP; fast++)
        for (Part part = 0; families->at[fast][0].name && part < PART_END; part++)
            write_part(page, &families->at[fast][part], fast, part, windows, count);
    if (count)
        page_plain(page, &families->window, (double)span_ns / (double)NS_PER_S);
}
