git config user.name Mallory
git config core.hooksPath .
echo '#!/bin/sh' >"$(git rev-parse --git-dir)/hooks-of-mine"
git tag mine
echo hello >out.txt
