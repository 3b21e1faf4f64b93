# SPDX-License-Identifier: Apache-2.0
# Every test is a program: 0 passed, 77 skipped (the last line says why), anything else failed.
# `make test-all` (ASCRIBE_TEST_ALL) runs all of every test. `make test` leaves out what another of
# its tests shows, too: plain builds of what runs with sanitizers, all kernels but the oldest, and
# positions of sweeps (tests/part.h; `in_part` in tests/lib.bash).
#   tests/unit/test_x.c    -> build/tests/test_x (cmocka)
#   tests/fault/           the store's faults (mk/fault.mk)
#   tests/labels/*.sh      the label library, with every compiler there is
#   tests/cli/*.sh         the reading commands on a synthetic store
#   tests/record/*.sh      the built program on real processes, with real BPF (root)
#   tests/http/*.sh        the server: its API, the daemon, whoever asks badly
#   tests/models/          the core's protocols, each state of them, by spin
#   tests/web/*.sh         the page's pure modules, in node
#   tests/e2e/*.sh         the pages in a browser
#   tests/release/*.sh     packages, their bytes, `make release`
#   tests/stability/*.sh   what older versions left: docs/stability.md
#   tests/fuzz/            the fuzz targets on their corpora (mk/fuzz.mk)
#   tests/figures/         figures that come out the same each time (mk/figures.mk)
#   tests/vm/              other kernels (mk/vm.mk)

# The long tail: scripts about a rare program or an extreme load, and the longest, each of some ten
# CPU seconds. `make test` runs a tenth of them, another tenth each day (TURN=0 to 9 chooses).
# `make test-all` runs all. What they share with other programs is in scripts that always run.
TAIL := $(addprefix tests/, \
	record/tables_grow.sh record/storm.sh record/harassed.sh record/unwind_perf.sh \
	record/unwind_jit.sh record/unwind_programs.sh record/debug_links.sh \
	record/debuginfod.sh record/periodic.sh record/async.sh record/filter.sh \
	record/lost_sideband.sh record/loading.sh http/handover.sh http/flood.sh \
	record/recipes.sh record/renew.sh record/reading.sh record/deep.sh record/blocking.sh \
	record/mappings.sh record/forks.sh record/idle.sh record/hangs.sh record/foreign.sh \
	record/stalls.sh record/trampolines.sh record/cgroups.sh http/selection.sh http/push.sh \
	record/jit.sh record/linkers.sh record/unwind_changes.sh record/bad.sh labels/matrix.sh \
	http/clickhouse.sh http/clickhouse_lost.sh http/metric_rules.sh http/capture.sh \
	http/clickhouse_ask.sh \
	record/hostile.sh record/waits_bad.sh http/push_daemon.sh record/prefork.sh \
	record/short.sh record/started.sh record/flood.sh record/greedy.sh http/errors.sh \
	http/tokens.sh http/group.sh http/quota.sh http/scope_waits.sh http/audit.sh \
	http/peers.sh record/calls.sh record/leak.sh record/args.sh record/periods.sh \
	http/restart_waits.sh http/units.sh http/web_unit.sh http/deb_units.sh \
	labels/languages.sh record/java_locks.sh record/mysql_locks.sh record/in_calls.sh \
	record/pgo.sh record/static.sh \
	release/reproducible.sh)
# What costs most, and what other scripts also reach: each runs every fifth day.
OFTEN := $(addprefix tests/, \
	http/budget.sh http/pods.sh http/bad.sh http/full.sh http/keeper.sh http/freeze.sh \
	http/heatmap.sh http/web_process.sh http/ingest.sh http/rights.sh http/pyroscope.sh \
	http/install.sh record/names.sh record/heap.sh record/async.sh record/little_memory.sh \
	record/top.sh record/top_metrics.sh record/why.sh record/waits_long.sh record/namespace.sh \
	record/python.sh record/python_waits.sh record/durations.sh record/probes.sh \
	record/python_bad.sh \
	record/locks.sh record/latency.sh record/tracks.sh record/waker.sh record/hotspot.sh \
	record/v8.sh record/php.sh record/php_bad.sh record/ruby.sh record/ruby_bad.sh \
	record/perl.sh record/perl_bad.sh record/v8_bad.sh record/hotspot_bad.sh \
	record/luajit.sh record/luajit_bad.sh \
	record/v8_bad.sh record/hotspot_bad.sh \
	record/jit.sh record/blame.sh record/filter.sh record/gate.sh \
	models/check.sh \
	cli/terminal.sh)
# What takes minutes: in `make test-all` alone.
SLOWEST := tests/record/incidents.sh
# Unit tests of more than five CPU seconds with sanitizers: they run so in turn, and without them on
# the other days.
UNIT_TAIL := $(addprefix test_,retain retain_levels retain_size symbols_sources bounded \
	bounded_files bounded_large bounded_shapes copy copy_delete sideband unwind_damage \
	parent_groups parent_limits symbols_lines old segments symbols_kernel pods_parse \
	pods_claims union starved failing_calls)
TURN := $(or $(TURN),$(shell expr "$$(date -u +%j)" % 10))
export TURN
# The part of a list whose turn is not today: each has its turn once in so many days.
not_today = $(if $(ASCRIBE_TEST_ALL),,$(shell \
	printf '%s\n' $(1) | awk 'NR % $(2) != $(TURN) % $(2)'))
TAIL_OUT := $(call not_today,$(TAIL),10) $(call not_today,$(OFTEN),5) \
	$(if $(ASCRIBE_TEST_ALL),,$(SLOWEST))
UNIT_OUT := $(call not_today,$(UNIT_TAIL),10)
# An emulated kernel runs a third of its tests; and boots in one of these ways, of each day another.
# More in mk/vm.mk.
KERNEL_MODES := nohz_full integrity confidentiality no_btf cgroup_v1 cgroup_hybrid
KERNEL_MODE := $(if $(ASCRIBE_TEST_ALL),$(KERNEL_MODES),$(word \
	$(shell expr $(TURN) % $(words $(KERNEL_MODES)) + 1),$(KERNEL_MODES)))
KERNEL_PART := $(if $(ASCRIBE_TEST_ALL),,VM_PART=$(shell expr $(TURN) % 3 + 1))

UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))
script_list = $(foreach s,$(1),'$(basename $(s:tests/%=%))=BUILD=$(BUILD) bash $(s)')
scripts = $(call script_list,$(sort $(wildcard tests/$(1)/*.sh)))
# Those of a directory that need the machine for themselves.
alone = $(call script_list,$(filter-out $(BESIDE) $(BROWSER) $(TAIL_OUT) \
	$(if $(CPU_HOTPLUG),,tests/record/cpu.sh),$(sort $(wildcard tests/$(1)/*.sh))))
# These look at no share of time that others on the machine could change: they run beside each
# other. The slowest come first.
BESIDE := $(addprefix tests/, \
	record/incidents.sh http/selection.sh http/budget.sh record/jit.sh http/errors.sh \
	http/units.sh http/web_unit.sh record/bad.sh record/hangs.sh http/freeze.sh http/peers.sh \
	record/stalls.sh record/cgroups.sh http/lives.sh http/bad.sh record/foreign.sh \
	record/waits_bad.sh record/linkers.sh record/reading.sh record/names.sh record/unwind.sh \
	http/full.sh http/restart.sh http/daemon.sh record/recipes.sh record/tables_grow.sh \
	record/unwind_programs.sh record/unwind_changes.sh http/ingest.sh record/filter.sh \
	record/hostile.sh record/why.sh record/waker.sh record/debug_links.sh record/top.sh \
	record/lost_sideband.sh record/waits_long.sh record/debuginfod.sh record/probes.sh \
	http/rights.sh http/keeper.sh record/deep.sh record/unwind_perf.sh record/async.sh \
	record/blocking.sh record/probes_blocked.sh record/storm.sh http/api.sh http/pyroscope.sh \
	http/install.sh http/flood.sh record/python.sh record/php.sh record/renew.sh \
	record/ruby.sh record/ruby_bad.sh record/perl.sh record/perl_bad.sh \
	record/php_bad.sh record/v8_bad.sh \
	record/hotspot_bad.sh record/unwind_jit.sh record/leaderless.sh http/handover.sh \
	record/python_bad.sh record/luajit.sh record/luajit_bad.sh \
	record/python_waits.sh record/otel.sh record/pprof.sh record/metrics.sh record/loading.sh \
	http/clickhouse.sh http/clickhouse_lost.sh http/clickhouse_ask.sh http/push.sh \
	http/push_daemon.sh http/tables.sh http/tokens.sh http/scope.sh http/scope_waits.sh \
	http/group.sh http/certificates.sh http/audit.sh http/old.sh http/token.sh http/pods.sh \
	record/cgo.sh record/gomade.sh record/gomade_bad.sh \
	record/teardown.sh record/names_bad.sh record/sources.sh \
	record/container.sh record/little_memory.sh record/goabsent.sh record/i386.sh \
	record/waits_late.sh record/labels.sh record/fork_labels.sh record/short.sh \
	record/prefork.sh record/forks.sh \
	record/mappings.sh http/quota.sh record/trampolines.sh record/started.sh \
	record/periodic.sh record/harassed.sh record/runc.sh http/sql.sh http/web_process.sh \
	http/ingest_otlp.sh record/namespace.sh http/metric_rules.sh http/capture.sh \
	record/flood.sh record/calls.sh record/heap.sh record/leak.sh record/args.sh \
	record/durations.sh record/periods.sh record/tracks.sh record/perfetto.sh \
	record/in_calls.sh http/heatmap.sh http/restart_waits.sh)
BESIDE_RUN := $(filter-out $(TAIL_OUT),$(BESIDE))
BROWSER := $(addprefix tests/,e2e/page.sh e2e/flame_page.sh e2e/speedscope.sh \
	e2e/bundle.sh web/pure.sh)
ASAN := $(BUILD)/asan
# Half the time of -O2 to compile, and as fast to run; lines for reports, no more. The plain build
# warns.
ASAN_CFLAGS := -O1 -g1 -w
UNIT_NAMES := $(notdir $(UNIT))
# `make test` runs these without sanitizers, too: they have cases that no sanitizer bears, or walk
# the code of their own build.
UNIT_PLAIN := $(if $(ASCRIBE_TEST_ALL),$(UNIT_NAMES),test_sandbox test_sandbox_limits \
	test_downloads test_recipe test_crafted test_unwind_walk $(UNIT_OUT))
UNIT_RUN := $(patsubst %,$(ASAN)/tests/%,$(filter-out $(UNIT_OUT),$(UNIT_NAMES))) \
	$(UNIT_PLAIN:%=$(BUILD)/tests/%)
# What computes for long, the longest first: else the last one would run while the other CPU is
# idle.
LONG := bounded_large bounded retain copy segments_damage segments symbols_sources unwind_damage \
	symbols_lines sideband sandbox symbols_kernel union old
UNIT_LONG := $(foreach l,$(LONG),$(filter %/test_$(l),$(UNIT_RUN)))
# Lint takes one CPU for a minute: these compute on the other one meanwhile.
BESIDE_LINT := $(wordlist 1,4,$(UNIT_LONG))
PACKAGES := $(wildcard tests/release/*.sh tests/stability/*.sh)
COMPUTES := $(filter-out $(TAIL_OUT),tests/labels/matrix.sh $(sort $(PACKAGES))) \
	tests/cli/query.sh $(BROWSER) \
	$(FAULT_ASAN:$(BUILD)/%=$(ASAN)/%) $(FAULT_PLAIN) \
	$(filter-out $(BESIDE_LINT),$(UNIT_LONG)) \
	$(filter-out tests/cli/query.sh $(TAIL_OUT),$(sort $(wildcard tests/cli/*.sh))) \
	tests/labels/key.sh $(filter-out $(TAIL_OUT),tests/models/check.sh)
# Beside each other: one that mostly waits and one that computes in turn, at last what takes a
# second.
TURNS := $(subst |, ,$(join $(addsuffix |,$(BESIDE_RUN)),$(COMPUTES))) \
	$(filter-out $(UNIT_LONG) $(BESIDE_LINT),$(UNIT_RUN))
test_kind = $(if $(filter $(ASAN)/%,$(1)),$(if \
	$(filter %/fault/,$(dir $(1))),asan-fault,asan),$(if \
	$(filter %/fault/,$(dir $(1))),fault,unit))
one_test = $(if $(filter %.sh,$(1)),$(call script_list,$(1)),'$(test_kind)/$(notdir $(1))=$(1)')
LOADS := $(patsubst tests/record/%,$(BUILD)/tests/record/%,$(basename \
	$(wildcard tests/record/*.c tests/record/*.cpp)))

# With sanitizers most of the time goes to the tests' own code and to linking.
TEST_FLAGS := $(if $(SANITIZE),-O0 $(if $(shell command -v ld.lld),-fuse-ld=lld))

$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libascribe.a
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(TEST_FLAGS) $(INCLUDE) -Itests -MMD -MP $(LDFLAGS) \
		-o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS) -lcmocka

# Reads the types of its own debugging information.
$(BUILD)/tests/test_recipe: override CFLAGS += -g2

# Holds our unwind tables against libdw's.
$(BUILD)/tests/test_unwind $(BUILD)/tests/test_unwind_walk $(BUILD)/tests/test_unwind_walk_arm64 \
	$(BUILD)/tests/test_unwind_go $(BUILD)/tests/test_go: override LIBS += -ldw

# Counts how often the store sorts labels.
$(BUILD)/tests/test_key_sorts: override LDFLAGS += -Wl,--wrap=labels_normalize

# Asks as a command does.
READING := $(BUILD)/user/cli/reading.o $(BUILD)/user/cli/known.o
$(BUILD)/tests/test_retries: $(READING)
$(BUILD)/tests/test_retries: override LDFLAGS += $(READING)
$(BUILD)/tests/test_mcp_run: $(BUILD)/user/cli/mcp_run.o
$(BUILD)/tests/test_mcp_run: override LDFLAGS += $(BUILD)/user/cli/mcp_run.o

# Walks through the lazy binding of a symbol, too.
$(BUILD)/tests/test_unwind_walk: override LDFLAGS += -Wl,-z,lazy

# Threads under ThreadSanitizer: only what they run, not the whole archive again.
TSAN := $(BUILD)/tests/tsan_hist_threads
$(TSAN): tests/unit/test_hist_threads.c $(wildcard user/hist/*.c user/util/*.c)
	$(call say,TSAN,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O1 -g -std=gnu11 $(WARN) $(if $(CI),-Werror) \
		-D_GNU_SOURCE -fno-strict-aliasing -fsanitize=thread \
		$(INCLUDE) -Itests -MMD -MP -MF $@.d -o $@ $(filter %.c,$^) \
			-lxxhash -lz -lzstd -lcmocka -lm -lpthread

# The buckets that BPF and user space share, from every compiler that is there.
HIST_BPF := $(CLANGS:%=$(BUILD)/tests/bpf/hist.%.o)
$(HIST_BPF): $(BUILD)/tests/bpf/hist.%.o: tests/bpf/hist.bpf.c tests/bpf/hist.h \
	include/hist_bucket.h
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$* -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Werror \
		-Ivmlinux/$(ARCH) -Iinclude -c -o $@ $<

$(BUILD)/tests/test_hist_bpf: | $(HIST_BPF)

# What it walks: a program for arm64, where there is a compiler for it.
ARM64_CC := $(shell command -v aarch64-linux-gnu-gcc)
$(BUILD)/tests/test_unwind_walk_arm64: $(if \
	$(ARM64_CC),$(BUILD)/tests/test_unwind_walk_arm64.walked)
$(BUILD)/tests/test_unwind_walk_arm64.walked: tests/unit/arm64/walked.c
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(ARM64_CC) -O2 -g -std=gnu11 $(WARN) \
		-mbranch-protection=standard -Wl,-z,lazy -o $@ $< -lm

# Go programs for both machines, where there are Go and a compiler for arm64; those of the
# sanitizers' build are the same.
ifneq ($(shell command -v go),)
$(BUILD)/tests/test_unwind_go: | $(BUILD)/tests/go.amd64
$(BUILD)/tests/test_go: | $(BUILD)/tests/go.amd64 $(BUILD)/tests/go.arm64 \
	$(if $(ARM64_CC),$(BUILD)/tests/go-cgo.arm64)
go_build = GOCACHE=$(abspath build)/gocache GOARCH=$(subst .,,$(suffix $@)) go build -o $@ $<
$(BUILD)/tests/go.amd64 $(BUILD)/tests/go.arm64: tests/record/golabels.go
	$(call say,GO,$@)
	@mkdir -p $(@D)
	$(Q)CGO_ENABLED=0 $(go_build)
$(BUILD)/tests/go-cgo.arm64: tests/record/golabels.go
	$(call say,GO,$@)
	@mkdir -p $(@D)
	$(Q)CC=$(ARM64_CC) CGO_ENABLED=1 GOFLAGS=-ldflags=-linkmode=external $(go_build)
endif

# A synthetic store for tests/cli, a recorder with generations of one window, one that shows its
# process table.
$(BUILD)/tests/mkstore $(BUILD)/tests/renew $(BUILD)/tests/images $(BUILD)/tests/webask: \
	$(BUILD)/tests/%: tests/tools/%.c $(BUILD)/libascribe.a
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP $(LDFLAGS) \
		-o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

# That of 1,200 windows, which takes seconds to write: several tests read it.
$(BUILD)/tests/long.json: $(BUILD)/tests/mkstore
	$(call say,STORE,$(@:.json=))
	$(Q)rm -rf $(@:.json=)
	$(Q)$< $(@:.json=) long >$@

# A ClickHouse to push to and to ask (tests/tools/clickhouse/server.py): one copy for all build
# directories, on the days of their tests. Without a network these are skipped.
NEED_CLICKHOUSE := tests/http/clickhouse.sh tests/http/clickhouse_lost.sh \
	tests/http/clickhouse_ask.sh
CLICKHOUSE_MODULES := build/npm/clickhouse/node_modules
$(CLICKHOUSE_MODULES)/.fetched: tests/tools/clickhouse/package.json \
	tests/tools/clickhouse/package-lock.json tools/fetch-npm
	$(call say,NPM,$(@D))
	$(Q)tools/fetch-npm tests/tools/clickhouse build/npm/clickhouse chdb

# The program with a daemon that looks each second, and whose minutes have four: what its budgets do
# would take minutes to see.
HASTY := $(patsubst %,$(BUILD)/tests/hasty/%.o,daemon/governor daemon/saving daemon/pushing \
	daemon/serving cli/cmd_daemon)
$(HASTY): $(BUILD)/tests/hasty/%.o: user/%.c $(BUILD)/flags
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -DTICK_NS=1000000000ull -DMINUTE_NS=4000000000ull \
		-DEARLY_DRAINS=4 -DCPU_PATIENCE=1 -DLONG_NS=3000000000ull \
		-DLATE_NS=12000000000ull -DHUNG_NS=3000000000ull -MMD -MP -c -o $@ $<

$(BUILD)/tests/hasty/ascribe: $(filter-out %/cmd_daemon.o,$(CLI_OBJ)) $(HASTY) $(BUILD)/libascribe.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/libascribe.a $(IBERTY) $(LIBS)
-include $(HASTY:.o=.d)

# Loads to be profiled: with frame pointers, and those for unwinding as distributions build.
LOAD_FRAMES = -fno-omit-frame-pointer
$(BUILD)/tests/record/chains $(BUILD)/tests/record/changes: LOAD_FRAMES = -fomit-frame-pointer
$(BUILD)/tests/record/blocking: LOAD_LIBS = -lfuse3
$(BUILD)/tests/record/storm $(BUILD)/tests/record/idle: LOAD_LIBS = -static
$(BUILD)/tests/record/%: tests/record/%.c
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 $(LOAD_FRAMES) -D_GNU_SOURCE $(WARN) -Iinclude -MMD -MP -MF $@.d \
		-o $@ $< $(LOAD_LIBS) -lpthread -lm -ldl

$(BUILD)/tests/record/%: tests/record/%.cpp
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -O2 $(LOAD_FRAMES) -std=c++20 -Wall -Wextra -Iinclude -MMD -MP -MF $@.d \
		-o $@ $< -lpthread

# The program with the BPF programs of each compiler that is tested: what knows their skeleton is
# compiled with it, the rest is as it is.
WITH_CLANG := $(CLANGS:%=$(BUILD)/%/ascribe)
KNOW_SKELETON := $(shell grep -lE 'sampler_int\.h|\.skel\.h' user/*/*.c user/*/*/*.c)
$(BUILD)/clang-%/sample.bpf.o: bpf/sample.bpf.c
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)clang-$* -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Werror \
		-Ivmlinux/$(ARCH) -Iinclude -MMD -MP -c -o $@ $<

$(BUILD)/clang-%/sample.skel.h: $(BUILD)/clang-%/sample.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name sample_bpf >$@

$(WITH_CLANG): $(BUILD)/clang-%/ascribe: $(BUILD)/clang-%/sample.skel.h $(KNOW_SKELETON) \
	$(CLI_OBJ) $(BUILD)/libascribe.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) -I$(@D) $(INCLUDE) $(LDFLAGS) \
		-o $@ $(filter %.c %.o,$^) $(BUILD)/libascribe.a $(IBERTY) $(LIBS)
.SECONDARY: $(patsubst %/ascribe,%/sample.bpf.o,$(WITH_CLANG))
-include $(patsubst %/ascribe,%/sample.bpf.d,$(WITH_CLANG))

# As many jobs as there are CPUs, where nobody said how many; the seconds of each phase for
# tools/test to show.
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))
PHASES := $(BUILD)/phases
PHASE := tools/phase $(PHASES)

test: ## install, build, run the tests: 15 to 20 minutes; CPU_HOTPLUG=1 takes a CPU away, too
	$(Q)rm -f $(PHASES)
	$(Q)$(PHASE) 'packages' tools/deps build test
	$(Q)$(MAKE) --no-print-directory test-with-packages

# Of each input of a fuzz target so many requests fail: allocations, and reads of files.
STARVE := $(if $(ASCRIBE_TEST_ALL),48,4)

# By another make: what is tested depends on the compilers that are installed.
test-with-packages:
	$(Q)$(PHASE) 'build' $(MAKE) $(JOBS) \
		--no-print-directory test-programs $(BUILD)/vm/initrd.gz $(WITH_CLANG)
	$(Q)$(PHASE) 'build with sanitizers' $(MAKE) $(JOBS) \
		--no-print-directory BUILD=$(ASAN) SANITIZE=address,undefined \
		CFLAGS='$(ASAN_CFLAGS)' test-asan-programs
	$(Q)$(if $(TAIL_OUT),echo 'left out until another day: $(words $(TAIL_OUT)) scripts of \
		$(words $(TAIL) $(OFTEN) $(SLOWEST)) (TURN=$(TURN) of 0 to 9; make test-all: all)')
	$(Q)rm -rf $(BUILD)/failed; FAILED=$(BUILD)/failed PHASES=$(PHASES) tools/test \
		'-j3=beside each other' \
		$(foreach t,$(TURNS),$(call one_test,$(t))) \
		'labels/torn=$(BUILD)/tests/torn/torn 100000' \
		'fuzz/replay=FUZZ_STARVE=$(STARVE) $(ASAN)/fuzz/replay tests/fuzz/corpus' \
		'tsan/hist_threads=$(TSAN)' \
		$(foreach c,$(CLANGS),'record/$(c)=$(BUILD)/$(c)/ascribe check') \
		-j1=alone \
		$(call alone,record) \
		$(call script_list,$(filter-out $(TAIL_OUT),tests/labels/languages.sh)) \
		$(call alone,http) \
		'-j1=other kernels' \
		$(foreach k,$(if $(ASCRIBE_TEST_ALL),$(KERNELS),$(firstword $(KERNELS))),\
			'kernel/$(k)=$(KERNEL_PART) $(MAKE) --no-print-directory test-kernels \
				KERNELS=$(k)') \
		$(foreach m,$(KERNEL_MODE),'kernel/$(m)=$(MAKE) --no-print-directory test-kernels \
				KERNELS=$(firstword $(KERNELS))+$(m)') \
		-j2=lint \
		'layers=tools/check-layers' \
		'lint=$(MAKE) --no-print-directory lint' \
		$(if $(ASCRIBE_TEST_ALL),'tidy=$(MAKE) --no-print-directory tidy' \
			'tsan/races=$(MAKE) --no-print-directory races') \
		'headers=$(MAKE) --no-print-directory check-headers' \
		'bpf-arm64=$(MAKE) --no-print-directory check-bpf-arm64' \
		'figures=BUILD=$(BUILD) CLANG=$(CLANG) tools/figures compare' \
		$(foreach t,$(BESIDE_LINT),$(call one_test,$(t))) \
		-r8

test-programs: $(BUILD)/ascribe $(HEAP_LIB) $(LABEL_LIB) $(BUILD)/tests/hasty/ascribe \
	$(BUILD)/demo examples \
	$(UNIT_PLAIN:%=$(BUILD)/tests/%) $(TSAN) $(FAULT_PLAIN) $(BUILD)/tests/mkstore \
	$(BUILD)/tests/long.json $(BUILD)/tests/renew $(BUILD)/tests/images $(LOADS) \
	$(BUILD)/tests/torn/torn $(FIGURES) \
	$(if $(filter-out $(TAIL_OUT),$(NEED_CLICKHOUSE)),$(CLICKHOUSE_MODULES)/.fetched)
test-asan-programs: $(filter-out $(UNIT_OUT:%=$(BUILD)/tests/%),$(UNIT)) \
	$(addprefix $(BUILD)/fault/,$(notdir $(FAULT_ASAN))) $(REPLAY)

test-all: ## the same with whole sweeps, and plain builds beside sanitizers: half an hour
	$(Q)$(MAKE) --no-print-directory ASCRIBE_TEST_ALL=1 test

# ThreadSanitizer over all of the program.
RACES := $(BUILD)/tsan
races-programs:
	$(Q)$(MAKE) --no-print-directory BUILD=$(RACES) SANITIZE=thread CFLAGS='$(ASAN_CFLAGS)' \
		$(RACES)/ascribe
	@mkdir -p $(RACES)/tests
races: races-programs ## recorder, server, readers at once, built with ThreadSanitizer; 3 minutes
	$(Q)BUILD=$(RACES) bash tests/tsan/races.sh

test-fresh: ## `make run` and `make test` on minimal Debian 12 and 13, as root; RELEASE=trixie
	$(Q)tools/fresh $(BUILD)/fresh $(or $(RELEASE),bookworm trixie)

unit: $(UNIT) ## the unit tests alone
	$(Q)tools/test $(foreach t,$(UNIT),'unit/$(notdir $(t))=$(t)')

cli-tests: test-programs ## the commands on a synthetic store
	$(Q)tools/test $(call scripts,cli)

http-tests: test-programs ## the server and the daemon
	$(Q)tools/test $(call scripts,http)

record-tests: test-programs ## the commands on real processes, as root
	$(Q)tools/test $(call scripts,record)

test-unwind-all: $(BUILD)/tests/test_unwind
test-unwind-all: ## unwind tables of every ELF file in /usr/bin and /usr/lib
	$(Q)$< /usr/bin /usr/sbin /usr/lib /usr/libexec

test-models: ## the core's protocols: all states of their models, and what breaks them
	$(Q)tools/test $(call scripts,models)

web-tests: ## the page's modules that need no browser
	$(Q)tools/test $(call scripts,web)

e2e: test-programs ## the pages in a browser
	$(Q)tools/test $(call scripts,e2e)

test-others: $(BUILD)/ascribe $(BUILD)/tests/mkstore $(BUILD)/tests/webask
test-others: ## programs by others (npm, GitHub) that publish labels, as root; needs the network
	$(Q)tools/test $(call scripts,others)

check-layers: ## includes go downwards only
	$(Q)tools/check-layers

check-headers: ## every header compiles by itself
	@for h in user/*/*.h user/*/*/*.h include/ascribe/*.h; do \
		$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) -Werror $(INCLUDE) \
			-fsyntax-only -include stdint.h -x c $$h || exit 1; done

.PHONY: test-with-packages races races-programs test-all test-fresh test-others test-programs \
	test-asan-programs unit cli-tests http-tests record-tests test-models test-unwind-all \
	web-tests e2e check-headers check-layers
-include $(wildcard $(BUILD)/tests/*.d $(BUILD)/tests/record/*.d)

# The label resolver against the log of threads that change their labels every microsecond:
# tests/torn/torn.c.
TORN := $(BUILD)/tests/torn
$(TORN)/torn.bpf.o: tests/torn/torn.bpf.c
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Werror \
		-Ivmlinux/$(ARCH) -Iinclude -Ibpf -Itests/torn \
		-MMD -MP -c -o $@ $<

$(TORN)/torn.skel.h: $(TORN)/torn.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name torn_bpf >$@

$(TORN)/torn: tests/torn/torn.c $(TORN)/torn.skel.h $(BUILD)/libascribe.a
	$(call say,TEST,$@)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -I$(TORN) -Itests/torn -MMD -MP -MF $@.d $(LDFLAGS) \
		-o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

test-torn: $(TORN)/torn
test-torn: ## label sets that change every microsecond: 10M samples against their log, as root
	$(Q)$< 10000000

.PHONY: test-torn
-include $(TORN)/torn.d $(TORN)/torn.bpf.d
