/* SPDX-License-Identifier: Apache-2.0 */
/* The words of verdicts. One row each: name and what it means; the pages and the checks come from here. */
#include "sim/scenario/truth.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/core/image.h"
#include "sim/scenario/field.h"

enum { WORDS_MAX = 96 };

typedef struct Word {
    const char *name, *about;
} Word;

/* Classes of the fault catalogue (data/faults/classes.yaml), and causes of slow jobs. */
static const Word class_words[] = {
    {"gpu-lost", "the GPU has fallen off the bus"},
    {"gpu-missing", "the bus and the driver do not have the same GPUs"},
    {"reset-required", "the driver asks for a reset of the GPU"},
    {"ecc-uncorrectable", "the GPU's memory had an error that ECC cannot correct"},
    {"ecc-contained", "an uncorrectable memory error hit one program only"},
    {"ecc-storm", "memory errors are corrected at a rate that healthy GPUs do not have"},
    {"row-remap-pending", "a bad memory row waits for a reset to be replaced by a spare one"},
    {"row-remap-failed", "a bad memory row could not be replaced, its bank has no spare row left"},
    {"row-remap-low", "few spare rows are left to replace bad memory rows"},
    {"page-retirement", "memory pages were taken out of use"},
    {"sram-threshold", "on-chip memory had more uncorrectable errors than the vendor accepts"},
    {"gsp-failure", "the GPU's firmware does not answer the driver"},
    {"firmware-error", "a controller of the GPU has failed"},
    {"inforom-corrupt", "the GPU's own record of itself (InfoROM) is damaged"},
    {"engine-error", "an engine of the GPU failed under a program"},
    {"app-fault", "a program did something on the GPU that is not allowed"},
    {"gpu-fault-suspected", "errors that programs usually cause keep hitting the same place of one GPU"},
    {"driver-hang", "calls into the driver do not return"},
    {"driver-slow", "calls into the driver take far longer than they should"},
    {"driver-mismatch", "the driver's library and its kernel module are of different versions"},
    {"driver-unloaded", "the GPU driver is not loaded"},
    {"driver-reloaded", "the GPU driver was reloaded"},
    {"driver-error", "the driver refuses every new client with an unknown error"},
    {"uvm-failure", "the driver's memory management (UVM) has failed"},
    {"persistence-off", "the driver is unloaded from the GPU whenever no program uses it"},
    {"access-lost", "this container has lost its access to the GPUs"},
    {"thermal", "the GPU is slowed down by heat"},
    {"thermal-margin", "the GPU is close to the temperature at which it slows down"},
    {"fan", "a fan of the GPU has failed"},
    {"power-brake", "the server slows its GPUs down because its power supply asks for it"},
    {"power-limit", "a power limit below the board's own costs speed"},
    {"power-cabling", "the GPU does not get enough power"},
    {"clocks-low", "the GPU runs slower than its peers under the same load, and nothing explains it"},
    {"nvlink-down", "an NVLink of the GPU is down"},
    {"nvlink-errors", "an NVLink reports errors"},
    {"c2c-error", "the link between the GPU and its processor has errors"},
    {"fabric", "the NVLink fabric of the node is not ready, or its service does not run"},
    {"nvswitch", "an NVSwitch of the node reports a fatal error"},
    {"nvswitch-errors", "an NVSwitch reports errors that it can recover from"},
    {"pcie-degraded", "the GPU's PCIe link is narrower or slower than its slot"},
    {"pcie-errors", "the GPU's PCIe link has errors"},
    {"host-oom", "the kernel killed a process for lack of memory"},
    {"host-hung", "a part of the node's kernel has failed or makes no progress"},
    {"host-memory", "the node's own memory or processors report hardware errors"},
    {"mig-changed", "a MIG device went away while a program used it"},
    {"memory-leak", "a program's GPU memory grows steadily and will run out"},
    {"memory-orphaned", "GPU memory is held by no visible process"},
    {"noisy-neighbour", "a program on a shared GPU takes what another one needs"},
    {"monitor-blind", "a part of the monitoring does not work"},
    {"log-lost", "lines of the kernel log were overwritten before they could be read"},
    {"xid-unknown", "the driver reported a code that the catalogue does not know"},
    {"sxid-unknown", "an NVSwitch reported a code that the catalogue does not know"},
    {"confidential-compute", "confidential computing failed on the GPU"},
    {"display", "a display of the GPU failed"},
    {"vgpu", "a virtual GPU could not be started"},
    /* of jobs, not in the catalogue */
    {"hung-collective", "ranks wait for one that is gone"},
    {"straggler", "one rank or GPU holds up its job"},
    {"starved", "the GPU waits for data"},
    {"memory-bound", "bandwidth of memory is the limit"},
    {"tiny-kernels", "kernels too small to fill the GPU"},
    {"no-tensor-cores", "arithmetic runs on FP32 units only"},
    {"idle-memory", "memory is held, nothing runs"},
    {"throughput-drop", "a job became slower"},
    {"checkpointing", "the GPU stalls while its job saves its state"},
};
/* The words of src/model/fault.h, which this floor does not know; a test holds both together. */
static const Word cause_words[] = {
    {"application", "the program"},
    {"driver", "kernel module, library or their versions"},
    {"memory", "the GPU's memory or caches"},
    {"bus", "PCIe: slot, riser, switch or the GPU's end of it"},
    {"link", "an NVLink or C2C link"},
    {"thermal", "cooling or air"},
    {"power", "power supply or cabling"},
    {"firmware", "the GPU's own firmware"},
    {"fabric", "NVSwitches, fabric manager, IMEX"},
    {"host", "the server itself or its kernel"},
    {"configuration", "a setting that somebody made"},
    {"operator", "somebody is at work on the node"},
    {"unknown", "not known"},
};
static const Word action_words[] = {
    {"none", "Nothing to do"},
    {"watch", "Keep watching it"},
    {"check-app", "Check the program and its input"},
    {"restart-app", "Restart the program"},
    {"reset-gpu", "Reset the GPU when it is idle"},
    {"drain-and-reset", "Drain and reset this GPU"},
    {"reboot-node", "Reboot this node"},
    {"drain-and-reboot", "Drain and reboot this node"},
    {"drain-and-inspect", "Drain this node and have its hardware inspected"},
    {"drain-and-rma", "Drain and replace this GPU"},
    {"reset-fabric", "Reset all GPUs and switches of the fabric together"},
    {"restart-fabric", "Restart the fabric manager"},
    {"update-driver", "Update the driver"},
    {"fix-driver", "Load the NVIDIA kernel module (its version must match libnvidia-ml)"},
    {"inspect-link", "Check both ends of the link, its cable or bridge"},
    {"reseat", "Reseat card, riser or cable"},
    {"check-cooling", "Check fans and airflow"},
    {"check-power", "Check power supplies and cables"},
    {"fix-setting", "Correct the setting"},
    {"restart-container", "Restart the container"},
    {"restart-vm", "Restart the virtual machine"},
    {"check-monitor", "Check the agent, what it reads and what it writes"},
    {"report-vendor", "Report it to the vendor with its bundle"},
};
static const Word route_words[] = {
    {"none", "recorded only"},
    {"user", "the owner of the work"},
    {"ticket", "the operations queue"},
    {"page", "on call, now"},
};
static const Word severity_words[] = {
    {"info", NULL},
    {"warning", NULL},
    {"error", NULL},
    {"fatal", NULL},
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
    {"cause", FIELD_TEXT, FIELD_NEEDED, AT(cause), 0, 0, 0, NULL, NULL, NULL, "where the fault lies, see below"},
    {"action", FIELD_TEXT, FIELD_NEEDED, AT(action), 0, 0, 0, NULL, NULL, NULL, "what to do, see below"},
    {"route", FIELD_TEXT, FIELD_NEEDED, AT(route), 0, 0, 0, NULL, NULL, NULL, "who is told, see below"},
    {"gpu", FIELD_INDEXES, 0, AT(truth.gpus), 0, 0, SIM_GPU_MAX - 1, NULL, NULL, NULL, "the GPUs; without: the node"},
    {"work", FIELD_TEXT, 0, AT(truth.work), 0, 0, 0, NULL, NULL, NULL, "the work it is about"},
    {"from", FIELD_DURATION, 0, AT(truth.from_ns), 0, 0, 0, NULL, "0s", NULL, "when it begins to hold"},
    {"until", FIELD_DURATION, 0, AT(truth.until_ns), 0, 0, INFINITY, NULL, "forever", NULL, "when it ends"},
    {"xid", FIELD_U32, 0, AT(truth.xid), 0, 1, 999, NULL, NULL, NULL, "the XID at the root"},
    {"severity", FIELD_TEXT, 0, AT(truth.severity), 0, 0, 0, NULL, NULL, NULL,
     "what it comes to: info, warning, error or fatal; without: any"},
    {"note", FIELD_TEXT, 0, AT(truth.note), 0, 0, 0, NULL, NULL, NULL, "a remark"},
};
static const FieldSet truth_set = {truth_fields, ARRAY_LEN(truth_fields), "a truth"};

static const char *const how_names[] = {"exclusive", "mig", "sampled", "even", "unknown", NULL};

/* The last two are of `owners` alone. */
#define OWNER(k, type, fl, member, hi, names, def, h)                                                                  \
    {                                                                                                                  \
        k, type, fl, offsetof(ScenarioOwner, member), 0, 0, hi, names, def, NULL, h                                    \
    }
static const Field owner_fields[] = {
    OWNER("gpu", FIELD_U32, FIELD_NEEDED, gpu, SIM_GPU_MAX - 1, NULL, NULL, "the GPU"),
    OWNER("mig", FIELD_I32, 0, mig, SIM_CI_MAX - 1, NULL, NULL, "the MIG device of it; without: the whole GPU"),
    OWNER("user", FIELD_TEXT, 0, user, 0, NULL, NULL, "the user's name"),
    OWNER("job", FIELD_TEXT, 0, job, 0, NULL, NULL, "number of the Slurm job"),
    OWNER("pod", FIELD_TEXT, 0, pod, 0, NULL, NULL, "namespace/name of the pod"),
    OWNER("container", FIELD_TEXT, 0, container, 0, NULL, NULL, "name of the container in the pod"),
    OWNER("from", FIELD_DURATION, 0, from_ns, 0, NULL, "0s", "when it begins"),
    OWNER("until", FIELD_DURATION, 0, until_ns, INFINITY, NULL, "forever", "when it ends"),
    OWNER("how", FIELD_ENUM, FIELD_NEEDED, how, 0, how_names, NULL, "how a right monitor finds the share"),
    OWNER("share", FIELD_DOUBLE, 0, share, 1, NULL, "1", "of the device"),
};
static const FieldSet owner_set = {owner_fields, ARRAY_LEN(owner_fields), "an entry of 'owners'"};
static const FieldSet given_set = {owner_fields, ARRAY_LEN(owner_fields) - 2, "an entry of 'given'"};

const char *truth_how_name(uint32_t i)
{
    return i < ARRAY_LEN(how_names) ? how_names[i] : NULL;
}

int truth_read_owner(const YamlNode *node, uint32_t gpu_count, bool given, Arena *arena, ScenarioOwner *ret, Err *err)
{
    const FieldSet *set = given ? &given_set : &owner_set;
    ScenarioOwner owner = {.mig = SIM_NONE, .share = 1};
    bool seen[FIELD_MAX];
    TRY(field_defaults(set, arena, &owner, err));
    TRY(field_read_map(set, node, arena, &owner, seen, err));
    if (owner.gpu >= gpu_count)
        return field_fail(yaml_get(node, "gpu"), err, "there is no such GPU: the node has %u", gpu_count);
    if (owner.until_ns <= owner.from_ns)
        return field_fail(node, err, "'until' must be later than 'from'");
    const char *slash = owner.pod ? strchr(owner.pod, '/') : NULL;
    if (owner.pod && !slash)
        return field_fail(yaml_get(node, "pod"), err, "'pod' must be namespace/name");
    if (slash) {
        owner.namespace = arena_strndup(arena, owner.pod, (size_t)(slash - owner.pod));
        owner.pod = slash + 1;
    }
    *ret = owner;
    return 0;
}

static int word_find(const YamlNode *node, const char *key, const char *text, const Word *words, size_t count,
                     uint32_t *ret, Err *err)
{
    const char *names[WORDS_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        names[i] = words[i].name;
        if (strcmp(words[i].name, text) == 0) {
            *ret = (uint32_t)i;
            return 0;
        }
    }
    return field_unknown(yaml_get(node, key), err, key, text, names);
}
_Static_assert(ARRAY_LEN(class_words) < WORDS_MAX, "raise it");

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
    uint32_t severity;
    if (t.truth.severity)
        TRY(word_find(node, "severity", t.truth.severity, severity_words, ARRAY_LEN(severity_words), &severity, err));
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

void truth_owners_page(Str *out)
{
    fields_page(owner_fields, ARRAY_LEN(owner_fields), out);
}

void truth_page(Str *out)
{
    fields_page(truth_fields, ARRAY_LEN(truth_fields), out);
    words_page("class", class_words, ARRAY_LEN(class_words), out);
    words_page("cause", cause_words, ARRAY_LEN(cause_words), out);
    words_page("action", action_words, ARRAY_LEN(action_words), out);
    words_page("route", route_words, ARRAY_LEN(route_words), out);
}
