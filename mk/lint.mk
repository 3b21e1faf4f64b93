# SPDX-License-Identifier: Apache-2.0
# How sources look: `make lint` says it in seconds, `make format` mends C. `make tidy` runs
# clang-tidy over the program, which takes minutes. The rules: .clang-format, .clang-tidy,
# .shellcheckrc, tools/eslint, tools/check-lines.

CLANG_FORMAT ?= clang-format-19
CLANG_TIDY ?= clang-tidy-19
# Subjects of later commits have at most 72 characters.
LINT_SINCE ?= 6eecec044adc
LINT_DIRS := .ci bpf demo deploy docs examples include lib mk tests tools user web
lint_find = $(shell find $(LINT_DIRS) -type f '(' -false $(foreach e,$(1),-o -name '*.$(e)') ')' | \
	sort)
LINT_C = $(call lint_find,c h cpp hpp)
LINT_JS = $(call lint_find,js mjs)
# Programs without an ending say in their first line that a shell runs them.
LINT_SHELL = $(call lint_find,sh bash) \
	$(shell find .ci deploy tests tools -type f ! -name '*.*' -exec awk \
		'FNR == 1 && /^#!.*sh$$/ { print FILENAME } { nextfile }' {} +)
LINT_TEXT = $(LINT_C) $(LINT_JS) $(LINT_SHELL) $(call lint_find,def mk md pml) Makefile README.md \
	HACKING.md
LINT_MODULES := build/npm/lint/node_modules
TIDY := $(patsubst %.c,$(BUILD)/tidy/%.ok,$(wildcard user/*/*.c user/*/*/*.c))

$(LINT_MODULES)/.fetched: tools/eslint/package.json tools/eslint/package-lock.json tools/fetch-npm
	$(call say,NPM,$(@D))
	$(Q)tools/fetch-npm tools/eslint build/npm/lint eslint

format: ## lay out all C and C++ files as .clang-format says
	$(Q)$(CLANG_FORMAT) -i $(LINT_C)

lint: lint-c lint-shell lint-js lint-lines lint-subjects lint-ddl lint-tables
lint: ## layout of the sources, shell and JavaScript, subjects of commits

lint-c:
	$(Q)$(CLANG_FORMAT) --dry-run -Werror --ferror-limit=3 $(LINT_C)

lint-shell:
	$(Q)printf '%s\n' $(LINT_SHELL) | xargs -P 2 -n 20 shellcheck \
		--severity=warning --format=gcc

lint-js: $(LINT_MODULES)/.fetched
	$(Q)[ ! -d $(LINT_MODULES)/eslint ] || NODE_PATH=$(LINT_MODULES) \
		node $(LINT_MODULES)/eslint/bin/eslint.js \
			--config tools/eslint/eslint.config.cjs $(LINT_JS)

lint-lines:
	$(Q)tools/check-lines $(LINT_TEXT)

lint-subjects:
	$(Q)tools/check-subjects $(LINT_SINCE)

# ClickHouse's tables for clusters are made of those for one node.
DDL := $(addprefix deploy/clickhouse/,replicated.sql distributed.sql)
ddl = tools/clickhouse-ddl -v kind=$(1) deploy/clickhouse/one-node.sql
$(DDL): deploy/clickhouse/%.sql: deploy/clickhouse/one-node.sql tools/clickhouse-ddl
	$(Q)$(call ddl,$*) >$@

lint-ddl:
	$(Q)for k in replicated distributed; do \
		$(call ddl,$$k) | cmp - deploy/clickhouse/$$k.sql || \
		{ echo "run make $(DDL)" >&2; exit 1; }; done

# Tables in documents stand between two marks: that of processes is made of user/sandbox/roles.c,
# that of faults and attacks of tests/counts. docs, mark, what prints it. docs/benchmarks.md is made
# as a whole.
with_table = { sed '/^<!-- $(2) -->$$/q' docs/$(1).md; $(3); \
	sed -n '/^<!-- end of $(2) -->$$/,$$p' docs/$(1).md; }
ROLES := $(BUILD)/tools/roles
$(ROLES): tools/roles.c $(addprefix user/sandbox/,roles.c role_calls.c roles.h roles_int.h \
	confine.h)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -o $@ $(filter %.c,$^)

security_table = $(call with_table,security,processes,$(ROLES))
reliability_table = $(call with_table,reliability,counts,tools/reliability table)
docs/security.md: $(ROLES)
docs/reliability.md: tools/reliability tests/counts
docs/security.md docs/reliability.md: docs/%.md:
	$(Q)$($*_table) >$(BUILD)/$*.md && cp $(BUILD)/$*.md $@

docs/benchmarks.md: $(wildcard tools/bench* tests/bench/figures/*.toml) docs/benchmarks.tsv
	$(Q)tools/benchmarks write

lint-tables: $(ROLES)
	$(Q)$(security_table) | cmp - docs/security.md && \
		$(reliability_table) | cmp - docs/reliability.md || \
		{ echo "run make -B docs/security.md docs/reliability.md" >&2; exit 1; }
	$(Q)tools/benchmarks check

tidy: $(TIDY) ## clang-tidy over the program, for what .clang-tidy selects; minutes

$(BUILD)/tidy/%.ok: %.c $(BUILD)/%.o .clang-tidy
	$(call say,TIDY,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG_TIDY) --quiet $< -- $(filter-out -f% -W%,$(CFLAGS)) $(INCLUDE) \
		-DRECIPES='"$(BUILD)/gen/recipes.txt"' -DFLAME_PAGE='"$(WEB)/flame.html"' \
			2>/dev/null
	@touch $@

.PHONY: lint-c lint-shell lint-js lint-lines lint-subjects lint-ddl lint-tables tidy
