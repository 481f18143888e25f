#!/bin/sh
# Stands for whatever must not happen twice: a payment, a mail, a deployment.
# Each start leaves a line in outbox.log; then it takes the given seconds.
seconds=${1:-0}
[ $# -gt 0 ] && shift
echo "posted ${*:-a letter}" >>outbox.log
sleep "$seconds"
