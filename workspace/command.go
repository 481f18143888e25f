package workspace

import (
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/tool/builtin"
)

// Kinds of what the manifest has started, as they stand before a name: see [Command.Label].
const (
	KindServer  = "server"
	KindWorker  = "worker"
	KindProgram = "program" // an entry of servers.builtin.programs
)

// Command is what the manifest has started, as far as it tells which code of the workspace that
// runs: one list says what is protected, and what the lock has digests of.
type Command struct {
	Kind string // KindServer …
	Name string
	Argv []string
	Env  map[string]string

	Package       string   // the file or folder that counts beside what Argv names; "": what lies beside that
	PackageDigest string   // of Package, in the manifest; "": Package counts as files of the workspace do
	Ignore        []string // patterns of files that have no digest

	// Former: it is as a run has frozen it, and the manifest has it started otherwise by now.
	Former bool
}

// Label names it wherever servers, workers and programs stand together. No server has a slash in
// its name.
func (c Command) Label() string {
	if c.Kind == KindServer {
		return c.Name
	}
	return c.Kind + "/" + c.Name
}

// String is what people call it.
func (c Command) String() string {
	if c.Kind == KindProgram {
		return "the program " + c.Name
	}
	return c.Kind + " " + c.Name
}

// Called is what people call it in a sentence, its name quoted.
func (c Command) Called() string {
	if c.Kind == KindProgram {
		return "the program " + strconv.Quote(c.Name)
	}
	return c.Kind + " " + strconv.Quote(c.Name)
}

// Starts is the command of a server.
func (s Server) Starts(name string) Command {
	return Command{Kind: KindServer, Name: name, Argv: s.Command, Env: s.Env, Package: s.Package, PackageDigest: s.PackageDigest, Ignore: s.Ignore}
}

// Program is the command of an entry of programs.
func (s Server) Program(name string) Command {
	return Command{Kind: KindProgram, Name: name, Argv: []string{name}, Ignore: s.Ignore}
}

// OnPath reports whether it is a program of the system, such as make: what that runs is the
// project itself, which its people change all day.
func (c Command) OnPath() bool { return c.Kind == KindProgram && !strings.Contains(c.Name, "/") }

// Starts is the command of a worker. That of its type, on PATH, is no code of the workspace.
func (w Worker) Starts(name string) Command {
	c := Command{Kind: KindWorker, Name: name, Package: w.Package, Ignore: w.Ignore}
	if w.Command != "" {
		c.Argv, c.Env = append([]string{w.Command}, w.Args...), w.Env
	}
	return c
}

// Commands are all that the manifest has started.
func (m *Manifest) Commands() (list []Command) {
	m = m.orNone()
	for _, name := range sortedKeys(m.Servers) {
		s := m.Servers[name]
		if list = append(list, s.Starts(name)); name != builtin.Name {
			continue
		}
		for _, program := range s.Programs {
			list = append(list, s.Program(program))
		}
	}
	for _, name := range sortedKeys(m.Workers) {
		list = append(list, m.Workers[name].Starts(name))
	}
	return list
}
