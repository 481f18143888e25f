mkdir -p .github/workflows
echo 'on: push' >.github/workflows/ci.yml
ln -s /etc/hostname name
echo '#!/bin/sh' >tool
chmod +x tool
echo raw >left.log
git add -f left.log
