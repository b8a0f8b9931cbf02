/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The driver generation a library was built for: 535, 550, 590 or 610. One small object per library defines it. */
extern const unsigned cu_library_generation;
