/* SPDX-License-Identifier: Apache-2.0 */
/* smi_image SCENARIO FILE SECONDS SCENARIO_DIR BOARD_DIR: a node's image with its clock standing at SECONDS.
 * smi_image FILE SECONDS: moves the clock of an image forward. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/core/control.h"
#include "sim/scenario/scenario.h"

int main(int argc, char **argv)
{
    Err err = {0};
    SimImage *image = NULL;

    if (argc == 3 && (image = sim_image_open(argv[1])) != NULL)
        return sim_clock_advance(image, strtoull(argv[2], NULL, 10) * SIM_NS) < 0;
    if (argc != 6)
        return 2;
    const char *const scenarios[] = {argv[4], NULL}, *const boards[] = {argv[5], NULL};
    if (scenario_compile(scenarios, boards, argv[1], &(ScenarioBuild){0}, argv[2], &image, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int rc = sim_clock_advance(image, strtoull(argv[3], NULL, 10) * SIM_NS);
    sim_image_close(image);
    return rc < 0;
}
