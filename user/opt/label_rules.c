/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/label_rules.h"

#include <errno.h>
#include <stdlib.h>

int label_rules_filter(const struct label_rules *r, struct label_filter **ret, struct err *err)
{
	const struct {
		const struct opt_list *list;
		enum filter_action action;
	} lists[] = { { &r->keep, FILTER_KEEP },
		      { &r->drop, FILTER_DROP },
		      { &r->redact, FILTER_REDACT } };
	size_t n = 0;
	struct filter_rule *rules = calloc(r->keep.n + r->drop.n + r->redact.n + 1, sizeof(*rules));
	if (!rules)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (size_t k = 0; k < lists[i].list->n; k++)
			rules[n++] = (struct filter_rule){ lists[i].list->v[k], lists[i].action };
	int rc = n ? filter_new(ret, rules, n, err) : 0;
	free(rules);
	return rc;
}

bool label_rules_same(const struct label_rules *a, const struct label_rules *b)
{
	return opt_list_same(&a->keep, &b->keep) && opt_list_same(&a->drop, &b->drop) &&
	       opt_list_same(&a->redact, &b->redact) && a->credentials == b->credentials;
}
