#!/usr/bin/env bash
# Releases, by goreleaser, which is installed into .cache/bin in the version below.
#
#   release.sh snapshot [--or-skip]   what a release of the commit at hand would be, in .cache/release, tried
#   release.sh publish                a draft on GitHub, of a tagged commit, signed with TIPSTAFF_RELEASE_KEY
#   release.sh key FILE               a key pair: the private key in FILE, the public one in install.sh
#
# pages, sbom and sign are called by goreleaser (.goreleaser.yaml).
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
goreleaser_version=v2.16.0
cyclonedx='cyclonedx-python-lib[json-validation]==11.12.0'
cache=$PWD/.cache
goreleaser=$cache/bin/goreleaser

fault() {
	printf 'fault: %s\n' "$*" >&2
	exit 1
}

# cannot ends the script: as a failure, or as something that was not tried.
cannot() {
	if [ "${or_skip-}" ]; then
		printf '%s: the release is not tried\n' "$1"
		exit 0
	fi
	fault "$1"
}

tools() {
	if ! [ -x "$goreleaser" ] || ! "$go" version -m "$goreleaser" | grep -q "goreleaser/v2	$goreleaser_version	"; then
		echo "building goreleaser $goreleaser_version: the first time this takes minutes"
		CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$cache/bin "$go" install -ldflags '-s -w' "github.com/goreleaser/goreleaser/v2@$goreleaser_version" ||
			cannot "goreleaser $goreleaser_version cannot be built"
	fi
}

# referee installs what others say a bill of materials must look like.
referee() {
	if [ "$(cat "$cache/sbom/installed" 2>/dev/null)" != "$cyclonedx" ]; then
		if ! python3 -m venv "$cache/sbom/python" || ! "$cache/sbom/python/bin/pip" install --quiet --disable-pip-version-check "$cyclonedx"; then
			cannot "$cyclonedx cannot be installed"
		fi
		echo "$cyclonedx" >"$cache/sbom/installed"
	fi
}

new_key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt; }
public_key() { openssl pkey -in "$1" -pubout; }

# snapshot_in FOLDER makes a release of the commit at hand in a clone of its own, so that nothing of
# this folder but what is committed is in it.
snapshot_in() {
	rm -rf "$1"
	git clone --quiet --no-hardlinks . "$1"
	(
		cd "$1"
		"$goreleaser" check
		TIPSTAFF_RELEASE_KEY=$key "$goreleaser" release --snapshot --clean --parallelism 1
	)
}

# try looks at what was released, as those do who get it.
try() {
	local dist=$1 archive inside bill
	[ "$(find "$dist" -name 'tipstaff_*.tar.gz' | wc -l)" = 4 ] || fault "there should be four archives in $dist"
	(cd "$dist" && sha256sum --quiet --check checksums.txt) || fault 'a sum is wrong'
	for archive in "$dist"/tipstaff_*.tar.gz; do
		inside=$(basename "$archive" .tar.gz)
		tar -tzf "$archive" >"$cache/listed"
		for file in tipstaff LICENSE README.md tipstaff.service completions/tipstaff.bash completions/_tipstaff completions/tipstaff.fish man/man1/tipstaff.1 man/man1/tipstaff-run.1; do
			grep -qx "$inside/$file" "$cache/listed" || fault "$archive has no $file"
		done
		for bill in "$archive.cdx.json" "$archive"; do
			grep -q " $(basename "$bill")\$" "$dist/checksums.txt" || fault "checksums.txt has no $(basename "$bill")"
		done
	done
	"$cache/sbom/python/bin/python" - "$dist"/*.cdx.json <<-'EOF' || fault 'a bill of materials is not what CycloneDX says'
		import json, pathlib, sys
		from cyclonedx.schema import OutputFormat, SchemaVersion
		from cyclonedx.validation import make_schemabased_validator
		validator = make_schemabased_validator(OutputFormat.JSON, SchemaVersion.V1_6)
		wrong = 0
		for name in sys.argv[1:]:
		    text = pathlib.Path(name).read_text()
		    problem = validator.validate_str(text)
		    if problem:
		        wrong += 1
		        print(name, problem, file=sys.stderr)
		    unlicensed = [c["name"] for c in json.loads(text)["components"] if not c.get("licenses")]
		    print(f"{pathlib.Path(name).name}: {len(json.loads(text)['components'])} components, {len(unlicensed)} without a licence that is known: {', '.join(unlicensed)}")
		# Does the referee object to anything at all?
		broken = json.loads(text)
		broken["components"][0]["type"] = "boat"
		if not validator.validate_str(json.dumps(broken)):
		    sys.exit("the referee passes whatever it is shown")
		sys.exit(wrong)
	EOF

	# As a user: the installer, with the key of this snapshot; then the command, its pages, its completions.
	local home=$cache/release/home
	rm -rf "$home"
	mkdir -p "$home"
	public_key "$key" >"$home/key.pem"
	HOME=$home sh ./install.sh --from "$dist" --key "$home/key.pem" | tee "$home/said"
	grep -qx 'signature: good' "$home/said" || fault 'install.sh has not checked the signature'
	grep -qx 'sum: good' "$home/said" || fault 'install.sh has not checked the sum'
	local bin=$home/.local/bin/tipstaff
	"$bin" version
	[ "$("$bin" version --json | sed 's/.*"commit":"\([0-9a-f]*\)".*/\1/')" = "$(git rev-parse HEAD)" ] || fault 'the binary does not know its commit'
	if "$bin" version --json | grep -q '"modified":true'; then fault 'the binary was built from a tree with changes'; fi
	tar -xzf "$dist"/tipstaff_*_linux_amd64.tar.gz -C "$home"
	if file "$home"/tipstaff_*/tipstaff | grep -q 'dynamically linked'; then fault 'the binary is not static'; fi
	bash -n "$home"/tipstaff_*/completions/tipstaff.bash || fault 'bash cannot read its completions'
	if command -v mandoc >/dev/null; then
		(cd "$home" && mandoc -T lint -W warning tipstaff_*/man/man1/*.1) || fault 'mandoc objects to a manual page'
	elif command -v man >/dev/null; then
		for page in "$home"/tipstaff_*/man/man1/*.1; do
			[ -z "$(LC_ALL=C.UTF-8 man --warnings -l "$page" 2>&1 >/dev/null)" ] || fault "man objects to $page"
		done
	else
		echo 'not tried: manual pages, for neither mandoc nor man is installed'
	fi
}

case ${1-} in
snapshot)
	if [ "${2-}" = --or-skip ]; then or_skip=yes; fi
	command -v openssl >/dev/null || cannot 'openssl is not installed'
	tools
	referee
	mkdir -p "$cache/release"
	key=$cache/release/snapshot.key
	new_key >"$key"
	if [ "$(git status --porcelain)" ]; then echo 'note: what is not committed is not in it'; fi
	snapshot_in "$cache/release/first"
	snapshot_in "$cache/release/second/elsewhere"
	first=$cache/release/first/.cache/dist second=$cache/release/second/elsewhere/.cache/dist
	cmp "$first/checksums.txt" "$second/checksums.txt" || fault 'the same commit has made two different releases'
	rm -rf "$cache/release/second"
	try "$first"
	rm -rf "$cache/release/dist"
	mv "$first" "$cache/release/dist"
	rm -rf "$cache/release/first" "$cache/release/home"
	echo 'two releases of the commit are the same, byte by byte:'
	(cd "$cache/release/dist" && ls -l -- *.tar.gz *.json checksums.txt*)
	;;
publish)
	: "${TIPSTAFF_RELEASE_KEY:?the file with the private key of the releases}"
	[ -z "$(git status --porcelain)" ] || fault 'there are changes that are not committed'
	git describe --exact-match --tags HEAD >/dev/null 2>&1 || fault 'the commit has no tag: git tag v0.1.0'
	grep -qF -- "$(public_key "$TIPSTAFF_RELEASE_KEY" | sed -n 2p)" install.sh || fault "install.sh has another public key: whoever installs the release with it would be refused (scripts/release.sh key FILE)"
	tools
	"$goreleaser" release --clean
	;;
key)
	[ "${2-}" ] || fault 'say where the private key goes: scripts/release.sh key FILE'
	[ ! -e "$2" ] || fault "$2 is there already"
	(umask 077 && new_key >"$2")
	public_key "$2" >"$2.pub"
	awk -v file="$2.pub" "/^key='/ { printf \"key='\"; n = 0; while ((getline line <file) > 0) printf \"%s%s\", n++ ? \"\\n\" : \"\", line; print \"'\"; skip = !/^key='.*'\$/; next }
		skip { if (/'\$/) skip = 0; next } { print }" install.sh >"$2.install"
	cat "$2.install" >install.sh
	rm "$2.install" "$2.pub"
	printf 'the private key is in %s: keep it where the releases are made, and nowhere else\nthe public key is in install.sh: commit it\n' "$2"
	;;
pages)
	mkdir -p "$cache/pages/completions"
	rm -rf "$cache/pages/man"
	bin=$cache/pages/tipstaff
	CGO_ENABLED=0 "$go" build -trimpath -buildvcs=true -ldflags "-s -w -X main.version=${2:?the version}" -o "$bin" ./cmd/tipstaff
	"$bin" completion bash >"$cache/pages/completions/tipstaff.bash"
	"$bin" completion zsh >"$cache/pages/completions/_tipstaff"
	"$bin" completion fish >"$cache/pages/completions/tipstaff.fish"
	"$bin" man "$cache/pages/man"
	;;
sbom)
	# goreleaser names files below the folder that it was started in.
	cd .cache/dist
	archive=$(realpath "$2") bill=$(realpath "$3")
	cd ../..
	CGO_ENABLED=0 GOFLAGS=-trimpath "$go" run ./test/licenses -sbom "$bill" "$archive" tipstaff
	;;
sign)
	openssl dgst -sha256 -sign "${TIPSTAFF_RELEASE_KEY:?the file with the private key}" "$2" | openssl base64 -A >"$3"
	;;
*) fault 'release.sh snapshot, publish or key FILE' ;;
esac
