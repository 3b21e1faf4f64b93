/* SPDX-License-Identifier: Apache-2.0 */
/* A shared library with labels of its own; NAME is part of its file name. */
#include <ascribe/label.h>

#include "linkage.h"
#include "reader.h"

C_LINKAGE int plugin_run(const struct ascribe_label_set *foreign);

static int expect(int line, const char *want)
{
	struct reading r;
	const char *wrong = reader_read("/" NAME, &r);
	const char *have = wrong ? wrong : r.attached ? r.text : "-";
	if (!strcmp(have, want) && r.modules == 1)
		return 0;
	printf(NAME " %d: have \"%s\", modules %d, want \"%s\"\n", line, have, r.modules, want);
	return 1;
}

/*
 * foreign: a set {tenant=host, n=#1} that the caller's module built; its key numbers differ from
 * ours.
 */
int plugin_run(const struct ascribe_label_set *foreign)
{
	int bad = expect(__LINE__, "-");
	ASCRIBE_LABEL_SCOPE("plugin", NAME);
	bad += expect(__LINE__, "plugin=" NAME);
	if (foreign) {
		struct ascribe_label_set same;
		struct ascribe_scope scope;
		const struct ascribe_record_header *outer = ascribe_swap(NULL);
		ascribe_attach(&scope, foreign);
		bad += expect(__LINE__, "n=#1,tenant=host");
		/* The identity is of names, not of numbers. */
		if (ascribe_set_of(ascribe_current())->prefix.set_id != foreign->prefix.set_id) {
			puts(NAME ": other id for the same labels");
			bad++;
		}
		ascribe_detach(&scope);
		ascribe_swap(outer);
		ascribe_set_init(&same);
		ascribe_set_add_int(&same, "n", 5);
		struct ascribe_scope n5;
		ascribe_attach(&n5, &same);
		ascribe_attach(&scope, foreign);
		bad += expect(__LINE__, "n=#1,plugin=" NAME ",tenant=host");
		ascribe_detach(&scope);
		bad += expect(__LINE__, "n=#5,plugin=" NAME);
		ascribe_detach(&n5);
	}
	return bad;
}
