-- SPDX-License-Identifier: Apache-2.0
-- Make the sums of a day (UTC) what its samples add up to. A server without replication that is
-- killed in the middle of an insert can lose rows of a table of sums; docs/fleet.md, "Once".
--
--   clickhouse-client --multiquery --param_day=2026-05-01 < mend-sums.sql
--
-- The day must be over and sent by all hosts, and ascribe_samples must have it still. What is
-- inserted is the difference: where sums are too large, it is negative, which wraps around.

-- This one also adds to the hours and days, which follow.
INSERT INTO ascribe_samples_1m SETTINGS insert_deduplicate = 0
SELECT time, host, event, ns_per_sample, series, set, stack, any(wait) AS wait,
    toUInt64(sum(n)) AS samples, toUInt64(sum(v)) AS value
FROM
(
    SELECT toStartOfMinute(time) AS time, host, event, ns_per_sample, series, set, stack, wait,
        toInt64(samples) AS n, toInt64(value) AS v
    FROM ascribe_samples WHERE toDate(time) = {day:Date}
    UNION ALL
    SELECT time, host, event, ns_per_sample, series, set, stack, wait,
        -toInt64(samples) AS n, -toInt64(value) AS v
    FROM ascribe_samples_1m WHERE toDate(time) = {day:Date}
)
GROUP BY time, host, event, ns_per_sample, series, set, stack
HAVING sum(n) != 0 OR sum(v) != 0;

INSERT INTO ascribe_samples_1h SETTINGS insert_deduplicate = 0
SELECT time, event, ns_per_sample, series, stack, any(wait) AS wait,
    toUInt64(sum(n)) AS samples, toUInt64(sum(v)) AS value
FROM
(
    SELECT toStartOfHour(time) AS time, event, ns_per_sample, series, stack, wait,
        toInt64(samples) AS n, toInt64(value) AS v
    FROM ascribe_samples WHERE toDate(time) = {day:Date}
    UNION ALL
    SELECT time, event, ns_per_sample, series, stack, wait,
        -toInt64(samples) AS n, -toInt64(value) AS v
    FROM ascribe_samples_1h WHERE toDate(time) = {day:Date}
)
GROUP BY time, event, ns_per_sample, series, stack
HAVING sum(n) != 0 OR sum(v) != 0;

INSERT INTO ascribe_samples_1d SETTINGS insert_deduplicate = 0
SELECT time, event, ns_per_sample, series, stack, any(wait) AS wait,
    toUInt64(sum(n)) AS samples, toUInt64(sum(v)) AS value
FROM
(
    SELECT toStartOfDay(time) AS time, event, ns_per_sample, series, stack, wait,
        toInt64(samples) AS n, toInt64(value) AS v
    FROM ascribe_samples WHERE toDate(time) = {day:Date}
    UNION ALL
    SELECT time, event, ns_per_sample, series, stack, wait,
        -toInt64(samples) AS n, -toInt64(value) AS v
    FROM ascribe_samples_1d WHERE toDate(time) = {day:Date}
)
GROUP BY time, event, ns_per_sample, series, stack
HAVING sum(n) != 0 OR sum(v) != 0;
