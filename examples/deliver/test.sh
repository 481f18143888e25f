set -e
test "$(sh greet.sh)" = "Hello!"
