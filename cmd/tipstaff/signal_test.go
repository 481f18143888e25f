package main

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// long is a plan whose program leaves its line at once and then takes its time:
// it ends when the file enough appears.
const long = `-- long.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", timeout: 5m,
       args: {argv: [sh, -c, "echo slow | tee -a effects; while ! test -e enough; do sleep 0.01; done"]}}
    - {id: after, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo after | tee -a effects"]}}
`

// reading is a plan that only reads, for as long as nobody stops it.
const reading = `-- reading.yaml --
kind: plan
version: 1
root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 5m}, timeout: 10m}
`

// startLong starts the plan and returns when its program has had its effect.
func (w *workspace) startLong(args ...string) *cmdtest.Process {
	w.Helper()
	p := w.Start(append([]string{"run", "long.yaml", "--unattended"}, args...)...)
	w.Until("the program's line", func() bool { return w.happened("slow") || !p.Running() })
	if !p.Running() {
		w.Fatalf("%v", p.Wait())
	}
	return p
}

func TestSignalInterrupts(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, long)
			p := w.startLong()
			p.Signal(sig)
			r := p.Wait()
			run := w.show("@")
			if r.Code != code {
				t.Errorf("want exit code %d\n%v", code, r)
			}
			r.Says(t, "interrupted", "tipstaff resume "+run.ID)
			if run.State != "executing" || run.Status != "interrupted" {
				t.Errorf("the run is %s, %s: a signal must not settle it", run.State, run.Status)
			}
			if left := w.leftOver(run.ID); len(left) > 0 {
				t.Errorf("its program outlives it: %v", left)
			}

			// What the signal broke off is in doubt, not failed; a person knows.
			w.Must(4, "resume", "@", "--unattended").Says(t, "root/slow/in_doubt")
			w.Must(0, "verify", "@", "--open")
			w.Must(0, "decide", "@", "root/slow/in_doubt", "use_result", "--answer", `{"exit_code":0,"stdout":"slow\n","stderr":""}`)
			w.Must(0, "resume", "@", "--unattended")
			if got := w.effects(); got != "after slow" {
				t.Errorf("effects %q", got)
			}
			w.Must(0, "verify", "@")
		})
	}
}

// A read that a signal cut off has no outcome: it is simply made again.
func TestSignalCutsReads(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, reading)
	for _, args := range [][]string{{"run", "reading.yaml"}, {"resume", "@"}, {"resume", "@"}} {
		before := w.intended()
		p := w.Start(args...)
		w.Until("the call", func() bool { return w.intended() > before || !p.Running() })
		p.Signal(os.Interrupt)
		if r := p.Wait(); r.Code != 130 {
			t.Fatalf("want exit code 130\n%v", r)
		}
	}
	for _, r := range w.journal("@") {
		if r.Kind == "effect.finished" || r.Kind == "policy.gate" {
			t.Errorf("seq %d: %s of a call that was only cut off", r.Seq, r.Kind)
		}
	}
	w.Must(0, "verify", "@", "--open")
}

// intended is how many attempts of calls the newest run has announced.
func (w *workspace) intended() (n int) {
	w.Helper()
	if len(w.runs()) == 0 {
		return 0
	}
	for _, r := range w.journal("@") {
		if r.Kind == "effect.intended" {
			n++
		}
	}
	return n
}

// A program that ignores SIGTERM has two seconds; the second Ctrl-C does not wait.
func TestSecondSignalEndsTheGrace(t *testing.T) {
	t.Parallel()
	const stubborn = `-- long.yaml --
kind: plan
version: 1
root: {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", timeout: 5m,
  args: {argv: [sh, -c, "trap '' TERM; echo slow >> effects; while true; do sleep 0.01; done"]}}
`
	for range 3 { // on a busy machine two seconds may pass by themselves
		w := newWorkspace(t, manifest, stubborn)
		p := w.startLong()
		began := time.Now()
		p.Signal(os.Interrupt)
		w.Until("the second signal to end it", func() bool {
			p.Signal(os.Interrupt)
			return !p.Running()
		})
		took := time.Since(began)
		if r := p.Wait(); r.Code != 130 {
			t.Fatalf("want exit code 130\n%v", r)
		}
		run := w.show("@")
		if run.Status != "interrupted" {
			t.Errorf("the run is %s", run.Status)
		}
		if left := w.leftOver(run.ID); len(left) > 0 {
			t.Errorf("its program is still there after the store was opened again: %v", left)
		}
		w.Must(4, "resume", "@", "--unattended")
		w.Must(0, "verify", "@", "--open")
		if took < 2*time.Second {
			return
		}
		t.Logf("it took %v", took)
	}
	t.Error("the second signal did not end the grace")
}

// Whoever watches is no part of the run: when he goes, it goes on.
func TestSignalToAnObserver(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	p := w.startLong()
	for _, args := range [][]string{{"watch", "@"}, {"events", "@", "--follow"}} {
		o := w.Prepare(args...)
		out, err := o.Cmd.StdoutPipe()
		w.Check(err)
		o.Cmd.Stderr = &o.Err
		w.Check(o.Cmd.Start())
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%v: it says nothing: %v", args, err)
		}
		o.Signal(os.Interrupt)
		err = o.Cmd.Wait()
		if o.Cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("%v: want exit code 130, got %v\n%s", args, err, o.Err.String())
		}
	}
	w.Write("enough", "")
	if r := p.Wait(); r.Code != 0 {
		t.Errorf("%v", r)
	}
}

// A reader that goes away costs the run nothing.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, work)
	for _, args := range [][]string{{"run", "work.yaml", "--yes"}, {"run", "work.yaml", "--yes", "--json"}} {
		w.Write("effects", "")
		p := w.Prepare(args...)
		out, err := p.Cmd.StdoutPipe()
		w.Check(err)
		p.Cmd.Stderr = &p.Err
		w.Check(p.Cmd.Start())
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%v: it says nothing: %v", args, err)
		}
		w.Check(out.Close())
		if err := p.Cmd.Wait(); !cmdtest.IsExit(err) {
			t.Fatal(err)
		}
		w.finished("@")
	}
	p := w.Prepare("events", "@")
	out, err := p.Cmd.StdoutPipe()
	w.Check(err)
	p.Cmd.Stderr = &p.Err
	w.Check(p.Cmd.Start())
	w.Check(out.Close())
	if err := p.Cmd.Wait(); !cmdtest.IsExit(err) || strings.Contains(p.Err.String(), "goroutine") {
		t.Errorf("events into a closed pipe: %v\n%s", err, p.Err.String())
	}
}

// Cancelled from outside while its program runs: the program is ended and
// accounted for, and nothing more is started.
func TestCancelEndsAProgram(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	p := w.startLong()
	w.Must(0, "cancel", "@", "--reason", "enough of it")
	if r := p.Wait(); r.Code != 8 {
		t.Errorf("want exit code 8\n%v", r)
	}
	run := w.show("@")
	if run.State != "cancelled" {
		t.Errorf("the run is %s", run.State)
	}
	if got := w.effects(); got != "slow" {
		t.Errorf("effects %q: something was started after the cancel", got)
	}
	if left := w.leftOver(run.ID); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	records := w.journal("@")
	if last := records[len(records)-1]; last.Kind != "intent.cancel" || !strings.Contains(string(last.Body), `"in_doubt":[]`) {
		t.Errorf("it ends with %s %s, and nothing needs to be in doubt", last.Kind, last.Body)
	}
	w.Must(0, "verify", "@")
	w.Must(3, "resume", "@")
}

// A process that dies after the request leaves the rest to whoever comes next.
func TestCancelSurvivesTheOwner(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	p := w.startLong()
	w.pause(p) // alive, but deaf: the request stays with it
	c := w.Start("cancel", "@")
	w.Until("the request", func() bool {
		records := w.journal("@")
		return records[len(records)-1].Kind == "run.cancel_requested"
	})
	p.Kill()
	if r := c.Wait(); r.Code != 0 {
		t.Errorf("%v", r)
	}
	if s := w.show("@"); s.State != "cancelled" {
		t.Errorf("the run is %s", s.State)
	}
	if left := w.leftOver(w.show("@").ID); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	records := w.journal("@")
	if last := records[len(records)-1]; !strings.Contains(string(last.Body), `"in_doubt":["root/slow"]`) {
		t.Errorf("the program's end is not known, and the last record does not say so: %s", last.Body)
	}
	w.Must(0, "verify", "@")
}
