/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "verb/agent/control.h"
#include "verb/verb.h"

int ask_status(const char *control, int timeout_ms, Str *out, Err *err)
{
    int code;

    str_clear(out);
    TRY(control_ask(control, "status json", timeout_ms, out, &code, err));
    if (out->len > 0 && out->text[0] == '{')
        return 0;
    return err_set(err, -EPROTO, "the agent says: %.*s", (int)strcspn(out->text, "\n"), out->text);
}

void ask_history(const AskHistory *ask, const MetricId *metrics, size_t count, Str *room, HistoryPoints *points)
{
    char line[CONTROL_LINE_MAX], pci[PCI_TEXT_CAP];
    Str words;
    HistoryHead head;
    int code;

    if (count == 0)
        return;
    str_init_room(&words, line, sizeof line);
    str_addf(&words, "history %s ",
             ask->device->uuid[0] ? ask->device->uuid : pci_format(ask->device->pci, PCI_FORM_NVML, pci));
    for (size_t i = 0; i < count; i++)
        str_addf(&words, "%s%s", i ? "," : "", metric_get(metrics[i])->name);
    str_addf(&words, " %s %s %s", ask->minutes ? "minute" : "second", ask->from, ask->to);
    str_clear(room);
    if (!words.overflow && control_ask(ask->control, line, ask->timeout_ms, room, &code, NULL) == 0 &&
        code == EXIT_FINE)
        (void)history_read(room->text, room->len, points, &head, NULL);
}
