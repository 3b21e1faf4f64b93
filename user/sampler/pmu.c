/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/pmu.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES 64
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

struct pmu {
	const char *devices, *text; /* the event's whole text, for errors */
	char name[NAME_MAX_BYTES];
	struct perf_event_attr *attr;
	struct err *err;
};

/* The first line of a file of the PMU, without its end. 0 or -errno. */
static int read_line(const char *devices, const char *pmu, const char *dir, const char *name,
		     char *line, int cap)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s/%s%s", devices, pmu, dir, name);
	FILE *f = fopen(path, "re");
	int rc = f ? 0 : -errno;
	if (f && !fgets(line, cap, f))
		rc = -ENODATA;
	if (f)
		fclose(f);
	if (!rc)
		line[strcspn(line, "\n")] = 0;
	return rc;
}

static int read_type(const char *devices, const char *pmu, uint32_t *ret)
{
	char line[32], *end;
	int rc = read_line(devices, pmu, "", "type", line, sizeof(line));
	unsigned long v = rc ? 0 : strtoul(line, &end, 10);
	if (rc || !*line || *end || v > UINT32_MAX)
		return rc ? rc : -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

/* x86 calls it cpu; where there are several, each has the list of its CPUs. */
static bool is_core(const char *devices, const char *pmu)
{
	char line[16];
	return !strcmp(pmu, "cpu") || !read_line(devices, pmu, "", "cpus", line, sizeof(line));
}

bool pmu_is_core(const char *devices, uint32_t type)
{
	DIR *d = opendir(devices);
	const struct dirent *e;
	bool found = false;
	while (d && !found && (e = readdir(d))) {
		uint32_t have;
		found = *e->d_name != '.' && strlen(e->d_name) < NAME_MAX_BYTES &&
			!read_type(devices, e->d_name, &have) && have == type &&
			is_core(devices, e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

/* ---- fields ---- */

static int bad(const struct pmu *p, const char *name, const char *what)
{
	return err_set(p->err, -EINVAL, "event '%.200s': %s %s; see %s/%s", p->text, name, what,
		       p->devices, p->name);
}

static __u64 *config_named(struct perf_event_attr *a, const char *name)
{
	return !strcmp(name, "config")	  ? &a->config
	       : !strcmp(name, "config1") ? &a->config1
	       : !strcmp(name, "config2") ? &a->config2
					  : NULL;
}

/* Put the low bits of a value where a format says: "config:0-7,32-35". */
static int put_bits(const struct pmu *p, const char *name, char *format, uint64_t value)
{
	char *bits = strchr(format, ':');
	if (!bits)
		return bad(p, name, "has a format that is not known");
	*bits++ = 0;
	__u64 *to = config_named(p->attr, format);
	while (to && *bits) {
		unsigned first, last;
		int len = 0;
		if (sscanf(bits, "%2u%n", &first, &len) != 1)
			break;
		bits += len;
		last = first;
		if (*bits == '-' && sscanf(bits, "-%2u%n", &last, &len) == 1)
			bits += len;
		if (last > 63 || first > last || (*bits && *bits++ != ','))
			break;
		const unsigned n = last - first + 1;
		*to |= (n < 64 ? value & ((1ull << n) - 1) : value) << first;
		value = n < 64 ? value >> n : 0;
		if (!*bits)
			return value ? bad(p, name, "is too large") : 0;
	}
	return bad(p, name, "has a format that is not known");
}

static int set_field(const struct pmu *p, const char *name, const char *number)
{
	char format[256], *end;
	errno = 0;
	uint64_t value = number ? strtoull(number, &end, 0) : 1;
	if (number && (*number < '0' || *number > '9' || *end || errno))
		return bad(p, name, "is no number");
	__u64 *whole = config_named(p->attr, name);
	if (whole) {
		*whole = value;
		return 0;
	}
	if (read_line(p->devices, p->name, "format/", name, format, sizeof(format)))
		return bad(p, name,
			   number ? "is no field of this PMU"
				  : "is neither an event nor a field of this PMU");
	return put_bits(p, name, format, value);
}

/* "event=0x3c,umask=0,any"; a name without a number may be that of such a text (but within one). */
static int set_terms(const struct pmu *p, char *terms, bool within)
{
	char *save = NULL, alias[256];
	int rc = 0;
	for (char *t = strtok_r(terms, ",", &save); !rc && t; t = strtok_r(NULL, ",", &save)) {
		char *number = strchr(t, '=');
		if (number)
			*number++ = 0;
		if (!*t || *t == '.' || t[strspn(t, NAME_CHARS)] || strlen(t) >= NAME_MAX_BYTES)
			rc = bad(p, t, "is no name");
		else if (!number && !within &&
			 !read_line(p->devices, p->name, "events/", t, alias, sizeof(alias)))
			rc = set_terms(p, alias, true);
		else
			rc = set_field(p, t, number);
	}
	return rc;
}

int pmu_parse(struct perf_event_attr *ret, const char *devices, const char *text, struct err *err)
{
	struct perf_event_attr attr = *ret;
	struct pmu p = { .devices = devices, .text = text, .attr = &attr, .err = err };
	const size_t len = strspn(text, NAME_CHARS);
	char terms[256];
	const char *end = text[len] == '/' ? strchr(text + len + 1, '/') : NULL;
	if (!len || len >= sizeof(p.name) || *text == '.' || !end || end[1] ||
	    end == text + len + 1 || (size_t)(end - text) >= sizeof(terms))
		return err_set(
			err, -EINVAL,
			"event '%.200s': that of a PMU is PMU/event/ or PMU/field=value,.../",
			text);
	memcpy(p.name, text, len);
	snprintf(terms, sizeof(terms), "%s", text + len + 1);
	terms[end - text - 1 - (long)len] = 0;
	if (read_type(devices, p.name, &attr.type))
		return err_set(err, -EINVAL,
			       "event '%.200s': there is no PMU %s in %s, and virtual machines "
			       "often have none: use -e cpu-clock",
			       text, p.name, devices);
	if (!is_core(devices, p.name))
		return err_set(err, -EINVAL,
			       "event '%.200s': %s is not the PMU of a CPU, whose events alone can "
			       "be sampled",
			       text, p.name);
	int rc = set_terms(&p, terms, false);
	if (!rc)
		*ret = attr;
	return rc;
}
