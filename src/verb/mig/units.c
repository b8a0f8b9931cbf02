/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/mig/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/subproc.h"
#include "base/yaml.h"
#include "verb/mig/hooks.h"

enum {
    NAME_MAX_BYTES = 255,
    FILE_BYTES_MAX = 64 << 10,
    UNIT_TIMEOUT_MS = 120 * 1000,
    NOT_ACTIVE = 3,
    NO_SUCH_UNIT = 4
};

static bool is_unit(const char *name)
{
    const size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:._\\@-");
    return len > 0 && len <= NAME_MAX_BYTES && !name[len] && name[0] != '-' && strchr(name, '.');
}

int mig_units_read(const char *path, Arena *arena, OptList *ret, Err *err)
{
    const YamlNode *root;
    TRY(yaml_load_file(path, arena, &root, err));
    const char *version = yaml_text(yaml_get(root, "version"));
    const YamlNode *list = yaml_get(root, "systemd-services");
    if (!version || strcmp(version, "v1") != 0 || !list)
        return err_set(err, -EINVAL, "%s: 'version: v1' and 'systemd-services' are needed", path);
    TRY(yaml_want(list, YAML_SEQ, "systemd-services", err));
    const char **names = arena_calloc(arena, list->len + 1, sizeof *names);
    for (size_t i = 0; i < list->len; i++) {
        TRY(yaml_want(list->items[i], YAML_SCALAR, "a unit", err));
        names[i] = list->items[i]->text;
        if (!is_unit(names[i]))
            return yaml_fail(list->items[i], err, "'%.60s' is not the name of a systemd unit", names[i]);
    }
    *ret = (OptList){names, list->len};
    return 0;
}

/* 1 where it is active. */
static int is_active(const MigUnits *units, const char *unit, Err *err)
{
    const char *const argv[] = {"chroot", units->root, "systemctl", "-q", "is-active", unit, NULL};
    CLEANUP(subproc_done) Subproc child = {0};
    SubprocEnd end;
    char text[SUBPROC_TEXT_MAX];
    TRY(subproc_start(&(SubprocSpec){.argv = argv}, &child, err));
    const int rc = subproc_wait(&child, UNIT_TIMEOUT_MS, &end, err);
    if (rc < 0)
        return rc;
    if (rc == SUBPROC_RUNNING) {
        (void)subproc_stop(&child, 0, &end, err);
        return err_set(err, -ETIMEDOUT, "%s: systemctl does not answer", unit);
    }
    if (end.exited && (end.exit_code == NOT_ACTIVE || end.exit_code == NO_SUCH_UNIT))
        return 0;
    subproc_describe(&end, text);
    return end.exited && end.exit_code == 0 ? 1 : err_set(err, -EIO, "%s: systemctl is-active: %s", unit, text);
}

static int run_systemctl(const MigUnits *units, const char *verb, const char *unit, Err *err)
{
    const char *const argv[] = {"chroot", units->root, "systemctl", verb, unit, NULL};
    return mig_run_program(&(SubprocSpec){.argv = argv}, UNIT_TIMEOUT_MS, err) < 0
               ? err_add(err, "systemctl %s %s", verb, unit)
               : 0;
}

static bool has_line(const Str *text, const char *line)
{
    const size_t len = strlen(line);
    for (const char *at = text->text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, line, len) == 0 && at[len] == '\n')
            return true;
    return false;
}

/* The text of the file; empty where there is none. */
static int read_stopped(const MigUnits *units, Str *to, Err *err)
{
    const int rc = file_read(units->file, FILE_BYTES_MAX, to, err);
    return rc == -ENOENT ? 0 : rc;
}

int mig_units_stop(const MigUnits *units, Err *err)
{
    CLEANUP(str_done) Str stopped = str_limited(FILE_BYTES_MAX);
    TRY(read_stopped(units, &stopped, err));
    for (size_t i = 0; i < units->names.len; i++) {
        const int active = is_active(units, units->names.items[i], err);
        if (active < 0)
            return active;
        if (active && !has_line(&stopped, units->names.items[i]))
            str_addf(&stopped, "%s\n", units->names.items[i]);
    }
    TRY(str_check(&stopped, "the list of units", err));
    if (!stopped.len)
        return 0;
    TRY(file_write(units->file, stopped.text, stopped.len, 0644, err));
    for (size_t i = 0; i < units->names.len; i++)
        if (has_line(&stopped, units->names.items[i]))
            TRY(run_systemctl(units, "stop", units->names.items[i], err));
    return 0;
}

int mig_units_start(const MigUnits *units, Err *err)
{
    CLEANUP(str_done) Str stopped = str_limited(FILE_BYTES_MAX);
    int rc = read_stopped(units, &stopped, err);
    if (rc < 0 || !stopped.len)
        return rc;
    while (stopped.len) {
        str_cut(&stopped, stopped.len - (stopped.text[stopped.len - 1] == '\n'));
        const char *end = stopped.len ? strrchr(stopped.text, '\n') : NULL;
        const char *unit = end ? end + 1 : stopped.text;
        if (stopped.len && is_unit(unit) && run_systemctl(units, "start", unit, err) < 0)
            rc = -EIO;
        str_cut(&stopped, end ? (size_t)(end + 1 - stopped.text) : 0);
    }
    if (rc == 0)
        (void)unlink(units->file);
    return rc;
}
