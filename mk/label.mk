# SPDX-License-Identifier: Apache-2.0
# libascribe-label.so: labels for Rust, Python, Node and Java. The latter two find their entry
# points in it, and building needs neither. It stays loaded: it frees memory when threads end.

LABEL_LIB := $(BUILD)/libascribe-label.so

all: $(LABEL_LIB)

$(LABEL_LIB): $(sort $(wildcard lib/label/*.c)) $(wildcard include/ascribe/*.h)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 $(WARN) -D_GNU_SOURCE -DASCRIBE_OTEL $(if $(CI),-Werror) \
		-Iinclude -fPIC -fvisibility=hidden -fstack-protector-strong \
		-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 \
		-shared -Wl,-soname,$(@F) -Wl,-z,relro,-z,now,-z,nodelete -Wl,-z,noexecstack \
		-o $@ $(filter %.c,$^) -lpthread
