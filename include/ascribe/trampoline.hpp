/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Labels that stand on the stack instead of in thread-local storage, for code that must not touch
 * that, and for profilers that see stacks only.
 *
 *	ascribe::trampoline_label q{{"query_id", id}}; // once per query: takes one of 256
 *	q.apply([&] { run(plan); });                    // each piece of its work, on any thread
 *
 * apply() calls the work through the label's trampoline, a function of its own address, and does
 * nothing else. Which label a trampoline had at what time stays in a history. Whoever samples
 * stacks, this process itself included, finds out:
 *
 *	int t = ascribe::trampoline_of(return_address);             // -1: none
 *	ascribe::trampoline_at(t, time_ns, [](auto key, auto value) { ... });
 *
 * Rules
 *  - A label lives for milliseconds or longer: making one takes a lock, two clock readings and some
 *    100 ns. Trampolines are reused in the order in which they became free, and each keeps its last
 *    8 labels.
 *  - When all 256 are taken the label is not seen: bound() is false, apply() calls the work
 *    directly. Define ASCRIBE_TRAMPOLINES for another number, 4096 at most, 2 KiB each: the same in
 *    all files of a program or library (-DASCRIBE_TRAMPOLINES=1000), else it does not link.
 *  - Inside one another the inner label counts, key by key.
 *  - At most 216 bytes of text: three for each label, key and value. What finds no room is left
 *    out, see dropped().
 *  - Code, table and history are of the module (executable or shared library) that includes this.
 *  - C++17; exceptions pass; not for signal handlers (making a label, that is: applying is fine
 *    anywhere).
 */
#ifndef ASCRIBE_TRAMPOLINE_HPP
#define ASCRIBE_TRAMPOLINE_HPP

#include <sched.h>
#include <time.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "trampoline_abi.h"

#if !defined(__LP64__) || !(defined(__x86_64__) || defined(__aarch64__)) || !defined(__ELF__)
#error "ascribe/trampoline.hpp supports x86-64 and aarch64 (LP64, ELF)"
#endif

#define ASCRIBE_TRAMPOLINE_FN inline __attribute__((visibility("hidden")))
#define ASCRIBE_TRAMPOLINE_TEXT2_(x) #x
#define ASCRIBE_TRAMPOLINE_TEXT_(x) ASCRIBE_TRAMPOLINE_TEXT2_(x)

/*
 * The code: 256 times the same few instructions, each with a frame: void (void *argument, void
 * (*work)(void *)). They are assembly, so that no compiler or linker finds them equal and keeps
 * one. They have one symbol, that of trampoline<0>: a profiler that knows nothing shows them as one
 * function.
 */
#ifdef __x86_64__
#define ASCRIBE_TRAMPOLINE_STEP 16
#define ASCRIBE_TRAMPOLINE_CODE_ \
	"endbr64\n" \
	"pushq %rbp\n" \
	".cfi_def_cfa_offset 16\n" \
	".cfi_offset %rbp, -16\n" \
	"movq %rsp, %rbp\n" \
	".cfi_def_cfa_register %rbp\n" \
	"callq *%rsi\n" \
	"popq %rbp\n" \
	".cfi_def_cfa %rsp, 8\n" \
	".cfi_restore %rbp\n" \
	"retq\n"
#else
#define ASCRIBE_TRAMPOLINE_STEP 32
#define ASCRIBE_TRAMPOLINE_CODE_ \
	"hint #34\n" /* bti c */ \
	"stp x29, x30, [sp, #-16]!\n" \
	".cfi_def_cfa_offset 16\n" \
	".cfi_offset x29, -16\n" \
	".cfi_offset x30, -8\n" \
	"mov x29, sp\n" \
	".cfi_def_cfa_register x29\n" \
	"blr x1\n" \
	"ldp x29, x30, [sp], #16\n" \
	".cfi_def_cfa sp, 0\n" \
	".cfi_restore x29\n" \
	".cfi_restore x30\n" \
	"ret\n"
#endif

#define ASCRIBE_TRAMPOLINE_STATE_ \
	"ascribe_trampolines_v1_" ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_TRAMPOLINES)

/*
 * One COMDAT group per module, as in label.h: note, code, history. The name of the history has the
 * number of trampolines: whoever counts on another number finds no such history.
 */
/* clang-format off */
__asm__(".ifndef " ASCRIBE_TRAMPOLINE_STATE_ "\n"
	".pushsection .note.ascribe.trampolines,\"aG\",@note,ascribe_trampolines_group_v1,comdat\n"
	".balign 4\n"
	".long 8, 16, " ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_TRAMPOLINES_NOTE_TYPE) "\n"
	".asciz \"" ASCRIBE_NOTE_NAME "\"\n"
	".long " ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_TRAMPOLINES_ABI) ", 0\n"
	".quad " ASCRIBE_TRAMPOLINE_STATE_ " - .\n"
	".popsection\n"
	".pushsection .text.ascribe.trampolines,\"axG\",@progbits,ascribe_trampolines_group_v1,comdat\n"
	".balign 64\n"
	".weak _ZN7ascribe10trampolineILm0EEEvv\n"
	".hidden _ZN7ascribe10trampolineILm0EEEvv\n"
	".type _ZN7ascribe10trampolineILm0EEEvv, %function\n"
	"_ZN7ascribe10trampolineILm0EEEvv:\n"
	".cfi_startproc\n"
	".rept " ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_TRAMPOLINES) "\n"
	".balign " ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_TRAMPOLINE_STEP) "\n"
	ASCRIBE_TRAMPOLINE_CODE_
	".endr\n"
	".balign " ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_TRAMPOLINE_STEP) "\n"
	".cfi_endproc\n"
	".size _ZN7ascribe10trampolineILm0EEEvv, . - _ZN7ascribe10trampolineILm0EEEvv\n"
	".popsection\n"
	".pushsection .bss.ascribe.trampolines,\"awG\",@nobits,ascribe_trampolines_group_v1,comdat\n"
	".balign 64\n"
	".globl " ASCRIBE_TRAMPOLINE_STATE_ "\n" /* a weak one that is missing would be 0 */
	".hidden " ASCRIBE_TRAMPOLINE_STATE_ "\n"
	".type " ASCRIBE_TRAMPOLINE_STATE_ ", %object\n"
	ASCRIBE_TRAMPOLINE_STATE_ ":\n"
	".zero 64 + 256 * " ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_TRAMPOLINES) " * "
	ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_BINDINGS) " + 64 + 16 * "
	ASCRIBE_TRAMPOLINE_TEXT_(ASCRIBE_TRAMPOLINES) "\n"
	".size " ASCRIBE_TRAMPOLINE_STATE_ ", . - " ASCRIBE_TRAMPOLINE_STATE_ "\n"
	".popsection\n"
	".endif\n");
/* clang-format on */

namespace ascribe {
namespace trampolines {

/*
 * What stands at ASCRIBE_TRAMPOLINE_STATE_: what a profiler reads, then what only we do. Zero is
 * the empty state.
 */
struct module_state {
	ascribe_trampoline_table table;
	ascribe_binding binding[ASCRIBE_TRAMPOLINES][ASCRIBE_BINDINGS];
	std::uint32_t lock;
	/* the free ones, a ring: waiting[(first + i) % their number] from the oldest on */
	std::uint32_t first, taken;
	std::uint32_t ready;
	std::uint64_t exhausted;
	std::uint64_t reserved[5];
	std::uint64_t number[ASCRIBE_TRAMPOLINES]; /* bindings so far */
	std::uint32_t waiting[ASCRIBE_TRAMPOLINES];
	std::uint32_t reserved2[ASCRIBE_TRAMPOLINES];
};
static_assert(ASCRIBE_TRAMPOLINES > 0 && ASCRIBE_TRAMPOLINES <= ASCRIBE_TRAMPOLINES_MAX,
	      "a number that readers accept");
static_assert(sizeof(module_state) == 64 + 256 * ASCRIBE_TRAMPOLINES * ASCRIBE_BINDINGS + 64 +
					      16 * ASCRIBE_TRAMPOLINES,
	      "the size in the assembly above");

extern "C" {
extern module_state state __asm__(ASCRIBE_TRAMPOLINE_STATE_) __attribute__((visibility("hidden")));
extern const char code[] __asm__("_ZN7ascribe10trampolineILm0EEEvv")
	__attribute__((visibility("hidden")));
}

ASCRIBE_TRAMPOLINE_FN void setup() noexcept
{
	ascribe_trampoline_table &t = state.table;
	if (__atomic_load_n(&state.ready, __ATOMIC_ACQUIRE))
		return;
	for (std::uint32_t i = 0; i < ASCRIBE_TRAMPOLINES; i++)
		state.waiting[i] = i;
	t.abi = ASCRIBE_TRAMPOLINES_ABI;
	t.size = sizeof(t);
	t.count = ASCRIBE_TRAMPOLINES;
	t.step = ASCRIBE_TRAMPOLINE_STEP;
	t.code = reinterpret_cast<ascribe_u64>(code);
	t.depth = ASCRIBE_BINDINGS;
	t.binding_size = sizeof(ascribe_binding);
	t.clock = ASCRIBE_BINDING_CLOCK;
	__atomic_store_n(&t.magic, ASCRIBE_TRAMPOLINES_MAGIC, __ATOMIC_RELEASE);
	__atomic_store_n(&state.ready, 1u, __ATOMIC_RELEASE);
}

/* Before main or inside dlopen; once per translation unit, of which the first does it. */
static void __attribute__((constructor(101), used)) init()
{
	setup();
}

ASCRIBE_TRAMPOLINE_FN void acquire() noexcept
{
	for (unsigned int spins = 0; __atomic_exchange_n(&state.lock, 1u, __ATOMIC_ACQUIRE);
	     spins++)
		if (spins > 100)
			sched_yield();
}

ASCRIBE_TRAMPOLINE_FN void release() noexcept
{
	__atomic_store_n(&state.lock, 0u, __ATOMIC_RELEASE);
}

ASCRIBE_TRAMPOLINE_FN std::uint64_t now_ns() noexcept
{
	timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u +
	       static_cast<std::uint64_t>(t.tv_nsec);
}

/* A free trampoline, the one that has been free for longest; -1: none. */
ASCRIBE_TRAMPOLINE_FN int take() noexcept
{
	int i = -1;
	acquire();
	if (state.taken < ASCRIBE_TRAMPOLINES) {
		i = static_cast<int>(state.waiting[state.first]);
		state.first = (state.first + 1) % ASCRIBE_TRAMPOLINES;
		state.taken++;
	} else {
		state.exhausted++;
	}
	release();
	return i;
}

ASCRIBE_TRAMPOLINE_FN void give_back(int i) noexcept
{
	acquire();
	state.taken--;
	state.waiting[(state.first + ASCRIBE_TRAMPOLINES - 1 - state.taken) % ASCRIBE_TRAMPOLINES] =
		static_cast<std::uint32_t>(i);
	release();
}

/* The text of a binding in the making. */
struct writer {
	ascribe_u8 text[ASCRIBE_BINDING_TEXT];
	std::uint32_t len = 0, dropped = 0;

	ASCRIBE_TRAMPOLINE_FN void add(int type, std::string_view key,
				       std::string_view value) noexcept
	{
		std::size_t room = ASCRIBE_BINDING_TEXT - len;
		if (key.empty() || key.size() > ASCRIBE_KEY_MAX ||
		    value.size() > ASCRIBE_VALUE_MAX || 3 + key.size() + value.size() > room) {
			dropped++;
			return;
		}
		text[len++] = static_cast<ascribe_u8>(type);
		text[len++] = static_cast<ascribe_u8>(key.size());
		text[len++] = static_cast<ascribe_u8>(value.size());
		std::memcpy(text + len, key.data(), key.size());
		len += static_cast<std::uint32_t>(key.size());
		if (!value.empty())
			std::memcpy(text + len, value.data(), value.size());
		len += static_cast<std::uint32_t>(value.size());
	}
};

/* The trampoline is ours: nobody else writes its bindings. */
ASCRIBE_TRAMPOLINE_FN ascribe_binding *bind(int i, const writer &w) noexcept
{
	std::uint64_t n = ++state.number[i];
	ascribe_binding *b = &state.binding[i][n % ASCRIBE_BINDINGS];
	__atomic_store_n(&b->begin, n, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	b->to_ns = 0;
	b->len = w.len;
	std::memcpy(b->text, w.text, w.len);
	b->from_ns = now_ns();
	__atomic_store_n(&b->end, n, __ATOMIC_RELEASE);
	return b;
}

/* A whole binding, copied: false when it is being written. */
ASCRIBE_TRAMPOLINE_FN bool copy(ascribe_binding &out, const ascribe_binding &b) noexcept
{
	ascribe_u64 end = __atomic_load_n(&b.end, __ATOMIC_ACQUIRE);
	std::memcpy(&out, &b, sizeof(out));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return end && end == __atomic_load_n(&b.begin, __ATOMIC_RELAXED) && out.begin == end &&
	       out.end == end && out.len <= ASCRIBE_BINDING_TEXT;
}

} /* namespace trampolines */

/* One key and value, borrowed until the end of the expression. */
class trampoline_attribute {
public:
	ASCRIBE_TRAMPOLINE_FN trampoline_attribute(std::string_view key,
						   std::string_view value) noexcept
		: key_(key), text_(value)
	{
	}
	ASCRIBE_TRAMPOLINE_FN trampoline_attribute(std::string_view key, const char *value) noexcept
		: key_(key), text_(value ? std::string_view(value) : std::string_view())
	{
	}
	template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
	ASCRIBE_TRAMPOLINE_FN trampoline_attribute(std::string_view key, T value) noexcept
		: key_(key),
		  type_(static_cast<std::uint64_t>(value) > INT64_MAX && std::is_unsigned_v<T>
				? ASCRIBE_KEY_STRING
				: ASCRIBE_KEY_INT)
	{
		number_len_ = static_cast<std::size_t>(
			std::to_chars(number_, number_ + sizeof(number_), value + 0).ptr - number_);
	}

private:
	friend class trampoline_label;
	ASCRIBE_TRAMPOLINE_FN std::string_view value() const noexcept
	{
		return number_len_ ? std::string_view(number_, number_len_) : text_;
	}

	std::string_view key_, text_;
	char number_[24];
	std::size_t number_len_ = 0;
	int type_ = ASCRIBE_KEY_STRING;
};

/*
 * Bound from construction to destruction, and alive while it is applied. Any number of threads may
 * apply it at once.
 */
class trampoline_label {
public:
	ASCRIBE_TRAMPOLINE_FN explicit trampoline_label(
		std::initializer_list<trampoline_attribute> attributes) noexcept
	{
		trampolines::writer w;
		for (const trampoline_attribute &a : attributes)
			w.add(a.type_, a.key_, a.value());
		dropped_ = w.dropped;
		trampolines::setup();
		index_ = trampolines::take();
		if (index_ < 0)
			return;
		binding_ = trampolines::bind(index_, w);
		entry_ = trampolines::code + index_ * ASCRIBE_TRAMPOLINE_STEP;
	}

	template <typename T>
	ASCRIBE_TRAMPOLINE_FN trampoline_label(std::string_view key, const T &value) noexcept
		: trampoline_label({ trampoline_attribute(key, value) })
	{
	}

	ASCRIBE_TRAMPOLINE_FN ~trampoline_label()
	{
		if (!bound())
			return;
		__atomic_store_n(&binding_->to_ns, trampolines::now_ns(), __ATOMIC_RELEASE);
		trampolines::give_back(index_);
	}

	trampoline_label(const trampoline_label &) = delete;
	trampoline_label &operator=(const trampoline_label &) = delete;

	/* Call f below the label's trampoline and return what it returns. */
	template <typename F>
	ASCRIBE_TRAMPOLINE_FN __attribute__((always_inline)) std::invoke_result_t<F>
	apply(F &&f) const
	{
		using result = std::invoke_result_t<F>;
		using function = std::remove_reference_t<F>;
		if constexpr (std::is_void_v<result>) {
			struct context {
				function *f;
			} c{ &f };
			call([](void *p) { std::forward<F> (*static_cast<context *>(p)->f)(); },
			     &c);
		} else if constexpr (std::is_reference_v<result>) {
			struct context {
				function *f;
				std::remove_reference_t<result> *r;
			} c{ &f, nullptr };
			call(
				[](void *p) {
					auto &&r = std::forward<F>(*static_cast<context *>(p)->f)();
					static_cast<context *>(p)->r = &r;
				},
				&c);
			return static_cast<result>(*c.r);
		} else {
			struct context {
				function *f;
				std::optional<result> r;
			} c{ &f, std::nullopt };
			call(
				[](void *p) {
					context *q = static_cast<context *>(p);
					q->r.emplace(std::forward<F>(*q->f)());
				},
				&c);
			return *std::move(c.r);
		}
	}

	ASCRIBE_TRAMPOLINE_FN bool bound() const noexcept { return index_ >= 0; }
	ASCRIBE_TRAMPOLINE_FN int index() const noexcept { return index_; }
	ASCRIBE_TRAMPOLINE_FN unsigned int dropped() const noexcept { return dropped_; }

private:
	ASCRIBE_TRAMPOLINE_FN void call(void (*work)(void *), void *p) const
	{
		if (entry_)
			reinterpret_cast<void (*)(void *, void (*)(void *))>(
				reinterpret_cast<std::uintptr_t>(entry_))(p, work);
		else
			work(p);
	}

	const char *entry_ = nullptr;
	ascribe_binding *binding_ = nullptr;
	int index_ = -1;
	unsigned int dropped_ = 0;
};

/* ---- for profilers inside the process ---- */

/* The time that bindings have. */
ASCRIBE_TRAMPOLINE_FN std::uint64_t trampoline_clock_ns() noexcept
{
	return trampolines::now_ns();
}

/*
 * Which trampoline of this module a return address is in, -1: none. Async-signal-safe, as what
 * follows.
 */
ASCRIBE_TRAMPOLINE_FN int trampoline_of(const void *return_address) noexcept
{
	std::uintptr_t at = reinterpret_cast<std::uintptr_t>(return_address) -
			    reinterpret_cast<std::uintptr_t>(trampolines::code);
	return at - 1 < ASCRIBE_TRAMPOLINES * ASCRIBE_TRAMPOLINE_STEP - 1
		       ? static_cast<int>(at / ASCRIBE_TRAMPOLINE_STEP)
		       : -1;
}

/* The address to show instead, the same one for all trampolines. */
ASCRIBE_TRAMPOLINE_FN const void *trampoline_fold(const void *return_address) noexcept
{
	int i = trampoline_of(return_address);
	return i < 0 ? return_address
		     : static_cast<const char *>(return_address) - i * ASCRIBE_TRAMPOLINE_STEP;
}

/*
 * The labels that a trampoline had at a time: f(std::string_view key, std::string_view value) for
 * each. False when it had none then, or it is too long ago. The views live during the call.
 */
template <typename F>
ASCRIBE_TRAMPOLINE_FN bool trampoline_at(int index, std::uint64_t time_ns, F &&f)
{
	if (index < 0 || index >= ASCRIBE_TRAMPOLINES)
		return false;
	for (const ascribe_binding &from : trampolines::state.binding[index]) {
		ascribe_binding b;
		if (!trampolines::copy(b, from) || time_ns < b.from_ns ||
		    (b.to_ns && time_ns >= b.to_ns))
			continue;
		const char *text = reinterpret_cast<const char *>(b.text);
		for (std::uint32_t at = 0; at + 3 <= b.len;
		     at += 3u + b.text[at + 1] + b.text[at + 2])
			f(std::string_view(text + at + 3, b.text[at + 1]),
			  std::string_view(text + at + 3 + b.text[at + 1], b.text[at + 2]));
		return true;
	}
	return false;
}

/* How many labels found all trampolines taken. */
ASCRIBE_TRAMPOLINE_FN std::uint64_t trampolines_exhausted() noexcept
{
	return __atomic_load_n(&trampolines::state.exhausted, __ATOMIC_RELAXED);
}

} /* namespace ascribe */

#endif
