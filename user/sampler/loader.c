/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/loader.h"

#include "sampler/lent.h"
#include "sampler/pmu.h"
#include "sampler/sideband.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

/*
 * For the verifier on an emulated machine, which took more than a minute on a busy host. The
 * recorder waits, and drains nothing meanwhile.
 */
#define LOAD_MS 180000u
#define CPUS_MAX 8192u /* CONFIG_NR_CPUS is not larger */

/* ---- in the keeper ---- */

static void add_fd(struct keeper_answer *a, int fd)
{
	a->fds[a->n_fds++] = fd;
}

/* Of what remembers it, rc: its answer. */
static int add_lent(struct keeper_answer *a, int fd, int rc)
{
	if (rc)
		close(fd);
	else
		add_fd(a, fd);
	return rc;
}

/* Events only count, of types that recorders ask for: they copy no registers, stacks or data. */
static bool is_event(const struct event *e)
{
	const struct perf_event_attr *a = &e->attr;
	const bool pmu = a->type == PERF_TYPE_RAW ||
			 (a->type >= PERF_TYPE_MAX && pmu_is_core(PMU_DEVICES, a->type));
	const struct perf_event_attr plain = { .size = sizeof(plain),
					       .type = a->type,
					       .config = a->config,
					       .config1 = pmu ? a->config1 : 0,
					       .config2 = pmu ? a->config2 : 0,
					       .sample_period = a->sample_period,
					       .disabled = a->disabled,
					       .freq = a->freq,
					       .exclude_user = a->exclude_user,
					       .exclude_kernel = a->exclude_kernel,
					       .precise_ip = a->precise_ip };
	const bool known = e->wait || e->probe || pmu || a->type == PERF_TYPE_SOFTWARE ||
			   a->type == PERF_TYPE_HARDWARE || a->type == PERF_TYPE_TRACEPOINT;
	return known && memchr(e->name, 0, sizeof(e->name)) &&
	       (e->wait || !memcmp(a, &plain, sizeof(plain)));
}

static bool is_wanted(const struct programs_wanted *w)
{
	const struct sampler_config *c = &w->cfg;
	bool good = w->n_cpus && w->n_cpus <= CPUS_MAX && w->n_procs &&
		    w->n_procs <= SAMPLER_PROCESSES && !(w->n_procs & (w->n_procs - 1)) &&
		    c->n_events && c->n_events <= MAX_EVENTS && c->hz && c->n_rates <= RATES_MAX &&
		    c->n_cgroups <= CGROUPS_MAX;
	for (unsigned i = 0; good && i < c->n_events; i++)
		good = is_event(&c->event[i]);
	return good;
}

int loader_programs_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct selected_cgroup cgroups[CGROUPS_MAX];
	struct programs_wanted w;
	struct programs p;
	if (q->len >= sizeof(w))
		memcpy(&w, q->bytes, sizeof(w));
	if (q->len < sizeof(w) || !is_wanted(&w) ||
	    q->len != sizeof(w) + w.cfg.n_cgroups * sizeof(cgroups[0]))
		return err_set(err, -EBADMSG, "a recording that cannot be");
	memcpy(cgroups, (const uint8_t *)q->bytes + sizeof(w), q->len - sizeof(w));
	w.cfg.cgroups = cgroups;
	int rc = lent_may_load(err);
	rc = rc ? rc : programs_load(&p, &w, err);
	malloc_trim(0); /* libbpf had all types of the kernel */
	if (rc)
		return rc;
	rc = lent_load(&p, err);
	if (rc) {
		programs_close(&p);
		return rc;
	}
	for (size_t i = 0; i < N_PROGRAM_FDS; i++)
		if (p.fd[i] >= 0)
			add_fd(ret, p.fd[i]);
	memcpy(ret->bytes, &p, sizeof(p));
	ret->len = sizeof(p);
	return 0;
}

struct event_question {
	struct event event;
	unsigned cpu;
};

int loader_event_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct event_question e;
	int fd;
	if (q->len == sizeof(e))
		memcpy(&e, q->bytes, sizeof(e));
	if (q->len != sizeof(e) || e.cpu >= CPUS_MAX || e.event.wait || e.event.probe ||
	    !is_event(&e.event))
		return err_set(err, -EBADMSG, "an event that cannot be");
	int rc = event_open_jittered(&e.event, (int)e.cpu, &fd, err);
	return rc ? rc : add_lent(ret, fd, lent_event(fd, err));
}

struct probe_question {
	struct probe_place at;
	bool is_return;
};

int loader_probe_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct probe_question p;
	int fd;
	if (q->len != sizeof(p) || q->n_fds != 1)
		return err_set(err, -EBADMSG, "a probe that cannot be");
	memcpy(&p, q->bytes, sizeof(p));
	int rc = probe_open(q->fds[0], &p.at, p.is_return, &fd, err);
	return rc ? rc : add_lent(ret, fd, lent_event(fd, err));
}

struct sideband_question {
	unsigned cpu;
	size_t ring_bytes;
};

int loader_sideband_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct sideband_question s;
	int fd;
	if (q->len == sizeof(s))
		memcpy(&s, q->bytes, sizeof(s));
	if (q->len != sizeof(s) || s.cpu >= CPUS_MAX)
		return err_set(err, -EBADMSG, "a side-band that cannot be");
	int rc = sideband_event(s.cpu, s.ring_bytes, &fd, err);
	return rc ? rc : add_lent(ret, fd, lent_event(fd, err));
}

int loader_rows_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	(void)q;
	int rc = lent_may_add_rows(err);
	if (rc)
		return rc;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_rows", sizeof(uint32_t), SHARD_BYTES, 1,
				&opts);
	return fd < 0 ? err_sys(err, fd, "a table of unwind rows")
		      : add_lent(ret, fd, lent_rows(fd, err));
}

int loader_count_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	(void)q;
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (fd < 0)
		return err_sys(err, fd, "counting the run times of BPF programs");
	add_fd(ret, fd);
	return 0;
}

/* ---- in the recorder ---- */

int loader_programs(struct programs *ret, const struct programs_wanted *wanted, struct err *err)
{
	struct {
		struct programs_wanted w;
		struct selected_cgroup cgroups[CGROUPS_MAX];
	} bytes = { .w = *wanted };
	const size_t more = wanted->cfg.n_cgroups * sizeof(bytes.cgroups[0]);
	struct keeper_question q = { .bytes = &bytes, .len = sizeof(bytes.w) + more };
	struct keeper_answer a;
	if (wanted->cfg.n_cgroups > CGROUPS_MAX)
		return err_set(err, -E2BIG, "more than %u cgroups", CGROUPS_MAX);
	if (more)
		memcpy(bytes.cgroups, wanted->cfg.cgroups, more);
	int rc = keeper_ask(loader_programs_op, &q, LOAD_MS, &a, err);
	if (rc)
		return rc;
	memcpy(ret, a.bytes, sizeof(*ret));
	for (size_t i = 0, n = 0; i < N_PROGRAM_FDS; i++)
		if (ret->fd[i] >= 0)
			ret->fd[i] = a.fds[n++];
	return 0;
}

_Static_assert(sizeof(struct programs_wanted) + CGROUPS_MAX * sizeof(struct selected_cgroup) <=
			       KEEPER_QUESTION_MAX &&
		       sizeof(struct programs) <= KEEPER_ANSWER_MAX && N_PROGRAM_FDS <= PASSED_MAX,
	       "they fit into messages of the keeper");

static int ask(keeper_op *op, const struct keeper_question *q, int *ret_fd, struct err *err)
{
	struct keeper_answer a;
	int rc = keeper_ask(op, q, KEEPER_WAIT_MS, &a, err);
	if (!rc)
		*ret_fd = a.fds[0];
	return rc;
}

static int ask_for_fd(keeper_op *op, const void *bytes, size_t len, int *ret_fd, struct err *err)
{
	const struct keeper_question q = { .bytes = bytes, .len = len };
	return ask(op, &q, ret_fd, err);
}

int loader_event(const struct event *e, unsigned cpu, int *ret_fd, struct err *err)
{
	const struct event_question q = { *e, cpu };
	return ask_for_fd(loader_event_op, &q, sizeof(q), ret_fd, err);
}

int loader_probe(int file, const struct probe_place *at, bool is_return, int *ret_fd,
		 struct err *err)
{
	const struct probe_question p = { *at, is_return };
	const struct keeper_question q = { &p, sizeof(p), &file, 1 };
	return ask(loader_probe_op, &q, ret_fd, err);
}

int loader_sideband(unsigned cpu, size_t ring_bytes, int *ret_fd, struct err *err)
{
	const struct sideband_question q = { cpu, ring_bytes };
	return ask_for_fd(loader_sideband_op, &q, sizeof(q), ret_fd, err);
}

int loader_rows(int *ret_fd)
{
	return ask_for_fd(loader_rows_op, NULL, 0, ret_fd, NULL);
}

int loader_count(int *ret_fd)
{
	return ask_for_fd(loader_count_op, NULL, 0, ret_fd, NULL);
}
