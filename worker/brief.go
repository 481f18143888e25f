package worker

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// The texts in this file are part of what a replay compares: a run that was made with
// others would not fit its history. They change with the rules of runs only.

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

const textStopped = `You were stopped because nothing was left of what this run may spend. Go on with your task where you stopped.`

const textNudge = `Your turn ended, and your task does not know how it stands.
If the work is done, call task_set_status with status "needs_review" and a reason.
If you cannot go on, call task_ask with your question, or task_set_status with status "paused".
Do nothing else.`

// textInterrupted goes before what an invocation is told that takes the place of one that
// was broken off.
const textInterrupted = `Your last turn was broken off by an interruption that was not your doing. Something that you began may be half
done: look before you go on.

`

func textAnswer(question, answer string) string {
	return "You asked:\n\n" + quoted(question) + "\nThe answer:\n\n" + answer + "\n\nGo on with your task.\n"
}

func textRejected(iteration int, feedback string) string {
	return fmt.Sprintf("Your work was reviewed and not accepted. This is iteration %d. The feedback:\n\n%s\n\nMend it, then report as before.\n", iteration, feedback)
}

func textRetry(res Result, text string) string {
	if text != "" {
		return text + "\n"
	}
	return fmt.Sprintf("Your last turn ended before your task was done (%s). Go on with it.\n", res.Outcome)
}

// textAgain is for a session that must begin anew.
func textAgain(spawn, last, text string) string {
	if last != "" {
		spawn += "\nAn earlier session worked on this already. The last it said:\n\n" + quoted(last)
	}
	return spawn + "\n" + text
}

func textReview(b Brief, res Result) string {
	text := "Judge the work that was done on this assignment, in this directory. Change nothing. Hand over your verdict with task_output, kind \"verdict\".\n\nThe assignment:\n\n" +
		quoted(b.Text())
	if res.Report.Reason != "" {
		text += "\nWhat the worker says of it:\n\n" + quoted(res.Report.Reason)
	}
	return text
}

// textVerdict is what the worker is told of a verdict.
func textVerdict(v *Verdict) string {
	text := v.Summary
	if list := strings.TrimSpace(string(v.Findings)); list != "" && list != "[]" && list != "null" {
		text += "\n\nFindings:\n" + list
	}
	if list := strings.TrimSpace(string(v.Incomplete)); list != "" && list != "[]" && list != "null" {
		text += "\n\nIncomplete:\n" + list
	}
	return strings.TrimSpace(text)
}

// textDecided tells what became of the requests, and grants what was allowed.
func textDecided(pending []Request, decisions []flow.Decision) (text string, grants []Grant) {
	var s strings.Builder
	s.WriteString("What you asked leave for was decided:\n")
	for i, r := range pending {
		dec := decisions[i]
		switch dec.Action {
		case actionAllow, actionAllowAll:
			fmt.Fprintf(&s, "- allowed: %s with the arguments of digest %s. Call it again, with exactly the same arguments.\n", r.Tool, r.ArgsDigest)
			grants = append(grants, grantFor(r, dec.Action == actionAllowAll))
		default:
			fmt.Fprintf(&s, "- denied: %s with the arguments of digest %s. Do not call it again; find another way, or ask.\n", r.Tool, r.ArgsDigest)
		}
		if dec.Note != "" {
			fmt.Fprintf(&s, "  The reason given: %s\n", oneLine(dec.Note))
		}
	}
	s.WriteString("Then go on with your task.\n")
	return s.String(), grants
}

func failureText(worker string, res Result) string {
	text := fmt.Sprintf("worker %s: %s", worker, outcomeText(res))
	if why := cmp.Or(res.Error, res.Text, res.StderrTail); why != "" {
		text += ": " + head(oneLine(why), 300)
	}
	return text
}

// outcomeText says in words how an invocation ended.
func outcomeText(res Result) string {
	switch res.Outcome {
	case StartFailed:
		return "it could not be started"
	case ChannelFailed:
		return "it did not connect to its channel"
	case Orphan:
		return "it left a process behind that could not be ended"
	case Limit:
		return "it was stopped at its limit " + res.Which
	case SessionConflict:
		return "its session is in use"
	case SessionLost:
		return "the CLI does not know its session"
	case Empty:
		return "it printed nothing that can be read"
	case Failed:
		return "it ended with an error"
	case Exited:
		if res.Exit.Signal != "" {
			return "it was ended by " + res.Exit.Signal
		}
		return fmt.Sprintf("it ended with code %d", res.Exit.Code)
	case Truncated:
		return "it ended in the middle of its stream"
	case Denied:
		return "something was denied to it, and it reported nothing"
	case NoReport:
		return "it ended without a report"
	}
	return string(res.Outcome)
}

// quoted marks another's words.
func quoted(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> ") + "\n"
}

func head(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
