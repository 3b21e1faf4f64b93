/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(struct daemon_options, member)

static const struct opt options[] = {
	{ "config", 'c', OPT_STRING, "FILE", "YAML: `name: value` with the long names of these options; the command line\nhas the last word", AT(config), 0, 0 },
	{ "check-config", 0, OPT_FLAG, NULL, "check options and file, say what is wrong, and end", AT(check_config), 0, 0 },
	{ "store", 's', OPT_STRING, "DIR", "the store to write (default " DAEMON_STORE ")", AT(store), 0, 0 },
	{ "frequency", 'F', OPT_UINT, "HZ", "samples per second and CPU (default 19)", AT(hz), 1, 1000 },
	{ "event", 'e', OPT_LIST, "EVENT,..", "as in record (default: cycles where there is a PMU, else cpu-clock)", AT(events), 0, 0 },
	{ "waker", 0, OPT_FLAG, NULL, "with the event off-cpu: who ended the wait, as in record", AT(waker), 0, 0 },
	{ "recipes", 0, OPT_STRING, "PATH", "more label paths, as in record; read when the daemon begins", AT(recipes), 0, 0 },
	{ "no-recipes", 0, OPT_FLAG, NULL, "no built-in label paths", AT(no_recipes), 0, 0 },
	{ "listen", 'l', OPT_LIST, "ADDRESS,..", "unix:/path, 127.0.0.1:PORT, [::1]:PORT, none\n(default 127.0.0.1:4041)", AT(listen), 0, 0 },
	{ "token-file", 0, OPT_STRING, "FILE", "ask every request for the token in this file", AT(token_file), 0, 0 },
	{ "host", 0, OPT_LIST, "NAME,..", "names that a Host header may have, besides localhost", AT(hosts), 0, 0 },
	{ "tls-cert", 0, OPT_STRING, "FILE", "serve TLS with this certificate (PEM)", AT(tls_cert), 0, 0 },
	{ "tls-key", 0, OPT_STRING, "FILE", "and its key", AT(tls_key), 0, 0 },
	{ "anonymous", 0, OPT_FLAG, NULL, "other addresses than loopback without a token", AT(anonymous), 0, 0 },
	{ "socket-mode", 0, OPT_STRING, "MODE", "of Unix sockets, octal (default 0660)", AT(socket_mode), 0, 0 },
	{ "workers", 0, OPT_UINT, "N", "questions answered at a time (default 2)", AT(workers), 1, 16 },
	{ "connections", 0, OPT_UINT, "N", "connections at a time and address (default 128)", AT(connections), 1, 10000 },
	{ "cpu-max", 0, OPT_STRING, "PERCENT", "of one CPU, over a minute: beyond it the rate is halved and each sample\nstands for two, and so on (default 2%; 0: no limit)",
	  AT(cpu_max), 0, 0 },
	{ "memory-max", 0, OPT_SIZE, "SIZE", "resident memory and BPF maps: beyond it what is kept to be quick is given\nup, then recording begins anew (default 256MiB; 0: no limit)",
	  AT(memory_max), 0, 0 },
	{ "unwind-max", 0, OPT_SIZE, "SIZE", "of it, unwind rules (default 64MiB)", AT(unwind_max), 0, 0 },
	{ "store-max", 0, OPT_SIZE, "SIZE", "bytes of the store (default: a tenth of the file system, at most 10GiB)", AT(max_bytes), 0, 0 },
	{ "store-reserve", 0, OPT_SIZE, "SIZE", "kept free on the file system (default: 1%, at most 64MiB)", AT(reserve_bytes), 0, 0 },
	{ "keep", 0, OPT_LIST, "LEVEL=TIME,..", "blocks of a level are cut at this age: 10s=2d,1m=30d (default: as the quota\nallows)", AT(keep), 0, 0 },
	{ "wide-values", 0, OPT_UINT, "N", "a key with more values in an hour is wide (default 256)", AT(wide_values), 1, 100000 },
	{ "generation", 0, OPT_DURATION, "TIME", "symbols are given up after so long (default 13w)", AT(generation_ns), 0, 0 },
	{ "kill-switch", 0, OPT_STRING, "FILE", "while this file is there nothing is sampled", AT(kill_switch), 0, 0 },
};

const struct opt_command daemon_command = {
	.name = "daemon",
	.usage = "[OPTIONS]",
	.about = "Profile the whole host continuously into a store that is kept within its quota, and serve the page and the\n"
		 "HTTP API of docs/http.md. SIGHUP reads the file again, SIGTERM writes what there is and ends.\n",
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
			return err_set(err, -EINVAL, "keep: '%s' is not LEVEL=TIME; levels are 10s 1m 5m 20m 1h 4h 1d 1w 4w", text);
	}
	int64_t below = 0;
	for (uint8_t level = 0; level < STORE_N_LEVELS; level++) {
		int64_t keep = s->store.keep_ns[level];
		if (keep && keep < below)
			return err_set(err, -EINVAL, "keep: %s is kept for less time than the level below", store_level_name(level));
		below = keep ? keep : below;
	}
	return 0;
}

static int parse_cpu(struct daemon_settings *s, struct err *err)
{
	const char *text = s->o.cpu_max;
	char *end;
	double v = strtod(text, &end);
	if (end == text || (*end && strcmp(end, "%")) || !(v >= 0) || v > 10000)
		return err_set(err, -EINVAL, "cpu-max: '%s' is no percentage of one CPU; try 0.5%%", text);
	s->cpu_max = v / 100;
	return 0;
}

static int parse_events(struct daemon_settings *s, struct err *err)
{
	const struct opt_list *l = &s->o.events;
	if (l->n > MAX_EVENTS)
		return err_set(err, -EINVAL, "event: %zu events are more than the %d at a time", l->n, MAX_EVENTS);
	s->n_events = l->n ? (unsigned)l->n : 1;
	size_t at = (size_t)snprintf(s->what, sizeof(s->what), "all processes");
	bool waits = false;
	int rc = 0;
	for (unsigned i = 0; !rc && i < s->n_events; i++) {
		rc = event_parse(&s->event[i], l->n ? l->v[i] : event_default(), (unsigned)s->o.hz, err);
		waits |= !rc && s->event[i].wait;
	}
	if (!rc && waits)
		rc = events_add_waits(s->event, &s->n_events, MAX_EVENTS, err);
	if (!rc && s->o.waker && !waits)
		rc = err_set(err, -EINVAL, "waker: goes with the event " EVENT_OFF);
	if (rc)
		return rc;
	for (unsigned i = 0; i < s->n_events; i++) {
		if (at < sizeof(s->what))
			at += (size_t)snprintf(s->what + at, sizeof(s->what) - at, ", %s", s->event[i].name);
	}
	if (at < sizeof(s->what))
		snprintf(s->what + at, sizeof(s->what) - at, " at %u Hz", (unsigned)s->o.hz);
	return 0;
}

static int parse_http(struct daemon_settings *s, struct err *err)
{
	static const char *const by_default[] = { "127.0.0.1:4041" };
	const struct daemon_options *o = &s->o;
	struct http_config *h = &s->http;
	char *end = NULL;
	int rc = 0;
	*h = (struct http_config){ .store = o->store, .listen = by_default, .n_listen = 1, .anonymous = o->anonymous,
				   .hosts = (const char *const *)o->hosts.v, .n_hosts = o->hosts.n, .workers = (unsigned)o->workers,
				   .connections = (unsigned)o->connections };
	if (o->listen.n) {
		h->listen = (const char *const *)o->listen.v;
		h->n_listen = o->listen.n;
	}
	if (o->listen.n == 1 && !strcmp(o->listen.v[0], "none"))
		h->n_listen = 0;
	if (o->socket_mode) {
		unsigned long mode = strtoul(o->socket_mode, &end, 8);
		if (end == o->socket_mode || *end || mode > 0777 || !mode)
			return err_set(err, -EINVAL, "socket-mode: '%s' is no mode; try 0660", o->socket_mode);
		h->socket_mode = (unsigned)mode;
	}
	rc = o->token_file ? cmd_read_token(o->token_file, &s->token, err) : 0;
	rc = rc || !o->tls_cert ? rc : cmd_read_text(o->tls_cert, 1 << 20, &s->cert, err);
	rc = rc || !o->tls_key ? rc : cmd_read_text(o->tls_key, 1 << 20, &s->key, err);
	h->token = s->token;
	h->tls_cert = s->cert;
	h->tls_key = s->key;
	return rc || !h->n_listen ? rc : http_check(h, err);
}

static int make_sense(struct daemon_settings *s, struct err *err)
{
	const struct daemon_options *o = &s->o;
	store_options_default(&s->store);
	s->store.max_bytes = o->max_bytes;
	s->store.reserve_bytes = o->reserve_bytes;
	s->store.wide_values = o->wide_values ? (uint32_t)o->wide_values : s->store.wide_values;
	s->store.generation_ns = o->generation_ns ? o->generation_ns : s->store.generation_ns;
	if (o->store[0] != '/' && o->config)
		return err_set(err, -EINVAL, "store: '%s' does not begin with /", o->store);
	if (o->kill_switch && o->kill_switch[0] != '/')
		return err_set(err, -EINVAL, "kill-switch: '%s' does not begin with /", o->kill_switch);
	if (o->max_bytes && o->max_bytes < 16u << 20)
		return err_set(err, -EINVAL, "store-max: at least 16MiB");
	if (o->memory_max && o->memory_max < 32u << 20)
		return err_set(err, -EINVAL, "memory-max: at least 32MiB");
	int rc = parse_keep(s, err);
	rc = rc ? rc : parse_cpu(s, err);
	rc = rc ? rc : parse_events(s, err);
	return rc ? rc : parse_http(s, err);
}

int daemon_settings_read(struct daemon_settings *s, int argc, char **argv, bool *ret_help, struct err *err)
{
	struct opt_args args;
	*s = (struct daemon_settings){ .o = { .store = DAEMON_STORE, .hz = 19, .cpu_max = "2%", .memory_max = 256u << 20 } };
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
	free(s->token);
	free(s->cert);
	free(s->key);
	*s = (struct daemon_settings){ 0 };
}
