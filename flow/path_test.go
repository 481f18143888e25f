package flow

import (
	"strings"
	"testing"
)

// The expected digests were computed by another program from the text of the
// rules: name, zero byte, input; kind, zero byte, canonical JSON; run, line feed, path.
func TestDigestsFollowTheirRules(t *testing.T) {
	gate := Gate{Kind: "question", Question: "Go?", Subject: []byte(`{"show":{}}`), Actions: []string{"approve", "deny"}, Deny: "deny"}
	for _, c := range []struct{ name, got, want string }{
		{"call", CallDigest("tool.call", []byte(`{"a":1}`)), "sha256:6644a594c0bad12cbe8a62a8c93ec919dda65d4fa0900152ca6228f4915558a3"},
		{"gate", GateDigest(gate), "sha256:965de44180e99c45a88d350b2bae34a169cbad8f019eb18818721f97055cafe6"},
		{"key in the first segment", IdempotencyKey("01RUN", "root/a", 0), "156c5bd2053d3a65723a38966946eefa883da10208771a7130fcc0dd003718b3"},
		{"key in a later segment", IdempotencyKey("01RUN", "root/a", 2), "ee5a7f62af53fc0d58a3db6c3249d2b29b95b3e48eab05810356692c69443829"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
	if CallDigest("a", []byte(strings.Repeat("x", 600))) == CallDigest("a", []byte(strings.Repeat("x", 601))) {
		t.Error("a long input is not digested whole")
	}
}

func TestReservedSegments(t *testing.T) {
	for segment, want := range map[string]bool{
		"in_doubt": true, "in_doubt#2": true, "bound#1": true, "now#1": true, "sleep#12": true, "go#3": true,
		"bound": false, "now": false, "sleepy": false, "go#x": false, "model#2": false, "approval": false, "": false,
	} {
		if got := reserved(segment); got != want {
			t.Errorf("reserved(%q) is %v", segment, got)
		}
	}
}

func TestPathsJoin(t *testing.T) {
	for _, c := range [][3]string{{"", "critic#3", "critic#3"}, {"root", "", "root"}, {"root", "a", "root/a"}} {
		if got := join(c[0], c[1]); got != c[2] {
			t.Errorf("join(%q, %q) is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
