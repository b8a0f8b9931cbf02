/* SPDX-License-Identifier: Apache-2.0 */
/* Well-known sequences of lines over the built-in catalogue: how many incidents they are, of what, and what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/health/incidents.h"
#include "source/kmsg/line.h"

#define SECOND UINT64_C(1000000000)

typedef struct Play {
    Catalogue *catalogue;
    LineReader *reader;
    Incidents *incidents;
    uint64_t now_ns, real_ns, boot_real_ns;
    size_t opened, pages;
    bool drained;
} Play;

static void on_told(void *self, const Incident *incident, IncidentChange change)
{
    Play *play = self;

    if (change == INCIDENT_CHANGE_OPENED || change == INCIDENT_CHANGE_REOPENED) {
        play->opened++;
        play->pages += incident->route == ROUTE_PAGE;
    }
}

static int begin(void **state)
{
    static Play play;
    Err err = {0};

    play = (Play){.now_ns = 3600 * SECOND, .real_ns = UINT64_C(1767225600) * SECOND};
    if (catalogue_new(NULL, 0, &play.catalogue, &err) < 0)
        fail_msg("%s", err.text);
    play.reader = line_reader_new(NULL, 0);
    play.incidents = incidents_new(play.catalogue, NULL, on_told, &play);
    *state = &play;
    return 0;
}

static int end(void **state)
{
    Play *play = *state;

    incidents_free(play->incidents);
    line_reader_free(play->reader);
    catalogue_free(play->catalogue);
    return 0;
}

static Event line(Play *play, EventKind kind, uint8_t bus, int32_t code, const char *text)
{
    Event event;

    event_init(&event, kind, EVENT_FROM_KMSG);
    event.time_ns = play->now_ns;
    event.real_ns = play->real_ns;
    event.has_pci = true;
    event.pci = (PciAddress){0, bus, 0, 0};
    event.code = code;
    strcpy(event.text, text);
    return event;
}

static void give(Play *play, const Event *event)
{
    incidents_add_event(play->incidents, event);
    incidents_advance(play->incidents, play->now_ns, play->real_ns);
}

static void say(Play *play, uint8_t bus, int32_t code, const char *text)
{
    Event event = line(play, EVENT_XID, bus, code, text);

    give(play, &event);
    play->now_ns += SECOND / 10;
    play->real_ns += SECOND / 10;
}

/* A line of the kernel log, whatever it says. */
static void hear(Play *play, const char *text)
{
    Event event;

    play->now_ns += SECOND / 10;
    play->real_ns += SECOND / 10;
    if (!line_read(play->reader, text, strlen(text), &event))
        return;
    event.time_ns = play->now_ns;
    event.real_ns = play->real_ns;
    give(play, &event);
}

static void wait(Play *play, uint64_t seconds)
{
    play->now_ns += seconds * SECOND;
    play->real_ns += seconds * SECOND;
    incidents_advance(play->incidents, play->now_ns, play->real_ns);
}

/* The only open one. */
static const Incident *only(const Play *play, const char *class)
{
    const Incident *found = NULL;

    for (size_t i = 0; i < incidents_count(play->incidents); i++) {
        const Incident *it = incidents_at(play->incidents, i);

        if (it->state != INCIDENT_OPEN)
            continue;
        if (found)
            fail_msg("'%s' is open beside '%s'", it->title, found->title);
        found = it;
    }
    assert_non_null(found);
    assert_string_equal(found->class, class);
    return found;
}

static void off_the_bus(void **state)
{
    Play *play = *state;
    Event event;
    const Incident *it;

    say(play, 0x4e, 79, "GPU has fallen off the bus.");
    for (int i = 0; i < 40; i++)
        say(play, 0x4e, 45, "Ch 00000008");
    for (int i = 0; i < 5; i++) {
        say(play, 0x4e, 119, "Timeout after 6s of waiting for RPC response from GPU4 GSP!");
        wait(play, 45);
    }
    event =
        line(play, EVENT_XID, 0x4e, 154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)");
    event.recovery_action = 2;
    give(play, &event);
    it = only(play, "gpu-lost");
    assert_int_equal(it->severity, SEVERITY_FATAL);
    assert_int_equal(it->route, ROUTE_PAGE);
    assert_int_equal(it->count, 1);
    assert_int_equal(play->opened, 1);
    assert_int_equal(it->action, ACTION_DRAIN_AND_REBOOT);
}

static void a_double_bit_error(void **state)
{
    static const int32_t codes[] = {48, 63, 45, 94, 95, 171, 172, 45};
    Play *play = *state;
    const Incident *it;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        say(play, 0x4e, codes[i], "a line");
    it = only(play, "ecc-uncorrectable");
    assert_int_equal(play->pages, 0);
    assert_int_equal(it->cause, CAUSE_MEMORY);
    say(play, 0x4e, 64, "Row Remapper Error: (0x00000002eebc4100) - All reserved rows for bank are remapped");
    it = only(play, "row-remap-failed"); /* now it is known what was behind it */
    assert_int_equal(it->echo_count, 8);
    assert_string_equal(it->verdict + strlen(it->verdict) - 11, "the vendor.");
    assert_int_equal(it->action, ACTION_DRAIN_AND_RMA);
    assert_int_equal(it->route, ROUTE_PAGE);
}

static void a_storm_of_45(void **state)
{
    Play *play = *state;

    for (int i = 0; i < 13120; i++) {
        Event event = line(play, EVENT_XID, (uint8_t)(0x10 + i % 8), 45, "Ch 00000008");

        incidents_add_event(play->incidents, &event);
        if (i % 64 == 0)
            wait(play, 1);
    }
    wait(play, 1);
    assert_int_equal(play->opened, 0);
}

static void a_gsp_that_hangs(void **state)
{
    Play *play = *state;

    for (int i = 0; i < 100; i++) {
        say(play, 0x4e, 119, "Timeout after 6s of waiting for RPC response from GPU4 GSP!");
        wait(play, 45);
    }
    assert_int_equal(only(play, "gsp-failure")->count, 100);
    assert_int_equal(play->opened, 1);
}

static void a_fatal_switch(void **state)
{
    Play *play = *state;
    Event event = line(play, EVENT_SXID, 0xc1, 20034, "Fatal, Link 33 LTSSM Fault Up");

    event.word = EVENT_FATAL;
    event.link = 33;
    give(play, &event);
    for (uint8_t bus = 0x10; bus < 0x18; bus++) {
        event = line(play, EVENT_XID, bus, 74, "NVLink: fatal error detected on link 9");
        event.link = 9;
        give(play, &event);
        say(play, bus, 45, "Ch 00000008");
    }
    assert_int_equal(only(play, "nvswitch")->severity, SEVERITY_FATAL);
    assert_int_equal(play->opened, 1);
}

static void programs_are_nobodys_page(void **state)
{
    static const int32_t codes[] = {8, 13, 31, 43, 45, 68, 69};
    Play *play = *state;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        Event event = line(play, EVENT_XID, (uint8_t)(0x10 + i), codes[i], "pid=5, name=python");

        event.pid = 5;
        strcpy(event.process, "python");
        give(play, &event);
    }
    assert_int_equal(play->pages, 0);
    for (size_t i = 0; i < incidents_count(play->incidents); i++)
        assert_true(incidents_at(play->incidents, i)->route <= ROUTE_USER);
}

static void every_xid_has_sentences(void **state)
{
    Play *play = *state;

    for (int32_t code = 1; code <= 176; code++) {
        say(play, (uint8_t)code, code, "a line");
        wait(play, 60);
    }
    for (size_t i = 0; i < incidents_count(play->incidents); i++) {
        const Incident *it = incidents_at(play->incidents, i);

        if (it->state == INCIDENT_PENDING)
            continue;
        assert_true(strlen(it->title) > 20 && strlen(it->verdict) > 20);
        if (strncmp(it->title, "GPU", 3) != 0)
            assert_non_null(strstr(it->title, "GPU 0000:"));
    }
}

static void three_records_are_one_error_of_a_switch(void **state)
{
    Play *play = *state;
    const Incident *it;

    hear(play, "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 33 LTSSM Fault Up");
    hear(play,
         "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Severity 1 Engine instance 33 Sub-engine instance 00");
    hear(play, "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Data {0x00000021, 0x00000021, 0x00000000}");
    it = only(play, "nvswitch");
    assert_int_equal(it->count, 1);
    assert_string_equal(it->title, "The fabric: an NVSwitch of the node reports a fatal error (switch 0000:86:00.0, "
                                   "link 33)");
    hear(play, "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 20034, Fatal, Link 5 LTSSM Fault Up");
    assert_int_equal(it->count, 2);
    assert_non_null(strstr(it->title, "(switch 0000:86:00.0, link 33)")); /* the first */
}

static void the_fabric_manager_repeats_it(void **state)
{
    static const char *const line =
        "[ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus "
        "id 00000000:86:00.0 physical id 1 port 33";
    Play *play = *state;
    uint64_t real_ns;
    Event event;

    hear(play, "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 33 LTSSM Fault Up");
    assert_true(line_read_fabric(line, strlen(line), &event, &real_ns));
    event.time_ns = play->now_ns + SECOND;
    event.real_ns = play->real_ns + SECOND;
    give(play, &event);
    assert_int_equal(only(play, "nvswitch")->count, 1);
    event.real_ns += 61 * SECOND; /* another time, and the kernel's line was missed */
    give(play, &event);
    assert_int_equal(only(play, "nvswitch")->count, 2);
}

static void what_the_driver_calls_non_fatal_stays_so(void **state)
{
    static const int codes[] = {12014, 12029, 19048, 19049, 19056, 19058, 19061, 19064, 19067, 10003, 20034, 24007};
    Play *play = *state;
    const Incident *it;
    char text[160];

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        snprintf(text, sizeof text, "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): %d, Non-fatal, Link 12 x", codes[i]);
        hear(play, text);
        snprintf(text, sizeof text, "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): %d, Severity 0 Engine instance 12",
                 codes[i]);
        hear(play, text);
    }
    wait(play, 61);
    assert_int_equal(play->pages, 0);
    it = only(play, "nvswitch-errors");
    assert_int_equal(it->count, sizeof codes / sizeof codes[0]);
    assert_non_null(strstr(it->verdict, "; with SXid "));
    assert_null(strstr(it->verdict, "XID "));
}

/* Whatever the driver decides on, title, action and advice say the same. */
static void action_title_and_advice_agree(void **state)
{
    static const struct {
        const char *line, *title, *advice;
        FaultAction action;
    } rows[] = {
        {"0x1 (GPU Reset Required)", "a reset of the GPU", "Drain the GPU, then reset it", ACTION_RESET_GPU},
        {"0x2 (Node Reboot Required)", "a reboot of the node", "A reset of the GPU is not enough", ACTION_REBOOT_NODE},
        {"0x3 (Drain P2P)", "an end of what uses peer to peer", "no reset is needed", ACTION_RESTART_APP},
        {"0x4 (Drain and Reset)", "an end of the work and a reset", "When its work has ended, reset it",
         ACTION_DRAIN_AND_RESET},
        {"0x5 (Recover IMEX Domain)", "recovery of its IMEX domain", "Restart the services", ACTION_RESTART_FABRIC},
    };
    Play *play = *state;
    char text[160];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(text, sizeof text,
                 "NVRM: Xid (PCI:0000:%02zx:00): 154, GPU recovery action changed from 0x0 (None) to %s", 0x10 + i,
                 rows[i].line);
        hear(play, text);
        const Incident *it = incidents_at(play->incidents, 0);
        assert_string_equal(it->class, "reset-required");
        assert_int_equal(it->action, rows[i].action);
        assert_non_null(strstr(it->title, rows[i].title));
        assert_non_null(strstr(it->verdict, rows[i].advice));
    }
}

static void a_contained_error_that_wants_a_reset_says_so(void **state)
{
    Play *play = *state;
    const Incident *it;

    hear(play, "NVRM: Xid (PCI:0000:4e:00): 94, pid=7, name=python, Contained: CE User Channel (0x9). RST: No");
    it = only(play, "ecc-contained");
    assert_non_null(strstr(it->verdict, "the GPU stays usable"));
    hear(play, "NVRM: Xid (PCI:0000:4e:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)");
    assert_int_equal(it->action, ACTION_DRAIN_AND_RESET);
    assert_non_null(strstr(it->verdict, "Do: Drain and reset this GPU."));
    assert_null(strstr(it->verdict, "the GPU stays usable"));
}

static void the_strongest_sign_is_told_first(void **state)
{
    Play *play = *state;

    for (int i = 0; i < 8; i++)
        hear(play, "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)");
    hear(play, "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)");
    const Incident *it = only(play, "host-memory");
    assert_int_equal(it->severity, SEVERITY_ERROR);
    assert_int_equal(strncmp(it->verdict, "EDAC MC0: 1 UE", 14), 0);
}

/* Two GPUs below a switch whose other port has an adapter; one of its own root port. */
static void place_gpus(Play *play)
{
    static const char *const paths[] = {
        "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0",
        "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0",
        "pci0000:80/0000:80:01.0/0000:81:00.0",
    };
    static NodeGpu gpus[3];
    static Place places[3];
    Node node = {.time_ns = play->now_ns, .real_ns = play->real_ns, .gpu_count = 3, .gpus = gpus};

    for (size_t i = 0; i < 3; i++) {
        gpus[i] = (NodeGpu){.state = GPU_UP, .drained = play->drained};
        device_init(&gpus[i].reading.device, DEVICE_GPU);
        strcpy(places[i].path, paths[i]);
        pci_parse(strrchr(paths[i], '/') + 1, &places[i].pci);
        gpus[i].reading.device.has_pci = true;
        gpus[i].reading.device.pci = places[i].pci;
        gpus[i].reading.device.index = (uint32_t)i;
        snprintf(gpus[i].reading.device.uuid, sizeof gpus[i].reading.device.uuid, "GPU-%zu", i);
    }
    incidents_set_node(play->incidents, &node);
    incidents_set_host(play->incidents, &(PlaceList){places, 3}, play->boot_real_ns);
}

#define AER "PCIe Bus Error: severity="

static void a_port_speaks_for_the_gpus_below(void **state)
{
    static const struct {
        const char *line;
        int gpu; /* -1 the node, -2 nobody */
        FaultRoute route;
    } rows[] = {
        {"pcieport 0000:80:01.0: " AER "Uncorrected (Fatal), type=Transaction Layer", 2, ROUTE_PAGE},
        {"pcieport 0000:80:01.0: " AER "Uncorrected (Non-Fatal), type=Transaction Layer", 2, ROUTE_TICKET},
        {"pcieport 0000:80:01.0: DPC: containment event, status:0x1f01 source:0x0000", 2, ROUTE_PAGE},
        {"pcieport 0000:80:01.0: pciehp: Slot(17): Link Down", 2, ROUTE_PAGE},
        {"pcieport 0000:12:01.0: pciehp: Slot(18): Card not present", 1, ROUTE_PAGE},
        {"pcieport 0000:12:00.0: " AER "Uncorrected (Non-Fatal), type=Transaction Layer", 0, ROUTE_TICKET},
        {"pcieport 0000:10:01.0: DPC: containment event, status:0x1f01 source:0x0000", -1, ROUTE_PAGE},
        {"pcieport 0000:11:00.0: " AER "Uncorrected (Fatal), type=Transaction Layer", -1, ROUTE_PAGE},
        {"pcieport 0000:10:01.0: " AER "Uncorrected (Non-Fatal), type=Transaction Layer", -2, ROUTE_NONE},
        {"pcieport 0000:12:02.0: " AER "Uncorrected (Fatal), type=Transaction Layer", -2, ROUTE_NONE},
        {"pcieport 0000:80:01.0: " AER "Corrected, type=Data Link Layer, (Transmitter ID)", -2, ROUTE_NONE},
        {"nvidia 0000:13:00.0: " AER "Uncorrected (Fatal), type=Transaction Layer", 0, ROUTE_PAGE},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        end(state);
        begin(state);
        Play *play = *state;
        place_gpus(play);
        hear(play, rows[i].line);
        if (rows[i].gpu == -2) {
            assert_int_equal(play->opened, 0);
        } else {
            const Incident *it = only(play, "pcie-errors");
            assert_int_equal(it->route, rows[i].route);
            assert_int_equal(it->device.kind, rows[i].gpu < 0 ? DEVICE_NODE : DEVICE_GPU);
            if (rows[i].gpu >= 0)
                assert_int_equal(it->device.index, rows[i].gpu);
        }
    }
}

static void who_takes_a_gpu_out_is_not_paged(void **state)
{
    Play *play = *state;

    play->drained = true;
    place_gpus(play);
    hear(play, "pcieport 0000:80:01.0: pciehp: Slot(17): Link Down");
    assert_int_equal(play->opened, 0);
    hear(play, "pcieport 0000:80:01.0: " AER "Uncorrected (Fatal), type=Transaction Layer"); /* that is no removal */
    assert_int_equal(only(play, "pcie-errors")->route, ROUTE_PAGE);
}

/* `lines` of so many corrected errors each, `seconds` apart. */
static void hear_corrected(Play *play, unsigned lines, unsigned errors, uint64_t seconds)
{
    char text[160];

    snprintf(text, sizeof text, "EDAC MC0: %u CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1)",
             errors);
    for (unsigned i = 0; i < lines; i++) {
        hear(play, text);
        wait(play, seconds);
    }
}

static void many_corrected_errors_are_a_ticket(void **state)
{
    Play *play = *state;

    hear_corrected(play, 99, 1, 1);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_NONE);
    hear_corrected(play, 1, 1, 1);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_TICKET);
    assert_int_equal(only(play, "host-memory")->severity, SEVERITY_WARNING);
    assert_int_equal(only(play, "host-memory")->escalations, 1);
    hear_corrected(play, 600, 262, 1);
    assert_int_equal(only(play, "host-memory")->escalations, 1);
}

/* As many in ten minutes, however far apart; and one line may tell of many. */
static void corrected_errors_count_within_their_time(void **state)
{
    Play *play = *state;

    hear_corrected(play, 4, 50, 610);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_NONE);
    hear_corrected(play, 2, 50, 400);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_TICKET);
}

/* Old lines of a file say nothing of how many came within a time if they do not say when. */
static void lines_without_a_time_are_no_burst(void **state)
{
    Play *play = *state;
    Event event;
    const char *text = "EDAC MC0: 90 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1)";

    assert_true(line_read(play->reader, text, strlen(text), &event));
    event.before = event.undated = true;
    event.time_ns = play->now_ns;
    event.real_ns = play->real_ns;
    for (int i = 0; i < 50; i++)
        incidents_add_event(play->incidents, &event);
    hear_corrected(play, 1, 50, 1); /* nor are they counted with this one */
    assert_int_equal(only(play, "host-memory")->route, ROUTE_NONE);
    hear_corrected(play, 1, 50, 1);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_TICKET);
}

/* Those of a file are dated beside its newest line, which may be older than it seems. */
static void old_errors_of_a_file_do_not_count_with_new_ones(void **state)
{
    Play *play = *state;
    Event event;
    const char *text = "EDAC MC0: 90 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1)";

    assert_true(line_read(play->reader, text, strlen(text), &event));
    event.before = event.older = true;
    event.time_ns = play->now_ns;
    event.real_ns = play->real_ns;
    incidents_add_event(play->incidents, &event);
    hear_corrected(play, 1, 50, 1);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_NONE);
    hear_corrected(play, 1, 50, 1);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_TICKET);
}

/* But among themselves they do. */
static void a_burst_in_an_old_file_is_a_burst(void **state)
{
    Play *play = *state;
    Event event;
    const char *text = "EDAC MC0: 60 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1)";

    assert_true(line_read(play->reader, text, strlen(text), &event));
    event.before = event.older = true;
    event.time_ns = play->now_ns;
    event.real_ns = play->real_ns;
    incidents_add_event(play->incidents, &event);
    incidents_add_event(play->incidents, &event);
    hear_corrected(play, 1, 1, 1);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_TICKET);
}

static void slow_corrected_errors_count_within_a_day(void **state)
{
    Play *play = *state;

    hear_corrected(play, 99, 10, 660);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_NONE);
    hear_corrected(play, 1, 10, 660);
    assert_int_equal(only(play, "host-memory")->route, ROUTE_TICKET);
}

/* The node is rebooted: what was there is over, and the GPUs are well. */
static void reboot(Play *play)
{
    Event event;

    wait(play, 600);
    play->boot_real_ns = play->real_ns;
    event_init(&event, EVENT_REBOOT, EVENT_FROM_AGENT);
    event.time_ns = play->now_ns;
    event.real_ns = play->real_ns;
    give(play, &event);
    place_gpus(play);
    wait(play, 60);
}

#define ASSERTION "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)"

static void a_line_without_a_gpu_is_about_the_one_that_has_it(void **state)
{
    Play *play = *state;

    place_gpus(play);
    hear(play,
         "NVRM: Xid (PCI:0000:81:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)");
    hear(play, ASSERTION);
    hear(play, ASSERTION);
    assert_int_equal(only(play, "reset-required")->count, 3);
    assert_int_equal(only(play, "reset-required")->device.index, 2);
}

static void a_line_without_a_gpu_is_about_the_node_otherwise(void **state)
{
    Play *play = *state;

    place_gpus(play);
    hear(play, ASSERTION);
    assert_int_equal(only(play, "reset-required")->device.kind, DEVICE_NODE);
    assert_int_equal(only(play, "reset-required")->route, ROUTE_TICKET);
    assert_string_equal(only(play, "reset-required")->title, "The node: the driver asks for a reset of a GPU");
    assert_string_equal(incident_action(only(play, "reset-required")),
                        "Find the GPU that needs it, and reset it when it is idle");
    assert_null(strstr(only(play, "reset-required")->verdict, "Drain it"));
}

/* The sentence goes on behind the line's full stop. */
static void a_lines_full_stop_is_left_out(void **state)
{
    Play *play = *state;

    hear(play, "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.");
    assert_non_null(strstr(only(play, "gpu-lost")->verdict, "GPU has fallen off the bus at "));
}

/* A line that means little does not say that the link fails. */
static void title_and_action_of_what_may_be_ignored_agree(void **state)
{
    Play *play = *state;

    hear(play, "NVRM: Xid (PCI:0000:18:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link "
               "14(0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)");
    assert_int_equal(only(play, "nvlink-errors")->action, ACTION_WATCH);
    assert_string_equal(only(play, "nvlink-errors")->title, "NVLink 14 of GPU 0000:18:00.0 reports errors");
    assert_non_null(strstr(only(play, "nvlink-errors")->verdict, "Do: Keep watching it."));
}

#define LOST "NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus."

static void what_a_reboot_did_not_end_is_inspected(void **state)
{
    Play *play = *state;

    play->boot_real_ns = play->real_ns - 3600 * SECOND;
    place_gpus(play);
    hear(play, LOST);
    assert_int_equal(only(play, "gpu-lost")->action, ACTION_DRAIN_AND_REBOOT);
    reboot(play);
    wait(play, 6 * 24 * 3600);
    hear(play, "NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus."); /* another one */
    assert_int_equal(only(play, "gpu-lost")->action, ACTION_DRAIN_AND_REBOOT);
    reboot(play);
    hear(play, LOST);
    const Incident *it = only(play, "gpu-lost");
    assert_int_equal(it->action, ACTION_DRAIN_AND_INSPECT);
    assert_non_null(strstr(it->verdict, "the node was rebooted since"));
    assert_non_null(strstr(it->verdict, "The usual remedy was tried and did not last"));
    hear(play,
         "NVRM: Xid (PCI:0000:81:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)");
    assert_int_equal(it->action, ACTION_DRAIN_AND_INSPECT);
}

/* So it is when it comes back so soon that the old incident goes on. */
static void back_at_once_after_a_reboot_is_inspected(void **state)
{
    Play *play = *state;

    play->boot_real_ns = play->real_ns - 3600 * SECOND;
    place_gpus(play);
    hear(play, LOST);
    reboot(play);
    hear(play, LOST);
    assert_int_equal(only(play, "gpu-lost")->reopened, 1);
    assert_int_equal(only(play, "gpu-lost")->action, ACTION_DRAIN_AND_INSPECT);
}

static void a_week_later_it_is_another_fault(void **state)
{
    Play *play = *state;

    play->boot_real_ns = play->real_ns - 3600 * SECOND;
    place_gpus(play);
    hear(play, LOST);
    reboot(play);
    wait(play, 7 * 24 * 3600);
    hear(play, LOST);
    assert_int_equal(only(play, "gpu-lost")->action, ACTION_DRAIN_AND_REBOOT);
}

/* Over for another reason: nobody has tried the remedy. */
static void without_a_reboot_nothing_was_tried(void **state)
{
    Play *play = *state;
    Event event;

    play->boot_real_ns = play->real_ns - 3600 * SECOND;
    place_gpus(play);
    hear(play, LOST);
    event_init(&event, EVENT_REBOOT, EVENT_FROM_AGENT); /* ends it; the boot is the same */
    event.time_ns = play->now_ns;
    event.real_ns = play->real_ns;
    give(play, &event);
    wait(play, 4 * 3600);
    hear(play, LOST);
    assert_int_equal(only(play, "gpu-lost")->action, ACTION_DRAIN_AND_REBOOT);
}

static void a_text_is_cut_behind_a_word(void **state)
{
    FaultClass class = {.id = "long", .text = "it has failed", .advice = NULL};
    Incident incident = {.pid = -1};
    char advice[1280] = "", *at;

    (void)state;
    for (int i = 0; i < 100; i++)
        strcat(advice, "replacement ");
    class.advice = advice;
    class.text = advice;
    device_init(&incident.device, DEVICE_NODE);
    incident_text(&incident, &class);
    const char *const texts[] = {incident.verdict, incident.title};
    for (size_t i = 0; i < 2; i++) {
        assert_true(strlen(texts[i]) > INCIDENT_TEXT_CAP - 24);
        at = strstr(texts[i], " ...");
        assert_non_null(at);
        assert_int_equal(at[4], '\0');
        assert_int_equal(strncmp(at - 11, "replacement", 11), 0);
    }
}

/* A GPU's fault explains why its readings are old, and not why the journal cannot be written. */
static void a_full_disk_has_an_incident_of_its_own(void **state)
{
    Play *play = *state;
    static const char *const rules[] = {"monitor-data", "monitor-journal"};

    hear(play, LOST);
    for (int second = 0; second < 90; second++) {
        for (size_t i = 0; i < 2; i++) {
            Evidence evidence = {.verdict = fault_verdict(catalogue_rule(play->catalogue, rules[i])),
                                 .holds = true,
                                 .time_ns = play->now_ns,
                                 .real_ns = play->real_ns,
                                 .pid = -1};

            device_init(&evidence.device, DEVICE_NODE);
            incidents_add_evidence(play->incidents, &evidence);
        }
        wait(play, 1);
    }
    assert_int_equal(play->opened, 2);
    assert_int_equal(play->pages, 1);
    const Incident *it = incidents_at(play->incidents, 0); /* the newest */
    assert_string_equal(it->class, "monitor-journal");
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(off_the_bus),
        ONE(a_double_bit_error),
        ONE(a_storm_of_45),
        ONE(a_gsp_that_hangs),
        ONE(a_fatal_switch),
        ONE(programs_are_nobodys_page),
        ONE(every_xid_has_sentences),
        ONE(three_records_are_one_error_of_a_switch),
        ONE(the_fabric_manager_repeats_it),
        ONE(what_the_driver_calls_non_fatal_stays_so),
        ONE(action_title_and_advice_agree),
        ONE(a_contained_error_that_wants_a_reset_says_so),
        ONE(the_strongest_sign_is_told_first),
        ONE(a_text_is_cut_behind_a_word),
        ONE(a_port_speaks_for_the_gpus_below),
        ONE(who_takes_a_gpu_out_is_not_paged),
        ONE(many_corrected_errors_are_a_ticket),
        ONE(corrected_errors_count_within_their_time),
        ONE(lines_without_a_time_are_no_burst),
        ONE(old_errors_of_a_file_do_not_count_with_new_ones),
        ONE(a_burst_in_an_old_file_is_a_burst),
        ONE(slow_corrected_errors_count_within_a_day),
        ONE(a_line_without_a_gpu_is_about_the_one_that_has_it),
        ONE(a_line_without_a_gpu_is_about_the_node_otherwise),
        ONE(a_lines_full_stop_is_left_out),
        ONE(title_and_action_of_what_may_be_ignored_agree),
        ONE(a_full_disk_has_an_incident_of_its_own),
        ONE(what_a_reboot_did_not_end_is_inspected),
        ONE(back_at_once_after_a_reboot_is_inspected),
        ONE(a_week_later_it_is_another_fault),
        ONE(without_a_reboot_nothing_was_tried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
