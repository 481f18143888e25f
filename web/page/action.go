package page

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

// actTime is how long the outcome of a form is kept, so that it is one act however often it
// is sent.
const actTime = 10 * time.Minute

// acts are the outcomes of forms that were sent.
type acts struct {
	mu   sync.Mutex
	sent map[[sha256.Size]byte]*act
}

// act is one form. Whoever sends it again while it is under way waits for it.
type act struct {
	made time.Time
	mu   sync.Mutex
	done bool
	to   string // where its outcome is shown
}

// of is the act of a form, a new one if it was not sent lately.
func (a *acts) of(key [sha256.Size]byte, now time.Time) *act {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent == nil {
		a.sent = map[[sha256.Size]byte]*act{}
	}
	for other, one := range a.sent {
		if now.Sub(one.made) > actTime {
			delete(a.sent, other)
		}
	}
	if a.sent[key] == nil {
		a.sent[key] = &act{made: now}
	}
	return a.sent[key]
}

// once does what a form asks for, unless the same form has done it before: then its outcome
// is shown again. What has failed may be tried again.
func (v *view) once(in url.Values, do func() (to string, err error)) (string, error) {
	if in.Get("key") == "" {
		return do()
	}
	same := url.Values{}
	for name, values := range in {
		if name != "confirmed" {
			same[name] = values
		}
	}
	one := v.s.acts.of(sha256.Sum256([]byte(v.r.URL.Path+"?"+same.Encode())), v.now)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.done {
		return one.to, nil
	}
	to, err := do()
	one.done, one.to = err == nil, to
	return to, err
}

// needs refuses who has not a scope.
func (v *view) needs(scope string) error {
	if v.signed.May(scope) {
		return nil
	}
	return tipstaff.Errorf(tipstaff.Forbidden, "you may not do this").WithHint("the token that you signed in with needs the scope %s", scope)
}

// resume has a run go on, in this process.
func (v *view) resume() error {
	run, err := v.find()
	if err == nil {
		err = v.needs(tipstaff.ScopeRun)
	}
	if err != nil {
		return err
	}
	return v.act(func() (tipstaff.ID, error) {
		_, err := v.s.control.Continue(v.ctx(), tipstaff.Continuation{Run: run.ID})
		return run.ID, err
	})
}

// cancelWait is how long a page waits for the end of a run that is cancelled. Its own shows
// the rest.
const cancelWait = 2 * time.Second

// cancel ends a run.
func (v *view) cancel() error {
	run, err := v.find()
	if err == nil {
		err = v.needs(tipstaff.ScopeRun)
	}
	if err != nil {
		return err
	}
	in := typedIn(v.r.PostForm)
	mode := in.Get("mode")
	if mode != "graceful" && mode != "hard" {
		return &problem{status: http.StatusBadRequest, title: "That was not understood", text: "A run is cancelled gracefully or hard."}
	}
	return v.act(func() (tipstaff.ID, error) {
		got, err := v.s.control.Runs.Cancel(v.ctx(), tipstaff.CancelRequest{Run: run.ID, Reason: in.Get("reason"), Hard: mode == "hard", Wait: cancelWait})
		if err == nil && got.How == tipstaff.CancelDone {
			err = tipstaff.Errorf(tipstaff.RunEnded, "run %s has ended before: it is %s", run.ID, got.State)
		}
		return run.ID, err
	})
}

// fork makes a new run of the beginning of one. Nobody drives it yet.
func (v *view) fork() error {
	run, err := v.find()
	if err == nil {
		err = v.needs(tipstaff.ScopeRun)
	}
	if err != nil {
		return err
	}
	at := strings.TrimSpace(typedIn(v.r.PostForm).Get("at"))
	place, ok := tipstaff.ParsePlace(at)
	if !ok {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not a record, checkpoint or stage", tipstaff.Quote(at, 100)).
			WithHint("it is the number of a record, the id of a checkpoint, or stage:NAME")
	}
	return v.act(func() (tipstaff.ID, error) {
		got, err := v.s.control.Branch(v.ctx(), tipstaff.Branching{Run: run.ID, Place: place})
		return got.ID, err
	})
}

// act does something with a run, and shows the run that comes of it.
func (v *view) act(do func() (tipstaff.ID, error)) error {
	to, err := v.once(typedIn(v.r.PostForm), func() (string, error) {
		run, err := do()
		return "/ui/runs/" + run.String(), err
	})
	if err != nil {
		return err
	}
	return v.redirect(to)
}

// runActions is what can be done with a run, for the part run-actions.
type runActions struct {
	Run            tipstaff.Run
	Form           string
	Resume, Cancel bool   // they would do something
	Scope          string // that is missing; "": none is
	Commands       map[string]string
}

// actionsOf are those of a run, on a page.
func actionsOf(f frame, run tipstaff.Run) runActions {
	a := runActions{Run: run, Form: f.Form, Cancel: !run.State.Terminal(), Commands: map[string]string{
		"resume":   tipstaff.CommandLine("resume", run.ID.String()),
		"graceful": tipstaff.CommandLine("cancel", run.ID.String(), "--reason", "TEXT"),
		"hard":     tipstaff.CommandLine("cancel", run.ID.String(), "--hard", "--reason", "TEXT"),
		"fork":     tipstaff.CommandLine("fork", run.ID.String(), "--at", "PLACE"),
	}}
	a.Resume = a.Cancel && !isDriven(run)
	if !f.Who().May(tipstaff.ScopeRun) {
		a.Scope = tipstaff.ScopeRun
	}
	return a
}
