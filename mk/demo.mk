# SPDX-License-Identifier: Apache-2.0
# The bundled demo server: frame pointers, so that its stacks are whole without unwind tables.

$(BUILD)/demo: demo/server.cpp
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -O2 -g -fno-omit-frame-pointer -std=c++17 -Wall -Wextra $(if $(CI),-Werror) -Iinclude \
		-MMD -MP -MF $@.d -o $@ $< -lz -lpthread

-include $(BUILD)/demo.d
