package tipstaff

import (
	"testing"
	"time"
)

func TestAskerPath(t *testing.T) {
	for key, want := range map[string]string{
		"root/go/in_doubt":        "root/go",
		"root/go/in_doubt#2":      "root/go",
		"root/go/bound#1":         "root/go",
		"root/go/approval":        "root/go",
		"critic#3/tool#2.1/bound": "critic#3/tool#2.1",
		"root/ok":                 "root/ok",
		"root/bound/ok":           "root/bound/ok",
		"root/approvals":          "root/approvals",
		"root/in_doubt-2":         "root/in_doubt-2",
		"critic#3/handoff":        "critic#3/handoff",
		"root":                    "root",
		"bound":                   "bound", // a gate of its own, for there is nothing above it
		"":                        "",
	} {
		if got := AskerPath(key); got != want {
			t.Errorf("AskerPath(%q) = %q, want %q", key, got, want)
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
