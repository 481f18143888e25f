package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/workspace"
)

// What the router of Settings may be, besides "", the whole catalog.
const (
	RouterToolkits = "toolkits" // a ToolkitClassifier
	RouterCustom   = "custom"   // the library form's own
)

// Router narrows a catalog to what a message is likely to need, once per turn.
// That saves tokens. It is no security border: what was not selected is not
// offered, but it is the gate that refuses.
type Router interface {
	// Narrow selects tools of the catalog. That it could not tell is no error but a
	// Selection of everything, with a Fallback; that ctx has ended is one.
	Narrow(ctx context.Context, userMessage string, c *Catalog) (Selection, error)
}

// Selection is what a turn offers.
type Selection struct {
	Tools    []string `json:"tools"`    // URIs, in the order of the catalog
	Toolkits []string `json:"toolkits"` // that were selected, in the order of the catalog
	Fallback string   `json:"fallback"` // why it is the whole catalog after all; "": it was selected
	Usage    *Usage   `json:"usage"`    // of asking a model; nil: none was asked, or it is not known
}

// PassThrough selects the whole catalog, in its order. A turn does not even ask it.
type PassThrough struct{}

func (PassThrough) Narrow(_ context.Context, _ string, c *Catalog) (Selection, error) {
	return Selection{Tools: urisOf(c.Tools), Toolkits: []string{}}, nil
}

func urisOf(tools []Tool) []string {
	uris := make([]string, len(tools))
	for i, t := range tools {
		uris[i] = t.URI
	}
	return uris
}

// narrowing is the input of router.narrow.
type narrowing struct {
	Message string `json:"message"`
	Catalog string `json:"catalog"` // its digest
}

// RouterCall is the activity router.narrow. Its input is a narrowing, its value a
// Selection. The catalog, which the input only names, is in [Local].
func RouterCall(r Router) flow.Activity {
	return flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		var in narrowing
		if err := json.Unmarshal(a.Input, &in); err != nil {
			return flow.Done{}, fmt.Errorf("agent: the input of %s: %w", a.Name, err)
		}
		s, err := r.Narrow(context.WithValue(ctx, attemptKey{}, a), in.Message, a.Local.(*Local).Catalog)
		if err != nil {
			return flow.Done{}, err
		}
		return flow.Done{Value: flow.JSON(s), Use: used(s.Usage)}, nil
	}}
}

// misc is the toolkit of tools that nothing else claims.
const misc = "misc"

// Toolkit is a named group of tools, by which a router narrows a catalog.
type Toolkit = workspace.Toolkit

// toolkitsOf are the toolkits that have tools, in the order in which the catalog
// first names one of theirs; and for each tool of the catalog, which of them is its
// own: the first that matches, else the one that its name begins with, which need not
// be declared.
func toolkitsOf(c *Catalog, declared []Toolkit) (toolkits []Toolkit, belongs []int, err error) {
	patterns := make([][]policy.Pattern, len(declared))
	for i, k := range declared {
		for _, m := range k.Match {
			p, err := policy.ParsePattern(m)
			if err != nil {
				return nil, nil, fmt.Errorf("toolkit %q: %w", k.Name, err)
			}
			patterns[i] = append(patterns[i], p)
		}
	}
	for _, t := range c.Tools {
		name, _, found := strings.Cut(t.Name, "_")
		if !found || name == "" {
			name = misc
		}
		at := slices.IndexFunc(patterns, func(list []policy.Pattern) bool {
			return slices.ContainsFunc(list, func(p policy.Pattern) bool { return p.Match(t.Server, t.Name) })
		})
		if at < 0 {
			at = slices.IndexFunc(declared, func(k Toolkit) bool { return k.Name == name })
		}
		own := Toolkit{Name: name}
		if at >= 0 {
			own = declared[at]
		}
		i := slices.IndexFunc(toolkits, func(k Toolkit) bool { return k.Name == own.Name })
		if i < 0 {
			i = len(toolkits)
			toolkits = append(toolkits, own)
		}
		belongs = append(belongs, i)
	}
	return toolkits, belongs, nil
}

// What asking a model for toolkits may take.
const (
	routerTimeout = 30 * time.Second
	routerOutput  = 256      // tokens
	routerMessage = 16 << 10 // bytes of the user's message that are shown
	routerAnswer  = 4 << 10  // bytes of the answer that are looked at
)

// ToolkitClassifier asks a model which toolkits a message needs. What the model
// says is used for that alone: nobody gets to see it.
type ToolkitClassifier struct {
	Model    Model
	Agent    string    // whose turn it is
	Prompt   string    // a template for prompts.RouterData; "": router.md as it comes with Tipstaff
	Toolkits []Toolkit // nil: those that come with Tipstaff
}

// DefaultToolkits are those that come with Tipstaff.
func DefaultToolkits() []Toolkit {
	toolkits, problems := workspace.ParseToolkits(string(prompts.Toolkits), []byte(prompts.Default().Toolkits))
	if problems != nil {
		panic(fmt.Sprintf("agent: the embedded toolkits: %v", problems))
	}
	return toolkits
}

// Narrow asks once. Where the catalog leaves no choice it asks nobody. Where no
// answer comes, or none that can be used, it selects everything.
func (t *ToolkitClassifier) Narrow(ctx context.Context, userMessage string, c *Catalog) (Selection, error) {
	q, err := newRouterQuestion(t.Prompt, t.Toolkits, userMessage, c)
	if err != nil {
		return Selection{}, &flow.Error{Code: string(ConfigInvalid), Message: err.Error()}
	}
	if !q.asks() {
		return q.everything(""), nil
	}
	request := q.request
	request.Agent = t.Agent
	if a, ok := ctx.Value(attemptKey{}).(flow.Attempt); ok {
		request.Path, request.Attempt = a.Path, a.N
	}
	limited, cancel := context.WithTimeout(ctx, routerTimeout)
	defer cancel()
	answer, err := t.Model.Stream(limited, request, func(Delta) {})
	var s Selection
	switch {
	case err != nil && ctx.Err() != nil:
		return Selection{}, context.Cause(ctx)
	case err != nil && limited.Err() != nil:
		s = q.everything(fmt.Sprintf("the model did not answer within %s", routerTimeout))
	case err != nil:
		s = q.everything("the model could not be asked: " + err.Error())
	default:
		s = q.selection(answer)
	}
	s.Usage = priced(answer.Usage, t.Model.Caps().Price)
	return s, nil
}

// attemptKey is under which a context holds the attempt of router.narrow, for the
// parts of a request that are not sent.
type attemptKey struct{}

// routerQuestion is what a classifier asks of one message and one catalog.
type routerQuestion struct {
	catalog  *Catalog
	toolkits []Toolkit // that have tools
	belongs  []int     // of the catalog's tools: to which toolkit
	request  Request   // zero: there is nothing to ask
}

// newRouterQuestion is a pure function: the loop reserves by it what the activity
// then asks.
func newRouterQuestion(prompt string, toolkits []Toolkit, message string, c *Catalog) (*routerQuestion, error) {
	if prompt == "" {
		prompt = prompts.Default().Router
	}
	if toolkits == nil {
		toolkits = DefaultToolkits()
	}
	present, belongs, err := toolkitsOf(c, toolkits)
	if err != nil {
		return nil, err
	}
	q := &routerQuestion{catalog: c, toolkits: present, belongs: belongs}
	if !q.asks() {
		return q, nil
	}
	system, err := prompts.RenderText(prompts.Router, prompt, q.data())
	if err != nil {
		return nil, err
	}
	zero := 0.0
	q.request = Request{
		System:      system,
		Messages:    []Message{{Role: User, Text: shortText(message, routerMessage, "[…]")}},
		Temperature: &zero, MaxOutputTokens: routerOutput, Purpose: PurposeRouter,
	}
	return q, nil
}

// asks reports whether there is anything to choose.
func (q *routerQuestion) asks() bool {
	return len(q.toolkits) > 1 && slices.ContainsFunc(q.toolkits, func(k Toolkit) bool { return !k.Always })
}

func (q *routerQuestion) data() prompts.RouterData {
	var d prompts.RouterData
	for _, k := range q.toolkits {
		d.Toolkits = append(d.Toolkits, prompts.RouterToolkit{Name: k.Name, Description: k.Description, Always: k.Always})
		if !k.Always && d.Example == nil {
			d.Example = []string{k.Name}
		}
	}
	for i, t := range q.catalog.Tools {
		k := &d.Toolkits[q.belongs[i]]
		k.Tools = append(k.Tools, t.Name)
	}
	return d
}

// everything selects the whole catalog.
func (q *routerQuestion) everything(fallback string) Selection {
	s := q.pick(func(Toolkit) bool { return true })
	s.Fallback = fallback
	return s
}

// selection is what an answer chooses, and what is always chosen.
func (q *routerQuestion) selection(answer Response) Selection {
	chosen := map[string]bool{}
	for _, name := range answeredNames(answer) {
		chosen[strings.ToLower(name)] = true
	}
	named := func(k Toolkit) bool { return chosen[strings.ToLower(k.Name)] }
	if !slices.ContainsFunc(q.toolkits, named) {
		return q.everything("the answer of the model names no toolkit")
	}
	return q.pick(func(k Toolkit) bool { return k.Always || named(k) })
}

func (q *routerQuestion) pick(wanted func(Toolkit) bool) Selection {
	s := Selection{Tools: []string{}, Toolkits: []string{}}
	for _, k := range q.toolkits {
		if wanted(k) {
			s.Toolkits = append(s.Toolkits, k.Name)
		}
	}
	for i, t := range q.catalog.Tools {
		if wanted(q.toolkits[q.belongs[i]]) {
			s.Tools = append(s.Tools, t.URI)
		}
	}
	return s
}

// answeredNames are the names in an answer: of the first JSON array of texts, else
// whatever stands between commas and line ends. Half a list is none: what it does
// not name may be what matters.
func answeredNames(answer Response) []string {
	text := answer.Text[:min(len(answer.Text), routerAnswer)]
	for i := range len(text) {
		if text[i] != '[' {
			continue
		}
		if names, ok := namesInArray(text[i:]); ok {
			return names
		}
	}
	if answer.Reason != ReasonStop || len(text) < len(answer.Text) {
		return nil
	}
	var names []string
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		part = strings.TrimSpace(part)
		names = append(names, part, strings.Trim(part, "-*• \t\"'`.")) // as it is, and without what lists are decorated with
	}
	return names
}

// namesInArray reads the JSON array of texts that a text begins with.
func namesInArray(text string) ([]string, bool) {
	var list []*string
	if json.NewDecoder(strings.NewReader(text)).Decode(&list) != nil || slices.Contains(list, nil) {
		return nil, false
	}
	names := make([]string, len(list))
	for i, name := range list {
		names[i] = strings.TrimSpace(*name)
	}
	return names, true
}
