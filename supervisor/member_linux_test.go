package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// member says what it is a process of.
func member() {
	m := Membership()
	var owner flow.Owner
	_ = json.Unmarshal([]byte(os.Getenv("OWNER")), &owner)
	fmt.Println(m.Runs, m.Under(owner))
}

// A process is known as one of its run whatever it does to its environment and session.
func TestMembership(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	owner := string(flow.JSON(Self("", "")))
	ask := " OWNER='" + owner + "' " + roleVar + "=member " + self
	for name, c := range map[string]struct {
		how, want string
		unmarked  bool
	}{
		"as it was started":        {"env" + ask, "[RUN] false\n", false},
		"without the marker":       {"env -u TIPSTAFF_RUN_ID" + ask, "[RUN] false\n", false},
		"with another marker":      {"env TIPSTAFF_RUN_ID=OTHER" + ask, "[OTHER RUN] false\n", false},
		"without an environment":   {"env -i" + ask, "[RUN] false\n", false},
		"in another session":       {"setsid -w env -i" + ask, "[RUN] false\n", false},
		"when its parent is gone":  {"mkfifo $F; (setsid env -i" + ask + " > $F &); cat $F", "[RUN] false\n", false},
		"below an owner of no run": {"env -i" + ask, "[] true\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			command := reaped(c.how, append(Markers("RUN", "LAUNCH"), "F="+t.TempDir()+"/fifo")...)
			if c.unmarked {
				command.Env = command.Env[:1]
			}
			f, err := Output(context.Background(), command, nil, 1000)
			if err != nil || string(f.Stdout) != c.want {
				t.Errorf("it said %q, %q, %v; want %q", f.Stdout, f.Stderr, err, c.want)
			}
		})
	}
	if m := Membership(); slices.Contains(m.Runs, "RUN") || m.Under(Self("", "")) {
		t.Errorf("this process itself: %+v", m)
	}
}
