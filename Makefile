# SPDX-License-Identifier: Apache-2.0
#
#   make            build/ascribe
#   make run        everything: install what is missing, build, record the host beside a demo, show
#                   the result
#   make test       install what is missing, build, pass the tests; make test-all runs them at full
#                   length
#   make bench      the figures of docs/benchmarks.md
#   make help       all targets
#
# A source file is found by its place: user/<layer>/*.c are the program, bpf/*.bpf.c the BPF
# programs, tests/unit/test_*.c one test program each. Variables: CLANG=clang-19, V=1, BUILD=dir,
# SANITIZE=address,undefined; of another machine (mk/arm64.mk) ARCH, CC, AR, SYSROOT, IBERTY.

BUILD ?= build
CLANG ?= $(firstword $(foreach c,clang clang-19 clang-16 clang-15 \
	clang-14,$(if $(shell command -v $(c)),$(c))) clang)
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
CC ?= cc
CXX ?= c++
ARCH := $(shell uname -m)
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = @$(if $(filter 1,$(V)),:,printf '  %-7s %s\n' $(1) $(2))

# Builds in different directories give the same bytes.
PREFIX_MAP := -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(BUILD)=build

.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all run test bench deps check-layers check-headers lint format clean help install

all: $(BUILD)/ascribe

include mk/bpf.mk
include mk/export.mk
include mk/web.mk
include mk/user.mk
include mk/static.mk
include mk/heap.mk
include mk/label.mk
include mk/fault.mk
include mk/fuzz.mk
include mk/figures.mk
include mk/tests.mk
include mk/bench.mk
include mk/vm.mk
include mk/arm64.mk
include mk/bench-store.mk
include mk/bench-hist.mk
include mk/demo.mk
include mk/lint.mk
include mk/install.mk
include mk/kubernetes.mk

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile
	@grep -hE '^[a-z][a-z-]*:.*## ' Makefile mk/*.mk | sed 's/:.*## /\t/' | expand -t 18

deps: ## install the packages that building and testing need
	$(Q)tools/deps build test

run: ## install, build, record the host beside a demo server, report, write flame.html
	$(Q)tools/deps build
	$(Q)$(MAKE) --no-print-directory all $(BUILD)/demo
	$(Q)tools/run $(BUILD)

clean: ## remove what was built
	rm -rf $(BUILD)
