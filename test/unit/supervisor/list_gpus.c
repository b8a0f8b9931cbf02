/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what pci_scan finds under the tree that is named, a line per GPU, for test_pci_tree.py. */

#include <stdio.h>

#include "source/pci/pci.h"

int main(int argc, char **argv)
{
    FactsGpu gpus[64];
    char text[PCI_TEXT_CAP];
    size_t count;
    Err err;

    if (argc != 2 || pci_scan(argv[1], gpus, 64, &count, NULL, &err) < 0)
        return 1;
    for (size_t i = 0; i < count && i < 64; i++)
        printf("%s %s %s %u x%u of %u x%u\n", pci_format(gpus[i].pci, PCI_FORM_SYSFS, text), gpus[i].driver,
               gpus[i].config_lost ? "lost" : "there", gpus[i].current.speed_mts, gpus[i].current.width,
               gpus[i].max.speed_mts, gpus[i].max.width);
    return 0;
}
