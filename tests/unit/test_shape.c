/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of random trees of stacks, in some of which stacks differ in lines alone. The nodes on
 * the way from a leaf to the root have each stack of its path once, in order.
 */
#include "store/dict/shape.h"
#include "store/read/same.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TREES 300

static uint32_t seed = 11;

static uint32_t draw(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)seed * below >> 32);
}

/* Frames with one of some names and one of some lines. */
static void make_frames(struct dicts *d, uint32_t names, uint32_t lines)
{
	for (uint32_t i = 0; i < names; i++)
		for (uint32_t line = 0; line < lines; line++) {
			char name[16];
			int len = snprintf(name, sizeof(name), "f%u", i);
			struct store_frame f = { .line = line + 1 };
			uint32_t id;
			assert_int_equal(strings_add(&d->strings, name, (size_t)len, &f.function),
					 0);
			assert_int_equal(dicts_add_frame(d, &f, &id), 0);
		}
}

static void make_stacks(struct dicts *d)
{
	uint32_t n = 1 + draw(400), branching = 1 + draw(12), id;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t parent = draw(branching) ? d->n_stacks - 1 : draw(d->n_stacks);
		assert_int_equal(dicts_add_stack(d, parent, 1 + draw(d->n_frames - 1), &id), 0);
		if (!draw(1 + draw(30)))
			assert_int_equal(dicts_add_leaf(d, draw(d->n_stacks), &id), 0);
	}
}

static uint32_t one_of(const uint32_t *same, uint32_t id)
{
	return same ? same[id] : id;
}

/* Climb from a leaf through the nodes and through the stacks at once. */
static void check_leaf(const struct dicts *d, const uint32_t *same, const struct shape *s,
		       uint32_t leaf)
{
	uint32_t at = d->leaves[leaf], node = s->of_leaf[leaf];
	assert_int_equal(s->v[node].last, one_of(same, at));
	while (node) {
		const struct shape_node *n = &s->v[node];
		for (uint32_t i = 0; i < n->length; i++) {
			assert_true(at);
			at = d->stacks[at].parent;
		}
		assert_true(s->above[node] < node);
		node = s->above[node];
		assert_int_equal(one_of(same, at), s->v[node].last);
	}
	assert_int_equal(at, 0);
}

static void check_tree(uint32_t lines)
{
	struct dicts d;
	struct shape s;
	uint32_t *same = NULL, *copy = NULL;
	assert_int_equal(dicts_init(&d, true), 0);
	make_frames(&d, 1 + draw(4), lines);
	make_stacks(&d);
	assert_int_equal(same_stacks(&d, &same), 0);
	if (same) {
		copy = malloc(d.n_stacks * sizeof(*copy));
		memcpy(copy, same, d.n_stacks * sizeof(*copy));
	}
	assert_int_equal(shape_init(&s, &d, same), 0);
	for (uint32_t i = 0; i < d.n_leaves; i++)
		check_leaf(&d, copy, &s, i);
	shape_fini(&s);
	free(copy);
	dicts_fini(&d);
}

static void every_path_is_there(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < TREES; i++)
		check_tree(1 + i % 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_path_is_there) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
