package page_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/webtest"
)

// The clock of the machine is set forwards and back while a page is watched: who has signed in stays
// so, the stream goes on, and no time and no line of a life is drawn backwards.
func TestTheClockIsSetWhileAPageIsWatched(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	run := b.start("alice", `{kind: plan, version: 1, root: {kind: sequential, children: [
  {id: one, kind: gate, question: "Once?"}, {id: two, kind: gate, question: "Twice?"}, {id: three, kind: gate, question: "Thrice?"}]}}`)
	driven := b.begin("alice", webtest.Slow("over.txt"))
	at, beside := "/ui/runs/"+run.ID.String(), "/ui/runs/"+driven.String()
	f := w.follow(at, "header", "tree")
	backwards := regexp.MustCompile(`(?:width|height|r|x2|dur)="-|[>\s]-\d[\d.]* (?:ms|s|min|h|d)\b|NaN|Inf`)
	for _, c := range []struct {
		by   time.Duration
		asks string
	}{{3 * time.Hour, "Twice?"}, {-6 * time.Hour, "Thrice?"}} {
		b.ahead(c.by)
		b.decide(run, "approve")
		run = b.resume(run.ID)
		f.until("the next question", func(html string) bool { return strings.Contains(html, c.asks) })
		if !w.signed() {
			t.Errorf("set by %v, nobody is signed in any more", c.by)
		}
		for _, path := range []string{"/ui/", "/ui/runs", beside, beside + "/timeline", at, at + "/timeline", at + "/timeline?scale=real", at + "/journal", at + "/cost", at + "/family", at + "/gates/" + run.OpenGates[0].ID.String()} {
			p := w.open(path)
			if found := backwards.FindString(p.body); found != "" {
				t.Errorf("set by %v, %s shows %q: %s", c.by, path, found, p.text())
			}
		}
	}
	b.Write("over.txt", "")
	b.Rest(driven.String())
	fresh := w.open(at)
	if life := fresh.all("svg"); len(life) == 0 || !strings.Contains(fresh.body, "driven") {
		t.Error("the line of its life is not drawn")
	}
}
