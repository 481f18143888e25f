#!/usr/bin/env bash
# Prints the files that a change concerns, one a line: those that differ from the branch
# main of origin or, on main itself, from the commit before. SINCE names another commit.
# Where history is missing, as in a shallow clone, every file counts as changed.
set -euo pipefail
cd "$(dirname "$0")/.."

# since prints the commit to compare with.
since() {
	if [ "${SINCE-}" ]; then
		git rev-parse --verify --quiet "$SINCE^{commit}"
		return
	fi
	local base
	base=$(git merge-base HEAD refs/remotes/origin/main 2>/dev/null) || base=
	if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then base=HEAD^1; fi
	git rev-parse --verify --quiet "$base^{commit}"
}

if commit=$(since 2>/dev/null); then
	git diff --name-only "$commit" --
	git ls-files --others --exclude-standard
elif [ "${SINCE-}" ]; then
	printf 'fault: SINCE=%s is no commit of this repository\n' "$SINCE" >&2
	exit 1
else
	git ls-files --cached --others --exclude-standard 2>/dev/null || find . -type f -not -path './.git/*' | sed 's|^\./||'
fi
