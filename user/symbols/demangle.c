/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling by libiberty, fenced in. A mangled name of a few bytes can stand for gigabytes of text
 * (each substitution may double it), and the plain calls build all of it in memory. The callback
 * interface hands the text over piece by piece and keeps its own state on the stack. So leaving it
 * by longjmp when the output is full costs nothing and leaks nothing.
 */
#include "symbols/symbols.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

#define MANGLED_MAX 4096 /* libiberty's own recursion limit refuses C++ names over 1 KiB anyhow */
#define RUST_MAX 1024

struct sink {
	char *out;
	size_t cap;
	size_t len;
	jmp_buf full;
};

static void sink_add(const char *text, size_t len, void *opaque)
{
	struct sink *s = opaque;
	if (!len)
		return; /* text may be NULL then */
	if (len >= s->cap - s->len)
		longjmp(s->full, 1);
	memcpy(s->out + s->len, text, len);
	s->len += len;
}

typedef int (*demangler)(const char *mangled, int options, demangle_callbackref callback,
			 void *opaque);

static int run(demangler f, const char *mangled, int options, char *out, size_t cap)
{
	struct sink s = { .out = out, .cap = cap };
	if (setjmp(s.full))
		return 0;
	if (!f(mangled, options, sink_add, &s) || !s.len)
		return 0;
	out[s.len] = '\0';
	return 1;
}

/* A punycode identifier is the one thing that libiberty keeps on the heap while it calls back. */
static int has_punycode(const char *rust)
{
	for (const char *p = rust; (p = strchr(p, 'u')); p++)
		if (isdigit((unsigned char)p[1]))
			return 1;
	return 0;
}

/*
 * for<'a, 'b, ...>: the count is a number in base 62, and libiberty counts up to it even where it
 * prints nothing (in the path of an impl). Binders stand behind F and D only; real ones have one
 * digit or two.
 */
static int has_long_binder(const char *rust)
{
	static const char base62[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	for (const char *p = rust + 1; (p = strchr(p, 'G')); p++) {
		size_t n = strspn(p + 1, base62);
		if ((p[-1] == 'F' || p[-1] == 'D') && n > 2 && p[1 + n] == '_')
			return 1;
	}
	return 0;
}

/*
 * In the type of a conversion operator libiberty reads the arguments of a template parameter
 * (cvT_I...E) twice, nested ones 4, 8, 16 times. Real names nest them once.
 */
static int backtracks(const char *cxx)
{
	int n = 0;
	const char *p = strstr(cxx, "cv");
	while (p && (p = strstr(p, "_I"))) {
		const char *t = p++;
		while (t[-1] != 'T' && strchr("_0123456789ABCDEFGHIJKLMNOPQRSUVWXYZ", t[-1]))
			t--;
		n += t[-1] == 'T';
	}
	return n > 8;
}

static int is_hash(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)p[i]) && (p[i] < 'a' || p[i] > 'f'))
			return 0;
	return 1;
}

/*
 * Drop what tells two builds apart and nothing else: "[0123456789abcdef]" behind a crate,
 * "::h0123456789abcdef".
 */
static void strip_rust_hashes(char *s)
{
	char *to = s;
	for (const char *p = s; *p;) {
		size_t n = strspn(p + 1, "0123456789abcdef");
		if (*p == '[' && n >= 8 && n <= 16 && p[1 + n] == ']')
			p += n + 2;
		else if (!strncmp(p, "::h", 3) && strlen(p) == 19 && is_hash(p + 3, 16))
			break;
		else
			*to++ = *p++;
	}
	*to = '\0';
}

/* v0 starts with _R, legacy is Itanium-like and ends with 17h, 16 hex digits and E. */
static int demangle_rust(const char *mangled, size_t len, char *out, size_t cap)
{
	char copy[RUST_MAX + 1];
	int is_v0 = !strncmp(mangled, "_R", 2);
	if (len > RUST_MAX || (!is_v0 && (strncmp(mangled, "_ZN", 3) || !strstr(mangled, "17h"))))
		return 0;
	if (is_v0 && (has_punycode(mangled) || has_long_binder(mangled)))
		return 0;
	memcpy(copy, mangled, len + 1);
	char *llvm = strstr(copy, ".llvm."); /* a local made global by ThinLTO */
	if (llvm)
		*llvm = '\0';
	if (!run(rust_demangle_callback, copy, DMGL_PARAMS | DMGL_ANSI, out, cap))
		return 0;
	strip_rust_hashes(out);
	return 1;
}

static int is_mangled(const char *s)
{
	return !strncmp(s, "_Z", 2) || !strncmp(s, "_R", 2) || !strncmp(s, "_GLOBAL_", 8);
}

void symbol_demangle(const char *mangled, char *out, size_t cap)
{
	char name[MANGLED_MAX + 1];
	if (!cap)
		return;
	size_t len = strnlen(mangled, sizeof(name));
	const char *at = len > 1 ? memchr(mangled + 1, '@', len - 1) : NULL; /* name@@VERSION */
	if (at)
		len = (size_t)(at - mangled);
	size_t copied = len < cap ? len : cap - 1;
	if (len < sizeof(name) && is_mangled(mangled)) {
		memcpy(name, mangled, len);
		name[len] = '\0';
		if (demangle_rust(name, len, out, cap))
			return;
		if (!backtracks(name) &&
		    run(cplus_demangle_v3_callback, name, DMGL_PARAMS | DMGL_ANSI, out, cap))
			return;
	}
	memcpy(out, mangled, copied);
	out[copied] = '\0';
}
