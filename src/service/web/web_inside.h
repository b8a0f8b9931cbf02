/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What embed.py makes of web/node. Const. */

#include "service/web/web.h"

extern const WebFile web_files[];
extern const size_t web_file_count;
