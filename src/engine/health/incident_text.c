/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health/incident_text.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

enum { CLOCK_AT = 11, CLOCK_LEN = 8, SEEN_MAX = 3, SIGN_MAX = 120, SIGN_MIN = 24 };

static void whole(const Device *device, Str *out)
{
    bool is_switch = device->kind == DEVICE_SWITCH || device->kind == DEVICE_SWITCH_LINK;
    char pci[PCI_TEXT_CAP] = "";

    if (device->has_pci)
        pci_format(device->pci, PCI_FORM_SYSFS, pci);
    str_add(out, is_switch ? "switch" : "GPU");
    if (device->index != DEVICE_NO_NUMBER)
        str_addf(out, " %u", device->index);
    if (pci[0] != '\0')
        str_addf(out, device->index != DEVICE_NO_NUMBER ? " (%s)" : " %s", pci);
}

static void thing(const Incident *incident, Str *out)
{
    const Device *device = &incident->device;

    switch (device->kind) {
    case DEVICE_NODE:
        str_add(out, incident->scope == SCOPE_FABRIC ? "the fabric" : "the node");
        return;
    case DEVICE_LINK:
        str_addf(out, "NVLink %u of ", device->link);
        break;
    case DEVICE_SWITCH_LINK:
        str_addf(out, "port %u of ", device->link);
        break;
    case DEVICE_GPU_INSTANCE:
        str_addf(out, "MIG instance %u of ", device->gpu_instance);
        break;
    case DEVICE_COMPUTE_INSTANCE:
        str_addf(out, "MIG instance %u/%u of ", device->gpu_instance, device->compute_instance);
        break;
    default:
        break;
    }
    whole(device, out);
}

void incident_text_thing(const Incident *incident, char *out, size_t size)
{
    Str str;

    str_init_room(&str, out, size);
    thing(incident, &str);
}

/* What follows the words for the thing in a class's text; NULL where it begins otherwise. */
static const char *after_thing(const Incident *incident, const char *text)
{
    static const char *const words[DEVICE_KIND_END][3] = {
        [DEVICE_NODE] = {"the node "},
        [DEVICE_GPU] = {"the GPU "},
        [DEVICE_GPU_INSTANCE] = {"the instance ", "the MIG instance "},
        [DEVICE_COMPUTE_INSTANCE] = {"the instance ", "the MIG instance "},
        [DEVICE_LINK] = {"the link ", "the NVLink ", "an NVLink "},
        [DEVICE_SWITCH] = {"the switch ", "an NVSwitch ", "the NVSwitch "},
        [DEVICE_SWITCH_LINK] = {"the link ", "the NVLink ", "an NVLink "},
    };

    if (incident->device.kind == DEVICE_NODE && incident->scope == SCOPE_FABRIC)
        return strncmp(text, "the fabric ", 11) == 0 ? text + 11 : NULL;
    for (size_t i = 0; i < 3; i++) {
        const char *word = words[incident->device.kind][i];

        if (word && strncmp(text, word, strlen(word)) == 0)
            return text + strlen(word);
    }
    return NULL;
}

static const char *code_word(const Incident *incident)
{
    return incident->device.kind == DEVICE_SWITCH || incident->device.kind == DEVICE_SWITCH_LINK ||
                   incident->code >= 10000
               ? "SXid"
               : "XID";
}

static void title(const Incident *incident, const FaultClass *class, Str *out)
{
    const char *rest = after_thing(incident, class->text);

    thing(incident, out);
    if (out->text[0] == 't')
        out->text[0] = 'T';
    else if (out->text[0] == 's')
        out->text[0] = 'S';
    else if (out->text[0] == 'p')
        out->text[0] = 'P';
    str_addf(out, "%s %s", rest ? "" : ":", rest ? rest : class->text);
    if (!class->by_code && !class->by_process)
        return;
    if (incident->code != 0 && incident->process[0] != '\0')
        str_addf(out, " (%s %d, %s)", code_word(incident), incident->code, incident->process);
    else if (incident->code != 0)
        str_addf(out, " (%s %d)", code_word(incident), incident->code);
    else if (incident->process[0] != '\0')
        str_addf(out, " (%s)", incident->process);
}

static const char *seen_in(EventOrigin origin)
{
    static const char *const words[EVENT_ORIGIN_END] = {
        [EVENT_FROM_KMSG] = "in the kernel log",
        [EVENT_FROM_JOURNAL] = "in the kernel log",
        [EVENT_FROM_NVML] = "reported by the driver",
        [EVENT_FROM_FABRIC_LOG] = "in the fabric manager's log",
        [EVENT_FROM_AGENT] = "seen",
    };

    return words[origin];
}

/* Cut behind a word where it is longer. */
static void shortened(const char *text, int room, Str *out)
{
    int len = (int)strnlen(text, (size_t)room + 1);

    if (len > room) {
        for (len = room; len > room / 2 && text[len] != ' '; len--)
            ;
        str_addf(out, "%.*s ...", len, text);
    } else {
        str_add(out, text);
    }
}

/* A sign in words of at most about `room` characters. */
static void sign_text(const Incident *incident, const IncidentSign *sign, int room, Str *out)
{
    char when[CLOCK_TEXT_MAX];

    clock_format(when, sign->real_ns);
    if (sign->code != 0)
        str_addf(out, "%s %d %s", code_word(incident), sign->code, seen_in(sign->origin));
    else
        shortened(sign->text, room, out);
    str_addf(out, " at %.*s UTC", CLOCK_LEN, when + CLOCK_AT);
}

static bool told_already(const Incident *incident, uint32_t at)
{
    const IncidentSign *sign = &incident->first[at];

    for (uint32_t i = 0; i < at; i++)
        if (incident->first[i].code == sign->code && (sign->code != 0 || incident->first[i].origin == sign->origin))
            return true;
    return false;
}

static void why(const Incident *incident, uint32_t most, int room, Str *out)
{
    uint32_t told = 0, others = 0;

    for (uint32_t i = 0; i < incident->first_len && told < most; i++) {
        if (incident->first[i].echo || told_already(incident, i))
            continue;
        str_add(out, told++ > 0 ? ", then " : "");
        sign_text(incident, &incident->first[i], room, out);
    }
    if (told > 0 && incident->count > 1)
        str_addf(out, " (%llu signs)", (unsigned long long)incident->count);
    for (uint32_t i = 0; i < incident->code_count; i++)
        if (incident->codes[i] != incident->code)
            str_addf(out, "%s%d", others++ > 0 ? ", " : told > 0 ? "; with XID " : "XID ", incident->codes[i]);
    if (out->len > 0)
        str_add(out, ". ");
}

/* Cut where it does not fit, between characters. */
static void put(char *to, size_t size, const Str *from)
{
    size_t length = from->len < size ? from->len : size - 1;

    while (length < from->len && length > 0 && ((unsigned char)from->text[length] & 0xc0) == 0x80)
        length--;
    memset(to, 0, size);
    memcpy(to, from->text, length);
}

void incident_text(Incident *incident, const FaultClass *class)
{
    char verdict[1024];
    Str text;

    if (!class)
        return;
    str_init_room(&text, verdict, sizeof verdict);
    title(incident, class, &text);
    put(incident->title, sizeof incident->title, &text);
    /* what to do is said whole before how it is known: of that fewer signs, then less of the first */
    uint32_t most = SEEN_MAX;
    for (int room = SIGN_MAX; room >= SIGN_MIN; room -= most == 1 ? SIGN_MIN : 0) {
        str_clear(&text);
        why(incident, most, room, &text);
        if (incident->action != class->action)
            str_addf(&text, "Do: %s. ", fault_actions[incident->action].text);
        str_add(&text, class->advice);
        if (text.len < sizeof incident->verdict)
            break;
        most -= most > 1;
    }
    put(incident->verdict, sizeof incident->verdict, &text);
}
