/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing PCI addresses. No state, any thread. */

#include "model/pci.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum { DOMAIN_DIGITS_MIN = 4, DOMAIN_DIGITS_MAX = 8, DEVICE_MAX = 31, FUNCTION_MAX = 7 };

/* Reads at most `most` hex digits; false if there are fewer than `least`. */
static bool take_hex(const char **at, size_t least, size_t most, uint32_t *ret_value)
{
    size_t digits = strspn(*at, "0123456789abcdefABCDEF");
    uint64_t value = 0;

    digits = digits < most ? digits : most;
    if (digits < least || number_parsen_hex(*at, digits, UINT32_MAX, &value, NULL) < 0)
        return false;
    *at += digits;
    *ret_value = (uint32_t)value;
    return true;
}

static bool take_char(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

int pci_parse(const char *text, PciAddress *ret_address)
{
    const char *at = text;
    uint32_t domain = 0, bus, device, function = 0;
    bool prefixed = strncmp(text, "PCI:", 4) == 0;
    bool full;

    if (prefixed)
        at += 4;
    full = strcspn(at, ":") >= DOMAIN_DIGITS_MIN;
    if (prefixed && !full)
        return -EINVAL;
    if (full && (!take_hex(&at, DOMAIN_DIGITS_MIN, DOMAIN_DIGITS_MAX, &domain) || !take_char(&at, ':')))
        return -EINVAL;
    if (!take_hex(&at, 2, 2, &bus) || !take_char(&at, ':') || !take_hex(&at, 2, 2, &device) || device > DEVICE_MAX)
        return -EINVAL;
    if (*at == '.' || !full) {
        if (!take_char(&at, '.') || !take_hex(&at, 1, 1, &function) || function > FUNCTION_MAX)
            return -EINVAL;
    }
    if (*at != '\0')
        return -EINVAL;
    *ret_address =
        (PciAddress){.domain = domain, .bus = (uint8_t)bus, .device = (uint8_t)device, .function = (uint8_t)function};
    return 0;
}

const char *pci_format(PciAddress address, PciForm form, char text[PCI_TEXT_CAP])
{
    uint32_t domain = address.domain;
    unsigned bus = address.bus, device = address.device, function = address.function;
    int length = -1;

    if (form == PCI_FORM_SHORT && domain != 0)
        form = PCI_FORM_SYSFS;
    switch (form) {
    case PCI_FORM_NVML:
        length = snprintf(text, PCI_TEXT_CAP, "%08" PRIX32 ":%02X:%02X.%X", domain, bus, device, function);
        break;
    case PCI_FORM_SYSFS:
        length = snprintf(text, PCI_TEXT_CAP, "%04" PRIx32 ":%02x:%02x.%x", domain, bus, device, function);
        break;
    case PCI_FORM_SHORT:
        length = snprintf(text, PCI_TEXT_CAP, "%02x:%02x.%x", bus, device, function);
        break;
    case PCI_FORM_XID:
        length = snprintf(text, PCI_TEXT_CAP, "PCI:%04" PRIx32 ":%02x:%02x", domain, bus, device);
        break;
    }
    assert(length > 0 && length < PCI_TEXT_CAP);
    (void)length;
    return text;
}

int pci_compare(PciAddress a, PciAddress b)
{
    if (a.domain != b.domain)
        return a.domain < b.domain ? -1 : 1;
    if (a.bus != b.bus)
        return a.bus < b.bus ? -1 : 1;
    if (a.device != b.device)
        return a.device < b.device ? -1 : 1;
    return (int)a.function - (int)b.function;
}

int64_t pci_pack(PciAddress address)
{
    return (int64_t)address.domain << 16 | address.bus << 8 | address.device << 3 | address.function;
}

bool pci_unpack(int64_t number, PciAddress *ret)
{
    if (number < 0 || number >> 16 > UINT32_MAX)
        return false;
    *ret = (PciAddress){.domain = (uint32_t)(number >> 16),
                        .bus = (uint8_t)(number >> 8),
                        .device = number >> 3 & 0x1f,
                        .function = number & 0x7};
    return true;
}
