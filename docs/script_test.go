package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is one fenced block of a page.
type block struct {
	line int      // of its first line of text
	lang string   // console, sh, yaml …
	tags []string // what follows the language: the name of a .yaml or .sh file, norun, faulty
	text []string
}

func (b block) tagged(tag string) bool { return slices.Contains(b.tags, tag) }

// file is the name under which the block is put into the workspace.
func (b block) file() string {
	for _, t := range b.tags {
		if strings.HasSuffix(t, ".yaml") || strings.HasSuffix(t, ".sh") {
			return t
		}
	}
	return ""
}

// plan reports whether the block is a whole plan, not a piece of one.
func (b block) plan() bool { return b.lang == "yaml" && slices.Contains(b.text, "kind: plan") }

const fence = "```"

// blocksOf takes a page apart. A fence begins a line.
func blocksOf(page string) ([]block, error) {
	var blocks []block
	var open *block
	for i, line := range strings.Split(page, "\n") {
		switch {
		case open == nil && strings.HasPrefix(line, fence):
			words := strings.Fields(strings.TrimPrefix(line, fence))
			open = &block{line: i + 2}
			if len(words) > 0 {
				open.lang, open.tags = words[0], words[1:]
			}
		case open != nil && line == fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text = append(open.text, line)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the block is never closed", open.line)
	}
	return blocks, nil
}

// step is one thing that a page makes its reader do.
type step struct {
	line    int
	command string   // run in the shell of the page
	want    []string // its output; nil: not shown
	shown   bool     // the next step prints the exit code, so any will do
}

const prompt = "$ "

// stepsOf are the commands of a page in order, the writing and checking of its
// plans among them. Files that blocks name are written to dir first.
func stepsOf(blocks []block, dir string) ([]step, error) {
	var steps []step
	for i, b := range blocks {
		switch b.lang {
		case "console":
			session, err := consoleSteps(b)
			if err != nil {
				return nil, err
			}
			steps = append(steps, session...)
		case "sh":
			if b.tagged("norun") {
				if err := onlyMake(b); err != nil {
					return nil, err
				}
				continue
			}
			if name := b.file(); name != "" {
				kept, err := keep(b, dir, i)
				if err != nil {
					return nil, err
				}
				steps = append(steps, step{line: b.line, command: fmt.Sprintf("cp %[1]q %[2]q && chmod +x %[2]q && sh -n %[2]q", kept, name)})
				continue
			}
			steps = append(steps, step{line: b.line, command: strings.Join(b.text, "\n")})
		case "yaml":
			kept, err := keep(b, dir, i)
			if err != nil {
				return nil, err
			}
			steps = append(steps, documentSteps(b, kept)...)
		}
	}
	for i := range steps[:max(len(steps)-1, 0)] {
		steps[i].shown = strings.HasPrefix(steps[i+1].command, "echo $?")
	}
	return steps, nil
}

// keep writes the text of block i to a file, from which the page's shell copies it.
func keep(b block, dir string, i int) (string, error) {
	kept := filepath.Join(dir, fmt.Sprintf("block-%d.%s", i, b.lang))
	return kept, os.WriteFile(kept, []byte(strings.Join(b.text, "\n")+"\n"), 0o644)
}

// onlyMake keeps norun to what cannot run inside a test: make itself.
func onlyMake(b block) error {
	for i, line := range b.text {
		if !strings.HasPrefix(line, "make ") {
			return fmt.Errorf("line %d: norun is for make alone, not for %q", b.line+i, line)
		}
	}
	return nil
}

func consoleSteps(b block) ([]step, error) {
	var steps []step
	for i, line := range b.text {
		if command, ok := strings.CutPrefix(line, prompt); ok {
			steps = append(steps, step{line: b.line + i, command: command})
			continue
		}
		if len(steps) == 0 {
			return nil, fmt.Errorf("line %d: output stands before the first command", b.line+i)
		}
		last := &steps[len(steps)-1]
		last.want = append(last.want, line)
	}
	return steps, nil
}

// anyPlan needs nothing of its manifest.
const anyPlan = `{"kind": "plan", "version": 1, "root": {"id": "a", "kind": "gate", "question": "Go?"}}`

// documentSteps put a document where the page says, and check it if it is a plan
// or a manifest.
func documentSteps(b block, kept string) []step {
	var steps []step
	name := kept
	if b.file() != "" {
		name = b.file()
		steps = append(steps, step{line: b.line, command: fmt.Sprintf("cp %q %q", kept, name)})
	}
	if name == "tipstaff.yaml" { // read by every run
		steps = append(steps, step{line: b.line, command: "echo '" + anyPlan + "' | tipstaff run --dry-run -"})
	}
	if b.plan() && !b.tagged("faulty") {
		steps = append(steps, step{line: b.line, command: fmt.Sprintf("tipstaff run --dry-run %q", name)})
	}
	return steps
}

// matches compares output with what a page shows. … stands for any part of a
// line; alone on a line, for any number of lines.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "…" {
		return matches(want[1:], got) || len(got) > 0 && matches(want, got[1:])
	}
	return len(got) > 0 && lineMatches(want[0], got[0]) && matches(want[1:], got[1:])
}

func lineMatches(want, got string) bool {
	parts := strings.Split(want, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		match     bool
	}{
		{"a\nb", "a\nb", true},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
		{"a…c", "abbc", true},
		{"a…c", "abbd", false},
		{"a.c", "abc", false},
		{"…", "", true},
		{"…\nz", "a\nb\nz", true},
		{"…\nz", "a\nb", false},
		{"a\n…\nz", "a\nz", true},
		{"a\n…", "b\na", false},
	} {
		if matches(strings.Split(c.want, "\n"), lines(c.got)) != c.match {
			t.Errorf("%q against %q: want %v", c.want, c.got, c.match)
		}
	}
}

func TestBlocksOf(t *testing.T) {
	page := "x\n```yaml plan.yaml faulty\nkind: plan\n```\n```sh norun\nmake demo\n```\n```console\n$ a\n1\n$ echo $?\n```\n"
	blocks, err := blocksOf(page)
	if err != nil || len(blocks) != 3 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	if b := blocks[0]; b.line != 3 || b.file() != "plan.yaml" || !b.tagged("faulty") || !b.plan() {
		t.Errorf("%+v", b)
	}
	steps, err := stepsOf(blocks, t.TempDir())
	if err != nil || len(steps) != 3 {
		t.Fatalf("%+v, %v", steps, err)
	}
	if s := steps[1]; s.line != 9 || s.command != "a" || !slices.Equal(s.want, []string{"1"}) || !s.shown {
		t.Errorf("%+v", s)
	}
	if _, err := blocksOf("```sh\n"); err == nil {
		t.Error("an open block was accepted")
	}
	if err := onlyMake(block{text: []string{"make demo", "rm x"}}); err == nil {
		t.Error("norun hid a command that is not make")
	}
}
