#!/usr/bin/env bash
# Runs a command beside a Postgres server of its own, which listens on loopback and ends with
# it: scripts/postgres.sh COMMAND... TIPSTAFF_POSTGRES is the server's address. With
# --or-skip before the command a machine without Postgres has failed nothing.
set -euo pipefail
if [ "${1-}" = --or-skip ]; then
	or_skip=yes
	shift
fi

# cannot ends the script: as a failure, or as tests that were not run.
cannot() {
	if [ "${or_skip-}" ]; then
		printf '%s: the tests with a Postgres server are skipped\n' "$1"
		exit 0
	fi
	printf '%s: the tests with a Postgres server cannot be run\n' "$1" >&2
	exit 1
}

bin=$(find /usr/lib/postgresql -maxdepth 3 -path '*/bin/initdb' 2>/dev/null | sort -V | tail -1)
bin=${bin:-$(command -v initdb || true)}
[ "$bin" ] || cannot 'postgresql is not installed'
bin=$(dirname "$bin")
as=()
if [ "$(id -u)" = 0 ]; then # which Postgres refuses to be
	id postgres >/dev/null 2>&1 || cannot 'there is no user postgres'
	as=(runuser -u postgres --)
fi

dir=$(mktemp -d)
stop() {
	"${as[@]}" "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap stop EXIT
[ ${#as[@]} = 0 ] || chown postgres "$dir"
cd "$dir"
"${as[@]}" "$bin/initdb" -D "$dir/data" -A trust -U tipstaff -E UTF8 --locale=C.UTF-8 --no-sync >"$dir/initdb.log" 2>&1 || cannot "initdb: $(tail -1 "$dir/initdb.log")"
for _ in 1 2 3 4 5; do # a port may be taken meanwhile
	port=$((20000 + RANDOM % 12000))
	if "${as[@]}" "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w -t 30 -o "-p $port -c listen_addresses=127.0.0.1 -c max_connections=300 -k $dir" start >/dev/null 2>&1; then
		started=yes
		break
	fi
done
[ "${started-}" ] || cannot "postgres: $(tail -1 "$dir/log")"
cd "$OLDPWD"
TIPSTAFF_POSTGRES_BIN="$bin" TIPSTAFF_POSTGRES="postgres://tipstaff@127.0.0.1:$port/postgres" "$@"
