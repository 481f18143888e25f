package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// plainLine is a record as one line of a log, nil for records that only machines
// care about.
func plainLine(ev tipstaff.Event) line {
	what, detail := plainWords(ev, bodyOf(ev))
	if what == "" {
		return nil
	}
	where := ev.Path
	if where == "" {
		where = "run"
	}
	l := line{say(plain, where+"  "), say(wordColors[what], what)}
	if detail != "" {
		l = append(l, say(plain, "  "+detail))
	}
	return l
}

var wordColors = map[string]color{
	"completed": green, "carried": green, "failed": red, "refused": red, "uncertain": red,
	"waiting": yellow, "parked": yellow, "interrupted": yellow, "cancelled": yellow, "retrying": yellow,
	"call failed": red, "gave up": red,
}

func plainWords(ev tipstaff.Event, b recordBody) (what, detail string) {
	switch ev.Kind {
	case "run.started", "run.resumed", "run.parked", "run.forked":
		return strings.TrimPrefix(string(ev.Kind), "run."), ""
	case "run.interrupted":
		return "interrupted", b.Reason
	case "run.cancel_requested":
		return "cancel requested", b.Reason
	case "run.correction_requested":
		return "correction requested", b.Reason
	case "intent.correct":
		return "corrected", correctionText(b.Revision, b.Material, b.Reasons)
	case "plan.proposed":
		if b.Revision > 1 {
			return "in force", fmt.Sprintf("revision %d", b.Revision)
		}
	case "intent.attest":
		return "completed", b.Outcome
	case "intent.fail":
		return "failed", joined(": ", joined(" ", b.Reason, b.Bound), b.Message)
	case "intent.cancel":
		return "cancelled", b.Reason
	case "plan.step":
		return stepWords(b)
	case "plan.drafted":
		return "drafted", fmt.Sprintf("attempt %d", b.Attempts)
	case "intent.clarify":
		return "waiting", plural(len(b.Questions), "question")
	case "intent.answer":
		return "decided", joined("  ", "answer", b.Via)
	case "intent.accept":
		if ev.Path != "" { // else it was accepted by handing it over
			return "decided", joined("  ", "accept", b.Via)
		}
	case "agent.tool_call_request":
		if a, ok := agentBodyOf(ev); ok {
			return "calls", joined("  ", a.tool(), a.Effect)
		}
	case "agent.tool_call_result":
		if a, ok := agentBodyOf(ev); ok && a.IsError {
			return "call failed", a.Class
		}
	case "agent.error":
		if a, ok := agentBodyOf(ev); ok {
			return "gave up", joined(": ", a.Code, a.Msg)
		}
	case "effect.failed":
		if b.Error != nil {
			return "retrying", fmt.Sprintf("attempt %d: %s", b.Attempt, b.Error.text())
		}
		return "retrying", fmt.Sprintf("attempt %d failed", b.Attempt)
	case "policy.gate":
		return "waiting", b.Question
	case "policy.gate.resolve":
		if b.Via == "superseded" || b.Via == "run_ended" { // nobody decided
			return "closed", b.Via
		}
		return "decided", joined("  ", b.Action, b.Via)
	case "bound.refused", "bound.extended", "bound.warned":
		return strings.Replace(string(ev.Kind), ".", " ", 1), b.Bound
	}
	return stageWords(ev)
}

func stepWords(b recordBody) (what, detail string) {
	if b.Error != nil {
		detail = b.Error.text()
	}
	if b.LatencyMs != nil {
		detail = joined("  ", human(time.Duration(*b.LatencyMs)*time.Millisecond), detail)
	}
	return b.Status, detail
}

// recordLine is any record as one line: its number, time, kind and place, and
// the beginning of what it says.
func recordLine(ev tipstaff.Event) string {
	detail := plainDetail(ev)
	return strings.TrimRight(fmt.Sprintf("%5d  %s  %s  %s  %s",
		ev.Seq, ev.At.UTC().Format("2006-01-02 15:04:05.000"), pad(clean(string(ev.Kind)), 19), pad(clean(ev.Path), 16), detail), " ")
}

const maxDetail = 120

// plainDetail is what plainLine says of a record, else the record's body.
func plainDetail(ev tipstaff.Event) string {
	if what, detail := plainWords(ev, bodyOf(ev)); what != "" {
		if ev.Kind == "plan.step" {
			return clean(joined("  ", what, detail))
		}
		return clean(detail)
	}
	if !json.Valid(ev.Body) || string(ev.Body) == "{}" {
		return ""
	}
	return fit(clean(string(ev.Body)), maxDetail)
}
