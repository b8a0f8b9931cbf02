/* SPDX-License-Identifier: Apache-2.0 */
/* Every form in lines.txt is read as it says there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "engine/health/catalogue.h"
#include "source/kmsg/line.h"

CLEANUP_POINTER(Catalogue, catalogue_free);

enum { FORMS_MIN = 200, TEXT_MAX = 1024 * 1024 };

typedef struct Forms {
    Catalogue *catalogue;
    const char *source, *expected; /* of the form that is being read; NULL: none */
    size_t expected_len, count, wrong;
    LineReader *reader;
    Str read; /* of its lines so far */
} Forms;

static void add_number(Str *out, const char *name, uint32_t value, uint32_t none)
{
    if (value != none)
        str_addf(out, " %s=%u", name, value);
}

/* The event with every field that is known, and the verdict. */
static void add_event(const Forms *forms, const Event *event, Str *out)
{
    char pci[PCI_TEXT_CAP];
    FaultVerdict verdict;

    str_addf(out, "%s%s", out->len ? "; " : "", event_kinds[event->kind].key);
    if (event->code)
        str_addf(out, " %d", event->code);
    if (event->has_pci)
        str_addf(out, " pci=%s", pci_format(event->pci, PCI_FORM_SYSFS, pci));
    add_number(out, "gi", event->gpu_instance, DEVICE_NO_NUMBER);
    add_number(out, "ci", event->compute_instance, DEVICE_NO_NUMBER);
    add_number(out, "link", event->link, DEVICE_NO_NUMBER);
    if (event->word != EVENT_NO_WORD)
        str_addf(out, " says=%s", event_words[event->word].key);
    add_number(out, "count", event->count, 1);
    add_number(out, "pid", (uint32_t)event->pid, UINT32_MAX);
    if (event->process[0])
        str_addf(out, " process=%s", event->process);
    add_number(out, "after", (uint32_t)event->caused_by, 0);
    add_number(out, "action", (uint32_t)event->recovery_action, UINT32_MAX);
    if (event->gpc >= 0)
        str_addf(out, " at=%d.%d.%d", event->gpc, event->tpc, event->sm);
    if (event->unit[0])
        str_addf(out, " unit=%s", event->unit);
    add_number(out, "registers", event->register_count, 0);
    if (event->uuid[0])
        str_addf(out, " uuid=%s", event->uuid);
    for (int i = 0; i < 2; i++)
        if (event->version[i][0])
            str_addf(out, " version=%s", event->version[i]);
    if (!catalogue_match(forms->catalogue, event, 0, 0, &verdict))
        str_add(out, " -> no rule");
    else if (!verdict.fault)
        str_add(out, " -> no fault");
    else
        str_addf(out, " -> %s %s%s%s", verdict.fault->id, fault_severities[verdict.severity].key,
                 verdict.silent ? " silent " : " ", fault_routes[verdict.route].key);
}

static void end_form(Forms *forms)
{
    if (!forms->expected)
        return;
    if (!forms->read.len)
        str_add(&forms->read, "nothing");
    forms->count++;
    if (forms->read.len != forms->expected_len || memcmp(forms->read.text, forms->expected, forms->expected_len) != 0) {
        print_message("%.*s\n  expected %.*s\n  read     %s\n", (int)strcspn(forms->source, "\n"), forms->source,
                      (int)forms->expected_len, forms->expected, forms->read.text);
        forms->wrong++;
    }
    forms->expected = NULL;
}

static void begin_form(Forms *forms, const char *line, size_t len)
{
    end_form(forms);
    assert_non_null(forms->source);
    forms->expected = line + (len > 2 ? 2 : len);
    forms->expected_len = len > 2 ? len - 2 : 0;
    str_clear(&forms->read);
    line_reader_free(forms->reader);
    forms->reader = line_reader_new(NULL, 0);
}

static void read_form_line(Forms *forms, const char *line, size_t len)
{
    Event event;

    if (forms->expected && line_read(forms->reader, line, len, &event))
        add_event(forms, &event, &forms->read);
}

static void every_form_is_read_rightly(void **state)
{
    CLEANUP(catalogue_free_at) Catalogue *catalogue = NULL;
    CLEANUP(str_done) Str file = {0};
    Forms forms = {0};
    Err err = {0};

    (void)state;
    str_init(&file, TEXT_MAX);
    str_init(&forms.read, TEXT_MAX);
    if (catalogue_new(NULL, 0, &catalogue, &err) < 0 || file_read(LINES_FILE, TEXT_MAX, &file, &err) < 0)
        fail_msg("%s", err.text);
    forms.catalogue = catalogue;
    for (const char *at = file.text; *at;) {
        const size_t len = strcspn(at, "\n");

        if (*at == '=')
            begin_form(&forms, at, len);
        else if (*at == '@' || len == 0)
            end_form(&forms);
        else
            read_form_line(&forms, at, len);
        if (*at == '@')
            forms.source = at;
        at += len + (at[len] == '\n');
    }
    end_form(&forms);
    assert_int_equal(forms.wrong, 0);
    assert_true(forms.count >= FORMS_MIN);
    line_reader_free(forms.reader);
    str_done(&forms.read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form_is_read_rightly)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
