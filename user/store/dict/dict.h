/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionaries of a store in memory: what the ids mean. The reader fills them by decoding, the
 * writer also interns into them. Content is only ever appended; an add that fails leaves everything
 * as it was.
 */
#ifndef ASCRIBE_STORE_DICT_DICT_H
#define ASCRIBE_STORE_DICT_DICT_H

#include "store/file/format.h"
#include "store/store.h"
#include "store/dict/stack_index.h"
#include "store/dict/strings.h"

/* Keys and string values are ids in dicts.label_text. */
struct set_label {
	uint32_t key;
	uint32_t type; /* enum label_type */
	uint64_t value;
};

struct dicts {
	bool index; /* equal content must be found again: a writer */
	struct strings strings;
	struct store_frame *frames;
	size_t frames_cap;
	uint32_t n_frames; /* with the unused frame 0 */
	struct idhash frame_hash;
	struct stack_node *stacks;
	size_t stacks_cap;
	uint32_t n_stacks; /* with the empty stack */
	struct stack_index stack_index;
	uint32_t *leaves; /* stacks that samples ended in */
	size_t leaves_cap;
	uint32_t n_leaves; /* with the empty stack */
	uint32_t *leaf_of; /* with an index, [leaf_of_cap]: the leaf of a stack, 0: none yet */
	size_t leaf_of_cap;
	struct strings label_text;
	struct set_label *labels; /* of all sets, one after the other */
	size_t labels_cap;
	/* Where the labels of a set end; they begin where those of the set before end */
	size_t *set_end;
	size_t set_end_cap;
	uint32_t n_sets; /* with the empty set */
	struct idhash set_hash;
	struct store_event *events;
	size_t events_cap;
	uint32_t n_events;
	uint32_t idle; /* with an index: as store_block.idle, of all leaves */
};

int dicts_init(struct dicts *d, bool index);
void dicts_fini(struct dicts *d);

/* What they take in memory. */
size_t dicts_bytes(const struct dicts *d);

/* See store_add_*. -EINVAL for ids that do not exist. */
int dicts_add_frame(struct dicts *d, const struct store_frame *f, uint32_t *ret_id);
int dicts_add_stack(struct dicts *d, uint32_t parent, uint32_t frame, uint32_t *ret_id);
int dicts_add_set(struct dicts *d, const struct label *labels, size_t n, uint32_t *ret_id);
/* 0: it is not there. With an index. */
uint32_t dicts_find_frame(const struct dicts *d, const struct store_frame *f);
uint32_t dicts_find_stack(const struct dicts *d, uint32_t parent, uint32_t frame);
/* The leaf of a stack, which must exist. -ENOMEM. */
int dicts_add_leaf(struct dicts *d, uint32_t stack, uint32_t *ret_id);
int dicts_add_event(struct dicts *d, const struct store_event *e, uint32_t *ret_id);
bool dicts_find_event(const struct dicts *d, const struct store_event *e, uint32_t *ret_id);

/* Is it the stack of an idle CPU? */
bool dicts_is_idle(const struct dicts *d, uint32_t stack);

/* The labels of a set, borrowed until the next add. */
size_t dicts_set(const struct dicts *d, uint32_t id, const struct set_label **ret);
/* One of them in the form of the API, borrowed likewise. */
struct label dicts_label(const struct dicts *d, const struct set_label *l);

/* How many ids a dictionary has given, and the first that a file stores. */
uint32_t dicts_count(const struct dicts *d, enum kind kind);
uint32_t dicts_first(enum kind kind);

/*
 * Where saving stands: ids below are in files. text is for the strings of label sets, which are
 * stored with the sets that brought them.
 */
struct dict_mark {
	uint32_t next;
	uint32_t text;
};

/*
 * Append to out the payload of one frame that begins at *mark, a batch at most; *ret_next is where
 * the next begins.
 */
int dicts_encode(const struct dicts *d, enum kind kind, const struct dict_mark *mark,
		 struct buf *out, struct dict_mark *ret_next);

/*
 * Append n decoded entries. -EBADMSG when they are malformed or name ids that do not exist; -E2BIG,
 * -ENOMEM.
 */
int dicts_decode(struct dicts *d, enum kind kind, const uint8_t *data, size_t len, uint32_t n);

#endif
