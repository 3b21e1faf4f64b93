/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * With -DASCRIBE_OTEL the labels of this module are readable by OpenTelemetry's readers too: what is attached also stands in the
 * thread-local pointer otel_thread_ctx_v1 (OTEP 4947; our record is one of theirs), and the process context (OTEP 4719) names the
 * keys. Included by label.h; not for applications.
 *
 * A process has one process context: define it for the executable alone, for all of its files, and not where an OpenTelemetry
 * SDK publishes. Readers look for the symbol; in an executable link with -Wl,--export-dynamic-symbol=otel_thread_ctx_v1.
 */
#if defined(ASCRIBE_OTEL) && !defined(ASCRIBE_OTEL_H)
#define ASCRIBE_OTEL_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#define ASCRIBE_OTEL_MESSAGE_MAX 8176

/* Two messages: the one that is not published is written. Zero is the empty state. */
struct ascribe_otel_state {
	ascribe_u8 *page; /* the mapping, of this process */
	ascribe_u64 tgid;
	ascribe_u64 turn;
	ascribe_u64 reserved;
	ascribe_u8 message[2][ASCRIBE_OTEL_MESSAGE_MAX];
};
#define ASCRIBE_OTEL_STATE_SIZE_ 16384
ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_otel_state) == ASCRIBE_OTEL_STATE_SIZE_, "otel state");

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
	".pushsection .tbss.ascribe_otel,\"awTG\",@nobits,ascribe_otel_group_v1,comdat\n"
	".balign 8\n"
	".weak otel_thread_ctx_v1\n"
	".type otel_thread_ctx_v1, @tls_object\n"
	".size otel_thread_ctx_v1, 8\n"
	"otel_thread_ctx_v1:\n"
	".zero 8\n"
	".popsection\n"
	".endif\n");

extern struct ascribe_otel_state ascribe_otel_state_v1 __attribute__((visibility("hidden")));

#ifdef __x86_64__
ASCRIBE_HOT void ascribe_otel_store(const void *p)
{
	ascribe_s64 off;
	__asm__("movq otel_thread_ctx_v1@gottpoff(%%rip), %0" : "=r"(off));
	__asm__ __volatile__("movq %0, %%fs:(%1)" : : "r"(p), "r"(off) : "memory");
}
#else
ASCRIBE_HOT void ascribe_otel_store(const void *p)
{
	ascribe_u64 off, tp;
	__asm__("adrp %0, :gottprel:otel_thread_ctx_v1\n\t"
		"ldr %0, [%0, #:gottprel_lo12:otel_thread_ctx_v1]" : "=r"(off));
	__asm__ __volatile__("mrs %0, tpidr_el0\n\tstr %1, [%0, %2]" : "=&r"(tp) : "r"(p), "r"(off) : "memory");
}
#endif

/* A protobuf field of bytes, n of them behind it: its tag and length, the latter in two bytes whatever it is. */
ASCRIBE_COLD ascribe_u8 *ascribe_otel_head(ascribe_u8 *p, unsigned int field, size_t n)
{
	p[0] = (ascribe_u8)(field << 3 | 2);
	p[1] = (ascribe_u8)((n & 127) | 128);
	p[2] = (ascribe_u8)(n >> 7);
	return p + 3;
}

ASCRIBE_COLD ascribe_u8 *ascribe_otel_text(ascribe_u8 *p, unsigned int field, const void *text, size_t n)
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
ASCRIBE_COLD size_t ascribe_otel_message(ascribe_u8 *begin, const ascribe_u8 *text, ascribe_u32 bytes)
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
	p = ascribe_otel_head(p, 5, names);     /* ArrayValue */
	for (ascribe_u32 at = 0; at < bytes; at += 2u + text[at + 1]) {
		p = ascribe_otel_head(p, 1, 3 + (size_t)text[at + 1]); /* AnyValue */
		p = ascribe_otel_text(p, 1, text + at + 2, text[at + 1]);
	}
	return (size_t)(p - begin);
}

/* Named memory that readers find in /proc; a child does not have it. NULL: not to be had, then there is no context. */
ASCRIBE_COLD ascribe_u8 *ascribe_otel_page(void)
{
	void *p = MAP_FAILED;
#ifdef SYS_memfd_create
	int fd = (int)syscall(SYS_memfd_create, "OTEL_CTX", 3u /* MFD_CLOEXEC | MFD_ALLOW_SEALING */);
	if (fd >= 0) {
		if (ftruncate(fd, 4096) == 0)
			p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		close(fd);
	}
#endif
	if (p == MAP_FAILED)
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, 4096, MADV_DONTFORK);
	prctl(0x53564d41 /* PR_SET_VMA */, 0 /* PR_SET_VMA_ANON_NAME */, p, 4096, "OTEL_CTX"); /* where it is anonymous */
	return (ascribe_u8 *)p;
}

/* Publish the keys as they are now. Under the registration's lock, or before any other thread. */
ASCRIBE_COLD void ascribe_otel_publish(const struct ascribe_key_table *keys)
{
	struct ascribe_otel_state *s = &ascribe_otel_state_v1;
	struct timespec t;
	ascribe_u64 zero = 0;
	if (s->tgid != (ascribe_u64)getpid()) {
		s->page = ascribe_otel_page();
		s->tgid = (ascribe_u64)getpid();
	}
	if (!s->page)
		return;
	ascribe_u8 *message = s->message[++s->turn & 1];
	ascribe_u32 version = 2, size = (ascribe_u32)ascribe_otel_message(message, keys->text, keys->bytes);
	ascribe_u64 at = (ascribe_u64)(size_t)message;
	clock_gettime(CLOCK_BOOTTIME, &t);
	ascribe_u64 ns = (ascribe_u64)t.tv_sec * 1000000000u + (ascribe_u64)t.tv_nsec;
	__atomic_store_n((ascribe_u64 *)(void *)(s->page + 16), zero, __ATOMIC_SEQ_CST); /* being changed */
	memcpy(s->page + 8, &version, 4);
	memcpy(s->page + 12, &size, 4);
	memcpy(s->page + 24, &at, 8);
	memcpy(s->page, "OTEL_CTX", 8);
	__atomic_store_n((ascribe_u64 *)(void *)(s->page + 16), ns, __ATOMIC_SEQ_CST);
}

#endif
