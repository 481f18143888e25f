package runner

import (
	"context"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// A document is accepted by handing it over only by somebody who may decide. Of everybody
// else a run asks before each call that cannot be undone, whatever the policy allows. What
// it asks stands in its draft, and holds for all that comes of it: child runs, forks,
// rollbacks, follow-ups and corrections, whoever has them go on.

// Calls that an acceptance does not cover, because whoever gave it could not. A run may have
// several of these words, with commas between them.
const (
	asksAll     = "all"     // all calls that no rule allows: a parent run has accepted the program
	asksOnce    = "once"    // once calls: the program was handed over by somebody who may not decide
	asksEffects = "effects" // all calls that do more than read: one agent runs without what stands before it
)

// handed is a document as a request hands it over. The zero value is words alone: a message,
// a task, what a plan is to be drafted for, a run that is begun again.
type handed struct {
	own    bool   // the document, or its order or outputs, are the caller's
	file   string // it is a file of the workspace, of this name, that nobody serves
	served bool   // it is a file of a folder that the operator serves, as it stands there
	alone  bool   // one agent of it, without the stages and gates before
	of     string // what the run or draft asks that it comes from
}

// asks is what a run asks that is made of a document so handed over. It is the one place that
// says so, for every way to bring one.
func (h handed) asks(ctx context.Context) (string, error) {
	if err := may(ctx, h.needs()); err != nil {
		return "", err
	}
	c := tipstaff.CallerFrom(ctx)
	served := h.served && !h.own && !h.alone && len(c.OwnRuns()) == 0 // a process of a run may have written it
	switch {
	case served, c.May(tipstaff.ScopeDecide):
		return h.of, nil
	case h.alone:
		return joinAsks(h.of, asksEffects), nil
	}
	return joinAsks(h.of, asksOnce), nil
}

// needs is what the caller needs for it beside the scope of the request.
func (h handed) needs() need {
	to := "send documents, or change the order or the outputs of one"
	if h.file != "" {
		to = "start " + h.file + ", which lies in no folder that is served (serve.programs, --pipelines)"
	}
	return need{h.own, tipstaff.ScopeSubmit, to}
}

// joinAsks is all that two runs ask.
func joinAsks(a, b string) string {
	var words []string
	for _, word := range slices.Concat(strings.Split(a, ","), strings.Split(b, ",")) {
		if word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if slices.Contains(words, asksEffects) {
		words = slices.DeleteFunc(words, func(word string) bool { return word == asksOnce })
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

func hasAsk(asks, word string) bool { return slices.Contains(strings.Split(asks, ","), word) }

// asks is which calls of the program ask although it was accepted.
func (c *common) asks() string {
	if c.draft.acceptedVia == viaParent || c.segment.Revision.ByParent {
		return joinAsks(c.draft.Asks, asksAll)
	}
	return c.draft.Asks
}

// mustAsk reports whether a person is asked before a call of a class at a path, whatever the
// policy allows.
func (c *common) mustAsk(class flow.Class, path string) bool {
	least := askEffects(c.draft.Asks)
	return least != nil && slices.Contains(least, class) && !c.unasked[path]
}

// asksBefore is mustAsk for work that may change something; nil: nobody is asked.
func (c *common) asksBefore() func(path string) bool {
	if c.gate.Asks == nil || askEffects(c.draft.Asks) == nil {
		return nil
	}
	return func(path string) bool { return c.gate.Asks(flow.Once, path) }
}

// askEffects are the classes of calls that a person is asked about; nil: the policy says.
func askEffects(asks string) []flow.Class {
	switch {
	case hasAsk(asks, asksEffects):
		return []flow.Class{flow.Idempotent, flow.Once}
	case hasAsk(asks, asksOnce):
		return []flow.Class{flow.Once}
	}
	return nil
}

// unaskedCalls are the paths of calls and gates, and what they stand below, that a fork has
// inherited from a run that asked about less than the fork does.
func (c *common) unaskedCalls(ctx context.Context, src source) (map[string]bool, error) {
	must := len(askEffects(c.draft.Asks))
	for draft := &c.draft; must > 0 && draft.ForkOf != nil; {
		run, at := draft.ForkOf.Run, draft.ForkOf.Seq
		base, err := readDraft(ctx, src, run)
		if err != nil {
			return nil, err
		}
		s, err := segmentIn(ctx, src, run, at, base)
		if err != nil {
			return nil, err
		}
		if draft = base; s != nil {
			draft.Asks = s.inForce().Asks
		}
		if len(askEffects(draft.Asks)) >= must {
			continue
		}
		h, err := segmentOf(ctx, src, run, at)
		paths := map[string]bool{}
		for _, record := range slices.Concat(h.Base, h.Records) {
			if kind := tipstaff.Kind(record.Kind); kind != tipstaff.KindEffectIntended && !flow.Opens(record.Kind) {
				continue
			}
			for path := record.Path; path != "" && !paths[path]; path = path[:max(strings.LastIndexByte(path, '/'), 0)] {
				paths[path] = true
			}
		}
		return paths, err
	}
	return nil, nil
}
