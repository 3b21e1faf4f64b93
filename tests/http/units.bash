# SPDX-License-Identifier: Apache-2.0
# The package's units under a real systemd, process 1 of namespaces of its own, where it finds no
# other unit. As root, with systemd and overlays.
#   make_upper: what is laid over this system's files, in upper; then change it, and
#   boot_units: `inside` is in it, `sd` asks its systemd
. "$(dirname "$0")/lib.bash"
needs_recording
[ -x /lib/systemd/systemd ] || skip "no systemd"
units=units # inside; below upper, too

make_upper() {
	local root u
	root=$(realpath "$here/../..")
	mkdir cg inside upper
	# The cgroups of this boot are one tree, whoever mounts it.
	mount -t cgroup2 cgroup2 cg 2>/dev/null || skip "no cgroup2 can be mounted"
	at_end=leave
	mkdir cg/ascribe-units-$$ || skip "no cgroup can be made"
	mount -t tmpfs none inside && mkdir inside/{up,work,all} &&
		mount -t overlay -o "lowerdir=/,upperdir=inside/up,workdir=inside/work" none inside/all ||
		skip "no overlay can be mounted"
	umount inside/all inside
	make -C "$root" --no-print-directory -s BUILD="$(realpath --relative-to="$root" "$build")" \
		DESTDIR="$dir/upper" PREFIX=/usr install >make.log 2>&1 ||
		bad "make install: $(tail -1 make.log)"
	# Of all units it finds those of the package alone. The log of each is a file.
	mv upper/usr/lib/systemd/system upper/units
	for u in ascribe ascribe-keeper; do
		mkdir "upper/$units/$u.service.d"
		printf '[Service]\nStandardOutput=append:/var/log/%s\nStandardError=append:/var/log/%s\n' $u $u \
			>"upper/$units/$u.service.d/log.conf"
	done
	cat >upper/etc/ascribe/ascribe.yaml <<-Y
	store: /var/lib/ascribe
	listen: [unix:/run/ascribe/http.sock, 127.0.0.1:4041]
	token-file: /etc/ascribe/token
	capture-token-file: /etc/ascribe/capture.token
	memory-max: 1GiB
	Y
	make_tokens all capture
	cp -p all.token upper/etc/ascribe/token
	cp -p capture.token upper/etc/ascribe/
	mkdir upper/before
	cp "$here/ask_always.py" upper/before/
}
# The unit of a package before this one: one for all processes.
single_unit() {
	sed -e '/^Requires=/d; /^Wants=/d; /^After=/d; /^Standard/d; /KEEPER_FD/d; /^Slice/d; /^Inaccessible/d' \
		-e '/^PrivateNetwork/d; /^ProtectKernel[TL]/d' \
		-e "s/^CapabilityBoundingSet=.*/$(grep ^Capability "upper/$units/ascribe-keeper.service")/" \
		-e 's/^StateDirectory=.*/&\nCacheDirectory=ascribe/' \
		-e 's/^RestrictAddressFamilies=.*/& AF_INET AF_INET6/' \
		-e 's/^SystemCallFilter=@system-service.*/& perf_event_open open_by_handle_at/' \
		"upper/$units/ascribe.service"
}
leave() {
	remove_cgroups cg/ascribe-units-$$
	umount -l cg
}

boot() {
	echo "$BASHPID" >cg/ascribe-units-$$/cgroup.procs
	exec unshare -m -p -C -n -f --kill-child \
		bash "$here/boot_systemd" "$dir/inside" "$dir/upper" "/$units"
}
one() { systemd=$(pgrep -P "$boot" -x systemd); }
boot_units() {
	background boot >boot.log 2>&1
	boot=$pid
	within 30 one || { bad "systemd does not start: $(tail -1 boot.log)" && finish; }
	ok "systemd runs" within 30 sd is-active default.target
}

inside() { nsenter -t "$systemd" -a "$@"; }
sd() { inside systemctl "$@"; }
main() { sd show -P MainPID "${1:-ascribe}"; }
active() { [ "$(sd is-active "$1")" = "${2:-active}" ]; }
status() {
	inside curl -gsS -u ":$(cat capture.token)" --max-time 10 -o /run/body \
		-w '%{http_code}' "$@"
}
serves() { [ "$(status http://127.0.0.1:4041/metrics)" = 200 ]; }
says() { inside grep -q -- "$1" "/var/log/${2:-ascribe}"; }
stored() { inside ascribe stat /var/lib/ascribe --json 2>/dev/null | jq .stored; }
grows() { [ "$(stored)" -gt "$1" ]; }
records() { local n; n=$(stored) && within 60 grows "${n:-0}"; }
field() { inside sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
net() { inside readlink "/proc/$1/ns/net"; }
group() {
	inside cat "/sys/fs/cgroup/system.slice/system-ascribe.slice/$1/cgroup.procs" | sort -n
}
names() {
	local p
	for p in $(group "$1"); do inside cat "/proc/$p/comm"; done 2>/dev/null | sort -u |
		tr '\n' ' '
}
web() { sd list-units --plain --no-legend 'ascribe-web@*' | awk '{ print $1; exit }'; }
web_pid() { main "$(web)"; }
asks() { # what, command...: none is refused meanwhile
	local what=$1 asker status
	shift
	inside rm -f /before/changed
	inside python3 /before/ask_always.py 4041 /run/ascribe/http.sock /before/changed 60 \
		>asked 2>&1 &
	asker=$!
	sleep 1
	ok "$what" "$@"
	ok "it serves again" within 30 serves
	sleep 1
	inside touch /before/changed
	wait $asker
	status=$?
	ok "no request was refused: $(tail -1 asked)" test $status = 0
}
