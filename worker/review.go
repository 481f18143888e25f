package worker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Halted is a decision that ends the run.
type Halted struct{ Decision flow.Decision }

func (h *Halted) Error() string { return "a person halted the run at the review of a task" }

// review has somebody look at what was reported. With follow there is more to do.
func (d *drive) review(res Result) (out Output, follow *next, err error) {
	d.status = tipstaff.TaskNeedsReview
	out = d.output(res)
	var verdict, text, by string
	granted := false
	switch d.Review {
	case "", tipstaff.ReviewNone:
		d.complete(bySystem, nil)
		return out, nil, nil
	case tipstaff.ReviewPerson:
	default:
		if verdict, text, err = d.reviewed(res); err != nil {
			return out, nil, err
		}
		by = bySystem
	}
	if verdict == "" { // of a person, or of a reviewer who has none
		dec, err := d.fc.At(fmt.Sprintf("review#%d", d.iteration)).Wait(d.reviewGate(res))
		if err != nil {
			return out, nil, err
		}
		by = dec.By
		switch dec.Action {
		case tipstaff.ActionContinue:
			verdict = tipstaff.VerdictApproved
		case tipstaff.ActionRetry:
			verdict, text, granted = tipstaff.VerdictRejected, dec.Feedback, true
		default:
			return out, nil, &Halted{dec}
		}
	}
	said := &tipstaff.TaskFeedback{Iteration: d.iteration, Verdict: verdict, Text: text, By: by, At: d.fc.Now()}
	if by == bySystem {
		said.By = "role:" + d.Review
	}
	if verdict == tipstaff.VerdictApproved {
		d.complete(by, said)
		return out, nil, nil
	}
	if err := d.another(granted); err != nil {
		return out, nil, err
	}
	d.iteration++
	d.nudged = false
	d.move(tipstaff.TaskMoved{To: tipstaff.TaskInProgress, By: bySystem, Why: "rejected", Feedback: said}) // who rejected it says the feedback
	d.Brief.Feedback = text
	return out, &next{text: textRejected(d.iteration, text), resume: true}, nil
}

// complete ends the task. One whose session is kept goes on at the next visit.
func (d *drive) complete(by string, said *tipstaff.TaskFeedback) {
	if d.Keep && said == nil {
		return
	}
	d.move(tipstaff.TaskMoved{To: tipstaff.TaskCompleted, By: by, Feedback: said})
}

// another lets the task have one more iteration, or says why not. A person who rejects
// grants it.
func (d *drive) another(granted bool) error {
	if granted || d.iteration < d.MaxIterations {
		return nil
	}
	refused := &flow.Error{Code: flow.CodeBoundExceeded, Bound: boundIterations,
		Message: fmt.Sprintf("task %s was worked on %d times and rejected each time", d.task, d.iteration)}
	if d.OnBound != AskOnBound {
		return refused
	}
	dec, err := d.fc.At(fmt.Sprintf("limit#%d", d.iteration)).Wait(d.limitGate())
	if err != nil {
		return err
	}
	if dec.Action != actionExtend {
		return refused
	}
	var by flow.Use
	if json.Unmarshal(dec.Answer, &by) == nil {
		d.MaxIterations = d.iteration + int(max(1, by[boundIterations]))
	}
	return nil
}

// boundIterations is the bound that a task has besides those of its run.
const boundIterations = "task.iterations"

// reviewed has a role look at the work: a task of its own, in the same directory, which
// must give a verdict. Without one the verdict is "".
func (d *drive) reviewed(res Result) (verdict, text string, err error) {
	a := Assignment{Settled: *d.Reviewer, Effect: flow.Once, verdict: true, parent: d.task}
	a.Review, a.OnFailure = tipstaff.ReviewNone, ""
	a.Name = "review of " + cmp.Or(d.Name, d.task)
	work := d.Brief
	work.Iteration = d.iteration
	a.Description = textReview(work, res)
	out, err := Drive(d.fc.At(fmt.Sprintf("review#%d", d.iteration)), a)
	d.usage = d.usage.Plus(out.Usage)
	d.notices = append(d.notices, out.Notices...)
	switch {
	case isFailure(err):
		return "", "", nil // a person decides
	case err != nil:
		return "", "", err
	case out.Verdict == nil || out.Verdict.Verdict != tipstaff.VerdictApproved && out.Verdict.Verdict != tipstaff.VerdictRejected:
		return "", "", nil
	}
	return out.Verdict.Verdict, textVerdict(out.Verdict), nil
}

// Reviews reports whether an invocation at this path reviews the work of another.
func Reviews(path string) bool { return strings.Contains(path, "/review#") }
