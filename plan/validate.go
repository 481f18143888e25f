package plan

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Codes of what can be wrong with a document that reads well.
const (
	codeIDMissing      = "id_missing"
	codeIDGrammar      = "id_grammar"
	codeIDDuplicate    = "id_duplicate"
	codeBranchEmpty    = "branch_empty"
	codeLeafChildren   = "leaf_children"
	codeUnpinnedTool   = "unpinned_tool"
	codeInvalidURI     = "invalid_uri"
	codeUndeclaredTool = "undeclared_tool"
	codeUnpinnedSkill  = "unpinned_skill"
	codeRefSyntax      = "ref_syntax"
	codeRefUnknown     = "ref_unknown"
	codeRefOrder       = "ref_order"
	codeRetryOnce      = "retry_once"
	codeOnErrorGate    = "on_error_gate"
	codeQuestionBlank  = "question_blank"
	codeActionsInvalid = "actions_invalid"
	codeSchemaInvalid  = "schema_invalid"
	codeAgentUnknown   = "agent_unknown"
	codeBoundsCeiling  = "bounds_ceiling"
)

// Validate says everything that is wrong with the document, what Parse found
// included, in the order in which it stands there.
func (d *Document) Validate(r Resolver) []tipstaff.Problem {
	v := &validator{d: d, r: r, ps: slices.Clone(d.problems), places: map[string]place{}, ids: map[string]document.Position{}}
	v.tools()
	v.inputs()
	v.bounds("bounds", d.Bounds, d.place("bounds"))
	v.features()
	v.locate(d.Root, nil)
	v.node(d.Root)
	if d.Outputs != nil {
		v.references(nil, d.written.Get("outputs"), "outputs")
	}
	if d.Deliver != nil && d.Deliver.CorrectAt != "" {
		if _, ok := v.places[d.Deliver.CorrectAt]; !ok {
			v.add(codeRefUnknown, d.written.Find("deliver", "correct_at").At, "deliver", "correct_at names no leaf: %q", document.Brief(d.Deliver.CorrectAt))
		}
	}
	if d.Deliver != nil && d.Deliver.Release != "" && r != nil {
		v.trouble(r.Release(d.Deliver.Release), d.written.Find("deliver", "release").At, "deliver.release", "this host evaluates no expressions")
	}
	return v.ps.Public(d.file)
}

type validator struct {
	d      *Document
	r      Resolver // may be nil
	ps     document.Problems
	skill  *SkillInfo // of the document; nil: it has none, or nobody knows it
	allow  []string
	open   bool                         // which tools it may call is for its skill to say, which nobody knows
	places map[string]place             // of leaves, by id
	ids    map[string]document.Position // of all nodes
}

// place is how to reach a leaf: the branches above it, and which child of each
// to take.
type place []pathStep

type pathStep struct {
	branch *Node
	index  int
}

func (v *validator) add(code string, at document.Position, path, format string, args ...any) {
	v.ps.Add(code, at, path, format, args...)
}

// trouble reports what a Resolver has against something.
func (v *validator) trouble(t Trouble, at document.Position, path, fallback string) {
	if t.Code != "" {
		v.add(t.Code, at, path, "%s", cmp.Or(t.Message, fallback))
	}
}

func (v *validator) tools() {
	v.ownSkill()
	var outer []string
	if v.skill != nil {
		outer = v.skill.Tools
	}
	if v.d.Tools != nil {
		v.uris(v.d.written.Get("tools"), "tools", outer, "the skill")
	}
	v.allow = v.d.AllowList()
	if v.d.Tools == nil && v.d.Skill != "" {
		v.allow, v.open = outer, outer == nil
	}
}

// uris checks a list of tools, which may only narrow the outer one. A nil outer
// list narrows nothing.
func (v *validator) uris(list *document.Value, path string, outer []string, whose string) {
	for _, item := range list.Items {
		if item.Kind == document.Text && v.uri(item.Text, item.At, path) && outer != nil && !slices.Contains(outer, item.Text) {
			v.add(codeUndeclaredTool, item.At, path, "%s is not among the tools of %s", document.Brief(item.Text), whose)
		}
	}
}

func (v *validator) uri(uri string, at document.Position, path string) bool {
	_, err := tipstaff.ParseToolURI(uri)
	switch {
	case errors.Is(err, tipstaff.ErrUnpinned):
		v.add(codeUnpinnedTool, at, path, "%q is not pinned; write mcp://server/tool@1.2.3 or @sha256:<digest>", document.Brief(uri))
	case err != nil:
		v.add(codeInvalidURI, at, path, "%q is not a tool URI; write mcp://server/tool@1.2.3 or @sha256:<digest>", document.Brief(uri))
	}
	return err == nil
}

func (v *validator) bounds(path string, b Bounds, at document.Position) {
	if v.r == nil {
		return
	}
	ceilings := v.r.Bounds()
	for _, name := range boundNames {
		want, set := b[name]
		most, bounded := ceilings[name]
		if set && bounded && want > most {
			v.add(codeBoundsCeiling, at, path, "%s is above the ceiling of this workspace", name)
		}
	}
}

// locate notes where every leaf stands, and reports ids.
func (v *validator) locate(n *Node, to place) {
	v.id(n)
	if !n.Kind.Branch() { // one of unknown kind too: its reader has been told
		if _, taken := v.places[n.ID]; !taken && n.ID != "" {
			v.places[n.ID] = slices.Clone(to)
		}
	}
	for i, c := range n.Children {
		v.locate(c, append(to, pathStep{n, i}))
	}
}

var (
	idGrammar   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	reservedIDs = []string{inputScope, "in_doubt"}
)

func (v *validator) id(n *Node) {
	id := n.field("id")
	switch {
	case id == nil && !n.leaf():
	case id == nil:
		v.add(codeIDMissing, n.at(), n.Path, "a leaf needs an id, under which others can name its output")
	case id.Kind != document.Text: // reported as such
	case !idGrammar.MatchString(n.ID):
		v.add(codeIDGrammar, id.At, n.Path, "%q cannot be an id: a small letter, then up to 63 of a-z, 0-9, _ and -", document.Brief(n.ID))
	case slices.Contains(reservedIDs, n.ID):
		v.add(codeIDGrammar, id.At, n.Path, "%q cannot be an id: it has a meaning of its own", n.ID)
	}
	if n.ID == "" {
		return
	}
	if first, taken := v.ids[n.ID]; taken {
		v.add(codeIDDuplicate, id.At, n.Path, "the id %q is taken by the node of line %d", document.Brief(n.ID), first.Line)
		return
	}
	v.ids[n.ID] = id.At
}

func (v *validator) node(n *Node) {
	if len(n.Path) > MaxPath {
		v.add(document.CodeLimit, n.at(), "", "the path of this node has %d bytes; at most %d are allowed", len(n.Path), MaxPath)
		return // and so has every path under it
	}
	switch n.Kind {
	case Sequential, Parallel:
		if n.childless {
			v.add(codeBranchEmpty, n.at(), n.Path, "a %s node needs children", n.Kind)
		}
	case ToolCall:
		v.toolCall(n)
	case Step:
		v.step(n)
	case SubDispatch:
		v.subDispatch(n)
	case Gate:
		v.gate(n)
	}
	if c := n.field("children"); c != nil && n.leaf() {
		v.add(codeLeafChildren, c.At, n.Path, "a %s node has no children", n.Kind)
	}
	for _, c := range n.Children {
		v.node(c)
	}
}

func (v *validator) toolCall(n *Node) {
	v.references(n, n.field("args", document.Object), n.Path)
	var info ToolInfo
	if tool := n.field("tool"); tool != nil && tool.Kind == document.Text && v.uri(n.Tool, tool.At, n.Path) {
		if !v.open && !slices.Contains(v.allow, n.Tool) {
			v.add(codeUndeclaredTool, tool.At, n.Path, "%s is not among the tools of the plan", document.Brief(n.Tool))
		}
		if v.r != nil {
			info = v.r.Tool(n.Tool)
		}
		v.trouble(info.Trouble, tool.At, n.Path, "the tool cannot be used")
	}
	if info.Class == flow.Once && n.Retry.Max > 0 {
		v.add(codeRetryOnce, n.field("retry").At, n.Path, "%s must not be called twice, so that it cannot be retried", document.Brief(n.Tool))
	}
	v.timeout(n, info.MaxTimeout)
}

func (v *validator) step(n *Node) {
	v.references(n, n.field("prompt", document.Text), n.Path)
	v.references(n, n.field("inputs", document.Object), n.Path)
	if n.Tools != nil {
		v.uris(n.field("tools"), n.Path, v.allow, "the plan")
	}
	if n.OutputSchema != nil {
		if _, err := document.CompileSchema(n.OutputSchema); err != nil {
			v.add(codeSchemaInvalid, n.field("output_schema").At, n.Path, "output_schema is not a JSON Schema: %v", err)
		}
	}
	v.timeout(n, 0)
	if v.r == nil {
		return
	}
	at := n.at()
	if agent := n.field("agent"); agent != nil {
		at = agent.At
	}
	info := v.r.Agent(n.Agent)
	v.trouble(info.Trouble, at, n.Path, "the agent cannot be used")
	if (info.Once || v.mayActOnce(n)) && n.Retry.Max > 0 {
		v.add(codeRetryOnce, n.field("retry").At, n.Path, "what %s does must not be done twice, so that the step cannot be retried", document.Brief(n.Agent))
	}
}

// mayActOnce reports whether an agent is given a tool in the step that must not be
// called twice.
func (v *validator) mayActOnce(n *Node) bool {
	tools := v.allow
	if n.Tools != nil {
		tools = *n.Tools
	}
	return slices.ContainsFunc(tools, func(uri string) bool { return v.r.Tool(uri).Class == flow.Once })
}

func (v *validator) subDispatch(n *Node) {
	v.references(n, n.field("inputs", document.Object), n.Path)
	if b := n.field("bounds"); b != nil {
		v.bounds(n.Path, n.Bounds, b.At)
	}
	v.timeout(n, 0)
	if skill := n.field("skill"); skill != nil && skill.Kind == document.Text && v.skillURI(n.Skill, skill.At, n.Path) {
		v.dispatch(n, skill.At)
	}
}

// timeout checks a node's own against the longest that is allowed; 0 is the
// default one.
func (v *validator) timeout(n *Node, longest time.Duration) {
	longest = cmp.Or(longest, DefaultMaxTimeout)
	if n.Timeout > longest {
		v.add(document.CodeRange, n.field("timeout").At, n.Path, "timeout is %s; max_timeout is %s", n.Timeout, longest)
	}
}

func (v *validator) gate(n *Node) {
	question := n.field("question", document.Text)
	v.references(n, n.field("show"), n.Path)
	v.references(n, question, n.Path)
	if c := n.field("on_error"); c != nil {
		v.add(codeOnErrorGate, c.At, n.Path, "a denied gate is never continued, so that it has no on_error")
	}
	if question != nil && strings.TrimSpace(n.Question) == "" {
		v.add(codeQuestionBlank, question.At, n.Path, "the question is blank")
	} else if n.field("question") == nil {
		v.add(codeQuestionBlank, n.at(), n.Path, "a gate needs a question")
	}
	if actions := n.field("actions"); actions != nil {
		v.actions(n, actions.At)
	}
}

func (v *validator) actions(n *Node, at document.Position) {
	seen, fails := map[string]bool{}, false
	for _, a := range n.Actions {
		switch {
		case !idGrammar.MatchString(a.Name):
			v.add(codeActionsInvalid, at, n.Path, "%q cannot name an action: a small letter, then up to 63 of a-z, 0-9, _ and -", document.Brief(a.Name))
		case seen[a.Name]:
			v.add(codeActionsInvalid, at, n.Path, "the action %s stands twice", a.Name)
		case a.FailReason != "" && !a.Fails:
			v.add(codeActionsInvalid, at, n.Path, "the action %s has a fail_reason, but does not fail", a.Name)
		case a.FailReason != "" && !validFailReason(a.FailReason):
			v.add(codeActionsInvalid, at, n.Path, "%q is not a reason to fail; write one of the known ones or x:<name>", document.Brief(a.FailReason))
		}
		seen[a.Name] = true
		fails = fails || a.Fails
	}
	if !fails {
		v.add(codeActionsInvalid, at, n.Path, "one action must have outcome fail: it is what expiry takes")
	}
}

// references checks every string of a value that a node uses; n is nil for the
// outputs, which see all leaves.
func (v *validator) references(n *Node, in *document.Value, path string) {
	if in == nil {
		return
	}
	eachText(in, func(s string, at document.Position, key bool) {
		parts, err := parseText(s)
		if err != nil {
			v.add(codeRefSyntax, at, path, "%v", err)
			return
		}
		for _, p := range parts {
			switch {
			case p.ref == nil:
			case key:
				v.add(codeRefSyntax, at, path, "%v stands in a key; only values can hold references", p.ref)
			case p.ref.node == "":
				name := p.ref.name
				if name != inputFollowup && !slices.ContainsFunc(v.d.Inputs, func(in document.Parameter) bool { return in.Name == name }) {
					v.add(codeRefUnknown, at, path, "the plan has no input %s", document.Brief(name))
				}
			default:
				v.outputReference(n, *p.ref, at, path)
			}
		}
	})
}

func (v *validator) outputReference(n *Node, ref reference, at document.Position, path string) {
	target, ok := v.places[ref.node]
	if !ok {
		v.add(codeRefUnknown, at, path, "no leaf has the id %s", document.Brief(ref.node))
		return
	}
	if n == nil {
		return
	}
	if n.ID == ref.node || !target.before(v.places[n.ID]) {
		v.add(codeRefOrder, at, path, "%s has not ended when this node runs; only what stands before it in a common sequence has", document.Brief(ref.node))
	}
}

// before reports whether the leaf at p has ended when the one at q begins: where
// their ways part, in a sequence, p takes the earlier turn.
func (p place) before(q place) bool {
	for i := range min(len(p), len(q)) {
		if p[i].index != q[i].index {
			return p[i].branch.Kind == Sequential && p[i].index < q[i].index
		}
	}
	return false
}

// features asks whether the host can do what the document wants of it.
func (v *validator) features() {
	d := v.d
	if v.r == nil {
		return
	}
	for _, f := range [...]struct {
		name   string
		wanted bool
		field  string
	}{
		{"files", d.Files.Wanted(), "files"},
		{"deliver", d.Deliver != nil, "deliver"},
		{"anchor", d.Intent.Anchor, "intent"},
	} {
		if f.wanted {
			v.trouble(v.r.Feature(f.name), d.place(f.field), f.field, "this host does not have "+f.name)
		}
	}
}
