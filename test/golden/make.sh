#!/usr/bin/env bash
# make.sh BINARY FOLDER makes the generation that FOLDER is named after, with a binary and
# the commands of src/GENERATION.sh: one archive for each workspace, exports.tar.bz2, and
# frozen.txt, which lists for each run its workspace, name, id, last seq, head, and the
# SHA-256 of its records as an export has them. What must hold of them is written by hand,
# in FOLDER/manifest.yaml.
#
# Everything happens in namespaces of its own, in /tmp/golden on a host called golden,
# so that nothing of the machine gets into the archives. It needs Linux, sqlite3, git,
# bzip2, go, and root or unprivileged user namespaces.
set -euo pipefail

if [ "${1-}" != --inside ]; then
	[ $# -eq 2 ] || { echo "usage: make.sh BINARY FOLDER" >&2; exit 2; }
	[ -x "$1" ] || { echo "there is no program $1: make build makes bin/tipstaff" >&2; exit 2; }
	here=$(realpath "$(dirname "$0")")
	generation=$(basename "$2")
	[ -f "$here/src/$generation.sh" ] || { echo "there is no src/$generation.sh: it has the commands that make $2" >&2; exit 2; }
	if [ -e "$2" ] && [ -n "$(ls -A "$2")" ]; then
		echo "$2 is not empty: a generation is never made again; name a new folder" >&2
		exit 2
	fi
	mkdir -p "$2" /tmp/golden
	client=$(mktemp)
	(cd "$here" && CGO_ENABLED=0 go build -trimpath -o "$client" ./client)
	status=0
	unshare --map-root-user --uts --mount --pid --fork --kill-child --mount-proc -- \
		env -i PATH="$PATH" HOME=/tmp/golden TMPDIR=/tmp/golden LANG=C TZ=UTC TIPSTAFF_TRUST=1 \
		bash "$0" --inside "$(realpath "$1")" "$(realpath "$2")" "$here" "$generation" "$client" || status=$?
	rm "$client"
	rmdir /tmp/golden
	exit $status
fi

dest=$3 here=$4 generation=$5
hostname golden
mount -t tmpfs golden /tmp/golden
cp "$2" /tmp/golden/tipstaff
install "$6" /tmp/golden/client
echo 00000000-0000-4000-8000-000000000000 >/tmp/golden/boot_id
mount --bind /tmp/golden/boot_id /proc/sys/kernel/random/boot_id
tipstaff=/tmp/golden/tipstaff client=/tmp/golden/client

die() {
	echo "make.sh: $ws: $*" >&2
	tail -qn 1 /tmp/golden/out /tmp/golden/err | cut -c 1-600 >&2
	exit 1
}

# workspace NAME enters a new workspace with the documents of src/GENERATION/NAME.
workspace() {
	ws=$1
	cp -R "$here/src/$generation/$ws" /tmp/golden/
	cp "$here/src/mark.sh" "/tmp/golden/$ws/"
	cd "/tmp/golden/$ws"
	mkdir -p effects out
	: >/tmp/golden/names
}

# id prints the run that a command with --json speaks of.
id() { grep -oE '"run(_id)?":"[0-9A-Z]{26}"' "$1" | head -1 | grep -oE '[0-9A-Z]{26}'; }

# does CODE ARG… runs the command, which must exit so. The run it spoke of is $run.
does() {
	local want=$1 got=0
	shift
	"$tipstaff" "$@" --json </dev/null >/tmp/golden/out 2>/tmp/golden/err || got=$?
	[ "$got" -eq "$want" ] || die "tipstaff $*: exit code $got, not $want"
	run=$(id /tmp/golden/out) || true
}

# name NAME gives the run of the last command a name under which it is listed.
name() {
	[ -n "$run" ] || die "$1: there is no run to be named"
	echo "$1 $run" >>/tmp/golden/names
}

# start NAME CODE ARG… is does and name, for a command that starts a run.
start() {
	local called=$1
	shift
	does "$@"
	name "$called"
}

# children NAME… names the children of the last named run, in order.
children() {
	does 0 show "$run"
	local ids
	ids=$(grep -oE '"children":\[[^]]*\]' /tmp/golden/out | grep -oE '[0-9A-Z]{26}') || die 'there are no children'
	for run in $ids; do
		name "$1"
		shift
	done
}

# begin NAME ARG… starts a command that is to be killed; it is $pid.
begin() {
	local called=$1
	shift
	"$tipstaff" "$@" --json </dev/null >"/tmp/golden/out.$called" 2>/tmp/golden/err &
	pid=$!
	pids+=" $pid"
	begun+=" $called"
}

# eventually COMMAND… waits for a command to succeed.
eventually() {
	for _ in $(seq 500); do
		if "$@"; then return; fi
		sleep 0.02
	done
	die "waited in vain for $*"
}

# until_marked RUN WORD waits until a run has had an effect; until_told NAME TEXT until
# a command has printed something. has_event RUN KIND says whether a run has such a record.
until_marked() { eventually grep -qsx "$2" "effects/$1"; }
until_told() { eventually grep -qs "$2" "/tmp/golden/out.$1"; }
has_event() { "$tipstaff" events "$1" --json | grep -q "\"kind\":\"$2\""; }

# killed ends what was begun with kill -9, all at one time, and names the runs.
killed() {
	kill -9 $pids
	wait $pids 2>/dev/null || true
	for called in $begun; do
		run=$(id "/tmp/golden/out.$called") || die "$called has not begun"
		name "$called"
	done
	pids= begun=
}
pids= begun=

# serving FLAG… starts a daemon, which is $daemon, at two sockets; stopped stops it. http
# ARG… is curl at its HTTP socket, with $server in the place of an address.
serving() {
	"$tipstaff" serve --addr unix:/tmp/golden/http --grpc-addr unix:/tmp/golden/grpc "$@" </dev/null >/tmp/golden/served 2>&1 &
	daemon=$!
	eventually ready
}
ready() { http -o /dev/null "$server/readyz" 2>/dev/null; }
stopped() {
	kill "$daemon"
	wait "$daemon" || die 'the daemon did not stop well'
}
http() { curl -sS --fail-with-body --unix-socket /tmp/golden/http -H 'Content-Type: application/json' "$@"; }
server=http://localhost

# gate prints the key of the gate that the last run waits at.
gate() { "$tipstaff" show "$run" --json | grep -oE '"key":"[^"]*"' | head -1 | cut -d'"' -f4; }

# exported NAME… exports runs.
exported() {
	mkdir -p "/tmp/golden/exports/keys/$ws"
	cp .tipstaff/keys/*.pub "/tmp/golden/exports/keys/$ws/"
	for called in "$@"; do
		does 0 export "$(sed -n "s/^$called //p" /tmp/golden/names)" "/tmp/golden/exports/$ws-$called"
	done
}

archive() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -C "$1" -cf - . | bzip2 -9 >"$dest/$2.tar.bz2"; }

# freeze packs the workspace, and lists its runs from a copy of the database: opening
# the store with the command would write to it. A gate that is open stays so, or has
# expired. With lean the files of envelopes are
# left out, which the next command writes again from the store.
freeze() {
	rm -rf .tipstaff/backups .tipstaff/tipstaff.db-shm
	[ "${1-}" != lean ] || rm -rf .tipstaff/journal
	archive . "$ws"
	cp .tipstaff/tipstaff.db* /tmp/golden/
	local soon now="strftime('%s', 'now')"
	soon=$(sqlite3 /tmp/golden/tipstaff.db "SELECT group_concat(key) FROM gates WHERE decided = 0 AND expires_at / 1000000000 BETWEEN $now + 10 AND $now + 1000000000")
	[ -z "$soon" ] || die "gates that are open will expire: $soon"
	while read -r called run; do
		local of="FROM records WHERE run = (SELECT n FROM runs WHERE id = '$run')"
		sum=$(sqlite3 /tmp/golden/tipstaff.db "SELECT CAST(bytes AS TEXT) $of ORDER BY seq" | sha256sum | cut -d' ' -f1)
		last=$(sqlite3 -separator ' ' /tmp/golden/tipstaff.db "SELECT seq, 'sha256:' || lower(hex(hash)) $of ORDER BY seq DESC LIMIT 1")
		echo "$ws $called $run $last sha256:$sum" >>"$dest/frozen.txt"
	done </tmp/golden/names
	[ "$(sqlite3 /tmp/golden/tipstaff.db 'SELECT count(*) FROM runs')" -eq "$(wc -l </tmp/golden/names)" ] || die 'a run has no name'
	rm -f /tmp/golden/tipstaff.db*
}

. "$here/src/$generation.sh"

ws=exports
archive /tmp/golden/exports exports
