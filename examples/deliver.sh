#!/bin/sh
# Makes a small repository to try a delivery in: deliver.sh FOLDER.
set -eu
folder=${1:?a folder that is not there yet}
mkdir "$folder"
cp "$(dirname "$0")"/deliver/* "$folder"
cd "$folder"
echo .tipstaff >.gitignore
git init -q
git add .
git -c user.name=Ada -c user.email=ada@example.com commit -q -m "A greeting"
