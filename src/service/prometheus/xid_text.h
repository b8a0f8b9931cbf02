/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What an XID means, in a few words. Const data, any thread. */

#include <stdint.h>

/* "Unknown Error" for a number that is not in the list. */
const char *xid_text(int64_t xid);
