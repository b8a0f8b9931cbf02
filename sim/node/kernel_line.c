/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's frame around an XID's message: where, which, whose. */
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "sim/core/control.h"
#include "sim/core/num.h"
#include "sim/core/state.h"
#include "sim/node/kernel_log.h"
#include "sim/node/xid_text.h"

enum {
    EVENT_XID = 0x8,
    EVENT_RECOVERY = 0x8000,
    NAMES_SINCE = 515,   /* process names beside pids */
    UNNAMED_UNTIL = 560, /* before, errors without a process say so; later they say nothing */
    CAUSE_SINCE = 575,   /* XID 45 names the one before it */
    LOOK_BACK = 1024,    /* events */
    TEXT_CUT = 2048,     /* bytes of a scenario's text */
    COMM_MAX = 15,       /* characters of a process name that the kernel keeps */
};
#define INCIDENT_NS (5 * SIM_NS) /* what belongs together comes within this time */

static uint32_t branch_of(const SimImage *image)
{
    uint32_t branch = (uint32_t)strtoul(image->driver, NULL, 10);
    return branch ? branch : image->generation;
}

static bool cause_of(const SimEvent *e)
{
    return e->type == EVENT_XID && e->data != 45 && e->data != 154;
}

static bool dbe(const SimEvent *e)
{
    return e->type == EVENT_XID && e->data == 48;
}

static bool recovery(const SimEvent *e)
{
    return e->type == EVENT_RECOVERY;
}

/* The last event of this GPU before `event` (or beside it, in the same instant) that fits, within the incident. */
static bool find_before(SimImage *image, const SimEvent *event, bool (*fits)(const SimEvent *), SimEvent *ret)
{
    uint32_t end = sim_event_index_after(image, event->t_ns), low = end > LOOK_BACK ? end - LOOK_BACK : 0;
    for (uint32_t i = end; i > low; i--) {
        if (!sim_event_next(image, i - 1, event->t_ns, ret, NULL))
            continue;
        if (event->t_ns - ret->t_ns > INCIDENT_NS)
            return false;
        if (ret->gpu == event->gpu && fits(ret))
            return true;
    }
    return false;
}

static uint64_t address_of(SimImage *image, const SimEvent *event, const SimBoard *board)
{
    SimEvent first = *event, found;
    if (event->data != 48 && event->extra == 0 && find_before(image, event, dbe, &found))
        first = found;
    if (first.extra)
        return first.extra;
    uint64_t bytes = (uint64_t)board->memory_mib << 20;
    uint64_t random = sim_hash(image->seed ^ (uint64_t)first.gpu, first.t_ns, 48);
    return (bytes ? random % bytes : random & 0xffffffff) & ~0xffull;
}

/* What the recovery action was before the change that this XID 154 tells. */
static uint32_t action_before(SimImage *image, const SimEvent *event)
{
    SimEvent change;
    SimNow now;
    if (!find_before(image, event, recovery, &change) || change.t_ns == 0)
        return 0;
    sim_state_at(image, (uint32_t)event->gpu, change.t_ns - 1, &now);
    return now.cond.set[SIM_KEY_RECOVERY_ACTION];
}

static void add_attribution(const SimEvent *event, const SimGpuId *id, Str *out)
{
    str_addf(out, "NVRM: Xid (PCI:%04x:%02x:%02x", id->domain, id->bus, id->device);
    if (event->gi != SIM_NONE)
        str_addf(out, " GPU-I:%02d", event->gi);
    if (event->gi != SIM_NONE && event->ci != SIM_NONE)
        str_addf(out, " GPU-CI:%02d", event->ci);
    str_addf(out, "): %llu, ", (unsigned long long)event->data);
}

static void add_process(const XidLine *line, bool channel, Str *out)
{
    const SimEvent *event = line->event;
    if (event->work >= 0 && event->work < SIM_WORK_MAX) {
        str_addf(out, "pid=%u, ", sim_work_pid(line->image, event->work));
        if (line->branch >= NAMES_SINCE)
            str_addf(out, "name=%.*s, ", COMM_MAX, line->image->works[event->work].name);
    } else if (line->branch >= NAMES_SINCE && (channel || line->branch < UNNAMED_UNTIL)) {
        str_add(out, "pid='<unknown>', name=<unknown>, ");
    }
}

/* Every line of the message gets the whole frame. */
static void add_framed(const XidLine *line, const SimGpuId *id, bool channel, const char *message, Str *out)
{
    SimEvent cause;
    bool named = strncmp(message, "pid=", 4) == 0;
    for (const char *part = message;;) {
        size_t len = strcspn(part, "\n");
        add_attribution(line->event, id, out);
        if (!named)
            add_process(line, channel, out);
        str_addn(out, part, len);
        if (line->event->data == 45 && line->branch >= CAUSE_SINCE &&
            find_before(line->image, line->event, cause_of, &cause))
            str_addf(out, " caused by previous Xid %llu", (unsigned long long)cause.data);
        if (!part[len])
            return;
        str_addc(out, '\n');
        part += len + 1;
    }
}

/* A text of the scenario is one line whatever it holds. */
static void add_flat(const char *text, Str *out)
{
    size_t from = out->len, len = strlen(text);
    str_addn(out, text, len < TEXT_CUT ? len : TEXT_CUT);
    for (size_t i = from; i < out->len; i++)
        if ((unsigned char)out->text[i] < ' ')
            out->text[i] = ' ';
}

static void add_xid(SimImage *image, const SimEvent *event, Str *out)
{
    const SimGpuId *id = &image->gpus[event->gpu];
    const SimBoard *board = &image->boards[id->board];
    XidLine line = {.image = image,
                    .event = event,
                    .board = board,
                    .branch = branch_of(image),
                    .random = sim_hash(image->seed, event->t_ns, (uint64_t)event->gpu << 32 | event->data),
                    .channel = 2 + (uint32_t)(sim_hash(image->seed, (uint64_t)event->gpu, (uint64_t)event->work) % 30),
                    .address = address_of(image, event, board),
                    .before = event->data == 154 ? action_before(image, event) : 0};
    char room[KERNEL_LINES_MAX];
    Str message;
    bool channel = false;
    str_init_room(&message, room, sizeof room);
    if (event->text)
        add_flat(sim_text(image, event->text), &message);
    else if (!xid_message(&line, &message, &channel))
        return;
    add_framed(&line, id, channel, message.text, out);
    if (event->data == 79) {
        str_addf(out, "\nNVRM: GPU %04x:%02x:%02x.0: GPU has fallen off the bus.", id->domain, id->bus, id->device);
        if (id->serial[0])
            str_addf(out, "\nNVRM: GPU %04x:%02x:%02x.0: GPU serial number is %s.", id->domain, id->bus, id->device,
                     id->serial);
    }
}

static int finish(const Str *text, char *buf, size_t n)
{
    size_t len = text->len < n ? text->len : n - 1;
    memcpy(buf, text->text, len);
    buf[len] = '\0';
    return (int)len;
}

int kernel_log_line(SimImage *image, const SimEvent *event, char *buf, size_t n)
{
    CLEANUP(str_done) Str out;
    if (n == 0)
        return 0;
    str_init(&out, 8 * KERNEL_LINES_MAX);
    if (event->type == EVENT_XID && event->gpu >= 0 && (uint32_t)event->gpu < image->gpu_count)
        add_xid(image, event, &out);
    else if (event->type == 0 && event->text)
        add_flat(sim_text(image, event->text), &out);
    return finish(&out, buf, n);
}

int kernel_log_first_seen(const SimImage *image, uint32_t gpu, char *buf, size_t n)
{
    const SimGpuId *id = &image->gpus[gpu];
    char room[KERNEL_LINES_MAX];
    Str out;
    if (n == 0)
        return 0;
    str_init_room(&out, room, sizeof room);
    str_addf(&out, "NVRM: GPU at PCI:%04x:%02x:%02x: %s", id->domain, id->bus, id->device, id->uuid);
    if (id->serial[0])
        str_addf(&out, "\nNVRM: GPU Board Serial Number: %s", id->serial);
    return finish(&out, buf, n);
}
