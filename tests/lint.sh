#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# lint.sh - what the compiler does not check: layout, who includes whom, who calls the host,
# exported names, public headers, documents
#
#	tests/lint.sh build/libiomap.so.0	from the top folder; `make lint` does it
#
# Each finding is one line, `file:line: what is wrong`.  Exits 1 if there is any, and 2 if it
# could not look.

set -u
export LC_ALL=C

library=${1:?usage: tests/lint.sh LIBRARY}
CC=${CC:-gcc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
findings=$scratch/findings
code=$scratch/code

for tool in "$CC" g++ clang-format nm awk grep find xargs; do
	if ! command -v "$tool" >/dev/null; then
		echo "lint: $tool is missing; 'make deps' installs it" >&2
		exit 2
	fi
done
if [ ! -r "$library" ]; then
	echo "lint: $library is not built" >&2
	exit 2
fi

c_files=$(find include env blkdev folio iomap fsbackends examples tests bench \
	-name '*.[ch]' | sort)
scripts='Makefile .clang-format .ci/run tests/lint.sh tests/invariants.sh tests/check-sim/planted.sh'
documents=$(find . -name '*.md' -not -path './.git/*' -not -path './build*/*' | sed 's|^\./||' | sort)
text_files="$c_files $scripts $documents libiomap.pc.in .gitignore"

# C without comments and string contents, each line where it was, as `file:line:code`.
code_of()
{
	awk '
	FNR == 1 { in_comment = 0 }
	{
		line = $0
		code = ""
		while (line != "") {
			if (in_comment) {
				end = index(line, "*/")
				if (!end)
					break
				line = substr(line, end + 2)
				in_comment = 0
				continue
			}
			if (!match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/)) {
				code = code line
				break
			}
			token = substr(line, RSTART, RLENGTH)
			code = code substr(line, 1, RSTART - 1)
			line = substr(line, RSTART + RLENGTH)
			if (token == "//")
				break
			if (token == "/*")
				in_comment = 1
			else
				code = code "\"\""
		}
		if (code ~ /[^ \t]/)
			print FILENAME ":" FNR ":" code
	}' "$@"
}

check_layout()
{
	clang-format --dry-run $c_files 2>&1 |
		sed -n 's/^\([^ ]*:[0-9]*\):[0-9]*: .*clang-format.*/\1: not laid out; run make format/p' |
		uniq
}

# Calls go one way.  A line gives a folder and what its files may include by quotes from the
# top; a name without a folder is always the file's own neighbour.  All may include
# <iomap/x.h> but env/ and blkdev/, which know only what is below them.
check_includes()
{
	grep -Hn '^[ \t]*#[ \t]*include' $c_files | awk '
	BEGIN {
		may["env"] = "^env/"
		may["blkdev"] = "^(blkdev|env)/"
		may["folio"] = "^(folio|env)/"
		may["iomap"] = "^(iomap|folio|env)/"
		may["fsbackends"] = "^fsbackends/"
		may["tests"] = "."
		public["env"] = "^iomap/(env|sim|cost|trace)\\.h$"
		public["blkdev"] = "^iomap/(env|cost|trace|blkdev)\\.h$"
	}
	{
		split($0, part, ":")
		file = part[1]
		nr = split(file, folder, "/")
		top = folder[1]
		home = file
		sub(/[^\/]*$/, "", home)
		if (!match($0, /[<"][^>"]*[>"]/))
			next
		name = substr($0, RSTART + 1, RLENGTH - 2)
		quoted = substr($0, RSTART, 1) == "\""
		where = file ":" part[2] ": "

		if (name ~ /\.\.\//)
			print where "include from the top, not by ../"
		else if (!quoted && name ~ /^iomap\// && top in public && name !~ public[top])
			print where top "/ may not include <" name ">"
		else if (quoted && name ~ /^iomap\// && system("test -e include/" name) == 0)
			print where "a public header is included as <" name ">"
		else if (quoted && name ~ /internal\.h$/ && name ~ /\// && name != home "internal.h" &&
			 top != "tests")
			print where "internal.h belongs to its folder alone"
		else if (quoted && top == "include")
			print where "a public header includes only public headers"
		else if (quoted && name ~ /\// && index(name, home) != 1 &&
			 (!(top in may) || name !~ may[top]))
			print where top "/ may not include \"" name "\""
		else if (quoted && top == "fsbackends" && nr > 2 && name ~ /\// &&
			 name !~ /^fsbackends\/([^\/]*|base\/.*)$/ && index(name, home) != 1)
			print where "a back end includes its own folder and base/"
	}'
}

# The host is called in env/ alone, whose public header names some calls the same way.
# tests/tsan.c stands in for the C library.
host_calls='pthread_[a-z]|(SYS_|__NR_)?futex|clock_(gettime|nanosleep|getres)|nanosleep|usleep|sleep *\(
gettimeofday|timespec_get|time *\(|s?rand(om)?(_r)? *\(|[dejlmn]rand48|getrandom|getentropy|arc4random
sched_(yield|setaffinity|getcpu)|(thrd|mtx|cnd|tss)_[a-z]|sem_(init|wait|post|open)
rcu_[a-z]|call_rcu|synchronize_rcu|urcu[_a-z]*|cds_[a-z]|cmm_[a-z]|uatomic_[a-z]'
host_exempt='^(env/|examples/report/calibrate-probe\.c:|include/iomap/env\.h:|tests/tsan\.c:)'

# Memory of the library comes from env_alloc(), whose failures the tests inject.
memory_calls='(malloc|calloc|realloc|free|strdup|posix_memalign|aligned_alloc|mmap|munmap) *\('
memory_folders='^(blkdev|folio|iomap|fsbackends)/'

check_host_calls()
{
	local start='^[^:]*:[0-9]+:(.*[^A-Za-z0-9_>.])?'

	grep -Ev "$host_exempt" "$code" |
		grep -E "$start($(echo "$host_calls" | paste -sd'|'))" |
		sed 's/^\([^:]*:[0-9]*\):.*/\1: calls the host; only env\/ may/'
	grep -E "$memory_folders" "$code" | grep -E "$start$memory_calls" |
		sed 's/^\([^:]*:[0-9]*\):.*/\1: memory comes from env_alloc()/'
}

# Each public header stands alone, in C11 and C++17, and opens what it declares.
check_public_headers()
{
	local header

	for header in include/iomap/*.h; do
		echo "#include <iomap/${header##*/}>" |
			"$CC" -std=c11 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c - 2>&1 |
			grep -E '^include/.*error:'
		echo "#include <iomap/${header##*/}>" |
			g++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ - 2>&1 |
			grep -E '^include/.*error:' | sed 's/error:/error in C++:/'
		# One with inline functions and types alone exports nothing.
		grep "^$header:" "$code" | grep -vE '^[^:]*:[0-9]+:(static|typedef)' |
			grep -qE '^[^:]*:[0-9]+:(extern [a-z]|[a-z][^={]*\()' || continue
		grep -q '^#pragma GCC visibility push(default)$' "$header" ||
			echo "$header:1: no '#pragma GCC visibility push(default)'"
		grep -q '^#pragma GCC visibility pop$' "$header" ||
			echo "$header:1: no '#pragma GCC visibility pop'"
		grep -q '^extern "C" {$' "$header" || echo "$header:1: no extern \"C\""
	done
}

check_exports()
{
	local families='env|blkdev|bio|page_cache|folio|filemap|mapping|inode|super|file|bdi|wb|iomap|fs'

	nm -D --defined-only "$library" | awk '{ print $3 }' | grep -Ev "^($families)_" |
		sed "s|.*|$library: exports '&', which is in no public family|"
}

check_licence()
{
	local file

	for file in $c_files; do
		head -1 "$file" | grep -q 'SPDX-License-Identifier: LGPL-2.1-or-later' ||
			echo "$file:1: the first line is not the SPDX line"
	done
	for file in $scripts; do
		head -2 "$file" | grep -q 'SPDX-License-Identifier: LGPL-2.1-or-later' ||
			echo "$file:1: no SPDX line"
	done
}

# The makefile has tabs wherever it likes; C counts a tab as up to 8 columns and a UTF-8
# character as one.
check_lines()
{
	grep -Hn '[[:blank:]]$' $text_files | sed 's/^\([^:]*:[0-9]*\):.*/\1: white space at the end/'
	awk '{
		text = $0
		gsub(/[\200-\277]/, "", text)
		width = 0
		while ((tab = index(text, "\t")) > 0) {
			width += tab - 1
			width += 8 - width % 8
			text = substr(text, tab + 1)
		}
		width += length(text)
		if (width > 100)
			print FILENAME ":" FNR ": " width " columns, over 100"
	}' $c_files
}

# Every `make target` that a document shows is in the Makefile: in a line of an indented or
# fenced block, or between backquotes.
check_documents()
{
	local place target

	[ -n "$documents" ] || return
	awk '
	function targets(text,	command, nr_commands, word, nr, i, j)
	{
		nr_commands = split(text, command, /&&|;|#|  +|\t/)
		for (i = 1; i <= nr_commands; i++) {
			sub(/^[ $]+/, "", command[i])
			nr = split(command[i], word, /[ \t]+/)
			for (j = 2; word[1] == "make" && j <= nr; j++)
				if (word[j] ~ /^[a-z][a-z-]*$/)
					print FILENAME ":" FNR, word[j]
		}
	}
	FNR == 1 { fenced = 0 }
	/^```/ { fenced = !fenced; next }
	fenced || /^(    |\t)/ { targets($0); next }
	{
		nr_parts = split($0, part, "`")
		for (p = 2; p <= nr_parts; p += 2)
			targets(part[p])
	}' $documents | while read -r place target; do
		grep -q "^$target:" Makefile || echo "$place: there is no 'make $target'"
	done
}

# tests/INVARIANTS.md names the tests that cite an invariant.
check_invariants()
{
	tests/invariants.sh | cmp -s - tests/INVARIANTS.md ||
		echo "tests/INVARIANTS.md:1: not what the tests cite; run make invariants"
}

# Where this was written and fetched is no business of those who read it.
check_leaks()
{
	local words='sha''red/|(^|[^A-Za-z0-9_.])/wo''rk([^A-Za-z0-9_]|$)|hou''se\.md'
	local hosts='deb''ian\.org|np''mjs|py''pi\.|crates''\.io|proxy''\.golang|sna''pshot\.deb'

	grep -EHno "$words|$hosts" $text_files |
		sed 's/^\([^:]*:[0-9]*\):\(.*\)/\1: "\2" says where this was made/'
}

code_of $c_files >"$code"
for check in layout includes host_calls public_headers exports licence lines documents \
	invariants leaks; do
	"check_$check" >>"$findings"
done

if [ -s "$findings" ]; then
	cat "$findings"
	echo "lint: $(wc -l <"$findings") findings" >&2
	exit 1
fi
echo "lint: $(echo $text_files | wc -w) files, no finding"
