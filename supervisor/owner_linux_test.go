package supervisor

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/supervisor/reap"
)

func TestSelfNamesThisProcess(t *testing.T) {
	o := Self("daemon", "token")
	if o.Kind != "daemon" || o.Launch != "token" || o.Pid != os.Getpid() {
		t.Errorf("Self = %+v", o)
	}
	if o.Host == "" || o.Boot == "" || o.PidNS == "" || o.Start == 0 {
		t.Errorf("Self does not know itself: %+v", o)
	}
	if o != Self("daemon", "token") {
		t.Error("Self differs from itself")
	}
}

func TestAlive(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	fresh, stale := now.Add(-29*time.Second), now.Add(-30*time.Second)
	self := Self("foreground", "t")
	other := func(change func(*flow.Owner)) flow.Owner {
		o := self
		change(&o)
		return o
	}
	for _, c := range []struct {
		name      string
		owner     flow.Owner
		heartbeat time.Time
		want      bool
	}{
		{"our own process", self, fresh, true},
		{"our own process that has not beaten for long", self, stale, true},
		{"a stranger under the owner's pid", other(func(o *flow.Owner) { o.Start-- }), fresh, false},
		{"no such process", other(func(o *flow.Owner) { o.Pid = 1 << 30 }), fresh, false},
		{"before a reboot", other(func(o *flow.Owner) { o.Boot = "another" }), fresh, false},
		{"before a reboot, in another container", other(func(o *flow.Owner) { o.Boot, o.PidNS = "another", "pid:[1]" }), fresh, false},
		{"in another container, beating", other(func(o *flow.Owner) { o.PidNS = "pid:[1]" }), fresh, true},
		{"in another container, silent", other(func(o *flow.Owner) { o.PidNS = "pid:[1]" }), stale, false},
		{"on another host, beating", other(func(o *flow.Owner) { o.Host, o.Boot = "elsewhere", "another" }), fresh, true},
		{"on another host, silent", other(func(o *flow.Owner) { o.Host, o.Boot = "elsewhere", "another" }), stale, false},
		{"without start time, beating", other(func(o *flow.Owner) { o.Start = 0 }), fresh, true},
		{"without start time, silent", other(func(o *flow.Owner) { o.Start = 0 }), stale, false},
		{"without start time, gone", other(func(o *flow.Owner) { o.Start, o.Pid = 0, 1<<30 }), fresh, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Alive(c.owner, c.heartbeat, now); got != c.want {
				t.Errorf("Alive = %v, want %v", got, c.want)
			}
		})
	}
}

func TestZombieIsDead(t *testing.T) {
	cmd, pid := start(t, "deaf")
	o := Self("", "")
	o.Pid = pid
	o.Start, _ = startTime(pid)
	now := time.Now()
	if !Alive(o, now, now) {
		t.Fatal("a process that runs is dead")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Waits for the end of the process and leaves it a zombie.
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if Alive(o, now, now) {
		t.Error("a zombie is alive")
	}
}

func TestParseStat(t *testing.T) {
	const fields = " 2 3 4 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1000 100"
	for _, c := range []struct {
		name, stat string
		want       reap.Stat
		known      bool
	}{
		{"plain", "7 (sh) S" + fields, reap.Stat{Parent: 2, Session: 4, Start: 4711}, true},
		{"a name like fields", "7 (a) Z 1) (b) R" + fields, reap.Stat{Parent: 2, Session: 4, Start: 4711}, true},
		{"leaving", "7 (sh) R" + strings.Replace(fields, "4194560", "4194564", 1), reap.Stat{Parent: 2, Session: 4, Start: 4711, Leaving: true}, true},
		{"a zombie", "7 (sh) Z" + fields, reap.Stat{Parent: 2, Session: 4, Start: 4711, Ended: true}, true},
		{"dead", "7 (sh) X" + fields, reap.Stat{Parent: 2, Session: 4, Start: 4711, Ended: true}, true},
		{"cut", "7 (sh) S 1 1 1", reap.Stat{}, false},
		{"empty", "", reap.Stat{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, known := reap.ParseStat([]byte(c.stat))
			if got != c.want || known != c.known {
				t.Errorf("parseStat = %+v, %v, want %+v, %v", got, known, c.want, c.known)
			}
		})
	}
}

// A program may call itself anything: its name must not move the fields.
func FuzzParseStat(f *testing.F) {
	f.Add("sh", int64(4711))
	f.Add("a) Z 1 (b", int64(0))
	f.Add("))\n((", int64(-1))
	f.Fuzz(func(t *testing.T, name string, start int64) {
		stat := fmt.Appendf(nil, "7 (%s) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %d 1000 100\n", name, start)
		if got, known := reap.ParseStat(stat); !known || got != (reap.Stat{Parent: 1, Session: 1, Start: start}) {
			t.Errorf("reap.ParseStat(%q) = %+v, %v", stat, got, known)
		}
	})
}
