# SPDX-License-Identifier: Apache-2.0
# Run programs for arm64 here, by an emulator; sourced with the script's arguments, not run. The
# script has `fail` and `dir`. From here on it is in a mount namespace of its own, so that no mount
# outlives it, and the kernel runs programs for arm64 as long as it does.
emulator=/usr/bin/qemu-aarch64-static
[ "$(id -u)" = 0 ] || fail "cannot run programs in a root file system as uid $(id -u); run it as root"
for command in debootstrap $emulator; do
	command -v "$command" >/dev/null || fail "no $command; tools/deps arm64 installs it"
done
[ -n "${ARM64_MOUNTS:-}" ] || ARM64_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"

formats=/proc/sys/fs/binfmt_misc
[ -e $formats/register ] || mount -t binfmt_misc none $formats
if ! grep -qs "^interpreter .*aarch64" $formats/*; then
	trap 'echo -1 >$formats/ascribe-arm64' EXIT
	printf '%s' ':ascribe-arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7' \
		'\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:' \
		"$emulator:F" >$formats/register
fi
