# SPDX-License-Identifier: Apache-2.0
# Minimal Debian systems, for tools/fresh and tools/release; sourced, not run. MIRROR and
# SECURITY_MIRROR: where the packages come from, by default where apt's do. The script has `fail`.
[ "$(id -u)" = 0 ] || fail "cannot build a root file system as uid $(id -u); run it as root"
command -v debootstrap >/dev/null || fail "debootstrap is missing; apt-get install debootstrap"

# The URI of one of this host's package sources whose suite ends so: all releases are on one mirror.
mirror_of() {
	apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk -v wanted="$1" '/debian/ && $1 ~ "^[a-z]+" wanted "$" && !found++ { print $2 }'
}
mirror=${MIRROR:-$(mirror_of '')}
security=${SECURITY_MIRROR:-$(mirror_of -security)}
[ -n "$mirror" ] && [ -n "$security" ] ||
	fail "apt's sources name no Debian and no security updates; set MIRROR and SECURITY_MIRROR"

# Nothing of this host's environment but the proxies.
inside() { # root, command
	env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		TERM="${TERM:-dumb}" \
		${CI:+CI="$CI"} ${http_proxy:+http_proxy="$http_proxy"} \
			${https_proxy:+https_proxy="$https_proxy"} \
		chroot "$1" sh -c "cd /src && $2" </dev/null
}

# The source is what `git clone` or `tar -x` makes of it in root/src.
build_root() { # release, root, packages, source
	rm -rf "$2"
	mkdir -p "$3"
	debootstrap --variant=minbase --include=make,git,ca-certificates --cache-dir="$3" \
		"$1" "$2" "$mirror" >"$2.log" || fail "debootstrap failed; see $2.log"
	cat >"$2/etc/apt/sources.list" <<-END
		deb $mirror $1 main
		deb $mirror $1-updates main
		deb $security $1-security main
	END
	echo force-unsafe-io >"$2/etc/dpkg/dpkg.cfg.d/thrown-away" # no fsync for each file
	cp /etc/resolv.conf "$2/etc/resolv.conf"
	# A proxy of this network may sign with a certificate of its own.
	cp -r /usr/local/share/ca-certificates "$2/usr/local/share/"
	chroot "$2" update-ca-certificates >/dev/null
	if [ -d "$4" ]; then
		git clone -q "$4" "$2/src"
	else
		mkdir "$2/src" && tar -xf "$4" -C "$2/src" --strip-components=1
	fi
	for d in proc sys dev; do
		mount --rbind "/$d" "$2/$d"
	done
	mount -t tmpfs tmpfs "$2/run"
}
