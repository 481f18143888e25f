package tipstaff

import (
	"testing"
	"time"
)

func TestAskerPath(t *testing.T) {
	for _, c := range []struct {
		kind      GateKind
		key, want string
	}{
		{InDoubt, "root/go/in_doubt", "root/go"},
		{InDoubt, "root/go/in_doubt#2", "root/go"},
		{Bound, "root/go/bound#1", "root/go"},
		{Approval, "root/go/approval", "root/go"},
		{Bound, "critic#3/tool#2.1/bound", "critic#3/tool#2.1"},
		{Question, "root/go/failure#2", "root/go"},
		{Question, "root/ok", "root/ok"},
		{Question, "root/approval", "root/approval"}, // a gate node of that name
		{Question, "root/bound/ok", "root/bound/ok"},
		{Approval, "root/approvals", "root/approvals"},
		{InDoubt, "root/in_doubt-2", "root/in_doubt-2"},
		{Handoff, "critic#3/handoff", "critic#3/handoff"},
		{Question, "root", "root"},
		{Bound, "bound", "bound"}, // there is nothing above it
		{Question, "", ""},
	} {
		if got := AskerPath(c.kind, c.key); got != c.want {
			t.Errorf("AskerPath(%s, %q) = %q, want %q", c.kind, c.key, got, c.want)
		}
	}
}

func TestGateExpires(t *testing.T) {
	g := Gate{ExpiresAt: dawn}
	for _, c := range []struct {
		gate Gate
		now  time.Time
		want bool
	}{
		{g, dawn.Add(-1), false},
		{g, dawn, true},
		{g, dawn.Add(time.Hour), true},
		{Gate{}, dawn.AddDate(100, 0, 0), false},
	} {
		if got := c.gate.Expired(c.now); got != c.want {
			t.Errorf("a gate until %v is expired at %v: %v", c.gate.ExpiresAt, c.now, got)
		}
	}
}
