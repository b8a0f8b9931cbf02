/* SPDX-License-Identifier: Apache-2.0 */
/* The view of one GPU or MIG instance: what is wrong with it, its history, all its numbers, who uses it. */
#include "service/top/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/cleanup.h"
#include "engine/owner/holdings.h"
#include "service/who/who.h"

/* --- numbers ------------------------------------------------------------------------------------------------------ */

enum { LABEL_WIDTH = 20, COLUMN_WIDTH = 48 };

/* A row with METRIC_END is the title of a group. `always`: shown even when it was never sampled. */
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
    {"Temperature", METRIC_END, false},
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

/* A label and its text; `brief` is shown if the text does not fit, NULL none. */
static void draw_field(Pen *pen, Grid *grid, const char *label, Ink ink, const char *text, const char *brief)
{
    Area line = pen_line(pen, false);
    const int after = grid_text(grid, line, 1, 0, INK_DIM, label) + 1;

    line.width--;
    if (grid_text_width(text) <= line.width - LABEL_WIDTH - 2)
        grid_text(grid, line, LABEL_WIDTH + 2, 0, ink, text);
    else if (brief)
        grid_textf(grid, line, LABEL_WIDTH + 2, 0, ink, "- %s", brief);
    else
        grid_text(grid, line, after, 0, ink, text);
}

static void draw_identity(const Top *top, Pen *pen, Grid *grid, const GpuRow *row)
{
    const Reading *gpu = &row->gpu->reading, *own = row->reading;
    const uint64_t now = top->snapshot->node->time_ns, last = row->gpu->last_sample_ns;
    char pci[PCI_TEXT_CAP], sampled[64], age[HUMAN_MAX];

    snprintf(sampled, sizeof sampled, "%s", last == 0 ? "never" : "just now");
    if (last > 0 && now >= last)
        snprintf(sampled, sizeof sampled, "%s ago", human_age(age, now - last));
    const struct {
        const char *label, *text;
    } fields[] = {
        {"model", gpu->device.name},
        {"UUID", own->device.uuid},
        {"part of", row->instance ? gpu->device.uuid : ""},
        {"profile", own->profile},
        {"PCI address", gpu->device.has_pci ? pci_format(gpu->device.pci, PCI_FORM_SYSFS, pci) : ""},
        {"serial number", gpu->device.serial},
        {"architecture", gpu->device.arch ? device_arch_text(gpu->device.arch) : ""},
        {"VBIOS", gpu->text[READING_VBIOS_VERSION]},
        {"InfoROM", gpu->text[READING_INFOROM_IMAGE_VER]},
        {"driver", top->snapshot->node->driver_version},
        {"MIG layout", row->gpu->mig_layout},
        {"MIG layout changed", row->gpu->mig_changed},
        {"state", gpu_states[row->gpu->state].text},
        {"sampled", sampled},
        {"GPU performance mon.", !row->gpu->gpm_known ? ""
                                 : row->gpu->gpm      ? "yes"
                                                      : "this GPU does not have it"},
    };

    pen_title(pen, grid, "Identity");
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (fields[i].text[0])
            draw_field(pen, grid, fields[i].label, INK_PLAIN, fields[i].text, NULL);
}

/* A value that was never sampled says nothing about the device. */
static bool is_told(const Sample *sample, const Number *number)
{
    return number->always || sample->valid ||
           (sample->absence != ABSENCE_NOT_YET && sample->absence != ABSENCE_TURNED_OFF);
}

/* Fills column by column, as a newspaper; scrolls if it does not fit. The title of a group waits for a number of it. */
static void draw_numbers(Top *top, Grid *grid, Area area, const GpuRow *row)
{
    Pen pen = pen_begin(&top->numbers, area, area.width / COLUMN_WIDTH > 0 ? area.width / COLUMN_WIDTH : 1);
    const char *title = NULL;
    char text[NODE_WHY_CAP + 8];

    if (area.height <= 0)
        return;
    for (const Number *n = numbers; n < numbers + ARRAY_LEN(numbers) && row->gpu->state == GPU_UP; n++) {
        const Sample *sample = n->id == METRIC_END ? NULL : &row->reading->sample[n->id];

        if (!sample)
            title = n->label;
        if (!sample || !is_told(sample, n))
            continue;
        if (title)
            pen_title(&pen, grid, title);
        title = NULL;
        const Ink ink = n->id == METRIC_GPU_TEMP ? gpu_cause_ink(row, CAUSE_THERMAL, INK_PLAIN) : INK_PLAIN;
        if (!sample->valid)
            snprintf(text, sizeof text, "- %s", absences[sample->absence].text);
        draw_field(&pen, grid, n->label, sample->valid ? ink : INK_DIM,
                   sample->valid ? value_text(text, n->id, sample) : text,
                   sample->valid ? NULL : absences[sample->absence].key);
    }
    draw_identity(top, &pen, grid, row);
    pen_end(&pen, &top->numbers);
    list_mark(&top->numbers, grid, area);
}

/* --- the view ----------------------------------------------------------------------------------------------------- */

enum { SIDE_BY_SIDE = 130, USERS_MAX = 4, SHARERS_MAX = 6 };

static void draw_title(Top *top, Grid *grid, Area line, const GpuRow *row)
{
    const Reading *gpu = &row->gpu->reading;
    char pci[PCI_TEXT_CAP], text[TOP_TEXT_CAP * 2];
    int x = gpu->device.index == DEVICE_NO_NUMBER
                ? grid_text(grid, line, 0, 0, INK_STRONG, "GPU ?")
                : grid_textf(grid, line, 0, 0, INK_STRONG, "GPU %" PRIu32, gpu->device.index);

    if (row->instance)
        x = grid_textf(grid, line, x, 0, INK_STRONG, " → %s", instance_name(row->reading, text));
    x = grid_textf(grid, line, x, 0, INK_PLAIN, "  %s  %s", status_model(&gpu->device),
                   pci_format(gpu->device.pci, PCI_FORM_SYSFS, pci));
    if (row->gpu->state != GPU_UP)
        x = gpu_draw_down(top, grid, line, x + 2, row->gpu);
    if (gpu_owner(top, row, text)[0])
        x = grid_textf(grid, line, x, 0, INK_PLAIN, "  %s", text);
    if (line.width - x > 24)
        grid_right(grid, line, line.width, 0, INK_DIM, "← → other GPUs");
}

/* At most three lines behind their name. */
static void draw_passage(Grid *grid, Area *area, Ink ink, const char *name, const char *text)
{
    Area rest = *area;

    if (!text[0])
        return;
    rest.height = rest.height < 3 ? rest.height : 3;
    area_left(&rest, grid_textf(grid, rest, 0, 0, ink, "%s ", name));
    area_top(area, text_wrap(grid, rest, 0, INK_PLAIN, text));
}

/* What takes the time of one that somebody has; NULL: not known. */
static const WhyVerdict *find_verdict(const GpuRow *row)
{
    const Why *why = node_why(row->gpu, row->instance ? row->reading : NULL);
    const ActivityWord word = row->activity->word;
    const bool held = word == ACTIVITY_WORKING || word == ACTIVITY_WAITING || word == ACTIVITY_IDLE_HELD;

    return row->gpu->state == GPU_UP && held && why->count > 0 ? &why->verdicts[0] : NULL;
}

/* "98 % of 60 s, confidence high" */
static const char *write_share(const GpuRow *row, const WhyVerdict *verdict, char out[TOP_TEXT_CAP])
{
    const Why *why = node_why(row->gpu, row->instance ? row->reading : NULL);
    const char *sure = why_confidences[verdict->confidence].key;

    if (isfinite(verdict->share))
        snprintf(out, TOP_TEXT_CAP, "%.0f %% of %" PRIu32 " s, confidence %s", 100 * verdict->share, why->window_s,
                 sure);
    else
        snprintf(out, TOP_TEXT_CAP, "confidence %s", sure);
    return out;
}

static void draw_verdict(Grid *grid, Area *area, const GpuRow *row, const WhyVerdict *verdict, Ink ink,
                         const char *name)
{
    char text[WHY_TEXT_CAP * 2], share[TOP_TEXT_CAP];

    snprintf(text, sizeof text, "%s (%s)", verdict->text, write_share(row, verdict, share));
    draw_passage(grid, area, ink, name, text);
    draw_passage(grid, area, INK_STRONG, "DO", why_causes[verdict->cause].advice);
}

/* Its activity, or why it has no values. */
static void draw_why(Grid *grid, Area *area, const GpuRow *row)
{
    const Activity *a = row->activity;
    char word[32];

    if (row->gpu->state == GPU_UP) {
        const WhyVerdict *verdict = find_verdict(row);
        const WhyVerdict *notice = node_notice(row->gpu, row->instance ? row->reading : NULL);

        snprintf(word, sizeof word, "%s:", activity_words[a->word].key);
        if (verdict)
            draw_verdict(grid, area, row, verdict, activity_ink(a->word), word);
        else
            draw_passage(grid, area, activity_ink(a->word), word, a->text);
        if (notice && notice != verdict)
            draw_verdict(grid, area, row, notice, INK_WARN, "also:");
        draw_passage(grid, area, INK_DIM, "roof:", node_why(row->gpu, row->instance ? row->reading : NULL)->roof.text);
        return;
    }
    draw_passage(grid, area, INK_DIM, "no values:", gpu_why(row->gpu));
}

/* Those who share it: each with its part, how that was found, and its memory. */
static void draw_sharers(const Top *top, Grid *grid, Area *area, const GpuRow *row)
{
    size_t count;
    const Holding *list = who_list(top->snapshot, row->gpu, row->instance ? row->reading : NULL, &count);

    for (size_t i = 0; count > 1 && i < count && i < SHARERS_MAX; i++) {
        Str name;
        char text[TOP_TEXT_CAP * 4];
        const bool reserved = list[i].state == HOLDING_RESERVED;
        char memory[HUMAN_MAX] = "-";

        if (list[i].memory_bytes)
            human_bytes(memory, (double)list[i].memory_bytes);
        str_init_room(&name, text, sizeof text);
        owner_add_text(&list[i].owner, &name);
        const Area line = area_top(area, 1);
        const int x = grid_text(grid, line, 0, 0, INK_DIM, i == 0 ? "shared by " : "          ");
        grid_textf(grid, line, x, 0, INK_PLAIN, "%3.0f %% %-8s %-9s %9s  %s%s", 100 * list[i].share,
                   attributions[list[i].attribution].key,
                   reserved ? holding_states[HOLDING_RESERVED].key
                            : activity_words[holding_activity(&list[i], top->snapshot->node)].key,
                   memory, name.text, list[i].state == HOLDING_UNMANAGED ? " (unmanaged)" : "");
    }
}

/* Wide, its numbers are at the right of all else, else below. */
void view_gpu_draw(Top *top, Grid *grid, Area area)
{
    const GpuRow *row = top_followed(top);

    if (!row) {
        grid_text(grid, area, 1, 0, INK_WARN,
                  top->gpus.len ? "the GPU or instance that was followed is not there now; Escape goes back"
                                : "no GPU is known on this node");
        return;
    }
    draw_title(top, grid, area_top(&area, 1), row);
    const int least = area.height * 2 / 3; /* its open incidents take at most a third of the height */
    for (size_t i = 0; i < incidents_wrong(top) && area.height > least; i++)
        if (status_incident_on(top->incidents.at[i], row->gpu))
            incident_draw(top, grid, &area, top->incidents.at[i]);
    draw_why(grid, &area, row);
    draw_passage(grid, &area, INK_DIM, "MIG layout:", row->gpu->mig_change);
    draw_sharers(top, grid, &area, row);
    const bool wide = area.width >= SIDE_BY_SIDE, plotted = plots_there(top, row), large = area.height >= 20;
    const int users = row->gpu->process_count < USERS_MAX ? (int)row->gpu->process_count : USERS_MAX;
    Area left = area_left(&area, wide ? area.width * 3 / 5 : 0), *rest = wide ? &left : &area;
    if (wide) {
        area_left(&area, 1);
        left.width--;
    }
    const int height = wide ? left.height * 2 / 3 : area.height * 2 / 5 + !large;
    plots_draw(top, grid, area_top(rest, plotted ? height : 0), row);
    const int edges = grid->height >= PANEL_MANY ? PANEL_EDGES : 0;
    if (wide || large) {
        if (!row->instance && row->gpu->instance_count > 0)
            gpu_draw_instances(top, grid, area_top(rest, rest->height / 3), row);
        const Area place = wide ? left : area_top(&area, 1 + users + edges);
        process_lines_draw(top, grid, edges ? panel_open(grid, place, "Processes") : place, row);
    }
    draw_numbers(top, grid, edges ? panel_open(grid, area, "Numbers") : area, row);
}
