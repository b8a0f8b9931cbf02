/* SPDX-License-Identifier: Apache-2.0 */
/* Strict mode and the trace. Both are chosen once per process, so this program does nothing else. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node.h"
#include "sim/nvml/generation.h"
#include "sim/nvml/lib.h"

static char strict_path[] = "/tmp/nvml-strict-XXXXXX", trace_path[] = "/tmp/nvml-trace-XXXXXX";

static char *read_all(const char *path, char *buf, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    buf[fread(buf, 1, size - 1, file)] = '\0';
    fclose(file);
    return buf;
}

static unsigned int count_of(const char *text, const char *what)
{
    unsigned int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what))
        n++;
    return n;
}

static void mistakes_are_reported_once(void **state)
{
    char text[8192];
    unsigned int count, celsius;
    nvmlDevice_t device;
    nvmlEventSet_t set;
    nvmlTemperature_t wrong = {.version = 7};
    (void)state;

    SimImage *image = node_new(nvml_library_generation);
    for (int i = 0; i < 3; i++)
        assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(nvmlDeviceGetTemperatureV(device, &wrong), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    assert_int_equal(nvmlDeviceGetTemperature((nvmlDevice_t)(uintptr_t)8, NVML_TEMPERATURE_GPU, &celsius),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetTemperature(nvml_handle_mig(0, 1, 0), NVML_TEMPERATURE_GPU, &celsius),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    node_free(image);

    read_all(strict_path, text, sizeof text);
    assert_int_equal(count_of(text, "nvmlDeviceGetCount_v2: called before nvmlInit\n"), 1);
    assert_int_equal(count_of(text, "nvmlDeviceGetTemperatureV: struct version 0x00000007, wanted 0x0100000c\n"), 1);
    assert_int_equal(count_of(text, "nvmlDeviceGetTemperature: not a device handle\n"), 1);
    assert_int_equal(count_of(text, "nvmlDeviceGetTemperature: handle of a MIG device that is gone\n"), 1);
    assert_int_equal(count_of(text, "nvmlShutdown: 1 event sets were not freed at the last shutdown\n"), 1);
    assert_int_equal(count_of(text, "stoker-sim: strict: "), count_of(text, "\n"));
}

static void every_call_leaves_a_line(void **state)
{
    static char text[1 << 16];
    char wanted[2][64];
    (void)state;

    read_all(trace_path, text, sizeof text);
    assert_non_null(strstr(text, "nvmlDeviceGetCount_v2 - 1\nnvmlDeviceGetCount_v2 - 1\nnvmlDeviceGetCount_v2 - 1\n"
                                 "nvmlInit_v2 - 0\nnvmlDeviceGetHandleByIndex_v2 - 0\n"));
    snprintf(wanted[0], sizeof wanted[0], "nvmlDeviceGetTemperatureV gpu%d 25\n", NODE_FIRST);
    assert_int_equal(count_of(text, wanted[0]), 3);
    assert_non_null(strstr(text, "nvmlDeviceGetTemperature 0x8 2\n"));
    assert_non_null(strstr(text, "nvmlDeviceGetTemperature gpu0/1/0 2\n"));
    assert_non_null(strstr(text, "nvmlShutdown - 0\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_reported_once),
        cmocka_unit_test(every_call_leaves_a_line),
    };
    close(mkstemp(strict_path));
    close(mkstemp(trace_path));
    setenv("STOKER_SIM_STRICT", strict_path, 1);
    setenv("STOKER_SIM_TRACE", trace_path, 1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(strict_path);
    unlink(trace_path);
    return failed;
}
