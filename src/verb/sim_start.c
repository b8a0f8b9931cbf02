/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/sim_start.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/owner.h"
#include "sim/core/control.h"
#include "sim/scenario/scenario.h"

/* Where the image goes: as asked, or NAME[.PID].img among this user's. */
static int image_path(VerbCall *call, const StartOptions *o, const char *name, bool running, const char **ret)
{
    const char *dir;
    if (o->image) {
        *ret = o->image;
        return 0;
    }
    int rc = sim_place_images(call->arena, &dir, &call->err);
    if (rc < 0)
        return rc;
    *ret = running ? arena_printf(call->arena, "%s/%s.%d.img", dir, name, (int)getpid())
                   : arena_printf(call->arena, "%s/%s.img", dir, name);
    return 0;
}

static int start_us(VerbCall *call, const char *text, uint64_t *ret)
{
    uint64_t ns;
    *ret = 0;
    if (!text)
        return 0;
    if (strcmp(text, "now") == 0) {
        *ret = clock_real(clock_kernel()) / 1000;
        return 0;
    }
    int rc = clock_parse(text, &ns, &call->err);
    if (rc < 0)
        return err_add(&call->err, "--start '%s'", text);
    *ret = ns / 1000;
    return 0;
}

int sim_start(VerbCall *call, const StartOptions *o, const char *scenario, bool running, const SimPlace *place,
              SimImage **ret, const char **ret_path)
{
    CLEANUP(board_set_done) BoardSet boards;
    board_set_init(&boards, place->board_dirs);
    const Scenario *s;
    uint64_t epoch_us;
    if (scenario_load(place->scenario_dirs, scenario, &boards, call->arena, &s, &call->err) < 0 ||
        start_us(call, o->start, &epoch_us) < 0)
        return verb_fail(call, EXIT_USAGE);
    ScenarioBuild how = {.seed = o->seed, .driver = o->driver};
    if (image_path(call, o, s->name, running, ret_path) < 0 || scenario_build(s, &how, *ret_path, ret, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (epoch_us)
        (*ret)->epoch_us = epoch_us;
    return 0;
}
