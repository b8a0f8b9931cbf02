/* SPDX-License-Identifier: Apache-2.0 */
/* The NVSwitches of a baseboard: how many are PCI functions, and where (as on DGX A100 and DGX H100). */
#include "sim/core/control.h"

enum { AMPERE = 7, HOPPER = 9, AMPERE_SWITCHES = 6, HOPPER_SWITCHES = 4, AMPERE_BUS = 0xc4, HOPPER_BUS = 0x05 };

uint32_t sim_switch_count(const SimBoard *board)
{
    if (!board->link_count || !board->link_to_switch || board->arch > HOPPER)
        return 0;
    return board->arch <= AMPERE ? AMPERE_SWITCHES : HOPPER_SWITCHES;
}

uint32_t sim_switch_bus(const SimBoard *board, uint32_t n)
{
    return (board->arch <= AMPERE ? AMPERE_BUS : HOPPER_BUS) + n;
}
