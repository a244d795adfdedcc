#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# invariants.sh - which test asserts which invariant
#
#	tests/invariants.sh		print tests/INVARIANTS.md, its last column as it should be
#
# A test asserts what it cites: in the comment before it or inside it, or in the heading of its
# part of the file (`---- ends of files (M54) ----`); what only the head of a file cites is
# asserted by all of its tests.  `make invariants` writes the file, `make lint` compares.

set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."

citations()
{
	awk '
	function cite(text, name,   m) {
		while (match(text, /(^|[^A-Za-z0-9_])M[1-9][0-9]*([^A-Za-z0-9_]|$)/)) {
			m = substr(text, RSTART, RLENGTH)
			gsub(/[^0-9]/, "", m)
			print m "\t" name
			text = substr(text, RSTART + RLENGTH - 1)
		}
	}
	FNR == 1 { head = ""; heading = ""; before = ""; test = ""; tests = 0; in_head = 1 }
	/^#include/ { in_head = 0 }
	in_head { cite($0, FILENAME); next }
	/^\/\* ---- / { heading = $0; before = ""; next }
	/^(Parameterized)?Test\(/ {
		split($0, part, /[(,)] */)
		test = part[2] "/" part[3]
		cite(before " " heading " " $0, test)
		before = ""
		next
	}
	/^}/ { test = ""; next }
	/\/\*|^[ \t]*\*|\/\// {
		if (test != "")
			cite($0, test)
		else
			before = before " " $0
	}' tests/test_*.c | sort -u
}

# File names are kept only where nothing nearer is cited.
citations | awk -F'\t' '
	FILENAME == "-" {
		if ($2 ~ /\.c$/)
			files[$1] = files[$1] (files[$1] == "" ? "" : ", ") $2
		else
			tests[$1] = tests[$1] (tests[$1] == "" ? "" : ", ") $2
		next
	}
	/^\| M[0-9]+ \|/ {
		number = $0
		sub(/^\| M/, "", number)
		sub(/ .*/, "", number)
		sub(/ \|[^|]*\|$/, "")
		print $0 " | " (tests[number] != "" ? tests[number] : files[number] != "" ? \
			files[number] : "none yet") " |"
		next
	}
	{ print }' - tests/INVARIANTS.md
