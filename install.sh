#!/bin/sh
# Installs Tipstaff, for whoever runs it and without root:
#
#   curl -fsSL https://raw.githubusercontent.com/tipstaff/tipstaff/main/install.sh | sh
#
# install.sh --help says what can be chosen. install.test.sh tests it.
set -eu

# The public key of the releases. scripts/release.sh key writes it here; until there is one, sums
# are checked and signatures are not.
key=''

releases=https://github.com/tipstaff/tipstaff/releases

usage() {
	cat <<'EOF'
Installs tipstaff from the archives of its releases.

  sh install.sh [--dir DIR] [--version VERSION] [--from ADDRESS] [--key FILE]

  --dir DIR          where the program goes (default $TIPSTAFF_DIR, else ~/.local/bin)
  --version VERSION  like 0.1.0 (default $TIPSTAFF_VERSION, else the newest)
  --from ADDRESS     a folder, or an https address, with the files of one release
                     (default $TIPSTAFF_FROM, else the releases on GitHub)
  --key FILE         the public key that signed them (default $TIPSTAFF_KEY, else
                     that of the releases)
  --help             prints this

It needs curl or wget, tar, and sha256sum, shasum or openssl. The SHA-256 sum of the
archive is always checked; the signature of the sums where openssl is installed.
EOF
}

say() { printf '%s\n' "$*"; }
fail() {
	printf 'error: %s\n' "$1" >&2
	shift
	for hint; do printf 'hint: %s\n' "$hint" >&2; done
	exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

# system sets os and arch to those of this machine, as archives are named.
system() {
	os=$(uname -s)
	arch=$(uname -m)
	case $os in
	Linux) os=linux ;;
	Darwin)
		os=darwin
		# A shell under Rosetta is told that the machine is another one.
		if [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" = 1 ]; then arch=arm64; fi
		;;
	MINGW* | MSYS* | CYGWIN* | Windows*) fail 'Tipstaff does not run on Windows itself' 'install it in WSL2, where it is a Linux program' ;;
	*) fail "there is no release for $os" 'build it from source: go install github.com/tipstaff/tipstaff/cmd/tipstaff@latest' ;;
	esac
	case $arch in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no release for $os on $arch" 'build it from source: go install github.com/tipstaff/tipstaff/cmd/tipstaff@latest' ;;
	esac
}

# fetch ADDRESS FILE gets a file of the release.
fetch() {
	case $1 in
	https://*)
		if has curl; then
			curl -fsSL --proto '=https' --tlsv1.2 --retry 2 -o "$2" "$1"
		elif has wget; then
			wget -q -O "$2" "$1"
		else
			fail 'neither curl nor wget is installed' 'install one of them, or download the archive and its checksums.txt yourself and name their folder with --from'
		fi
		;;
	http://127.0.0.1[:/]* | http://localhost[:/]* | "http://[::1]"[:/]*)
		if has curl; then
			curl -fsSL --proto '=http' -o "$2" "$1"
		elif has wget; then
			wget -q -O "$2" "$1"
		else
			fail 'neither curl nor wget is installed' 'install one of them'
		fi
		;;
	http://*) fail "$1 is not encrypted" 'use an https address; http is for this machine alone' ;;
	*) cp "$1" "$2" ;;
	esac
}

# sum FILE prints its SHA-256 sum.
sum() {
	if has sha256sum; then
		sha256sum "$1"
	elif has shasum; then
		shasum -a 256 "$1"
	else
		openssl dgst -sha256 -r "$1"
	fi | cut -d ' ' -f 1
}

# signature checks that of checksums.txt, where it can. Releases have one: if it is missing, or
# another's, somebody has changed something.
signature() {
	if [ ! "$key" ]; then
		say 'signature: not checked, this installer has no key of the releases'
		return
	fi
	if ! has openssl; then
		say 'signature: not checked, openssl is not installed'
		return
	fi
	printf '%s\n' "$key" >"$tmp/key.pem"
	fetch "$address/checksums.txt.sig" "$tmp/checksums.txt.sig" || fail "the sums of this release are not signed: $address/checksums.txt.sig cannot be had" 'nothing was installed; try again, and tell the maintainers if it stays so'
	if ! openssl base64 -d -A -in "$tmp/checksums.txt.sig" -out "$tmp/checksums.der" 2>/dev/null ||
		! openssl dgst -sha256 -verify "$tmp/key.pem" -signature "$tmp/checksums.der" "$tmp/checksums.txt" >/dev/null 2>&1; then
		fail 'the signature of the sums is wrong' 'nothing was installed; tell the maintainers'
	fi
	say 'signature: good'
}

# entry finds the archive for this system in checksums.txt: archive is its name, want its sum.
entry() {
	archive=
	while read -r want archive; do
		case $archive in tipstaff_*_"${os}_${arch}.tar.gz") break ;; esac
		archive=
	done <"$tmp/checksums.txt"
	[ "$archive" ] || fail "the release has no archive for $os on $arch" 'build it from source: go install github.com/tipstaff/tipstaff/cmd/tipstaff@latest'
	found=${archive#tipstaff_}
	found=${found%_"${os}_${arch}.tar.gz"}
	case $found in '' | *[!A-Za-z0-9.+-]*) fail "checksums.txt names an archive that cannot be one: $archive" 'nothing was installed' ;; esac
	if [ "$version" ] && [ "$found" != "$version" ]; then
		fail "$address has version $found, not $version" 'nothing was installed'
	fi
}

cleanup() {
	[ ! "${tmp-}" ] || rm -rf "$tmp"
	[ ! "${new-}" ] || rm -f "$new"
}

# Everything is in a function, so that half a script that was downloaded does nothing.
main() {
	dir=${TIPSTAFF_DIR-}
	version=${TIPSTAFF_VERSION-}
	from=${TIPSTAFF_FROM-}
	keyfile=${TIPSTAFF_KEY-}
	while [ $# -gt 0 ]; do
		case $1 in
		--help | -h)
			usage
			exit 0
			;;
		--dir | --version | --from | --key)
			[ $# -ge 2 ] || fail "$1 needs a value" 'install.sh --help lists the flags'
			case $1 in
			--dir) dir=$2 ;;
			--version) version=$2 ;;
			--from) from=$2 ;;
			--key) keyfile=$2 ;;
			esac
			shift 2
			;;
		*) fail "install.sh has no flag $1" 'install.sh --help lists the flags' ;;
		esac
	done
	version=${version#v}
	if [ ! "$dir" ]; then
		[ "${HOME-}" ] || fail 'HOME is not set' 'say where the program goes: --dir DIR'
		dir=$HOME/.local/bin
	fi
	if [ "$keyfile" ]; then
		key=$(cat "$keyfile") || fail "the key $keyfile cannot be read"
	fi
	has tar || fail 'tar is not installed' 'install it'
	has sha256sum || has shasum || has openssl || fail 'nothing here can compute a SHA-256 sum' 'install sha256sum, shasum or openssl'
	system

	trap cleanup EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	tmp=$(mktemp -d) || fail 'no temporary folder can be made' 'name a folder that can be written: TMPDIR=DIR'

	# The list of sums names the archives, and so says which version the newest is.
	if [ "$from" ]; then
		address=${from%/}
	elif [ "$version" ]; then
		address=$releases/download/v$version
	else
		address=$releases/latest/download
	fi
	fetch "$address/checksums.txt" "$tmp/checksums.txt" || fail "$address/checksums.txt cannot be had" "is there a release${version:+ $version}, and a network? $releases lists them"
	signature
	entry
	# Should a newer release come out meanwhile, this is still the one whose sums were read.
	[ "$from" ] || address=$releases/download/v$found
	say "downloading: $archive"
	fetch "$address/$archive" "$tmp/$archive" || fail "$address/$archive cannot be had" 'nothing was installed; try again'
	got=$(sum "$tmp/$archive")
	[ "$got" = "$want" ] || fail "$archive has the SHA-256 sum $got, and should have $want" 'nothing was installed; try again, and tell the maintainers if it stays so'
	say 'sum: good'

	mkdir "$tmp/unpacked"
	tar -xzf "$tmp/$archive" -C "$tmp/unpacked" || fail "$archive cannot be unpacked" 'nothing was installed; is the disk full?'
	program=$tmp/unpacked/${archive%.tar.gz}/tipstaff
	[ -f "$program" ] || fail "$archive has no program in it" 'nothing was installed; tell the maintainers'
	mkdir -p "$dir" || fail "$dir cannot be made" 'choose a folder of your own: --dir DIR'
	dir=$(cd "$dir" && pwd)
	[ ! -d "$dir/tipstaff" ] || fail "$dir/tipstaff is a folder" 'move it away, or choose another folder: --dir DIR'
	before=
	if [ -x "$dir/tipstaff" ]; then before=$("$dir/tipstaff" --version 2>/dev/null) || before='another version'; fi

	# It takes the place of an earlier one in one step, and only if it starts.
	new=$dir/.tipstaff.$$
	{ cp "$program" "$new" && chmod 755 "$new"; } || fail "$dir cannot be written" 'choose a folder of your own: --dir DIR'
	now=$("$new" --version) || fail "$archive does not run on this system" 'nothing was installed; tell the maintainers what system it is'
	mv -f "$new" "$dir/tipstaff" || fail "$dir/tipstaff cannot be replaced" 'choose a folder of your own: --dir DIR'
	new=
	if [ "$before" ]; then say "replaced: $before"; fi
	say "installed: $now in $dir/tipstaff"

	case ":$PATH:" in
	*":$dir:"*)
		first=$(command -v tipstaff || true)
		if [ "$first" != "$dir/tipstaff" ]; then say "note: tipstaff is $first here, which stands earlier on PATH"; fi
		;;
	*)
		say "$dir is not on PATH. To add it, for this shell and later ones:"
		case ${SHELL-} in
		*/fish) say "  fish_add_path $dir" ;;
		*/zsh) say "  export PATH=\"$dir:\$PATH\"; echo 'export PATH=\"$dir:\$PATH\"' >> ~/.zshrc" ;;
		*/bash) say "  export PATH=\"$dir:\$PATH\"; echo 'export PATH=\"$dir:\$PATH\"' >> ~/.bashrc" ;;
		*) say "  export PATH=\"$dir:\$PATH\"; echo 'export PATH=\"$dir:\$PATH\"' >> ~/.profile" ;;
		esac
		;;
	esac
	say 'next: tipstaff init'
}

main "$@"
