/* SPDX-License-Identifier: Apache-2.0 */
/* service/incident/text.c: what a person reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "kit.h"
#include "test/unit/golden.h"

static const IncidentStyle plain = {.width = 80, .real_ns = KIT_REAL + 240 * NS_PER_S};

static int set_up(void **state)
{
    static Str out;

    str_init(&out, 1 << 20);
    *state = &out;
    return 0;
}

static int tear_down(void **state)
{
    str_done(*state);
    return 0;
}

static void the_most_urgent_first(void **state)
{
    const Incident lost = kit_incident(), fan = kit_incident_of("fan", SEVERITY_WARNING, INCIDENT_OPEN, 1),
                   over = kit_incident_of("thermal", SEVERITY_FATAL, INCIDENT_CLEARED, 2);
    const Incident *const list[] = {&over, &fan, &lost};
    const Incident *sorted[3];

    incidents_text(list, 3, &plain, *state);
    assert_string_equal(((Str *)*state)->text,
                        "fatal    GPU 3 (0000:1e:00.0) has fallen off the bus\n"
                        "         do: Drain and reboot this node\n"
                        "         for 4 min, seen 20 times, page, 1jf8v3k2m0\n"
                        "warning  GPU 1: fan\n"
                        "         do: Nothing to do\n"
                        "         for 4 min, seen 1 time, ticket, id-fan\n"
                        "cleared  GPU 2: thermal\n"
                        "         the condition is over; it lasted from 4 min ago until 3 min ago;\n"
                        "         id-thermal\n");
    incidents_urgent(list, 3, sorted);
    assert_ptr_equal(sorted[0], &lost);
    assert_ptr_equal(sorted[1], &fan);
    assert_ptr_equal(sorted[2], &over);
}

static void none(void **state)
{
    incidents_text(NULL, 0, &plain, *state);
    assert_string_equal(((Str *)*state)->text, "no incident\n");
}

static void one_with_everything(void **state)
{
    Incident incident = kit_incident();

    incident.silenced = true;
    incident_sheet(&incident, &plain, *state);
    assert_string_equal(((Str *)*state)->text,
                        "GPU 3 (0000:1e:00.0) has fallen off the bus\n"
                        "XID 79 in the kernel log. Reboot the node.\n"
                        "\n"
                        "do          Drain and reboot this node\n"
                        "runbook     https://example.org/gpu-lost\n"
                        "state       open, in maintenance\n"
                        "class       gpu-lost, fatal; cause: PCIe: slot, riser, switch or the GPU's end\n"
                        "            of it\n"
                        "goes to     on call, now\n"
                        "device      NVIDIA H100 80GB HBM3 0000:1e:00.0 GPU-3, serial number 16503\n"
                        "driver      590.48.01\n"
                        "first       2026-01-05T08:00:03.000Z, 4 min ago\n"
                        "opened      2026-01-05T08:00:03.000Z, 4 min ago\n"
                        "updated     2026-01-05T08:00:03.000Z, 4 min ago\n"
                        "seen        20, and 1 consequences; escalated 0, came back 0\n"
                        "id          1jf8v3k2m0\n"
                        "\n"
                        "evidence\n"
                        "  2026-01-05T08:00:03.000Z  kmsg       Xid (PCI:0000:1e:00): 79, GPU has fallen\n"
                        "      off the bus.\n"
                        "  ... and 19 more\n"
                        "  2026-01-05T08:00:03.000Z  kmsg       Xid (PCI:0000:1e:00): 154, GPU recovery\n"
                        "      action changed\n"
                        "\n"
                        "before and after\n"
                        "  aer_fatal                                                     0              2\n"
                        "  pcie_width                                                   16              -\n");
}

/* Without a link: the page that is built in, and nothing for a class of a site's own. */
static void the_runbook_of_a_sheet(void **state)
{
    Incident incident = kit_incident();
    Str *out = *state;

    incident.runbook[0] = '\0';
    incident_sheet(&incident, &plain, out);
    assert_non_null(strstr(out->text, "\nrunbook     stoker runbook gpu-lost\n"));
    str_clear(out);
    snprintf(incident.class, sizeof incident.class, "lab-door");
    incident_sheet(&incident, &plain, out);
    assert_null(strstr(out->text, "runbook"));
}

static void an_event_on_one_line(void **state)
{
    EventSeen seen = {.event = kit_event(), .gpu = DEVICE_NO_NUMBER, .incident = "1jf8v3k2m0"};
    Str *out = *state;

    seen.gpu = 3;
    event_seen_text(&seen, &plain, out);
    assert_string_equal(out->text,
                        "2026-01-05T08:00:03.000Z  GPU 3         XID 79            GPU has fallen off the bus."
                        "  [1jf8v3k2m0]");
    str_clear(out);
    seen.gpu = DEVICE_NO_NUMBER;
    event_seen_text(&seen, &plain, out);
    assert_string_equal(out->text,
                        "2026-01-05T08:00:03.000Z  0000:1e:00.0  XID 79            GPU has fallen off the bus."
                        "  [1jf8v3k2m0]");
    str_clear(out);
    seen.event.has_pci = false;
    seen.event.kind = EVENT_AGENT_START;
    seen.incident[0] = '\0';
    snprintf(seen.event.text, sizeof seen.event.text, "es f\xc3\xa4ngt an");
    event_seen_text(&seen, &plain, out);
    assert_string_equal(out->text, "2026-01-05T08:00:03.000Z  node          agent-start       es f?ngt an");
}

/* No title is so long and no screen so narrow that a line leaves it; words longer than the line stand alone. */
static void no_line_is_wider_than_the_screen(void **state)
{
    Incident incident = kit_incident();
    const Incident *const list[] = {&incident};
    Str *out = *state;

    snprintf(incident.title, sizeof incident.title,
             "GPU 3 is hot \xe2\x82\xac and its fan, the left one by the door, stands still for the third time today");
    for (int utf8 = 0; utf8 < 2; utf8++)
        for (size_t width = 40; width < 130; width += 3) {
            const IncidentStyle style = {.width = width, .utf8 = utf8, .real_ns = plain.real_ns};

            str_clear(out);
            incidents_text(list, 1, &style, out);
            if (width > 60) /* not its longest word, the runbook's address */
                incident_card(&incident, "", &style, out);
            for (const char *at = out->text; *at; at += strcspn(at, "\n") + 1) {
                size_t columns = 0;

                for (size_t i = 0; at[i] != '\n'; i++) {
                    columns += ((unsigned char)at[i] & 0xc0) != 0x80;
                    assert_true(utf8 || (unsigned char)at[i] < 0x80);
                }
                assert_true(columns <= width);
            }
        }
}

/* What was seen stands apart from what to do, and what the action's own line says is not said again. */
static void a_card(void **state)
{
    Incident incident = kit_incident();
    Str *out = *state;

    snprintf(incident.verdict, sizeof incident.verdict,
             "XID 79 in the kernel log at 08:00:03 UTC (2 times); with XID 154. Do: Drain and reboot this "
             "node. A reset cannot reach the GPU.");
    incident_card(&incident, "", &plain, out);
    assert_string_equal(out->text, "fatal    GPU 3 (0000:1e:00.0) has fallen off the bus\n"
                                   " DO      Drain and reboot this node\n"
                                   "         A reset cannot reach the GPU.\n"
                                   " means   the device cannot be used until somebody acts. Critical: act now.\n"
                                   " why     XID 79 in the kernel log at 08:00:03 UTC (2 times); with XID 154; for 4\n"
                                   "         min\n"
                                   " more    stoker runbook 1jf8v3k2m0; stoker incidents show 1jf8v3k2m0;\n"
                                   "         https://example.org/gpu-lost\n");

    str_clear(out); /* no room for what was seen: its first evidence says it */
    snprintf(incident.verdict, sizeof incident.verdict, "A reset cannot reach the GPU.");
    incident_card(&incident, "", &plain, out);
    assert_non_null(strstr(out->text, "\n         A reset cannot reach the GPU.\n means "));
    assert_non_null(
        strstr(out->text, "\n why     Xid (PCI:0000:1e:00): 79, GPU has fallen off the bus. at 08:00:03 UTC;"));

    str_clear(out); /* a site's own class has no page */
    snprintf(incident.class, sizeof incident.class, "of-our-own");
    incident.runbook[0] = '\0';
    incident.route = ROUTE_NONE;
    incident.silenced = true;
    snprintf(incident.window, sizeof incident.window, "1jf8");
    incident_card(&incident, "", &plain, out);
    assert_non_null(strstr(out->text, "\n more    stoker incidents show 1jf8v3k2m0\n"));
    assert_non_null(strstr(out->text, " Recorded only, no alert.\n silent  in maintenance window 1jf8: no alerts\n"));
}

static void colours_only_when_asked(void **state)
{
    const Incident incident = kit_incident();
    const Incident *const list[] = {&incident};
    IncidentStyle style = plain;

    incidents_text(list, 1, &style, *state);
    incident_sheet(&incident, &style, *state);
    incident_card(&incident, "", &style, *state);
    assert_null(strchr(((Str *)*state)->text, '\033'));
    style.colour = true;
    incidents_text(list, 1, &style, *state);
    assert_non_null(strstr(((Str *)*state)->text, "\033[1;31m"));
}

/* Each severity and state in colours at two widths, whole: what golden/texts.txt has. */
static void texts_are_as_in_the_file(void **state)
{
    static const struct {
        const char *class;
        FaultSeverity severity;
        IncidentState state;
        FaultRoute route;
    } kinds[] = {
        {"a-fan", SEVERITY_WARNING, INCIDENT_OPEN, ROUTE_TICKET},
        {"b-fan", SEVERITY_WARNING, INCIDENT_OPEN, ROUTE_PAGE},
        {"c-note", SEVERITY_INFO, INCIDENT_OPEN, ROUTE_NONE},
        {"d-app", SEVERITY_ERROR, INCIDENT_OPEN, ROUTE_USER},
        {"e-lost", SEVERITY_FATAL, INCIDENT_OPEN, ROUTE_PAGE},
        {"f-over", SEVERITY_FATAL, INCIDENT_CLEARED, ROUTE_PAGE},
        {"g-soon", SEVERITY_ERROR, INCIDENT_PENDING, ROUTE_PAGE},
    };
    Incident incidents[ARRAY_LEN(kinds)], whole = kit_incident();
    const Incident *list[ARRAY_LEN(kinds)];
    Str *out = *state;

    for (uint32_t i = 0; i < ARRAY_LEN(kinds); i++) {
        incidents[i] = kit_incident_of(kinds[i].class, kinds[i].severity, kinds[i].state, i);
        incidents[i].route = kinds[i].route;
        list[i] = &incidents[i];
    }
    incidents[3].device.kind = DEVICE_GPU_INSTANCE;
    incidents[3].device.gpu_instance = 7;
    incidents[3].owner_count = INCIDENT_OWNERS + 1; /* more than are kept */
    for (size_t i = 0; i < INCIDENT_OWNERS; i++)
        snprintf(incidents[3].owners[i].user, sizeof incidents[3].owners[i].user, "user%zu", i);
    for (size_t width = 60; width <= 110; width += 50) {
        const IncidentStyle style = {.width = width, .colour = true, .utf8 = width > 60, .real_ns = plain.real_ns};

        incidents_text(list, ARRAY_LEN(list), &style, out);
        for (size_t i = 0; i < ARRAY_LEN(list); i++) {
            incident_card(list[i], "", &style, out);
            str_addc(out, '\n');
            incident_sheet(list[i], &style, out);
        }
        incident_sheet(&whole, &style, out);
    }
    assert_golden(GOLDEN "/texts.txt", out);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_most_urgent_first),
        TEST(none),
        TEST(one_with_everything),
        TEST(the_runbook_of_a_sheet),
        TEST(an_event_on_one_line),
        TEST(texts_are_as_in_the_file),
        TEST(no_line_is_wider_than_the_screen),
        TEST(a_card),
        TEST(colours_only_when_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
