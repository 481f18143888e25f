package page_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// Who has a gate open is told at once that it was closed, how, and by whom: by the terminal, by
// its expiry, and by the end of its run.
func TestAnOpenGateIsClosedElsewhere(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	stored := func(html string) bool { return strings.Contains(html, `data-closed="stored"`) }
	for name, c := range map[string]struct {
		close func(tipstaff.Run)
		until func(string) bool
		says  []string
	}{
		"decided": {func(run tipstaff.Run) { b.decide(run, "approve") }, stored, []string{"Decided: approve", "at the terminal", "local:cli"}},
		"cancelled": {func(run tipstaff.Run) {
			if _, err := b.Runner.Cancel(b.as("alice"), tipstaff.CancelRequest{Run: run.ID, Reason: "enough"}); err != nil {
				t.Fatal(err)
			}
		}, stored, []string{"Closed: run ended"}},
		"expired": {func(tipstaff.Run) { b.ahead(2 * time.Hour) }, func(html string) bool { return strings.Contains(html, "data-closed") }, []string{"Expired"}},
	} {
		t.Run(name, func(t *testing.T) {
			run := b.start("alice", strings.Replace(webtest.Gated(name+".txt"), `"Go on?"`, `"Go on?", expires: 1h`, 1))
			page := "/ui/runs/" + run.ID.String() + "/gates/" + run.OpenGates[0].ID.String()
			f := w.follow(page, "gate")
			if html := f.until("the gate", func(string) bool { return true }); strings.Contains(html, "data-closed") {
				t.Fatalf("it is closed before: %s", html)
			}
			c.close(run)
			got := f.until("its end", c.until)
			for _, say := range c.says {
				if !strings.Contains(got, say) {
					t.Errorf("it does not say %q: %s", say, got)
				}
			}
			b.Ahead.Store(0)
		})
	}
}

// A run that comes is told of by a number: it pushes no row down.
func TestNewRunsPushNothingDown(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	first := b.start("alice", webtest.Gated("a.txt"))
	shown := w.open("/ui/runs")
	with := attr(shown.id("part-runs"), "data-with")
	if with != "upto="+first.ID.String() {
		t.Fatalf("the list goes on with %q", with)
	}
	f := w.follow("/ui/runs?"+with, "runs")
	f.until("the first", func(html string) bool { return strings.Contains(html, "1 in all.") })
	var last tipstaff.Run
	for i := range 3 {
		last = b.start("alice", webtest.Gated(fmt.Sprintf("b%d.txt", i)))
	}
	// The runs are counted and then listed: one that comes in between is counted with the next part.
	got := f.until("all of them", func(html string) bool {
		return strings.Contains(html, "3 new runs") && strings.Contains(html, "4 in all.")
	})
	if strings.Contains(got, last.ID.String()) || !strings.Contains(got, `data-key="`+first.ID.String()) {
		t.Errorf("the list is %s", got)
	}
	if got := w.open("/ui/runs?upto=&part=runs").body; !strings.Contains(got, "4 new runs") || strings.Contains(got, "<tr data-key") {
		t.Errorf("of a list that was empty there is %s", got)
	}
	if older := w.open("/ui/runs?before=" + last.ID.String()); attr(older.id("part-runs"), "data-with") != "" {
		t.Error("an older page waits for new runs")
	}
}

// What happens is said in one sentence that sums it up, and seldom enough to be heard.
func TestAStreamSaysWhatHappens(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	run := b.start("alice", webtest.Gated("a.txt"))
	f := w.follow("/ui/runs/"+run.ID.String(), "header")
	f.until("the header", func(string) bool { return true })
	said := func() string {
		for {
			e, ok := f.next()
			if !ok {
				t.Fatal("the stream ends, and nothing is said")
			}
			if e.event == "say" {
				return strings.TrimSpace(e.data)
			}
		}
	}
	b.decide(run, "approve")
	if got := said(); !strings.Contains(got, "1 gate closed") {
		t.Errorf("it is said: %s", got)
	}
	b.resume(run.ID)
	if got := said(); !strings.Contains(got, "2 steps finished") || !strings.HasSuffix(got, "the run is completed") {
		t.Errorf("it is said: %s", got)
	}
}

// There are places for two hundred, and who comes then is told to ask now and then.
func TestTheDaemonHasSoManyStreams(t *testing.T) {
	b := newBed(t)
	var last *browser
	for i := range 200 {
		if i%8 == 0 {
			last = b.browser("alice")
		}
		if f := last.follow("/ui/", "inbox"); f.status != http.StatusOK {
			t.Fatalf("stream %d is answered %d", i, f.status)
		}
	}
	if f := b.browser("bob").follow("/ui/", "inbox"); f.status != http.StatusTooManyRequests {
		t.Errorf("one more is answered %d", f.status)
	}
	if p := last.open("/ui/?part=inbox"); !strings.Contains(p.body, "Nothing waits for you.") {
		t.Errorf("a part is %s", p.body)
	}
}
