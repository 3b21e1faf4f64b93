/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/settings_http.h"

#include "daemon/shares.h"
#include "opt/debuginfod.h"
#include "opt/files.h"
#include "store/writer.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MINUTE 60000000000ll

#define AT(member) offsetof(struct daemon_options, member)

static const struct opt options[] = {
	{ "config", 'c', OPT_STRING, "FILE",
	  "YAML: `name: value` with the long names of these options; the command line has the last "
	  "word",
	  AT(config), 0, 0 },
	{ "check-config", 0, OPT_FLAG, NULL, "check options and file, say what is wrong, and end",
	  AT(check_config), 0, 0 },
	{ "print-token", 0, OPT_FLAG, NULL,
	  "print the token that requests over TCP need, and end; it must be there already",
	  AT(print_token), 0, 0 },
	{ "store", 's', OPT_STRING, "DIR", "the store to write (default " DAEMON_STORE ")",
	  AT(store), 0, 0 },
	{ "frequency", 'F', OPT_UINT, "HZ", "samples per second and CPU (default 19)", AT(hz), 1,
	  1000 },
	{ "event", 'e', OPT_LIST, "EVENT,..",
	  "as in record (default: cycles where there is a PMU, else cpu-clock)", AT(events), 0, 0 },
	{ "wall", 0, OPT_FLAG, NULL, "all time, as in record: also the events off-cpu and runq",
	  AT(wall), 0, 0 },
	{ "cgroup", 'G', OPT_LIST, "CGROUP,..",
	  "only what runs in these v2 cgroups or below them, as in record; read at the start and "
	  "at a reload: a cgroup that is made anew is another one",
	  AT(target.cgroups), 0, 0 },
	{ "exclude-cgroup", 0, OPT_LIST, "CGROUP,..", "all but what runs in these, likewise",
	  AT(target.excluded), 0, 0 },
	{ "select", 0, OPT_TEXTS, "SELECTOR",
	  "only what runs in cgroups that match, by the labels that follow from a cgroup: "
	  "'{namespace=~\"shop|pay\"}', '{unit=\"cron.service\"}'; given several times, one must "
	  "match",
	  AT(selection.select), 0, 0 },
	{ "exclude", 0, OPT_TEXTS, "SELECTOR", "and none of these, likewise", AT(selection.exclude),
	  0, 0 },
	{ "annotated", 0, OPT_STRING, "HOW",
	  "what the annotation ascribe.io/profile of a pod, or profiles.grafana.com/"
	  "cpu.ebpf.enabled, says: out (false: the pod is left out), in (true: of pods only these, "
	  "and those of select), ignore (default)",
	  AT(selection.annotated), 0, 0 },
	{ "rate", 0, OPT_TEXTS, "HZ{SELECTOR}",
	  "another frequency for what matches, as in 99{namespace=\"shop\"}; the first of several "
	  "counts",
	  AT(selection.rates), 0, 0 },
	{ "jvm-attach", 0, OPT_FLAG, NULL, "ask JVMs for the names of their code, as in record",
	  AT(jvm_attach), 0, 0 },
	{ "waker", 0, OPT_FLAG, NULL, "with these: who ended the wait, as in record", AT(waker), 0,
	  0 },
	{ "latency", 0, OPT_STRING, "KEY",
	  "likewise: weigh time by the values of this label, as in record", AT(latency), 0, 0 },
	{ "tracks", 0, OPT_UINT, "MINUTES",
	  "keep the instant and the CPU of each sample for so many minutes, with wall also of "
	  "each wait from 1 ms on: for heat maps and frozen stores (default 10; 0: never)",
	  AT(tracks_min), 0, 1440 },
	{ "tracks-max", 0, OPT_SIZE, "SIZE",
	  "bytes of tracks in the store; the oldest are removed first (default 16MiB)",
	  AT(tracks_max), 0, 0 },
	{ "freeze-keep", 0, OPT_UINT, "N",
	  "keep so many frozen stores (STORE/frozen), made by SIGUSR2, POST /api/v1/freeze and "
	  "freeze-when; refuse one more (default 8; 0: freeze nothing)",
	  AT(freeze_keep), 0, 1000 },
	{ "freeze-max", 0, OPT_SIZE, "SIZE",
	  "bytes of all frozen stores; refuse one more beyond (default 1GiB)", AT(freeze_max), 0,
	  0 },
	{ "freeze-when", 0, OPT_TEXTS, "RULE",
	  "freeze by itself when this holds: 'cpu some > 40%' (pressure of cpu, io or memory over "
	  "10 s; some or full), 'p99(runq) > 50ms' or 'p99(off{tenant=\"a\"}) > 50ms' (waits that "
	  "ended in the last window; runq or off, with wall); at most 8",
	  AT(freeze_when), 0, 0 },
	{ "freeze-every", 0, OPT_DURATION, "TIME",
	  "the least time between two freezes by freeze-when (default 10m)", AT(freeze_every_ns), 0,
	  0 },
	{ "cmdline", 0, OPT_FLAG, NULL,
	  "label samples with the command line (120 bytes). Off by default: it may hold secrets, "
	  "and whoever reads the store sees them",
	  AT(cmdline), 0, 0 },
	{ "label-keep", 0, OPT_LIST, "KEY,..",
	  "of the labels that programs attach, and that come with profiles by others, keep only "
	  "these; prefix* as in record",
	  AT(labels.keep), 0, 0 },
	{ "label-drop", 0, OPT_LIST, "KEY,..", "leave these labels out", AT(labels.drop), 0, 0 },
	{ "label-redact", 0, OPT_LIST, "KEY,..",
	  "record of their values only a hash whose key ends with the daemon", AT(labels.redact), 0,
	  0 },
	{ "label-credentials", 0, OPT_FLAG, NULL,
	  "record values as they are that look like credentials: keys of clouds, JWTs, private "
	  "keys, password=... (default: a hash of them, as by label-redact)",
	  AT(labels.credentials), 0, 0 },
	{ "debuginfod", 0, OPT_LIST, "URL,..",
	  "ask these servers for debug files, as in record; read when the daemon begins",
	  AT(debuginfod), 0, 0 },
	{ "debuginfod-cache", 0, OPT_STRING, "DIR",
	  "where such files are kept (default /var/cache/ascribe/debuginfod)", AT(debuginfod_cache),
	  0, 0 },
	{ "recipes", 0, OPT_STRING, "PATH",
	  "more label paths, as in record; read when the daemon begins", AT(recipes), 0, 0 },
	{ "no-recipes", 0, OPT_FLAG, NULL, "no built-in label paths", AT(no_recipes), 0, 0 },
	{ "stand-by", 0, OPT_FLAG, NULL,
	  "while another process writes the store, wait and answer questions, then record at once "
	  "(default: fail)",
	  AT(stand_by), 0, 0 },
	{ "container-names", 0, OPT_STRING, "SOURCE",
	  "who names pods and containers: kubernetes (the API server), kubelet, cri (the runtime's "
	  "socket), engine (docker's or podman's), none, auto. Default: auto, in a pod kubernetes, "
	  "else the first socket that answers",
	  AT(pods.names), 0, 0 },
	{ "node", 0, OPT_STRING, "NAME", "the name of this Kubernetes node (default: $NODE_NAME)",
	  AT(pods.node), 0, 0 },
	{ "kubernetes-api", 0, OPT_STRING, "URL",
	  "the API server (default: that of the pod we run in)", AT(pods.api), 0, 0 },
	{ "kubernetes-credentials", 0, OPT_STRING, "DIR",
	  "directory with token and ca.crt (default: the service account of the pod)",
	  AT(pods.credentials), 0, 0 },
	{ "kubelet", 0, OPT_STRING, "URL",
	  "for container-names kubelet (default https://127.0.0.1:10250)", AT(pods.kubelet), 0, 0 },
	{ "container-socket", 0, OPT_STRING, "PATH",
	  "for container-names cri and engine (default: the usual places)", AT(pods.socket), 0, 0 },
	{ "pod-labels", 0, OPT_LIST, "KEY,..",
	  "labels of pods that become labels of samples, as pod_label_KEY; at most 16 with "
	  "pod-annotations",
	  AT(pods.labels), 0, 0 },
	{ "pod-annotations", 0, OPT_LIST, "KEY,..", "annotations likewise, as pod_annotation_KEY",
	  AT(pods.annotations), 0, 0 },
	{ "listen", 'l', OPT_LIST, "ADDRESS,..",
	  "unix:/path, 127.0.0.1:PORT, [::1]:PORT, none (default 127.0.0.1:4041)", AT(listen), 0,
	  0 },
	{ "token-file", 0, OPT_STRING, "FILE",
	  "every request needs the token in this file (default: TCP addresses need that of "
	  "http.token in the store, written when it is missing)",
	  AT(token_file), 0, 0 },
	{ "capture-token-file", 0, OPT_STRING, "FILE",
	  "requests with the token in this file may read, and have captures made: recordings at up "
	  "to 999 Hz for up to 60s (docs/http.md; default: nobody may)",
	  AT(capture_token_file), 0, 0 },
	{ "tokens-file", 0, OPT_STRING, "FILE",
	  "more tokens, each with a name and what it allows: lines of NAME TOKEN SCOPES, where "
	  "scopes are read, read {tenant=\"a\"}, ingest, capture, admin (docs/http.md)",
	  AT(tokens_file), 0, 0 },
	{ "host", 0, OPT_LIST, "NAME,..",
	  "names that a Host header may have besides localhost, where no token is asked for",
	  AT(hosts), 0, 0 },
	{ "tls-cert", 0, OPT_STRING, "FILE", "serve TLS with this certificate (PEM)", AT(tls_cert),
	  0, 0 },
	{ "tls-key", 0, OPT_STRING, "FILE", "and its key", AT(tls_key), 0, 0 },
	{ "tls-client-ca", 0, OPT_STRING, "FILE",
	  "certificates of authorities (PEM): a client with a certificate of theirs is who a line "
	  "NAME certificate SCOPES of tokens-file names",
	  AT(tls_client_ca), 0, 0 },
	{ "anonymous", 0, OPT_FLAG, NULL, "no token: every user who can connect may read the store",
	  AT(anonymous), 0, 0 },
	{ "plain-http", 0, OPT_FLAG, NULL, "let the token cross the network without TLS", AT(plain),
	  0, 0 },
	{ "socket-mode", 0, OPT_STRING, "MODE", "of Unix sockets, octal (default 0660)",
	  AT(socket_mode), 0, 0 },
	{ "postgres", 0, OPT_STRING, "CONNINFO",
	  "PostgreSQL to ask for the SQL behind query ids, from pg_stat_statements: a connection "
	  "string of libpq, such as \"host=/run/postgresql user=monitor dbname=postgres\"; "
	  "read when the daemon begins",
	  AT(postgres), 0, 0 },
	{ "push", 0, OPT_SECTIONS, "URL",
	  "send the windows to this receiver of profiles, by otlp; in the file a list of mappings, "
	  "with url and the options of ascribe push (docs/fleet.md)",
	  AT(push), 0, 0 },
	{ "metrics", 0, OPT_SECTIONS, "METRIC",
	  "count cpu, off-cpu or runq seconds for Prometheus, by service, at /metrics/profiles; in "
	  "the file a list of mappings with metric, name, by, where and top (docs/http.md)",
	  AT(metrics), 0, 0 },
	{ "workers", 0, OPT_UINT, "N", "questions answered at a time (default 2)", AT(workers), 1,
	  16 },
	{ "connections", 0, OPT_UINT, "N", "connections at a time and address (default 128)",
	  AT(connections), 1, 10000 },
	{ "quota-cpu", 0, OPT_UINT, "S",
	  "seconds of CPU time a minute that the answers to one token, or one user of a Unix "
	  "socket, may take (default 60; 0: no limit)",
	  AT(quota_cpu_s), 0, 100000 },
	{ "quota-bytes", 0, OPT_SIZE, "SIZE",
	  "bytes of bodies and answers a minute, likewise (default 1GiB; 0: no limit)",
	  AT(quota_bytes), 0, 0 },
	{ "quota-memory", 0, OPT_SIZE, "SIZE",
	  "bytes of answers that wait to be taken, likewise (default 128MiB; 0: no limit)",
	  AT(quota_memory), 0, 0 },
	{ "audit-max", 0, OPT_SIZE, "SIZE",
	  "bytes of audit.log and audit.log.1 in the store, which have a line for each request: "
	  "who asked what (default 16MiB, at most 128MiB; 0: none)",
	  AT(audit_max), 0, 0 },
	{ "cpu-max", 0, OPT_STRING, "PERCENT",
	  "of all CPUs of the host, over a minute, with BPF programs and children, without "
	  "what answers questions. Beyond it are given up, in this order: inlined calls and lines, "
	  "names of files with few samples, stacks of waits, three quarters of the samples, waits "
	  "(default 1%; 0: no limit)",
	  AT(cpu_max), 0, 0 },
	{ "memory-max", 0, OPT_SIZE, "SIZE",
	  "all memory: our own, of children, of BPF maps. Close to it are given up: caches, stacks "
	  "of waits, small rows, which become (other) (default 256MiB, or three quarters of what "
	  "the cgroup allows if that is less; 0: no limit)",
	  AT(memory_max), 0, 0 },
	{ "unwind-max", 0, OPT_SIZE, "SIZE",
	  "of it, unwind rules (default: a sixth, at most 64MiB)", AT(unwind_max), 0, 0 },
	{ "store-max", 0, OPT_SIZE, "SIZE",
	  "bytes of the store (default: a tenth of the file system, at most 10GiB)", AT(max_bytes),
	  0, 0 },
	{ "store-reserve", 0, OPT_SIZE, "SIZE",
	  "kept free on the file system (default: 1%, at most 64MiB)", AT(reserve_bytes), 0, 0 },
	{ "keep", 0, OPT_LIST, "LEVEL=TIME,..",
	  "cut blocks of a level at this age: 10s=2d,1m=30d (default: as the quota allows); time "
	  "in which the host is off does not count",
	  AT(keep), 0, 0 },
	{ "wide-values", 0, OPT_UINT, "N",
	  "a key with more values in an hour is wide (default 256)", AT(wide_values), 1, 100000 },
	{ "capture", 0, OPT_DURATION, "TIME", NULL, AT(capture_ns), 0, 0 },
	{ DAEMON_KEEPER, 0, OPT_FLAG, NULL, NULL, AT(keeper), 0, 0 },
	{ "claim-cpus", 0, OPT_UINT, "N", NULL, AT(claim_cpus), 1, 8192 },
	{ "kill-switch", 0, OPT_STRING, "FILE", "while this file is there nothing is sampled",
	  AT(kill_switch), 0, 0 },
};

const struct opt_command daemon_command = {
	.name = "daemon",
	.usage = "[OPTIONS]",
	.about = "Profile the whole host continuously into a store that is kept within its quota, "
		 "and serve the page and the HTTP API of docs/http.md. SIGHUP reads the file "
		 "again, SIGTERM writes what there is and ends.",
	.examples = "  ascribe daemon --store /var/lib/ascribe\n"
		    "  ascribe daemon --config /etc/ascribe/ascribe.yaml --check-config\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 0,
};

static int parse_keep(struct daemon_settings *s, struct err *err)
{
	for (size_t i = 0; i < s->o.keep.n; i++) {
		const char *text = s->o.keep.v[i], *eq = strchr(text, '=');
		bool found = false;
		for (uint8_t level = 0; eq && level < STORE_N_LEVELS; level++) {
			const char *name = store_level_name(level);
			if (strlen(name) != (size_t)(eq - text) || memcmp(name, text, strlen(name)))
				continue;
			found = !opt_duration(eq + 1, &s->store.keep_ns[level]);
		}
		if (!found)
			return err_set(
				err, -EINVAL,
				"'%s' is not LEVEL=TIME; levels are 10s 1m 5m 20m 1h 4h 1d 1w 4w",
				text);
	}
	int64_t below = 0;
	for (uint8_t level = 0; level < STORE_N_LEVELS; level++) {
		int64_t keep = s->store.keep_ns[level];
		if (keep && keep < below)
			return err_set(err, -EINVAL,
				       "%s is kept for less time than the level below",
				       store_level_name(level));
		below = keep ? keep : below;
	}
	return 0;
}

static int parse_cpu(struct daemon_settings *s, struct err *err)
{
	const char *text = s->o.cpu_max;
	char *end;
	double v = strtod(text, &end);
	if (end == text || (*end && strcmp(end, "%")) || !(v >= 0) || v > 100)
		return err_set(err, -EINVAL, "'%s' is no percentage of all CPUs; try 0.5%%", text);
	s->cpu_max = v / 100;
	return 0;
}

unsigned daemon_settings_hz(const struct daemon_settings *s)
{
	unsigned hz = 0;
	for (unsigned i = 0; i < s->selection.n_rates; i++)
		hz = hz > s->selection.rates[i] ? hz : s->selection.rates[i];
	return hz;
}

static int parse_events(struct daemon_settings *s, struct err *err)
{
	static const struct opt_list none = { 0 };
	const struct opt_list *l = s->o.capture_ns ? &none : &s->o.events;
	const char *whom = s->selection.in.n || s->selection.annotated == ANNOTATED_IN
				   ? "selected cgroups"
			   : selection_rules_select(&s->selection) ? "all but excluded cgroups"
								   : target_text(&s->target);
	size_t at = (size_t)snprintf(s->what, sizeof(s->what), "%s", whom);
	bool waits = s->o.wall;
	int rc = events_parse(s->event, &s->n_events, l->v, l->n, daemon_settings_hz(s), err);
	for (unsigned i = 0; !rc && i < s->n_events; i++)
		waits |= s->event[i].wait;
	if (!rc && waits)
		rc = events_add_waits(s->event, &s->n_events, MAX_EVENTS, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < s->n_events; i++) {
		if (at < sizeof(s->what))
			at += (size_t)snprintf(s->what + at, sizeof(s->what) - at, ", %s",
					       s->event[i].name);
	}
	if (at < sizeof(s->what))
		at += (size_t)snprintf(s->what + at, sizeof(s->what) - at, " at %u Hz",
				       (unsigned)s->o.hz);
	for (size_t i = 0; i < s->selection.rate.n && at < sizeof(s->what); i++) {
		const struct selection_rule *r = &s->selection.rate.v[i];
		at += (size_t)snprintf(s->what + at, sizeof(s->what) - at, ", %u Hz for %s",
				       s->selection.rates[r->rate], r->text);
	}
	utf8_mark_cut(s->what, sizeof(s->what), at);
	return 0;
}

static bool has_waits(const struct daemon_settings *s)
{
	bool waits = false;
	for (unsigned i = 0; i < s->n_events; i++)
		waits |= s->event[i].wait;
	return waits;
}

static int check_waits(const struct daemon_settings *s, struct err *err)
{
	return has_waits(s) ? 0 : err_set(err, -EINVAL, "goes with wall, or the event " EVENT_OFF);
}

static int check_waker(struct daemon_settings *s, struct err *err)
{
	return s->o.waker ? check_waits(s, err) : 0;
}

static int check_latency(struct daemon_settings *s, struct err *err)
{
	static struct sampler_config cfg;
	if (!s->o.latency)
		return 0;
	cfg.n_events = s->n_events;
	memcpy(cfg.event, s->event, sizeof(s->event[0]) * s->n_events);
	int rc = check_waits(s, err);
	return rc ? rc : sampler_set_latency(&cfg, s->o.latency, err);
}

static int parse_labels(struct daemon_settings *s, struct err *err)
{
	int rc = label_rules_filter(&s->o.labels, &s->filter, err);
	return rc == -E2BIG ? err_set(err, -EINVAL, "%s", err->text) : rc;
}

static int parse_debuginfod(struct daemon_settings *s, struct err *err)
{
	return s->o.debuginfod.n ? debuginfod_check(&s->o.debuginfod, err) : 0;
}

/* A capture has the daemon's selection and rules, and nothing that speaks to others or adapts. */
static void make_capture(struct daemon_options *o)
{
	if (!o->capture_ns)
		return;
	o->wall = o->waker = o->stand_by = false;
	o->latency = o->postgres = NULL;
	o->cpu_max = "0";
}

static int check_store(struct daemon_settings *s, struct err *err)
{
	return s->o.store[0] == '/' || !s->o.config
		       ? 0
		       : err_set(err, -EINVAL, "'%s' does not begin with /", s->o.store);
}

static int check_switch(struct daemon_settings *s, struct err *err)
{
	const char *file = s->o.kill_switch;
	return !file || file[0] == '/' ? 0
				       : err_set(err, -EINVAL, "'%s' does not begin with /", file);
}

static int parse_quota(struct daemon_settings *s, struct err *err)
{
	const struct daemon_options *o = &s->o;
	store_options_default(&s->store);
	s->store.max_bytes = o->max_bytes;
	s->store.tracks_ns = o->capture_ns ? 0 : (int64_t)o->tracks_min * MINUTE;
	s->store.tracks_bytes = o->tracks_max;
	s->store.reserve_bytes = o->reserve_bytes;
	s->store.wide_values = o->wide_values ? (uint32_t)o->wide_values : s->store.wide_values;
	struct shares share;
	shares_of(o->memory_max, 0, &share);
	s->store.symbols_memory = share.dictionaries;
	return o->max_bytes && o->max_bytes < 16u << 20 ? err_set(err, -EINVAL, "at least 16MiB")
							: 0;
}

static int parse_pods(struct daemon_settings *s, struct err *err)
{
	return pod_options_config(&s->o.pods, &s->pods, err);
}

static int parse_selection(struct daemon_settings *s, struct err *err)
{
	return selection_options_rules(&s->o.selection, (unsigned)s->o.hz, &s->pods.wanted,
				       &s->selection, &s->blamed, err);
}

static int parse_push(struct daemon_settings *s, struct err *err)
{
	const struct opt_list *l = &s->o.push;
	struct err why = { 0 };
	if (l->n > DAEMON_PUSH_MAX)
		return err_set(err, -EINVAL, "more than %d receivers", DAEMON_PUSH_MAX);
	s->push = l->n ? calloc(l->n, sizeof(*s->push)) : NULL;
	if (l->n && !s->push)
		return err_sys(err, -ENOMEM, "push");
	for (size_t i = 0; i < l->n && !s->o.capture_ns; i++) {
		int rc = push_section_parse(&s->push[s->n_push++], l->v[i], &why);
		if (rc)
			return err_set(err, rc, "receiver %zu: %.400s", i + 1, why.text);
	}
	return 0;
}

static int parse_rules(struct daemon_settings *s, struct err *err)
{
	const struct opt_list *l = &s->o.metrics;
	struct metric_rule v[RULES_MAX];
	struct metric_rules *r = NULL;
	struct err why = { 0 };
	if (l->n > RULES_MAX)
		return err_set(err, -EINVAL, "more than %d rules", RULES_MAX);
	s->rules = l->n ? calloc(l->n, sizeof(*s->rules)) : NULL;
	if (l->n && !s->rules)
		return err_sys(err, -ENOMEM, "metrics");
	for (size_t i = 0; i < l->n && !s->o.capture_ns; i++) {
		int rc = rule_section_parse(&s->rules[s->n_rules++], l->v[i], &why);
		if (rc)
			return err_set(err, rc, "rule %zu: %.400s", i + 1, why.text);
		v[i] = s->rules[i].r;
	}
	/* Together, too, they must make sense. */
	int rc = s->n_rules ? metric_rules_new(&r, v, s->n_rules, 0, err) : 0;
	metric_rules_free(r);
	return rc;
}

static int parse_freezes(struct daemon_settings *s, struct err *err)
{
	const struct opt_list *l = &s->o.freeze_when;
	const bool waits = has_waits(s);
	if (l->n > FREEZE_RULES_MAX)
		return err_set(err, -EINVAL, "more than %d rules", FREEZE_RULES_MAX);
	for (size_t i = 0; i < l->n && !s->o.capture_ns; i++) {
		int rc = freeze_rule_parse(&s->freeze[s->n_freeze++], l->v[i], waits, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int parse_cgroups(struct daemon_settings *s, struct err *err)
{
	return target_choose(&s->target, &s->o.target, err);
}

/* What a value means that could be read; a complaint is about the key. */
static const struct {
	const char *key;
	int (*f)(struct daemon_settings *s, struct err *err);
} meanings[] = {
	/* Before event, which says what is recorded */
	{ "cgroup", parse_cgroups },
	{ "container-names", parse_pods },
	{ "select", parse_selection }, /* its labels are those of pods */
	{ "store", check_store },
	{ "kill-switch", check_switch },
	{ "store-max", parse_quota },
	{ "keep", parse_keep },
	{ "cpu-max", parse_cpu },
	{ "event", parse_events },
	{ "waker", check_waker },
	{ "latency", check_latency },
	{ "debuginfod", parse_debuginfod },
	{ "socket-mode", settings_parse_mode },
	{ "token-file", settings_read_token },
	{ "capture-token-file", settings_read_capture_token },
	{ "tokens-file", settings_read_tokens },
	{ "tls-cert", settings_read_cert },
	{ "tls-key", settings_read_key },
	{ "tls-client-ca", settings_read_client_ca },
	{ "audit-max", settings_check_audit },
	{ "listen", settings_parse_listen },
	{ "freeze-when", parse_freezes },
	{ "push", parse_push },
	{ "metrics", parse_rules },
};

/* The list that has the rule which is complained of. */
static const char *blamed_rules(const struct daemon_settings *s, const char *why)
{
	static const char *const key[] = { "label-keep", "label-drop", "label-redact" };
	const struct opt_list *lists[] = { &s->o.labels.keep, &s->o.labels.drop,
					   &s->o.labels.redact };
	for (size_t i = 3; i--;)
		for (size_t k = 0; k < lists[i]->n; k++)
			if (strstr(why, lists[i]->v[k]))
				return key[i];
	return lists[0]->n ? key[0] : lists[1]->n ? key[1] : key[2];
}

void daemon_settings_blame(const struct daemon_settings *s, const char *key, struct err *err)
{
	config_blame(&s->config, &daemon_command, key, err);
}

static int make_sense(struct daemon_settings *s, struct err *err)
{
	make_capture(&s->o);
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		int rc = meanings[i].f(s, err);
		if (rc) {
			const char *key = s->blamed && meanings[i].f == parse_selection
						  ? s->blamed
						  : meanings[i].key;
			daemon_settings_blame(s, key, err);
			return rc == -ENOMEM ? rc : -EINVAL;
		}
	}
	int rc = parse_labels(s, err);
	if (rc)
		daemon_settings_blame(s, blamed_rules(s, err->text), err);
	return rc;
}

int daemon_settings_read(struct daemon_settings *s, int argc, char **argv, bool *ret_help,
			 struct err *err)
{
	struct opt_args args;
	*s = (struct daemon_settings){ .o = { .store = DAEMON_STORE,
					      .hz = 19,
					      .cpu_max = "1%",
					      .memory_max = shares_default(),
					      .quota_cpu_s = 60,
					      .quota_bytes = 1u << 30,
					      .quota_memory = 128u << 20,
					      .audit_max = 16u << 20,
					      .tracks_min = 10,
					      .tracks_max = 16u << 20,
					      .freeze_keep = 8,
					      .freeze_max = 1u << 30,
					      .freeze_every_ns = 10 * MINUTE },
				       .token = -1,
				       .capture_token = -1,
				       .tokens = -1,
				       .cert = -1,
				       .key = -1,
				       .client_ca = -1 };
	int rc = opt_parse(&daemon_command, argc, argv, &s->o, &args, err);
	*ret_help = rc == OPT_HELP;
	if (rc)
		return rc;
	if (s->o.config)
		rc = config_read(&s->config, s->o.config, &daemon_command, args.given, &s->o, err);
	return rc ? rc : make_sense(s, err);
}

void daemon_settings_fini(struct daemon_settings *s)
{
	opt_release(&daemon_command, &s->o);
	config_fini(&s->config);
	filter_free(s->filter);
	target_fini(&s->target);
	selection_options_release(&s->selection);
	for (size_t i = 0; i < s->n_push; i++)
		push_section_fini(&s->push[i]);
	free(s->push);
	for (size_t i = 0; i < s->n_rules; i++)
		rule_section_fini(&s->rules[i]);
	free(s->rules);
	settings_close_secrets(s);
}
