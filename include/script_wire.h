/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of interpreters that keep a chain of their own: CPython (python_wire.h), PHP (php_wire.h),
 * Ruby (ruby_wire.h), Perl (perl_wire.h) and LuaJIT (luajit_wire.h). bpf/script.bpf.h walks the
 * chain. Each frame of a stack is a word that stands for a piece of code:
 *
 *   63                        4 3        1 0
 *   number of the code         | language | called from C
 *
 * The interpreter's own frames of one call of it stand for all words up to the next one that was
 * called from C.
 */
#ifndef ASCRIBE_SCRIPT_WIRE_H
#define ASCRIBE_SCRIPT_WIRE_H

enum script_language {
	SCRIPT_PYTHON,
	SCRIPT_PHP,
	SCRIPT_RUBY,
	SCRIPT_PERL,
	SCRIPT_LUAJIT,
	SCRIPT_LANGUAGES
};

#define SCRIPT_ENTRY 1ull
#define SCRIPT_BITS 15ull
#define SCRIPT_WORD(number, language) (((number) & ~SCRIPT_BITS) | (__u64)(language) << 1)
#define SCRIPT_LANGUAGE(word) ((word) >> 1 & 7)

/*
 * What proc_entry.script_layout says: the language, an index in its table of layouts, and how the
 * chain of a thread is found, where a language has several ways. Of LuaJIT that is the size of the
 * interpreter's code, which script_at is the start of.
 */
#define SCRIPT_LAYOUT(language, index, way) ((__u64)(way) << 16 | (__u64)(language) << 8 | (index))
#define SCRIPT_LAYOUT_LANGUAGE(layout) ((layout) >> 8 & 0xff)
#define SCRIPT_LAYOUT_WAY(layout) ((layout) >> 16)

/* How code of a file finds a thread-local variable of its own. */
enum script_way {
	SCRIPT_NO_WAY,	/* not known */
	SCRIPT_BY_PAIR, /* binary_script.at: vaddr of {module, offset} for the table of glibc */
	SCRIPT_BY_TP,	/* binary_script.at: offset from the thread pointer */
	SCRIPT_BY_SLOT, /* binary_script.at: vaddr of this offset */
};

#define SCRIPT_WAY_MASK 0xffu /* of a binary_script.version: enum script_way */

#define SCRIPT_TEXT_MAX 256 /* bytes; of long texts the end */

enum script_text { SCRIPT_NAME, SCRIPT_FILE, SCRIPT_CLASS, SCRIPT_TEXTS };

struct wire_script_text {
	__u32 bytes;
	__u32 width; /* of a character: 1 Latin-1, 2, 4; 0: UTF-8 */
	__u8 text[SCRIPT_TEXT_MAX];
};

/*
 * What a piece of code is, behind a wire_record of kind WIRE_SCRIPT. A record that ends before a
 * text has an empty one.
 */
struct wire_script {
	__u64 id; /* the word, without SCRIPT_ENTRY */
	__u32 line;
	__u32 kind; /* enum php_kind, ruby_kind, perl_kind, LUAJIT_KIND */
	struct wire_script_text text[SCRIPT_TEXTS];
};

#endif
