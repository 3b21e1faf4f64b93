/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a pod to its workload. A Deployment owns ReplicaSets and a CronJob owns Jobs, which own the
 * pods. Their names are in those of the ReplicaSets and Jobs, so that neither is asked for:
 *
 *   ReplicaSet  DEPLOYMENT-HASH, where label pod-template-hash of the pod is HASH
 *   Job         CRONJOB-MINUTES of its schedule since 1970; before Kubernetes 1.21 CRONJOB-SECONDS
 *               (getJobName and getTimeHash of pkg/controller/cronjob/utils.go)
 *   pod         OWNER-XXXXX with five random characters (SimpleNameGenerator of
 *               k8s.io/apiserver/pkg/storage/names); OWNER is cut to 58 characters
 */
#include "pods/parse_int.h"

#include <stdio.h>
#include <string.h>

#define RANDOM_LEN 5
#define DAY_S 86400
#define EARLY_S 600 /* so much later than the pod's creation a schedule may be: clocks differ */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Cut the text before "-" and n characters. False: there is no such end, or nothing before. */
static bool cut_end(struct span *t, size_t n)
{
	if (t->n < n + 2 || t->s[t->n - n - 1] != '-')
		return false;
	t->n -= n + 1;
	return true;
}

/* Cut "-" and the text itself. */
static bool cut_text(struct span *t, struct span end)
{
	if (!end.s || !end.n || t->n < end.n || memcmp(t->s + t->n - end.n, end.s, end.n))
		return false;
	return cut_end(t, end.n);
}

/* Cut what the API server added to metadata.generateName. */
static bool cut_random(struct span *t)
{
	for (size_t i = 0; i < RANDOM_LEN && i < t->n; i++) {
		char c = t->s[t->n - 1 - i];
		if (!c || !strchr("bcdfghjklmnpqrstvwxz2456789", c))
			return false;
	}
	return cut_end(t, RANDOM_LEN);
}

static bool cut_ordinal(struct span *t)
{
	size_t n = 0;
	while (n < t->n && is_digit(t->s[t->n - 1 - n]))
		n++;
	return n && cut_end(t, n);
}

static bool is_near(int64_t scheduled_s, int64_t created_s)
{
	return scheduled_s >= created_s - DAY_S && scheduled_s <= created_s + EARLY_S;
}

/* Cut the time of a CronJob's schedule. Other names end in digits, too: the pod is as old. */
static bool cut_schedule(struct span *t, int64_t created_s)
{
	size_t n = 0;
	int64_t v = 0, unit = 1;
	for (; n < t->n && n <= 10 && is_digit(t->s[t->n - 1 - n]); n++, unit *= 10)
		v += (t->s[t->n - 1 - n] - '0') * unit;
	if (n < 8 || n > 10 || (!is_near(v * 60, created_s) && !is_near(v, created_s)))
		return false;
	return cut_end(t, n);
}

static void set_job(struct parse *p, struct span name, int64_t created_s)
{
	bool cron = cut_schedule(&name, created_s);
	parse_workload(p, cron ? SPAN("CronJob") : SPAN("Job"), name);
}

void parse_owner(struct parse *p, struct span kind, struct span name, struct span template_hash,
		 int64_t created_s)
{
	if (span_is(kind, "Node")) /* owns the mirrors of static pods */
		return;
	if (span_is(kind, "Job"))
		set_job(p, name, created_s);
	else if (span_is(kind, "ReplicaSet") && cut_text(&name, template_hash))
		parse_workload(p, SPAN("Deployment"), name);
	else
		parse_workload(p, kind, name);
}

void parse_guess_owner(struct parse *p, parse_label label, const void *labels, int64_t created_s)
{
	struct span name = { p->r.name, strlen(p->r.name) };
	struct span hash = label(labels, "pod-template-hash");
	struct span job = label(labels, "batch.kubernetes.io/job-name");
	if (!job.s)
		job = label(labels, "job-name");
	bool stateful = label(labels, "statefulset.kubernetes.io/pod-name").s;
	if (hash.s) {
		/* A name that was cut to 58 characters lacks the hash: its owner stays unknown. */
		if (cut_random(&name) && cut_text(&name, hash))
			parse_workload(p, SPAN("Deployment"), name);
	} else if (stateful) {
		if (cut_ordinal(&name))
			parse_workload(p, SPAN("StatefulSet"), name);
	} else if (job.s) {
		set_job(p, job, created_s);
	} else if (label(labels, "controller-revision-hash").s) {
		if (cut_random(&name))
			parse_workload(p, SPAN("DaemonSet"), name);
	}
}

/* Days since 1970 of a day of the Gregorian calendar: years from March have their leap day last. */
static int64_t day_of(int64_t year, int64_t month, int64_t day)
{
	int64_t y = month > 2 ? year : year - 1;
	int64_t m = month > 2 ? month - 3 : month + 9;
	return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

bool parse_time(struct span t, int64_t *ret)
{
	unsigned year, month, day, hour, minute, second;
	char text[32], zone = 0;
	if (!t.s || t.n >= sizeof(text))
		return false;
	memcpy(text, t.s, t.n);
	text[t.n] = 0;
	if (sscanf(text, "%4u-%2u-%2uT%2u:%2u:%2u%c", &year, &month, &day, &hour, &minute, &second,
		   &zone) != 7 ||
	    (zone != 'Z' && zone != '.') || text[t.n - 1] != 'Z' || year < 1970 || month < 1 ||
	    month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60)
		return false;
	*ret = day_of(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second;
	return true;
}
