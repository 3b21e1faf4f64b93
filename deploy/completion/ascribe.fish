# SPDX-License-Identifier: Apache-2.0
# fish: candidates are those of `ascribe complete`, from the program's own tables and the store that is there.
function __ascribe_candidates
	set -l words (commandline -opc)
	set -l cur (commandline -ct | string trim -l -c '"\'')
	type -q $words[1]; or return
	for line in ($words[1] complete -- $words[2..-1] $cur 2>/dev/null)
		switch $line
			case @files
				__fish_complete_path $cur
			case @dirs
				__fish_complete_directories $cur
			case '*'
				printf '%s\n' $line
		end
	end
end
complete -c ascribe -f -a '(__ascribe_candidates)'
