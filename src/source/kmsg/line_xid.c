/* SPDX-License-Identifier: Apache-2.0 */
/* Lines with a code of the driver: XIDs of GPUs and SXids of switches. What comes behind the number is taken where it
 * is understood; the number alone is enough. */
#include <string.h>

#include "base/cleanup.h"
#include "source/kmsg/line_inside.h"

enum { RECOVERY_XID = 154, NVLINK_XID = 74, LINK_FIRST_XID = 144, LINK_LAST_XID = 150, SM_XID = 13 };

EventWord line_word(Cursor *c)
{
    static const struct {
        const char *text;
        EventWord word;
    } words[] = {{"Fatal", EVENT_FATAL},
                 {"Non-fatal", EVENT_NONFATAL},
                 {"Nonfatal", EVENT_NONFATAL},
                 {"Correctable", EVENT_CORRECTABLE}};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (cursor_skip(c, words[i].text))
            return words[i].word;
    return EVENT_NO_WORD;
}

/* "pid=7062, ", "pid=2239, name=python, ", "pid='<unknown>', name=<unknown>, " */
static void read_process(Cursor *c, Event *event)
{
    uint32_t pid;

    if (!cursor_skip(c, "pid="))
        return;
    if (cursor_number(c, &pid))
        event->pid = (int32_t)pid;
    else if (!cursor_skip(c, "'<unknown>'") && !cursor_skip(c, "<unknown>"))
        return;
    if (!cursor_skip(c, ", "))
        return;
    if (cursor_skip(c, "name=")) {
        cursor_until(c, ", ", true, event->process, sizeof event->process);
        if (strcmp(event->process, "<unknown>") == 0)
            event->process[0] = '\0';
    }
}

/* "(0x0, 0x0, ...)", with commas or blanks between. */
static void read_registers(Cursor c, Event *event)
{
    if (!cursor_find(&c, "("))
        return;
    while (event->register_count < EVENT_REGISTERS && cursor_hex(&c, &event->registers[event->register_count])) {
        event->register_count++;
        cursor_skip(&c, ",");
        cursor_blanks(&c);
    }
}

/* "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x...)"; a link of -1 is none. */
static void read_nvlink5(Cursor c, Event *event)
{
    cursor_until(&c, " ", true, event->unit, sizeof event->unit);
    event->word = line_word(&c);
    if (cursor_find(&c, "Link ") && !cursor_number(&c, &event->link))
        event->link = DEVICE_NO_NUMBER;
    read_registers(c, event);
}

static void read_place(Cursor c, Event *event)
{
    uint32_t gpc, tpc, sm;

    if (!cursor_find(&c, "(GPC ") || !cursor_number(&c, &gpc) || !cursor_skip(&c, ", TPC ") || !cursor_number(&c, &tpc))
        return;
    event->gpc = (int32_t)gpc;
    event->tpc = (int32_t)tpc;
    if (cursor_skip(&c, ", SM ") && cursor_number(&c, &sm))
        event->sm = (int32_t)sm;
}

static void read_payload(Cursor c, Event *event)
{
    Cursor tail = c;
    uint32_t number;

    if (event->code == NVLINK_XID && cursor_find(&c, "link ")) {
        if (!cursor_number(&c, &event->link))
            event->link = DEVICE_NO_NUMBER;
        read_registers(c, event);
    } else if (event->code >= LINK_FIRST_XID && event->code <= LINK_LAST_XID) {
        read_nvlink5(c, event);
    } else if (event->code == RECOVERY_XID && cursor_find(&c, " to ") && cursor_hex(&c, &number)) {
        event->recovery_action = number <= INT8_MAX ? (int32_t)number : EVENT_NO_ACTION;
    } else if (event->code == SM_XID) {
        read_place(c, event);
    }
    if (cursor_find(&tail, " caused by previous Xid ") && cursor_number(&tail, &number))
        event->caused_by = (int32_t)number;
}

static void name_gpu(const LineReader *reader, Event *event)
{
    for (size_t i = 0; i < reader->gpu_count; i++)
        if (pci_compare(reader->gpus[i].pci, event->pci) == 0)
            memcpy(event->uuid, reader->gpus[i].uuid, sizeof event->uuid);
}

bool line_xid(const LineReader *reader, Cursor c, Event *event)
{
    const char *from = c.at;
    uint32_t number;

    event_init(event, EVENT_XID, EVENT_FROM_KMSG);
    event->has_pci = cursor_pci(&c, &event->pci);
    if (cursor_skip(&c, " GPU-I:") && !cursor_number(&c, &event->gpu_instance))
        event->gpu_instance = DEVICE_NO_NUMBER;
    if (cursor_skip(&c, " GPU-CI:") && !cursor_number(&c, &event->compute_instance))
        event->compute_instance = DEVICE_NO_NUMBER;
    if (!cursor_find(&c, "): ") || !cursor_number(&c, &number) || number > INT16_MAX)
        return false;
    event->code = (int32_t)number;
    cursor_skip(&c, ",");
    cursor_blanks(&c);
    read_process(&c, event);
    read_payload(c, event);
    cursor_show(from - strlen("Xid ("), (size_t)(c.end - from) + strlen("Xid ("), event->text, sizeof event->text);
    if (event->has_pci)
        name_gpu(reader, event);
    return true;
}

bool line_sxid(Cursor c, Event *event)
{
    const char *from = c.at;
    uint32_t number;

    event_init(event, EVENT_SXID, EVENT_FROM_KMSG);
    event->has_pci = cursor_pci(&c, &event->pci);
    if (!cursor_find(&c, "): ") || !cursor_number(&c, &number))
        return false;
    event->code = (int32_t)number;
    cursor_skip(&c, ",");
    cursor_blanks(&c);
    if (cursor_skip(&c, "Data {"))
        return false; /* a detail of the line before */
    event->word = line_word(&c);
    if (cursor_find(&c, "Link ") && !cursor_number(&c, &event->link))
        event->link = DEVICE_NO_NUMBER;
    cursor_show(from - strlen("SXid ("), (size_t)(c.end - from) + strlen("SXid ("), event->text, sizeof event->text);
    return true;
}
