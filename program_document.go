package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// programDocument is what a projection needs to know of the document of a program, which is
// kept as JSON, whatever its kind.
type programDocument struct {
	Root   *documentNode `json:"root"`
	Agents []struct {
		Name string `json:"name"`
	} `json:"agents"`
	Tools   []string        `json:"tools"`
	Deliver json.RawMessage `json:"deliver"`
}

type documentNode struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Tool     string          `json:"tool"`
	Agent    string          `json:"agent"`
	Question string          `json:"question"`
	Skill    string          `json:"skill"`
	Children []*documentNode `json:"children"`
}

// documentOf reads the program in force. A run that has none yet, or whose program is gone,
// has an empty one.
func documentOf(ctx context.Context, r DiffReader, run Run) (*programDocument, error) {
	doc := new(programDocument)
	if run.Program.Digest == "" {
		return doc, nil
	}
	text, err := r.Artifact(ctx, run.ID, run.Program.Digest)
	if CodeOf(err) == ArtifactNotFound {
		return doc, nil
	}
	_ = json.Unmarshal(text, doc) // it was checked when the run was made
	return doc, err
}

// walk visits the nodes of a plan with their paths.
func (d *programDocument) walk(visit func(n *documentNode, path string)) {
	if d.Root != nil {
		d.Root.walk("root", visit)
	}
}

func (n *documentNode) walk(path string, visit func(*documentNode, string)) {
	visit(n, path)
	for i, c := range n.Children {
		c.walk(path+"/"+cmp.Or(c.ID, strconv.Itoa(i)), visit)
	}
}

// evidence is what is told of the program.
func (d *programDocument) evidence(run Run) *EvidencePlan {
	p := &EvidencePlan{Program: run.Program, Tools: append([]string{}, d.Tools...), Gates: []string{}, Bounds: Bounds{}, Deliver: d.Deliver}
	kinds := map[string]int{}
	d.walk(func(n *documentNode, path string) {
		kinds[n.Kind]++
		p.Nodes = append(p.Nodes, EvidenceNode{Path: path, Kind: n.Kind, Label: cmp.Or(n.Tool, n.Question, n.Skill, n.Agent)})
		if n.Tool != "" && !slices.Contains(p.Tools, n.Tool) {
			p.Tools = append(p.Tools, n.Tool)
		}
		if n.Question != "" {
			p.Gates = append(p.Gates, n.Question)
		}
	})
	for _, a := range d.Agents {
		p.Stages = append(p.Stages, a.Name)
	}
	if len(p.Stages) > 0 {
		kinds["stage"] = len(p.Stages)
	}
	p.Summary = summaryOf(run.Title, kinds)
	for name, b := range run.Bounds {
		if b.Limited {
			p.Bounds[name] = b.Limit
		}
	}
	return p
}

// summaryOf says in a line what a program is made of.
func summaryOf(title string, kinds map[string]int) string {
	var counted []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if n := kinds[kind]; kind == "stage" {
			counted = append(counted, Plural(n, kind))
		} else {
			counted = append(counted, fmt.Sprintf("%d %s", n, kind))
		}
	}
	return Joined(": ", title, strings.Join(counted, ", "))
}
