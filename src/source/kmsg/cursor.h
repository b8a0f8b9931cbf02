/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A text that is being read from its left, for the files of this folder. Nothing in it is trusted: numbers that do not
 * fit are refused, nothing is read beyond the end. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/pci.h"

typedef struct Cursor {
    const char *at, *end;
} Cursor;

/* Steps over `word` where it comes next. */
bool cursor_skip(Cursor *c, const char *word);
/* Steps behind the first `word`; untouched where there is none. */
bool cursor_find(Cursor *c, const char *word);
bool cursor_has(Cursor c, const char *word);
void cursor_blanks(Cursor *c);
/* A decimal number of 1 to 9 digits; "0x" and up to 8 hexadecimal ones. */
bool cursor_number(Cursor *c, uint32_t *ret);
bool cursor_hex(Cursor *c, uint32_t *ret);
/* A PCI address of 4 to 8 digits of domain, with or without "PCI:" and function. */
bool cursor_pci(Cursor *c, PciAddress *ret);
/* What stands before `stop` (or before the end, where `open`), copied and made fit to show; steps behind `stop`. */
bool cursor_until(Cursor *c, const char *stop, bool open, char *out, size_t cap);
/* Copies text as UTF-8 without control characters, cut at a character. */
void cursor_show(const char *text, size_t len, char *out, size_t cap);
