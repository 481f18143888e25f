#!/usr/bin/env bash
# What make test leaves out because it needs a registry, a server, a second binary or a module of
# its own, or compiles things anew: figures of the release, the types on a Mac, the memory on a
# machine of 32 bits, real projects with what they install, the Python package, gRPC clients of
# others, MCP servers of others, the SDKs of vendors, coding CLIs, the newest git, the control plane
# with programs of others, the web page in a browser, the stores and engines of more than one
# machine, CUE, a release. With --changed only what the changed files (scripts/changed.sh) concern; tests that
# make test runs concern nothing here.
set -euo pipefail
cd "$(dirname "$0")/.."
export GO=${GO:-go}
if [ "${1-}" = --changed ]; then
	only_changed=yes
	changed=$(scripts/changed.sh | sed -n '/^test\/\|^postgres\/\|^temporal\//{p;d}; /_test\.go$/d; p')
fi

# concerned WHAT PATTERN reports whether a part is to be run, and says so.
concerned() {
	if [ ! "${only_changed-}" ] || grep -qE "$2" <<<"$changed"; then
		printf 'more: %s\n' "$1"
	else
		printf 'skipped: %s: no file changed that matters to it; make test-more runs it\n' "$1"
		return 1
	fi
}

if concerned 'figures of the release' '^(go\.mod|cmd/bench/.*)$'; then
	TIPSTAFF_MORE=1 CGO_ENABLED=0 "$GO" test -trimpath -run '^TestEveryFigure' ./cmd/bench
fi
if concerned 'types on a Mac' '^go\.mod$|^systems_test\.go$|^(cli|sqlite|supervisor)/.*\.go$|_(linux|darwin|unix|bsd|other)\.go$'; then
	TIPSTAFF_MORE=1 CGO_ENABLED=0 "$GO" test -trimpath -run '^TestOtherSystems$' .
fi
if concerned 'the memory on 32 bits' '^(cortex/.*|scripts/arch\.sh)$'; then
	scripts/arch.sh
fi
if concerned 'real projects with set-ups' '^delivery/[^/]*\.go$|^runner/files\.go$'; then
	make test-projects
fi
if concerned 'the Python package' '^python/|^workspace/starter/agents\.py$|^pb/.*\.proto$|^rpc/|^scripts/python\.sh$'; then
	make build
	scripts/python.sh test --or-skip
fi
if concerned 'gRPC clients of others' '^(rpc|test/grpc)/|^pb/.*\.proto$|^scripts/rpc\.sh$'; then
	make test-rpc
fi
if concerned 'MCP servers of others' '^tool/[^/]*\.go$|^test/mcp/|^scripts/mcp\.sh$'; then
	scripts/mcp.sh --or-skip
	if [ "$(cat .cache/mcp/there)" ]; then make test-mcp; fi
fi
if concerned 'SDKs of vendors' '^(provider|test/referee)/'; then
	make test-vendor
fi
if concerned 'coding CLIs' '^(worker|process|test/clis)/|^delivery/[^/]*\.go$|^cmd/tipstaff/(worker|performer)[a-z_]*\.go$|^scripts/clis\.sh$|^examples/demo-cli\.sh$'; then
	scripts/clis.sh --or-skip
	if [ "$(cat .cache/clis/there)" ]; then make test-clis; fi
fi
if concerned 'the newest git' '^delivery/[^/]*\.go$|^process/git\.go$|^scripts/git\.sh$'; then
	scripts/git.sh --or-skip env CGO_ENABLED=0 "$GO" test -trimpath -count=1 -timeout 20m -short ./delivery
fi
if concerned 'the control plane' '^(mcpserver|test/control)/|^web/[^/]*\.go$|^(control|submit)[a-z_]*\.go$|^scripts/control\.sh$'; then
	scripts/control.sh --or-skip
	if [ "$(cat .cache/control/there)" ]; then make test-control; fi
fi
if concerned 'the web page' '^web/page/.*\.(html|css|m?js|svg)$|^test/page/browser/|^scripts/web\.sh$'; then
	scripts/web.sh --or-skip
	if [ "$(cat .cache/web/there)" ]; then make test-web; fi
fi
if concerned 'the store over Postgres' '^(postgres|store)/[^/]*\.(go|sql)$|^store/storetest/|^scripts/postgres\.sh$'; then
	scripts/postgres.sh --or-skip "$GO" test -count=1 -shuffle=on -timeout 40m -short ./postgres
fi
if concerned 'servers that share a store, while things fail' '^test/scale/|^postgres/[^/]*\.(go|sql)$'; then
	make build
	TIPSTAFF_BINARY=$PWD/bin/tipstaff scripts/postgres.sh --or-skip env CGO_ENABLED=0 "$GO" test -trimpath -count=1 -timeout 40m -short ./test/scale
fi
if concerned 'two versions on one store' '^(sqlite|postgres|store)/[^/]*\.(go|sql)$|^(sqlite|postgres)/migrations/|^scripts/versions\.sh$'; then
	make build
	TIPSTAFF_BINARY=$PWD/bin/tipstaff scripts/versions.sh --or-skip env CGO_ENABLED=0 "$GO" test -trimpath -count=1 -timeout 20m -run '^TestVersionsShareAStore$/folder' ./cmd/tipstaff
	TIPSTAFF_BINARY=$PWD/bin/tipstaff scripts/versions.sh --or-skip scripts/postgres.sh --or-skip env CGO_ENABLED=0 "$GO" test -trimpath -count=1 -timeout 20m -run '^TestVersionsShareAStore$/database' ./cmd/tipstaff
fi
if concerned 'payloads in an S3 bucket' '^store/bucket/|^postgres/(blob|bucket)[a-z_]*\.go$|^scripts/s3\.sh$'; then
	scripts/postgres.sh --or-skip scripts/s3.sh --or-skip "$GO" test -count=1 -shuffle=on -timeout 10m -short -run 'Blob|Object|Bucket|S3|SetUp|Credentials' ./store/bucket ./postgres
fi
if concerned 'runs that Temporal schedules' '^temporal/|^runner/pool\.go$|^cmd/tipstaff/engine[a-z_]*\.go$|^scripts/temporal\.sh$'; then
	scripts/temporal.sh --or-skip "$GO" test -count=1 -shuffle=on -timeout 15m ./temporal
	make build
	TIPSTAFF_BINARY=$PWD/bin/tipstaff scripts/temporal.sh --or-skip scripts/postgres.sh --or-skip "$GO" test -count=1 -timeout 15m -run Engine ./cmd/tipstaff
fi
if concerned 'a release' '^(\.goreleaser\.yaml|install\.sh|scripts/release\.sh|deploy/tipstaff\.service|test/licenses/.*|cmd/tipstaff/version\.go|cli/man\.go)$'; then
	scripts/release.sh snapshot --or-skip
fi
if concerned 'the schema of tasks' '^(go\.mod$|schema/|task.*\.go$|worker/[^/]*\.go$|test/cue/)'; then
	make test-schema
fi
