#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# planted.sh - does check-sim find a race that was put into the library?
#
#	tests/check-sim/planted.sh [PATCH ...]		from the top folder
#	SEEDS=20000 FS=xfs tests/check-sim/planted.sh	so many, on this file system alone
#
# For each patch (all of tests/check-sim/planted/): apply it to a copy of the tree, build there,
# run up to SEEDS (5000) seeds in one process, and say after how many it was found, and as what.
# Exits 1 if one was not found or does not apply, 2 if there is a finding without any.

set -u
seeds=${SEEDS:-5000}
fs=${FS:+--fs $FS}
[ $# -gt 0 ] || set -- tests/check-sim/planted/*.patch
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0

say()
{
	printf '%-36s %s\n' "$@"
}

build()
{
	make -s -C "$1" BUILD=build CFLAGS='-O2 -g' build/iomap-check-sim >"$scratch/log" 2>&1
}

# A copy of the clean tree, patched and built.
plant()
{
	rm -rf "$scratch/planted"
	cp -rp "$scratch/clean" "$scratch/planted"
	if ! patch -s -p1 -d "$scratch/planted" <"$1" >"$scratch/log" 2>&1; then
		say "$name" 'DOES NOT APPLY'
		return 1
	fi
	# Only what it changed is built again.
	sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$1" | while read -r file; do
		touch "$scratch/planted/$file"
	done
	if ! build "$scratch/planted"; then
		say "$name" 'DOES NOT BUILD'
		tail -3 "$scratch/log"
		return 1
	fi
}

# What the first finding was.
finding()
{
	sed -n 's/^seed [0-9]*: //p' "$scratch/out" | head -1 | cut -c1-70
}

hunt()
{
	local found

	if "$scratch/planted/build/iomap-check-sim" $fs --seeds "$seeds" --failures 1 --jobs 1 \
		>"$scratch/out" 2>&1; then
		say "$name" "NOT FOUND in $seeds seeds"
		return 1
	fi
	found=$(sed -n 's/^check-sim: \([0-9]*\) seeds without.*/\1/p' "$scratch/out")
	say "$name" "$(printf 'found at seed %5s: %s' $((found + 1)) "$(finding)")"
}

mkdir "$scratch/clean"
cp -rp Makefile env blkdev folio iomap fsbackends include tests examples bench "$scratch/clean"
if ! build "$scratch/clean"; then
	echo 'planted: the tree does not build' >&2
	tail -3 "$scratch/log" >&2
	exit 2
fi
if ! "$scratch/clean/build/iomap-check-sim" $fs --seeds 500 --failures 1 --jobs 1 \
	>"$scratch/out" 2>&1; then
	echo "planted: without a planted race there is a finding already: $(finding)" >&2
	exit 2
fi

for patch; do
	name=$(basename "$patch" .patch)
	plant "$patch" && hunt || status=1
done
exit $status
