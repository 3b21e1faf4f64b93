#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Manners: help and manual from one table, exit statuses, colour, pager, pipes that close,
# completion in real shells.
. "$(dirname "$0")/lib.bash"
completion=$(cd "$OLDPWD" && realpath "$(dirname "$0")/../../deploy/completion")
export TERM=xterm LC_ALL=C.UTF-8
unset NO_COLOR PAGER ASCRIBE_PAGER LESS LINES COLUMNS
commands=$("$ascribe" help --commands)
esc=$(printf '\033')

# ---- help and manual: every option of every command, examples ----
ok "every command is in the list" \
	test "$("$ascribe" --help | sed -n '/^Commands/,/^$/p' | grep -c '^  ')" = \
	$(($(echo "$commands" | wc -l) + 1))
"$ascribe" help --man >ascribe.1
for c in $commands; do
	"$ascribe" "$c" --help >help
	"$ascribe" help --man "$c" >"ascribe-$c.1"
	ok "$c: help is what help says" sh -c "'$ascribe' help $c | cmp - help"
	ok "$c: examples" grep -q '^Examples:' help
	ok "$c: in the manual" grep -q "ascribe.-$c" ascribe.1
	"$ascribe" complete -- "$c" -- | sed 's/\t.*//' | sort >options
	grep -o '^  [ -][a-zA-Z ],\? \{1,2\}--[a-z-]*' help | grep -o -- '--[a-z-]*' | sort >said
	ok "$c: help, completion have the same options" cmp options said
	tr -d '\\' <"ascribe-$c.1" | grep -o 'fB--[a-z-]*fR' | sed 's/^fB//; s/fR$//' |
		sort -u >listed
	ok "$c: and the manual" sh -c 'comm -23 options listed | grep . && exit 1 || exit 0'
	# Each option that help names is known: with a value that none takes, or none, it is no
	# unknown option.
	for o in $(cat said); do
		[ "$o" = --help ] && continue
		timeout 10 "$ascribe" "$c" "$o=" --no-such-thing >out 2>err </dev/null
		ok "$c $o is known" sh -c "! grep -q 'unknown option $o' err && grep -q . err"
	done
done
if command -v mandoc >/dev/null; then
	ok "mandoc finds nothing to say" sh -c 'mandoc -T lint -W style ./*.1'
fi
if command -v man >/dev/null; then
	for p in ascribe.1 ascribe-top.1 ascribe-record.1; do
		ok "man --warnings: $p" sh -c "MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z ./$p 2>&1 >/dev/null | grep . && exit 1 || exit 0"
	done
fi

# ---- exit statuses: 0, 1, 2 for every command ----
for c in $commands; do
	exits 0 '' "$ascribe" "$c" --help
	exits 2 'unknown option --no-such-thing' "$ascribe" "$c" --no-such-thing
	exits 2 'auto, always or never' "$ascribe" "$c" --color=perhaps
done
for c in report flame labels stat "export --format folded" \
	"diff --where comm=\"server\" --against tenant=\"a\""; do
	read -r -a args <<<"$c"
	[ "${args[0]}" = flame ] && args+=(-o out.html)
	exits 1 'there is no store' "$ascribe" "${args[0]}" nowhere "${args[@]:1}"
	exits 0 '' "$ascribe" "${args[0]}" store "${args[@]:1}"
done
exits 1 'there is no store' "$ascribe" top --once --store nowhere
exits 1 'there is no store' "$ascribe" store verify nowhere
exits 1 'there is no store' "$ascribe" store info nowhere
exits 0 '' "$ascribe" store verify store
exits 2 'what is to be done' "$ascribe" store
exits 1 'there is no store' "$ascribe" serve nowhere
exits 1 'no.such' "$ascribe" daemon -c no.such.yaml
exits 2 "did you mean 'report'" "$ascribe" reprot
exits 2 "no command 'xyzzy'" "$ascribe" help xyzzy
exits 2 'did you mean --where' "$ascribe" report --wehre x
exits 2 '' "$ascribe"
exits 2 'expected , or }' "$ascribe" report store --where '{'

# ---- a reader that goes away ----
"$build/tests/mkstore" wide wide >/dev/null
for shell in 'trap "" PIPE;' ''; do
	# shellcheck disable=SC2238 # a file by the name of a program
	bash -c "$shell '$ascribe' report wide -n 0 2>pipe.err; echo \$? >pipe.status" | head -1 >head
	ok "head has its line" test -s head
	ok "nobody complains, the status is that of SIGPIPE" \
		sh -c 'grep -qx 141 pipe.status && ! grep -v "complete: " pipe.err'
done
ok "a full disk is no reader gone" sh -c "'$ascribe' report store >/dev/full 2>full.err; test \$? = 1 && grep -q 'writing the output failed' full.err"

# ---- colour: on a terminal alone ----
tty() { # command: what a terminal gets
	script -qec "stty cols 160; $1" tty.log </dev/null >/dev/null 2>&1
	sed '1{/^Script started/d};${/^Script done/d}' tty.log | tr -d '\r' >tty.out
}
"$ascribe" report store >plain 2>/dev/null
ok "none in a file" sh -c "! grep -q '$esc' plain"
ok "unless always" sh -c "'$ascribe' report store --color=always 2>&1 | grep -q '$esc'"
tty "$ascribe report store --no-pager"
ok "on a terminal" grep -q "$esc\[1m" tty.out
tty "NO_COLOR=1 $ascribe report store --no-pager"
ok "not with NO_COLOR" sh -c "! grep -q '$esc' tty.out && grep -q SAMPLES tty.out"
tty "NO_COLOR=1 $ascribe report store --no-pager --color always"
ok "but when asked for" grep -q "$esc\[1m" tty.out
tty "TERM=dumb $ascribe report store"
ok "not on a dumb terminal" sh -c "! grep -q '$esc' tty.out && grep -q SAMPLES tty.out"
tty "$ascribe report store --color=never --no-pager"
ok "nor with never" sh -c "! grep -q '$esc' tty.out"
ok "JSON never" sh -c "'$ascribe' report store --json --color=always 2>/dev/null | jq -e .rows >/dev/null"
ok "the text is the same" sh -c "sed 's/$esc\[[0-9;]*m//g' tty.out | grep -v 'complete: \|warning' | diff -B - plain"

# ---- the pager ----
cat >pager <<'SH'
#!/bin/sh
cat >paged
echo "paged $(wc -l <paged)"
SH
chmod +x pager
rm -f paged
tty "ASCRIBE_PAGER=./pager PAGER=false $ascribe report store"
ok "ASCRIBE_PAGER has it all, with what goes to stderr behind it" \
	sh -c 'grep -q "^paged" tty.out && head -1 paged | grep -q host && tail -2 paged | grep -q "complete: "'
rm -f paged
tty "PAGER=./pager $ascribe stat store"
ok "PAGER else" grep -q "^paged" tty.out
rm -f paged
PAGER=./pager "$ascribe" report store >out 2>err
ok "never without a terminal" sh -c '! test -e paged && grep -q SAMPLES out'
tty "PAGER=./pager $ascribe report store --no-pager"
ok "nor with --no-pager" sh -c '! test -e paged && grep -q SAMPLES tty.out'
tty "PAGER=cat $ascribe report store; PAGER= $ascribe report store"
ok "cat and nothing are none" sh -c 'test "$(grep -c SELF% tty.out)" = 2'
tty "$ascribe stat empty"
ok "less ends by itself when all fits" grep -q 'host' tty.out
tty "mkdir -p bin; ln -sf $(command -v sh) bin/sh; PATH=$dir/bin $ascribe report store"
ok "without less all is printed" grep -q SAMPLES tty.out
tty "PAGER='head -1' $ascribe report store -n 0; echo status \$?"
ok "a pager that ends early is no failure" sh -c 'grep -q "status [01]" tty.out || grep -q "status 141" tty.out'

# ---- --open: the browser of this desktop, else how to reach the page ----
mkdir -p desktop
printf '#!/bin/sh\nprintf "%%s\\n" "$@" >>opened\ncp "$1" opened.html\n' >desktop/xdg-open
chmod +x desktop/xdg-open
exits 0 'wrote flame.html' env -u SSH_CONNECTION \
	-u WAYLAND_DISPLAY DISPLAY=:7 PATH="$dir/desktop:$PATH" "$ascribe" flame store --open
within 30 [ -s opened ]
ok "flame: the browser has the page" grep -qx "$dir/flame.html" opened
exits 0 "scp 192.0.2.7:$dir/flame.html" env SSH_CONNECTION='192.0.2.1 5 192.0.2.7 22' DISPLAY=:7 \
	PATH="$dir/desktop:$PATH" "$ascribe" flame store --open
exits 0 'no desktop here' env -u SSH_CONNECTION -u WAYLAND_DISPLAY -u DISPLAY \
	"$ascribe" flame store --open
rm -f opened
serving() { # file, environment...: the server until the file is there, or its text
	local text=$1 log=$2 _
	shift 2
	background env "$@" "$ascribe" serve store --open -l 127.0.0.1:0 2>"$log"
	for _ in $(seq 200); do
		grep -q "$text" "$log" "opened" 2>/dev/null && break
		sleep 0.05
	done
}
serving html serve.log -u SSH_CONNECTION \
	-u WAYLAND_DISPLAY DISPLAY=:7 XDG_RUNTIME_DIR="$dir" PATH="$dir/desktop:$PATH"
within 30 [ -s opened.html ]
token=$(sed -n 's/.*#token=//p' serve.log)
redirect=$(cat opened)
ok "serve: the address is in a file of the owner alone, not in an argument" \
	sh -c "test -n '$token' && ! grep -q '$token' opened && grep -q '#token=$token' '$redirect' && test \$(stat -c %a '$redirect') = 600"
kill -TERM "$pid"
wait "$pid"
ok "which is removed at the end" test ! -e "$redirect"
rm -f opened
serving 'ssh -L' ssh.log SSH_CONNECTION='192.0.2.1 5 192.0.2.7 22'
kill -TERM "$pid"
wait "$pid"
port=$(sed -n 's/.*127.0.0.1:\([0-9]*\)\/#token.*/\1/p' ssh.log)
ok "serve: by ssh" grep -q "ssh -L $port:127.0.0.1:$port 192.0.2.7" ssh.log

# ---- completion ----
cp -r store ascribe.data
complete() { "$ascribe" complete -- "$@" | sed 's/\t.*//'; }
has() { # words of the line, then -- and what must be among the candidates
	local words=() want
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	for want in "$@"; do
		complete "${words[@]}" | grep -qxF -- "$want" || {
			echo "no $want in:"
			complete "${words[@]}"
			return 1
		}
	done
}
ok "commands" has "" -- $commands help
ok "options" has report --w -- --where
ok "values of options" has report --names "" -- full folded simple
ok "behind =" has report --names=f -- --names=full --names=folded
ok "keys of the store" has report --by te -- tenant
ok "in a list" has report --by comm,te -- comm,tenant
ok "of the store that is named" has report "$dir/store" --by te -- tenant
ok "and none of one that is not" test -z "$(complete report "$dir/empty" --by te)"
ok "matchers" has report --where '{tenant="a",co' -- '{tenant="a",comm='
ok "values" has report --where '{tenant=' -- '{tenant="a"' '{tenant="b"'
ok "verbs" has store ver -- verify
ok "files" has flame -o "" -- @files
ok "help" has help re -- record report
ok "nothing of hostile names moves the terminal" sh -c "'$ascribe' complete -- report --where '{comm=' | grep -q . && ! '$ascribe' complete -- report --where '{comm=' | tr -d '\n\t' | grep -q '[[:cntrl:]]'"
exits 0 '' "$ascribe" complete
exits 0 '' "$ascribe" complete -- nothing such
exits 0 '' "$ascribe" complete -- report --by

PATH=$dir:$PATH
cat >in.bash <<BASH
[ -e /usr/share/bash-completion/bash_completion ] && . /usr/share/bash-completion/bash_completion
. $completion/ascribe.bash
complete -p ascribe >/dev/null || exit 1
compopt() { :; }
try() { # words
	COMP_WORDS=("\$@") COMP_CWORD=\$((\$# - 1)) COMP_LINE="\$*"
	COMP_POINT=\${#COMP_LINE} COMPREPLY=()
	_ascribe
	echo "\$*: \${COMPREPLY[*]}"
}
try ascribe rep
try ascribe report --wh
try ascribe report --by ten
try ascribe report --where "'{tena"
try ascribe store veri
try ascribe labels ascribe.d
BASH
bash --norc in.bash >bash.out 2>&1
for want in 'ascribe rep: report' 'ascribe report --wh: --where' 'ascribe report --by ten: tenant' \
	"ascribe report --where '{tena: {tenant=" \
	'ascribe store veri: verify' 'ascribe labels ascribe.d: ascribe.data'; do
	ok "bash: $want" grep -qxF "$want" bash.out
done
if command -v fish >/dev/null; then
	fish --no-config -c ". $completion/ascribe.fish; complete -C 'ascribe rep'; complete -C 'ascribe report --wh'; complete -C 'ascribe report --by comm,ten'
		complete -C \"ascribe report --where '{tena\"; complete -C 'ascribe labels thr'" 2>&1 | sed 's/\t.*//' >fish.out
	ok "fish" diff - fish.out <<-OUT
		report
		--where
		comm,tenant
		{tenant=
		thread
	OUT
fi
if command -v zsh >/dev/null && command -v tmux >/dev/null; then
	mux() { tmux -S "$dir/tmux" -f /dev/null "$@"; }
	mux new-session -d -s z -x 120 -y 20 "env PS1='> ' PATH=$PATH zsh -f -i"
	mux send-keys -t z -l "cd $dir; autoload -U compinit; compinit -u -D; . $completion/_ascribe; clear; echo ready"
	mux send-keys -t z Enter
	on_screen() { # pattern, at most 10 s
		for _ in $(seq 100); do
			mux capture-pane -p -t z >z.out
			grep -qF -- "$1" z.out && return
			sleep 0.1
		done
		cat z.out
		return 1
	}
	on_screen 'ready' || true
	zsh_completes() { # typed, what it becomes
		mux send-keys -t z C-u
		mux send-keys -t z -l "$1"
		on_screen "> $1" && mux send-keys -t z Tab && on_screen "> $2"
	}
	ok "zsh: commands" zsh_completes 'ascribe repo' 'ascribe report'
	ok "zsh: options" zsh_completes 'ascribe report --wh' 'ascribe report --where'
	ok "zsh: keys" zsh_completes 'ascribe report --by comm,ten' \
		'ascribe report --by comm,tenant'
	ok "zsh: matchers" zsh_completes "ascribe report --where '{tena" \
		"ascribe report --where '{tenant="
	mux kill-server
fi
finish
