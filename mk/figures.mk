# SPDX-License-Identifier: Apache-2.0
# Figures that come out the same each time (tests/figures).
#   make figures         measure, print, compare with tests/figures/known
#   make figures-accept  measure, and write that file

FIGURES := $(BUILD)/tests/figures/figures
FIGURES_SRC := $(wildcard tests/figures/*.c)

# Without symbols: callgrind needs none, and would read them for a second.
$(FIGURES): $(FIGURES_SRC) tests/figures/figures.h $(BUILD)/libascribe.a
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -Itests $(LDFLAGS) -s \
		-o $@ $(FIGURES_SRC) $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

run_figures = $(Q)BUILD=$(BUILD) CLANG='$(CLANG)' tools/figures

figures: $(FIGURES) $(BUILD)/ascribe
figures: ## instructions, allocations, bytes, sizes: measured, and compared with tests/figures/known
	$(run_figures) compare

figures-accept: $(FIGURES) $(BUILD)/ascribe
figures-accept: ## write tests/figures/known as it is measured now
	$(run_figures) accept

.PHONY: figures figures-accept
