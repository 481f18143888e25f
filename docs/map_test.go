package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mapped counts how often a map links to each page of this folder. An anchor does not
// count: it points into a page, and the page has its own line.
func mapped(t *testing.T, file string) map[string]int {
	t.Helper()
	times := map[string]int{}
	for _, m := range link.FindAllStringSubmatch(readPage(t, file), -1) {
		if strings.Contains(m[1], "://") || strings.Contains(m[1], "#") {
			continue
		}
		times[strings.TrimPrefix(filepath.Join(filepath.Dir(file), m[1]), "../docs/")]++
	}
	return times
}

// TestTheMapHasEveryPage keeps docs/README.md a map of the whole folder.
func TestTheMapHasEveryPage(t *testing.T) {
	times := mapped(t, "README.md")
	found := 0
	for _, page := range pages(t) {
		if page == "README.md" || strings.HasPrefix(page, "../") {
			continue
		}
		found++
		if times[page] != 1 {
			t.Errorf("docs/README.md links to %s %d times, want once", page, times[page])
		}
	}
	if found < 20 {
		t.Errorf("only %d pages were looked for", found)
	}
	if times["adr"]+times["adr/README.md"] != 1 {
		t.Error("docs/README.md does not link to the decisions in adr")
	}
}

// TestTheMapOfAgents: what llms.txt tells an agent to read and to type is there.
func TestTheMapOfAgents(t *testing.T) {
	t.Parallel()
	text := readPage(t, "../llms.txt")
	lines := strings.Split(text, "\n")
	if !strings.HasPrefix(lines[0], "# ") || len(lines) < 3 || !strings.HasPrefix(lines[2], "> ") {
		t.Error("llms.txt does not begin with a title and a summary")
	}
	times := mapped(t, "../llms.txt")
	for _, page := range []string{"tutorial.md", "commands.md", "plans.md", "pipelines.md", "mcp.md", "guarantees.md", "security.md"} {
		if times[page] == 0 {
			t.Errorf("llms.txt does not link to %s", page)
		}
	}
	if unknown := unknownCommands(t, text); unknown != nil {
		t.Errorf("llms.txt tells of %v", unknown)
	}
	if n := strings.Count(text, "`tipstaff "); n < 10 {
		t.Errorf("llms.txt tells of %d commands", n)
	}
	if unknown := unknownFlags(text, everyFlag(t)); unknown != nil {
		t.Errorf("llms.txt tells of %v, which no command has", unknown)
	}
}

// unknownFlags are the words of a text that look like flags and are not among the known ones.
func unknownFlags(text string, known []string) (unknown []string) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n`,.;()=", r) }) {
		if flag, ok := strings.CutPrefix(word, "--"); ok && flag != "" && !slices.Contains(known, flag) {
			unknown = append(unknown, word)
		}
	}
	return unknown
}

// everyFlag are the flags of all commands that the help lists, and of their own commands.
func everyFlag(t *testing.T) (all []string) {
	t.Helper()
	var collect func(words ...string)
	collect = func(words ...string) {
		text := help(t, words...)
		for _, flag := range helpFlag.FindAllStringSubmatch(text, -1) {
			all = append(all, flag[1])
		}
		_, after, _ := strings.Cut(text, "Available Commands:")
		commands, _, _ := strings.Cut(after, "Flags:")
		for _, command := range helpCommand.FindAllStringSubmatch(commands, -1) {
			if command[1] != "help" && command[1] != "completion" { // the library's own
				collect(append(words, command[1])...)
			}
		}
	}
	collect()
	if len(all) < 50 {
		t.Fatalf("only %d flags in the help", len(all))
	}
	return all
}

// typed is a command of ours in a block that the tests do not run.
var typed = regexp.MustCompile(`(?:^\s*(?:\$ |- run: )?|[&|(] ?)(tipstaff [^|&>)"]*)`)

// TestCommandsThatAreNotRunExist: how-tos and the tutorial show commands for other machines,
// which nobody runs here.
func TestCommandsThatAreNotRunExist(t *testing.T) {
	t.Parallel()
	flags, seen := everyFlag(t), 0
	howtos, err := filepath.Glob("howto/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(howtos, "tutorial.md") {
		blocks, err := blocksOf(readPage(t, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if b.lang == "console" || b.lang == "sh" {
				continue
			}
			for i, line := range b.text {
				code, _, _ := strings.Cut(line, "#")
				for _, m := range typed.FindAllStringSubmatch(code, -1) {
					seen++
					if unknown := append(unknownCommands(t, "`"+strings.TrimSpace(m[1])+"`"), unknownFlags(m[1], flags)...); unknown != nil {
						t.Errorf("%s:%d: %v is not there", page, b.line+i, unknown)
					}
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d commands were found", seen)
	}
}

// TestHowtosStandAlone: a how-to says in its first lines what its reader will have done,
// and does not send them elsewhere before it has shown a command.
func TestHowtosStandAlone(t *testing.T) {
	howtos, err := filepath.Glob("howto/*.md")
	if err != nil || len(howtos) == 0 {
		t.Fatalf("%d how-tos, %v", len(howtos), err)
	}
	for _, page := range howtos {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		opening, _, shows := strings.Cut(string(text), fence)
		if !shows {
			t.Errorf("%s shows no command", page)
		}
		if sent := link.FindString(opening); sent != "" {
			t.Errorf("%s sends its reader away before it shows anything: %s", page, sent)
		}
	}
}
