# SPDX-License-Identifier: Apache-2.0
# bash: candidates are those of `ascribe complete`, from the program's own tables and the store that
# is there.
_ascribe() {
	local cur words cword line quote= candidates=()
	if declare -F _get_comp_words_by_ref >/dev/null; then
		_get_comp_words_by_ref -n =:, cur words cword
	else
		cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
	fi
	# An open quote is the shell's, not the word's.
	case $cur in
	[\'\"]*) quote=${cur:0:1} cur=${cur:1} ;;
	esac
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		@files)
			compopt -o filenames 2>/dev/null
			mapfile -t candidates < <(compgen -f -- "$cur")
			;;
		@dirs)
			compopt -o filenames 2>/dev/null
			mapfile -t candidates < <(compgen -d -- "$cur")
			;;
		*) candidates=("${line%%$'\t'*}") ;;
		esac
		COMPREPLY+=("${candidates[@]}")
	done < <("${words[0]}" complete -- "${words[@]:1:cword-1}" "$cur" 2>/dev/null)
	# More may follow a key=, a list, an option that wants a value behind its =.
	if [ "${#COMPREPLY[@]}" = 1 ] && [[ ${COMPREPLY[0]} == *[=,] ||
		$quote && ${COMPREPLY[0]} == *[\{=\"]* ]]; then
		compopt -o nospace 2>/dev/null
	fi
	# Readline replaces what stands behind the last character that breaks words, which = and :
	# do outside of quotes.
	if [ -z "$quote" ] && declare -F __ltrim_colon_completions >/dev/null; then
		local i prefix=${cur%"${cur##*[=:]}"}
		if [[ $COMP_WORDBREAKS == *=* && $prefix ]]; then
			for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$prefix"}; done
		fi
	fi
}
complete -F _ascribe ascribe
