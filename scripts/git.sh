#!/usr/bin/env bash
# Runs a command with the newest git beside the one that is installed: scripts/git.sh COMMAND...
# It is Debian's of sid, unpacked into .cache/git with the libraries that it needs; nothing is
# installed. With --or-skip before the command a machine that cannot have it has failed nothing.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [ "${1-}" = --or-skip ]; then
	or_skip=yes
	shift
fi

# cannot ends the script: as a failure, or as tests that were not run.
cannot() {
	if [ "${or_skip-}" ]; then
		printf '%s: the tests with the newest git are skipped\n' "$1"
		exit 0
	fi
	printf '%s: the tests with the newest git cannot be run\n' "$1" >&2
	exit 1
}

for program in curl dpkg-deb sha256sum uname xz; do
	command -v "$program" >/dev/null || cannot "there is no $program"
done
case $(uname -sm) in
'Linux x86_64') arch=amd64 loader=lib64/ld-linux-x86-64.so.2 ;;
'Linux aarch64') arch=arm64 loader=lib/ld-linux-aarch64.so.1 ;;
*) cannot 'there is no such git for this system' ;;
esac
mirror=${TIPSTAFF_DEBIAN:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v '^ *#' | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 || true)}
mirror=${mirror%% *}
[ "$mirror" ] || cannot 'apt names no mirror of Debian; TIPSTAFF_DEBIAN can'
cache=$root/.cache/git
mkdir -p "$cache"
get() { curl -fsS --retry 2 --max-time 300 -o "$2" "$1" || cannot "$1 cannot be fetched"; }

# What is unpacked is used for a week.
if [ ! -x "$cache/bin/git" ] || [ "$(find "$cache/bin/git" -mtime +7)" ]; then
	rm -rf "$cache/new"
	mkdir -p "$cache/new/bin"
	get "$mirror/dists/sid/main/binary-$arch/Packages.xz" "$cache/new/packages.xz"
	for package in git libc6 libpcre2-8-0 zlib1g; do
		read -r file sum < <(xz -dc "$cache/new/packages.xz" | awk -v p="$package" '$1 == "Package:" {is = $2 == p} is && $1 == "Filename:" {f = $2} is && $1 == "SHA256:" {print f, $2}') ||
			cannot "Debian has no $package"
		get "$mirror/$file" "$cache/new/$package.deb"
		printf '%s  %s\n' "$sum" "$cache/new/$package.deb" | sha256sum --check --quiet >&2 || cannot "$package is not what Debian lists"
		dpkg-deb -x "$cache/new/$package.deb" "$cache/new/root"
		rm "$cache/new/$package.deb"
	done
	rm "$cache/new/packages.xz"
	rm -rf "$cache/bin" "$cache/root"
	mv "$cache/new/root" "$cache/root"
	# The libraries are for this git alone: with LD_LIBRARY_PATH what it starts would get them too.
	libraries=$cache/root/usr/lib/$(uname -m)-linux-gnu
	loader=$(find "$cache/root" -name "${loader##*/}" | head -n 1)
	printf '#!/bin/sh\nGIT_EXEC_PATH=%q exec %q --library-path %q --argv0 git %q "$@"\n' "$cache/bin" "$loader" "$libraries" "$cache/root/usr/bin/git" >"$cache/new/bin/git"
	chmod 755 "$cache/new/bin/git"
	for helper in upload-pack receive-pack; do
		printf '#!/bin/sh\nexec %q %s "$@"\n' "$cache/bin/git" "$helper" >"$cache/new/bin/git-$helper"
		chmod 755 "$cache/new/bin/git-$helper"
	done
	# What is no part of git itself is a script, such as git-submodule.
	for script in git-submodule git-sh-setup git-sh-i18n; do
		cp "$cache/root/usr/lib/git-core/$script" "$cache/new/bin/"
	done
	cp -r "$cache/root/usr/lib/git-core/git-sh-i18n--envsubst" "$cache/new/bin/" 2>/dev/null || true
	mv "$cache/new/bin" "$cache/bin"
	rm -rf "$cache/new"
fi
version=$("$cache/bin/git" version) || cannot 'the git of Debian sid does not start here'
printf 'with %s\n' "$version"
PATH=$cache/bin:$PATH "$@"
