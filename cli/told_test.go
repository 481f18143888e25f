package cli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	toldLine = `{"v":1,"kind":"tool.progress","at":"2026-11-15T02:30:00Z","run":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3","path":"root/read","body":{"progress":3,"total":10}}`
	endLine  = `{"run_id":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3","state":"completed","outcome":"success","reason":"","seq":4,"head":"sha256:h4"}`
)

// progresses is a drive of one call that tells something on its way. It goes on
// when those who follow have seen it; then seen is called.
func progresses(s *fakeService, seen func()) tipstaff.Driven {
	s.append("run.started", "", `{}`)
	s.append("effect.intended", "root/read", `{"reserve":{"tool_calls":1}}`)
	s.tell("root/read", `{"progress":3,"total":10}`)
	time.Sleep(2 * frameTime) // of the bubble: a frame is painted
	synctest.Wait()
	seen()
	s.append("effect.finished", "root/read", `{"ms":12,"value":1}`)
	s.append("intent.attest", "", `{"outcome":"success"}`)
	s.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, Outcome: "success", HeadSeq: 4, Head: "sha256:h4"})
	return tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
}

// progressing runs a command on a run that progresses, in a bubble. run drives it,
// other commands find it driven.
func progressing(t *testing.T, b *bench, seen func(), args ...string) {
	t.Helper()
	if args[0] == "run" {
		args = append(args, planFile(t))
		b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
			return b.svc.drives(func() tipstaff.Driven { return progresses(b.svc, seen) }), nil
		}
	} else {
		args = append(args, runA.String())
		b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Running})
		b.svc.drives(func() tipstaff.Driven { return progresses(b.svc, seen) })
	}
	b.run(t, 0, args...)
}

func TestJSONHasWhatIsToldInItsPlaceAndWithoutSeq(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		from int // the first record printed, counted from 0
		ends bool
	}{
		"run":               {[]string{"run", "--json"}, 0, true},
		"watch":             {[]string{"watch", "--json"}, 0, true},
		"events":            {[]string{"events", "--follow", "--json"}, 0, false},
		"events, from here": {[]string{"events", "--follow", "--json", "--after", "1"}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				if c.from > 0 { // a cursor must not be beyond the head
					b.svc.append("run.started", "", `{}`)
				}
				progressing(t, b, func() {}, c.args...)
				var want []string
				for i, ev := range b.svc.log {
					if i >= c.from {
						want = append(want, string(ev.Raw))
					}
					if ev.Kind == "effect.intended" {
						want = append(want, toldLine)
					}
				}
				if c.ends {
					want = append(want, endLine)
				}
				equal(t, "stdout", b.out.String(), strings.Join(want, "\n")+"\n")
			})
		})
	}
}

func TestPlainLinesAreSilentAboutWhatIsTold(t *testing.T) {
	for _, args := range [][]string{{"run"}, {"watch"}, {"events", "--follow"}} {
		t.Run(args[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				before := ""
				progressing(t, b, func() { before = b.out.String() }, args...)
				if !strings.Contains(before, "started") {
					t.Errorf("nothing was followed:\n%s", before)
				}
				for _, word := range []string{"progress", "3 of 10", "    0  "} {
					if strings.Contains(b.out.String(), word) {
						t.Errorf("%q is on standard output:\n%s", word, b.out)
					}
				}
				equal(t, "stderr", b.err.String(), "")
			})
		})
	}
}

func TestTheTreeShowsProgressWhileTheCallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t).terminal()
		var during vterm
		progressing(t, b, func() { during.Write([]byte(b.err.String())) }, "run")
		contains(t, "terminal, meanwhile", during.String(), "▸ read", "3 of 10")
		var after vterm
		after.Write([]byte(b.err.String()))
		contains(t, "terminal, in the end", after.String(), "✓ read")
		if strings.Contains(after.String(), "3 of 10") {
			t.Errorf("progress of a call that has ended:\n%s", after.String())
		}
		if strings.Contains(b.out.String(), "progress") {
			t.Errorf("stdout:\n%s", b.out)
		}
	})
}

func TestProgressForPeople(t *testing.T) {
	for body, want := range map[string]string{
		`{"progress":3}`:                                 "3",
		`{"progress":3,"total":10}`:                      "3 of 10",
		`{"progress":1234567,"total":7654321}`:           "1234567 of 7654321",
		`{"progress":0.333333,"message":"reading"}`:      "0.33  reading",
		`{"progress":33.5,"total":100,"message":"half"}`: "33.5 of 100  half",
		`{"progress":1e300,"total":-1}`:                  "1e+300",
	} {
		if got := tipstaff.BodyOf[tipstaff.ToolProgress](&tipstaff.Event{Body: []byte(body)}).String(); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
