-- SPDX-License-Identifier: Apache-2.0
-- Made of one-node.sql by tools/clickhouse-ddl: change that one. Replicated tables,
-- for servers that have Keeper and the macros {cluster}, {shard} and {replica}.

-- schema 1
CREATE TABLE IF NOT EXISTS ascribe_schema ON CLUSTER '{cluster}'
(
    version UInt32,
    applied DateTime DEFAULT now()
)
ENGINE = ReplicatedReplacingMergeTree ORDER BY version
COMMENT 'ascribe';

CREATE TABLE IF NOT EXISTS ascribe_events ON CLUSTER '{cluster}'
(
    name LowCardinality(String),
    unit LowCardinality(String),
    ns_per_sample UInt64,
    period UInt64,
    place UInt8,
    seen DateTime DEFAULT now()
)
ENGINE = ReplicatedReplacingMergeTree(seen) ORDER BY (name, unit, ns_per_sample, period)
COMMENT 'ascribe';

-- Frames are leaf first. kinds: 0 user, 1 kernel, 2 idle; 16 more: inlined into the next one.
CREATE TABLE IF NOT EXISTS ascribe_stacks ON CLUSTER '{cluster}'
(
    hash UInt128 CODEC(ZSTD(1)),
    kinds Array(UInt8) CODEC(ZSTD(1)),
    functions Array(LowCardinality(String)) CODEC(ZSTD(1)),
    modules Array(LowCardinality(String)) CODEC(ZSTD(1)),
    build_ids Array(LowCardinality(String)) CODEC(ZSTD(1)),
    files Array(LowCardinality(String)) CODEC(ZSTD(1)),
    lines Array(UInt32) CODEC(ZSTD(1)),
    offsets Array(UInt64) CODEC(ZSTD(1)),
    seen DateTime DEFAULT now() CODEC(ZSTD(1))
)
ENGINE = ReplicatedReplacingMergeTree(seen) ORDER BY hash
TTL seen + INTERVAL 430 DAY DELETE
SETTINGS index_granularity = 256
COMMENT 'ascribe';

CREATE TABLE IF NOT EXISTS ascribe_sets ON CLUSTER '{cluster}'
(
    day Date,
    hash UInt128 CODEC(ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    labels Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    integers Array(LowCardinality(String)) CODEC(ZSTD(1))
)
ENGINE = ReplicatedReplacingMergeTree PARTITION BY day ORDER BY (day, series, hash)
TTL day + INTERVAL 15 DAY DELETE
SETTINGS ttl_only_drop_parts = 1
COMMENT 'ascribe';

CREATE TABLE IF NOT EXISTS ascribe_series ON CLUSTER '{cluster}'
(
    series UInt64,
    labels Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    integers Array(LowCardinality(String)) CODEC(ZSTD(1)),
    seen DateTime DEFAULT now()
)
ENGINE = ReplicatedReplacingMergeTree(seen) ORDER BY series
TTL seen + INTERVAL 430 DAY DELETE
COMMENT 'ascribe';

CREATE TABLE IF NOT EXISTS ascribe_windows ON CLUSTER '{cluster}'
(
    time DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    host LowCardinality(String),
    start DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    end DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    windows UInt32,
    fired UInt64 CODEC(ZSTD(1)),
    stored UInt64 CODEC(ZSTD(1)),
    outside UInt64 CODEC(ZSTD(1)),
    own_cpu_ns UInt64 CODEC(ZSTD(1)),
    own_rss UInt64 CODEC(ZSTD(1)),
    lost Map(LowCardinality(String), UInt64) CODEC(ZSTD(1)),
    flagged Map(LowCardinality(String), UInt64) CODEC(ZSTD(1))
)
ENGINE = ReplicatedMergeTree PARTITION BY toDate(time) ORDER BY (toStartOfHour(time), host, time)
TTL toDate(time) + INTERVAL 430 DAY DELETE
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 100000,
    replicated_deduplication_window = 100000, replicated_deduplication_window_seconds = 604800
COMMENT 'ascribe';

-- time is the second of the middle of the window. series: hash of the labels that roll-ups keep.
CREATE TABLE IF NOT EXISTS ascribe_samples ON CLUSTER '{cluster}'
(
    time DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    host LowCardinality(String) CODEC(ZSTD(1)),
    event LowCardinality(String) CODEC(ZSTD(1)),
    ns_per_sample UInt64 CODEC(ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    set UInt128 CODEC(ZSTD(1)),
    stack UInt128 CODEC(ZSTD(1)),
    wait LowCardinality(String) CODEC(ZSTD(1)),
    samples UInt64 CODEC(ZSTD(1)),
    value UInt64 CODEC(ZSTD(1))
)
ENGINE = ReplicatedMergeTree PARTITION BY toDate(time)
ORDER BY (event, toStartOfHour(time), series, stack, set, host, time)
TTL toDate(time) + INTERVAL 3 DAY DELETE
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 100000,
    replicated_deduplication_window = 100000, replicated_deduplication_window_seconds = 604800
COMMENT 'ascribe';

CREATE TABLE IF NOT EXISTS ascribe_samples_1m ON CLUSTER '{cluster}'
(
    time DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    host LowCardinality(String) CODEC(ZSTD(1)),
    event LowCardinality(String) CODEC(ZSTD(1)),
    ns_per_sample UInt64 CODEC(ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    set UInt128 CODEC(ZSTD(1)),
    stack UInt128 CODEC(ZSTD(1)),
    wait LowCardinality(String) CODEC(ZSTD(1)),
    samples UInt64 CODEC(ZSTD(1)),
    value UInt64 CODEC(ZSTD(1))
)
ENGINE = ReplicatedSummingMergeTree((samples, value)) PARTITION BY toDate(time)
ORDER BY (event, toStartOfHour(time), series, stack, set, host, time, ns_per_sample)
TTL toDate(time) + INTERVAL 14 DAY DELETE
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 100000,
    replicated_deduplication_window = 100000, replicated_deduplication_window_seconds = 604800
COMMENT 'ascribe';

CREATE TABLE IF NOT EXISTS ascribe_samples_1h ON CLUSTER '{cluster}'
(
    time DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    event LowCardinality(String) CODEC(ZSTD(1)),
    ns_per_sample UInt64 CODEC(ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    stack UInt128 CODEC(ZSTD(1)),
    wait LowCardinality(String) CODEC(ZSTD(1)),
    samples UInt64 CODEC(ZSTD(1)),
    value UInt64 CODEC(ZSTD(1))
)
ENGINE = ReplicatedSummingMergeTree((samples, value)) PARTITION BY toMonday(time)
ORDER BY (event, time, series, stack, ns_per_sample)
TTL toDate(time) + INTERVAL 90 DAY DELETE
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 100000,
    replicated_deduplication_window = 100000, replicated_deduplication_window_seconds = 604800
COMMENT 'ascribe';

CREATE TABLE IF NOT EXISTS ascribe_samples_1d ON CLUSTER '{cluster}'
(
    time DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    event LowCardinality(String) CODEC(ZSTD(1)),
    ns_per_sample UInt64 CODEC(ZSTD(1)),
    series UInt64 CODEC(ZSTD(1)),
    stack UInt128 CODEC(ZSTD(1)),
    wait LowCardinality(String) CODEC(ZSTD(1)),
    samples UInt64 CODEC(ZSTD(1)),
    value UInt64 CODEC(ZSTD(1))
)
ENGINE = ReplicatedSummingMergeTree((samples, value)) PARTITION BY toStartOfMonth(time)
ORDER BY (event, time, series, stack, ns_per_sample)
TTL toDate(time) + INTERVAL 400 DAY DELETE
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 100000,
    replicated_deduplication_window = 100000, replicated_deduplication_window_seconds = 604800
COMMENT 'ascribe';

CREATE MATERIALIZED VIEW IF NOT EXISTS ascribe_to_1m ON CLUSTER '{cluster}' TO ascribe_samples_1m
AS SELECT toStartOfMinute(time) AS time, host, event, ns_per_sample, series, set,
    stack, wait, samples, value
FROM ascribe_samples;

CREATE MATERIALIZED VIEW IF NOT EXISTS ascribe_to_1h ON CLUSTER '{cluster}' TO ascribe_samples_1h
AS SELECT toStartOfHour(time) AS time, event, ns_per_sample, series, stack, any(wait) AS wait,
    sum(samples) AS samples, sum(value) AS value
FROM ascribe_samples_1m
GROUP BY time, event, ns_per_sample, series, stack;

CREATE MATERIALIZED VIEW IF NOT EXISTS ascribe_to_1d ON CLUSTER '{cluster}' TO ascribe_samples_1d
AS SELECT toStartOfDay(time) AS time, event, ns_per_sample, series, stack, any(wait) AS wait,
    sum(samples) AS samples, sum(value) AS value
FROM ascribe_samples_1h
GROUP BY time, event, ns_per_sample, series, stack;

INSERT INTO ascribe_schema (version) VALUES (1);

-- schema 2
-- called: the functions of a stack, each once, the leaf's first; 1 more: all its frames are inlined
-- ones. A function is 2 * cityHash64 of its name and module, and of its offset if it has no name.
ALTER TABLE ascribe_stacks ON CLUSTER '{cluster}'
    ADD COLUMN IF NOT EXISTS called Array(UInt64) MATERIALIZED arrayMap(
        id -> id + NOT has(arrayFilter((i, kind) -> kind < 16, ids, kinds), id),
        arrayDistinct(arrayMap(
            (f, m, o) -> bitShiftLeft(cityHash64(f, m, if(f = '', o, 0)), 1),
            functions, modules, offsets) AS ids)) CODEC(ZSTD(1));

-- name: as it is shown.
CREATE TABLE IF NOT EXISTS ascribe_functions ON CLUSTER '{cluster}'
(
    id UInt64,
    name String CODEC(ZSTD(1)),
    module LowCardinality(String) CODEC(ZSTD(1)),
    seen DateTime DEFAULT now() CODEC(ZSTD(1))
)
ENGINE = ReplicatedReplacingMergeTree(seen) ORDER BY id
TTL seen + INTERVAL 430 DAY DELETE
SETTINGS index_granularity = 1024
COMMENT 'ascribe';

CREATE MATERIALIZED VIEW IF NOT EXISTS ascribe_to_functions ON CLUSTER '{cluster}' TO ascribe_functions
AS SELECT id, if(function != '', function, concat(
        if(module = '', '[unknown]', if(endsWith(module, '/'), module,
            substringIndex(module, '/', -1))), '+0x',
        if(offset = 0, '0', trim(LEADING '0' FROM lower(hex(offset)))))) AS name, module
FROM
(
    SELECT bitShiftLeft(cityHash64(f, m, if(f = '', o, 0)), 1) AS id,
        toString(any(f)) AS function, toString(any(m)) AS module, any(o) AS offset
FROM ascribe_stacks
    ARRAY JOIN functions AS f, modules AS m, offsets AS o
    GROUP BY id
);

INSERT INTO ascribe_schema (version) VALUES (2);
