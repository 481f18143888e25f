package page

import (
	"net/url"
	"time"

	"github.com/tipstaff/tipstaff"
)

func saying(text string) func(tipstaff.Run) string { return func(tipstaff.Run) string { return text } }

// resumeAction has a run go on, in this process.
var resumeAction = action{
	Name: "resume", Title: "Resume", Button: "Resume the run",
	says: saying("The daemon drives the run on; one that waits for a decision goes on waiting."),
	is:   func(run tipstaff.Run) bool { return !run.State.Terminal() && !isDriven(run) },
	command: func(run tipstaff.Run, _ url.Values) []string {
		return []string{"resume", run.ID.String()}
	},
	do: func(v *view, run tipstaff.Run, _ url.Values) (tipstaff.ID, error) {
		_, err := v.s.control.Continue(v.ctx(), tipstaff.Continuation{Run: run.ID})
		return run.ID, err
	},
}

// cancelWait is how long a page waits for the end of a run that is cancelled. Its own shows
// the rest.
const cancelWait = 2 * time.Second

// cancelAction ends a run.
var cancelAction = action{
	Name: "cancel", Title: "Cancel", Button: "Cancel the run",
	says: saying("The run ends for good, and its gates close: gracefully, calls that must not be broken off may end first; hard, its processes are killed at once."),
	is:   func(run tipstaff.Run) bool { return !run.State.Terminal() },
	fields: func(_ *view, _ tipstaff.Run, in url.Values) ([]field, error) {
		if in.Get("mode") == "" {
			in.Set("mode", "graceful")
		}
		return []field{{Name: "mode", Label: "How", Kind: "choice", Options: []string{"graceful", "hard"}}, {Name: "reason", Label: "Reason", Kind: "line", Hint: "for the record"}}, nil
	},
	command: func(run tipstaff.Run, in url.Values) []string {
		words := []string{"cancel", run.ID.String()}
		if in.Get("mode") == "hard" {
			words = append(words, "--hard")
		}
		return withFlag(words, "--reason", in.Get("reason"))
	},
	do: func(v *view, run tipstaff.Run, in url.Values) (tipstaff.ID, error) {
		mode := in.Get("mode")
		if mode != "graceful" && mode != "hard" {
			return run.ID, wrongField("mode", "a run is cancelled gracefully or hard")
		}
		got, err := v.s.control.Runs.Cancel(v.ctx(), tipstaff.CancelRequest{Run: run.ID, Reason: in.Get("reason"), Hard: mode == "hard", Wait: cancelWait})
		if err == nil && got.How == tipstaff.CancelDone {
			err = tipstaff.Errorf(tipstaff.RunEnded, "run %s has ended before: it is %s", run.ID, got.State)
		}
		return run.ID, err
	},
}

// withFlag are the words of a command with a flag, unless it would say nothing.
func withFlag(words []string, flag, value string) []string {
	if value == "" {
		return words
	}
	return append(words, flag, value)
}
