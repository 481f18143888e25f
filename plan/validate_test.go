package plan

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
)

// section is one document of an archive in txtar form.
type section struct{ name, text string }

var heading = regexp.MustCompile(`(?m)^-- (.+) --\n`)

func sections(t *testing.T, file string) (list []section) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	starts := heading.FindAllSubmatchIndex(data, -1)
	for i, m := range starts {
		end := len(data)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		list = append(list, section{string(data[m[2]:m[3]]), string(data[m[1]:end])})
	}
	return list
}

var marker = regexp.MustCompile(`«([a-z_,]+)»`)

// unmark takes the markers out of a document and returns where they stood.
func unmark(src string) (clean string, want []string) {
	for {
		m := marker.FindStringSubmatchIndex(src)
		if m == nil {
			return src, want
		}
		before := src[:m[0]]
		line := strings.Count(before, "\n") + 1
		column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
		for _, code := range strings.Split(src[m[2]:m[3]], ",") {
			want = append(want, fmt.Sprintf("%d:%d %s", line, column, code))
		}
		src = before + src[m[1]:]
	}
}

func found(problems []tipstaff.Problem) []string {
	var list []string
	for _, p := range problems {
		list = append(list, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Code))
	}
	return list
}

func TestEveryFaultIsReportedWhereItStands(t *testing.T) {
	documents := sections(t, "testdata/invalid.txtar")
	for _, file := range documents {
		t.Run(file.name, func(t *testing.T) {
			src, want := unmark(file.text)
			if len(want) == 0 {
				t.Fatal("the document has no markers")
			}
			_, problems := Check("p.yaml", []byte(src), workspace{})
			got := found(problems)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
				for _, p := range problems {
					t.Logf("%+v", p)
				}
			}
			for _, p := range problems {
				if p.Message == "" || p.File != "p.yaml" {
					t.Errorf("%+v lacks a message or its file", p)
				}
			}
		})
	}
}

// Every code of the closed list has a document that yields it.
func TestEveryCodeIsYielded(t *testing.T) {
	codes := strings.Fields(`field_unknown kind_unknown id_missing id_grammar id_duplicate branch_empty leaf_children
		unpinned_tool invalid_uri undeclared_tool unpinned_skill ref_syntax ref_unknown ref_order retry_once range
		on_error_gate question_blank actions_invalid schema_invalid agent_unknown bounds_ceiling
		sub_dispatch_disabled sub_dispatch_cycle number_unsafe`)
	documents := sections(t, "testdata/invalid.txtar")
	for _, code := range codes {
		if !slices.ContainsFunc(documents, func(f section) bool {
			_, want := unmark(f.text)
			return slices.ContainsFunc(want, func(w string) bool { return strings.HasSuffix(w, " "+code) })
		}) {
			t.Errorf("no document yields %s", code)
		}
	}
}

func TestProblemsAreSortedByPosition(t *testing.T) {
	_, problems := Check("p.yaml", []byte("kind: plan\nversion: 1\nb: 1\na: 2\nroot: {kind: gate}\n"), nil)
	want := []string{"3:1 field_unknown", "4:1 field_unknown", "5:7 id_missing", "5:7 question_blank"}
	if diff := cmp.Diff(want, found(problems)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProblemsNameTheNode(t *testing.T) {
	src := `
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: a, kind: gate, question: Go?}
    - kind: parallel
      children: [{id: b, kind: gate, question: ""}, {kind: gate, question: Go?}]
`
	_, problems := Check("p.yaml", []byte(src), nil)
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	if diff := cmp.Diff([]string{"root/1/b", "root/1/1"}, paths); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithoutAResolverNothingIsAsked(t *testing.T) {
	src := `
kind: plan
version: 1
bounds: {tool_calls: 1000000}
root:
  kind: sequential
  children:
    - {id: a, kind: tool_call, tool: "mcp://t/gone@1.0.0", retry: {max: 2}}
    - {id: b, kind: step, agent: ghost, prompt: Do.}
    - {id: c, kind: sub_dispatch, skill: skill://off@1.0.0}
`
	for _, src := range []string{src, strings.Replace(src, "version: 1", "version: 1\nskill: skill://s@1.0.0", 1)} {
		if _, problems := Check("p.yaml", []byte(src), nil); len(problems) > 0 {
			t.Errorf("reported %v", problems)
		}
	}
}

// A program that nobody has written yet has a tree all the same, which stands nowhere.
func TestAPlanThatNobodyWroteStandsNowhere(t *testing.T) {
	root := &Node{Kind: Sequential, Path: "root", childless: true}
	d := &Document{Kind: KindPlan, Version: 1, Root: root}
	if line, column := root.Position(); line != 0 || column != 0 {
		t.Errorf("it stands at %d:%d", line, column)
	}
	if at := d.place("bounds"); at.Line != 0 || root.field("id") != nil {
		t.Error("it has members")
	}
	problems := d.Validate(nil)
	if len(problems) != 1 || problems[0].Code != codeBranchEmpty || problems[0].Line != 0 {
		t.Errorf("%+v", problems)
	}
}
