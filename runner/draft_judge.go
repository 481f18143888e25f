package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// principals checks that everybody on whose behalf the executor has signed could act in
// this run.
func (j *judge) principals() {
	for i := range j.trace.events {
		e := &j.trace.events[i]
		var b struct {
			Via        string `json:"via"`
			OnBehalfOf string `json:"on_behalf_of"`
		}
		if !e.Kind.Envelope() || json.Unmarshal(e.Body, &b) != nil || b.OnBehalfOf == "" || j.mayAct(b.OnBehalfOf, b.Via) {
			continue
		}
		hint := ""
		if name, ok := strings.CutPrefix(b.OnBehalfOf, "token:"); ok {
			hint = "; if that token could act for others, say so: verify --admin " + name
		}
		j.fault("principal", e.Seq, e.Path, "%s is signed on behalf of %q, who has no part in a run of %s%s", e.Kind, b.OnBehalfOf, j.program.draft.User, hint)
	}
}

// mayAct reports whether a principal can have acted in the run: its user; whoever has
// made it on the user's behalf; somebody on the machine itself, who may do all; the run
// that has dispatched it; the executor, for a gate that it closes by itself; and a token
// that may act for others, which no journal says.
func (j *judge) mayAct(who, via string) bool {
	draft := &j.program.draft
	kind, name, _ := strings.Cut(who, ":")
	switch kind {
	case "token":
		return name == draft.User || who == draft.By || slices.Contains(j.admins, name)
	case "local":
		return name == "cli" || name == "mcp"
	case "run":
		return draft.Parent != nil && draft.Parent.Relation == relationDispatch && draft.Parent.Run == name
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

// inputs checks that the program p, with which the run began, takes what it was given. A
// fork has the inputs of its source: the program that they were given to is that of the
// first in the line.
func (j *judge) inputs(p *program) error {
	given, err := attached(j.ctx, j.src, p.draft.Inputs)
	if err != nil {
		return err
	}
	for p.draft.ForkOf != nil {
		from := p.draft.ForkOf.Run
		base, err := readDraft(j.ctx, j.src, from)
		if err != nil {
			return err
		}
		had, err := attached(j.ctx, j.src, base.Inputs)
		if err != nil {
			return err
		}
		if !sameJSON(given, had) {
			return fmt.Errorf("it was forked from run %s, but has other inputs: %s", from, differing(given, had))
		}
		p = &program{draft: *base}
	}
	want, err := p.takes(j.ctx, j.src, given)
	if err != nil {
		return fmt.Errorf("the program does not take its inputs: %w", err)
	}
	if !sameJSON(given, want) {
		return fmt.Errorf("the program does not take its inputs as they are recorded: %s", differing(given, want))
	}
	return nil
}

// takes are inputs as the program that was handed over with them takes them, which is
// how a draft has them. Those of a program that is still to be drafted are part of what
// the model is asked.
func (p *program) takes(ctx context.Context, src source, given json.RawMessage) (json.RawMessage, error) {
	switch {
	case p.draft.ProgramKind == kindPipeline:
		var in pipelineInputs
		if err := json.Unmarshal(given, &in); err != nil {
			return nil, err
		}
		if err := checkThread(in.Thread); err != nil {
			return nil, err
		}
		return in.check()
	case p.draft.ProgramDigest == "":
		return given, nil
	case p.doc == nil:
		canonical, err := src.Blob(ctx, p.draft.ProgramDigest)
		if err == nil {
			err = p.load(canonical)
		}
		if err != nil {
			return nil, err
		}
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(given, &all); err != nil {
		return nil, err
	}
	want, problems := p.doc.CheckInputs(all)
	if len(problems) > 0 {
		return nil, errors.New(problems[0].Message)
	}
	return want, nil
}
