#!/usr/bin/env bash
# make.sh BINARY FOLDER freezes whole folders with a binary: of each one archive with the
# user's repository and its .tipstaff, and with the home in which worktrees, sessions of a
# CLI and the CLI itself lie; and frozen.txt, which lists for each run its folder, name, id,
# last seq, head, and the SHA-256 of its records as an export has them. What must hold of
# them is written by hand, in FOLDER/manifest.yaml.
#
# Everything happens in namespaces of its own, in /mnt on a host called golden, so that
# nothing of the machine gets into the archives and a test can put them where they were. It
# needs Linux, git, sqlite3, bzip2, and root or unprivileged user namespaces.
set -euo pipefail

if [ "${1-}" != --inside ]; then
	[ $# -eq 2 ] || { echo "usage: make.sh BINARY FOLDER" >&2; exit 2; }
	[ -x "$1" ] || { echo "there is no program $1: make build makes bin/tipstaff" >&2; exit 2; }
	if [ -e "$2" ] && [ -n "$(ls -A "$2")" ]; then
		echo "$2 is not empty: what is frozen is never made again; name a new folder" >&2
		exit 2
	fi
	mkdir -p "$2"
	exec unshare --map-root-user --uts --mount --pid --fork --kill-child --mount-proc -- \
		env -i PATH=/mnt/home/bin:/usr/local/bin:/usr/bin:/bin HOME=/mnt/home TMPDIR=/mnt/tmp LANG=C TZ=UTC TIPSTAFF_TRUST=1 \
		GIT_CONFIG_NOSYSTEM=1 bash "$0" --inside "$(realpath "$1")" "$(realpath "$2")" "$(realpath "$(dirname "$0")")"
fi

dest=$3 here=$4
hostname golden
mount -t tmpfs golden /mnt
mkdir /mnt/tmp
cp "$2" /mnt/tipstaff
echo 00000000-0000-4000-8000-000000000000 >/mnt/boot_id
mount --bind /mnt/boot_id /proc/sys/kernel/random/boot_id

die() {
	echo "make.sh: $folder: $*" >&2
	tail -qn 3 /mnt/out /mnt/err | cut -c 1-900 >&2
	exit 1
}

# folder NAME enters a new folder: a repository with one commit, which is tagged.
folder() {
	folder=$1
	cd /mnt
	rm -rf repo home go trap
	cp -R "$here/src/repo" "$here/src/home" /mnt/
	cd repo
	mkdir effects
	git init -q -b main --template=
	git config user.name Ada
	git config user.email ada@example.com
	git config gc.auto 0
	commit begin
	git tag begin
	: >/mnt/names
}

commit() {
	git add -A
	GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' git commit -q -m "$1"
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

# name NAME gives the run of the last command a name under which it is listed.
name() {
	[ -n "$run" ] || die "$1: there is no run to be named"
	echo "$1 $run" >>/mnt/names
}

# start NAME CODE ARG… is does and name, for a command that starts a run.
start() {
	local called=$1
	shift
	does "$@"
	name "$called"
}

# key prints that of the gate at which a run waits.
key() { /mnt/tipstaff show "$1" --json | grep -oE '"key":"[^"]*"' | head -1 | cut -d'"' -f4; }

# begin NAME ARG… starts a run that is to be killed.
begin() {
	local called=$1
	shift
	/mnt/tipstaff "$@" --json </dev/null >"/mnt/out.$called" 2>/mnt/err &
	pids+=" $!"
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

# killed ends what was begun with kill -9, all at one time, then their workers, and names
# the runs. Nobody but they have TIPSTAFF_RUN_ID in their environment.
killed() {
	kill -9 $pids
	wait $pids 2>/dev/null || true
	eventually nobody_works
	for called in $begun; do
		run=$(id "/mnt/out.$called") || die "$called has not begun"
		name "$called"
	done
	pids= begun=
}
pids= begun=
nobody_works() {
	local process none=0
	for process in /proc/[0-9]*; do
		if { tr "\0" "\n" <"$process/environ"; } 2>/dev/null | grep -q '^TIPSTAFF_RUN_ID='; then
			none=1
			kill -9 "${process#/proc/}" 2>/dev/null || true
		fi
	done
	return $none
}

# freeze packs the folder, and lists its runs from a copy of the database: opening the store
# with the command would write to it.
freeze() {
	rm -rf .tipstaff/backups .tipstaff/tipstaff.db-shm
	rm -f /mnt/home/bin/git # the test has none of its own
	cd /mnt
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -cf - repo home $(ls -d go 2>/dev/null) 2>/mnt/err | bzip2 -9 >"$dest/$folder.tar.bz2"
	cp repo/.tipstaff/tipstaff.db* /mnt/tmp/
	local db=/mnt/tmp/tipstaff.db
	while read -r called run; do
		local of="FROM records WHERE run = (SELECT n FROM runs WHERE id = '$run')"
		sum=$(sqlite3 $db "SELECT CAST(bytes AS TEXT) $of ORDER BY seq" | sha256sum | cut -d' ' -f1)
		last=$(sqlite3 -separator ' ' $db "SELECT seq, 'sha256:' || lower(hex(hash)) $of ORDER BY seq DESC LIMIT 1")
		echo "$folder $called $run $last sha256:$sum" >>"$dest/frozen.txt"
	done </mnt/names
	[ "$(sqlite3 $db 'SELECT count(*) FROM runs')" -eq "$(wc -l </mnt/names)" ] || die 'a run has no name'
	rm -f /mnt/tmp/tipstaff.db*
}

# A run at an open delivery gate, with every kind of change that git knows.
folder delivery
start whole 4 run change.yaml --input what=everything --unattended
freeze

# Gates at which something stands in the way.
folder blocked
start checked 4 run checked.yaml --input what=free --unattended
start narrow 4 run narrow.yaml --input what=free --unattended
start unreleased 4 run unreleased.yaml --input what=free --unattended
freeze

# The user has gone on: a commit, and changes that are not committed.
folder moved
start free 4 run change.yaml --input what=free --unattended
start behind 4 run change.yaml --input what=free --unattended
start mine 4 run change.yaml --input what=mine --unattended
start theirs 4 run change.yaml --input what=theirs --unattended
echo 'theirs, as they have it now' >theirs.txt
commit 'Theirs'
echo 'mine, as I am about to have it' >mine.txt
echo notes >notes.txt
freeze

# Worktrees that were given what a project needs beside its commit, and one that was not.
folder prepared
echo KEY=1 >.env.local
mkdir modules
echo a library >modules/lib.txt
start given 4 run prepared.yaml --input what=free --unattended
start unready 1 run unready.yaml --input what=free --unattended
freeze

# Workers that wait. Gates of reviews stay open for ever; questions, failures and approvals
# of workers expire in a day, so they are frozen decided.
folder parked
start review 4 run reviewed.yaml --input what=review --unattended
start asks 4 run code.yaml --input what=asks --unattended
does 0 decide "$run" "$(key "$run")" answer --answer '"right"'
start leave 4 run careful.yaml --input what=leave --unattended
does 0 decide "$run" "$(key "$run")" allow
does 0 task new --name 'An errand' --worker coder --review person --description errand.md
does 4 task spawn "$(grep -oE '"id":"[0-9]+"' /mnt/out | head -1 | grep -oE '[0-9]+')"
name errand
start breaks 4 run patient.yaml --input what=breaks --unattended
does 0 decide "$run" "$(key "$run")" retry
freeze

# Decided and not yet delivered; or killed when the delivery was done and not recorded.
folder decided
start approved 4 run change.yaml --input what=free --unattended
does 0 decide "$run" 'delivery#1' approve
start applied 4 run change.yaml --input what=mine --unattended
does 0 decide "$run" 'delivery#1' apply
start followed 4 run checked.yaml --input what=free --unattended
does 0 decide "$run" 'delivery#1' fix --feedback 'more please'
run=$(grep -oE '"followup_run_id":"[0-9A-Z]{26}' /mnt/out | grep -oE '[0-9A-Z]{26}$')
name followup
for how in approve apply; do
	start "killed-$how" 4 run change.yaml --input what=theirs --unattended
	does 0 decide "$run" 'delivery#1' $how
	[ $how = apply ] && echo apply >/mnt/trap || echo update-ref >/mnt/trap
	does 137 resume "$run" --unattended
done
freeze

# The runs of killed died together with their workers, and nobody has opened the store since.
folder killed
begin steady run steady.yaml --input what=steady --unattended
begin doubt run code.yaml --input what=doubt --unattended
begin slow run change.yaml --input what=slow --unattended
half_done() { [ "$(cat /mnt/home/.local/state/tipstaff/worktrees/*/{steady,doubt,slow}.txt 2>/dev/null | wc -l)" -eq 3 ]; }
eventually half_done
sleep 0.5 # until what the workers have printed is recorded
killed
touch /mnt/go
freeze
