/* SPDX-License-Identifier: Apache-2.0 */
/* A virtual function, a template, and a lambda in a std::function. */
#include "truth.h"

#include <functional>
#include <memory>

namespace {
struct worker {
	virtual ~worker() = default;
	virtual void work(part_fn *part, unsigned n) const = 0;
};

template <typename T> struct typed : worker {
	NOINLINE void work(part_fn *part, unsigned n) const override
	{
		const std::function<void()> called = [part, n] {
			part(n);
			sink = sink + sizeof(T);
		};
		called();
		sink = sink + 1; /* no tail call */
	}
};
} // namespace

static NOINLINE void by(part_fn *part, unsigned n)
{
	static const std::unique_ptr<worker> workers[2] = { std::make_unique<typed<int>>(),
							    std::make_unique<typed<double>>() };
	workers[n % 2]->work(part, n);
	sink = sink + 1;
}
