/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Where PHP keeps what bpf/php.bpf.h walks: executor_globals -> current_execute_data -> frames ->
 * function -> names. Offsets in bytes on 64-bit machines, of builds without ZTS and ZEND_DEBUG, as
 * Zend/zend_globals.h, zend_compile.h, zend_types.h and zend.h have them. An API number fixes them:
 * extensions are built against these headers. tests/record/php/layout.c compares them with the
 * headers that are installed.
 */
#ifndef ASCRIBE_PHP_WIRE_H
#define ASCRIBE_PHP_WIRE_H

struct php_layout {
	__u32 api;     /* ZEND_MODULE_API_NO */
	__u16 current; /* zend_executor_globals: current_execute_data */
	__u16 place;   /* zend_op_array: filename, then line_start and line_end */
};

#define PHP_KNOWN "PHP 8.2 and 8.4 without ZTS" /* as text */
/*
 * A power of two; unused ones have API 0. Not below 8: clang puts constants of 16 and 32 bytes into
 * a section that libbpf does not load.
 */
#define PHP_LAYOUTS 8

static const struct php_layout php_layouts[PHP_LAYOUTS] = {
	{ 20220829, 488, 152 }, /* PHP 8.2 */
	{ 20240924, 488, 168 }, /* PHP 8.4 */
};

/*
 * Of a binary_script.version, beside the API number: builds whose layouts differ. PHP_NO_API: it
 * does not say which it is.
 */
#define PHP_API(version) ((version) & 0x0fffffffu)
#define PHP_NO_API 1u
#define PHP_ZTS (1u << 30)
#define PHP_DEBUG (1u << 31)

struct php_frame { /* zend_execute_data, up to its previous one */
	__u64 opline, call, return_value, function, object;
	__u32 info, n_arguments;
	__u64 previous;
};

/* In php_frame.info */
#define PHP_CALL_CODE (1u << 16) /* of a file or of eval */
#define PHP_CALL_TOP (1u << 17)	 /* execute_ex returns when this one does */

struct php_function { /* the common beginning of zend_function */
	__u8 type;
	__u8 arg_flags[3];
	__u32 flags;
	__u64 name, scope; /* zend_string; zend_class_entry, or 0 */
};

/* php_function.type. An even one is code in PHP: zend_op_array. */
#define PHP_IS_USER(type) (!((type) & 1))
#define PHP_EVAL_CODE 4

/* All that is read of a zend_op_array, at once; the last ones stay unread. */
#define PHP_CODE_BYTES 184u

struct php_place {
	__u64 file; /* zend_string */
	__u32 line_start, line_end;
};

struct php_string { /* zend_string; its bytes follow */
	__u64 count;
	__u64 hash; /* 0: not made yet */
	__u64 length;
};

/*
 * zend_generator: its frame, and the one without a function that stands for it while a generator
 * runs that it delegates to
 */
#define PHP_GENERATOR_FRAME 56
#define PHP_GENERATOR_FAKE 184

#define PHP_OP_LINE 24	 /* zend_op: lineno */
#define PHP_CLASS_NAME 8 /* zend_class_entry: name */

/* What a frame without a function name runs. */
enum php_kind { PHP_FUNCTION, PHP_MAIN, PHP_INCLUDE, PHP_EVAL };

#endif
