/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health/incidents.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/str.h"

enum {
    SXID_MIN = 10000, /* codes of GPUs are below */
    ID_WIDTH = 9,
    ID_WIDTH_MAX = 13,
    CLOCK_AT = 11,
    CLOCK_LEN = 8,
    SEEN_MAX = 3,
    TEXT_ROOM = 8192, /* what does not fit is left out, not cut */
    EVIDENCE_MAX = INCIDENT_FIRST + INCIDENT_LAST,
    EVIDENCE_TEXT_MAX = 120,
    EVIDENCE_TEXT_MIN = 24
};

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

uint64_t incident_id_next(uint64_t last, uint64_t real_ns, char out[INCIDENT_ID_CAP])
{
    uint64_t number = number_max_u64(real_ns / NS_PER_MS, last + 1), rest = number;
    char text[ID_WIDTH_MAX];
    int at = ID_WIDTH_MAX;

    for (int width = 0; width < ID_WIDTH || rest > 0; width++, rest /= 32)
        text[--at] = digits[rest % 32];
    memcpy(out, text + at, (size_t)(ID_WIDTH_MAX - at));
    out[ID_WIDTH_MAX - at] = '\0';
    return number;
}

uint64_t incident_id_number(const char *id)
{
    uint64_t number = 0;
    size_t length = strlen(id);

    if (length < ID_WIDTH || length > ID_WIDTH_MAX)
        return 0;
    for (; *id; id++) {
        const char *digit = strchr(digits, *id);

        if (!digit || number > UINT64_MAX / 32)
            return 0;
        number = number * 32 + (uint64_t)(digit - digits);
    }
    return number;
}

static void add_whole_device(const Device *device, Str *out)
{
    char pci[PCI_TEXT_CAP] = "";

    if (device->has_pci)
        pci_format(device->pci, PCI_FORM_SYSFS, pci);
    str_add(out, device_is_switch(device) ? "switch" : "GPU");
    if (device->index != DEVICE_NO_NUMBER)
        str_addf(out, " %u", device->index);
    if (pci[0] != '\0')
        str_addf(out, device->index != DEVICE_NO_NUMBER ? " (%s)" : " %s", pci);
}

static void add_thing(const Incident *incident, Str *out)
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
    add_whole_device(device, out);
}

/* The rest of a class's text behind its words for the thing; NULL if it begins otherwise. */
static const char *find_rest_after_thing(const Incident *incident, const char *text)
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

static const char *find_code_word(const Incident *incident, int32_t code)
{
    const bool of_switch = device_is_switch(&incident->device) && code == incident->code;

    return of_switch || code >= SXID_MIN ? "SXid" : "XID";
}

/* What is wrong, in the class's words; where the driver decides what it takes, in its. */
static const char *find_fault_text(const Incident *incident, const FaultClass *class, char out[INCIDENT_TEXT_CAP])
{
    if (strcmp(class->id, INCIDENTS_RESET_CLASS) != 0)
        return class->text;
    if (incident->action == class->action)
        return incident->device.kind == DEVICE_NODE ? "the driver asks for a reset of a GPU" : class->text;
    for (size_t i = 1; i < FAULT_RECOVERIES; i++)
        if (fault_recoveries[i].action == incident->action) {
            snprintf(out, INCIDENT_TEXT_CAP, "the driver asks for %s", fault_recoveries[i].text);
            return out;
        }
    return class->text;
}

/* "switch 0000:86:00.0, link 33" */
static void add_part(const IncidentPart *part, Str *out)
{
    char pci[PCI_TEXT_CAP];

    str_addf(out, " (switch %s", pci_format(part->pci, PCI_FORM_SYSFS, pci));
    if (part->link != DEVICE_NO_NUMBER)
        str_addf(out, ", link %u", part->link);
    str_addc(out, ')');
}

static void write_title(const Incident *incident, const FaultClass *class, Str *out)
{
    char room[INCIDENT_TEXT_CAP];
    const char *text = find_fault_text(incident, class, room), *rest = find_rest_after_thing(incident, text);

    add_thing(incident, out);
    out->text[0] = (char)toupper(out->text[0]);
    str_addf(out, "%s %s", rest ? "" : ":", rest ? rest : text);
    if (incident->part.known)
        add_part(&incident->part, out);
    if (class->by_owner && incident->owner_count > 0) {
        str_add(out, ": ");
        owner_add_text(&incident->owners[0], out);
    }
    if (!class->by_code && !class->by_process)
        return;
    if (incident->code != 0 && incident->process[0] != '\0')
        str_addf(out, " (%s %d, %s)", find_code_word(incident, incident->code), incident->code, incident->process);
    else if (incident->code != 0)
        str_addf(out, " (%s %d)", find_code_word(incident, incident->code), incident->code);
    else if (incident->process[0] != '\0')
        str_addf(out, " (%s)", incident->process);
}

static const char *find_origin_words(EventOrigin origin)
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

/* Cuts a longer text behind a word; the sentence goes on behind one that ends with a full stop. */
static void add_shortened(const char *text, int room, Str *out)
{
    int len = (int)strnlen(text, (size_t)room + 1);

    if (len > room) {
        for (len = room; len > room / 2 && text[len] != ' '; len--)
            ;
        str_addf(out, "%.*s ...", len, text);
    } else {
        len -= len > 1 && text[len - 1] == '.' && text[len - 2] != '.';
        str_addn(out, text, (size_t)len);
    }
}

/* Adds evidence in at most about `room` characters. */
static void add_evidence(const Incident *incident, const IncidentEvidence *evidence, int room, Str *out)
{
    char when[CLOCK_TEXT_MAX];

    clock_format(when, evidence->real_ns);
    if (evidence->code != 0)
        str_addf(out, "%s %d %s", find_code_word(incident, evidence->code), evidence->code,
                 find_origin_words(evidence->origin));
    else
        add_shortened(evidence->text, room, out);
    str_addf(out, " at %.*s UTC", CLOCK_LEN, when + CLOCK_AT);
}

static bool is_same_evidence(const IncidentEvidence *a, const IncidentEvidence *b)
{
    return a->code == b->code && (a->code != 0 || a->origin == b->origin);
}

/* Of evidence of its own class the strongest, and of those as strong the first; of the same code or origin one. */
static uint32_t pick_evidence(const Incident *incident, const IncidentEvidence *out[EVIDENCE_MAX], uint32_t most)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < incident->first_len + incident->last_len; i++) {
        const IncidentEvidence *evidence =
            i < incident->first_len ? &incident->first[i] : &incident->last[i - incident->first_len];
        uint32_t at = 0;

        if (evidence->echo)
            continue;
        while (at < count && !is_same_evidence(out[at], evidence))
            at++;
        if (at < count && out[at]->severity >= evidence->severity)
            continue;
        count += at == count;
        for (; at > 0 && out[at - 1]->severity < evidence->severity; at--)
            out[at] = out[at - 1];
        out[at] = evidence;
    }
    return count < most ? count : most;
}

static bool has_code(const IncidentEvidence *const *picked, uint32_t count, int32_t code)
{
    for (uint32_t i = 0; i < count; i++)
        if (picked[i]->code == code)
            return true;
    return false;
}

/* "; with XID 45", ", 119", ", SXid 20034"; `last` is the word before the code before, "" for the first. */
static const char *add_other_code(const Incident *incident, int32_t code, const char *begin, const char *last, Str *out)
{
    const char *word = find_code_word(incident, code);

    str_add(out, *last ? ", " : begin);
    if (strcmp(word, last) != 0)
        str_addf(out, "%s ", word);
    str_addf(out, "%d", code);
    return word;
}

static void write_reason(const Incident *incident, uint32_t most, int room, Str *out)
{
    const IncidentEvidence *picked[EVIDENCE_MAX];
    const uint32_t count = pick_evidence(incident, picked, most);
    const char *word = "";

    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            str_add(out, picked[i]->real_ns < picked[i - 1]->real_ns ? ", after " : ", then ");
        add_evidence(incident, picked[i], room, out);
    }
    if (count > 0 && incident->count > 1)
        str_addf(out, " (%llu times)", (unsigned long long)incident->count);
    for (uint32_t i = 0; i < incident->code_count; i++)
        if (incident->codes[i] != incident->code && !has_code(picked, count, incident->codes[i]))
            word = add_other_code(incident, incident->codes[i], count > 0 ? "; with " : "", word, out);
    if (out->len > 0)
        str_add(out, ". ");
}

/* Copies a text; if it does not fit it ends with "..." behind a word. */
static void copy_text(char *to, size_t size, const Str *from)
{
    size_t length = from->len;

    memset(to, 0, size);
    if (length >= size) {
        for (length = size - sizeof " ..."; length > size / 2 && from->text[length] != ' '; length--)
            ;
        while (((unsigned char)from->text[length] & 0xc0) == 0x80)
            length--;
        memcpy(to + length, " ...", sizeof " ...");
    }
    memcpy(to, from->text, length);
}

void incident_text(Incident *incident, const FaultClass *class)
{
    char room[TEXT_ROOM];
    Str text;

    if (!class)
        return;
    str_init_room(&text, room, sizeof room);
    write_title(incident, class, &text);
    copy_text(incident->title, sizeof incident->title, &text);
    /* the advice is kept whole: if the text is too long, less evidence is named, then less of the first */
    uint32_t most = SEEN_MAX;
    for (int len = EVIDENCE_TEXT_MAX; len >= EVIDENCE_TEXT_MIN; len -= most == 1 ? EVIDENCE_TEXT_MIN : 0) {
        str_clear(&text);
        write_reason(incident, most, len, &text);
        if (incident->action != class->action)
            str_addf(&text, "Do: %s. ", incident_action(incident));
        str_add(&text, fault_advice(class, incident->action));
        if (text.len < sizeof incident->verdict)
            break;
        most -= most > 1;
    }
    copy_text(incident->verdict, sizeof incident->verdict, &text);
}
