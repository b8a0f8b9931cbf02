/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/terminal_type.h"

#include <errno.h>
#include <ncurses.h>
#include <stdlib.h>
#include <term.h>

#include "base/cleanup.h"
#include "verb/top/terminal_guard.h"

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

int type_find(int fd, const char **ret, Err *err)
{
    const char *names[] = {is_set("TERM") ? getenv("TERM") : "unknown", "xterm-256color", "xterm"};
    int known = 0;
    size_t i = 0;
    while (i < ARRAY_LEN(names) && setupterm(names[i], fd, &known) != OK)
        if (++i == 1 && !is_set("TERM"))
            return err_set(err, -ENOTSUP, "TERM is not set: try TERM=xterm-256color");
    if (i == ARRAY_LEN(names))
        return err_set(err, -ENOTSUP, "terminal '%s' is not in terminfo: install ncurses-base, or set TERM", names[0]);
    bool places = cursor_address != NULL;
    del_curterm(cur_term);
    if (!places)
        return err_set(err, -ENOTSUP, "terminal '%s' cannot place its cursor: 'top --once' prints one look", names[i]);
    *ret = names[i];
    return 0;
}

static char restore_bytes[GUARD_RESTORE_MAX];
static size_t restore_len;

static int keep_byte(int c)
{
    if (restore_len < sizeof restore_bytes)
        restore_bytes[restore_len++] = (char)c;
    return c;
}

static void keep_sequence(const char *capability)
{
    if (capability)
        tputs(capability, 1, keep_byte);
}

/* The bytes to write if endwin cannot be called. */
void type_prepare_restore(bool mouse)
{
    restore_len = 0;
    if (mouse)
        keep_sequence(MOUSE_OFF);
    keep_sequence(exit_attribute_mode);
    keep_sequence(orig_pair);
    keep_sequence(cursor_normal);
    keep_sequence(keypad_local);
    keep_sequence(exit_ca_mode ? exit_ca_mode : "\r\n");
    guard_restore_with(restore_bytes, restore_len);
}

bool type_has_mouse(void)
{
    return key_mouse != NULL;
}
