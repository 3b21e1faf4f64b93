/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which labels may be kept, by their keys: rules compiled to one block of memory that is made for
 * saying no quickly, since most keys are in no rule.
 *
 * A rule is a key, or the beginning of keys with a '*' behind it ("*" alone: all keys). The longest
 * rule that fits a key decides, the key itself before any beginning. What fits none is kept, or
 * dropped where some rule says keep. So "keep tenant, http.*; drop http.cookie" and "drop auth*;
 * redact user" do what they say.
 *
 * Keys are bytes; upper and lower case differ. A compiled filter does not change; any number of
 * threads may use it.
 */
#ifndef ASCRIBE_LABELS_FILTER_H
#define ASCRIBE_LABELS_FILTER_H

#include "labels/labels.h"
#include "util/err.h"

#define FILTER_RULES_MAX 16384 /* 30 ms to compile */
#define FILTER_KEY_MAX 255     /* bytes of a rule without its '*' */

enum filter_action {
	FILTER_KEEP,
	FILTER_DROP,
	/* The value gives way to a keyed hash of it: values stay different, and secret */
	FILTER_REDACT,
};

struct filter_rule {
	const char *text;
	enum filter_action action;
};

/*
 * 6 bits choose among the children, which stand side by side: the one for `bit` is node[next +
 * number of bits below it in mask]. The bits come from one byte of the key, or from two: from
 * wherever, counted from the front or the end, the rules below differ most. Bytes between are not
 * looked at on the way; a node with a text compares all of them.
 */
struct filter_node {
	uint64_t mask; /* or where the text begins */
	uint16_t next; /* the first child; with a text: what goes on behind it, 0: nothing */
	uint8_t kind;  /* FILTER_TEXT; else from which ends, and how the bytes are shifted */
	uint8_t need;  /* bytes that the key must have; the text's length */
	union {
		int16_t at[2]; /* of the bytes; those from the end are negative */
		/* text: of the key itself, of keys that begin with it; FILTER_NONE */
		uint8_t action[2];
	};
};

struct label_filter {
	/*
	 * By the low 6 bits of the first, the middle and the last byte of a key: the lengths (63:
	 * and more) that a key in some rule may have. The three together refuse nearly all others.
	 */
	uint64_t first[64], middle[64], last[64];
	uint8_t (*walk)(const struct label_filter *f, const uint8_t *key, size_t len);
	uint32_t bytes; /* of the whole */
	uint32_t n_rules;
	uint32_t text; /* where the texts begin, from the struct on */
	uint8_t other; /* the action for what fits no rule */
	struct filter_node node[];
};

/* 0; -EINVAL, -E2BIG with a text that names the rule; -ENOMEM. The rules are copied. */
int filter_new(struct label_filter **ret, const struct filter_rule *rules, size_t n,
	       struct err *err);
struct label_filter *filter_copy(const struct label_filter *f); /* NULL: no memory */
void filter_free(struct label_filter *f);

static inline enum filter_action filter_find(const struct label_filter *f, const char *key,
					     size_t len)
{
	const uint8_t *k = (const uint8_t *)key;
	if (!len)
		return (enum filter_action)f->other;
	uint64_t lengths =
		f->first[k[0] & 63] & f->middle[k[len / 2] & 63] & f->last[k[len - 1] & 63];
	if (__builtin_expect(!(lengths >> (len < 63 ? len : 63) & 1), 1))
		return (enum filter_action)f->other;
	return (enum filter_action)f->walk(f, k, len);
}

/* ---- redaction ---- */

/* A hash that nobody can compute without its key: whoever reads the result cannot try values. */
struct redactor {
	uint64_t key[2];
	bool credentials; /* values that look like some (credential.h) stay as they are */
};

#define REDACTED_LEN 25 /* "redacted:" and 16 hexadecimal digits */

/*
 * With a key that nobody knows and that is written nowhere; nothing else is changed. -errno of
 * getrandom.
 */
int redactor_init(struct redactor *r);

/* The same for equal labels of this redactor: key, type and value count. */
void redactor_text(const struct redactor *r, const struct label *l, char out[REDACTED_LEN]);

/*
 * Do to the labels what the rules say, in place, and return how many stay. Values that give way are
 * written to room, which the labels borrow from then on: n * REDACTED_LEN bytes. f may be NULL: all
 * stay. What looks like a credential is redacted whatever the rules, and added to *io_credentials.
 */
size_t filter_apply(const struct label_filter *f, const struct redactor *r, struct label *v,
		    size_t n, char *room, uint64_t *io_credentials);

#endif
