/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of `stoker status`: what is wrong first, then the table, as much of both as the screen holds. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/human.h"
#include "base/number.h"
#include "base/utf8.h"
#include "engine/health/incidents.h"
#include "engine/owner/holdings.h"
#include "service/incident/incident.h"
#include "service/status/status.h"
#include "service/who/who.h"

enum {
    WIDTH_MIN = 40,
    VERDICT_CAP = 256,
    CELL_CAP = 64,
    NAME_LEAST = 14,
    NAME_MOST = 20,
    ACTIVITY_WIDTH = 9,
    INDENT = 9, /* as of an incident's card */
    OWNERS_MAX = 4096,
    WAITERS_CAP = 96,
    WINDOW_MAX = 4096,
    WIDE = 100, /* columns of a screen from which on it has power limits, why clocks are low, and sharers stand below
                 * the owner column */
    REASON_WIDTH = 11,
};

/* How much of the node's table is shown. */
typedef enum StatusTable {
    STATUS_TABLE_ALL,
    STATUS_TABLE_GPUS,   /* MIG devices are counted behind their GPU */
    STATUS_TABLE_FAULTY, /* GPUs that something is wrong with; the others are one line */
    STATUS_TABLE_NONE,   /* one line */
} StatusTable;

typedef struct StatusScreen {
    const Snapshot *seen;
    const Node *node;
    const StatusStyle *style;
    int name_width;   /* of the models in the table */
    int reason_width; /* of why clocks are low; 0: no clock is, or there is no room */
    Str *out;
} StatusScreen;

/* What is shown, the richest first; the first that the screen holds is taken, or the last. */
typedef struct Plan {
    size_t full, incidents; /* with everything, and in all */
    StatusTable table;
    bool advice; /* GPUs that do not work have their verdict with what to do, where nothing is worse; else one line */
} Plan;

static const Plan plans[] = {
    {6, 6, STATUS_TABLE_ALL, true},     {6, 6, STATUS_TABLE_ALL, false},    {1, 6, STATUS_TABLE_ALL, false},
    {1, 6, STATUS_TABLE_GPUS, false},   {1, 6, STATUS_TABLE_FAULTY, false}, {1, 3, STATUS_TABLE_FAULTY, false},
    {1, 2, STATUS_TABLE_FAULTY, false}, {1, 3, STATUS_TABLE_NONE, false},   {1, 2, STATUS_TABLE_NONE, false},
    {0, 2, STATUS_TABLE_NONE, false},
};

static const char *const severity_colours[SEVERITY_END] = {"2", "33", "31", "1;31"};

/* An SGR code, where colours are wanted. */
static void set_colour(const StatusScreen *s, const char *code)
{
    if (s->style->colour)
        str_addf(s->out, "\033[%sm", code);
}

static size_t screen_width(const StatusScreen *s)
{
    return s->style->width < WIDTH_MIN ? WIDTH_MIN : s->style->width;
}

/* Bytes of an escape sequence at `text`; 0: none is there. */
static size_t escape_len(const char *text)
{
    size_t len = 0;

    if (text[0] != '\033')
        return 0;
    while (text[len] && text[len] != 'm')
        len++;
    return len + (text[len] == 'm');
}

static bool begins_column(const char *text)
{
    return ((unsigned char)*text & 0xc0) != 0x80;
}

static const char *choose_ellipsis(const StatusScreen *s)
{
    return s->style->utf8 ? "…" : "...";
}

static void cut_blanks(const StatusScreen *s, size_t start)
{
    while (s->out->len > start && s->out->text[s->out->len - 1] == ' ')
        str_cut(s->out, s->out->len - 1);
}

/* Ends the line that began at byte `start`, without blanks at its end. One that the screen does not hold is cut behind
 * a word, if that leaves a quarter of the line empty at most, and ends with an ellipsis. */
static void end_line(const StatusScreen *s, size_t start)
{
    const size_t width = screen_width(s), room = width - utf8_count(choose_ellipsis(s), strlen(choose_ellipsis(s)));
    size_t at, escape, columns = 0, word = 0, cut = start;
    bool coloured = false;

    cut_blanks(s, start);
    for (at = start; at < s->out->len; at += escape ? escape : 1) {
        escape = escape_len(s->out->text + at);
        coloured |= escape > 0;
        if (escape > 0 || !begins_column(s->out->text + at))
            continue;
        if (columns <= room) {
            cut = at;
            word = s->out->text[at] == ' ' && columns >= room * 3 / 4 ? at : word;
        }
        if (columns++ == width)
            break;
    }
    if (at < s->out->len) {
        str_cut(s->out, word > 0 ? word : cut);
        cut_blanks(s, start);
        if (coloured)
            set_colour(s, "0");
        str_add(s->out, choose_ellipsis(s));
    }
    str_addc(s->out, '\n');
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

/* As many as the line has room for. */
static void write_names(const StatusScreen *s, const StatusNames *names)
{
    size_t columns = sizeof " Problem and 1000 more", i;

    for (i = 0; i < names->len; i++) {
        columns += 2 + strlen(names->at[i]);
        if (i > 0 && columns > screen_width(s))
            break;
        str_addf(s->out, "%s%s", i ? ", " : " ", names->at[i]);
    }
    if (names->all > i)
        str_addf(s->out, " and %zu more", names->all - i);
}

/* A GPU that gives no data and was not taken out by an operator; NULL: none. */
static const NodeGpu *find_unknown_gpu(const Node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        if (gpu->state != GPU_UP && !node_is_taken_out(gpu))
            return gpu;
    }
    return NULL;
}

/* What keeps us from telling: a node without a driver, nothing read yet, a GPU that gives no data and that no incident
 * explains yet. */
static const char *explain_unknown(const Node *node, char out[VERDICT_CAP])
{
    const NodeGpu *gpu = find_unknown_gpu(node);
    char name[PCI_TEXT_CAP];

    if (status_no_driver(node))
        return status_no_driver(node);
    if (!gpu || (gpu->state == GPU_STARTING && gpu->last_sample_ns == 0))
        return "Unknown: nothing has been sampled yet";
    if (gpu->reading.device.index == DEVICE_NO_NUMBER)
        pci_format(gpu->reading.device.pci, PCI_FORM_SYSFS, name);
    else
        snprintf(name, sizeof name, "%" PRIu32, gpu->reading.device.index);
    snprintf(out, VERDICT_CAP, "Unknown: GPU %s: %s", name, gpu->why[0] ? gpu->why : gpu_states[gpu->state].text);
    return out;
}

/* One line that says whether anything is wrong, and with what. */
static void verdict_line(const StatusScreen *s, const Incident *const *urgent, size_t count)
{
    const int code = status_code(s->seen);
    const size_t start = s->out->len;
    char why[VERDICT_CAP];

    if (code != 1) {
        set_colour(s, code == 0 ? "1;32" : "1;33");
        if (code == 0)
            str_add(s->out, "All healthy");
        else if (s->node->gpu_count == 0) /* it holds a command that must not be broken */
            str_add(s->out, explain_unknown(s->node, why));
        else {
            str_add_wrapped(s->out, explain_unknown(s->node, why), 0, INDENT, screen_width(s));
            str_cut(s->out, s->out->len - 1);
        }
        set_colour(s, "0");
        str_addc(s->out, '\n');
        return;
    }
    const StatusNames names = status_name_problems(urgent, count);
    set_colour(s, urgent[0]->severity > SEVERITY_WARNING ? "1;37;41" : "1;30;43");
    str_add(s->out, s->style->colour ? " Problem " : "Problem:");
    set_colour(s, "0");
    set_colour(s, "1");
    write_names(s, &names);
    set_colour(s, "0");
    end_line(s, start);
}

/* Who waits because of an incident: "7 GPUs wait for GPU 3, at about 44 % of its speed"; "" nobody. */
static const char *write_waiters(const StatusScreen *s, const Incident *incident, char text[WAITERS_CAP])
{
    text[0] = '\0';
    for (size_t i = 0; i < s->node->gpu_count; i++) {
        const NodeGpu *gpu = &s->node->gpus[i];
        const uint32_t n = gpu->activity.waiters;

        if (n == 0 || !status_incident_on(incident, gpu))
            continue;
        const int len = snprintf(text, WAITERS_CAP, "%" PRIu32 " GPU%s wait%s for GPU %" PRIu32, n, n == 1 ? "" : "s",
                                 n == 1 ? "s" : "", gpu->reading.device.index);
        if (isfinite(gpu->activity.waiters_speed))
            snprintf(text + len, WAITERS_CAP - (size_t)len, ", at about %.0f %% of its speed",
                     100 * gpu->activity.waiters_speed);
    }
    return text;
}

static void incident_lines(const StatusScreen *s, const Plan *plan, const Incident *const *urgent, size_t count)
{
    const IncidentStyle style = {
        .width = screen_width(s), .colour = s->style->colour, .utf8 = s->style->utf8, .real_ns = s->node->real_ns};
    const size_t shown = count < plan->incidents ? count : plan->incidents;
    size_t full = 0;
    char waiters[WAITERS_CAP];

    if (count == 0)
        return;
    str_addc(s->out, '\n');
    for (; full < plan->full && full < shown && incident_is_problem(urgent[full]); full++)
        incident_card(urgent[full], write_waiters(s, urgent[full], waiters), &style, s->out);
    if (shown > full)
        incidents_text(urgent + full, shown - full, &style, s->out);
    if (count > shown)
        str_addf(s->out, "and %zu more: stoker incidents\n", count - shown);
}

/* --- the table ------------------------------------------------------------------------------------------------------
 */

/* What a GPU does: a value, or a value of its limit ("643/700W"). `width` with the unit. */
static const struct {
    const char *title, *unit;
    MetricId of, limit; /* METRIC_END: none */
    double scale;
    int width, narrow; /* narrow: on a screen that is not wide, without the limit where it is less */
    size_t mean;       /* of the last minute, in Activity: what the word goes by; 0: the newest reading */
} work_columns[] = {
    {"util", "%", METRIC_END, METRIC_END, 100, 5, 5, offsetof(Activity, utilization)},
    {"SM", "%", METRIC_END, METRIC_END, 100, 5, 5, offsetof(Activity, sm_active)},
    {"memory", "G", METRIC_FB_USED, METRIC_FB_TOTAL, 1. / 1024, 9, 9, 0},
    {"power", "W", METRIC_POWER_USAGE, METRIC_ENFORCED_POWER_LIMIT, 1, 9, 5, 0},
    {"temp", "C", METRIC_GPU_TEMP, METRIC_END, 1, 4, 4, 0},
    {"MHz", "", METRIC_SM_CLOCK, METRIC_END, 1, 4, 4, 0},
};

static int find_width(const StatusScreen *s, size_t column)
{
    return screen_width(s) < WIDE ? work_columns[column].narrow : work_columns[column].width;
}

/* The value of a column; false where it is not known. */
static bool find_value(size_t column, const Activity *activity, const Reading *r, double *ret)
{
    if (!work_columns[column].mean)
        return sample_double(&r->sample[work_columns[column].of], ret);
    memcpy(ret, (const char *)activity + work_columns[column].mean, sizeof *ret);
    return isfinite(*ret);
}

static void work_cells(const StatusScreen *s, const Activity *activity, const Reading *r)
{
    for (size_t i = 0; i < ARRAY_LEN(work_columns); i++) {
        const int width = find_width(s, i);
        const MetricId limit = width < work_columns[i].width ? METRIC_END : work_columns[i].limit;
        const double scale = work_columns[i].scale;
        const char *unit = work_columns[i].unit;
        double value, most;
        char text[CELL_CAP];

        if (!find_value(i, activity, r, &value))
            snprintf(text, sizeof text, unit[0] && work_columns[i].limit == METRIC_END ? "- " : "-");
        else if (limit == METRIC_END || !sample_double(&r->sample[limit], &most))
            snprintf(text, sizeof text, "%.0f%s", value * scale, unit);
        else
            snprintf(text, sizeof text, "%.0f/%.0f%s", value * scale, most * scale, unit);
        str_addf(s->out, " %*s", width, text);
    }
    if (s->reason_width > 0)
        str_addf(s->out, " %-*s", s->reason_width, status_throttle(r));
}

/* Columns of the line that began at byte `start`, escape sequences left out. */
static size_t count_columns(const StatusScreen *s, size_t start)
{
    size_t columns = 0;

    for (size_t at = start; at < s->out->len;) {
        const size_t escape = escape_len(s->out->text + at);

        columns += escape == 0 && begins_column(s->out->text + at);
        at += escape ? escape : 1;
    }
    return columns;
}

/* Who holds it, as much of that as the line has room for. */
static void owner_cell(const StatusScreen *s, size_t start, const NodeGpu *gpu, const Reading *instance)
{
    size_t count;
    const Holding *list = who_list(s->seen, gpu, instance, &count);
    const char *mark = choose_ellipsis(s);
    const size_t columns = count_columns(s, start) + 2, width = screen_width(s),
                 marked = utf8_count(mark, strlen(mark));
    CLEANUP(str_done) Str name = str_limited(OWNERS_MAX);

    if (count == 0 || columns + marked > width)
        return;
    const size_t room = width - columns;
    if (count > 1)
        str_addf(&name, "%zu owners", count);
    else
        who_add_holders(list, count, room, &name);
    if (utf8_count(name.text, name.len) > room) {
        size_t at = 0;

        for (size_t kept = 0; !begins_column(&name.text[at]) || kept < room - marked; at++)
            kept += begins_column(&name.text[at]);
        str_cut(&name, at);
        str_add(&name, mark);
    }
    str_addf(s->out, "  %s", name.text);
}

/* Those who share a device, each with its part of it and how that was found. */
static void sharer_lines(const StatusScreen *s, const NodeGpu *gpu, const Reading *instance)
{
    size_t count;
    const Holding *list = who_list(s->seen, gpu, instance, &count);

    for (size_t i = 0; count > 1 && i < count; i++) {
        const size_t start = s->out->len;
        CLEANUP(str_done) Str name = str_limited(OWNERS_MAX);
        char share[CELL_CAP], memory[HUMAN_MAX];

        owner_add_text(&list[i].owner, &name);
        snprintf(share, sizeof share, "%3.0f %% %s", 100 * list[i].share, attributions[list[i].attribution].key);
        str_addf(s->out, "      %-*s %-*s%22s%*s%s", s->name_width, share, ACTIVITY_WIDTH,
                 list[i].state == HOLDING_RESERVED ? holding_states[HOLDING_RESERVED].key
                                                   : activity_words[holding_activity(&list[i], s->node)].key,
                 list[i].memory_bytes ? human_bytes(memory, (double)list[i].memory_bytes) : "-",
                 screen_width(s) < WIDE ? 2 : 22 + (s->reason_width ? 1 + s->reason_width : 0), "", name.text);
        if (list[i].state == HOLDING_UNMANAGED)
            str_addf(s->out, " (%s)", holding_states[HOLDING_UNMANAGED].key);
        end_line(s, start);
    }
}

/* Its number; where something is wrong with it, returns true, with a mark and the colour of that switched on. */
static bool index_cell(const StatusScreen *s, const NodeGpu *gpu)
{
    const Device *device = &gpu->reading.device;
    const FaultSeverity severity = status_severity(s->seen->incidents, s->seen->incident_count, gpu);
    const bool faulty = severity > SEVERITY_INFO;

    if (faulty)
        set_colour(s, severity_colours[severity]);
    str_addc(s->out, faulty ? '>' : ' ');
    if (device->index == DEVICE_NO_NUMBER)
        str_add(s->out, "  ?");
    else
        str_addf(s->out, "%3" PRIu32, device->index);
    return faulty;
}

static void instance_lines(const StatusScreen *s, const NodeGpu *gpu)
{
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *r = &gpu->instances[i];
        const size_t start = s->out->len;
        char number[24];

        snprintf(number, sizeof number, "%" PRIu32 "/%" PRIu32, r->device.gpu_instance, r->device.compute_instance);
        str_addf(s->out, "      %-4s %-*s%-*s", number, s->name_width - 4, r->profile, ACTIVITY_WIDTH,
                 activity_words[node_activity(gpu, r)->word].key);
        work_cells(s, node_activity(gpu, r), r);
        owner_cell(s, start, gpu, r);
        end_line(s, start);
        sharer_lines(s, gpu, r);
    }
}

static void gpu_line(const StatusScreen *s, const NodeGpu *gpu, StatusTable how)
{
    const size_t start = s->out->len;
    char age[DURATION_TEXT_MAX], pci[PCI_TEXT_CAP];
    const Device *d = &gpu->reading.device;

    const bool faulty = index_cell(s, gpu);
    str_addf(s->out, "  %-*.*s", s->name_width, s->name_width,
             d->name[0] ? status_model(d) : pci_format(d->pci, PCI_FORM_SYSFS, pci));
    str_addf(s->out, " %-*s", ACTIVITY_WIDTH, activity_words[gpu->activity.word].key);
    if (gpu->state == GPU_UP) {
        if (faulty)
            set_colour(s, "0");
        work_cells(s, &gpu->activity, &gpu->reading);
        if (how != STATUS_TABLE_ALL && gpu->instance_count > 0)
            str_addf(s->out, " %zu MIG", gpu->instance_count);
        else
            owner_cell(s, start, gpu, NULL);
    } else {
        uint64_t since = s->node->time_ns > gpu->state_since_ns ? s->node->time_ns - gpu->state_since_ns : 0;

        duration_format(age, since - since % NS_PER_S);
        set_colour(s, gpu->state == GPU_STARTING || gpu->state == GPU_RELEASED ? "33" : "1;31");
        str_addf(s->out, " %s for %s", gpu->state == GPU_NO_DRIVER ? "no driver" : gpu_states[gpu->state].key, age);
        set_colour(s, "0");
    }
    end_line(s, start);
    if (how == STATUS_TABLE_ALL && gpu->state == GPU_UP) {
        sharer_lines(s, gpu, NULL);
        instance_lines(s, gpu);
    }
}

static void write_head(const StatusScreen *s)
{
    const size_t start = s->out->len;

    set_colour(s, "2");
    str_addf(s->out, "%4s  %-*s %-*s", "GPU", s->name_width, "", ACTIVITY_WIDTH, "activity");
    for (size_t i = 0; i < ARRAY_LEN(work_columns); i++)
        str_addf(s->out, " %*s", find_width(s, i), work_columns[i].title);
    if (s->reason_width > 0)
        str_addf(s->out, " %-*s", s->reason_width, "slowed by");
    str_add(s->out, s->seen->holding_count > 0 ? "  owner" : "");
    set_colour(s, "0");
    end_line(s, start);
}

/* What is left out, in one line. */
static void left_out(const StatusScreen *s, size_t gpus, size_t instances)
{
    const size_t start = s->out->len;

    if (gpus == 0 && instances == 0)
        return;
    set_colour(s, "2");
    if (gpus > 0)
        str_addf(s->out, "%zu GPU%s without a problem not listed; ", gpus, gpus == 1 ? "" : "s");
    else
        str_addf(s->out, "%zu MIG devices not listed; ", instances);
    str_add(s->out, "all: stoker status --all");
    set_colour(s, "0");
    end_line(s, start);
}

static void write_table(const StatusScreen *s, StatusTable how)
{
    size_t gpus = 0, instances = 0;

    if (s->node->gpu_count == 0)
        return;
    if (how == STATUS_TABLE_NONE) {
        set_colour(s, "2");
        str_addf(s->out, "%zu GPUs not listed; all: stoker status --all", s->node->gpu_count);
        set_colour(s, "0");
        str_addc(s->out, '\n');
        return;
    }
    for (size_t i = 0; i < s->node->gpu_count; i++) {
        const NodeGpu *gpu = &s->node->gpus[i];

        if (how == STATUS_TABLE_FAULTY && gpu->state == GPU_UP &&
            status_severity(s->seen->incidents, s->seen->incident_count, gpu) == SEVERITY_INFO) {
            gpus++;
            continue;
        }
        if (i == gpus) /* the first that is listed */
            write_head(s);
        instances += how != STATUS_TABLE_ALL && gpu->state == GPU_UP ? gpu->instance_count : 0;
        gpu_line(s, gpu, how);
    }
    left_out(s, gpus, instances);
}

/* --- the screen --------------------------------------------------------------------------------------------------- */

static void window_lines(const StatusScreen *s)
{
    const Maintenance *maintenance = s->seen->maintenance;

    for (size_t i = 0; maintenance && i < maintenance_count(maintenance); i++) {
        const MaintenanceWindow *window = maintenance_at(maintenance, i);
        CLEANUP(str_done) Str text = str_limited(WINDOW_MAX);
        char until[CLOCK_TEXT_MAX];

        if (!window->active)
            continue;
        clock_format(until, window->until_real_ns);
        str_add(&text, "maintenance ");
        status_add_scope(window, &text);
        str_addf(&text, " until %.10s %.8sZ: %s (%s, %s)", until, until + 11, window->reason, window->who, window->id);
        str_add_wrapped(s->out, text.text, 0, INDENT, screen_width(s));
    }
}

/* "5 working, 1 waiting, 2 free" */
static void count_activities(const StatusScreen *s, Str *out)
{
    static const ActivityWord order[] = {ACTIVITY_UNUSABLE,  ACTIVITY_WORKING, ACTIVITY_WAITING,
                                         ACTIVITY_IDLE_HELD, ACTIVITY_FREE,    ACTIVITY_UNKNOWN};
    const char *between = ": ";

    for (size_t k = 0; k < ARRAY_LEN(order); k++) {
        size_t count = 0;

        for (size_t i = 0; i < s->node->gpu_count; i++)
            count += s->node->gpus[i].activity.word == order[k];
        if (count == 0)
            continue;
        str_addf(out, "%s%zu %s", between, count, activity_words[order[k]].key);
        between = ", ";
    }
}

/* Where the line does not hold both, the GPUs have a line of their own. */
static void head_lines(const StatusScreen *s)
{
    const size_t count = s->node->gpu_count, start = s->out->len;
    CLEANUP(str_done) Str gpus = str_limited(OWNERS_MAX);
    char now[CLOCK_TEXT_MAX];

    clock_format(now, s->node->real_ns);
    str_addf(s->out, "%s  %.10s %.8sZ  ", s->node->hostname, now, now + 11);
    if (s->node->driver_version[0])
        str_addf(s->out, "driver %s  ", s->node->driver_version);
    if (s->node->gpus_expected > count)
        str_addf(&gpus, "%zu of %" PRIu32 " GPUs", count, s->node->gpus_expected);
    else
        str_addf(&gpus, "%zu GPU%s", count, count == 1 ? "" : "s");
    count_activities(s, &gpus);
    size_t at = count_columns(s, start);
    if (at + utf8_count(gpus.text, gpus.len) > screen_width(s)) {
        end_line(s, start);
        str_addf(s->out, "%*s", INDENT, "");
        at = INDENT;
    }
    str_add_wrapped(s->out, gpus.text, at, INDENT, screen_width(s));
}

/* A GPU or a MIG instance that is told of; those of one cause and owner together. */
typedef struct Notice {
    const NodeGpu *gpu;
    const Reading *instance; /* NULL: the GPU */
    const Activity *activity;
    const WhyVerdict *verdict; /* NULL: not decided yet */
} Notice;

/* Room for them in `out`: each GPU and each instance. Returns how many there are. */
static size_t list_notices(const Node *node, Notice *out)
{
    size_t count = 0;

    for (size_t i = 0; i < node->gpu_count; i++)
        for (size_t k = 0; k <= node->gpus[i].instance_count; k++) {
            const NodeGpu *gpu = &node->gpus[i];
            const Reading *instance = k == 0 ? NULL : &gpu->instances[k - 1];

            if (node_is_noticed(gpu, instance))
                out[count++] = (Notice){gpu, instance, node_activity(gpu, instance), node_notice(gpu, instance)};
        }
    return count;
}

static bool has_same_owners(const StatusScreen *s, const Notice *a, const Notice *b)
{
    size_t first, second;
    const Holding *one = who_list(s->seen, a->gpu, a->instance, &first),
                  *other = who_list(s->seen, b->gpu, b->instance, &second);

    for (size_t i = 0; first == second && i < first; i++)
        if (!owner_is_same(&one[i].owner, &other[i].owner))
            return false;
    return first == second;
}

static bool is_same_notice(const StatusScreen *s, const Notice *a, const Notice *b)
{
    return a->activity->word == b->activity->word && a->activity->cause == b->activity->cause &&
           !a->verdict == !b->verdict && (!a->verdict || a->verdict->cause == b->verdict->cause) &&
           has_same_owners(s, a, b);
}

/* A text behind its name, as in an incident's card. */
static void notice_row(const StatusScreen *s, const char *name, const char *text)
{
    set_colour(s, "2");
    str_addf(s->out, "%-*s", INDENT, name);
    set_colour(s, "0");
    str_add_wrapped(s->out, text, INDENT, INDENT, screen_width(s));
}

/* "GPU 0,1" or "GPU 0 MIG 7/0,8/0, GPU 2 MIG 7/0": the first and those like it, which are struck from the list. */
static void write_devices(const StatusScreen *s, Notice *list, size_t count, Str *text)
{
    const Notice first = list[0];
    const NodeGpu *before = NULL;

    for (size_t i = 0; i < count; i++) {
        const Notice *one = &list[i];
        const Device *d = one->instance ? &one->instance->device : NULL;

        if (!one->gpu || !is_same_notice(s, &first, one))
            continue;
        if (!before || (d && before != one->gpu))
            str_addf(text, "%s %" PRIu32 "%s", before ? ", GPU" : "GPU", one->gpu->reading.device.index,
                     d ? " MIG " : "");
        else
            str_addc(text, ',');
        if (d)
            str_addf(text, "%" PRIu32 "/%" PRIu32, d->gpu_instance, d->compute_instance);
        else if (before)
            str_addf(text, "%" PRIu32, one->gpu->reading.device.index);
        before = one->gpu;
        list[i].gpu = NULL;
    }
}

/* Behind the word: ": GPU 0,1 (alice): 100 % busy by utilisation, yet nearly idle: ..." */
static void write_notice(const StatusScreen *s, Notice *notices, size_t count, Str *text)
{
    const Notice first = notices[0];
    size_t owners;
    const Holding *list = who_list(s->seen, first.gpu, first.instance, &owners);

    str_add(text, ": ");
    write_devices(s, notices, count, text);
    if (owners == 1 && owner_is_known(&list->owner)) {
        str_add(text, " (");
        owner_add_brief(&list->owner, text);
        str_addc(text, ')');
    } else if (owners > 1) {
        str_addf(text, " (%zu owners)", owners);
    }
    str_addf(text, ": %s", first.verdict ? first.verdict->text : first.activity->text);
}

/* How sure the verdict is, and what to do. */
static void advice_rows(const StatusScreen *s, const Notice *notice)
{
    const WhyVerdict *verdict = notice->verdict;
    char text[VERDICT_CAP];

    if (!verdict)
        return;
    if (why_causes[verdict->cause].advice[0])
        notice_row(s, " DO", why_causes[verdict->cause].advice);
    if (isfinite(verdict->share))
        snprintf(text, sizeof text, "%.0f %% of %" PRIu32 " s, confidence %s", 100 * verdict->share,
                 node_why(notice->gpu, notice->instance)->window_s, why_confidences[verdict->confidence].key);
    else
        snprintf(text, sizeof text, "confidence %s", why_confidences[verdict->confidence].key);
    notice_row(s, " share", text);
    if (notice->instance)
        snprintf(text, sizeof text, "stoker why %s", notice->instance->device.uuid);
    else
        snprintf(text, sizeof text, "stoker why %" PRIu32, notice->gpu->reading.device.index);
    notice_row(s, " more", text);
}

static size_t count_devices(const Node *node)
{
    size_t count = node->gpu_count;

    for (size_t i = 0; i < node->gpu_count; i++)
        count += node->gpus[i].instance_count;
    return count;
}

static void notice_lines(const StatusScreen *s, bool advice)
{
    CLEANUP_FREE Notice *notices = xcalloc(count_devices(s->node) + 1, sizeof *notices);
    const size_t count = list_notices(s->node, notices);

    for (size_t i = 0; i < count; i++) {
        const Notice notice = notices[i];
        const size_t start = s->out->len;
        CLEANUP(str_done) Str text = str_limited(OWNERS_MAX);

        if (!notice.gpu) /* told of with another */
            continue;
        const char *word = activity_words[notice.activity->word].key;
        write_notice(s, &notices[i], count - i, &text);
        set_colour(s, "33");
        str_add(s->out, word);
        set_colour(s, "0");
        if (advice) {
            str_add_wrapped(s->out, text.text, strlen(word), INDENT, screen_width(s));
            advice_rows(s, &notice);
        } else {
            str_add(s->out, text.text);
            end_line(s, start);
        }
    }
}

static void draw_screen(const StatusScreen *s, const Plan *plan, const Incident *const *urgent, size_t count)
{
    head_lines(s);
    verdict_line(s, urgent, count);
    window_lines(s);
    incident_lines(s, plan, urgent, count);
    notice_lines(s, plan->advice && (count == 0 || !incident_is_problem(urgent[0])));
    if (count > 0)
        str_addc(s->out, '\n');
    write_table(s, plan->table);
}

static bool fits_height(const StatusScreen *s, size_t start)
{
    size_t lines = 0;

    for (size_t i = start; i < s->out->len; i++)
        lines += s->out->text[i] == '\n';
    return s->style->height == 0 || lines < s->style->height; /* the prompt has the last one */
}

int status_code(const Snapshot *snapshot)
{
    bool sampled = false;

    for (size_t i = 0; i < snapshot->incident_count; i++)
        if (incident_is_problem(snapshot->incidents[i]))
            return 1;
    for (size_t i = 0; i < snapshot->node->gpu_count; i++)
        sampled |= snapshot->node->gpus[i].last_sample_ns != 0;
    return sampled && !find_unknown_gpu(snapshot->node) ? 0 : 3;
}

/* Of the longest model or profile, within limits. */
static int find_name_width(const Node *node)
{
    size_t width = NAME_LEAST;

    for (size_t i = 0; i < node->gpu_count; i++)
        width = number_max_u64(width, strlen(status_model(&node->gpus[i].reading.device)));
    return width < NAME_MOST ? (int)width : NAME_MOST;
}

/* Where some clock is low and the screen is wide. */
static int find_reason_width(const Node *node, const StatusStyle *style)
{
    for (size_t i = 0; i < node->gpu_count && style->width >= WIDE; i++)
        if (node->gpus[i].state == GPU_UP && status_throttle(&node->gpus[i].reading)[0])
            return REASON_WIDTH;
    return 0;
}

void status_brief(const Snapshot *seen, Str *out)
{
    const StatusStyle style = {.width = SIZE_MAX};
    const StatusScreen s = {.seen = seen, .node = seen->node, .style = &style, .out = out};
    CLEANUP_FREE const Incident **urgent = xcalloc(seen->incident_count + 1, sizeof *urgent);
    const int code = status_code(seen);
    char why[VERDICT_CAP];
    size_t more = 0;

    incidents_urgent(seen->incidents, seen->incident_count, urgent);
    str_addf(out, "%s: ", seen->node->hostname);
    if (code == 1) {
        while (more + 1 < seen->incident_count && incident_is_problem(urgent[more + 1]))
            more++;
        str_addf(out, "Problem: %s. DO: %s", urgent[0]->title, incident_action(urgent[0]));
        if (more > 0)
            str_addf(out, "; %zu more problem%s", more, more == 1 ? "" : "s");
    } else if (code == 0) {
        str_add(out, "All healthy");
        count_activities(&s, out);
    } else {
        str_add(out, explain_unknown(seen->node, why));
    }
    str_addc(out, '\n');
}

void status_text(const Snapshot *seen, const StatusStyle *style, Str *out)
{
    const StatusScreen s = {.seen = seen,
                            .node = seen->node,
                            .style = style,
                            .name_width = find_name_width(seen->node),
                            .reason_width = find_reason_width(seen->node, style),
                            .out = out};
    CLEANUP_FREE const Incident **urgent = xcalloc(seen->incident_count + 1, sizeof *urgent);
    const size_t count = seen->incident_count, start = out->len;

    incidents_urgent(seen->incidents, count, urgent);
    for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
        str_cut(out, start);
        draw_screen(&s, &plans[i], urgent, count);
        if (fits_height(&s, start))
            return;
    }
}
