#!/usr/bin/env bash
# The Python package: its generated code, its types, its tests against the binary.
#
#   python.sh generate   writes the code of the wire anew
#   python.sh check      that code is what the definitions say
#   python.sh test       types, and the tests, which start bin/tipstaff
#
# What these need is installed by pip, in the exact versions of python/requirements.txt,
# into .cache/python. With --or-skip a machine that cannot install it has failed nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$PWD/python/requirements.txt
cache=$PWD/.cache/python
bin=$cache/bin
least='3, 10' # what pyproject.toml requires

fault() {
	printf 'fault: %s\n' "$*" >&2
	exit 1
}

# cannot ends the script: as a failure, or as something that was not done.
cannot() {
	if [ "${or_skip-}" ]; then
		printf '%s: the Python package was skipped\n' "$1"
		exit 0
	fi
	fault "$1: without it nothing can be said of the Python package"
}

installed() { cmp -s "$wanted" "$cache/installed.txt" && "$bin/python" -c '' 2>/dev/null; }

# index_answers asks for one small package, and does not wait long for the reply.
index_answers() {
	local there
	there=$(mktemp -d)
	"$bin/pip" download --quiet --no-deps --retries 0 --timeout 15 --dest "$there" iniconfig==2.3.1 >/dev/null 2>&1 || { rm -rf "$there" && return 1; }
	rm -rf "$there"
}

install() {
	python3 -c "import sys, venv, ensurepip; sys.exit(sys.version_info < ($least))" 2>/dev/null || cannot "there is no Python ${least/, /.} with venv"
	rm -rf "$cache"
	python3 -m venv "$cache"
	index_answers || cannot 'no package index answers'
	"$bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --requirement "$wanted"
	cp "$wanted" "$cache/installed.txt"
}

# generate writes everything that is made from definitions below a folder.
generate() {
	local protoc=("$bin/python" -m grpc_tools.protoc "--python_out=$1" "--pyi_out=$1")
	"${protoc[@]}" -Ipb "--grpc_python_out=$1" "--plugin=protoc-gen-mypy_grpc=$bin/protoc-gen-mypy_grpc" "--mypy_grpc_out=quiet:$1" tipstaff/core/v1/core.proto
	"${protoc[@]}" -Ipython/proto tipstaff/status.proto
}

check() {
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	generate "$fresh"
	local file
	while IFS= read -r file; do
		cmp -s "$fresh/$file" "python/src/$file" || fault "python/src/$file is not what the definitions make: make generate"
	done < <(cd "$fresh" && find . -type f; cd "$OLDPWD/python/src" && find . -name '*_pb2*.py*' -not -path '*/__pycache__/*')
}

# run_tests tries the package as it is installed, not as it lies here.
run_tests() {
	[ -x bin/tipstaff ] || fault 'bin/tipstaff is not there: make build'
	"$bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall ./python
	cd python
	"$bin/mypy" --cache-dir "$cache/mypy"
	"$bin/python" -m pytest -q -o cache_dir="$cache/pytest"
}

task=
for word in "$@"; do
	case $word in
	--or-skip) or_skip=yes ;;
	generate | check | test) task=$word ;;
	*) fault 'usage: python.sh generate|check|test [--or-skip]' ;;
	esac
done
[ "$task" ] || fault 'usage: python.sh generate|check|test [--or-skip]'

installed || install
case $task in
generate) generate python/src ;;
check) check ;;
test) run_tests ;;
esac
