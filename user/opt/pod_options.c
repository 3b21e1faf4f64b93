/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/pod_options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WANTED_MAX 16 /* of what becomes labels of samples */

/* What a pod says of being profiled; the first that it has counts. */
static const char *const profile_annotations[] = { "ascribe.io/profile",
						   "profiles.grafana.com/cpu.ebpf.enabled" };
#define N_PROFILE (sizeof(profile_annotations) / sizeof(profile_annotations[0]))

_Static_assert(WANTED_MAX + N_PROFILE <= POD_EXTRA_MAX, "room for all of them");

static const char *const source_names[] = {
	[PODS_AUTO] = "auto", [PODS_KUBERNETES] = "kubernetes", [PODS_KUBELET] = "kubelet",
	[PODS_CRI] = "cri",   [PODS_ENGINE] = "engine",		[PODS_OFF] = "none",
};

static int find_source(const char *name, enum pods_source *ret, struct err *err)
{
	for (size_t i = 0; i < sizeof(source_names) / sizeof(source_names[0]); i++)
		if (!strcmp(name, source_names[i])) {
			*ret = (enum pods_source)i;
			return 0;
		}
	return err_set(err, -EINVAL,
		       "container-names: '%s' is none of auto, kubernetes, kubelet, cri, engine, "
		       "none",
		       name);
}

/* The samples' label: the prefix, and the key with '_' for what a selector cannot have. */
static int add_wanted(struct pods_wanted *w, const char *option, const char *prefix,
		      const char *key, struct err *err)
{
	uint32_t i = w->n_labels + w->n_annotations;
	size_t n = strlen(prefix);
	if (i == WANTED_MAX)
		return err_set(err, -EINVAL, "%s: more than %d keys with those of the other option",
			       option, WANTED_MAX);
	if (!*key || strlen(key) >= POD_KEY_MAX)
		return err_set(err, -EINVAL, "%s: '%.40s' is no key: 1 to %d characters", option,
			       key, POD_KEY_MAX - 1);
	strcpy(w->key[i], key);
	memcpy(w->name[i], prefix, n);
	for (size_t k = 0; k <= strlen(key); k++)
		w->name[i][n + k] = isalnum((unsigned char)key[k]) || !key[k] ? key[k] : '_';
	return 0;
}

/* Behind those that become labels. */
static void add_profile(struct pods_wanted *w)
{
	for (size_t i = 0; i < N_PROFILE; i++)
		strcpy(w->key[w->n_labels + w->n_annotations++], profile_annotations[i]);
}

static int check_url(const char *option, const char *url, struct err *err)
{
	bool web = !url || !strncmp(url, "http://", 7) || !strncmp(url, "https://", 8);
	return web ? 0
		   : err_set(err, -EINVAL, "%s: '%s' must begin with https:// or http://", option,
			     url);
}

int pod_options_config(const struct pod_options *o, struct pods_config *ret, struct err *err)
{
	struct pods_wanted *w = &ret->wanted;
	*ret = (struct pods_config){ .node = o->node,
				     .api = o->api,
				     .credentials = o->credentials,
				     .kubelet = o->kubelet,
				     .socket = o->socket };
	int rc = o->names ? find_source(o->names, &ret->source, err) : 0;
	rc = rc ? rc : check_url("kubernetes-api", o->api, err);
	rc = rc ? rc : check_url("kubelet", o->kubelet, err);
	for (size_t i = 0; !rc && i < o->labels.n; i++, w->n_labels += !rc)
		rc = add_wanted(w, "pod-labels", "pod_label_", o->labels.v[i], err);
	for (size_t i = 0; !rc && i < o->annotations.n; i++, w->n_annotations += !rc)
		rc = add_wanted(w, "pod-annotations", "pod_annotation_", o->annotations.v[i], err);
	if (!rc)
		add_profile(w);
	return rc;
}
