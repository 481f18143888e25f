package builtin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/supervisor"
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
	command, err := s.command(c, in)
	if err != nil {
		return answer{}, err
	}
	p, err := supervisor.Spawn(command)
	if err != nil {
		return answer{}, fmt.Errorf("%s cannot be started: %w", in.Argv[0], reason(err))
	}
	go func() {
		defer p.Stdin().Close()
		_, _ = io.WriteString(p.Stdin(), in.Stdin) // a program need not read its input
	}()
	stdout, stderr := collect(p, c.emit)
	killed := false
	select {
	case <-p.Exited():
	case <-c.ctx.Done():
		killed = true
		p.Stop(supervisor.Grace)
	}
	out := executed{Stdout: stdout.text(), Stderr: stderr.text(), Truncated: stdout.truncated || stderr.truncated}
	if out.ExitCode = 128 + int(syscall.SIGKILL); p.Close() == nil { // else it hangs in the kernel, being dead
		out.ExitCode = p.Exit().Status()
	}
	a := answer{value: out, text: out.Stdout, killed: killed}
	if out.ExitCode != 0 || killed {
		a.failed, a.text = true, failure(in.Argv[0], out, killed)
	}
	return a, nil
}

// failure is what a person reads of a program that did not end well: the last of
// what it said.
func failure(name string, out executed, killed bool) string {
	said := strings.TrimSpace(out.Stderr)
	if said == "" {
		said = strings.TrimSpace(out.Stdout)
	}
	if len(said) > 1000 {
		said = "…" + strings.ToValidUTF8(said[len(said)-1000:], "")
	}
	if said != "" {
		said = ": " + said
	}
	if killed {
		return fmt.Sprintf("%s was ended%s", name, said)
	}
	return fmt.Sprintf("%s ended with exit code %d%s", name, out.ExitCode, said)
}

// command prepares a declared program. There is no shell anywhere: arguments are
// what they are, whatever characters they have.
func (s *Server) command(c call, in execArgs) (cmd supervisor.Command, err error) {
	name := in.Argv[0]
	if !slices.Contains(s.options.Programs, name) {
		return cmd, fmt.Errorf("%q is not among the programs that the manifest lists", name)
	}
	for _, arg := range in.Argv {
		if strings.ContainsRune(arg, 0) {
			return cmd, errors.New("an argument has a NUL character")
		}
	}
	path, err := LookProgram(s.options.Workspace, name)
	if err != nil {
		return cmd, err
	}
	dir, err := s.workingFolder(c, in.Cwd)
	if err != nil {
		return cmd, err
	}
	if want := c.Program; want != "" {
		if err := unchangedProgram(name, path, want); err != nil {
			return cmd, err
		}
	}
	environ := s.environment()
	if c.Ready != nil {
		more, refused := c.Ready(name)
		if refused != nil {
			return cmd, refused
		}
		environ = append(environ, more...)
	}
	return supervisor.Command{Path: path, Args: in.Argv, Dir: dir, Env: environ, NoInput: in.Stdin == "", Reap: true}, nil
}

// LookProgram is where a program is that a manifest names: a path stands in the
// workspace, a bare name is looked up in our PATH, never in the workspace.
func LookProgram(workspace, name string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(workspace, name)
		}
		return filepath.Abs(name)
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
	dir := filepath.Join(root.Name(), name)
	if err := s.startable(dir); err != nil {
		return "", fmt.Errorf("no program is started in %s: %w", cwd, err)
	}
	return dir, nil
}

// environment is what a process gets to see of ours: a short list of names, and
// the markers by which everything a run started can be found.
func (s *Server) environment() []string {
	return append(Environment(os.Environ()), s.options.Markers...)
}

// Environment is what of ours every program of a run gets to see.
func Environment(environ []string) []string {
	return slices.DeleteFunc(environ, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !Inherited(name)
	})
}

// Inherited reports whether every process that a run starts gets to see a variable of
// our environment.
func Inherited(name string) bool {
	return slices.Contains([]string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}, name) || strings.HasPrefix(name, "LC_")
}

// Codes of calls that a tool refuses before it does anything.
const (
	CodeUncleanPath    = "unclean_path"
	CodeProgramChanged = "program_changed"
)

// Demand is what a call must meet besides what its arguments say.
type Demand struct {
	// CleanPaths: no absolute path leads into the first root.
	CleanPaths bool
	// Program is the digest of the program that is started. "": any will do.
	Program string
	// Ready refuses a program whose code is not what was accepted, and says what its environment
	// has besides. nil: any will do.
	Ready func(program string) (environ []string, refused *flow.Error)
}

// refused is a call that was refused before it did anything.
func refused(code, format string, args ...any) error {
	return &flow.Error{Code: code, Message: fmt.Sprintf(format, args...), NotSent: true}
}

// NoProgram is the digest of a program that cannot be found or read.
const NoProgram = "none"

// Digests are those of the declared programs, by name.
func (s *Server) Digests() map[string]string {
	digests := map[string]string{}
	for _, name := range s.options.Programs {
		digests[name] = NoProgram
		if path, err := LookProgram(s.options.Workspace, name); err == nil {
			if digest, err := FileDigest(path); err == nil {
				digests[name] = digest
			}
		}
	}
	return digests
}

// FileDigest is the digest of a regular file.
func FileDigest(path string) (string, error) {
	f, _, err := openRegular(os.OpenFile, path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", reason(err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// unchangedProgram refuses a program that is not the one with which the run was
// made. It is looked at a moment before it is started.
func unchangedProgram(name, path, want string) error {
	digest, err := FileDigest(path)
	switch {
	case err != nil:
		return fmt.Errorf("the program %q cannot be read: %w", name, err)
	case want == NoProgram:
		return refused(CodeProgramChanged, "the program %q (%s) was not there when the run was made, so that nobody has approved it: start a new run", name, path)
	case digest != want:
		return refused(CodeProgramChanged, "the program %q (%s) has changed since the run was made: its digest is %s, and %s was approved; look at it, then start a new run", name, path, digest, want)
	}
	return nil
}

const (
	maxOutput  = 1 << 20 // kept of each channel; the rest is read and dropped
	pieceSize  = 1 << 10 // a piece is handed on when it has this size,
	pieceDelay = 500 * time.Millisecond
)

// collector keeps what a program prints to one channel, and hands it on in
// pieces while it runs.
type collector struct {
	channel   string
	emit      func(Output)
	kept      strings.Builder
	truncated bool
	ended     chan struct{} // closed when all was read

	mu      sync.Mutex // guards pending and timer, and keeps pieces in order
	pending []byte
	spoke   bool // a piece was handed on
	timer   *time.Timer
}

// collect reads what a program prints. emit is never called concurrently; nil: not
// wanted.
func collect(p *supervisor.Process, emit func(Output)) (stdout, stderr *collector) {
	if each := emit; each != nil {
		var mu sync.Mutex
		emit = func(piece Output) {
			mu.Lock()
			defer mu.Unlock()
			each(piece)
		}
	}
	stdout, stderr = newCollector("stdout", emit), newCollector("stderr", emit)
	go stdout.readFrom(p.Stdout())
	go stderr.readFrom(p.Stderr())
	return stdout, stderr
}

func newCollector(channel string, emit func(Output)) *collector {
	return &collector{channel: channel, emit: emit, ended: make(chan struct{})}
}

// text waits for the end, and is all that was kept.
func (c *collector) text() string {
	<-c.ended
	return strings.ToValidUTF8(c.kept.String(), "\uFFFD")
}

// readFrom reads to the end, and hands on a final piece.
func (c *collector) readFrom(r io.Reader) {
	defer close(c.ended)
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		c.take(buffer[:n])
		if err != nil {
			c.flush(true)
			return
		}
	}
}

func (c *collector) take(data []byte) {
	if room := maxOutput - c.kept.Len(); len(data) > room {
		data, c.truncated = data[:room], true
	}
	if len(data) == 0 {
		return
	}
	c.kept.Write(data)
	if c.emit == nil {
		return
	}
	c.mu.Lock()
	c.pending = append(c.pending, data...)
	due := len(c.pending) >= pieceSize
	if !due && c.timer == nil {
		c.timer = time.AfterFunc(pieceDelay, func() { c.flush(false) })
	}
	c.mu.Unlock()
	if due {
		c.flush(false)
	}
}

// flush hands on what is pending. A character whose last bytes are still to come
// waits for them, unless nothing more comes.
func (c *collector) flush(final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.emit == nil {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	piece := c.pending
	if !final {
		piece = piece[:wholeRunes(piece)]
	}
	if len(piece) == 0 && (!final || !c.spoke) {
		return // nothing to say, and nothing that would have to be ended
	}
	c.spoke = true
	c.emit(Output{c.channel, strings.ToValidUTF8(string(piece), "\uFFFD"), final})
	c.pending = append([]byte(nil), c.pending[len(piece):]...)
	if final {
		c.emit = nil
	}
}

// wholeRunes is the length of b without a character that is cut off at its end.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// Output is a piece of what a program prints while it runs.
type Output struct {
	Channel string // stdout, stderr
	Chunk   string
	Final   bool // the last of its channel
}
