/* SPDX-License-Identifier: Apache-2.0 */
/* The table of steps: the timeline, `sim inject`, the documentation and the error messages come from these rows. */
#include <math.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "sim/scenario/step_make.h"

#define AT(member) offsetof(StepArgs, member)
#define U32(k, m, fl, lo, hi, d, u, h)                                                                                 \
    {                                                                                                                  \
        k, FIELD_U32, fl, AT(m), 0, lo, hi, NULL, d, u, h                                                              \
    }
#define I32(k, m, fl, lo, hi, h)                                                                                       \
    {                                                                                                                  \
        k, FIELD_I32, fl, AT(m), 0, lo, hi, NULL, NULL, NULL, h                                                        \
    }
#define PICK(k, m, fl, n, d, h)                                                                                        \
    {                                                                                                                  \
        k, FIELD_ENUM, fl, AT(m), 0, 0, 0, n, d, NULL, h                                                               \
    }
#define REAL(k, m, fl, lo, hi, d, u, h)                                                                                \
    {                                                                                                                  \
        k, FIELD_DOUBLE, fl, AT(m), 0, lo, hi, NULL, d, u, h                                                           \
    }
#define YES(k, m, fl, d, h)                                                                                            \
    {                                                                                                                  \
        k, FIELD_BOOL, fl, AT(m), 0, 0, 0, NULL, d, NULL, h                                                            \
    }
#define TEXT(k, m, fl, h)                                                                                              \
    {                                                                                                                  \
        k, FIELD_TEXT, fl, AT(m), 0, 0, 0, NULL, NULL, NULL, h                                                         \
    }
#define FIRST FIELD_FIRST
#define NEED FIELD_NEEDED
#define COUNT_MAX 1000000000
#define ON(h) YES("on", on, 0, "yes", h)

static const Field xid_fields[] = {
    U32("code", code, NEED | FIRST, 1, 999, NULL, NULL,
        "XID; what follows from it (lost GPU, ECC, end of the work) comes with it"),
    TEXT("work", work, 0, "the work whose process the line names"),
    I32("mig", mig, 0, 0, SIM_CI_MAX - 1, "the MIG device it happened on"),
    I32("link", link, 0, 0, SIM_LINK_MAX - 1, "the NVLink it names (XID 74)"),
    {"address", FIELD_U64, 0, AT(address), 0, 0, 1e15, NULL, NULL, NULL, "the address it names (XID 48, 63, 64)"},
    TEXT("text", text, 0, "the line's text; without: the usual one for this code"),
};
static const Field event_fields[] = {
    PICK("type", pick, NEED | FIRST, step_event_names, NULL, "NVML event without any further effect"),
    {"data", FIELD_U64, 0, AT(data), 0, 0, 2e9, NULL, "0", NULL, "its data"},
};
static const Field ecc_fields[] = {
    U32("corrected", corrected, 0, 0, COUNT_MAX, NULL, NULL, "corrected errors at once"),
    U32("uncorrected", uncorrected, 0, 0, COUNT_MAX, NULL, NULL, "uncorrected errors at once"),
    REAL("corrected_rate", corrected_rate, 0, 0, 1e9, NULL, NULL, "corrected errors per second from now on, 0 ends it"),
    REAL("uncorrected_rate", uncorrected_rate, 0, 0, 1e9, NULL, NULL, "the same for uncorrected ones"),
    PICK("location", location, 0, step_location_names, "dram", "where"),
};
static const Field clear_ecc_fields[] = {
    PICK("counters", pick, FIRST, step_ecc_kind_names, "volatile", "which counters")};
static const Field remap_fields[] = {
    U32("corrected", corrected, 0, 0, 1000, NULL, NULL, "rows remapped for corrected errors"),
    U32("uncorrected", uncorrected, 0, 0, 1000, NULL, NULL,
        "rows remapped for uncorrected errors; pending until a reset"),
    YES("failed", failed, 0, "no", "the bank has no spare row left"),
};
static const Field retire_fields[] = {
    U32("single_bit", corrected, 0, 0, 64, NULL, NULL, "pages retired for many corrected errors"),
    U32("double_bit", uncorrected, 0, 0, 64, NULL, NULL, "pages retired for a double bit error"),
};
static const Field thermal_fields[] = {
    REAL("ambient", ambient_k, 0, -40, 60, NULL, "K", "warmer air by so many degrees"),
    REAL("cooling", cooling, 0, 0.05, 2, NULL, NULL, "share of the heat transport that is left: 0.5 or 50%"),
};
static const Field on_fields[] = {ON("no: it is over")};
static const Field throttle_fields[] = {
    PICK("reason", pick, FIRST, step_throttle_names, "thermal",
         "thermal: a third of the cooling, so it gets too hot under load; power-cap: the lowest limit"),
};
static const Field power_limit_fields[] = {
    {"watts", FIELD_MILLI, NEED | FIRST, AT(power_mw), 0, 1, 5000, NULL, NULL, "W",
     "new limit, within the board's range"},
};
static const Field reset_required_fields[] = {
    YES("on", on, 0, "yes", "no: only the recovery action is reported"),
    PICK("action", pick, FIRST, step_action_names, "reset", "the driver's recovery action"),
};
static const Field set_fields[] = {
    YES("persistence", on, 0, NULL, "persistence mode"),
    PICK("compute_mode", mode, 0, step_compute_names, NULL, "compute mode"),
    YES("ecc", clear, 0, NULL, "ECC after the next reset"),
    YES("accounting", all, 0, NULL, "process accounting"),
    YES("drain", failed, 0, NULL, "drain state"),
    U32("fan", percent, 0, 0, 100, NULL, "%", "fan speed set by hand"),
    U32("sm_clock", count, 0, 0, 6000, NULL, "MHz", "application clock, 0: default"),
    U32("mem_clock", status, 0, 0, 30000, NULL, "MHz", "application clock of the memory, 0: default"),
    U32("lock_min", clock_min, 0, 0, 6000, NULL, "MHz", "locked SM clock, lower end"),
    U32("lock_max", clock_max, 0, 0, 6000, NULL, "MHz", "locked SM clock, upper end; 0: not locked"),
};
static const Field link_fields[] = {
    PICK("state", pick, NEED | FIRST, step_link_names, NULL,
         "what happens; errors counts them, clear clears the counters"),
    I32("link", link, 0, 0, SIM_LINK_MAX - 1, "number of the link; without: all"),
    PICK("counter", counter, 0, step_counter_names, "replay", "which errors"),
    U32("count", count, 0, 0, COUNT_MAX, NULL, NULL, "errors at once"),
    REAL("rate", rate, 0, 0, 1e9, NULL, NULL, "errors per second from now on, 0 ends it"),
};
static const Field pcie_fields[] = {
    U32("gen", gen, 0, 1, 7, NULL, NULL, "generation under load from now on"),
    U32("width", width, 0, 1, 32, NULL, NULL, "lanes from now on"),
    U32("replays", count, 0, 0, COUNT_MAX, NULL, NULL, "replays at once"),
    REAL("rate", rate, 0, 0, 1e9, NULL, NULL, "replays per second from now on, 0 ends it"),
    U32("slot_gen", slot_gen, 0, 1, 7, NULL, NULL, "generation that the slot can do"),
    U32("slot_width", slot_width, 0, 1, 32, NULL, NULL, "lanes that the slot has"),
};
static const Field aer_fields[] = {
    PICK("severity", severity, NEED | FIRST, step_severity_names, NULL, "severity"),
    PICK("error", pick, NEED, step_aer_names, NULL,
         "the error as the kernel names it; the first eight are correctable"),
    U32("count", count, 0, 1, COUNT_MAX, "1", NULL, "how many"),
    YES("port", all, 0, "no", "counted by the port above the GPU, not by the GPU"),
};
static const Field hang_fields[] = {
    TEXT("function", function, FIRST, "name of an NVML function, or all"),
    {"delay", FIELD_DURATION, 0, AT(delay_ns), 0, 0, INFINITY, NULL, "forever", NULL, "how long calls take"},
    U32("after", after, 0, 0, COUNT_MAX, "0", NULL, "calls that still return at once"),
    YES("clear", clear, 0, "no", "ends the rule of that function, or all rules without one"),
};
static const Field fabric_fields[] = {
    PICK("state", pick, FIRST, step_fabric_names, NULL, "state of the registration"),
    U32("status", status, 0, 0, 999, NULL, NULL, "NVML code of the registration"),
    PICK("health", health, 0, step_health_names, NULL, "health of the fabric as this GPU sees it"),
};
static const Field fabric_manager_fields[] = {PICK("state", pick, NEED | FIRST, step_up_names, NULL, "the service")};
static const Field reload_fields[] = {
    {"after", FIELD_DURATION, 0, AT(delay_ns), 0, 0.001, 1e6, NULL, "3s", NULL, "how long it is away"},
};
static const Field stuck_fields[] = {
    U32("count", count, FIRST, 0, 64, "1", NULL, "how many there are from now on"),
};
static const Field orphan_fields[] = {
    {"memory", FIELD_MIB, NEED | FIRST, AT(rate), 0, 0, 16e6, NULL, NULL, NULL, "how much"},
};
static const Field persistenced_fields[] = {PICK("state", pick, NEED | FIRST, step_up_names, NULL, "the service")};
static const Field sxid_fields[] = {
    U32("code", code, NEED | FIRST, 10000, 99999, NULL, NULL, "SXid"),
    U32("switch", switch_number, 0, 0, 15, "0", NULL, "number of the NVSwitch"),
    I32("link", link, 0, 0, 71, "link of the switch"),
    PICK("severity", severity, 0, step_severity_names, "fatal", "the word in the line"),
    TEXT("text", text, 0, "the rest of the line"),
};
static const Field driver_fields[] = {PICK("state", pick, NEED | FIRST, step_driver_names, NULL, "what clients find")};
static const Field plug_fields[] = {
    PICK("what", pick, NEED | FIRST, step_plug_names, NULL, "remove from the bus, or add again")};
static const Field kmsg_fields[] = {TEXT("text", text, NEED | FIRST, "one line of the kernel log")};
static const Field log_fields[] = {
    PICK("state", pick, NEED | FIRST, step_log_names, NULL, "away: not to be opened; overrun: records are lost"),
    U32("count", count, 0, 1, COUNT_MAX, "100", NULL, "overrun: how many"),
};
static const Field work_fields[] = {
    TEXT("work", work, NEED | FIRST, "name of the work or of its process"),
    I32("rank", rank, 0, 0, SIM_WORK_MAX, "this rank only"),
};
static const Field oom_fields[] = {
    TEXT("work", work, NEED | FIRST, "name of the work or of its process"),
    I32("rank", rank, 0, 0, SIM_WORK_MAX, "this rank; without: the first"),
    {"memory", FIELD_MIB, 0, AT(rate), 0, 1, 16e6, NULL, "256GiB", NULL, "resident memory of the victim"},
};
static const Field compute_fields[] = {
    REAL("memory", memory_speed, 0, 0.01, 2, NULL, NULL, "speed of its memory: 0.94 or 94%"),
    I32("device", mig, 0, 0, SIM_CI_MAX - 1, "the MIG device whose memory that is; without: all"),
    U32("sm", sm, 0, 0, 1023, NULL, NULL, "an SM that is slow"),
    REAL("speed", sm_speed, 0, 0.01, 2, NULL, NULL, "speed of that SM"),
    U32("sm_missing", missing_sm, 0, 0, 1023, NULL, NULL, "an SM on which nothing runs"),
    REAL("wrong", wrong, 0, 0, 1, NULL, NULL, "probability of a wrong result, for each operation of one SM"),
    U32("wrong_sm", wrong_sm, 0, 0, 1023, "0", NULL, "that SM"),
    YES("repeats", repeats, 0, "no", "the same result is wrong each time"),
    YES("nan", nan, 0, "no", "a wrong result is not a number; else a bit of it is"),
    {"bad_address", FIELD_U64, 0, AT(address), 0, 0, 1e13, NULL, NULL, NULL,
     "byte of its memory: a bit of the first word of that 4 KiB is stuck"},
    U32("cuda", code, 0, 1, 999, NULL, NULL,
        "result of CUDA: of cuInit, of a context (46), of a kernel's text (221, 222), or of all calls from a launch "
        "on"),
    U32("after", after, 0, 0, COUNT_MAX, "0", NULL, "launches that go well before"),
    REAL("out_of_memory_at", room, 0, 0.001, 1, NULL, NULL, "part of the memory beyond which there is none"),
    TEXT("hang", function, 0, "kernel: kernels do not end; or the name of a CUDA function that does not return"),
    U32("peer", peer, 0, 0, SIM_GPU_MAX - 1, NULL, NULL, "another GPU, and what is between the two"),
    PICK("access", pick, 0, step_access_names, NULL,
         "none both ways; staged through the host both ways; corrupt: what goes there arrives wrong"),
};
static const Field mig_mode_fields[] = {YES("on", on, NEED | FIRST, NULL, "MIG mode; instances and works end with it")};
static const Field mig_create_fields[] = {
    TEXT("profile", profile, NEED | FIRST, "profile of the GPU instance, as 3g.40gb"),
    I32("start", start, 0, 0, 15, "memory slice it starts at; without: where the driver would put it"),
    U32("compute", count, 0, 1, 8, NULL, NULL, "slices of its one compute instance; without: all of them"),
};
static const Field mig_destroy_fields[] = {
    I32("device", mig, FIRST, 0, SIM_CI_MAX - 1, "the MIG device whose GPU instance goes"),
    I32("instance", gi, 0, 0, 255, "id of the GPU instance"),
    YES("all", all, 0, "no", "all of them"),
};

#define ROW(name, scope, flags, fields, make, example, help)                                                           \
    {                                                                                                                  \
        name, help, scope, flags, fields, ARRAY_LEN(fields), make, example                                             \
    }
#define BARE(name, scope, flags, make, example, help)                                                                  \
    {                                                                                                                  \
        name, help, scope, flags, NULL, 0, make, example                                                               \
    }
static const Step steps[] = {
    ROW("xid", STEP_GPU, 0, xid_fields, make_xid, "xid 79 gpu=3", "An XID with all that follows from it"),
    ROW("event", STEP_GPU, 0, event_fields, make_event, "event clock gpu=0", "An NVML event and nothing else"),
    ROW("ecc", STEP_GPU, STEP_UNDO, ecc_fields, make_ecc, "ecc gpu=0 corrected=20 location=dram", "Memory errors"),
    ROW("clear-ecc", STEP_GPU, 0, clear_ecc_fields, make_clear_ecc, "clear-ecc aggregate gpu=0",
        "Sets error counters to 0"),
    ROW("remap", STEP_GPU, 0, remap_fields, make_remap, "remap gpu=1 uncorrected=1", "Row remapping"),
    ROW("retire", STEP_GPU, 0, retire_fields, make_retire, "retire gpu=0 double_bit=1",
        "Page retirement, before Ampere"),
    ROW("sram-threshold", STEP_GPU, STEP_UNDO, on_fields, make_sram, "sram-threshold gpu=1", "Too many SRAM errors"),
    ROW("thermal", STEP_GPU, STEP_UNDO, thermal_fields, make_thermal, "thermal gpu=1 ambient=+15 for=5m",
        "Warmer air or worse cooling"),
    ROW("fan-fail", STEP_GPU, STEP_UNDO, on_fields, make_fan, "fan-fail gpu=0", "The fan stands still"),
    ROW("power-brake", STEP_GPU, STEP_UNDO, on_fields, make_power_brake, "power-brake gpu=all for=30s",
        "The power supply asserts the brake"),
    ROW("hw-slowdown", STEP_GPU, STEP_UNDO, on_fields, make_slowdown, "hw-slowdown gpu=2 for=1m",
        "Hardware thermal slowdown"),
    ROW("throttle", STEP_GPU, STEP_UNDO, throttle_fields, make_throttle, "throttle hw-thermal gpu=2 for=5m",
        "Clocks are held down, for one of the reasons that drivers give"),
    ROW("power-limit", STEP_GPU, STEP_UNDO, power_limit_fields, make_power_limit, "power-limit 400 gpu=0-3",
        "Another power limit"),
    BARE("lost", STEP_GPU, 0, make_lost, "lost gpu=3", "Falls off the bus without an XID"),
    ROW("init-failed", STEP_GPU, STEP_UNDO, on_fields, make_init_failed, "init-failed gpu=5",
        "The driver could not start it: it is on the bus, but new clients do not find it"),
    ROW("suspend", STEP_GPU, STEP_UNDO, on_fields, make_suspend, "suspend gpu=3 for=5m",
        "The kernel lets it sleep (runtime power management); its configuration space reads as ones"),
    ROW("reset-required", STEP_GPU, 0, reset_required_fields, make_reset_required, "reset-required gpu=4",
        "The driver wants a reset"),
    BARE("reset", STEP_GPU, 0, make_reset, "reset gpu=3", "A reset, which also brings a lost GPU back"),
    ROW("inforom", STEP_GPU, STEP_UNDO, on_fields, make_inforom, "inforom gpu=0", "The inforom is corrupt"),
    ROW("set", STEP_GPU, STEP_UNDO, set_fields, make_set, "set gpu=0 persistence=off compute_mode=exclusive-process",
        "Settings as nvidia-smi makes them"),
    ROW("link", STEP_GPU, STEP_UNDO, link_fields, make_link, "link gpu=1 link=4 down", "NVLink state and errors"),
    ROW("pcie", STEP_GPU, STEP_UNDO, pcie_fields, make_pcie, "pcie gpu=2 width=8", "PCIe speed, width and replays"),
    ROW("aer", STEP_GPU, 0, aer_fields, make_aer, "aer correctable gpu=2 error=BadTLP count=40",
        "PCIe errors the kernel counts"),
    ROW("fabric", STEP_GPU, STEP_UNDO, fabric_fields, make_fabric, "fabric in-progress gpu=all",
        "NVLink fabric registration"),
    ROW("fabric-manager", STEP_NODE, STEP_UNDO, fabric_manager_fields, make_fabric_manager, "fabric-manager down",
        "The fabric manager service"),
    ROW("persistenced", STEP_NODE, STEP_UNDO, persistenced_fields, make_persistenced, "persistenced down",
        "The persistence daemon"),
    ROW("sxid", STEP_NODE, 0, sxid_fields, make_sxid, "sxid 20034 switch=1 link=33", "A line of an NVSwitch"),
    ROW("driver", STEP_NODE, STEP_UNDO, driver_fields, make_driver, "driver mismatch", "The driver as clients find it"),
    ROW("reload", STEP_NODE, 0, reload_fields, make_reload, "reload after=5s",
        "The driver's modules are unloaded and loaded again"),
    ROW("stuck", STEP_NODE, STEP_UNDO, stuck_fields, make_stuck, "stuck 2",
        "Tasks sleep in the driver and cannot be killed (in the tree of `sim run --tree`)"),
    ROW("hang", STEP_GPU_OR_NODE, STEP_UNDO | STEP_STATE, hang_fields, make_hang,
        "hang gpu=2 nvmlDeviceGetPowerUsage delay=500ms", "NVML calls that are slow or do not return"),
    ROW("plug", STEP_GPU, STEP_UNDO, plug_fields, make_plug, "plug remove gpu=7", "A GPU leaves the bus or comes back"),
    ROW("kmsg", STEP_NODE, 0, kmsg_fields, make_kmsg,
        "kmsg \"text=mce: [Hardware Error]: Machine check events logged\"", "A line of the kernel log"),
    ROW("log", STEP_NODE, STEP_UNDO, log_fields, make_log, "log overrun count=300",
        "The file of the kernel log cannot be opened, or records were overwritten before anybody read them"),
    ROW("oom", STEP_GPU_OR_NODE, STEP_STATE, oom_fields, make_oom, "oom llama",
        "The kernel kills a process for memory"),
    ROW("orphan-memory", STEP_GPU, STEP_UNDO, orphan_fields, make_orphan_memory, "orphan-memory gpu=0 20GiB",
        "GPU memory is in use that no process holds; a reset frees it"),
    ROW("compute", STEP_GPU, STEP_UNDO | STEP_STATE, compute_fields, make_compute, "compute gpu=3 memory=0.94",
        "What only programs that use CUDA notice: slow or wrong memory, SMs and links, calls that fail or hang"),
    ROW("start", STEP_GPU_OR_NODE, STEP_UNDO | STEP_STATE, work_fields, make_start, "start llama",
        "Starts a work, again if it has ended"),
    ROW("stop", STEP_GPU_OR_NODE, STEP_UNDO | STEP_STATE, work_fields, make_stop, "stop llama rank=5",
        "Ends a work; ranks that remain wait for it"),
    ROW("mig-mode", STEP_GPU, STEP_STATE, mig_mode_fields, make_mig_mode, "mig-mode yes gpu=0", "MIG mode"),
    ROW("mig-create", STEP_GPU, STEP_STATE, mig_create_fields, make_mig_create, "mig-create 3g.40gb gpu=0",
        "A GPU instance with its compute instance"),
    ROW("mig-destroy", STEP_GPU, STEP_STATE, mig_destroy_fields, make_mig_destroy, "mig-destroy device=0 gpu=0",
        "Ends GPU instances and what runs on them"),
};

const Step *step_at(size_t i)
{
    return i < ARRAY_LEN(steps) ? &steps[i] : NULL;
}
