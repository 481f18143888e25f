#!/usr/bin/env bash
# make.sh BINARY FOLDER freezes a store in Postgres with a binary: store.sql.bz2, a dump in
# plain SQL; workspace.tar.bz2, the workspace with the keys, and with the effects that its
# runs have had; and frozen.txt, which lists for each run the word store, its name, id, last
# seq, head, and the SHA-256 of its records as an export has them. What must hold of them is
# written by hand, in FOLDER/manifest.yaml.
#
#	scripts/postgres.sh test/golden/postgres/make.sh bin/tipstaff test/golden/postgres/v2
#
# Everything happens in namespaces of its own, in /mnt on a host called golden, so that
# nothing of the machine gets into the files. It needs Linux, the client programs of
# Postgres, bzip2, and root or unprivileged user namespaces.
set -euo pipefail

if [ "${1-}" != --inside ]; then
	[ $# -eq 2 ] || { echo "usage: make.sh BINARY FOLDER" >&2; exit 2; }
	[ -x "$1" ] || { echo "there is no program $1: make build makes bin/tipstaff" >&2; exit 2; }
	[ "${TIPSTAFF_POSTGRES-}" ] || { echo "TIPSTAFF_POSTGRES names no server: start this with scripts/postgres.sh" >&2; exit 2; }
	if [ -e "$2" ] && [ -n "$(ls -A "$2")" ]; then
		echo "$2 is not empty: what is frozen is never made again; name a new folder" >&2
		exit 2
	fi
	mkdir -p "$2"
	exec unshare --map-root-user --uts --mount --pid --fork --kill-child --mount-proc -- \
		env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/mnt/home TMPDIR=/mnt LANG=C TZ=UTC TIPSTAFF_TRUST=1 SERVER="$TIPSTAFF_POSTGRES" \
		bash "$0" --inside "$(realpath "$1")" "$(realpath "$2")" "$(realpath "$(dirname "$0")")"
fi

dest=$3 here=$4
schema=goldenfrozen # which the test replaces by a name of its own
hostname golden
mount -t tmpfs golden /mnt
mkdir /mnt/home
cp "$2" /mnt/tipstaff
echo 00000000-0000-4000-8000-000000000000 >/mnt/boot_id
mount --bind /mnt/boot_id /proc/sys/kernel/random/boot_id
export TIPSTAFF_STORE="$SERVER?search_path=$schema"
cp -R "$here/src" /mnt/workspace
cd /mnt/workspace
mkdir effects out

die() {
	echo "make.sh: $*" >&2
	tail -qn 3 /mnt/out /mnt/err | cut -c 1-900 >&2
	exit 1
}

# id prints the run that a command with --json speaks of.
id() { grep -oE '"run(_id)?":"[0-9A-Z]{26}"' "$1" | head -1 | grep -oE '[0-9A-Z]{26}'; }

# does CODE ARG… runs the command, which must exit so. The run it spoke of is $run.
does() {
	local want=$1 got=0
	shift
	/mnt/tipstaff "$@" --json </dev/null >/mnt/out 2>/mnt/err || got=$?
	[ "$got" -eq "$want" ] || die "tipstaff $*: exit code $got, not $want"
	run=$(id /mnt/out) || true
}

# start NAME CODE ARG… is does for a command that starts a run, and gives it a name.
start() {
	local called=$1
	shift
	does "$@"
	[ -n "$run" ] || die "$called: there is no run to be named"
	echo "$called $run" >>/mnt/names
}

# begin NAME ARG… starts a run that is to be killed in an effect called slow.
begin() {
	local called=$1
	shift
	/mnt/tipstaff "$@" --json </dev/null >"/mnt/out.$called" 2>/mnt/err &
	pids+=" $!"
	begun+=" $called"
}
pids= begun=

sql() { psql -XAtq -v ON_ERROR_STOP=1 -d "$SERVER" -c "SET search_path = $schema" -c "$1"; }

start finished 4 run plan.yaml --input run=finished --unattended
does 0 decide "$run" root/ok approve
does 0 resume "$run" --unattended
start parked 4 run plan.yaml --input run=parked --unattended
start decided 4 run plan.yaml --input run=decided --unattended
does 0 decide "$run" root/ok approve
start expired 4 run brief.yaml --input run=expired --unattended
start loop 4 run loop.yaml --input run=loop --unattended
does 0 decide "$run" 'critic#2/handoff' continue
does 0 resume "$run" --unattended
start handoff 4 run loop.yaml --input run=handoff --unattended
start quick 0 chat 'mark quick'
grep -oE '"session":"[0-9A-Z]{26}"' /mnt/out | tail -1 | grep -oE '[0-9A-Z]{26}' >session
begin once run once.yaml --input run=once --unattended
begin stages run stages.yaml --input run=stages --unattended
begin turn chat 'mark turn'
for killed in $begun; do
	for _ in $(seq 1000); do
		! grep -qsx slow "effects/$killed" || break
		sleep 0.02
	done
	grep -qsx slow "effects/$killed" || die "$killed has not begun"
done
kill -9 $pids
wait $pids 2>/dev/null || true
for killed in $begun; do
	run=$(id "/mnt/out.$killed") || die "$killed has not begun"
	echo "$killed $run" >>/mnt/names
done
touch go

while read -r called run; do
	of="FROM records WHERE run = (SELECT n FROM runs WHERE id = '$run')"
	sum=$(sql "SELECT convert_from(bytes, 'UTF8') $of ORDER BY seq" | sha256sum | cut -d' ' -f1)
	last=$(sql "SELECT seq || ' sha256:' || encode(hash, 'hex') $of ORDER BY seq DESC LIMIT 1")
	echo "store $called $run $last sha256:$sum" >>"$dest/frozen.txt"
done </mnt/names
[ "$(sql 'SELECT count(*) FROM runs')" -eq "$(wc -l </mnt/names)" ] || die 'a run has no name'
# As statements that any client can send, without the two commands that are psql's alone.
pg_dump --schema=$schema --no-owner --no-privileges --inserts --rows-per-insert=100 -d "$SERVER" >/mnt/dump.sql
sed -E '/^\\(un)?restrict /d' /mnt/dump.sql | bzip2 -9 >"$dest/store.sql.bz2"
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -C /mnt/workspace -cf - . | bzip2 -9 >"$dest/workspace.tar.bz2"
