/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Texts as one word of a shell script, and as one scalar of YAML, whatever they contain. Pure; any thread. */

#include "base/str.h"

/* For POSIX shells: as it is, or between single quotes. */
void quote_shell(const char *text, Str *to);

/* For YAML 1.1 and 1.2: as it is where both read it as a text, else between double quotes, in ASCII. `text` is UTF-8;
 * bytes that are not become U+FFFD. */
void quote_yaml(const char *text, Str *to);

/* The same where Kubernetes would put variables into it: $(NAME) stays $(NAME). */
void quote_yaml_literal(const char *text, Str *to);
