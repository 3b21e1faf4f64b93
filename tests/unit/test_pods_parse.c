/* SPDX-License-Identifier: Apache-2.0 */
/* What sources of pods answer, as records: JSON of the API server, engines, bad documents. */
#include "pods_documents.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

static void api_list(void **state)
{
	struct buf b = document("list.json");
	struct parsed *p = parse(PODS_JSON_LIST, &wanted, "node1", b.data, b.len);
	(void)state;
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->n, 8);
	assert_int_equal(p->page.refused, 0);
	assert_int_equal(p->page.status, 0);
	assert_string_equal(p->page.version, "48890");
	assert_string_equal(p->page.next, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDg4OTB9%3D");
	const struct pod_record *r = p->r;
	assert_pod(&r[0], "shop", "web-7d9c5b8f6c-x2lkq", "Deployment", "web");
	assert_string_equal(r[0].uid, UID);
	assert_string_equal(r[0].cgroup_uid, "");
	assert_false(r[0].merge);
	assert_int_equal(r[0].n_containers, 5);
	assert_container(&r[0], 0, "a3", "migrate");
	assert_container(&r[0], 1, "a1", "web");
	assert_container(&r[0], 2, "a0", "web"); /* before its restart */
	assert_container(&r[0], 3, "a2", "sidecar");
	assert_container(&r[0], 4, "a4", "debugger-7sx2n");
	assert_int_equal(r[0].n_extra, 2);
	assert_int_equal(r[0].extra[0].wanted, 0);
	assert_string_equal(r[0].extra[0].value, "checkout");
	assert_int_equal(r[0].extra[1].wanted, 2);
	assert_string_equal(r[0].extra[1].value, "Zoë, on call");
	assert_pod(&r[1], "shop", "report-29924790-4xzt9", "CronJob", "report");
	assert_pod(&r[2], "shop", "import-20261124-q8w2b", "Job", "import-20261124");
	assert_pod(&r[3], "shop", "db-0", "StatefulSet", "db");
	assert_container(&r[3], 0, "d1", "postgres");
	assert_pod(&r[4], "kube-system", "agent-n5v7d", "DaemonSet", "agent");
	assert_container(&r[4], 0, "e1", "agent");
	assert_pod(&r[5], "kube-system", "etcd-node1", "", "");
	assert_string_equal(r[5].cgroup_uid, "4f6d2c1b0a9e8d7c6b5a49382716f5e4");
	assert_pod(&r[6], "default", "shell", "", "");
	assert_int_equal(r[6].n_containers, 0); /* it was not started */
	assert_pod(&r[7], "shop", "rollout-6f5d-abcde", "ReplicaSet", "rollout-6f5d");
	p = parse(PODS_JSON_LIST, NULL, "", b.data, b.len);
	assert_int_equal(p->n, 9); /* of node2, too */
	assert_int_equal(p->r[0].n_extra, 0);
	buf_fini(&b);
}

static void api_watch(void **state)
{
	struct buf b = document("watch.json");
	struct parsed *p = parse(PODS_JSON_WATCH, NULL, "node1", b.data, b.len);
	(void)state;
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->n, 3);
	assert_pod(&p->r[0], "shop", "db-0", "StatefulSet", "db");
	assert_pod(&p->r[1], "shop", "db-0", "StatefulSet", "db");
	assert_int_equal(p->r[2].what, POD_GONE);
	assert_string_equal(p->r[2].uid, p->r[0].uid);
	assert_string_equal(p->page.version, "49000");
	/* Every line says a version, also one of another node's pod. */
	const char *end = memchr(b.data, '\n', b.len);
	p = parse(PODS_JSON_WATCH, NULL, "node2", b.data, (size_t)(end - (char *)b.data));
	assert_int_equal(p->n, 0);
	assert_string_equal(p->page.version, "48901");
	buf_fini(&b);
}

static void api_status(void **state)
{
	static const char gone[] =
		"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\","
		"\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource version: 1 "
		"(48890)\",\"reason\":\"Expired\",\"code\":410}}\n";
	static const char forbidden[] =
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
		"\"message\":\"pods is forbidden: User \\\"x\\\" cannot list resource\","
		"\"reason\":\"Forbidden\",\"details\":{\"kind\":\"pods\"},\"code\":403}\n";
	(void)state;
	struct parsed *p = parse_text(PODS_JSON_WATCH, gone);
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->page.status, 410);
	assert_string_equal(p->page.message, "too old resource version: 1 (48890)");
	for (enum pods_format f = PODS_JSON_LIST; f <= PODS_JSON_WATCH; f++) {
		p = parse_text(f, forbidden);
		assert_int_equal(p->rc, 0);
		assert_int_equal(p->page.status, 403);
		assert_string_equal(p->page.message,
				    "pods is forbidden: User \"x\" cannot list resource");
	}
	p = parse_text(PODS_JSON_WATCH, "{\"type\":\"ERROR\",\"object\":null}");
	assert_int_equal(p->page.status, 500);
}

/* An owner whose name ends in digits, and when the pod was made. */
static void assert_job(const char *job, const char *created, const char *kind, const char *name)
{
	char *more = NULL;
	assert_true(
		asprintf(&more,
			 ",\"creationTimestamp\":\"%s\",\"ownerReferences\":[{\"kind\":\"Node\","
			 "\"name\":\"x\"},{\"kind\":\"Job\",\"name\":\"%s\","
			 "\"controller\":true}]",
			 created, job) > 0);
	struct parsed *p = parse_pod_json(NULL, pod_json(UID, "n", "p", more, ""));
	assert_int_equal(p->n, 1);
	assert_pod(&p->r[0], "n", "p", kind, name);
	free(more);
}

static void jobs(void **state)
{
	(void)state;
	/* 29924790 min and 1783420200 s are 2026-11-24T02:30:00Z and 2026-07-07T10:30:00Z. */
	assert_job("a-29924790", "2026-11-24T02:30:07Z", "CronJob", "a");
	assert_job("a-29924790", "2026-11-25T02:30:00Z", "CronJob", "a");
	assert_job("a-29924790", "2026-11-25T02:30:01Z", "Job", "a-29924790");
	assert_job("a-29924790", "2026-11-24T02:20:00Z", "CronJob", "a");
	assert_job("a-29924790", "2026-11-24T02:19:59Z", "Job", "a-29924790");
	assert_job("a-1783420200", "2026-07-07T10:30:02Z", "CronJob", "a");
	assert_job("a-1783420200", "2026-11-24T02:30:07Z", "Job", "a-1783420200");
	assert_job("a29924790", "2026-11-24T02:30:07Z", "Job", "a29924790");
	assert_job("a-b-29924790", "2026-11-24T02:30:07.123456789Z", "CronJob", "a-b");
	assert_job("29924790", "2026-11-24T02:30:07Z", "Job", "29924790");
	assert_job("a-29924790", "yesterday", "Job", "a-29924790");
	assert_job("a-29924790", "2026-13-24T02:30:07Z", "Job", "a-29924790");
	assert_job("a-12929924790", "2026-11-24T02:30:07Z", "Job", "a-12929924790");
}

/* Times against the C library, over leap years and ends of centuries. */
static void times(void **state)
{
	(void)state;
	for (int year = 1970; year <= 2400; year += year % 4 == 3 ? 1 : 3) {
		for (int month = 1; month <= 12; month++) {
			struct tm tm = { .tm_year = year - 1900,
					 .tm_mon = month - 1,
					 .tm_mday = 28,
					 .tm_hour = 23 };
			char created[32], job[32], cron[32];
			long long minute = timegm(&tm) / 60;
			if (minute < 10000000 || minute > 99999999)
				continue;
			strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", &tm);
			snprintf(job, sizeof(job), "j-%lld", minute + 10);
			assert_job(job, created, "CronJob", "j");
			snprintf(cron, sizeof(cron), "j-%lld", minute + 11);
			assert_job(cron, created, "Job", cron);
		}
	}
}

static void refused(void **state)
{
	char name[300], *more = NULL;
	(void)state;
	memset(name, 'n', sizeof(name));
	name[253] = 0;
	struct parsed *p = parse_pod_json(NULL, pod_json(UID, "n", name, "", ""));
	assert_int_equal(p->n, 1);
	assert_string_equal(p->r[0].name, name);
	static const struct {
		const char *uid, *namespace, *name;
	} bad[] = {
		{ UID, "n", "nn" }, /* of 254 characters below */
		{ UID, "n", "" },
		{ UID, "", "p" },
		{ "", "n", "p" },
		{ UID, "n", "Upper" },
		{ UID, "n", "a/b" },
		{ UID, "n", "a\\u0000b" },
		{ UID, "n", "a\\n" },
		{ UID, "n", "-a" },
		{ UID, "n", "a-" },
		{ UID, "n", "\xc3\xab" },
		{ UID, "a.b", "p" },
		{ UID, "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", "p" },
		{ "0b5e3a52-6f0e-4c1e-9a7b-2f4d8c1e000x", "n", "p" },
		{ ID, "n", "p" },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		name[253] = 'n';
		name[254] = 0;
		p = parse_pod_json(NULL, pod_json(bad[i].uid, bad[i].namespace,
						  i ? bad[i].name : name, "", ""));
		assert_int_equal(p->rc, 0);
		assert_int_equal(p->n, 0);
		assert_int_equal(p->page.refused, 1);
	}
	/* Parts of a pod that do not fit are left out, and the rest stays. */
	static const char status[] =
		"\"containerStatuses\":[{\"name\":\"a\",\"containerID\":\"containerd://" ID "0\"},"
		"{\"name\":\"b\",\"containerID\":\"containerd://../../x\"},{\"name\":\"c/d\","
		"\"containerID\":\"" ID "\"},{\"name\":\"e\",\"containerID\":\"x://" ID "\"},"
		"{\"containerID\":\"" ID "\"}]";
	assert_true(asprintf(&more,
			     ",\"ownerReferences\":[{\"kind\":\"Kind\",\"name\":\"%s\","
			     "\"controller\":true}]",
			     name) > 0);
	p = parse_pod_json(NULL, pod_json(UID, "n", "p", more, status));
	free(more);
	assert_int_equal(p->n, 1);
	assert_int_equal(p->page.refused, 5);
	assert_pod(&p->r[0], "n", "p", "", "");
	assert_int_equal(p->r[0].n_containers, 1);
	assert_container(&p->r[0], 0, "a1", "e");
}

/* The hash of a static pod counts only where the kubelet set both annotations. */
static void mirrors(void **state)
{
#define HASH "4f6d2c1b0a9e8d7c6b5a49382716f5e4"
#define OTHER "4f6d2c1b0a9e8d7c6b5a49382716f5e5"
	static const struct {
		const char *annotations, *uid;
	} cases[] = {
		{ "\"kubernetes.io/config.hash\":\"" HASH "\"", "" },
		{ "\"kubernetes.io/config.mirror\":\"" HASH "\"", "" },
		{ "\"kubernetes.io/config.hash\":\"" HASH
		  "\",\"kubernetes.io/config.mirror\":\"x\"",
		  "" },
		{ "\"kubernetes.io/config.hash\":\"" HASH
		  "\",\"kubernetes.io/config.mirror\":\"" OTHER "\"",
		  "" },
		{ "\"kubernetes.io/config.hash\":\"x\",\"kubernetes.io/config.mirror\":\"x\"", "" },
		{ "\"kubernetes.io/config.hash\":\"" HASH
		  "\",\"kubernetes.io/config.mirror\":\"" HASH "\"",
		  HASH },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *more = NULL;
		assert_true(asprintf(&more, ",\"annotations\":{%s}", cases[i].annotations) > 0);
		struct parsed *p = parse_pod_json(NULL, pod_json(UID, "n", "p", more, ""));
		assert_int_equal(p->n, 1);
		assert_string_equal(p->r[0].cgroup_uid, cases[i].uid);
		free(more);
	}
	/* The kubelet's own list has the hash as uid. */
	struct parsed *p = parse_pod_json(NULL, pod_json(HASH, "n", "p", "", ""));
	assert_int_equal(p->n, 1);
	assert_string_equal(p->r[0].uid, HASH);
}

static struct parsed *with_annotation(const char *value)
{
	static const struct pods_wanted one = { .n_annotations = 1, .key = { "k" } };
	char *more = NULL;
	assert_true(asprintf(&more, ",\"annotations\":{\"k\":\"first\",\"k\":\"%s\"}", value) > 0);
	struct parsed *p = parse_pod_json(&one, pod_json(UID, "n", "p", more, ""));
	free(more);
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->n, 1);
	return p;
}

static void values(void **state)
{
	char *large = malloc((256 << 10) + 1), text[600];
	(void)state;
	assert_non_null(large);
	memset(large, 'v', 256 << 10);
	large[256 << 10] = 0;
	struct parsed *p = with_annotation(large);
	free(large);
	assert_int_equal(p->r[0].n_extra, 1);
	assert_int_equal(strlen(p->r[0].extra[0].value), POD_VALUE_MAX - 1);
	/* Characters of one to four bytes around the limit are kept whole or left out. */
	static const char *const characters[] = { "v", "\xc3\xab", "\xe2\x82\xac",
						  "\xf0\x9f\x98\x80" };
	for (size_t c = 0; c < 4; c++) {
		for (size_t before = 250; before <= 258; before++) {
			size_t n = strlen(characters[c]);
			memset(text, 'v', before);
			strcpy(text + before, characters[c]);
			p = with_annotation(text);
			text[before + n <= 256 ? before + n : before <= 256 ? before : 256] = 0;
			assert_string_equal(p->r[0].extra[0].value, text);
		}
	}
	p = with_annotation("a\\u001b[31m\\n\\u202eb");
	assert_string_equal(p->r[0].extra[0].value, "a\033[31m\n\u202eb");
	p = with_annotation("");
	assert_int_equal(p->r[0].n_extra, 1);
	p = with_annotation("a\\u0000b");
	assert_int_equal(p->r[0].n_extra, 0);
	assert_int_equal(p->page.refused, 1);
}

static void many_containers(void **state)
{
	struct buf b = BUF_INIT;
	(void)state;
	buf_printf(&b, "\"containerStatuses\":[");
	for (unsigned i = 0; i < 150; i++)
		buf_printf(&b, "%s{\"name\":\"c%u\",\"containerID\":\"containerd://%064x\"}",
			   i ? "," : "", i, i + 1);
	buf_printf(&b, "]");
	buf_add(&b, "", 1);
	struct parsed *p = parse_pod_json(NULL, pod_json(UID, "n", "p", "", (char *)b.data));
	assert_int_equal(p->n, 3);
	for (unsigned i = 0; i < 150; i++) {
		char name[16];
		snprintf(name, sizeof(name), "c%u", i);
		assert_string_equal(p->r[i / 64].container[i % 64].name, name);
		assert_int_equal(p->r[i / 64].merge, i >= 64);
	}
	assert_int_equal(p->r[2].n_containers, 150 - 2 * 64);
	buf_fini(&b);
}

/* Every prefix of a document is no document, and the last line of a watch is missed alone. */
static void truncated(void **state)
{
	static const char *const names[] = { "list.json", "watch.json", "engine.json" };
	static const enum pods_format formats[] = { PODS_JSON_LIST, PODS_JSON_WATCH, PODS_DOCKER };
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct buf b = document(names[i]);
		for (size_t n = 0; n + 1 < b.len; n += i == 1 ? 1 : 61) {
			struct parsed *p = parse(formats[i], NULL, "", b.data, n);
			bool whole = !n || b.data[n - 1] == '\n' || b.data[n] == '\n';
			assert_int_equal(p->rc, i == 1 && whole ? 0 : -EBADMSG);
			size_t lines = 0;
			for (size_t k = 0; k < n; k++)
				lines += b.data[k] == '\n';
			if (i == 1 && !whole)
				assert_int_equal(p->n, lines);
		}
		buf_fini(&b);
	}
}

static void malformed(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"nonsense",
		"[]x",
		"{}",
		"[1,2]x",
		"null",
		"\"text\"",
		"12",
		"\xff\xfe",
		"{\"kind\":\"PodList\",\"items\":{}}",
		"{\"kind\":\"ServiceList\",\"items\":[]}",
		"{\"kind\":\"PodList\",\"items\":[]} {}",
		"{\"kind\":\"PodList\",\"items\":[\xc3\x28]}",
		"{\"type\":\"ADDED\"}",
		"{\"type\":\"ADDED\",\"object\":3}",
		"{\"type\":\"RENAMED\",\"object\":{}}",
		"{\"type\":7,\"object\":{}}",
	};
	static const char *const odd[] = {
		"{\"kind\":\"PodList\",\"items\":null}",
		"{\"kind\":\"PodList\"}",
		"{\"kind\":\"PodList\",\"metadata\":7,\"items\":[]}",
	};
	static const char *const refused_pods[] = {
		"7", "null", "{}", "[]", "{\"metadata\":[]}", "{\"metadata\":{\"uid\":7}}",
	};
	char text[5000];
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (enum pods_format f = 0; f < PODS_FORMATS; f++)
			if (*bad[i] || f == PODS_JSON_LIST || f == PODS_DOCKER)
				assert_int_equal(parse_text(f, bad[i])->rc, -EBADMSG);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		assert_int_equal(parse_text(PODS_JSON_LIST, odd[i])->rc, 0);
	for (size_t i = 0; i < sizeof(refused_pods) / sizeof(refused_pods[0]); i++) {
		struct parsed *p = parse_pod_json(NULL, strdup(refused_pods[i]));
		assert_int_equal(p->rc, 0);
		assert_int_equal(p->n, 0);
		assert_int_equal(p->page.refused, 1);
	}
	memset(text, '[', sizeof(text));
	assert_int_equal(parse(PODS_DOCKER, NULL, "", text, sizeof(text))->rc, -EBADMSG);
	/* A version or a token that does not fit in an address of ours cannot be gone on from. */
	snprintf(text, sizeof(text),
		 "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"%0100d\"}}", 1);
	assert_int_equal(parse_text(PODS_JSON_LIST, text)->rc, -EBADMSG);
	struct parsed *p = parse_text(PODS_JSON_LIST, "{\"kind\":\"PodList\",\"metadata\":{"
						      "\"continue\":\"a&b=c d\\u0000\\u00eb\"}}");
	assert_int_equal(p->rc, 0);
	assert_string_equal(p->page.next, "a%26b%3Dc%20d%00%C3%AB");
}

/* A list is taken apart before its parts are parsed: keys in any order, brackets in texts. */
static void parts_of_lists(void **state)
{
#define POD(uid) "{\"metadata\":{\"uid\":\"" uid "\",\"namespace\":\"n\",\"name\":\"p\"}}"
	static const struct {
		const char *text;
		int rc;
		size_t n;
	} cases[] = {
		{ "{\"items\":[" POD("1") "],\"kind\":\"PodList\"}", 0, 1 },
		{ " {\n\"items\" :\t[ " POD("1") " ,\r\n" POD("2") " ] , \"kind\":\"PodList\"} ", 0,
		  2 },
		{ "{\"kind\":\"PodList\",\"items\":[" POD("1") "],\"items\":[]}", 0, 0 },
		{ "{\"kind\":\"PodList\",\"items\":[],\"items\":[" POD("1") "]}", 0, 1 },
		{ "{\"kind\":\"PodList\",\"a\":{\"items\":[7]},\"items\":[" POD("1") "]}", 0, 1 },
		{ "{\"kind\":\"PodList\",\"a\":\"\\\"items\\\":[{\",\"items\":[" POD("1") "]}", 0,
		  1 },
		{ "{\"kind\":\"PodList\",\"items\":[{\"a\":\"]}\\\\\"}," POD("1") "]}", 0, 1 },
		{ "{\"kind\":\"PodList\",\"items\":[],\"it\\u0065ms\":[" POD("1") "]}", -EBADMSG,
		  0 },
		{ "{\"kind\":\"PodList\",\"items\":[" POD("1") ",]}", -EBADMSG, 1 },
		{ "{\"kind\":\"PodList\",\"items\":[" POD("1") " " POD("2") "]}", -EBADMSG, 0 },
		{ "{\"kind\":\"PodList\",\"items\":[" POD("1") "}}", -EBADMSG, 0 },
		{ "{\"kind\":\"PodList\",\"items\":[," POD("1") "]}", -EBADMSG, 0 },
		{ "{\"kind\":\"PodList\",\"items\":[" POD("1") "]", -EBADMSG, 0 },
		{ "{\"kind\":\"PodList\",\"items\":[" POD("1") "]} x", -EBADMSG, 0 },
		{ "{\"kind\":\"PodList\",\"items\":[" POD("1") "]\"a\":1}", -EBADMSG, 0 },
		{ "{\"items\":[" POD("1") "],\"kind\":\"List\"}", -EBADMSG, 0 },
		{ "{\"items\":[" POD("1") "],\"kind\":\"Status\",\"code\":410}", 0, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct parsed *p = parse_text(PODS_JSON_LIST, cases[i].text);
		assert_int_equal(p->rc, cases[i].rc);
		assert_int_equal(p->n, cases[i].n);
	}
}

/* Pods that jansson cannot take are left out, and those around them are not. */
static void large_pods(void **state)
{
	struct buf deep = BUF_INIT, list = BUF_INIT, lines = BUF_INIT;
	const char *const large[] = { "{\"spec\":99999999999999999999}", "1e999" };
	(void)state;
	for (int i = 0; i < 3000; i++)
		buf_printf(&deep, "{\"a\":");
	buf_printf(&deep, "1");
	for (int i = 0; i < 3000; i++)
		buf_printf(&deep, "}");
	assert_int_equal(buf_add(&deep, "", 1), 0);
	buf_printf(&list, "{\"kind\":\"PodList\",\"items\":[");
	for (int i = 0; i < 3; i++) {
		const char *bad = i < 2 ? large[i] : (char *)deep.data;
		buf_printf(&list, POD("1") ",%s,", bad);
		buf_printf(&lines, "{\"type\":\"ADDED\",\"object\":" POD("1") "}\n");
		buf_printf(&lines, "{\"type\":\"ADDED\",\"object\":%s}\n", bad);
	}
	buf_printf(&list, POD("2") "]}");
	for (enum pods_format f = PODS_JSON_LIST; f <= PODS_JSON_WATCH; f++) {
		const struct buf *b = f == PODS_JSON_LIST ? &list : &lines;
		struct parsed *p = parse(f, NULL, "", b->data, b->len);
		assert_int_equal(p->rc, 0);
		assert_int_equal(p->n, f == PODS_JSON_LIST ? 4 : 3);
		assert_int_equal(p->page.refused, 3);
	}
	buf_fini(&deep);
	buf_fini(&list);
	buf_fini(&lines);
}

static void engine(void **state)
{
	struct buf b = document("engine.json");
	struct parsed *p = parse(PODS_DOCKER, &wanted, "node1", b.data, b.len);
	(void)state;
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->n, 3);
	assert_pod(&p->r[0], "", "", "", "");
	assert_string_equal(p->r[0].uid, "");
	assert_int_equal(p->r[0].n_containers, 1);
	assert_container(&p->r[0], 0, "17", "shop-web-1");
	assert_int_equal(p->r[0].n_extra, 1);
	assert_string_equal(p->r[0].extra[0].value, "checkout");
	assert_pod(&p->r[1], "shop", "web-7d9c5b8f6c-x2lkq", "", "");
	assert_true(p->r[1].merge);
	assert_container(&p->r[1], 0, "19", "web");
	assert_pod(&p->r[2], "shop", "web-7d9c5b8f6c-x2lkq", "Deployment", "web");
	assert_int_equal(p->r[2].n_containers, 0);
	assert_int_equal(p->r[2].n_extra, 1);
	assert_int_equal(parse_text(PODS_DOCKER, "[{\"Id\":\"x\"},{},7]")->page.refused, 3);
	buf_fini(&b);
}

/* ---- size ---- */

static void large_list(void **state)
{
	struct buf b = document("list.json"), list = BUF_INIT;
	const char *first = strstr((char *)b.data, "\"items\": [") + 10;
	const char *end = strstr(first, "\n  },\n") + 4;
	struct timespec from, to;
	struct rusage before, after;
	(void)state;
	assert_int_equal(buf_printf(&list, "{\"kind\":\"PodList\",\"metadata\":{},\"items\":["), 0);
	for (int i = 0; i < 10000; i++) {
		if (i)
			buf_add(&list, ",", 1);
		assert_int_equal(buf_add(&list, first, (size_t)(end - first)), 0);
	}
	assert_int_equal(buf_printf(&list, "]}"), 0);
	getrusage(RUSAGE_SELF, &before);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	struct parsed *p = parse(PODS_JSON_LIST, &wanted, "node1", list.data, list.len);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->n, 10000);
	getrusage(RUSAGE_SELF, &after);
	printf("10,000 pods: %zu bytes of JSON, %.0f ms, %ld KiB more than before with the copy\n",
	       list.len,
	       (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6,
	       after.ru_maxrss - before.ru_maxrss);
	buf_fini(&list);
	buf_fini(&b);
}

static void records(void **state)
{
	static struct pod_record r, zero;
	(void)state;
	for (int what = 0; what <= POD_STATE + 1; what++) {
		r = zero;
		r.what = (uint8_t)what;
		strcpy(r.uid, UID);
		bool known = what >= POD_SEEN && what <= POD_STATE;
		assert_int_equal(pod_record_check(&r, sizeof(r)), known);
		assert_false(pod_record_check(&r, sizeof(r) - 1));
		r.uid[0] = 0;
		bool needs_id = what == POD_SEEN || what == POD_GONE;
		assert_int_equal(pod_record_check(&r, sizeof(r)), known && !needs_id);
	}
	memset(&r, 'x', sizeof(r));
	assert_false(pod_record_check(&r, sizeof(r)));
	r.what = POD_SEEN;
	r.ok = r.merge = true;
	r.n_containers = POD_CONTAINERS_MAX;
	r.n_extra = POD_EXTRA_MAX;
	assert_false(pod_record_check(&r, sizeof(r))); /* indices of extra */
	for (uint32_t i = 0; i < POD_EXTRA_MAX; i++)
		r.extra[i].wanted = i;
	assert_true(pod_record_check(&r, sizeof(r)));
	assert_int_equal(strlen(r.name), POD_NAME_MAX - 1);
	assert_int_equal(strlen(r.text), sizeof(r.text) - 1);
	assert_int_equal(strlen(r.container[POD_CONTAINERS_MAX - 1].name), POD_CONTAINER_MAX - 1);
	assert_int_equal(strlen(r.extra[POD_EXTRA_MAX - 1].value), POD_VALUE_MAX - 1);
	r.n_containers++;
	assert_false(pod_record_check(&r, sizeof(r)));
	r.n_containers = 1;
	r.n_extra = POD_EXTRA_MAX + 1;
	assert_false(pod_record_check(&r, sizeof(r)));
	r.n_extra = 0;
	r.container[0].id[0] = 0;
	assert_false(pod_record_check(&r, sizeof(r)));
	r.container[0].id[0] = 'a';
	memset(&r.merge, 2, 1);
	assert_false(pod_record_check(&r, sizeof(r)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_list),	   cmocka_unit_test(api_watch),
		cmocka_unit_test(api_status),	   cmocka_unit_test(jobs),
		cmocka_unit_test(times),	   cmocka_unit_test(refused),
		cmocka_unit_test(mirrors),	   cmocka_unit_test(values),
		cmocka_unit_test(many_containers), cmocka_unit_test(truncated),
		cmocka_unit_test(malformed),	   cmocka_unit_test(engine),
		cmocka_unit_test(parts_of_lists),  cmocka_unit_test(large_pods),
		cmocka_unit_test(large_list),	   cmocka_unit_test(records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
