/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TESTS_UNITS_H
#define TESTS_UNITS_H

#define KiB (1ull << 10)
#define MiB (1ull << 20)

#endif
