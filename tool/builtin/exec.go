package builtin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

var execTool = definition{
	name:        "exec",
	title:       "Run a program",
	description: "Runs one of the declared programs without a shell, in a process group of its own that ends with the call. A non-zero exit code is an error.",
	input: `{"type":"object","additionalProperties":false,"required":["argv"],"properties":{
		"argv":{"type":"array","minItems":1,"items":{"type":"string"},"description":"the program as the manifest lists it, and its arguments"},
		"cwd":{"type":"string","minLength":1,"description":"a folder inside one of the roots; the first root if absent"},
		"stdin":{"type":"string"}}}`,
	output: `{"type":"object","additionalProperties":false,"required":["exit_code","stdout","stderr"],"properties":{
		"exit_code":{"type":"integer","description":"128 and the signal's number if a signal ended it"},
		"stdout":{"type":"string"},"stderr":{"type":"string"},
		"truncated":{"type":"boolean","description":"more was printed than is kept"}}}`,
	hints: annotations{Destructive: true, OpenWorld: true},
}

type execArgs struct {
	Argv  []string `json:"argv"`
	Cwd   string   `json:"cwd"`
	Stdin string   `json:"stdin"`
}

type executed struct {
	ExitCode  int    `json:"exit_code"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated,omitempty"`
}

func (s *Server) exec(c call, in execArgs) (answer, error) {
	cmd, err := s.command(c, in)
	if err != nil {
		return answer{}, err
	}
	p := &process{cmd: cmd, stdin: in.Stdin, emit: c.emit}
	ended, err := p.run(c.ctx)
	if err != nil {
		return answer{}, fmt.Errorf("%s cannot be started: %w", in.Argv[0], reason(err))
	}
	out := executed{ended.code, ended.stdout, ended.stderr, ended.truncated}
	a := answer{value: out, text: out.Stdout, killed: ended.killed}
	if out.ExitCode != 0 || ended.killed {
		a.failed, a.text = true, failure(in.Argv[0], ended)
	}
	return a, nil
}

// failure is what a person reads of a program that did not end well: the last of
// what it said.
func failure(name string, e ended) string {
	said := strings.TrimSpace(e.stderr)
	if said == "" {
		said = strings.TrimSpace(e.stdout)
	}
	if len(said) > 1000 {
		said = "…" + strings.ToValidUTF8(said[len(said)-1000:], "")
	}
	if said != "" {
		said = ": " + said
	}
	if e.killed {
		return fmt.Sprintf("%s was ended%s", name, said)
	}
	return fmt.Sprintf("%s ended with exit code %d%s", name, e.code, said)
}

// command prepares a declared program. There is no shell anywhere: arguments are
// what they are, whatever characters they have.
func (s *Server) command(c call, in execArgs) (*exec.Cmd, error) {
	name := in.Argv[0]
	if !slices.Contains(s.options.Programs, name) {
		return nil, fmt.Errorf("%q is not among the programs that the manifest lists", name)
	}
	for _, arg := range in.Argv {
		if strings.ContainsRune(arg, 0) {
			return nil, errors.New("an argument has a NUL character")
		}
	}
	path, err := s.program(name)
	if err != nil {
		return nil, err
	}
	dir, err := s.workingFolder(c, in.Cwd)
	if err != nil {
		return nil, err
	}
	if want := c.Program; want != "" {
		if err := unchangedProgram(name, path, want); err != nil {
			return nil, err
		}
	}
	return &exec.Cmd{Path: path, Args: in.Argv, Dir: dir, Env: s.environment()}, nil
}

// program finds what a declared name stands for: a path is taken from the
// workspace, a bare name is looked up, never in the working folder.
func (s *Server) program(name string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		return s.absolute(name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %q cannot be found: %w", name, errors.Unwrap(err))
	}
	return filepath.Abs(path)
}

func (s *Server) workingFolder(c call, cwd string) (string, error) {
	if cwd == "" && len(s.options.Roots) == 0 {
		return s.absolute(".")
	}
	if cwd == "" {
		cwd = "."
	}
	root, name, err := s.root(c, cwd)
	if err != nil {
		return "", err
	}
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("the folder %s cannot be used: %w", cwd, reason(err))
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a folder", cwd)
	}
	return filepath.Join(root.Name(), name), nil
}

// environment is what a process gets to see of ours: a short list of names, and
// the markers by which everything a run started can be found.
func (s *Server) environment() []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case slices.Contains([]string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}, name), strings.HasPrefix(name, "LC_"):
			env = append(env, entry)
		}
	}
	return append(env, s.options.Markers...)
}
