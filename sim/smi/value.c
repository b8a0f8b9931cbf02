/* SPDX-License-Identifier: Apache-2.0 */
/* Readings as text. */
#include "sim/smi/smi.h"

#include <stdarg.h>

#include "base/cleanup.h"

void value_text(Value *value, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(value->text, sizeof(value->text), fmt, args);
    va_end(args);
    value->rc = NVML_SUCCESS;
}

void value_error(Value *value, nvmlReturn_t rc)
{
    value->rc = rc;
    value->text[0] = '\0';
}

void value_uint(Value *value, nvmlReturn_t rc, unsigned long long number)
{
    if (rc == NVML_SUCCESS)
        value_text(value, "%llu", number);
    else
        value_error(value, rc);
}

void value_word(Value *value, nvmlReturn_t rc, unsigned long long i, const char *const *words, size_t count)
{
    if (rc != NVML_SUCCESS)
        value_error(value, rc);
    else if (i >= count || !words[i])
        value_error(value, NVML_ERROR_NOT_SUPPORTED);
    else
        value_text(value, "%s", words[i]);
}

void value_enabled(Value *value, nvmlReturn_t rc, unsigned long long on)
{
    static const char *const words[] = {"Disabled", "Enabled"};

    value_word(value, rc, on, words, ARRAY_LEN(words));
}

void value_yes(Value *value, nvmlReturn_t rc, unsigned long long on)
{
    static const char *const words[] = {"No", "Yes"};

    value_word(value, rc, on != 0, words, ARRAY_LEN(words));
}

void value_mib(Value *value, nvmlReturn_t rc, unsigned long long bytes)
{
    value_uint(value, rc, bytes / (1 << 20) + (bytes % (1 << 20) >= (1 << 19)));
}

void value_watt(Value *value, nvmlReturn_t rc, unsigned int milliwatts)
{
    if (rc == NVML_SUCCESS)
        value_text(value, "%.2f", milliwatts / 1000.0);
    else
        value_error(value, rc);
}

const char *value_reason(const Value *value)
{
    switch (value->rc) {
    case NVML_ERROR_INVALID_ARGUMENT:
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_NOT_FOUND:
    case NVML_ERROR_FUNCTION_NOT_FOUND:
    case NVML_ERROR_NO_DATA:
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "N/A";
    default:
        return nvml_error_text(value->rc);
    }
}

void value_show(const Value *value, const char *unit, char *out, size_t size)
{
    if (value->rc == NVML_SUCCESS)
        snprintf(out, size, "%s%s", value->text, unit ? unit : "");
    else
        snprintf(out, size, "%s", value_reason(value));
}

void value_process_name(Value *value, unsigned int pid)
{
    value->text[0] = '\0';
    value->rc = NV(SystemGetProcessName, pid, value->text, VALUE_MAX);
    if (value->rc == NVML_ERROR_NOT_FOUND)
        value_text(value, "[Not Found]");
}
