/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * label.h for C++17 and later. Its rules hold here too.
 *
 *	ascribe::label q{"query_id", id};                     // once per request
 *	ascribe::label q{{"tenant", name}, {"query_id", id}}; // several labels
 *	auto rows = q.apply([&] { return run(plan); });       // each piece of its work, anywhere
 *
 *	ascribe::scope s{q};                                  // the same, to the end of the block
 *	ascribe::scope s{"endpoint", "/sort"};                // one label, built in place
 *
 *	ascribe::context c = ascribe::context::current();     // hand the labels of this thread ...
 *	pool.submit([c] { c.apply(work); });                  // ... to another one, by value
 *
 *	ascribe::task_labels t{q};                            // in a coroutine's promise or a fiber
 *	t.swap(); handle.resume(); t.swap();                  // around each resume: one store
 *
 * Nothing throws, nothing allocates. A label that found no room is left out and counted by
 * dropped().
 */
#ifndef ASCRIBE_LABEL_HPP
#define ASCRIBE_LABEL_HPP

#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "label.h"

/* See ASCRIBE_LINKAGE_: on functions, since a hidden type may not be a member of a visible one. */
#define ASCRIBE_MEMBER __attribute__((visibility("hidden")))

namespace ascribe {

/*
 * One key and value, borrowed until the end of the expression. Integers, enums and bool become
 * numbers.
 */
class attribute {
public:
	ASCRIBE_MEMBER attribute(std::string_view key, std::string_view value) noexcept
		: key_(key), text_(value), number_(0), kind_(kind::text)
	{
	}

	ASCRIBE_MEMBER attribute(std::string_view key, const char *value) noexcept
		: key_(key), text_(value ? std::string_view(value) : std::string_view()),
		  number_(0), kind_(kind::text)
	{
	}

	template <typename T,
		  typename = std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>>>
	ASCRIBE_MEMBER attribute(std::string_view key, T value) noexcept
		: key_(key), number_(static_cast<ascribe_u64>(value)),
		  kind_(is_signed<T>() ? kind::signed_number : kind::unsigned_number)
	{
	}

private:
	friend class label;
	friend class scope;
	enum class kind { text, signed_number, unsigned_number };

	template <typename T> ASCRIBE_MEMBER static constexpr bool is_signed() noexcept
	{
		if constexpr (std::is_enum_v<T>)
			return std::is_signed_v<std::underlying_type_t<T>>;
		else
			return std::is_signed_v<T>;
	}

	ASCRIBE_MEMBER void add_to(ascribe_label_set *set) const noexcept
	{
		if (kind_ == kind::text)
			ascribe_set_add_bytes(set, key_.data(), key_.size(),
					      text_.data() ? text_.data() : "", text_.size());
		else if (kind_ == kind::signed_number)
			ascribe_set_add_int_n(set, key_.data(), key_.size(),
					      static_cast<ascribe_s64>(number_));
		else
			ascribe_set_add_uint_n(set, key_.data(), key_.size(), number_);
	}

	std::string_view key_, text_;
	ascribe_u64 number_;
	kind kind_;
};

class label;
class context;

/* Attached from construction to destruction. Not movable: the record may stand inside. */
class scope {
public:
	ASCRIBE_MEMBER explicit scope(const label &l) noexcept;
	ASCRIBE_MEMBER explicit scope(label &&) = delete; /* it must outlive the scope */

	/* Replaces what is attached: a context is a whole set, not an addition. */
	ASCRIBE_MEMBER explicit scope(const context &c) noexcept;
	ASCRIBE_MEMBER explicit scope(context &&) = delete;

	/* One label on top of what is attached, or as many as are given. */
	template <typename T> ASCRIBE_MEMBER scope(std::string_view key, const T &value) noexcept
	{
		ascribe_scope_begin(&scope_);
		attribute(key, value).add_to(&scope_.set);
		ascribe_swap(&scope_.set.header);
	}

	ASCRIBE_MEMBER explicit scope(std::initializer_list<attribute> attributes) noexcept
	{
		ascribe_scope_begin(&scope_);
		for (const attribute &a : attributes)
			a.add_to(&scope_.set);
		ascribe_swap(&scope_.set.header);
	}

	ASCRIBE_MEMBER ~scope() { ascribe_detach(&scope_); }
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;

private:
	ascribe_scope scope_;
};

/* An immutable set of labels, 688 bytes. Any number of threads may use one at once. */
class label {
public:
	ASCRIBE_MEMBER label() noexcept { ascribe_set_init(&set_); }

	template <typename T> ASCRIBE_MEMBER label(std::string_view key, const T &value) noexcept
	{
		ascribe_set_init(&set_);
		attribute(key, value).add_to(&set_);
	}

	ASCRIBE_MEMBER label(std::initializer_list<attribute> attributes) noexcept
	{
		ascribe_set_init(&set_);
		for (const attribute &a : attributes)
			a.add_to(&set_);
	}

	ASCRIBE_MEMBER label(const label &other) noexcept { ascribe_set_copy(&set_, &other.set_); }
	/* Not assignable: it could be attached somewhere. */
	label &operator=(const label &) = delete;

	/* The same labels with W3C trace context; 16 and 8 bytes, NULL for none. */
	ASCRIBE_MEMBER label with_trace(const void *trace_id, const void *span_id,
					unsigned char flags = 0) const noexcept
	{
		label l(*this);
		ascribe_set_trace(&l.set_, trace_id, span_id, flags);
		return l;
	}

	/*
	 * Call f with the labels attached and return what it returns. They go when it throws, too.
	 */
	template <typename F>
	ASCRIBE_MEMBER __attribute__((always_inline)) std::invoke_result_t<F> apply(F &&f) const
	{
		scope s(*this);
		return std::forward<F>(f)();
	}

	/* Equal for equal labels; never 0. */
	ASCRIBE_MEMBER ascribe_u64 id() const noexcept { return set_.prefix.set_id; }
	ASCRIBE_MEMBER unsigned int dropped() const noexcept { return set_.dropped; }
	ASCRIBE_MEMBER const ascribe_label_set *set() const noexcept { return &set_; }

private:
	ascribe_label_set set_;
};

/* What was attached to a thread, by value: for another thread, or for later. */
class context {
public:
	/* Nothing attached. */
	ASCRIBE_MEMBER context() noexcept : attached_(false) { ascribe_set_init(&set_); }
	ASCRIBE_MEMBER context(const label &l) noexcept : attached_(true)
	{
		ascribe_set_copy(&set_, l.set());
	}
	ASCRIBE_MEMBER context(const context &other) noexcept { copy(other); }

	/* Assign only while it is attached nowhere. */
	ASCRIBE_MEMBER context &operator=(const context &other) noexcept
	{
		if (this != &other)
			copy(other);
		return *this;
	}

	ASCRIBE_MEMBER static context current() noexcept
	{
		context c;
		const ascribe_record_header *now = ascribe_current();
		c.attached_ = now != nullptr;
		if (now)
			ascribe_set_copy(&c.set_, ascribe_set_of(now));
		return c;
	}

	/* Call f with exactly these labels, whatever was attached; it comes back afterwards. */
	template <typename F> ASCRIBE_MEMBER std::invoke_result_t<F> apply(F &&f) const
	{
		scope s(*this);
		return std::forward<F>(f)();
	}

	ASCRIBE_MEMBER bool attached() const noexcept { return attached_; }
	ASCRIBE_MEMBER const ascribe_label_set *set() const noexcept
	{
		return attached_ ? &set_ : nullptr;
	}

private:
	ASCRIBE_MEMBER void copy(const context &other) noexcept
	{
		attached_ = other.attached_;
		ascribe_set_copy(&set_, &other.set_);
	}

	bool attached_;
	ascribe_label_set set_; /* empty unless attached_ */
};

/*
 * The labels of a task that runs in turns: a coroutine, a fiber, a state machine. swap() before a
 * turn puts its labels on the thread and keeps the thread's own. swap() after the turn puts those
 * back and keeps whatever the task has attached by then. Scopes may stay open across a suspension.
 */
class task_labels {
public:
	/* Starts with what is attached here and now, or with the given labels. */
	ASCRIBE_MEMBER task_labels() noexcept : task_labels(context::current()) {}
	ASCRIBE_MEMBER explicit task_labels(const context &c) noexcept : other_(nullptr)
	{
		if (!c.attached())
			return;
		if (c.set()->keys == &ascribe_state_v1.keys) {
			ascribe_set_copy(&own_, c.set());
		} else {
			ascribe_set_init(&own_);
			ascribe_set_adopt(&own_, c.set());
		}
		other_ = &own_.header;
	}
	ASCRIBE_MEMBER explicit task_labels(const label &l) noexcept : task_labels(context(l)) {}

	ASCRIBE_MEMBER void swap() noexcept { other_ = ascribe_swap(other_); }

	task_labels(const task_labels &) = delete;
	task_labels &operator=(const task_labels &) = delete;

private:
	const ascribe_record_header *other_;
	ascribe_label_set own_;
};

inline scope::scope(const label &l) noexcept
{
	ascribe_attach(&scope_, l.set());
}

inline scope::scope(const context &c) noexcept
{
	const ascribe_record_header *next = nullptr;
	if (c.attached() && c.set()->keys == &ascribe_state_v1.keys) {
		next = &c.set()->header;
	} else if (c.attached()) { /* captured by another module */
		ascribe_set_init(&scope_.set);
		ascribe_set_adopt(&scope_.set, c.set());
		next = &scope_.set.header;
	}
	scope_.prev = ascribe_swap(next);
}

} /* namespace ascribe */

#endif
