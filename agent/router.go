package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
