//go:build linux

package control

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// A browser's EventSource follows a run whose daemon goes down in the middle and comes back:
// it misses nothing, is told nothing twice, and stays away when the run has ended.
func TestBrowser(t *testing.T) {
	b := newBed(t)
	chromium := perhaps(t, "/usr/bin/chromium")
	address := freeAddress(t)
	d := b.serve("--addr", address)
	run := d.submit(busy(60, 150)) // it must not end before a slow browser is there

	kinds := []tipstaff.Kind{tipstaff.KindIntentDraft, tipstaff.KindIntentCompiled, tipstaff.KindIntentAccept, tipstaff.KindPlanProposed, tipstaff.KindRunQueued,
		tipstaff.KindRunStarted, tipstaff.KindRunInterrupted, tipstaff.KindRunResumed, tipstaff.KindEffectIntended, tipstaff.KindEffectFinished,
		tipstaff.KindEffectLost, tipstaff.KindPlanStep, tipstaff.KindIntentAttest, tipstaff.KindIntentFail}
	argv := []string{"browser.js", module(t), chromium, d.url, d.bearer(), run}
	for _, k := range kinds {
		argv = append(argv, string(k))
	}
	c := exec.Command(node(t), argv...)
	c.Stderr = os.Stderr
	c.Env = append(os.Environ(), "HOME="+b.Path("home"))
	out, err := c.StdoutPipe()
	b.Check(err)
	b.Check(c.Start())
	defer c.Wait()
	defer c.Process.Kill()

	var story []string // but for records
	var last int
	stopped := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var told struct{ Kind, ID string }
		b.decode(lines.Bytes(), &told)
		switch told.Kind {
		case "open", "lost", "closed", "end", "message":
			story = append(story, told.Kind)
			continue
		}
		id, err := strconv.Atoi(told.ID)
		b.Check(err)
		if id != last+1 {
			t.Errorf("after record %d came %d, %s", last, id, told.Kind)
		}
		if last = id; last == 12 && !stopped {
			stopped = true
			d.stop()
			d = b.serve("--addr", address)
		}
	}
	b.Check(c.Wait())
	// The end of the stream is a loss to EventSource, which comes back and is told 204.
	want := "open lost open end lost closed"
	if got := strings.ReplaceAll(strings.Join(story, " "), "lost lost", "lost"); got != want {
		t.Errorf("the browser's story is %q, not %q", got, want)
	}
	var shown struct {
		State string
		Head  int `json:"head_seq"`
	}
	d.get("/runs/"+run, &shown)
	if shown.State != "completed" || shown.Head != last {
		t.Errorf("the run is %+v, the last record that came was %d", shown, last)
	}
}

// freeAddress is one that a server can come back to.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
