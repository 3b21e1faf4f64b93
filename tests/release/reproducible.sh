#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A second build in another directory, by another user, with another umask and locale, gives the
# bytes of this one: the package and, where it is built, the static program.
. "$(dirname "$0")/lib.bash"
[ "$(id -u)" = 0 ] || skip "only root may build as another user"
ok "the package of here" run_make deb
mkdir -p other/place
(cd "$root" && git ls-files -z --cached --others --exclude-standard |
	xargs -0 cp --parents -t "$dir/other/place")
mkdir other/place/build
cp -r "$root/build/npm" other/place/build/
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
goals=deb
if [ -e "$build/ascribe-static" ]; then
	goals='deb static'
	ok "the static program of here" run_make static
	cp "$build/ascribe-static" static.here
fi
cp "$build"/ascribe_*.deb .
chmod 755 .
chown -R nobody other
build_there() ( # goal
	cd other/place && umask 027 &&
		setpriv --reuid=65534 --regid=65534 --clear-groups \
			env HOME=/ LC_ALL=C.UTF-8 TZ=America/Lima make -s -j2 "$1"
)
for goal in $goals; do
	ok "make $goal elsewhere" build_there "$goal"
done
for f in ascribe_*.deb; do
	ok "$f" same "$f" "other/place/build/$f"
done
[ ! -e static.here ] ||
	ok "ascribe-static" same static.here other/place/build/ascribe-static
finish
