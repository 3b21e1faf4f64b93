/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Where Ruby keeps what bpf/ruby.bpf.h walks: the thread's execution context -> control frames ->
 * instruction sequence -> names. Offsets in bytes on 64-bit machines, of builds without
 * VM_DEBUG_BP_CHECK, as vm_core.h, method.h, internal/class.h and rstring.h of 3.1.2 and 3.3.8 have
 * them. tests/record/ruby/layout.c compares them with the headers of a release.
 */
#ifndef ASCRIBE_RUBY_WIRE_H
#define ASCRIBE_RUBY_WIRE_H

struct ruby_layout {
	__u32 version;	  /* major << 8 | minor */
	__u16 frame_size; /* rb_control_frame_t; the caller's follows */
	__u16 location;	  /* rb_iseq_constant_body: location, as struct ruby_location */
	__u16 embedded;	  /* RString: the bytes of a short one */
	/*
	 * A class: its name, and the object that a singleton class belongs to. 0: the name is among
	 * its instance variables.
	 */
	__u16 class_name, class_attached;
	__u16 line_shift; /* 1: the line is a tagged number */
};

#define RUBY_KNOWN "Ruby 3.1 and 3.3 on x86-64" /* as text */
#define RUBY_LAYOUTS 4				/* a power of two; unused ones have version 0 */

static const struct ruby_layout ruby_layouts[RUBY_LAYOUTS] = {
	{ 0x0301, 64, 64, 16, 0, 0, 1 },
	{ 0x0303, 56, 64, 24, 152, 128, 0 },
};

/* A binary_script.version; the way is to ruby_current_ec, the context of a thread. */
#define RUBY_VERSION(major, minor, way) ((__u32)(major) << 16 | (__u32)(minor) << 8 | (way))

struct ruby_context { /* rb_execution_context_t, its beginning */
	__u64 stack, words;
	__u64 frame; /* the innermost; frames lie next to each other up to the end of the stack */
};

struct ruby_frame { /* rb_control_frame_t, its beginning */
	__u64 pc, sp, iseq, self, env;
};

#define RUBY_ISEQ_BODY 16 /* rb_iseq_t */

struct ruby_location {		 /* rb_iseq_location_t, its beginning */
	__u64 path;		 /* String, or Array of two: path and real path */
	__u64 base_label, label; /* String */
	__u64 line;
};

/* The word at ruby_frame.env: flags of the frame and its environment. */
#define RUBY_FRAME_MASK 0x7fff0001u
#define RUBY_FRAME_DUMMY 0x79990001u
#define RUBY_FRAME_FINISH 0x20u /* the bytecode function returns when this one does */
#define RUBY_FRAME_C 0x80u	/* of a function in C: no bytecode */
#define RUBY_ENV_LOCAL 0x02u	/* no environment around it */
/* Words below: method entry or what holds it; the environment around it, tagged */
#define RUBY_ENV_METHOD 16u
#define RUBY_ENV_OUTER 8u
#define RUBY_ENV_TAG 3u

/* An object: its flags come first, with its type, and of T_IMEMO what it is. */
#define RUBY_TYPE(flags) ((flags) & 0x1f)
#define RUBY_CLASS 2
#define RUBY_MODULE 3
#define RUBY_STRING 5
#define RUBY_ARRAY 7
#define RUBY_IMEMO_MASK 0xf01fu
#define RUBY_IMEMO_HOLDER 0x201au /* struct vm_svar: a method entry or a class reference */
#define RUBY_IMEMO_METHOD 0x601au /* rb_callable_method_entry_t */
#define RUBY_SINGLETON 0x1000u	  /* FL_SINGLETON of a class */
#define RUBY_EMBEDDED 0x2000u	  /* of an Array: elements in the object. Of a String: not */
#define RUBY_LENGTH(flags) ((flags) >> 14 & 0x1f) /* of a short string, where `embedded` is 16 */

#define RUBY_HOLDER_METHOD 8 /* struct vm_svar: cref_or_me */
#define RUBY_METHOD_OWNER 32 /* rb_callable_method_entry_t */

struct ruby_object { /* RString or RArray, and the bytes of a short one */
	__u64 flags, klass;
	__u64 length; /* or the first element, or the first bytes */
	__u64 bytes;
	__u64 elements; /* of a long Array */
};

/* What kind of method, where the class is known: wire_script.kind. */
enum ruby_kind { RUBY_OF_INSTANCES, RUBY_OF_CLASS };

#endif
