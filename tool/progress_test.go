package tool_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/tooltest"
	"github.com/tipstaff/tipstaff/workspace"
)

// told collects what an attempt tells.
type told struct {
	mu   sync.Mutex
	list []flow.Event
	at   []time.Time
}

func (l *told) tell(e flow.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.at = append(l.list, e), append(l.at, time.Now())
}

// progress is what was told, all of which must be progress.
func (l *told) progress(t testing.TB) []tipstaff.ToolProgress {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []tipstaff.ToolProgress
	for _, e := range l.list {
		p, ok := e.Body.(tipstaff.ToolProgress)
		if !ok || e.Kind != string(tipstaff.KindToolProgress) {
			t.Fatalf("it told %+v", e)
		}
		list = append(list, p)
	}
	return list
}

// only fails the test unless the same was told, at least once.
func (l *told) only(t testing.TB, want tipstaff.ToolProgress) {
	t.Helper()
	list := l.progress(t)
	if len(list) == 0 {
		t.Error("nothing was told")
	}
	for _, got := range list {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// telling is an attempt of which nothing may be noted.
func telling(t testing.TB, a flow.Attempt) (flow.Attempt, *told) {
	l := new(told)
	a.Tell = l.tell
	a.Note = func(e flow.Event) { t.Errorf("progress was noted: %+v", e) }
	return a, l
}

// reports makes a server send progress, and then the answer of a call.
func reports(w *wireCall, pause time.Duration, params ...string) {
	token := between(string(w.params), `"progressToken":`, `}`)
	token, _, _ = strings.Cut(token, ",")
	for _, p := range params {
		w.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,%s}}`, token, p))
		time.Sleep(pause)
	}
	w.result(`{"content":[]}`)
}

func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}

// At most ten times a second it is told how far a call is, and when it was.
func TestProgressIsToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := okServer(echoTool)
		s.reply = func(w *wireCall) {
			var each []string
			for i := range 10 {
				each = append(each, fmt.Sprintf(`"progress":%d,"total":10`, i+1))
			}
			reports(w, 30*time.Millisecond, each...)
		}
		b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
		defer b.manager.Close()
		a, told := telling(t, wireAttempt("echo", flow.Read, `{}`))
		began := time.Now()
		if _, err := b.try(context.Background(), a); err != nil {
			t.Fatal(err)
		}
		want := []tipstaff.ToolProgress{{Progress: 1, Total: 10}, {Progress: 5, Total: 10}, {Progress: 9, Total: 10}}
		if diff := cmp.Diff(want, told.progress(t)); diff != "" {
			t.Error(diff)
		}
		var at []time.Duration
		for _, when := range told.at {
			at = append(at, when.Sub(began))
		}
		if diff := cmp.Diff([]time.Duration{0, 120 * time.Millisecond, 240 * time.Millisecond}, at); diff != "" {
			t.Error(diff)
		}
	})
}

// A message is told up to its 200th byte, and no half of a character.
func TestProgressIsToldBriefly(t *testing.T) {
	for message, want := range map[string]string{
		strings.Repeat("x", 200):       strings.Repeat("x", 200),
		strings.Repeat("x", 201):       strings.Repeat("x", 200) + "…",
		"x" + strings.Repeat("é", 100): "x" + strings.Repeat("é", 99) + "…",
	} {
		s := okServer(echoTool)
		s.reply = func(w *wireCall) { reports(w, 0, `"progress":0.5,"message":"`+message+`"`) }
		b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
		a, told := telling(t, wireAttempt("echo", flow.Read, `{}`))
		if _, err := b.try(context.Background(), a); err != nil {
			t.Fatal(err)
		}
		told.only(t, tipstaff.ToolProgress{Progress: 0.5, Message: want})
	}
}

// What a server says of its progress has no credential in it, nor the first part
// of one that is cut off.
func TestProgressHasNoCredential(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"one": command(t)})
	for before, want := range map[string]string{
		"":                       "working with $env:TOKEN",
		strings.Repeat("x", 180): strings.Repeat("x", 180) + "working with $env:TO…",
	} {
		a, told := telling(t, o.attempt("one", tooltest.Reveal, object{"form": "progress", "text": before}))
		if value, err := o.try(context.Background(), a); err != nil || string(value) != `"done"` {
			t.Errorf("got %s, %v", value, err)
		}
		told.only(t, tipstaff.ToolProgress{Progress: 1, Message: want})
	}
}

func TestProgressIsToldOverHTTP(t *testing.T) {
	t.Parallel()
	handler, _ := webServer(t, nil)
	o := newOutside(t, map[string]string{"web": "url: " + serve(t, handler)})
	a, told := telling(t, o.attempt("web", tooltest.Chatter, nil))
	if _, err := o.try(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	list := told.progress(t)
	if len(list) == 0 || list[0] != (tipstaff.ToolProgress{Message: "on my way"}) {
		t.Errorf("it told %+v", list)
	}
}
