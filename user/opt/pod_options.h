/* SPDX-License-Identifier: Apache-2.0 */
/* Options for the names of pods and containers: the same in record and in the daemon. */
#ifndef ASCRIBE_OPT_POD_OPTIONS_H
#define ASCRIBE_OPT_POD_OPTIONS_H

#include "opt/options.h"
#include "pods/pods.h"

struct pod_options {
	const char *names, *node, *api, *credentials, *kubelet, *socket;
	struct opt_list labels, annotations;
};

/* Rows of a table of options; AT_PODS(member): the offset of a member of struct pod_options. */
#define POD_OPTIONS_ROWS(AT_PODS) \
	{ "container-names", \
	  0, \
	  OPT_STRING, \
	  "SOURCE", \
	  "who names pods and containers: kubernetes (the API server), kubelet, cri (the " \
	  "runtime's socket), engine (docker's or podman's), none, auto (default: kubernetes in a " \
	  "pod, else the first socket that answers)", \
	  AT_PODS(names), \
	  0, \
	  0 }, \
		{ "node", \
		  0, \
		  OPT_STRING, \
		  "NAME", \
		  "the name of this Kubernetes node (default: $NODE_NAME)", \
		  AT_PODS(node), \
		  0, \
		  0 }, \
		{ "kubernetes-api", \
		  0, \
		  OPT_STRING, \
		  "URL", \
		  "the API server (default: that of the pod we run in)", \
		  AT_PODS(api), \
		  0, \
		  0 }, \
		{ "kubernetes-credentials", \
		  0, \
		  OPT_STRING, \
		  "DIR", \
		  "directory with token and ca.crt (default: the service account of the pod)", \
		  AT_PODS(credentials), \
		  0, \
		  0 }, \
		{ "kubelet", \
		  0, \
		  OPT_STRING, \
		  "URL", \
		  "for container-names kubelet (default https://127.0.0.1:10250)", \
		  AT_PODS(kubelet), \
		  0, \
		  0 }, \
		{ "container-socket", \
		  0, \
		  OPT_STRING, \
		  "PATH", \
		  "for container-names cri and engine (default: the usual places)", \
		  AT_PODS(socket), \
		  0, \
		  0 }, \
		{ "pod-labels", \
		  0, \
		  OPT_LIST, \
		  "KEY,..", \
		  "labels of pods that become labels of samples, as pod_label_KEY; at most 16 with " \
		  "pod-annotations", \
		  AT_PODS(labels), \
		  0, \
		  0 }, \
		{ "pod-annotations", \
		  0, \
		  OPT_LIST, \
		  "KEY,..", \
		  "annotations likewise, as pod_annotation_KEY", \
		  AT_PODS(annotations), \
		  0, \
		  0 }

/* What the options mean; texts are borrowed. -EINVAL: the text begins with the option's name. */
int pod_options_config(const struct pod_options *o, struct pods_config *ret, struct err *err);

/* One line of what names containers, and how that goes. */
void pod_options_describe(const struct pods_stats *st, char *out, size_t cap);

#endif
