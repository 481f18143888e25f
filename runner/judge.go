package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
)

// judge decides whether a run conforms to its program. It reads, replays and
// compares; it performs nothing.
type judge struct {
	ctx      context.Context
	src      source
	program  program
	draft    *draftBody // of the run
	trace    *trace
	admins   []string // tokens that may act for others than their own user
	problems []tipstaff.Problem
}

func (j *judge) fault(code string, seq int64, path, format string, args ...any) {
	j.problems = append(j.problems, tipstaff.Problem{Code: code, Seq: seq, Path: path, Message: fmt.Sprintf(format, args...)})
}

// all applies every rule and returns the outcome of the replayed program.
func (j *judge) all(each func(tipstaff.Event)) string {
	j.lifecycle()
	parts, err := j.parts()
	if err != nil {
		j.fault("unreadable", 0, "", "a program of the run cannot be opened: %v", err)
		return string(flow.Interrupted)
	}
	var later []flow.Use
	for _, p := range parts[1:] {
		later = append(later, p.program.shared().limits)
	}
	j.agreed(parts)
	j.principals()
	if err := j.inputs(&parts[0].program.shared().draft); err != nil {
		j.fault("inputs", 1, "", "%v", err)
	}
	for _, f := range flow.Conform(j.trace.whole(), parts[0].program.shared().limits, later...) {
		j.fault("engine_rule", f.Seq, f.Path, "%s", f.Message)
	}
	j.wentBack()
	j.forkedPlan()
	j.followedUp()
	outcome, more := "", true
	for i := 0; i < len(parts) && more; i++ { // segment by segment
		outcome, more = parts[i].program.verify(j, parts[i:], each)
	}
	j.evidence(parts[0].program.shared().limits, parts[len(parts)-1].program)
	return outcome
}

// agreed checks that the bounds under which a program was accepted are those that it
// ran under: of one that was accepted by being handed over, which no gate has shown.
func (j *judge) agreed(parts []part) {
	for i := range j.trace.events {
		e := &j.trace.events[i]
		b := tipstaff.BodyOf[tipstaff.IntentAccept](e)
		if e.Kind != tipstaff.KindIntentAccept || b.Gate != "" || b.Bounds == nil {
			continue
		}
		ran := func(p part) bool { return maps.Equal(p.program.shared().draft.Bounds, b.Bounds) }
		if !slices.ContainsFunc(parts, ran) {
			j.fault("not_accepted", e.Seq, "", "the program was accepted under bounds %s, and none of its revisions had these", flow.JSON(b.Bounds))
		}
	}
}

// lifecycle checks every transition and that what took effect was accepted.
func (j *judge) lifecycle() {
	m := tipstaff.Machine{Run: idOf(j.program.shared().run)}
	var accepted tipstaff.Acceptances
	for i := range j.trace.events {
		e := &j.trace.events[i]
		if !e.Kind.Envelope() {
			continue
		}
		if e.Kind.Driving() || e.Kind == tipstaff.KindIntentDraft {
			if err := m.Apply(e); err != nil {
				j.fault("invalid_transition", e.Seq, e.Path, "%v", err)
			}
		}
		if err := accepted.Apply(e); err != nil {
			j.fault("not_accepted", e.Seq, e.Path, "%v", err)
		}
	}
}

// replayed drives the program of a part on the records alone. What follows a part that
// does not replay rests on what is not known.
func (j *judge) replayed(parts []part, each func(tipstaff.Event)) (outcome string, more bool) {
	h, p := parts[0].history, parts[0].program
	if j.neverDriven() {
		return string(flow.Failed), true
	}
	out, err := flow.Verify(h).Drive(j.ctx, replayed(p))
	if err != nil {
		j.fault("replay_mismatch", 0, "", "%v", err)
		return string(flow.Interrupted), false
	}
	var mismatch *flow.NonDeterminism
	at := ""
	if errors.As(out.Err, &mismatch) && out.Status == flow.Interrupted {
		at = mismatch.Path
		seq := mismatch.Seq
		if i := slices.IndexFunc(j.trace.events, func(e tipstaff.Event) bool { return e.Path == at && at != "" }); seq == 0 && i >= 0 {
			seq = j.trace.events[i].Seq
		}
		j.fault("replay_mismatch", seq, at, "%v", out.Err)
	} else if out.Status == flow.Interrupted {
		j.fault("replay_mismatch", 0, "", "%v", out.Err)
	}
	j.tell(h, at, each)
	outcome = p.shared().describe(ended(out)).Outcome
	switch {
	case len(parts) > 1 && out.Status == flow.Interrupted:
		return outcome, false
	case len(parts) > 1:
		j.passed(&parts[0], &parts[1], out)
	default:
		j.announced(&parts[0], nil)
		if h.Ended != "" && out.Status != flow.Interrupted {
			j.ending(h, p, ended(out))
		}
		j.cancel(out.Err)
	}
	return outcome, true
}

// tell shows the records that the program asked for, up to where it differed.
func (j *judge) tell(h flow.History, until string, each func(tipstaff.Event)) {
	if each == nil || len(h.Records) == 0 {
		return
	}
	first := h.Records[0].Seq
	for i := range j.trace.events {
		e := j.trace.events[i]
		if e.Seq < first || e.Seq >= first+int64(len(h.Records)) || !flow.Owned(string(e.Kind), e.N) {
			continue
		}
		if until != "" && (e.Path == until || strings.HasPrefix(e.Path, until+"/")) {
			return
		}
		each(e)
	}
}

// ending compares the outcome of the replay with the terminal envelope.
func (j *judge) ending(h flow.History, p program, out flow.Outcome) {
	end := &j.trace.events[len(j.trace.events)-1]
	var b tipstaff.Terminal
	if err := json.Unmarshal(end.Body, &b); err != nil {
		j.fault("outcome", end.Seq, "", "the terminal envelope cannot be read: %v", err)
		return
	}
	// The memory has added the run's own events when it was signed.
	if given := p.shared().cited(); !slices.Equal(b.Cited[:min(len(given), len(b.Cited))], given) {
		j.fault("outcome", end.Seq, "", "the envelope cites %v, but the run was given %v", b.Cited, given)
	}
	if want := p.terminal(out); want.TerminationReason != nil && out.Status == h.Ended {
		text := ""
		if b.TerminationReason != nil {
			text = *b.TerminationReason
		}
		same := *want.TerminationReason == text || *want.TerminationReason == flow.CutText(text, flow.Digest([]byte(text))) // of versions that cut nothing
		if want.TerminalReason != b.TerminalReason || !same {
			j.fault("outcome", end.Seq, "", "the pipeline is recorded to have ended with %s (%s), but it ends with %s (%s)",
				b.TerminalReason, text, want.TerminalReason, *want.TerminationReason)
		}
	}
	switch h.Ended {
	case flow.Completed:
		var res plan.Result
		_ = json.Unmarshal(out.Value, &res)
		if out.Status != flow.Completed {
			j.fault("outcome", end.Seq, "", "the run is recorded as completed, but the program ends %s", out.Status)
		} else if digest := flow.Digest(canonical(res.Outputs)); res.Outcome != b.Outcome || digest != b.OutputsDigest {
			j.fault("outcome", end.Seq, "", "the run is recorded with outcome %s and outputs %s, but the program ends with %s and %s",
				b.Outcome, b.OutputsDigest, res.Outcome, digest)
		}
	case flow.Failed:
		f := failureOf(out.Err)
		if out.Status != flow.Failed {
			j.fault("outcome", end.Seq, "", "the run is recorded as failed, but the program ends %s", out.Status)
		} else if f.Reason != b.Reason || f.Code != b.Code || f.Bound != b.Bound {
			j.fault("outcome", end.Seq, "", "the run is recorded as failed with %s (%s), but the program fails with %s (%s)", b.Reason, b.Code, f.Reason, f.Code)
		}
	case flow.Cancelled:
		if (out.Status == flow.Completed || out.Status == flow.Failed) && j.owned() {
			j.fault("outcome", end.Seq, "", "the run is recorded as cancelled, but the program had %s", out.Status)
		}
	}
}

// neverDriven reports whether the run failed because no process could be started for it:
// then nobody has asked its program, and nothing of it is recorded.
func (j *judge) neverDriven() bool {
	launched := false
	for i := range j.trace.events {
		switch e := &j.trace.events[i]; {
		case e.Kind == tipstaff.KindRunLaunched:
			launched = true
		case e.Kind == tipstaff.KindRunStarted, e.Kind == tipstaff.KindRunResumed, flow.Owned(string(e.Kind), e.N):
			return false
		}
	}
	end := &j.trace.events[len(j.trace.events)-1]
	return launched && end.Kind == tipstaff.KindIntentFail && tipstaff.BodyOf[tipstaff.IntentFail](end).Code == string(tipstaff.SpawnFailed)
}

// owned reports whether somebody drove the run when it ended. A run that nobody drives
// is cancelled as it lies, and may have had nothing left to do.
func (j *judge) owned() bool {
	for i := range slices.Backward(j.trace.events) {
		switch j.trace.events[i].Kind {
		case tipstaff.KindRunStarted, tipstaff.KindRunResumed:
			return true
		case tipstaff.KindRunParked, tipstaff.KindRunInterrupted:
			return false
		}
	}
	return false
}

// cancel checks that a cancelled run was asked to be, or that a decision has ended
// it: then err says which.
func (j *judge) cancel(err error) {
	end := &j.trace.events[len(j.trace.events)-1]
	if j.trace.ended() != flow.Cancelled {
		return
	}
	var d *declined
	if b := tipstaff.BodyOf[tipstaff.IntentCancel](end); errors.As(err, &d) {
		if b.Reason != d.Error() || b.Via != d.decision.Via || b.OnBehalfOf != d.decision.By {
			j.fault("outcome", end.Seq, "", "the run was cancelled by a decision of %s, via %s, and not as the envelope says", d.decision.By, d.decision.Via)
		}
		return
	}
	if j.leftBehind(end) {
		return
	}
	asked := ""
	for i := range j.trace.events {
		if e := &j.trace.events[i]; e.Kind == tipstaff.KindRunCancelRequested {
			asked = tipstaff.BodyOf[tipstaff.RunCancelRequested](e).Actor
		}
	}
	switch by := tipstaff.BodyOf[tipstaff.IntentCancel](end).OnBehalfOf; {
	case asked == "":
		j.fault("outcome", end.Seq, "", "the run was cancelled, but nobody asked for it")
	case asked != by:
		j.fault("outcome", end.Seq, "", "%s asked for the run to be cancelled, and not %q", asked, by)
	}
}

// evidence computes again what the terminal envelope claims.
func (j *judge) evidence(limits flow.Use, last program) {
	end := &j.trace.events[len(j.trace.events)-1]
	if j.trace.ended() == "" {
		return
	}
	a := newAccount()
	for i := range j.trace.events {
		if err := a.take(j.ctx, j.src, &j.trace.events[i]); err != nil {
			j.fault("evidence", end.Seq, "", "the amounts in the records cannot be added up: %v", err)
			return
		}
	}
	want, recorded := flow.JSON(a.evidence(last, flow.Totals(j.trace.whole(), limits), end.Kind)), tipstaff.BodyOf[tipstaff.Ending](end).Evidence
	if !sameJSON(want, apart(recorded)) {
		j.fault("evidence", end.Seq, "", "the records add up to %s, but the envelope says %s", want, recorded)
	}
}

// principals checks that everybody on whose behalf the executor has signed could act in
// this run.
func (j *judge) principals() {
	for i := range j.trace.events {
		e := &j.trace.events[i]
		var b tipstaff.Behalf
		if !e.Kind.Envelope() || json.Unmarshal(e.Body, &b) != nil || b.OnBehalfOf == "" || j.mayAct(b.OnBehalfOf, b.Via) {
			continue
		}
		hint := ""
		if name, ok := strings.CutPrefix(b.OnBehalfOf, "token:"); ok {
			hint = "; if that token could act for others, say so: verify --admin " + name
		}
		j.fault("principal", e.Seq, e.Path, "%s is signed on behalf of %q, who has no part in a run of %s%s", e.Kind, b.OnBehalfOf, j.draft.User, hint)
	}
}

// mayAct reports whether a principal can have acted in the run: its user; whoever has
// made it on the user's behalf; somebody on the machine itself, who may do all; the run
// that has dispatched it; the executor, for a gate that it closes by itself; and a token
// that may act for others, which no journal says.
func (j *judge) mayAct(who, via string) bool {
	draft := j.draft
	kind, name, _ := strings.Cut(who, ":")
	switch kind {
	case "token":
		return name == draft.User || who == draft.By || slices.Contains(j.admins, name)
	case "local":
		return name == "cli" || name == "mcp"
	case "run":
		return draft.Parent.Dispatched() && draft.Parent.Run == name
	case "system":
		return name == via && (via == "expiry" || via == "superseded" || via == "run_ended")
	}
	return false
}

// admins are the tokens that may act for others than their own user: those that were
// named, else those of the workspace, as its daemon takes them.
func (r *Runner) admins(named []string) []string {
	serving, err := r.Serving()
	if len(named) > 0 || err != nil { // nothing that is verified depends on a manifest that cannot be read
		return named
	}
	if len(serving.Tokens) == 0 {
		return []string{"local"}
	}
	for _, t := range serving.Tokens {
		if slices.Contains(t.Scopes, tipstaff.ScopeAdmin) || slices.Contains(t.Scopes, tipstaff.ScopeActAs) {
			named = append(named, t.User)
		}
	}
	return named
}

// inputs checks that the program with which the run began takes what it was given. A
// fork has the inputs of its source: the program that they were given to is that of the
// first in the line.
func (j *judge) inputs(draft *draftBody) error {
	given, err := attached(j.ctx, j.src, draft.Inputs)
	if err != nil {
		return err
	}
	for draft.ForkOf != nil {
		from, rules := draft.ForkOf.Run, draft.Rules
		if draft, err = readDraft(j.ctx, j.src, from); err != nil {
			return err
		}
		if draft.Rules != rules {
			return fmt.Errorf("it was forked from run %s, which was made under rules %d, and says that it was under %d", from, draft.Rules, rules)
		}
		had, err := attached(j.ctx, j.src, draft.Inputs)
		if err != nil {
			return err
		}
		if !sameJSON(given, had) {
			return fmt.Errorf("it was forked from run %s, but has other inputs: %s", from, differing(given, had))
		}
	}
	var canonical []byte
	if draft.ProgramDigest != "" {
		if canonical, err = j.src.Blob(j.ctx, draft.ProgramDigest); err != nil {
			return err
		}
	}
	text, err := openDocument(draft.ProgramKind, draft.Skill, canonical)
	if err != nil {
		return err
	}
	want, err := text.takes(given)
	if err != nil {
		return fmt.Errorf("the program does not take its inputs: %w", err)
	}
	if !sameJSON(given, want) {
		return fmt.Errorf("the program does not take its inputs as they are recorded: %s", differing(given, want))
	}
	return nil
}

// part is one segment of a run as the judge sees it: its records, and the program
// that they must follow from.
type part struct {
	history flow.History
	events  []tipstaff.Event // the run's own
	program program
}

// parts takes the run apart. The program of each part is the one that its first
// record names; whether it may name that is judged apart.
func (j *judge) parts() ([]part, error) {
	segments := j.trace.segments()
	if len(segments) == 1 { // as of nearly every run
		return []part{{segments[0], j.trace.events, j.program}}, nil
	}
	draft, err := readDraft(j.ctx, j.src, j.program.shared().run)
	if err != nil {
		return nil, err
	}
	var parts []part
	from := 0
	for i, h := range segments {
		var c *segment
		first := slices.IndexFunc(j.trace.events[from:], func(e tipstaff.Event) bool { return e.Seq == h.Records[0].Seq })
		if i == 0 {
			c, err = segmentInherited(j.ctx, j.src, draft)
		} else {
			from += first
			c, err = readSegment(j.ctx, j.src, &j.trace.events[from])
		}
		if err != nil {
			return nil, err
		}
		p, err := openSegment(j.ctx, j.src, j.program.shared().run, *draft, c)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{history: h, events: j.trace.events[from:], program: p})
	}
	for i := range parts[1:] {
		own := &parts[i]
		own.events = own.events[:len(own.events)-len(parts[i+1].events)]
	}
	return parts, nil
}

// passed checks that the run went on from one part to the next as it had to: the
// same envelopes, the same program, the same results carried over. out is what
// the replay of the part came to.
func (j *judge) passed(was, is *part, out flow.Outcome) {
	end := &is.events[0]
	cut := !was.program.continues()
	if cut == (out.Status == flow.Completed) || cut && out.Status != flow.ParkedRun {
		j.fault("correction_mismatch", end.Seq, "", "run.continued begins a new history here, but the program had %s", out.Status)
		return
	}
	t := &transition{src: j.src, events: append(ownedEvents(was.history.Base), was.events...), put: func(data []byte) (string, error) { return flow.Digest(data), nil }}
	if err := t.follow(j.ctx, was.program, out.Value, cut); err != nil {
		j.fault("correction_mismatch", end.Seq, "", "%v", err)
		return
	}
	j.announced(was, t.before)
	b := tipstaff.BodyOf[tipstaff.RunContinued](end)
	state, err := attached(j.ctx, j.src, b.State)
	if err != nil || !sameJSON(state, flow.JSON(t.to)) {
		j.fault("correction_mismatch", end.Seq, "", "%s", differing(state, flow.JSON(t.to)))
	}
	if !slices.Equal(b.Keep, t.keep) {
		j.fault("correction_mismatch", end.Seq, "", "it keeps %v, but the results that it names are %v", b.Keep, t.keep)
	}
}

// announced checks that a part ends with exactly the envelopes that put the next
// program in force, and has no others of their kind: nil for the last part.
func (j *judge) announced(p *part, want []flow.Draft) {
	var found []tipstaff.Event
	for i := range p.events {
		e := &p.events[i]
		if e.Seq <= j.created() || e.N > 0 { // made with the run, or by the program itself
			continue
		}
		switch e.Kind {
		case tipstaff.KindIntentCompiled, tipstaff.KindIntentCorrect, tipstaff.KindPlanProposed:
			found = append(found, *e)
		}
	}
	if len(found) != len(want) {
		j.fault("correction_mismatch", p.events[len(p.events)-1].Seq, "", "%d envelopes put a program in force where %d must", len(found), len(want))
		return
	}
	for i, d := range want {
		e := &found[i]
		switch {
		case string(e.Kind) != d.Kind || e.From != d.From:
			j.fault("correction_mismatch", e.Seq, "", "%s by %s stands where %s by %s must", e.Kind, e.From, d.Kind, d.From)
		case !sameJSON(e.Body, d.Body):
			j.fault("correction_mismatch", e.Seq, "", "%s: %s", e.Kind, differing(e.Body, d.Body))
		case e.Seq != p.events[len(p.events)-len(want)+i].Seq:
			j.fault("correction_mismatch", e.Seq, "", "%s does not stand right before the history begins afresh", e.Kind)
		}
	}
}

// created is the last record of the transaction that made the run: nobody has
// driven it by then.
func (j *judge) created() int64 {
	for i := range j.trace.events {
		if e := &j.trace.events[i]; e.Kind == tipstaff.KindRunStarted {
			return e.Seq
		}
	}
	return j.trace.events[len(j.trace.events)-1].Seq
}

// differing names the members of two objects that are not equal.
func differing(recorded, want json.RawMessage) string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(recorded, &a) != nil || json.Unmarshal(want, &b) != nil {
		return "it cannot be read"
	}
	var names []string
	for name := range b {
		if !bytes.Equal(canonical(a[name]), canonical(b[name])) {
			names = append(names, name)
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "it is not what follows from the records"
	}
	return fmt.Sprintf("%s: %s is recorded, but %s follows from the records", names[0], brief(a[names[0]]), brief(b[names[0]]))
}

func brief(raw json.RawMessage) string {
	const most = 200
	if len(raw) == 0 {
		return "nothing"
	}
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}
