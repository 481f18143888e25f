package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// lock reads the workspace's tipstaff.lock. With one that cannot be trusted
// nothing runs.
func (r *Runner) lock() (*tool.Lock, error) {
	l, err := tool.ReadLock(r.Workspace)
	var untrusted *tool.LockError
	switch {
	case errors.As(err, &untrusted):
		name := filepath.Join(r.Workspace, tool.LockName)
		return nil, (&tipstaff.Error{Code: tipstaff.Refused, Message: err.Error(), Err: err,
			Problems: []tipstaff.Problem{{Code: "lock_invalid", File: name, Message: untrusted.Message}}}).
			WithCommand("restore the file from version control, or remove it and accept the tools anew with `tipstaff tools pin`")
	case err != nil:
		return nil, &tipstaff.Error{Code: tipstaff.Refused, Message: fmt.Sprintf("%s cannot be read: %v", tool.LockName, err), Err: err}
	}
	return l, nil
}

// want is a tool that a node calls.
type want struct {
	uri, path string
	call      *tool.Request // what is known of the call; nil: an agent may make it
	gate      *tool.Gate    // that will be asked about it
	// in is the node or stage that makes it; nil: it stands elsewhere than in the program.
	in interface{ Position() (line, column int) }
}

// wants are the tools that the program's nodes name, and those of the child runs
// it may start: each once, and each call of the program itself.
func (p *prepared) wants() []want {
	var list []want
	seen := map[string]bool{}
	add := func(w want) {
		if w.call != nil || !seen[w.uri] {
			list = append(list, w)
		}
		seen[w.uri] = true
	}
	var look func(doc *plan.Document, at string)
	look = func(doc *plan.Document, at string) {
		var gate *tool.Gate
		if at == "" {
			gate = tool.NewGate(allowed(doc, p.skills.taken[doc.Skill]), p.manifest, p.tools)
		}
		for leaf := range doc.Root.Leaves {
			w := want{path: at, gate: gate}
			if at == "" {
				w.path, w.in = leaf.Path, leaf
			}
			switch {
			case leaf.Kind == plan.ToolCall:
				args, literal := leaf.LiteralArgs()
				w.uri, w.call = leaf.Tool, &tool.Request{URI: leaf.Tool, Args: args, Literal: literal}
				add(w)
			case leaf.Kind == plan.Step && leaf.Tools != nil:
				for _, uri := range *leaf.Tools {
					w.uri = uri
					add(w)
				}
			case leaf.Kind == plan.SubDispatch && !seen[leaf.Skill]:
				seen[leaf.Skill] = true
				if child, err := planOf(p.skills.taken[leaf.Skill]); child != nil && err == nil {
					look(child, w.path)
				}
			}
		}
	}
	for _, doc := range p.text.plans() {
		look(doc, "")
	}
	for _, a := range p.text.stages() {
		for _, uri := range stageTools(a, p.agents) {
			add(want{uri: uri, path: a.Name, in: a})
		}
	}
	return list
}

// startsPrograms reports whether anything in the program could start one of the
// programs that the manifest lists.
func (p *prepared) startsPrograms() bool {
	uris := []string{}
	for _, w := range p.wants() {
		uris = append(uris, w.uri)
	}
	for _, doc := range p.text.plans() {
		uris = append(uris, doc.AllowList()...)
	}
	for _, s := range p.skills.taken {
		uris = append(uris, s.Tools...)
	}
	for _, a := range p.agents.settled {
		if a.Tools != nil {
			uris = append(uris, *a.Tools...)
		}
	}
	return slices.ContainsFunc(uris, func(uri string) bool {
		u, err := tipstaff.ParseToolURI(uri)
		return err == nil && u.Server == builtin.Name && u.Tool == "exec"
	})
}

// preflight finds, before a run exists and without a connection, every tool that
// could not be called: pins, lock, packages, environment, and what manifest and policy
// refuse whatever comes.
func (p *prepared) preflight(name string, servers map[string]tool.Server) error {
	refusal := &tipstaff.ToolRefusal{}
	looked := map[string]bool{}
	for _, w := range p.wants() {
		u, err := tipstaff.ParseToolURI(w.uri)
		if err == nil && !looked[u.Server] {
			looked[u.Server] = true
			p.tools = p.tools.Withhold(u.Server, p.lock.Ready(u.Server, servers[u.Server]))
		}
		_, err = p.tools.Lookup(w.uri)
		if err == nil && w.call != nil && w.gate != nil {
			w.gate.Tools = p.tools
			if refused := w.gate.Foresee(*w.call); refused != nil {
				err = refused
			}
		}
		if err != nil {
			refusal.Tools = append(refusal.Tools, refusedTool(w, u, err))
		}
	}
	if len(refusal.Tools) == 0 {
		return nil
	}
	return p.refused(name, refusal)
}

// checkAnchor refuses a plan that is to be anchored where that cannot be.
func (p *prepared) checkAnchor(name, workspace string) error {
	if !p.text.intent().Anchor {
		return nil
	}
	folder := filepath.Dir(anchorIn(p.manifest, workspace))
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return tipstaff.Errorf(tipstaff.Refused, "%s cannot be run: its anchor would be written to %s, which is not a folder", name, folder).
			WithCommand("make the folder, or correct anchor.file in tipstaff.yaml")
	}
	return nil
}

func refusedTool(w want, u tipstaff.ToolURI, err error) tipstaff.RefusedTool {
	t := tipstaff.RefusedTool{URI: w.uri, Server: u.Server, Tool: u.Tool, Path: w.path, Code: "invalid_uri", Message: err.Error()}
	if w.in != nil {
		t.Line, t.Column = w.in.Position()
	}
	var refused *flow.Error
	switch {
	case errors.As(err, &refused):
		t.Code, t.Message = refused.Code, refused.Message
	case errors.Is(err, tipstaff.ErrUnpinned):
		t.Code = "unpinned_tool"
	}
	return t
}

func (p *prepared) refused(name string, refusal *tipstaff.ToolRefusal) error {
	e := &tipstaff.Error{Code: tipstaff.Refused, Message: name + " cannot be run: a tool that it calls is refused", Err: refusal}
	if n := len(refusal.Tools); n > 1 {
		e.Message = fmt.Sprintf("%s cannot be run: %d tools that it calls are refused", name, n)
	}
	for _, t := range refusal.Tools {
		problem := tipstaff.Problem{Code: t.Code, Path: t.Path, Message: t.Message}
		if t.Line > 0 {
			problem.File, problem.Line, problem.Column = name, t.Line, t.Column
		}
		e.Problems = append(e.Problems, problem)
	}
	if p.manifest == nil {
		return e.WithHint("there is no tipstaff.yaml in this workspace: it declares the servers and tools that plans may use")
	}
	return e.WithCommand("%s", adviceFor(refusal.Tools[0]))
}

// adviceFor is what to do about a tool that is refused before a run exists.
func adviceFor(t tipstaff.RefusedTool) string {
	pin := fmt.Sprintf("`tipstaff tools pin %s`", t.Server)
	switch t.Code {
	case tool.CodeUnlocked:
		return pin + " shows whether the server lists it and, if you accept it, locks it"
	case tool.CodePinMismatch:
		return "correct the pin in the plan; if the server has changed, " + pin + " shows how"
	case tool.CodePackageChanged:
		return "find out who changed the package; if it is as it should be, correct package_digest in tipstaff.yaml or accept it with " + pin
	case tool.CodeEnvMissing:
		return "set the variable as it says, then run the command again"
	case tool.CodeInvalidArguments, tool.CodeNumberUnsafe:
		return fmt.Sprintf("`tipstaff tools describe %s` shows what the tool takes", t.URI)
	case tool.CodeEffectDenied:
		return "allowed_effects in tipstaff.yaml says which classes of effects are allowed in this workspace"
	case tool.CodePolicyDenied:
		return fmt.Sprintf("`tipstaff tools explain %s/%s` shows the rules that apply", t.Server, t.Tool)
	}
	return "declare the tool in tipstaff.yaml, or correct its name in the plan; `tipstaff tools list` shows what is declared"
}
