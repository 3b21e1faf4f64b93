/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms as text, bytes and Prometheus' format: there and back, and hostile input. */
#include "unit/hist_model.h"

#include "hist/prometheus.h"
#include "util/crc32c.h"

#include <inttypes.h>

static struct values m;
static struct err err;

static void snapshot_of(struct hist_snapshot *s, unsigned bits, unsigned shape, size_t n)
{
	model_fill(&m, shape, n);
	struct hist *h = model_hist(bits, &m);
	model_snapshot(s, h);
	hist_free(h);
}

/* ---- there and back ---- */

static void test_round_trip(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= HIST_BITS_MAX; bits++) {
		for (unsigned shape = 0; shape < MODEL_SHAPES; shape++) {
			struct hist_snapshot s, text, binary;
			struct buf t = BUF_INIT, b = BUF_INIT;
			snapshot_of(&s, bits, shape, shape * bits * 3);
			assert_int_equal(hist_dump_text(&s, &t), 0);
			assert_int_equal(hist_dump_binary(&s, &b), 0);
			assert_int_equal(hist_load_text((char *)t.data, t.len, &text, &err), 0);
			assert_int_equal(hist_load_binary(b.data, b.len, &binary, &err), 0);
			assert_int_equal(text.bits, bits);
			assert_int_equal(binary.bits, bits);
			model_check(&text, m.n ? &m : NULL);
			model_check(&binary, m.n ? &m : NULL);
			hist_snapshot_fini(&s);
			hist_snapshot_fini(&text);
			hist_snapshot_fini(&binary);
			buf_fini(&t);
			buf_fini(&b);
		}
	}
}

/* The bytes that dump.h describes, written down by hand. */
static void test_format(void **state)
{
	(void)state;
	static const char text[] = "histogram bits 6 buckets 2 total 305\n0 0 5\n640 647 300\n";
	/* 640 = 80 << 3: index 3 * 64 + 80 = 272, in LEB128 0x90 0x02; 300: 0xac 0x02 */
	uint8_t bytes[] = { 'H', 'I', 'S', 'T', 1, 6, 2, 0, 5, 0x90, 0x02, 0xac, 0x02, 0, 0, 0, 0 };
	uint32_t crc = crc32c(bytes, sizeof(bytes) - 4);
	struct hist_snapshot s;
	struct buf b = BUF_INIT;
	for (unsigned i = 0; i < 4; i++)
		bytes[sizeof(bytes) - 4 + i] = (uint8_t)(crc >> 8 * i);
	assert_int_equal(hist_load_text(text, strlen(text), &s, &err), 0);
	assert_int_equal(hist_dump_binary(&s, &b), 0);
	assert_int_equal(b.len, sizeof(bytes));
	assert_memory_equal(b.data, bytes, sizeof(bytes));
	hist_snapshot_fini(&s);
	b.len = 0;
	assert_int_equal(hist_load_binary(bytes, sizeof(bytes), &s, &err), 0);
	assert_int_equal(hist_dump_text(&s, &b), 0);
	assert_int_equal(b.len, strlen(text));
	assert_memory_equal(b.data, text, b.len);
	hist_snapshot_fini(&s);
	buf_fini(&b);
}

/* ---- hostile ---- */

/* Refused with a reason, and nothing has been touched. */
static void refuse_text(const char *text, int code)
{
	struct hist_snapshot s, untouched;
	memset(&s, 0x5a, sizeof(s));
	untouched = s;
	err = (struct err){ 0 };
	size_t len = strlen(text);
	char *exact = malloc(len); /* the sanitizer sees a byte too many */
	memcpy(exact, text, len);
	int rc = hist_load_text(exact, len, &s, &err);
	if (rc != code)
		fail_msg("%d instead of %d for: %s", rc, code, text);
	assert_true(err.text[0]);
	assert_memory_equal(&s, &untouched, sizeof(s));
	free(exact);
}

static void test_bad_text(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"x",
		"histogram bits 6 buckets 0 total 0",
		"histogram bits 13 buckets 0 total 0\n",
		"histogram bits -1 buckets 0 total 0\n",
		"histogram bits 99999999999999999999 buckets 0 total 0\n",
		"histogram bits 6 buckets 3777 total 0\n",
		"histogram bits 6 buckets 18446744073709551615 total 0\n",
		"histogram bits 6 buckets 0 total 1\n",
		"histogram bits 6 buckets 1 total 5\n",
		"histogram bits 6 buckets 1 total 5\n0 0 4\n",
		"histogram bits 6 buckets 1 total 5\n0 0 5",
		"histogram bits 6 buckets 1 total 5\n0 1 5\n",
		"histogram bits 6 buckets 1 total 5\n00 0 5\n",
		"histogram bits 6 buckets 1 total 5\n0 0 +5\n",
		"histogram bits 6 buckets 1 total 5\n 0 0 5\n",
		"histogram bits 6 buckets 1 total 5\n0  0 5\n",
		"histogram bits 6 buckets 1 total 5\n0 0 5\n\n",
		"histogram bits 6 buckets 1 total 0\n0 0 0\n",
		"histogram bits 6 buckets 1 total 5\n641 648 5\n",
		"histogram bits 6 buckets 2 total 10\n640 647 5\n0 0 5\n",
		"histogram bits 6 buckets 2 total 10\n0 0 5\n0 0 5\n",
		"histogram bits 6 buckets 2 total 4\n0 0 18446744073709551615\n1 1 5\n",
		"histogram bits 6 buckets 1 total 5\n0 0 18446744073709551621\n",
		"histogram bits 6 buckets 1 total 5\n18446744073709551616 0 5\n",
		"Histogram bits 6 buckets 0 total 0\n",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse_text(bad[i], -EBADMSG);
	refuse_text("histogram bits 6 buckets 0 total 0\n0 0 5\n", -E2BIG);
	refuse_text("", -EBADMSG);
}

static void seal(uint8_t *p, size_t len)
{
	uint32_t crc = crc32c(p, len - 4);
	for (unsigned i = 0; i < 4; i++)
		p[len - 4 + i] = (uint8_t)(crc >> 8 * i);
}

static int try_binary(const uint8_t *p, size_t len)
{
	struct hist_snapshot s;
	uint8_t *exact = malloc(len ? len : 1);
	memcpy(exact, p, len);
	err = (struct err){ 0 };
	int rc = hist_load_binary(exact, len, &s, &err);
	free(exact);
	assert_true(rc <= 0 && !rc == !err.text[0]);
	if (!rc) {
		/* whatever was accepted is consistent */
		uint64_t n, total = 0;
		for (uint32_t i = 0; hist_snapshot_next(&s, &i, &n); i++)
			total += n;
		assert_int_equal(total, s.total);
		assert_true(s.n <= HIST_BUCKETS(s.bits));
		hist_snapshot_fini(&s);
	}
	return rc;
}

static int try_sealed(const char *body, size_t len)
{
	uint8_t p[256];
	memcpy(p, body, len);
	seal(p, len + 4);
	return try_binary(p, len + 4);
}
#define TRY(body) try_sealed(body, sizeof(body) - 1)

static void test_bad_binary(void **state)
{
	(void)state;
	assert_int_equal(TRY("HIST\1\6\0"), 0);
	assert_int_equal(TRY("HIST\1\6\1\0\1"), 0);
	assert_int_equal(TRY("HISt\1\6\0"), -EBADMSG);
	assert_int_equal(TRY("HIST\2\6\0"), -EPROTONOSUPPORT);
	assert_int_equal(TRY("HIST\1\15\0"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\377\0"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\6\1"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\6\1\0"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\6\1\0\0"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\6\0\0"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\6\2\0\1\0\1"), -EBADMSG);	/* the same index twice */
	assert_int_equal(TRY("HIST\1\6\1\277\35\1"), 0);	/* 3775 is the last */
	assert_int_equal(TRY("HIST\1\6\1\300\35\1"), -EBADMSG); /* 3776 */
	/* Index wraps to 0 */
	assert_int_equal(TRY("HIST\1\6\2\1\1\377\377\377\377\377\377\377\377\377\1\1"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\6\2\1\1\377\377\377\377\17\1"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\6\377\377\377\377\17\0\1"), -EBADMSG);
	/* Count of 65 bits */
	assert_int_equal(TRY("HIST\1\6\1\0\377\377\377\377\377\377\377\377\377\2"), -EBADMSG);
	assert_int_equal(TRY("HIST\1\6\2\0\377\377\377\377\377\377\377\377\377\1\1\1"), -EBADMSG);
	assert_int_equal(try_binary((const uint8_t *)"", 0), -EBADMSG);
	/* longer than any: refused before it is looked at */
	size_t huge = 6 + 5 + HIST_BUCKETS(0) * 13 + 4 + 1;
	uint8_t *p = calloc(1, huge);
	memcpy(p, "HIST\1\0", 6);
	assert_int_equal(try_binary(p, huge), -E2BIG);
	free(p);
}

/* Every prefix, every flipped bit; and random changes under a right checksum. */
static void test_damage(void **state)
{
	(void)state;
	struct hist_snapshot s;
	struct buf b = BUF_INIT;
	snapshot_of(&s, 6, 1, 300);
	assert_int_equal(hist_dump_binary(&s, &b), 0);
	hist_snapshot_fini(&s);
	for (size_t i = 0; i < b.len; i++)
		assert_true(try_binary(b.data, i) < 0);
	for (size_t i = 0; i < b.len * 8; i++) {
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_true(try_binary(b.data, b.len) < 0);
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	unsigned accepted = 0;
	for (unsigned round = 0; round < 20000; round++) {
		uint8_t *copy = malloc(b.len);
		memcpy(copy, b.data, b.len);
		for (unsigned i = 0; i <= model_random() % 3; i++)
			copy[4 + model_random() % (b.len - 4)] = (uint8_t)model_random();
		seal(copy, b.len);
		accepted += !try_binary(copy, b.len);
		free(copy);
	}
	assert_true(accepted > 0 && accepted < 20000);
	buf_fini(&b);
}

static void test_random_text(void **state)
{
	(void)state;
	struct hist_snapshot s, back;
	struct buf b = BUF_INIT;
	snapshot_of(&s, 3, 1, 60);
	assert_int_equal(hist_dump_text(&s, &b), 0);
	hist_snapshot_fini(&s);
	for (size_t i = 0; i < b.len; i++)
		assert_true(hist_load_text((char *)b.data, i, &back, &err) < 0);
	for (unsigned round = 0; round < 20000; round++) {
		char *copy = malloc(b.len);
		memcpy(copy, b.data, b.len);
		copy[model_random() % b.len] = "0123456789 \n-x"[model_random() % 14];
		if (!hist_load_text(copy, b.len, &back, &err))
			hist_snapshot_fini(&back);
		free(copy);
	}
	buf_fini(&b);
}

/* ---- other buckets ---- */

static uint64_t upto(uint64_t v)
{
	uint64_t n = 0;
	for (size_t i = 0; i < m.n && m.v[i] <= v; i++)
		n++;
	return n;
}

static void test_rebucket(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= 8; bits++) {
		for (unsigned shape = 0; shape < MODEL_SHAPES; shape++) {
			struct hist_snapshot s;
			struct values b = { .n = 0 };
			uint64_t got[50];
			snapshot_of(&s, bits, shape, 1000);
			for (b.n = 0; b.n < 50; b.n++)
				b.v[b.n] = b.n % 3 ? model_value(shape) : model_value(1);
			qsort(b.v, b.n, sizeof(b.v[0]), model_compare);
			hist_rebucket(&s, b.v, b.n, got);
			for (size_t i = 0; i < b.n; i++) {
				uint64_t low = model_low(bits, b.v[i]),
					 high = model_high(bits, b.v[i]);
				bool whole = b.v[i] - low >= (high - low) / 2;
				assert_int_equal(got[i], whole ? upto(high)
							 : low ? upto(low - 1)
							       : 0);
				assert_true(b.v[i] < high || got[i] == upto(b.v[i]));
				assert_true(!i || got[i] >= got[i - 1]);
			}
			hist_snapshot_fini(&s);
		}
	}
}

static void test_bounds(void **state)
{
	(void)state;
	uint64_t b[HIST_BOUNDS_MAX];
	static const uint64_t want[] = { 1, 5, 10, 25, 50, 100, 250 };
	assert_int_equal(hist_bounds(0, 499, b), 7);
	assert_memory_equal(b, want, sizeof(want));
	assert_int_equal(hist_bounds(25, 100, b), 3);
	size_t n = hist_bounds(0, UINT64_MAX, b);
	assert_true(n < HIST_BOUNDS_MAX);
	for (size_t i = 1; i < n; i++)
		assert_true(b[i] > b[i - 1]);
	assert_int_equal(b[n - 1], 10000000000000000000ull);
}

static void test_bounds_of_a_user(void **state)
{
	static const uint64_t ms = 1000000;
	static const struct {
		const char *spec;
		bool is_time;
		size_t n; /* 0: refused */
		uint64_t first, second, last;
	} v[] = {
		{ "1ms,10ms,1s", true, 3, ms, 10 * ms, 1000 * ms },
		{ "0,1ms", true, 2, 0, ms, ms },
		{ "5", true, 1, 5000 * ms, 0, 5000 * ms },
		{ "5", false, 1, 5, 0, 5 },
		{ "4K,1M,3G", false, 3, 4096, 1 << 20, 3ull << 30 },
		{ "18446744073709551615", false, 1, UINT64_MAX, 0, UINT64_MAX },
		{ "linear:0:5ms:20", true, 20, 0, 5 * ms, 95 * ms },
		{ "linear:7:1:60", false, 60, 7, 8, 66 },
		{ "log:1us:10s", true, 22, 1000, 2154, 10000 * ms },
		{ "log:1:100:1", false, 3, 1, 10, 100 },
		{ "log:1:10:10", false, 8, 1, 2, 10 }, /* 1.26 is 1 again, 2.51 is 3, 6.31 is 6 */
		{ "log:3:10:1", false, 2, 3, 10, 10 },
		{ "log:10:99:30", false, 31, 10, 11, 99 },
		{ "", false, 0, 0, 0, 0 },
		{ "1,1", false, 0, 0, 0, 0 },
		{ "2,1", false, 0, 0, 0, 0 },
		{ "1,", false, 0, 0, 0, 0 },
		{ "-1", false, 0, 0, 0, 0 },
		{ "1T", false, 0, 0, 0, 0 },
		{ "1Kx", false, 0, 0, 0, 0 },
		{ "1ms", false, 0, 0, 0, 0 },
		{ "18446744073709551616", false, 0, 0, 0, 0 },
		{ "18014398509481984K", false, 0, 0, 0, 0 },
		{ "linear:0:1", false, 0, 0, 0, 0 },
		{ "linear:0:1:61", false, 0, 0, 0, 0 },
		{ "linear:0:0:5", false, 0, 0, 0, 0 },
		{ "linear:0:1:0", false, 0, 0, 0, 0 },
		{ "linear:18446744073709551615:1:1", false, 0, 0, 0, 0 },
		{ "linear:1:1:1:1", false, 0, 0, 0, 0 },
		{ "log:0:10", false, 0, 0, 0, 0 },
		{ "log:10:10", false, 0, 0, 0, 0 },
		{ "log:1:10:31", false, 0, 0, 0, 0 },
		{ "log:1:10:0", false, 0, 0, 0, 0 },
		{ "log:1:9223372036854775807:30", false, 0, 0, 0, 0 },
		{ "log:1:18446744073709551615:1", false, 0, 0, 0, 0 },
		{ "log:1", false, 0, 0, 0, 0 },
	};
	char many[200] = "0";
	uint64_t b[HIST_BOUNDS_MAX];
	size_t n;
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		int rc = hist_bounds_parse(v[i].spec, v[i].is_time, b, &n, &err);
		assert_int_equal(rc, v[i].n ? 0 : -EINVAL);
		if (rc)
			continue;
		assert_int_equal(n, v[i].n);
		assert_int_equal(b[0], v[i].first);
		assert_int_equal(b[n - 1], v[i].last);
		assert_true(n == 1 || b[1] == v[i].second);
		for (size_t k = 1; k < n; k++)
			assert_true(b[k] > b[k - 1]);
	}
	for (int i = 1; i <= HIST_BOUNDS_MAX; i++) { /* as many as there may be; one more */
		assert_int_equal(hist_bounds_parse(many, false, b, &n, &err), 0);
		assert_int_equal(n, i);
		sprintf(many + strlen(many), ",%d", i);
	}
	assert_int_equal(hist_bounds_parse(many, false, b, &n, &err), -EINVAL);
}

/* ---- Prometheus ---- */

static void check_text(const struct hist_family *f, const struct hist_snapshot *s,
		       const struct hist_label *l, size_t n, const char *want)
{
	struct buf b = BUF_INIT;
	assert_int_equal(hist_prometheus_head(f, &b, &err), 0);
	assert_int_equal(hist_prometheus(f, s, l, n, &b, &err), 0);
	assert_int_equal(buf_add_u8(&b, 0), 0);
	assert_string_equal((char *)b.data, want);
	buf_fini(&b);
}

static void test_prometheus(void **state)
{
	(void)state;
	static const uint64_t bounds[] = { 100, 1000000, 1500000000 };
	struct hist_family f = { .name = "x_seconds",
				 .help = "Help \\ with\nlines \"and\" \x01 \xff.",
				 .decimals = 9,
				 .bounds = bounds,
				 .n_bounds = 3 };
	struct hist_snapshot s;
	hist_snapshot_init(&s, 12);
	check_text(
		&f, &s, NULL, 0,
		"# HELP x_seconds Help \\\\ with\\nlines \"and\"   \xef\xbf\xbd.\n# TYPE x_seconds histogram\n"
		"x_seconds_bucket{le=\"0.0000001\"} 0\nx_seconds_bucket{le=\"0.001\"} 0\nx_seconds_bucket{le=\"1.5\"} 0\n"
		"x_seconds_bucket{le=\"+Inf\"} 0\nx_seconds_sum 0\nx_seconds_count 0\n");
	hist_snapshot_count(&s, hist_bucket_index(12, 100), 3, &err);
	hist_snapshot_count(&s, hist_bucket_index(12, 7000), 2, &err);
	hist_snapshot_count(&s, hist_bucket_index(12, UINT64_MAX), 1, &err);
	f.help = "h";
	static const struct hist_label l[] = { { "a", "q\"b\\s\nn" }, { "b_1", "\xc3\xa9\xc3(" } };
	/* the last bucket is 2^64 - 2^51 .. 2^64 - 1 */
	check_text(
		&f, &s, l, 2,
		"# HELP x_seconds h\n# TYPE x_seconds histogram\n"
		"x_seconds_bucket{a=\"q\\\"b\\\\s\\nn\",b_1=\"\xc3\xa9\xef\xbf\xbd(\",le=\"0.0000001\"} 3\n"
		"x_seconds_bucket{a=\"q\\\"b\\\\s\\nn\",b_1=\"\xc3\xa9\xef\xbf\xbd(\",le=\"0.001\"} 5\n"
		"x_seconds_bucket{a=\"q\\\"b\\\\s\\nn\",b_1=\"\xc3\xa9\xef\xbf\xbd(\",le=\"1.5\"} 5\n"
		"x_seconds_bucket{a=\"q\\\"b\\\\s\\nn\",b_1=\"\xc3\xa9\xef\xbf\xbd(\",le=\"+Inf\"} 6\n"
		"x_seconds_sum{a=\"q\\\"b\\\\s\\nn\",b_1=\"\xc3\xa9\xef\xbf\xbd(\"} 18445618173.802723291\n"
		"x_seconds_count{a=\"q\\\"b\\\\s\\nn\",b_1=\"\xc3\xa9\xef\xbf\xbd(\"} 6\n");
	hist_snapshot_fini(&s);
}

/* 10 times 5 and once 100, of which only the 5s are recent. */
static void test_prometheus_summary(void **state)
{
	static const double quantiles[] = { 0.5, 0.999 };
	static const struct hist_label l = { "a", "v" };
	const struct hist_family f = {
		.name = "x", .help = "h", .decimals = 1, .quantiles = quantiles, .n_quantiles = 2
	};
	struct hist_snapshot all, recent;
	struct buf b = BUF_INIT;
	(void)state;
	hist_snapshot_init(&all, 8);
	hist_snapshot_init(&recent, 8);
	assert_int_equal(hist_prometheus_head(&f, &b, &err), 0);
	assert_int_equal(hist_prometheus_summary(&f, &all, &recent, NULL, 0, &b, &err), 0);
	hist_snapshot_count(&recent, hist_bucket_index(8, 5), 10, &err);
	hist_snapshot_count(&all, hist_bucket_index(8, 5), 10, &err);
	hist_snapshot_count(&all, hist_bucket_index(8, 100), 1, &err);
	assert_int_equal(hist_prometheus_summary(&f, &all, &recent, &l, 1, &b, &err), 0);
	assert_int_equal(buf_add_u8(&b, 0), 0);
	assert_string_equal(
		(char *)b.data,
		"# HELP x h\n# TYPE x summary\n"
		"x{quantile=\"0.5\"} NaN\nx{quantile=\"0.999\"} NaN\nx_sum 0\nx_count 0\n"
		"x{a=\"v\",quantile=\"0.5\"} 0.5\nx{a=\"v\",quantile=\"0.999\"} 0.5\n"
		"x_sum{a=\"v\"} 15\nx_count{a=\"v\"} 11\n");
	b.len = 0;
	assert_int_equal(hist_prometheus_summary(&f, &all, &recent,
						 &(struct hist_label){ "quantile", "v" }, 1, &b,
						 &err),
			 -EINVAL);
	assert_true(!b.len);
	buf_fini(&b);
	hist_snapshot_fini(&all);
	hist_snapshot_fini(&recent);
}

static void refuse_family(const struct hist_family *f, const char *label)
{
	struct hist_snapshot s;
	struct buf b = BUF_INIT;
	struct hist_label l = { label, "v" };
	hist_snapshot_init(&s, 6);
	assert_int_equal(hist_prometheus(f, &s, &l, 1, &b, &err), -EINVAL);
	assert_true(err.text[0] && !b.len);
	buf_fini(&b);
}

static void test_prometheus_bad(void **state)
{
	(void)state;
	static const uint64_t down[] = { 5, 5 };
	refuse_family(&(struct hist_family){ .name = "1x", .help = "" }, "a");
	refuse_family(&(struct hist_family){ .name = "", .help = "" }, "a");
	refuse_family(&(struct hist_family){ .name = "x\ny", .help = "" }, "a");
	refuse_family(&(struct hist_family){ .name = "x", .help = "" }, "le");
	refuse_family(&(struct hist_family){ .name = "x", .help = "" }, "a:b");
	refuse_family(&(struct hist_family){ .name = "x", .help = "" }, "");
	refuse_family(&(struct hist_family){ .name = "x", .help = "", .decimals = 19 }, "a");
	refuse_family(
		&(struct hist_family){ .name = "x", .help = "", .bounds = down, .n_bounds = 2 },
		"a");
	/* a label of a megabyte is cut, at a character */
	size_t n = 1 << 20;
	char *long_value = malloc(n + 1);
	memset(long_value, 0xe2, n);
	for (size_t i = 0; i + 3 <= n; i += 3)
		memcpy(long_value + i, "\xe2\x82\xac", 3);
	long_value[n] = 0;
	struct hist_snapshot s;
	struct buf b = BUF_INIT;
	struct hist_label l = { "a", long_value };
	hist_snapshot_init(&s, 6);
	assert_int_equal(hist_prometheus(&(struct hist_family){ .name = "x", .help = "" }, &s, &l,
					 1, &b, &err),
			 0);
	assert_true(b.len < 3 * 2 * HIST_LABEL_BYTES_MAX);
	buf_fini(&b);
	free(long_value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_bad_text),
		cmocka_unit_test(test_bad_binary),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_random_text),
		cmocka_unit_test(test_rebucket),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_bounds_of_a_user),
		cmocka_unit_test(test_prometheus),
		cmocka_unit_test(test_prometheus_summary),
		cmocka_unit_test(test_prometheus_bad),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
