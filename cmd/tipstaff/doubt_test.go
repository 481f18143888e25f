package main

import (
	"strings"
	"testing"
)

// inDoubt is a workspace with a run that was killed in the middle of its program.
func inDoubt(t *testing.T) *workspace {
	t.Helper()
	w := newWorkspace(t, manifest, long)
	w.startLong().Kill()
	w.Must(4, "resume", "@", "--unattended").Says(t, "root/slow/in_doubt")
	return w
}

// What became of a call that nobody saw end is for a person to say, in full.
func TestAnswersToADoubt(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		w := inDoubt(t)
		before := w.Must(0, "events", "@", "--json").Out
		for _, args := range [][]string{
			{"use_result"},
			{"use_result", "--answer", `{"nonsense":true}`},
			{"use_result", "--answer", `"text"`},
			{"use_result", "--answer", `{"exit_code":9007199254740993,"stdout":"","stderr":""}`},
			{"approve"},
			{"retry", "--feedback", "with feeling"},
		} {
			r := w.Run(append([]string{"decide", "@", "root/slow/in_doubt"}, args...)...)
			if r.Code != 2 && r.Code != 3 {
				t.Errorf("want exit code 2 or 3\n%v", r)
			}
		}
		if after := w.Must(0, "events", "@", "--json").Out; after != before {
			t.Error("what was refused has left a record")
		}
	})
	t.Run("fail", func(t *testing.T) {
		t.Parallel()
		w := inDoubt(t)
		w.Must(0, "decide", "@", "root/slow/in_doubt", "fail", "--note", "nobody knows")
		w.Must(1, "resume", "@", "--unattended").Says(t, "in_doubt")
		if w.effects() != "slow" {
			t.Errorf("effects %q", w.effects())
		}
		w.Must(0, "verify", "@")
	})
	t.Run("retry, and killed again", func(t *testing.T) {
		t.Parallel()
		w := inDoubt(t)
		w.Must(0, "decide", "@", "root/slow/in_doubt", "retry")
		w.Write("effects", "")
		p := w.Start("resume", "@", "--unattended")
		w.Until("the second attempt", func() bool { return w.happened("slow") || !p.Running() })
		p.Kill()
		w.Must(4, "resume", "@", "--unattended").Says(t, "root/slow/in_doubt#2")
		w.Must(0, "decide", "@", "root/slow/in_doubt#2", "retry")
		w.Write("enough", "")
		w.Must(0, "resume", "@", "--unattended")
		w.Must(0, "verify", "@")
		attempts := 0
		for _, r := range w.journal("@") {
			if r.Kind == "effect.intended" && r.Path == "root/slow" {
				attempts++
			}
		}
		if attempts != 3 || w.effects() != "after slow slow" {
			t.Errorf("%d attempts; effects after the first %q", attempts, w.effects())
		}
		w.doubtsAreExact(w.journal("@"))
	})
	t.Run("use_result, by whom", func(t *testing.T) {
		t.Parallel()
		w := inDoubt(t)
		w.Must(0, "decide", "@", "root/slow/in_doubt", "use_result", "--answer", `{"exit_code":0,"stdout":"slow\n","stderr":""}`)
		w.Must(0, "resume", "@", "--unattended")
		for _, r := range w.journal("@") {
			if r.Kind == "effect.finished" && r.Path == "root/slow" && !strings.Contains(string(r.Body), `"by":"local:cli"`) {
				t.Errorf("the result does not say who gave it: %s", r.Body)
			}
		}
		w.Must(0, "verify", "@")
	})
}

// A killed run says by itself what it needs: to be resumed, which opens the gate of
// the call in doubt.
func TestAnInterruptedRunSaysHowItGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	w.startLong().Kill()
	run := w.show("@")
	if run.Status != "interrupted" {
		t.Fatalf("the run is %s", run.Status)
	}
	resume := "tipstaff resume " + run.ID
	w.Must(0, "show", "@").Says(t, "interrupted; to go on:", "root/slow is in doubt", resume)
	r := w.Must(0, "decide")
	r.Says(t, run.ID, "root/slow is in doubt", resume)
	if strings.Contains(r.Err, "nothing waits") {
		t.Errorf("a call is in doubt\n%v", r)
	}
	if r := w.Must(0, "decide", "--json"); r.Out != "" {
		t.Errorf("no gate is open\n%v", r)
	}
	w.Must(4, "resume", "@", "--unattended")
	r = w.Must(0, "decide")
	r.Says(t, "root/slow/in_doubt retry")
	if strings.Contains(r.Out, "is in doubt:") {
		t.Errorf("the gate is open, and the call is told of beside it\n%v", r)
	}
	w.Must(0, "show", "@").Says(t, "then:", resume)
}
