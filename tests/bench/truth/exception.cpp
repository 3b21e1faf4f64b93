/* SPDX-License-Identifier: Apache-2.0 */
/* The work is in a destructor, while an exception leaves its function. */
#include "truth.h"

#include <stdexcept>

namespace {
struct guard {
	part_fn *part;
	unsigned n;
	NOINLINE ~guard()
	{
		part(n);
		sink = sink + 1; /* no tail call */
	}
};

NOINLINE void thrower(part_fn *part, unsigned n)
{
	guard g{ part, n };
	throw std::runtime_error("left");
}
} // namespace

static NOINLINE void by(part_fn *part, unsigned n)
{
	try {
		thrower(part, n);
	} catch (const std::exception &e) {
		sink = sink + (unsigned long long)e.what()[0];
	}
}
