/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doubly linked lists through their members. A node belongs to one list at most; all zero: to none.
 * The owner of the node knows which list it is in. All calls take constant time.
 */
#ifndef ASCRIBE_UTIL_LIST_H
#define ASCRIBE_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
	struct list_node *before, *after;
	bool listed;
};

/* All zero is an empty list. */
struct list {
	struct list_node *first, *last;
	size_t n;
};

/* The struct that has this node as member, NULL for NULL. */
#define LIST_ENTRY(node, type, member) \
	((node) ? (type *)(void *)((char *)(node) - offsetof(type, member)) : NULL)

static inline void list_append(struct list *l, struct list_node *n)
{
	*n = (struct list_node){ .before = l->last, .listed = true };
	*(l->last ? &l->last->after : &l->first) = n;
	l->last = n;
	l->n++;
}

/* Take a node out of the list that it is in; does nothing where it is in none. */
static inline void list_remove(struct list *l, struct list_node *n)
{
	if (!n->listed)
		return;
	*(n->before ? &n->before->after : &l->first) = n->after;
	*(n->after ? &n->after->before : &l->last) = n->before;
	*n = (struct list_node){ 0 };
	l->n--;
}

/* Have a node in the list, at its end where it is new there, or have it in none. */
static inline void list_set(struct list *l, struct list_node *n, bool listed)
{
	if (!listed)
		list_remove(l, n);
	else if (!n->listed)
		list_append(l, n);
}

#endif
