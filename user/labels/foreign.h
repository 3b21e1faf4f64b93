/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoder of what bpf/foreign.bpf.h read from a process that publishes its labels in another way
 * than ours, or in none (include/label_wire.h). The bytes are foreign: any bytes whatever are
 * either left out, counted, or give labels.
 */
#ifndef ASCRIBE_LABELS_FOREIGN_H
#define ASCRIBE_LABELS_FOREIGN_H

#include "labels/labels.h"

#define FOREIGN_LABELS_MAX 128 /* of one capture */
#define FOREIGN_KEY_MAX 64     /* of a field's key, with its NUL */
#define FOREIGN_FIELDS_MAX 16  /* of one source */

/* What the bytes of a field mean. */
enum foreign_form {
	FOREIGN_INT = 0, /* signed number */
	FOREIGN_UINT,	 /* above INT64_MAX: text */
	FOREIGN_HEX,	 /* number, as 16 hexadecimal digits */
	FOREIGN_TEXT,
	FOREIGN_BYTES,	 /* as hexadecimal digits */
	FOREIGN_ELASTIC, /* a correlation record of 37 bytes */
	FOREIGN_DATADOG, /* a context of 64 bytes */
};

/* One number and what it is called. */
struct foreign_name {
	int64_t number;
	char name[32];
};

struct foreign_field {
	char key[FOREIGN_KEY_MAX];
	enum foreign_form form;
	const struct foreign_name *names; /* numbers that have names, NULL for none */
	size_t n_names;
};

/* What user space knows about source i of a process. */
#define FOREIGN_RANKS 4

struct foreign_source {
	uint8_t kind; /* enum label_kind */
	/* Below FOREIGN_RANKS: labels of a lower one win, whatever the order of sources */
	uint8_t rank;
	const struct foreign_field *fields; /* LABEL_PATH */
	size_t n_fields;
	char *const *keys; /* LABEL_OTEL: by index, NULL where there is none */
	size_t n_keys;
};

/*
 * What the labels borrow besides the capture, and what was not as it should be. The caller sets
 * all up to n_calls.
 */
struct foreign_side {
	/*
	 * len (at most 255) bytes of the process's memory, for a value that was not resident. 0, or
	 * -errno. NULL: it is left out.
	 */
	int (*read)(void *ctx, uint64_t at, void *out, size_t len);
	void *ctx;
	/* What the timed calls of event i are called, NULL where none is timed: [n_calls] */
	char *const *calls;
	size_t n_calls;
	char text[8192];
	size_t used;
	uint32_t unknown_keys; /* attributes whose key is not known (yet): left out */
	uint32_t unread;       /* bit i: of source i a value could not be read, and is left out */
	uint32_t invalid;      /* bit i: what source i gave is malformed, and left out */
};

/*
 * The labels of a capture in the order of its entries, at most FOREIGN_LABELS_MAX, duplicates and
 * all; argN is an argument of a probe, `in` the timed call. They point into the capture, the
 * sources and *side. Of OpenTelemetry's attributes with one key the last one counts, and stands
 * first.
 */
size_t foreign_decode(const void *capture, size_t len, const struct foreign_source *sources,
		      size_t n_sources, struct label *out, struct foreign_side *side);

/*
 * Whether a capture has labels of sources. Arguments of probes and timed calls stand behind those;
 * they are decoded without any source.
 */
bool foreign_has_sources(const void *capture, size_t len);

/*
 * The first `len` bytes of a text that was longer: without the part of a UTF-8 character that the
 * cut left over.
 */
size_t utf8_cut(const char *text, size_t len);

#endif
