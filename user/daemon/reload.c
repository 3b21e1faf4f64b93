/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reload.h"

#include "daemon/log.h"
#include "daemon/notify.h"
#include "store/writer.h"
#include "util/own.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int daemon_read_settings(struct daemon *d, struct daemon_settings *s, bool *ret_help,
			 struct err *err)
{
	char **argv = calloc((size_t)d->argc + 1, sizeof(*argv)); /* reading it changes its order */
	if (!argv)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(argv, d->argv, (size_t)d->argc * sizeof(*argv));
	int rc = daemon_settings_read(s, d->argc, argv, ret_help, err);
	free(argv);
	return rc;
}

int daemon_open_writer(struct daemon *d, struct err *err)
{
	int rc = collector_open_store(&d->writer, d->s.o.store, d->s.what, &d->s.store, err);
	if (!rc) /* for the process that serves */
		store_open_to_group(d->writer);
	return rc == -EBUSY
		       ? err_set(err, rc,
				 "%s is being written by another process: is a daemon running?",
				 d->s.o.store)
		       : rc;
}

/* Compare members: bytes between them may differ. */
static bool same_store(const struct store_options *a, const struct store_options *b)
{
	return a->wide_values == b->wide_values && a->wide_sets == b->wide_sets &&
	       a->grace_ns == b->grace_ns && a->symbols_bytes == b->symbols_bytes &&
	       a->symbols_memory == b->symbols_memory && a->max_bytes == b->max_bytes &&
	       a->reserve_bytes == b->reserve_bytes && a->windows_only == b->windows_only &&
	       a->recent_ns == b->recent_ns && a->tracks_ns == b->tracks_ns &&
	       a->tracks_bytes == b->tracks_bytes &&
	       !memcmp(a->keep_ns, b->keep_ns, sizeof(a->keep_ns));
}

static bool same_recording(const struct daemon_settings *a, const struct daemon_settings *b)
{
	return a->n_events == b->n_events &&
	       !memcmp(a->event, b->event, a->n_events * sizeof(a->event[0])) &&
	       a->o.hz == b->o.hz && a->o.waker == b->o.waker &&
	       !strcmp(a->o.latency ? a->o.latency : "", b->o.latency ? b->o.latency : "") &&
	       a->o.jvm_attach == b->o.jvm_attach && a->o.cmdline == b->o.cmdline &&
	       a->o.unwind_max == b->o.unwind_max && target_same(&a->target, &b->target) &&
	       selection_options_same(&a->o.selection, &b->o.selection) &&
	       label_rules_same(&a->o.labels, &b->o.labels);
}

/* Close to its own limit the kernel asks nobody before it kills. */
void daemon_warn_of_limit(uint64_t memory_max)
{
	const uint64_t limit = own_memory_limit();
	if (limit && (!memory_max || memory_max > limit))
		log_line(
			LOG_LINE_WARNING,
			"the cgroup allows %.1f MiB of memory, less than memory-max: the kernel may "
			"kill the daemon; set memory-max to %.0f MiB",
			(double)limit / (1 << 20), (double)(limit / 4 * 3) / (1 << 20));
}

/* Less memory is refused where it is not enough for the recorder that runs. */
static int check_memory(struct daemon *d, const struct daemon_settings *s, struct err *err)
{
	const uint64_t old = d->s.o.memory_max, new = s->o.memory_max;
	const struct saving_limits limits = { .memory = new };
	if (!d->collector || !new || (old && new >= old))
		return 0;
	return saving_check(&d->saving, &limits, d->collector, err);
}

void daemon_reload(struct daemon *d)
{
	struct daemon_settings s = { 0 };
	struct err err = { 0 };
	bool help;
	notify_reloading();
	int rc = daemon_read_settings(d, &s, &help, &err);
	if (!rc && strcmp(s.o.store, d->s.o.store))
		rc = err_set(&err, -EINVAL, "another store needs a restart");
	rc = rc ? rc : check_memory(d, &s, &err);
	if (rc) {
		log_line(LOG_LINE_ERROR, "reload: %s; everything stays as it was", err.text);
		daemon_settings_fini(&s);
		notify("READY=1");
		return;
	}
	bool record = !same_recording(&d->s, &s), store = !same_store(&d->s.store, &s.store);
	struct daemon_settings old = d->s;
	d->s = s;
	d->rule_ticks = 0;
	daemon_renew_rules(d, &old);
	daemon_renew_push(d, &old);
	governor_new_limits(&d->saving.governor);
	if (store) {
		/*
		 * what the store is written by is asked for anew: the recorder ends with it,
		 * between two windows' worth of time
		 */
		daemon_end_collector(d);
		store_writer_close(d->writer);
		d->writer = NULL;
		if (daemon_open_writer(d, &err))
			log_line(LOG_LINE_ERROR, "reload: %s", err.text);
	}
	if ((record || store) && d->writer && !d->killed && daemon_switch_collector(d, &err))
		log_line(LOG_LINE_ERROR, "reload: %s", err.text);
	const struct saving_limits limits = daemon_saving_limits(d);
	if (d->collector)
		saving_apply(&d->saving, &limits, d->collector);
	if (daemon_start_server(d, &err))
		log_line(LOG_LINE_ERROR, "http: %s%s", err.text,
			 err.code == -EACCES ? "; restart the daemon for a socket in a directory "
					       "that had none when it began"
					     : "");
	daemon_settings_fini(&old);
	log_line(LOG_LINE_INFO, "reloaded%s%s", record ? ", recording as it is asked for now" : "",
		 store ? ", the store's limits are new" : "");
	notify("READY=1");
}
