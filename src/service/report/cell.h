/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Cells of CSV (RFC 4180), for the files of this folder. */

#include "service/report/out.h"

/* A text as a CSV cell, quoted where it must be; what is not UTF-8 becomes U+FFFD. */
void cell_text(Out *out, const char *text);
