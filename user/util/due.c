/* SPDX-License-Identifier: Apache-2.0 */
#include "util/due.h"

#include "util/array.h"

static void set_place(struct due *q, size_t i, struct due_item *item)
{
	q->v[i] = item;
	item->place = i + 1;
}

static void move_up(struct due *q, size_t i, struct due_item *item)
{
	for (; i && q->v[(i - 1) / 2]->at_ns > item->at_ns; i = (i - 1) / 2)
		set_place(q, i, q->v[(i - 1) / 2]);
	set_place(q, i, item);
}

static void move_down(struct due *q, size_t i, struct due_item *item)
{
	for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
		if (child + 1 < q->n && q->v[child + 1]->at_ns < q->v[child]->at_ns)
			child++;
		if (q->v[child]->at_ns >= item->at_ns)
			break;
		set_place(q, i, q->v[child]);
	}
	set_place(q, i, item);
}

int due_put(struct due *q, struct due_item *item, uint64_t at_ns)
{
	if (!item->place && ARRAY_RESERVE(q->v, q->cap, q->n + 1))
		return -ENOMEM;
	due_remove(q, item);
	item->at_ns = at_ns;
	move_up(q, q->n++, item);
	return 0;
}

void due_remove(struct due *q, struct due_item *item)
{
	if (!item->place)
		return;
	size_t i = item->place - 1;
	struct due_item *last = q->v[--q->n];
	item->place = 0;
	if (last == item)
		return;
	if (i && q->v[(i - 1) / 2]->at_ns > last->at_ns)
		move_up(q, i, last);
	else
		move_down(q, i, last);
}

void due_fini(struct due *q)
{
	free(q->v);
	*q = (struct due){ 0 };
}
