/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gres.conf of a node, and what is wrong with one, as text and JSON. Decides nothing: engine/gres does. Pure. */

#include "engine/gres/gres.h"

/* The file; `node_name` stands before each line as NodeName=, unless it is NULL. */
void gres_conf_text(const GresNode *node, const char *node_name, Str *to);
/* {"gres":"gpu:TYPE:8", "devices":[...]}, ended by a newline. */
void gres_conf_json(const GresNode *node, Str *to);

/* Each problem in four lines at most, and what slurmd makes of the file: nothing, if there is none. */
void gres_problems_text(const GresConf *conf, Str *to);
/* {"file":..., "starts":..., "findings":[...]}, ended by a newline. */
void gres_problems_json(const GresConf *conf, Str *to);
