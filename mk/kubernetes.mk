# SPDX-License-Identifier: Apache-2.0
# The node agent: its container image, and tests on a real Kubernetes node (tests/kubernetes/node).
# The first run builds the node's programs in 8 CPU minutes; tests/kubernetes/binaries keeps them.
#   make image: build/ascribe-VERSION-ARCH.oci.tar of the program that was built here, without a
#   registry; deploy/container/Containerfile builds the same from sources, with one.
#   make image-arm64: the same for arm64, on another machine, as root.

IMAGE := $(BUILD)/ascribe-$(VERSION)-$(DEB_ARCH).oci.tar
IMAGE_NAME ?= localhost/ascribe:$(VERSION)
# Where the labels of the image point to.
IMAGE_TITLE := org.opencontainers.image

IMAGE_ARM64 := $(BUILD)/ascribe-$(VERSION)-arm64.oci.tar

# An archive of a directory, for a machine as uname names it.
define archive # directory, machine
	$(Q)tools/oci-archive $(IMAGE_NAME) $(1) $@ --machine $(2) --entrypoint /usr/bin/ascribe \
		--arg daemon --label $(IMAGE_TITLE).title=ascribe \
		--label $(IMAGE_TITLE).version=$(VERSION) \
		--label $(IMAGE_TITLE).licenses=Apache-2.0 \
		--label $(IMAGE_TITLE).revision=$(shell git rev-parse HEAD 2>/dev/null)
	$(Q)ls -l $@ | awk '{ printf "  %-7s %.1f MB compressed\n", "IMAGE", $$5 / 1e6 }'
endef

image: $(IMAGE) ## the container image, for `ctr images import`; no registry
$(IMAGE): $(BUILD)/ascribe tools/image-root tools/oci-archive deploy/kubernetes/seccomp.json
	$(call say,IMAGE,$@)
	$(Q)rm -rf $(BUILD)/image
	$(Q)BUILD=$(BUILD) tools/image-root $(BUILD)/image
	$(call archive,$(BUILD)/image,$(ARCH))

image-arm64: $(IMAGE_ARM64) ## the image for arm64, by a cross compiler and emulation, as root
$(IMAGE_ARM64): $(BUILD)/ascribe $(ARM64_ROOT)/complete tools/image-arm64 tools/image-root \
	tools/oci-archive
	+$(Q)$(ARM64_MAKE) $(ARM64)/build/ascribe
	$(call say,IMAGE,$@)
	$(Q)tools/image-arm64 $(ARM64)
	$(call archive,$(ARM64)/image,aarch64)

test-kubernetes: $(BUILD)/ascribe $(BUILD)/tests/record/crowd
test-kubernetes: ## the agent on a real node, as root; builds Kubernetes once, in minutes
	$(Q)tools/deps kubernetes image
	$(Q)tests/kubernetes/binaries >/dev/null
	$(Q)TEST_TIMEOUT=1200 tools/test \
		$(call script_list,$(sort $(wildcard tests/kubernetes/*.sh)))

bench-kubernetes: $(BUILD)/ascribe
bench-kubernetes: ## the agent on a real node with 110 pods: names, requests, CPU, memory (root)
	$(Q)tools/deps kubernetes image
	$(Q)tests/kubernetes/binaries >/dev/null
	$(Q)BUILD=$(BUILD) $(KEEP) bash tests/bench/kubernetes.sh

.PHONY: image image-arm64 test-kubernetes bench-kubernetes
