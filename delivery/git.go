package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff/filestamp"
)

// Git is how git is run.
type Git struct {
	// Run runs git in a directory with exactly this environment and returns what it
	// printed. If git ran and failed, the error is an [*ExitError].
	Run func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error)
	// Env is the environment of the user. PATH and TMPDIR are handed on, HOME and
	// XDG_CONFIG_HOME say where the user's own settings of git are; nothing else of it
	// reaches git.
	Env func(name string) string
	// Temp is where scratch directories are made; "": the system's place for those.
	Temp string
	// Limit is how long one call may take; 0: [DefaultLimit]. LimitHint says how it is set.
	Limit     time.Duration
	LimitHint string
	// Private is a pattern that is ignored in worktrees on our behalf; "": none is.
	Private string

	cleans  sync.Map // clean checkouts that this process has made, by path
	indexes sync.Map // digests of our indexes of worktrees, as they were last written, by path
	digests digests  // of files that are linked
}

// DefaultLimit is how long one call of git may take.
const DefaultLimit = 2 * time.Minute

// patience is how long git may work before we look whether it waits for a pipe.
const patience = 2 * time.Second

// ExitError is git's own failure.
type ExitError struct {
	Code   int
	Stderr string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("git ended with status %d: %s", e.Code, cmp.Or(strings.TrimSpace(e.Stderr), "it said nothing"))
}

// LimitError is a call of git that was ended because it took too long.
type LimitError struct {
	Args  []string
	Limit time.Duration
	Hint  string // how another limit is set
}

func (e *LimitError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("git %s was ended after %s; %s", verb(e.Args), e.Limit, e.Hint), "; ")
}

// verb is the command among the arguments of git.
func verb(args []string) string {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			return a
		}
	}
	return strings.Join(args, " ")
}

// PipeError is a named pipe, or a device, where git expects a file. git would read it until
// somebody writes, or for ever.
type PipeError struct{ Path string }

func (e *PipeError) Error() string {
	return fmt.Sprintf("%s is a pipe or a device, not a file; git would wait for it: remove it", e.Path)
}

// call is one start of git.
type call struct {
	dir   string
	env   []string
	stdin []byte
	args  []string
	// reads are the directories of git that it reads, files the working tree; "": none.
	reads []string
	files string
}

// start is the one function that starts git. No call outlasts its limit, and one that
// waits for a pipe is ended as soon as that is seen.
func (g *Git) start(ctx context.Context, c call) ([]byte, error) {
	limit := cmp.Or(g.Limit, DefaultLimit)
	limited, cancel := context.WithTimeoutCause(ctx, limit, &LimitError{Args: c.args, Limit: limit, Hint: g.LimitHint})
	defer cancel()
	limited, stop := context.WithCancelCause(limited)
	defer stop(nil)
	look := time.AfterFunc(patience, func() {
		if path := findPipe(limited, c.reads, c.files); path != "" {
			stop(&PipeError{path})
		}
	})
	defer look.Stop()
	out, err := g.Run(limited, c.dir, c.env, c.stdin, c.args...)
	if limited.Err() != nil && ctx.Err() == nil && err != nil {
		err = context.Cause(limited)
	}
	return out, err
}

// findPipe looks for something that git would wait for: anything that is no file in its own
// directories, and what it reads of a working tree.
func findPipe(ctx context.Context, dirs []string, files string) (found string) {
	look := func(dir string, matters func(path string, d fs.DirEntry) bool) {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil || found != "":
				return fs.SkipAll
			case err == nil && !d.IsDir() && matters(path, d):
				found = path
			}
			return nil
		})
	}
	for _, dir := range dirs {
		look(dir, func(path string, _ fs.DirEntry) bool { return waits(path) })
	}
	if files != "" { // where git follows no links to them
		look(files, func(_ string, d fs.DirEntry) bool {
			return strings.HasPrefix(strings.ToLower(d.Name()), ".git") && d.Type()&endless != 0
		})
	}
	return found
}

// endless are the kinds of files whose reading may never end. Sockets cannot be opened.
const endless = fs.ModeNamedPipe | fs.ModeDevice | fs.ModeCharDevice

// waits reports whether reading a path may take for ever, links followed.
func waits(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&endless != 0
}

// maxSmall is how long files are that are read whole: configuration, and what git keeps in
// files of few lines.
const maxSmall = 4 << 20

// readSmall reads a file of a repository. One that is not there is empty.
func readSmall(path string) ([]byte, error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(data) > maxSmall {
		return nil, fmt.Errorf("%s has more than %d bytes: it is too large for what it should be", path, maxSmall)
	}
	return data, err
}

// openRegular opens a file, and nothing that git would wait for: see [filestamp.Open].
func openRegular(path string) (*os.File, error) {
	f, err := filestamp.Open(path)
	var other *filestamp.NotRegularError
	if errors.As(err, &other) && other.Mode&endless != 0 {
		return nil, &PipeError{path}
	}
	return f, err
}

// overrides stand before the repository's configuration, for the commands that read it:
// those that find a repository, and its settings.
var overrides = []string{
	"-c", "core.hooksPath=" + os.DevNull,
	"-c", "core.fsmonitor=false",
	"-c", "core.untrackedCache=false",
	"-c", "core.pager=cat",
	"-c", "core.editor=:",
	"-c", "core.askPass=",
	"-c", "core.sshCommand=false",
	"-c", "credential.helper=",
	"-c", "gpg.program=false",
	"-c", "protocol.allow=never",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
}

// environment is all that git gets.
func (g *Git) environment(more ...string) []string {
	env := []string{
		"PATH=" + g.Env("PATH"),
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=none", // nor does an older git fetch what a partial clone has not
		"GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_LITERAL_PATHSPECS=1",
		"GIT_PAGER=cat",
		"GIT_EDITOR=:",
	}
	if dir := g.Env("TMPDIR"); dir != "" {
		env = append(env, "TMPDIR="+dir)
	}
	return append(env, more...)
}

// trusting is the environment of a call that reads the user's own settings too: whose
// repositories are to be trusted, and who the user is, stands only there.
func (g *Git) trusting(more ...string) []string {
	var env []string
	for _, e := range g.environment("HOME="+g.Env("HOME"), "XDG_CONFIG_HOME="+g.Env("XDG_CONFIG_HOME")) {
		if !strings.HasPrefix(e, "GIT_CONFIG_") && e != "XDG_CONFIG_HOME=" {
			env = append(env, e)
		}
	}
	return append(env, more...)
}
