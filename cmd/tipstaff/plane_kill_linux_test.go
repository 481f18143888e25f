package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// TestKillServersClientsAndProcesses has runs that a daemon drives, that an MCP client and
// a command have left to processes of their own, and that a command drives, all over one
// store, and kills any of these processes, in any order, at any moment. Whoever is left
// brings the runs to their end.
func TestKillServersClientsAndProcesses(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &siege{dice: rand.New(rand.NewPCG(seed, 2)), left: kills(t), killed: map[string]int{}}
	if os.Getenv("TIPSTAFF_KILLS") == "" {
		s.left /= 2 // every one of them takes several commands to mend
	}
	for s.left > 0 {
		s.workspace = newWorkspace(t, manifest)
		s.endLaunched()
		s.toTheEnd()
	}
	t.Logf("killed: %v", s.killed)
}

// starters are how the runs of a siege come to be; each is the name of one.
var starters = []string{"http", "mcp", "detached", "foreground"}

// siege is a workspace under attack.
type siege struct {
	*workspace
	dice   *rand.Rand
	left   int            // kills yet to come
	killed map[string]int // by what they were

	runs map[string]string // by starter

	mu       sync.Mutex
	struck   bool                        // something was killed in this round
	attacked map[string]*cmdtest.Process // that run now: site, plane, client

	site  *site
	plane *plane
}

// toTheEnd has all runs end, over as many dead processes as it takes.
func (s *siege) toTheEnd() {
	s.Helper()
	s.site, s.plane, s.runs, s.attacked = nil, nil, map[string]string{}, map[string]*cmdtest.Process{}
	for _, name := range starters {
		s.Write(name+".yaml", s.document(name))
	}
	quiet := 0 // rounds in which nothing was killed: in each of them every run is helped on
	for done := false; !done; {
		if quiet > 300 {
			s.Fatalf("the runs do not end: %s", s.Must(0, "ls").Out)
		}
		over := s.strike()
		s.open()
		done = true
		for _, i := range s.dice.Perm(len(starters)) {
			done = s.advance(starters[i]) && done
		}
		if over(); !s.wasStruck() {
			quiet++
		}
	}
	for _, name := range starters {
		run := s.runs[name]
		s.Until("the processes of run "+run+" to end", func() bool { return len(s.leftOver(run)) == 0 })
		s.tag = "-" + name
		s.finished(run)
		s.tag = ""
		s.interruptedOncePerDeath(run)
	}
	if n := len(s.workspace.runs()); n != len(starters) {
		s.Errorf("%d runs came of %d requests", n, len(starters))
	}
	for _, p := range s.attacked {
		if p != nil {
			p.Kill()
		}
	}
}

// document is the plan of a run, whose effects are its own.
func (s *siege) document(name string) string {
	text := strings.TrimPrefix(work, "-- work.yaml --\n")
	return strings.NewReplacer("name: work", "name: "+name, "-a effects", "-a effects-"+name, "note.txt", "note-"+name+".txt", "sleep 0.03", "sleep 0.1").Replace(text)
}

// strike kills some of what runs, in some order, after a while. What it returns waits until
// that is done.
func (s *siege) strike() (over func()) {
	s.struck = false
	if s.left == 0 || s.dice.IntN(4) == 0 {
		return func() {}
	}
	after := time.Duration(s.dice.IntN(120)) * time.Millisecond
	// Servers are there all the time, the others for moments: they are waited for more often.
	victims := []string{"process", "client", "process", "client", "site", "plane"}
	s.dice.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	if s.dice.IntN(3) > 0 { // else all at once
		victims = victims[:1+s.dice.IntN(2)]
	}
	gap := time.Duration(s.dice.IntN(2)*s.dice.IntN(20)) * time.Millisecond
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			if s.there(victims[0]) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(after) // a moment like any other of its life
		for _, victim := range victims {
			s.kill(victim)
			time.Sleep(gap)
		}
	}()
	return func() { <-done }
}

// there reports whether a victim can be killed at this moment.
func (s *siege) there(victim string) bool {
	s.mu.Lock()
	p := s.attacked[victim]
	s.mu.Unlock()
	return p != nil && p.Running() || victim == "process" && len(s.executing()) > 0
}

func (s *siege) kill(victim string) {
	s.mu.Lock()
	p := s.attacked[victim]
	s.struck = true
	s.mu.Unlock()
	n := 0
	switch {
	case victim == "process":
		for _, pid := range s.executing() {
			if killPid(pid) {
				n++
			}
		}
	case p != nil && p.Kill():
		n = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed[victim] += n
	s.left = max(0, s.left-n)
}

// exposed puts a process where it can be killed.
func (s *siege) exposed(as string) func(*cmdtest.Process) {
	return func(p *cmdtest.Process) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.attacked[as] = p
	}
}

// wasStruck reports whether something was killed in this round.
func (s *siege) wasStruck() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.struck
}

// excused ends the test unless what went wrong did because something was killed.
func (s *siege) excused(what string, err error) {
	s.Helper()
	if err != nil && !s.wasStruck() {
		s.Fatalf("%s: %v", what, err)
	}
}

// open starts the servers that are not there; sometimes it does without.
func (s *siege) open() {
	s.Helper()
	var err error
	if s.site == nil || !s.site.Running() {
		if s.site = nil; s.dice.IntN(3) > 0 {
			s.site, err = s.workspace.site(s.exposed("site"))
			s.excused("serve", err)
		}
	}
	if s.plane == nil || !s.plane.Running() {
		if s.plane = nil; s.dice.IntN(3) > 0 {
			s.plane, err = s.workspace.plane(s.exposed("plane"))
			s.excused("mcp", err)
		}
	}
}

// advance does what a run needs, and reports whether it has ended.
func (s *siege) advance(name string) (ended bool) {
	s.Helper()
	run := s.run(name)
	if run == "" {
		s.start(name)
		return false
	}
	now := s.show(run)
	switch now.State {
	case "completed":
		return true
	case "failed", "cancelled":
		s.Fatalf("run %s of %s is %s", run, name, now.State)
	}
	s.tag = "-" + name
	decided := false
	for _, g := range now.OpenGates {
		action, answer := "approve", ""
		if node := filepath.Base(g.Path); g.Kind == "in_doubt" {
			if action = "retry"; s.happened(node) {
				action, answer = "use_result", `{"exit_code":0,"stderr":"","stdout":"`+node+`\n"}`
			}
		}
		s.decide(run, g.ID, action, answer)
		decided = true
	}
	s.tag = ""
	if !decided && (now.Status == "interrupted" || now.Status == "awaiting_resume") {
		s.resume(name, run)
	}
	return false
}

// run is the run that was started so; "": there is none yet.
func (s *siege) run(name string) string {
	s.Helper()
	for line := range strings.Lines(s.Must(0, "ls", "--json").Out) {
		var now shown
		s.Check(json.Unmarshal([]byte(line), &now))
		if s.runs[name] == "" && now.Program.Name == name {
			s.runs[name] = now.ID
		}
	}
	return s.runs[name]
}

func (s *siege) start(name string) {
	s.Helper()
	switch name {
	case "http", "mcp":
		server := s.server(name)
		if server == nil {
			return
		}
		_, code, err := server.call("run_start", map[string]any{"program": s.document(name), "idempotency_key": name})
		s.excused("run_start", err)
		if code != "" {
			s.Fatalf("run_start: %s", code)
		}
	case "detached":
		s.command(nil, "run", name+".yaml", "--detach", "--json")
	default:
		s.command(nil, "run", name+".yaml", "--unattended", "--json")
	}
}

// server is the one of that name, if it is there.
func (s *siege) server(name string) surface {
	switch {
	case name == "http" && s.site != nil:
		return s.site
	case name == "mcp" && s.plane != nil:
		return s.plane
	}
	return nil
}

// command runs one that may be killed. It may be refused with these codes.
func (s *siege) command(refusals []string, args ...string) {
	s.Helper()
	p := s.Start(args...)
	s.exposed("client")(p)
	<-p.Ended
	s.exposed("client")(nil)
	if p.Cmd.ProcessState.ExitCode() < 0 && s.wasStruck() {
		return
	}
	r := p.Wait()
	refused := r.Code == 3 && slices.ContainsFunc(refusals, func(code string) bool { return strings.Contains(r.Err, `"code":"`+code+`"`) })
	if r.Code != 0 && r.Code != 4 && !refused {
		s.Fatalf("%v", r)
	}
}

// decide answers a gate by any surface.
func (s *siege) decide(run, gate, action, answer string) {
	s.Helper()
	server := s.server([]string{"http", "mcp", ""}[s.dice.IntN(3)])
	if server == nil {
		args := []string{"decide", run, gate, action, "--json"}
		if answer != "" {
			args = append(args, "--answer", answer)
		}
		s.command(nil, args...)
		return
	}
	args := map[string]any{"run_id": run, "gate_id": gate, "action": action}
	if answer != "" {
		args["answer"] = json.RawMessage(answer)
	}
	_, code, err := server.call("gate_decide", args)
	s.excused("gate_decide", err)
	if code != "" {
		s.Fatalf("gate_decide %s of run %s: %s", action, run, code)
	}
}

// resume has a run go on by any surface.
func (s *siege) resume(name, run string) {
	s.Helper()
	busy := []string{"busy", "run_ended"} // another was faster
	choice := s.dice.IntN(4)
	server := s.server([]string{"http", "mcp", "", ""}[choice])
	switch {
	case server != nil:
		_, code, err := server.call("run_resume", map[string]any{"run_id": run})
		s.excused("run_resume", err)
		foreign := choice == 1 && (name == "http" || name == "foreground") && code == "inspect_only"
		if code != "" && !foreign && !slices.Contains(busy, code) {
			s.Fatalf("run_resume of %s, run %s: %s", name, run, code)
		}
	case choice%2 == 0:
		s.command(busy, "resume", run, "--detach", "--json")
	default:
		s.command(busy, "resume", run, "--unattended", "--json")
	}
}

// interruptedOncePerDeath checks that nothing was found dead twice: between two records of
// an interruption somebody was to drive the run.
func (s *siege) interruptedOncePerDeath(run string) {
	s.Helper()
	found := false
	for i, r := range s.journal(run) {
		if r.Seq != int64(i+1) {
			s.Fatalf("run %s: record %d has seq %d", run, i+1, r.Seq)
		}
		switch r.Kind {
		case "run.launched", "run.started", "run.resumed", "run.queued":
			found = false
		case "run.interrupted":
			if found {
				s.Errorf("run %s, seq %d: it was found dead before", run, r.Seq)
			}
			found = true
		}
	}
}

// TestKillAtEveryCommitOfALaunch is [TestKillAtEveryCommit] for a run with a process of its
// own: what is known of that process is stored with the records that tell of it.
func TestKillAtEveryCommitOfALaunch(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	tp := newTape(t, manifest, work, small)
	tp.endLaunched()
	tp.Must(0, "run", "small.yaml")
	tp.record(func() string {
		run := runID(t, tp.Must(0, "run", "work.yaml", "--yes", "--detach", "--json"))
		tp.Must(0, "watch", run)
		tp.Until("its end", func() bool { return len(tp.executing()) == 0 })
		return run
	})
	tp.finished(tp.run)
	first, step := places(t, 5)
	for i := first; i < len(tp.cuts); i += step {
		for _, happened := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/happened=%t", i+1, happened), func(t *testing.T) {
				t.Parallel()
				w := tp.cut(t, tp.log[:tp.cuts[i]])
				w.sql(`UPDATE runs SET launch = json_set(launch, '$.at', '2026-01-01T00:00:00Z') WHERE launch IS NOT NULL`) // nobody waits for it
				of := `run = (SELECT n FROM runs WHERE id = '` + tp.run + `')`
				launched, recorded := w.count(`SELECT count(*) FROM runs WHERE launch IS NOT NULL`), w.count(`SELECT count(*) FROM records WHERE kind = 'run.launched' AND `+of)
				taken, started := w.count(`SELECT count(*) FROM runs WHERE json_extract(launch, '$.epoch') > 0`), w.count(`SELECT count(*) FROM records WHERE kind = 'run.started' AND `+of)
				if launched != recorded || taken != started {
					t.Errorf("%d launches and %d records of one; %d leases taken and %d records of that", launched, recorded, taken, started)
				}
				w.takeUp(tp.run, happened)
			})
		}
	}
}
