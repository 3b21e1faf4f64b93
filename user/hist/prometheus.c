/* SPDX-License-Identifier: Apache-2.0 */
#include "hist/prometheus.h"

#include "util/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define DECIMALS_MAX 18

typedef unsigned __int128 u128;

void hist_rebucket(const struct hist_snapshot *s, const uint64_t *bounds, size_t n,
		   uint64_t *ret_upto)
{
	uint64_t upto = 0, count;
	size_t at = 0;
	for (uint32_t i = 0; hist_snapshot_next(s, &i, &count); i++) {
		uint64_t low = hist_bucket_low(s->bits, i), high = hist_bucket_high(s->bits, i);
		while (at < n && bounds[at] < low + (high - low) / 2)
			ret_upto[at++] = upto;
		upto += count;
	}
	while (at < n)
		ret_upto[at++] = upto;
}

void hist_bucket_counts(const struct hist_snapshot *s, const uint64_t *bounds, size_t n,
			uint64_t *ret)
{
	hist_rebucket(s, bounds, n, ret);
	ret[n] = s->total;
	for (size_t i = n; i; i--)
		ret[i] -= ret[i - 1];
}

/* ---- text ---- */

static int put_digits(struct buf *out, u128 v, unsigned min)
{
	char digits[40];
	unsigned n = 0;
	for (; v || n < min; v /= 10)
		digits[sizeof(digits) - ++n] = (char)('0' + (int)(v % 10));
	return buf_add(out, digits + sizeof(digits) - n, n);
}

/* v / 10^decimals, exactly. */
static int put_decimal(struct buf *out, u128 v, unsigned decimals)
{
	u128 ten = 1;
	for (unsigned i = 0; i < decimals; i++)
		ten *= 10;
	u128 part = v % ten;
	int rc = put_digits(out, v / ten, 1);
	if (rc || !part)
		return rc;
	while (part % 10 == 0) {
		part /= 10;
		decimals--;
	}
	rc = buf_add_u8(out, '.');
	return rc ? rc : put_digits(out, part, decimals);
}

static int put(struct buf *out, const char *text)
{
	return buf_add(out, text, strlen(text));
}

/*
 * Bytes that are no UTF-8 become U+FFFD, control characters spaces; a quote is escaped only where
 * there are quotes around.
 */
static int put_escaped(struct buf *out, const char *text, bool quoted)
{
	size_t len = strlen(text);
	int rc = 0;
	if (len > HIST_LABEL_BYTES_MAX)
		len = HIST_LABEL_BYTES_MAX;
	for (const char *p = text, *end = text + len; p < end && !rc;) {
		size_t n = utf8_char(p, (size_t)(end - p));
		if (!n)
			rc = put(out, "\xef\xbf\xbd");
		else if (*p == '\\')
			rc = put(out, "\\\\");
		else if (*p == '\n')
			rc = put(out, "\\n");
		else if (*p == '"' && quoted)
			rc = put(out, "\\\"");
		else
			rc = (unsigned char)*p < ' ' || *p == 0x7f ? buf_add_u8(out, ' ')
								   : buf_add(out, p, n);
		p += n ? n : 1;
	}
	return rc;
}

static bool is_name(const char *name, bool colon)
{
	for (const char *p = name; *p; p++) {
		bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
			      (colon && *p == ':');
		if (!letter && (p == name || *p < '0' || *p > '9'))
			return false;
	}
	return *name;
}

static int check(const struct hist_family *f, const struct hist_label *labels, size_t n,
		 struct err *err)
{
	if (!is_name(f->name, true))
		return err_set(err, -EINVAL, "\"%s\" is not a name of a metric", f->name);
	if (f->decimals > DECIMALS_MAX)
		return err_set(err, -EINVAL, "%s: %u decimals; %d at most", f->name, f->decimals,
			       DECIMALS_MAX);
	for (size_t i = 1; i < f->n_bounds; i++)
		if (f->bounds[i] <= f->bounds[i - 1])
			return err_set(err, -EINVAL, "%s: bounds that do not ascend", f->name);
	for (size_t i = 0; i < n; i++)
		if (!is_name(labels[i].name, false) ||
		    !strcmp(labels[i].name, f->n_quantiles ? "quantile" : "le"))
			return err_set(err, -EINVAL, "%s: \"%s\" is not a name of a label", f->name,
				       labels[i].name);
	return 0;
}

int hist_prometheus_head(const struct hist_family *f, struct buf *out, struct err *err)
{
	int rc = check(f, NULL, 0, err);
	if (rc)
		return rc;
	rc = buf_printf(out, "# HELP %s ", f->name);
	if (!rc)
		rc = put_escaped(out, f->help, false);
	if (!rc)
		rc = buf_printf(out, "\n# TYPE %s %s\n", f->name,
				f->n_quantiles ? "summary" : "histogram");
	return rc;
}

/* name="value",... */
static int put_labels(struct buf *out, const struct hist_label *labels, size_t n)
{
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		rc = buf_printf(out, "%s%s=\"", i ? "," : "", labels[i].name);
		if (!rc)
			rc = put_escaped(out, labels[i].value, true);
		if (!rc)
			rc = buf_add_u8(out, '"');
	}
	return rc;
}

static int put_bucket(const struct hist_family *f, const struct buf *labels, const uint64_t *bound,
		      uint64_t upto, struct buf *out)
{
	int rc = buf_printf(out, "%s_bucket{", f->name);
	if (!rc)
		rc = buf_add(out, labels->data, labels->len);
	if (!rc)
		rc = put(out, labels->len ? ",le=\"" : "le=\"");
	if (!rc)
		rc = bound ? put_decimal(out, *bound, f->decimals) : put(out, "+Inf");
	return rc ? rc : buf_printf(out, "\"} %" PRIu64 "\n", upto);
}

static int put_total(const struct hist_family *f, const char *what, const struct buf *labels,
		     u128 v, unsigned decimals, struct buf *out)
{
	int rc = buf_printf(out, "%s%s%s", f->name, what, labels->len ? "{" : "");
	if (!rc)
		rc = buf_add(out, labels->data, labels->len);
	if (!rc)
		rc = put(out, labels->len ? "} " : " ");
	if (!rc)
		rc = put_decimal(out, v, decimals);
	return rc ? rc : buf_add_u8(out, '\n');
}

static int put_totals(const struct hist_family *f, const struct hist_snapshot *s,
		      const struct buf *labels, struct buf *out)
{
	const struct hist_sum sum = hist_snapshot_sum(s);
	int rc = put_total(f, "_sum", labels, sum.low + (sum.high - sum.low) / 2, f->decimals, out);
	return rc ? rc : put_total(f, "_count", labels, s->total, 0, out);
}

static int put_buckets(const struct hist_family *f, const struct hist_snapshot *s,
		       const struct buf *labels, const uint64_t *upto, struct buf *out)
{
	int rc = 0;
	for (size_t i = 0; i < f->n_bounds && !rc; i++)
		rc = put_bucket(f, labels, &f->bounds[i], upto[i], out);
	rc = rc ? rc : put_bucket(f, labels, NULL, s->total, out);
	return rc ? rc : put_totals(f, s, labels, out);
}

static int put_quantile(const struct hist_family *f, const struct hist_snapshot *s,
			const struct buf *labels, double quantile, struct buf *out)
{
	int rc = buf_printf(out, "%s{", f->name);
	rc = rc ? rc : buf_add(out, labels->data, labels->len);
	rc = rc ? rc : buf_printf(out, "%squantile=\"%g\"} ", labels->len ? "," : "", quantile);
	if (!rc && s->total)
		rc = put_decimal(out, hist_snapshot_quantile(s, quantile).value, f->decimals);
	else if (!rc)
		rc = put(out, "NaN");
	return rc ? rc : buf_add_u8(out, '\n');
}

int hist_prometheus(const struct hist_family *f, const struct hist_snapshot *s,
		    const struct hist_label *labels, size_t n_labels, struct buf *out,
		    struct err *err)
{
	struct buf text = BUF_INIT, upto = BUF_INIT;
	int rc = check(f, labels, n_labels, err);
	if (rc)
		return rc;
	rc = put_labels(&text, labels, n_labels);
	if (!rc)
		rc = buf_reserve(&upto, (f->n_bounds + 1) * sizeof(uint64_t));
	if (!rc) {
		hist_rebucket(s, f->bounds, f->n_bounds, (uint64_t *)(void *)upto.data);
		rc = put_buckets(f, s, &text, (uint64_t *)(void *)upto.data, out);
	}
	buf_fini(&text);
	buf_fini(&upto);
	return rc ? err_set(err, rc, "no memory for the text of %s", f->name) : 0;
}

int hist_prometheus_summary(const struct hist_family *f, const struct hist_snapshot *all,
			    const struct hist_snapshot *recent, const struct hist_label *labels,
			    size_t n_labels, struct buf *out, struct err *err)
{
	struct buf text = BUF_INIT;
	int rc = check(f, labels, n_labels, err);
	if (rc)
		return rc;
	rc = put_labels(&text, labels, n_labels);
	for (size_t i = 0; !rc && i < f->n_quantiles; i++)
		rc = put_quantile(f, recent, &text, f->quantiles[i], out);
	rc = rc ? rc : put_totals(f, all, &text, out);
	buf_fini(&text);
	return rc ? err_set(err, rc, "no memory for the text of %s", f->name) : 0;
}
