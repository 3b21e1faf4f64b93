/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/selection_options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HZ_MAX 1000

static const char *const annotated_names[] = {
	[ANNOTATED_IGNORE] = "ignore", [ANNOTATED_OUT] = "out", [ANNOTATED_IN] = "in"
};

static int parse_annotated(const char *text, enum selection_annotated *ret, struct err *err)
{
	for (size_t i = 0; i < sizeof(annotated_names) / sizeof(annotated_names[0]); i++)
		if (!text || !strcmp(text, annotated_names[i])) {
			*ret = (enum selection_annotated)i;
			return 0;
		}
	return err_set(err, -EINVAL, "'%s' is none of ignore, out, in", text);
}

/* Labels that follow from a cgroup. */
static bool is_known(const char *key, const struct pods_wanted *w)
{
	static const char *const keys[] = { "cgroup",	     "unit",	"container", "container_id",
					    "pod",	     "pod_uid", "namespace", "workload",
					    "workload_kind", "node" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i]))
			return true;
	for (uint32_t i = 0; i < w->n_labels + w->n_annotations; i++)
		if (!strcmp(key, w->name[i]))
			return true;
	return false;
}

static int check_keys(const struct selector *s, const struct pods_wanted *w, struct err *err)
{
	const char *key[SELECTOR_KEYS_MAX];
	size_t n = selector_keys(s, key, SELECTOR_KEYS_MAX);
	if (selector_names_event(s) || selector_names_wait(s))
		return err_set(err, -EINVAL, "event and wait do not follow from a cgroup");
	for (size_t i = 0; i < n; i++)
		if (!is_known(key[i], w))
			return err_set(err, -EINVAL,
				       "'%s' does not follow from a cgroup; there are cgroup, "
				       "unit, container, container_id, pod, pod_uid, namespace, "
				       "workload, workload_kind, node, and those of pod-labels and "
				       "pod-annotations",
				       key[i]);
	return 0;
}

static int add_rule(struct selection_list *l, const char *text, const struct pods_wanted *w,
		    struct err *err)
{
	struct selector *s;
	if (l->n == SELECTION_RULES_MAX)
		return err_set(err, -EINVAL, "more than %d rules", SELECTION_RULES_MAX);
	int rc = selector_parse(&s, text, NULL, err);
	if (rc)
		return rc;
	l->v[l->n++] = (struct selection_rule){ .selector = s, .text = text };
	return check_keys(s, w, err);
}

static int find_rate(struct selection_rules *r, unsigned hz, unsigned *ret, struct err *err)
{
	for (*ret = 0; *ret < r->n_rates; (*ret)++)
		if (r->rates[*ret] == hz)
			return 0;
	if (r->n_rates == RATES_MAX)
		return err_set(err, -EINVAL, "more than %d rates with that of frequency",
			       RATES_MAX);
	r->rates[r->n_rates++] = hz;
	return 0;
}

/* HZ{SELECTOR} */
static int add_rate(struct selection_rules *r, const char *text, const struct pods_wanted *w,
		    struct err *err)
{
	char *end;
	unsigned long hz = strtoul(text, &end, 10);
	unsigned index;
	if (!isdigit((unsigned char)*text) || !hz || hz > HZ_MAX || *end != '{')
		return err_set(err, -EINVAL,
			       "'%s' is not HZ{SELECTOR}, with 1 to %d Hz; try "
			       "99{namespace=\"shop\"}",
			       text, HZ_MAX);
	int rc = find_rate(r, (unsigned)hz, &index, err);
	rc = rc ? rc : add_rule(&r->rate, end, w, err);
	if (!rc)
		r->rate.v[r->rate.n - 1].rate = index;
	return rc;
}

int selection_options_rules(const struct selection_options *o, unsigned hz,
			    const struct pods_wanted *wanted, struct selection_rules *ret,
			    const char **ret_option, struct err *err)
{
	*ret = (struct selection_rules){ .rates = { hz }, .n_rates = 1 };
	*ret_option = "annotated";
	int rc = parse_annotated(o->annotated, &ret->annotated, err);
	*ret_option = rc ? *ret_option : "select";
	for (size_t i = 0; !rc && i < o->select.n; i++)
		rc = add_rule(&ret->in, o->select.v[i], wanted, err);
	*ret_option = rc ? *ret_option : "exclude";
	for (size_t i = 0; !rc && i < o->exclude.n; i++)
		rc = add_rule(&ret->out, o->exclude.v[i], wanted, err);
	*ret_option = rc ? *ret_option : "rate";
	for (size_t i = 0; !rc && i < o->rates.n; i++)
		rc = add_rate(ret, o->rates.v[i], wanted, err);
	return rc;
}

static void release(struct selection_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		selector_free(l->v[i].selector);
	l->n = 0;
}

void selection_options_release(struct selection_rules *r)
{
	release(&r->in);
	release(&r->out);
	release(&r->rate);
}

bool selection_options_same(const struct selection_options *a, const struct selection_options *b)
{
	const char *x = a->annotated ? a->annotated : "", *y = b->annotated ? b->annotated : "";
	return opt_list_same(&a->select, &b->select) && opt_list_same(&a->exclude, &b->exclude) &&
	       opt_list_same(&a->rates, &b->rates) && !strcmp(x, y);
}
