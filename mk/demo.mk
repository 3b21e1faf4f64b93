# SPDX-License-Identifier: Apache-2.0
# The bundled demo server: frame pointers, so that its stacks are whole without unwind tables.

$(BUILD)/demo: demo/server.cpp
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -O2 -g -fno-omit-frame-pointer -std=c++17 -Wall -Wextra $(if $(CI),-Werror) \
		-Iinclude \
		-MMD -MP -MF $@.d -o $@ $< -lz -lpthread

# Programs that show one thing each; tests/record/async.sh holds them to it.
EXAMPLES := $(patsubst examples/%,$(BUILD)/examples/%,$(basename \
	$(wildcard examples/*.c examples/*.cpp)))

$(BUILD)/examples/uring: EXAMPLE_LIBS := -luring
$(BUILD)/examples/%: examples/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -fno-omit-frame-pointer -std=gnu11 -D_GNU_SOURCE $(WARN) \
		$(if $(CI),-Werror) -Iinclude \
		-MMD -MP -MF $@.d -o $@ $< -lpthread $(EXAMPLE_LIBS)

$(BUILD)/examples/%: examples/%.cpp
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -O2 -g -fno-omit-frame-pointer -std=c++20 -Wall -Wextra $(if $(CI),-Werror) \
		-Iinclude \
		-MMD -MP -MF $@.d -o $@ $< -lpthread

examples: $(EXAMPLES) ## the example programs
.PHONY: examples

-include $(BUILD)/demo.d $(EXAMPLES:=.d)
