#!/bin/sh
# Tests install.sh against folders and a server that it makes: install.test.sh [SHELL…], the shells
# under which it is run (default sh). SERVED is a folder that is served at SERVER; without it the
# case over HTTP is left out, and says so.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
base=$(mktemp -d)
trap 'rm -rf "$base"' EXIT
failed=0

# Whatever key it has been given: the releases here are signed with others.
awk "/^key='/ { print \"key=''\"; skip = !/^key='.*'\$/; next } skip { if (/'\$/) skip = 0; next } { print }" "$here/install.sh" >"$base/install.sh"

# begin NAME starts a case, in a folder and with a home of its own.
begin() {
	name=$1
	at=$base/case-$(printf '%s' "$name" | tr -c 'A-Za-z0-9' -)
	mkdir -p "$at/home" "$at/tmp"
	path=$tools
}

# install [FLAG…] runs install.sh with nothing of this environment; code is how it ended. The shell
# may be two words.
install() {
	code=0
	# shellcheck disable=SC2086
	env -i HOME="$at/home" TMPDIR="$at/tmp" PATH="$path" SHELL=/bin/sh RELEASE="$release" LOG="$at/log" $shell "$base/install.sh" "$@" >"$at/out" 2>"$at/err" || code=$?
}

wrong() {
	printf 'FAIL: %s, under %s: %s\n' "$name" "$shell" "$1"
	sed 's/^/    /' "$at/out" "$at/err"
	failed=1
}

ends() { [ "$code" = "$1" ] || wrong "it ended with $code, not $1"; }
says() { cat "$at/out" "$at/err" | grep -qF -- "$1" || wrong "it does not say: $1"; }
silent() { if cat "$at/out" "$at/err" | grep -qF -- "$1"; then wrong "it says: $1"; fi; }
# holds DIR [VERSION] looks whether that version is all that is in a folder; nothing: the folder has nothing.
holds() {
	if [ "${2-}" ]; then
		[ "$("$1/tipstaff" --version 2>/dev/null)" = "tipstaff $2" ] || wrong "$1 does not have version $2"
		[ "$(find "$1" -mindepth 1 | wc -l)" -eq 1 ] || wrong "more is left in $1: $(ls -A "$1")"
	else
		[ -z "$(ls -A "$1" 2>/dev/null)" ] || wrong "something is left in $1: $(ls -A "$1")"
	fi
	[ -z "$(ls -A "$at/tmp")" ] || wrong "something is left in TMPDIR: $(ls -A "$at/tmp")"
}

# pack FOLDER VERSION [TEXT] makes a release in a folder, with sums and a signature; TEXT is the program.
pack() {
	mkdir -p "$1"
	for system in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64; do
		inside=tipstaff_$2_$system
		mkdir -p "$base/pack/$inside"
		printf '%s\n' "${3-"#!/bin/sh
echo tipstaff $2"}" >"$base/pack/$inside/tipstaff"
		(cd "$base/pack" && tar -czf "$1/$inside.tar.gz" "$inside")
	done
	rm -r "$base/pack"
	seal "$1"
}

seal() {
	(cd "$1" && sha256sum tipstaff_*.tar.gz >checksums.txt)
	sign "$1" "$base/key.pem"
}

sign() {
	[ "$signs" ] || return 0
	openssl dgst -sha256 -sign "$2" "$1/checksums.txt" | openssl base64 -A >"$1/checksums.txt.sig"
}

# program NAME TEXT has a script stand in for a program on PATH.
program() {
	mkdir -p "$at/bin"
	printf '#!/bin/sh\n%s\n' "$2" >"$at/bin/$1"
	chmod +x "$at/bin/$1"
	path=$at/bin:$tools
}

# Only what install.sh may count on is on PATH, and what cases need.
tools=$base/tools
mkdir "$tools"
for tool in sh bash dash busybox cat chmod cp cut env find grep ls mkdir mktemp mv rm sed sha256sum tar gzip tr uname wc openssl; do
	found=$(command -v "$tool" || true)
	[ ! "$found" ] || ln -s "$found" "$tools/$tool"
done
signs=
if [ -e "$tools/openssl" ]; then
	signs=yes
	for made in key other; do
		openssl ecparam -name prime256v1 -genkey -noout -out "$base/$made.pem" 2>/dev/null
		openssl ec -in "$base/$made.pem" -pubout -out "$base/$made.pub" 2>/dev/null
	done
else
	echo 'skipped: what signatures say, for openssl is not installed'
fi
pack "$base/release" 0.1.0
pack "$base/newer" 0.2.0
release=$base/release

cases() {
	begin 'a good release'
	install --from "$release"
	ends 0
	says 'sum: good'
	says 'installed: tipstaff 0.1.0 in '
	says 'is not on PATH'
	says 'not checked, this installer has no key'
	holds "$at/home/.local/bin" 0.1.0

	begin 'a folder that is on PATH'
	mkdir -p "$at/here too"
	path=$tools:"$at/here too"
	install --from "$release" --dir "$at/here too"
	ends 0
	silent 'is not on PATH'
	holds "$at/here too" 0.1.0

	begin 'another one earlier on PATH'
	program tipstaff 'echo tipstaff other'
	path=$path:$at/home/.local/bin
	install --from "$release"
	ends 0
	says "tipstaff is $at/bin/tipstaff here"

	if [ "$signs" ]; then
		begin 'a good signature'
		install --from "$release" --key "$base/key.pub"
		ends 0
		says 'signature: good'
		holds "$at/home/.local/bin" 0.1.0

		begin 'a signature of another key'
		cp -R "$release" "$at/release"
		sign "$at/release" "$base/other.pem"
		install --from "$at/release" --key "$base/key.pub"
		ends 1
		says 'error: the signature of the sums is wrong'
		holds "$at/home/.local/bin"

		begin 'sums that were changed after they were signed'
		cp -R "$release" "$at/release"
		echo >>"$at/release/checksums.txt"
		install --from "$at/release" --key "$base/key.pub"
		ends 1
		says 'error: the signature of the sums is wrong'
		holds "$at/home/.local/bin"

		begin 'a signature that is missing'
		cp -R "$release" "$at/release"
		rm "$at/release/checksums.txt.sig"
		install --from "$at/release" --key "$base/key.pub"
		ends 1
		says 'error: the sums of this release are not signed'
		holds "$at/home/.local/bin"

		begin 'no openssl'
		cp -R "$tools" "$at/tools"
		rm "$at/tools/openssl"
		path=$at/tools
		install --from "$release" --key "$base/key.pub"
		ends 0
		says 'signature: not checked, openssl is not installed'
		holds "$at/home/.local/bin" 0.1.0

		begin 'sums by openssl'
		cp -R "$tools" "$at/tools"
		rm "$at/tools/sha256sum"
		path=$at/tools
		install --from "$release"
		ends 0
		says 'sum: good'
		holds "$at/home/.local/bin" 0.1.0
	fi

	begin 'nothing that computes sums'
	cp -R "$tools" "$at/tools"
	rm -f "$at/tools/sha256sum" "$at/tools/openssl"
	path=$at/tools
	install --from "$release"
	ends 1
	says 'error: nothing here can compute a SHA-256 sum'
	holds "$at/home/.local/bin"

	begin 'a wrong sum'
	cp -R "$release" "$at/release"
	for archive in "$at/release"/*.tar.gz; do echo >>"$archive"; done
	mkdir -p "$at/home/.local/bin"
	echo 'echo tipstaff 0.0.9' >"$at/home/.local/bin/tipstaff"
	chmod +x "$at/home/.local/bin/tipstaff"
	install --from "$at/release"
	ends 1
	says 'has the SHA-256 sum'
	holds "$at/home/.local/bin" 0.0.9

	begin 'an archive that is missing'
	cp -R "$release" "$at/release"
	rm "$at/release"/*.tar.gz
	install --from "$at/release"
	ends 1
	says '.tar.gz cannot be had'
	holds "$at/home/.local/bin"

	begin 'no release'
	install --from "$at/nowhere"
	ends 1
	says 'checksums.txt cannot be had'
	holds "$at/home/.local/bin"

	begin 'an archive that climbs out of its folder'
	mkdir "$at/release"
	echo "$(printf '%064d' 0)  tipstaff_../../x_linux_amd64.tar.gz" >"$at/release/checksums.txt"
	# shellcheck disable=SC2016
	program uname 'case $1 in -m) echo x86_64 ;; *) echo Linux ;; esac'
	install --from "$at/release"
	ends 1
	says 'cannot be one'
	holds "$at/home/.local/bin"

	begin 'another version than was asked for'
	install --from "$release" --version 0.3.0
	ends 1
	says 'has version 0.1.0, not 0.3.0'
	holds "$at/home/.local/bin"

	begin 'a tag as a version'
	install --from "$release" --version v0.1.0
	ends 0

	for system in 'Linux aarch64 linux_arm64' 'Darwin arm64 darwin_arm64' 'Darwin x86_64 darwin_amd64' 'Linux x86_64 linux_amd64'; do
		begin "the archive for $system"
		# shellcheck disable=SC2086 # three words
		set -- $system
		program uname "case \$1 in -m) echo $2 ;; *) echo $1 ;; esac"
		install --from "$release"
		ends 0
		says "downloading: tipstaff_0.1.0_$3.tar.gz"
	done

	begin 'a shell under Rosetta'
	# shellcheck disable=SC2016
	program uname 'case $1 in -m) echo x86_64 ;; *) echo Darwin ;; esac'
	program sysctl 'echo 1'
	install --from "$release"
	says 'downloading: tipstaff_0.1.0_darwin_arm64.tar.gz'

	for system in 'FreeBSD amd64' 'Linux riscv64'; do
		begin "$system, for which there is no release"
		program uname "case \$1 in -m) echo ${system#* } ;; *) echo ${system% *} ;; esac"
		install --from "$release"
		ends 1
		says 'error: there is no release for'
		says 'hint: build it from source'
		holds "$at/home/.local/bin"
	done

	begin 'Windows'
	program uname 'echo MINGW64_NT-10.0'
	install --from "$release"
	ends 1
	says 'hint: install it in WSL2'

	begin 'neither curl nor wget'
	install
	ends 1
	says 'error: neither curl nor wget is installed'
	holds "$at/home/.local/bin"

	# In the place of curl and wget it has the files of a release, and notes the address.
	# shellcheck disable=SC2016 # it is a script
	download='for word; do case $word in https://*) address=$word ;; esac; done
while [ "$1" != -o ] && [ "$1" != -O ]; do shift; done
echo "$address" >>"$LOG"
cp "$RELEASE/${address##*/}" "$2"'
	for tool in curl wget; do
		begin "the newest release, by $tool"
		program $tool "$download"
		install
		ends 0
		holds "$at/home/.local/bin" 0.1.0
		grep -qx 'https://github.com/tipstaff/tipstaff/releases/latest/download/checksums.txt' "$at/log" || wrong "it asked for $(cat "$at/log")"
		grep -q '^https://github.com/tipstaff/tipstaff/releases/download/v0.1.0/tipstaff_0.1.0_' "$at/log" || wrong "it asked for $(cat "$at/log")"
		: >"$at/log"
		install --version 0.1.0
		ends 0
		says 'replaced: tipstaff 0.1.0'
		grep -qx 'https://github.com/tipstaff/tipstaff/releases/download/v0.1.0/checksums.txt' "$at/log" || wrong "it asked for $(cat "$at/log")"
	done

	for signal in HUP INT TERM; do
		begin "interrupted by $signal in the middle of a download"
		mkdir -p "$at/home/.local/bin"
		printf '#!/bin/sh\necho tipstaff 0.0.9\n' >"$at/home/.local/bin/tipstaff"
		chmod +x "$at/home/.local/bin/tipstaff"
		program curl "case \"\$*\" in *.tar.gz) kill -$signal \$PPID; exit 23 ;; esac
$download"
		install
		[ "$code" -gt 128 ] || wrong "it ended with $code"
		holds "$at/home/.local/bin" 0.0.9
	done

	begin 'an older version that is there'
	install --from "$release"
	install --from "$base/newer"
	ends 0
	says 'replaced: tipstaff 0.1.0'
	holds "$at/home/.local/bin" 0.2.0

	begin 'a program that does not start here'
	install --from "$release"
	pack "$at/release" 0.2.0 "#!/nowhere/sh"
	install --from "$at/release"
	ends 1
	says 'does not run on this system'
	holds "$at/home/.local/bin" 0.1.0

	begin 'a folder in its place'
	mkdir -p "$at/home/.local/bin/tipstaff"
	install --from "$release"
	ends 1
	says 'is a folder'

	begin 'a folder that cannot be made'
	echo >"$at/file"
	install --from "$release" --dir "$at/file/bin"
	ends 1
	says 'choose a folder of your own'

	begin 'http to another machine'
	install --from http://example.com/tipstaff
	ends 1
	says 'is not encrypted'

	begin 'a flag that is not there'
	install --prefix /opt
	ends 1
	says 'error: install.sh has no flag --prefix'
	install --dir
	ends 1
	says 'error: --dir needs a value'

	begin 'help'
	install --help
	ends 0
	for flag in --dir --version --from --key --help TIPSTAFF_DIR TIPSTAFF_VERSION TIPSTAFF_FROM TIPSTAFF_KEY; do says "$flag"; done

	begin 'half of the script'
	head -c 6000 "$base/install.sh" >"$at/half"
	code=0
	# shellcheck disable=SC2086
	env -i HOME="$at/home" PATH="$tools" $shell "$at/half" --from "$release" >"$at/out" 2>"$at/err" || code=$?
	holds "$at/home"

	if [ "${SERVER-}" ] && curl=$(command -v curl || command -v wget); then
		begin 'a server on this machine'
		mkdir "$at/bin"
		ln -s "$curl" "$at/bin/"
		path=$at/bin:$tools
		cp "$release"/* "${SERVED:?the folder that is served at SERVER}"
		install --from "$SERVER/"
		ends 0
		holds "$at/home/.local/bin" 0.1.0
		install --from "$SERVER/nothing"
		ends 1
		says 'checksums.txt cannot be had'
		holds "$at/home/.local/bin" 0.1.0
	else
		echo 'skipped: over HTTP, for SERVER is not set or neither curl nor wget is installed'
	fi
}

for shell in "${@:-sh}"; do
	cases
	rm -rf "$base"/case-*
done
[ "$failed" = 0 ] && echo "install.sh: as it should be, under ${*:-sh}"
