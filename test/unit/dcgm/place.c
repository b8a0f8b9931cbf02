/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "model/device.h"

Seen seen;

static void before(void *self, const char *function)
{
    Seen *at = self;
    size_t used = strlen(at->log);

    assert_string_equal(at->now, ""); /* never one in another */
    at->begun++;
    (void)snprintf(at->now, sizeof at->now, "%s", function);
    (void)snprintf(at->log + used, sizeof at->log - used, "%s ", function);
}

static void after(void *self)
{
    Seen *at = self;

    assert_string_not_equal(at->now, "");
    at->ended++;
    at->now[0] = '\0';
}

const DcgmHooks hooks = {.before = before, .after = after, .self = &seen};

/* Called by the library, from inside each of its functions. */
__attribute__((visibility("default"))) void fake_called(const char *function)
{
    assert_string_equal(seen.now, function);
    seen.calls++;
}

DcgmPlace place_of(const char *address)
{
    const char *library = getenv("FAKE_DCGM");

    assert_non_null(library);
    return (DcgmPlace){.library = library, .address = address, .connect_ms = 700};
}

int place_reset(void **state)
{
    (void)state;
    (void)unsetenv("FAKE_DCGM_FAIL");
    (void)unsetenv("FAKE_DCGM_HANG");
    (void)unsetenv("FAKE_DCGM_BAD_FIELD");
    (void)unsetenv("FAKE_DCGM_WATCH");
    (void)unsetenv("FAKE_DCGM_VALUES");
    (void)setenv("FAKE_DCGM_NOW_US", "1700000000000000", 1);
    seen = (Seen){0};
    return 0;
}

Dcgm *place_open(void)
{
    DcgmPlace place = place_of("");
    Dcgm *dcgm = NULL;
    Err err = {0};

    if (dcgm_open(&place, &hooks, &dcgm, &err) != 0)
        fail_msg("%s", err.text);
    return dcgm;
}

DcgmTarget place_gpu(int which)
{
    static const uint8_t buses[] = {0x17, 0x65, 0xca};

    return (DcgmTarget){
        .gpu.bus = buses[which], .gpu_instance = DEVICE_NO_NUMBER, .compute_instance = DEVICE_NO_NUMBER};
}

DcgmTarget place_instance(void)
{
    DcgmTarget target = place_gpu(1);

    target.gpu_instance = 3;
    target.compute_instance = 0;
    return target;
}

bool place_is_mapped(const char *name)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[1024];
    bool found = false;

    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        found = found || strstr(line, name);
    (void)fclose(file);
    return found;
}
