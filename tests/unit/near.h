/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASCRIBE_TESTS_UNIT_NEAR_H
#define ASCRIBE_TESTS_UNIT_NEAR_H

#include <math.h>
#include <stdbool.h>

static inline bool near(double x, double want, double relative)
{
	return fabs(x - want) <= relative * fabs(want) + 1e-300;
}

#endif
