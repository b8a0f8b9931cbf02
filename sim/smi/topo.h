/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The verbs `topo` and `nvlink`. argv[0] is the verb; the result is the exit code. */
int topo_main(int argc, char **argv);
int nvlink_main(int argc, char **argv);
