# SPDX-License-Identifier: Apache-2.0
# For the tests of languages, after lib.bash: what a recording says, against what the program says.
# shellcheck disable=SC2154 # variables of lib.bash

# Each program of a name, here and in the roots of other systems. To make such a root, as root:
#   debootstrap --variant=minbase --include=python3.14,libpython3.14-dev sid build/roots/sid
# A program that is built for it is installed elsewhere, with a relative link in its /usr/bin.
programs() { # pattern
	local p
	for p in /usr/bin/$1 "$here"/../../build/roots/*/usr/bin/$1; do
		[ ! -x "$p" ] || echo "$p"
	done
}

# A line of a program is "PART SECONDS", by its own clock.
clock() { awk -v f="$2" '$1 == f { print $2 }' "$1"; } # file, part
share_of() { awk '$1 == "three" { a = $2 } $1 == "one" { b = $2 } END { print a / (a + b) }' "$1"; }

# Samples of the stacks that a pattern matches, in percent of so many seconds at 499 Hz.
seen() { # folded stacks, pattern, seconds, percent at least
	awk -v pattern="$2" -v want="$3" -v low="$4" '
		$0 ~ pattern { n += $NF }
		END {
			share = 100 * n / 499 / want
			printf "%d samples, %d%% of %.2f s\n", n, share, want
			exit !(share > low && share < 115 + 4 / want)
		}' "$1"
}

rooted() { # store, percent
	"$ascribe" stat "$1" 2>/dev/null | awk -v min="$2" '$1 == "rooted" { got = $3 + 0 }
		END { print got "% rooted"; exit !(got >= min) }'
}

# judge.py, which a test writes, looks at a sample; verdict.py counts and judges.
judge() { cat judge.py "$here/verdict.py" | python3 -I -S - "$@"; }

# A program of this name runs again and again, and `ascribe check` says this of its version.
check_names() { # program, regular expression
	background bash -c "while sleep 0.01; do ./$1; done"
	ok "unknown: in check" within 30 sh -c '"$0" check 2>&1 | grep "$1"' "$ascribe" "$2"
	kill "$pid" 2>/dev/null
}
