package workspace

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// Starts is what the workspace in dir would have started or sent, a line each, in order: what
// its user is shown before it is trusted. locked are the tools of its lock, as server/tool.
//
// What a program does is not on the list, for the lock holds digests of code: a pull that
// changes a script asks for tools pin, and one that changes a command asks for trust. Built-in
// tools are on it only where they leave the folder, or where the folder's own policy lets them
// start a program without asking.
func (m *Manifest) Starts(dir string, locked []string) []string {
	if m == nil || m.Implicit {
		return nil
	}
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	external := func(name string) bool { _, ok := m.Servers[name]; return ok && name != builtin.Name }
	for _, name := range sortedKeys(m.Servers) {
		s := m.Servers[name]
		switch {
		case !external(name):
			for _, root := range s.Roots {
				if outside(dir, root) {
					add("built-in tools reach %s, outside of the folder", word(root))
				}
			}
			if _, declared := s.Tools["exec"]; declared && len(s.Programs) > 0 && len(m.unasked) > 0 {
				add("exec starts %s, unasked by the rule %s", words(s.Programs), strings.Join(m.unasked, ", "))
			}
		case s.URL != "":
			add("server %s is reached at %s%s", name, s.URL, with(s.Headers, ": "))
		default:
			inherited := ""
			if len(s.InheritEnv) > 0 {
				inherited = ", and your " + strings.Join(slices.Sorted(slices.Values(s.InheritEnv)), ", ")
			}
			add("server %s starts %s%s%s", name, words(s.Command), with(s.Env, "="), inherited)
		}
	}
	for _, name := range m.workersStarted() {
		w, _ := m.Worker(name)
		program := "the program of that name on PATH"
		switch {
		case w.Type == TypeScripted:
			program = "what " + w.Script.Name + " says (" + w.Script.Digest + ")"
		case w.Command != "":
			program = word(w.Command)
		}
		add("worker %s (%s) starts %s%s", name, w.Type, strings.TrimSpace(program+" "+words(w.Args)), with(w.Env, "="))
	}
	for _, name := range sortedKeys(m.Models) {
		if c := m.Models[name]; c.Provider != ProviderScripted {
			key := ""
			if c.APIKey != "" {
				key = ", with " + c.APIKey
			}
			add("model %s is asked at %s%s", name, cmp.Or(c.BaseURL, "its vendor's address ("+c.Provider+")"), key)
		}
	}
	if m.Telemetry.Endpoint != "" {
		add("traces are sent to %s%s", m.Telemetry.Endpoint, with(m.Telemetry.Headers, ": "))
	}
	for _, name := range locked {
		if server, _, _ := strings.Cut(name, "/"); external(server) {
			add("%s%s is accepted", lockedLine, name)
		}
	}
	return list
}

// lockedLine begins the lines of tools that the lock accepts.
const lockedLine = "tool "

// SameButLocked reports whether two lists differ at most in the tools that are locked.
func SameButLocked(a, b []string) bool {
	locked := func(line string) bool { return strings.HasPrefix(line, lockedLine) }
	return slices.Equal(slices.DeleteFunc(slices.Clone(a), locked), slices.DeleteFunc(slices.Clone(b), locked))
}

// workersStarted are the workers that the manifest configures, or has agents and roles done by.
func (m *Manifest) workersStarted() []string {
	names := sortedKeys(m.Workers)
	byRole := func(role string) string {
		name, _, _ := m.WorkerFor(WorkerChoice{Role: role}) // one that does not exist was reported
		return name
	}
	for _, a := range m.Agents {
		if a.Worker != "" {
			names = append(names, a.Worker)
		}
		if a.Role != "" {
			names = append(names, byRole(a.Role))
		}
	}
	for role := range m.Roles {
		names = append(names, byRole(role))
	}
	for role := range m.Bindings {
		names = append(names, byRole(role))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unaskedRules are the rules by which programs may be started without asking.
func unaskedRules(p *policy.Policy) (ids []string) {
	for _, r := range p.Document().Rules {
		pattern, err := policy.ParsePattern(r.Tool)
		if err == nil && r.Do == policy.Allow && pattern.Match(builtin.Name, "exec") && (r.Effect == nil || slices.Contains(r.Effect, flow.Once)) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// outside reports whether a root, links resolved, is not in the folder.
func outside(dir, root string) bool {
	if !filepath.IsAbs(root) {
		root = filepath.Join(dir, root)
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	home, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return true
	}
	rel, err := filepath.Rel(home, root)
	return err != nil || !filepath.IsLocal(rel)
}

// with are names with their values as they are written: references are not resolved.
func with(values map[string]string, is string) string {
	var parts []string
	for _, name := range sortedKeys(values) {
		parts = append(parts, word(name+is+values[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", with " + strings.Join(parts, ", ")
}

// words is a command line, every argument told apart.
func words(argv []string) string {
	var parts []string
	for _, arg := range argv {
		parts = append(parts, word(arg))
	}
	return strings.Join(parts, " ")
}

// word is a text that cannot be taken for several.
func word(s string) string {
	if s == "" || strings.ContainsAny(s, " ,\"'\\") || !strconv.CanBackquote(s) {
		return strconv.Quote(s)
	}
	return s
}
