package runner

import (
	"encoding/json"
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

// inputs checks that the program with which the run began takes what it was given. A
// fork has the inputs of its source: the program that they were given to is that of the
// first in the line.
func (j *judge) inputs(draft *draftBody) error {
	given, err := attached(j.ctx, j.src, draft.Inputs)
	if err != nil {
		return err
	}
	for draft.ForkOf != nil {
		from := draft.ForkOf.Run
		if draft, err = readDraft(j.ctx, j.src, from); err != nil {
			return err
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
