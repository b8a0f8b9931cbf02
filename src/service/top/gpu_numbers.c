/* SPDX-License-Identifier: Apache-2.0 */
/* All numbers of one device by groups, with units, and the reason where there is none. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "service/top/table.h"
#include "service/top/value.h"
#include "service/top/inside.h"

enum { LINES_MAX = 192, LABEL_WIDTH = 20, COLUMN_WIDTH = 48 };

/* A row with METRIC_END is the title of what follows. `always`: shown even where nobody ever asked for it. */
typedef struct Number {
    const char *label;
    MetricId id;
    bool always;
} Number;

static const Number numbers[] = {
    {"Work", METRIC_END, false},
    {"SM active", METRIC_PROF_SM_ACTIVE, true},
    {"SM occupancy", METRIC_PROF_SM_OCCUPANCY, true},
    {"utilisation", METRIC_GPU_UTIL, true},
    {"tensor cores", METRIC_PROF_PIPE_TENSOR_ACTIVE, true},
    {"DRAM", METRIC_PROF_DRAM_ACTIVE, true},
    {"memory controller", METRIC_MEM_COPY_UTIL, false},
    {"graphics engine", METRIC_PROF_GR_ENGINE_ACTIVE, false},
    {"FP64", METRIC_PROF_PIPE_FP64_ACTIVE, false},
    {"FP32", METRIC_PROF_PIPE_FP32_ACTIVE, false},
    {"FP16", METRIC_PROF_PIPE_FP16_ACTIVE, false},
    {"encoder", METRIC_ENC_UTIL, false},
    {"decoder", METRIC_DEC_UTIL, false},
    {"Memory", METRIC_END, false},
    {"used", METRIC_FB_USED, true},
    {"free", METRIC_FB_FREE, true},
    {"reserved", METRIC_FB_RESERVED, false},
    {"total", METRIC_FB_TOTAL, true},
    {"BAR1 used", METRIC_BAR1_USED, false},
    {"BAR1 total", METRIC_BAR1_TOTAL, false},
    {"Power", METRIC_END, false},
    {"now", METRIC_POWER_USAGE, true},
    {"limit in force", METRIC_ENFORCED_POWER_LIMIT, true},
    {"limit set", METRIC_POWER_MGMT_LIMIT, false},
    {"limit as delivered", METRIC_POWER_MGMT_LIMIT_DEF, false},
    {"limit, highest", METRIC_POWER_MGMT_LIMIT_MAX, false},
    {"energy", METRIC_TOTAL_ENERGY_CONSUMPTION, false},
    {"Heat", METRIC_END, false},
    {"GPU", METRIC_GPU_TEMP, true},
    {"memory", METRIC_MEMORY_TEMP, true},
    {"left before slowdown", METRIC_GPU_TEMP_LIMIT, false},
    {"slows down at", METRIC_SLOWDOWN_TEMP, true},
    {"shuts off at", METRIC_SHUTDOWN_TEMP, false},
    {"meant for at most", METRIC_GPU_MAX_OP_TEMP, false},
    {"memory, at most", METRIC_MEM_MAX_OP_TEMP, false},
    {"fan", METRIC_FAN_SPEED, false},
    {"fans", METRIC_FANS, false},
    {"Clocks", METRIC_END, false},
    {"SM", METRIC_SM_CLOCK, true},
    {"SM, at most", METRIC_MAX_SM_CLOCK, false},
    {"SM, asked for", METRIC_APP_SM_CLOCK, false},
    {"memory", METRIC_MEM_CLOCK, true},
    {"memory, at most", METRIC_MAX_MEM_CLOCK, false},
    {"video", METRIC_VIDEO_CLOCK, false},
    {"performance state", METRIC_PSTATE, false},
    {"held down by", METRIC_CLOCKS_EVENT_REASONS, true},
    {"for power, in all", METRIC_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, false},
    {"for heat, driver", METRIC_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS, false},
    {"for heat, hardware", METRIC_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, false},
    {"for the power brake", METRIC_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, false},
    {"Links", METRIC_END, false},
    {"PCIe received", METRIC_PROF_PCIE_RX_BYTES, true},
    {"PCIe sent", METRIC_PROF_PCIE_TX_BYTES, true},
    {"PCIe generation", METRIC_PCIE_LINK_GEN, true},
    {"at most", METRIC_PCIE_MAX_LINK_GEN, false},
    {"PCIe lanes", METRIC_PCIE_LINK_WIDTH, true},
    {"at most", METRIC_PCIE_MAX_LINK_WIDTH, false},
    {"PCIe replays", METRIC_PCIE_REPLAY_COUNTER, false},
    {"NVLink, both ways", METRIC_NVLINK_BANDWIDTH_TOTAL, true},
    {"NVLink received", METRIC_PROF_NVLINK_RX_BYTES, false},
    {"NVLink sent", METRIC_PROF_NVLINK_TX_BYTES, false},
    {"NVLink flit errors", METRIC_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, false},
    {"NVLink data errors", METRIC_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, false},
    {"NVLink replays", METRIC_NVLINK_REPLAY_ERROR_COUNT_TOTAL, false},
    {"NVLink recoveries", METRIC_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, false},
    {"Errors", METRIC_END, false},
    {"ECC on", METRIC_ECC_CURRENT, true},
    {"ECC after a reset", METRIC_ECC_PENDING, false},
    {"corrected", METRIC_ECC_SBE_VOL_TOTAL, true},
    {"uncorrected", METRIC_ECC_DBE_VOL_TOTAL, true},
    {"corrected, ever", METRIC_ECC_SBE_AGG_TOTAL, false},
    {"uncorrected, ever", METRIC_ECC_DBE_AGG_TOTAL, false},
    {"rows remapped, corr.", METRIC_CORRECTABLE_REMAPPED_ROWS, false},
    {"rows remapped, unc.", METRIC_UNCORRECTABLE_REMAPPED_ROWS, true},
    {"remapping pending", METRIC_ROW_REMAP_PENDING, true},
    {"remapping failed", METRIC_ROW_REMAP_FAILURE, true},
    {"banks without spares", METRIC_BANKS_REMAP_ROWS_AVAIL_NONE, false},
    {"pages retired, single", METRIC_RETIRED_SBE, false},
    {"pages retired, double", METRIC_RETIRED_DBE, false},
    {"last XID", METRIC_XID_ERRORS, true},
    {"driver asks for", METRIC_GPU_RECOVERY_ACTION, false},
    {"Settings", METRIC_END, false},
    {"persistence mode", METRIC_PERSISTENCE_MODE, false},
    {"compute mode", METRIC_COMPUTE_MODE, false},
    {"MIG mode", METRIC_MIG_MODE, false},
    {"GSP firmware", METRIC_GSP_ENABLED, false},
};

typedef struct Line {
    const char *label; /* NULL: a blank line */
    const char *brief; /* instead of the value where that has no room; NULL none */
    bool title;
    Ink ink;
    char value[NODE_WHY_CAP + 8];
} Line;

typedef struct Page {
    Line at[LINES_MAX];
    size_t len;
} Page;

static Line *add(Page *page, const char *label)
{
    Line *line = &page->at[page->len < LINES_MAX - 1 ? page->len++ : LINES_MAX - 1];

    *line = (Line){.label = label, .ink = INK_PLAIN};
    return line;
}

static void add_title(Page *page, const char *title)
{
    if (page->len > 0)
        add(page, NULL);
    add(page, title)->title = true;
}

static void add_text(Page *page, const char *label, const char *text)
{
    Line *line;

    if (!text[0])
        return;
    line = add(page, label);
    snprintf(line->value, sizeof line->value, "%s", text);
}

static void identity(const Top *top, Page *page, const GpuRow *row)
{
    const Reading *gpu = &row->gpu->reading, *own = row->reading;
    char text[64], age[32];

    add_title(page, "Identity");
    add_text(page, "model", gpu->device.name);
    add_text(page, "UUID", own->device.uuid);
    add_text(page, "part of", row->instance ? gpu->device.uuid : "");
    add_text(page, "profile", own->profile);
    add_text(page, "PCI address", gpu->device.has_pci ? pci_format(gpu->device.pci, PCI_FORM_SYSFS, text) : "");
    add_text(page, "serial number", gpu->device.serial);
    add_text(page, "architecture", gpu->device.arch ? device_arch_text(gpu->device.arch) : "");
    add_text(page, "VBIOS", gpu->text[READING_VBIOS_VERSION]);
    add_text(page, "InfoROM", gpu->text[READING_INFOROM_IMAGE_VER]);
    add_text(page, "driver", top->snapshot->node->driver_version);
    add_text(page, "state", gpu_state_text(row->gpu->state));
    const uint64_t now = top->snapshot->node->time_ns, last = row->gpu->last_sample_ns;
    if (last > 0 && now >= last) {
        snprintf(text, sizeof text, "%s ago", text_age(now - last, age));
        add_text(page, "sampled", text);
    } else {
        add_text(page, "sampled", last > 0 ? "just now" : "never");
    }
    if (row->gpu->gpm_known)
        add_text(page, "GPU performance mon.", row->gpu->gpm ? "yes" : "this GPU does not have it");
}

/* What was never asked for says nothing about the device. */
static bool worth_telling(const Sample *sample)
{
    return sample->valid || (sample->absence != ABSENCE_NOT_YET && sample->absence != ABSENCE_TURNED_OFF);
}

/* A group whose numbers were never asked for is left out as a whole. */
static bool group_known(const Reading *reading, size_t title)
{
    for (size_t i = title + 1; i < ARRAY_LEN(numbers) && numbers[i].id != METRIC_END; i++) {
        const Sample *sample = &reading->sample[numbers[i].id];

        if (numbers[i].always || worth_telling(sample))
            return true;
    }
    return false;
}

static void add_number(Page *page, const Reading *reading, const Number *number)
{
    const Sample *sample = &reading->sample[number->id];
    char text[VALUE_CAP];

    if (!worth_telling(sample) && !number->always)
        return;
    Line *line = add(page, number->label);
    if (sample->valid) {
        snprintf(line->value, sizeof line->value, "%s", value_text(text, number->id, sample));
    } else {
        line->ink = INK_DIM;
        line->brief = absence_key(sample->absence);
        snprintf(line->value, sizeof line->value, "- %s", absence_text(sample->absence));
    }
    if (number->id == METRIC_GPU_TEMP)
        line->ink = value_temp_ink(reading);
}

static void collect(const Top *top, Page *page, const GpuRow *row)
{
    bool shown = false;

    for (size_t i = 0; i < ARRAY_LEN(numbers) && row->gpu->state == GPU_UP; i++) {
        if (numbers[i].id == METRIC_END) {
            shown = group_known(row->reading, i);
            if (shown)
                add_title(page, numbers[i].label);
        } else if (shown) {
            add_number(page, row->reading, &numbers[i]);
        }
    }
    identity(top, page, row);
}

static void draw_line(Grid *grid, Area row, const Line *line)
{
    if (!line->label)
        return;
    if (line->title) {
        grid_text(grid, row, 0, 0, INK_TITLE, line->label);
        return;
    }
    const int after = grid_text(grid, row, 1, 0, INK_DIM, line->label) + 1, room = row.width - LABEL_WIDTH - 2;

    if (grid_text_width(line->value) <= room)
        grid_text(grid, row, LABEL_WIDTH + 2, 0, line->ink, line->value);
    else if (line->brief)
        grid_textf(grid, row, LABEL_WIDTH + 2, 0, line->ink, "- %s", line->brief);
    else
        grid_text(grid, row, after, 0, line->ink, line->value);
}

/* Column by column, as a newspaper; what does not fit is scrolled by columns' lines. */
void numbers_draw(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    const int across = area.width / COLUMN_WIDTH > 0 ? area.width / COLUMN_WIDTH : 1;
    const int width = area.width / across;
    Page page = {.len = 0};
    List *list = &top->numbers;

    if (area.height <= 0)
        return;
    collect(top, &page, row);
    list->count = page.len;
    list->page = (size_t)(across * area.height);
    const size_t last = list->count > list->page ? list->count - list->page : 0;
    if (list->selected > last)
        list->selected = last;
    list->first = list->selected;
    size_t at = list->first;
    for (int column = 0; column < across; column++)
        for (int y = 0; y < area.height && at < page.len; y++, at++) {
            const Area place = {.x = area.x + column * width, .y = area.y + y, .width = width - 1, .height = 1};

            if (y == 0 && !page.at[at].label && ++at >= page.len)
                break;
            draw_line(grid, place, &page.at[at]);
        }
    list_mark(list, grid, area, 0);
}
