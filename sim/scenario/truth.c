/* SPDX-License-Identifier: Apache-2.0 */
/* The words of verdicts. One row each: name and what it means; the pages and the checks come from here. */
#include "sim/scenario/truth.h"

#include <math.h>
#include <string.h>

#include "base/owner.h"
#include "sim/core/image.h"
#include "sim/scenario/field.h"

typedef struct Word {
    const char *name, *about;
} Word;

static const Word class_words[] = {
    {"gpu-lost", "fallen off the bus, or gone from it"},
    {"ecc-uncorrectable", "an uncorrectable memory error"},
    {"ecc-storm", "corrected errors at a rate that peers do not have"},
    {"row-remap-pending", "a row waits for a reset to be remapped"},
    {"row-remap-failed", "no spare row is left"},
    {"page-retirement", "too many retired pages, or pages that wait for a reload"},
    {"sram-threshold", "too many SRAM errors"},
    {"gsp-failure", "the GPU's firmware does not answer"},
    {"reset-required", "the driver asks for a reset"},
    {"inforom-corrupt", "the inforom cannot be read"},
    {"thermal", "clocks are held down by heat"},
    {"fan", "a fan has failed"},
    {"power-brake", "the server's power supply holds the GPU down"},
    {"power-limit", "a power limit below the board's default costs work"},
    {"nvlink-down", "an NVLink is down"},
    {"nvlink-errors", "NVLink errors at a harmful rate"},
    {"fabric", "the NVLink fabric is not ready or not healthy"},
    {"nvswitch", "an NVSwitch reports an error"},
    {"pcie-degraded", "fewer lanes or a lower generation than under load before"},
    {"pcie-errors", "replays or AER errors at a harmful rate"},
    {"driver-hang", "driver calls do not return"},
    {"driver-slow", "driver calls take far too long"},
    {"driver-mismatch", "library and kernel module differ"},
    {"driver-unloaded", "the kernel module is not there"},
    {"driver-error", "the driver fails in an unknown way"},
    {"app-fault", "a program did something wrong on the GPU"},
    {"host-oom", "the kernel killed a process for memory"},
    {"mig-changed", "MIG devices went away under their users"},
    {"hung-collective", "ranks wait for one that is gone"},
    {"straggler", "one rank or GPU holds up its job"},
    {"starved", "the GPU waits for data"},
    {"memory-bound", "bandwidth of memory is the limit"},
    {"tiny-kernels", "kernels too small to fill the GPU"},
    {"no-tensor-cores", "arithmetic runs on FP32 units only"},
    {"idle-memory", "memory is held, nothing runs"},
    {"memory-leak", "memory grows without end"},
    {"noisy-neighbour", "a process slows another on the same GPU"},
    {"throughput-drop", "a job became slower"},
};
static const Word cause_words[] = {
    {"hardware", "the GPU, its memory or its links"},
    {"platform", "server, power, cooling, cabling"},
    {"firmware", "the GPU's own firmware"},
    {"driver", "kernel module, library, fabric manager"},
    {"application", "the program"},
    {"configuration", "a setting somebody made"},
    {"operator", "somebody is at work on the node"},
};
static const Word action_words[] = {
    {"none", "nothing to do"},
    {"watch", "keep an eye on it"},
    {"restart-app", "start the program again"},
    {"fix-app", "change the program or its input"},
    {"reset-gpu", "reset the GPU when it is idle"},
    {"reboot-node", "reboot"},
    {"drain-and-reset", "drain, then reset"},
    {"drain-and-reboot", "drain, then reboot"},
    {"drain-and-rma", "drain and replace the GPU"},
    {"check-cooling", "look at fans and air"},
    {"check-power", "look at power supplies and cables"},
    {"check-link", "look at the link's ends"},
    {"reseat", "reseat card or riser"},
    {"restart-fabric", "restart the fabric manager"},
    {"fix-driver", "finish the driver's installation"},
    {"fix-setting", "put the setting right"},
};
static const Word route_words[] = {
    {"none", "nobody is told"},
    {"user", "the owner of the work"},
    {"ticket", "the queue of operations"},
    {"page", "somebody at once"},
};

static const char *word_name(const Word *words, size_t count, uint32_t i)
{
    return i < count ? words[i].name : NULL;
}

const char *truth_class_name(uint32_t i)
{
    return word_name(class_words, ARRAY_LEN(class_words), i);
}

const char *truth_cause_name(uint32_t i)
{
    return word_name(cause_words, ARRAY_LEN(cause_words), i);
}

const char *truth_action_name(uint32_t i)
{
    return word_name(action_words, ARRAY_LEN(action_words), i);
}

const char *truth_route_name(uint32_t i)
{
    return word_name(route_words, ARRAY_LEN(route_words), i);
}

typedef struct TruthText {
    const char *fault, *cause, *action, *route;
    ScenarioTruth truth;
} TruthText;

#define AT(member) offsetof(TruthText, member)
static const Field truth_fields[] = {
    {"class", FIELD_TEXT, FIELD_NEEDED, AT(fault), 0, 0, 0, NULL, NULL, NULL, "what is wrong, see below"},
    {"cause", FIELD_TEXT, FIELD_NEEDED, AT(cause), 0, 0, 0, NULL, NULL, NULL, "who can put it right, see below"},
    {"action", FIELD_TEXT, FIELD_NEEDED, AT(action), 0, 0, 0, NULL, NULL, NULL, "what to do, see below"},
    {"route", FIELD_TEXT, FIELD_NEEDED, AT(route), 0, 0, 0, NULL, NULL, NULL, "who is told, see below"},
    {"gpu", FIELD_INDEXES, 0, AT(truth.gpus), 0, 0, SIM_GPU_MAX - 1, NULL, NULL, NULL, "the GPUs; without: the node"},
    {"work", FIELD_TEXT, 0, AT(truth.work), 0, 0, 0, NULL, NULL, NULL, "the work it is about"},
    {"from", FIELD_DURATION, 0, AT(truth.from_ns), 0, 0, 0, NULL, "0s", NULL, "when it begins to hold"},
    {"until", FIELD_DURATION, 0, AT(truth.until_ns), 0, 0, INFINITY, NULL, "forever", NULL, "when it ends"},
    {"xid", FIELD_U32, 0, AT(truth.xid), 0, 1, 999, NULL, NULL, NULL, "the XID at the root"},
    {"note", FIELD_TEXT, 0, AT(truth.note), 0, 0, 0, NULL, NULL, NULL, "a remark"},
};
static const FieldSet truth_set = {truth_fields, ARRAY_LEN(truth_fields), "a truth"};

static int word_find(const YamlNode *node, const char *key, const char *text, const Word *words, size_t count,
                     uint32_t *ret, Err *err)
{
    const char *names[64] = {0};
    for (size_t i = 0; i < count; i++) {
        names[i] = words[i].name;
        if (strcmp(words[i].name, text) == 0) {
            *ret = (uint32_t)i;
            return 0;
        }
    }
    return field_unknown(yaml_get(node, key), err, key, text, names);
}
_Static_assert(ARRAY_LEN(class_words) < 64, "raise the names above");

int truth_read(const YamlNode *node, uint32_t gpu_count, Arena *arena, ScenarioTruth *ret, Err *err)
{
    TruthText t = {0};
    bool seen[FIELD_MAX];
    TRY(field_defaults(&truth_set, arena, &t, err));
    TRY(field_read_map(&truth_set, node, arena, &t, seen, err));
    TRY(word_find(node, "class", t.fault, class_words, ARRAY_LEN(class_words), &t.truth.fault, err));
    TRY(word_find(node, "cause", t.cause, cause_words, ARRAY_LEN(cause_words), &t.truth.cause, err));
    TRY(word_find(node, "action", t.action, action_words, ARRAY_LEN(action_words), &t.truth.action, err));
    TRY(word_find(node, "route", t.route, route_words, ARRAY_LEN(route_words), &t.truth.route, err));
    uint64_t there = (UINT64_C(1) << gpu_count) - 1;
    if (t.truth.gpus == FIELD_ALL)
        t.truth.gpus = there;
    if (t.truth.gpus & ~there)
        return field_fail(yaml_get(node, "gpu"), err, "there is no such GPU: the node has %u", gpu_count);
    if (t.truth.until_ns <= t.truth.from_ns)
        return field_fail(node, err, "'until' must be later than 'from'");
    *ret = t.truth;
    return 0;
}

void truth_write(const ScenarioTruth *truth, Str *out)
{
    const char *sep = truth->gpus ? "gpu " : "node";
    for (uint32_t i = 0; i < 64; i++)
        if (truth->gpus >> i & 1) {
            str_addf(out, "%s%u", sep, i);
            sep = ",";
        }
    if (!truth->gpus)
        str_add(out, sep);
    if (truth->work)
        str_addf(out, " work %s", truth->work);
    str_addf(out, ": %s (%s) -> %s", truth_class_name(truth->fault), truth_cause_name(truth->cause),
             truth_action_name(truth->action));
}

static void words_page(const char *title, const Word *words, size_t count, Str *out)
{
    str_addf(out, "\n| %s | meaning |\n|---|---|\n", title);
    for (size_t i = 0; i < count; i++)
        str_addf(out, "| `%s` | %s |\n", words[i].name, words[i].about);
}

void truth_page(Str *out)
{
    str_add(out, "| key | takes | default | what |\n|---|---|---|---|\n");
    for (size_t i = 0; i < ARRAY_LEN(truth_fields); i++)
        field_page(&truth_fields[i], out);
    words_page("class", class_words, ARRAY_LEN(class_words), out);
    words_page("cause", cause_words, ARRAY_LEN(cause_words), out);
    words_page("action", action_words, ARRAY_LEN(action_words), out);
    words_page("route", route_words, ARRAY_LEN(route_words), out);
}
