/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The labels of a program are readable by OpenTelemetry's readers too. What is attached also stands
 * in the thread-local pointer otel_thread_ctx_v1 (OTEP 4947; our record is one of theirs). The
 * process context (OTEP 4719) names the keys. Included by label.h; not for applications.
 *
 * A process has one process context. It is published when the first key is registered, by the
 * executable alone; a shared library has to ask for it, with -DASCRIBE_OTEL. Where another
 * publisher has a context, nothing is stored, and readers see that SDK's own labels. If one appears
 * later, ours is taken back when the next key is registered, at most once a second.
 * -DASCRIBE_NO_OTEL for all files of a program leaves it all out; ASCRIBE_NO_OTEL in the
 * environment switches it off.
 */
#if defined(ASCRIBE_LABEL_H) && !defined(ASCRIBE_NO_OTEL) && !defined(ASCRIBE_OTEL_H)
#define ASCRIBE_OTEL_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if !defined(__cplusplus) && !defined(_DEFAULT_SOURCE)
extern long syscall(long number, ...); /* strict C11 */
#endif

#define ASCRIBE_OTEL_MESSAGE_MAX 8176

enum ascribe_otel_mode {
	/* Nothing is stored: not wanted, not yet, or somebody else publishes */
	ASCRIBE_OTEL_OFF = 0,
	ASCRIBE_OTEL_ON = 1,
	ASCRIBE_OTEL_LEFT = 2, /* taken back; threads still have pointers of ours */
};

/* Two messages: the one that is not published is written. Zero is the empty state. */
struct ascribe_otel_state {
	ascribe_u8 *page; /* the mapping, of this process */
	ascribe_u32 tgid;
	ascribe_u8 mode;
	ascribe_u8 wanted;
	ascribe_u8 turn;
	ascribe_u8 reserved;
	ascribe_u64 looked_ns;
	ascribe_u64 reserved2;
	ascribe_u8 message[2][ASCRIBE_OTEL_MESSAGE_MAX];
};
#define ASCRIBE_OTEL_STATE_SIZE_ 16384
ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_otel_state) == ASCRIBE_OTEL_STATE_SIZE_, "otel state");

/* clang-format off */
__asm__(".ifndef ascribe_otel_state_v1\n"
	".pushsection .bss.ascribe_otel,\"awG\",@nobits,ascribe_otel_group_v1,comdat\n"
	".balign 64\n"
	".weak ascribe_otel_state_v1\n"
	".hidden ascribe_otel_state_v1\n"
	".type ascribe_otel_state_v1, @object\n"
	".size ascribe_otel_state_v1, " ASCRIBE_TEXT_(ASCRIBE_OTEL_STATE_SIZE_) "\n"
	"ascribe_otel_state_v1:\n"
	".zero " ASCRIBE_TEXT_(ASCRIBE_OTEL_STATE_SIZE_) "\n"
	".popsection\n"
	".endif\n");
/* clang-format on */

extern struct ascribe_otel_state ascribe_otel_state_v1 __attribute__((visibility("hidden")));
/* By the linker: the module's first byte */
extern const char __ehdr_start[] __attribute__((weak, visibility("hidden")));

#define ASCRIBE_OTEL_BEHIND_ 8 /* our slot, in label.h */

/*
 * What this thread still shows of ours goes, and nothing else does: what our slot had, or what it
 * has now.
 */
ASCRIBE_COLD void ascribe_otel_leave(ascribe_s64 off, const struct ascribe_record_header *was,
				     const struct ascribe_record_header *is)
{
	const struct ascribe_record_header *shown = ascribe_slot_load(off + ASCRIBE_OTEL_BEHIND_);
	if (shown && (shown == was || shown == is))
		ascribe_slot_put(off + ASCRIBE_OTEL_BEHIND_, NULL);
}

ASCRIBE_HOT ascribe_u8 ascribe_otel_mode(void)
{
	return __atomic_load_n(&ascribe_otel_state_v1.mode, __ATOMIC_RELAXED);
}

/*
 * Store p to our slot, then to theirs. A signal handler may attach and detach between any two
 * instructions here. It restores both from the slot: stored last, the slot's old value would stay
 * in theirs for good. In this order theirs follows, whether by the handler or by us. The mode is
 * read behind the slot: the handler, or another thread, may begin to publish or leave before that.
 * Read earlier, theirs would keep the old value. tests/models/label_slot.pml tries every order.
 */
ASCRIBE_HOT void ascribe_slot_store(ascribe_s64 off, const struct ascribe_record_header *p)
{
	const struct ascribe_record_header *was = ascribe_slot_load(off);
	ascribe_slot_put(off, p);
	ascribe_u8 mode = ascribe_otel_mode();
	if (__builtin_expect(mode == ASCRIBE_OTEL_ON, 1))
		ascribe_slot_put(off + ASCRIBE_OTEL_BEHIND_, p);
	else if (mode == ASCRIBE_OTEL_LEFT)
		ascribe_otel_leave(off, was, p);
}

/*
 * Before main, once for each file. The program's headers begin where the module does: it is the
 * executable.
 */
ASCRIBE_COLD void ascribe_otel_init(void)
{
#ifdef ASCRIBE_OTEL
	int wanted = 1;
#else
	ascribe_u64 headers = getauxval(3 /* AT_PHDR */), begin = (ascribe_u64)(size_t)__ehdr_start;
	int wanted = begin && headers == begin + ascribe_load8((const ascribe_u8 *)__ehdr_start +
							       32 /* e_phoff */);
#endif
	if (wanted && !getenv("ASCRIBE_NO_OTEL"))
		ascribe_otel_state_v1.wanted = 1;
}

/* Is there a mapping of that name that is not ours? "START-END ... :OTEL_CTX" */
ASCRIBE_COLD int ascribe_otel_other(const ascribe_u8 *ours)
{
	static const char name[] = ":OTEL_CTX";
	char text[512];
	ascribe_u64 start = 0;
	unsigned int in_start = 1, matched = 0;
	long n;
	int found = 0, fd = open("/proc/self/maps", O_RDONLY | 02000000 /* O_CLOEXEC */);
	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0) {
		for (long i = 0; i < n; i++) {
			char c = text[i];
			if (c == '\n') {
				in_start = 1;
				start = matched = 0;
			} else if (in_start) {
				in_start = c != '-';
				if (in_start)
					start = start << 4 |
						(ascribe_u64)(c <= '9' ? c - '0' : c - 'a' + 10);
			} else {
				matched = c == name[matched] ? matched + 1 : c == name[0];
				found |= !name[matched] && start != (ascribe_u64)(size_t)ours;
				matched = name[matched] ? matched : 0;
			}
		}
	}
	if (fd >= 0)
		close(fd);
	return found;
}

/*
 * A protobuf field of bytes, n of them behind it: its tag and length, the latter in two bytes
 * whatever it is.
 */
ASCRIBE_COLD ascribe_u8 *ascribe_otel_head(ascribe_u8 *p, unsigned int field, size_t n)
{
	p[0] = (ascribe_u8)(field << 3 | 2);
	p[1] = (ascribe_u8)((n & 127) | 128);
	p[2] = (ascribe_u8)(n >> 7);
	return p + 3;
}

ASCRIBE_COLD ascribe_u8 *ascribe_otel_text(ascribe_u8 *p, unsigned int field, const void *text,
					   size_t n)
{
	p = ascribe_otel_head(p, field, n);
	memcpy(p, text, n);
	return p + n;
}

/* KeyValue { key; AnyValue { string } } as an attribute of the context. */
ASCRIBE_COLD ascribe_u8 *ascribe_otel_schema(ascribe_u8 *p)
{
	static const char key[] = "threadlocal.schema_version", value[] = "tls_v1";
	const size_t k = sizeof(key) - 1, v = sizeof(value) - 1;
	p = ascribe_otel_head(p, 2, 3 + k + 3 + 3 + v);
	p = ascribe_otel_text(p, 1, key, k);
	p = ascribe_otel_head(p, 2, 3 + v);
	return ascribe_otel_text(p, 1, value, v);
}

/* The context's message from a key table's text; its size. */
ASCRIBE_COLD size_t ascribe_otel_message(ascribe_u8 *begin, const ascribe_u8 *text,
					 ascribe_u32 bytes)
{
	static const char key[] = "threadlocal.attribute_key_map";
	const size_t k = sizeof(key) - 1;
	size_t names = 0;
	ascribe_u8 *p = ascribe_otel_schema(begin);
	for (ascribe_u32 at = 0; at < bytes; at += 2u + text[at + 1])
		names += 3 + 3 + (size_t)text[at + 1];
	p = ascribe_otel_head(p, 2, 3 + k + 3 + 3 + names); /* KeyValue */
	p = ascribe_otel_text(p, 1, key, k);
	p = ascribe_otel_head(p, 2, 3 + names); /* AnyValue */
	p = ascribe_otel_head(p, 5, names);	/* ArrayValue */
	for (ascribe_u32 at = 0; at < bytes; at += 2u + text[at + 1]) {
		p = ascribe_otel_head(p, 1, 3 + (size_t)text[at + 1]); /* AnyValue */
		p = ascribe_otel_text(p, 1, text + at + 2, text[at + 1]);
	}
	return (size_t)(p - begin);
}

/*
 * Named memory that readers find in /proc; a child does not have it. NULL: not to be had, then
 * there is no context.
 */
ASCRIBE_COLD ascribe_u8 *ascribe_otel_page(void)
{
	const int anonymous = 0x20; /* MAP_ANONYMOUS */
	void *p = MAP_FAILED;
	int fd = (int)syscall(SYS_memfd_create, "OTEL_CTX",
			      3u /* MFD_CLOEXEC | MFD_ALLOW_SEALING */);
	if (fd >= 0) {
		if (syscall(SYS_ftruncate, fd, 4096L) == 0)
			p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		close(fd);
	}
	if (p == MAP_FAILED)
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | anonymous, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	(void)syscall(SYS_madvise, p, 4096L, 10L /* MADV_DONTFORK */);
	/* Where it is anonymous */
	prctl(0x53564d41 /* PR_SET_VMA */, 0 /* PR_SET_VMA_ANON_NAME */, p, 4096, "OTEL_CTX");
	return (ascribe_u8 *)p;
}

ASCRIBE_COLD ascribe_u64 ascribe_otel_now(void)
{
	long t[2] = { 0, 0 };
	(void)syscall(SYS_clock_gettime, 7L /* CLOCK_BOOTTIME */, t);
	return (ascribe_u64)t[0] * 1000000000u + (ascribe_u64)t[1];
}

/* May we publish? Whoever came first stays; where somebody came later, we go. */
ASCRIBE_COLD int ascribe_otel_may(struct ascribe_otel_state *s, ascribe_u64 now)
{
	if (s->tgid != (ascribe_u32)getpid()) {
		/* The first time, or a child, which does not have the mapping */
		s->page = NULL;
		s->looked_ns = 0;
		s->tgid = (ascribe_u32)getpid();
	}
	if (s->looked_ns && now - s->looked_ns < 1000000000u)
		return s->page != NULL;
	s->looked_ns = now;
	if (!ascribe_otel_other(s->page)) {
		if (!s->page)
			s->page = ascribe_otel_page();
		return s->page != NULL;
	}
	if (s->page)
		munmap(s->page, 4096);
	s->page = NULL;
	if (s->mode == ASCRIBE_OTEL_ON)
		__atomic_store_n(&s->mode, (ascribe_u8)ASCRIBE_OTEL_LEFT, __ATOMIC_RELAXED);
	return 0;
}

/* Publish the keys as they are now. Under the registration's lock. */
ASCRIBE_COLD void ascribe_otel_publish(const struct ascribe_key_table *keys)
{
	struct ascribe_otel_state *s = &ascribe_otel_state_v1;
	ascribe_u64 zero = 0, now;
	if (!s->wanted)
		return;
	now = ascribe_otel_now();
	if (!ascribe_otel_may(s, now))
		return;
	ascribe_u8 *message = s->message[++s->turn & 1];
	ascribe_u32 version = 2,
		    size = (ascribe_u32)ascribe_otel_message(message, keys->text, keys->bytes);
	ascribe_u64 at = (ascribe_u64)(size_t)message;
	/* Being changed */
	__atomic_store_n((ascribe_u64 *)(void *)(s->page + 16), zero, __ATOMIC_SEQ_CST);
	memcpy(s->page + 8, &version, 4);
	memcpy(s->page + 12, &size, 4);
	memcpy(s->page + 24, &at, 8);
	memcpy(s->page, "OTEL_CTX", 8);
	__atomic_store_n((ascribe_u64 *)(void *)(s->page + 16), now, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->mode, (ascribe_u8)ASCRIBE_OTEL_ON, __ATOMIC_RELAXED);
}

#endif
