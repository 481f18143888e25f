package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// plan is an invocation that may be started.
type plan struct {
	info       Info
	row        row
	known      bool // versions like this one were looked at
	stance     stance
	unenforced []string
}

// check is everything that can be known before something starts, in this order: the
// first problem is the one that is told.
func (w *CLI) check(ctx context.Context, o *Options, resume bool) (p plan, err error) {
	if o.Starter == nil {
		o.Starter = w.config.Starter
	}
	if err := w.complete(o, resume); err != nil {
		return p, err
	}
	if resume && !w.SupportsResumption() {
		return p, w.cannotResume()
	}
	if p.info, p.row, p.known, err = w.find(ctx, o.Env, o.Starter); err != nil {
		return p, err
	}
	if resume && p.row.resume == nil {
		return p, w.cannotResume()
	}
	if err := w.directory(o.Dir); err != nil {
		return p, err
	}
	if err := w.tree(o); err != nil {
		return p, err
	}
	if p.stance, p.unenforced, err = w.take(o.Posture, o.Policy); err != nil {
		return p, err
	}
	return p, contained(o.Limits.Containment, o.Starter.Containment())
}

func (w *CLI) cannotResume() error {
	return tipstaff.Errorf(tipstaff.ResumeUnsupported, "worker %q cannot go on with a session", w.config.Name).WithHint("begin a new session")
}

func (w *CLI) complete(o *Options, resume bool) error {
	makes := w.rows[len(w.rows)-1].makes
	l := o.Limits
	var bad string
	switch {
	case len(o.Prompt) == 0:
		bad = "the prompt is empty"
	case len(o.Prompt) > MaxPrompt:
		bad = fmt.Sprintf("the prompt has %d bytes, more than %d", len(o.Prompt), MaxPrompt)
	case o.Run == "" || o.Path == "" || o.Invocation == "":
		bad = "run, path or invocation is missing"
	case o.Channel == nil || o.Policy == nil || o.Sink == nil || o.Starter == nil:
		bad = "channel, policy, sink or starter is missing"
	case o.Folder == "" || o.Logs == "":
		bad = "folder or logs is missing"
	case !slices.Contains([]Posture{Auto, ReadOnly, Write, Bypass}, o.Posture):
		bad = fmt.Sprintf("posture is %s", tipstaff.Quote(string(o.Posture), 80))
	case l.Wall < 0 || l.Idle < 0 || l.Grace < 0 || l.Output < 0 || l.Tokens < 0 || l.CostUSD < 0:
		bad = "a limit is negative"
	case resume && o.Session.ID == "":
		bad = "a session to go on with has no id"
	case !resume && makes == MadeByTipstaff && o.Session.ID == "":
		bad = "the session to create has no id"
	case o.Session.ID != "" && (strings.HasPrefix(o.Session.ID, "-") || strings.ContainsFunc(o.Session.ID, func(r rune) bool { return r <= ' ' || r > '~' })):
		bad = fmt.Sprintf("the id of the session is %s", tipstaff.Quote(o.Session.ID, 80))
	case resume && w.of.sessionID != nil && !w.of.sessionID.MatchString(o.Session.ID):
		bad = fmt.Sprintf("no session of %s has the id %s", w.of.name, tipstaff.Quote(o.Session.ID, 80))
	case o.Session.ForkOf != "" && (resume || !slices.ContainsFunc(w.rows, func(r row) bool { return r.fork != nil })):
		bad = "it cannot copy a session"
	case w.of.command == "" && w.config.Script == "":
		bad = "it has no script"
	case strings.HasPrefix(o.Model, "-"):
		bad = fmt.Sprintf("the model is %s", tipstaff.Quote(o.Model, 80))
	default:
		return nil
	}
	return tipstaff.Errorf(tipstaff.InvalidArgument, "worker %q cannot be called: %s", w.config.Name, bad)
}

func (w *CLI) directory(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case !filepath.IsAbs(dir):
		return tipstaff.Errorf(tipstaff.WorkerDirectory, "worker %q is to work in %s, which is not an absolute path", w.config.Name, tipstaff.Quote(dir, 200))
	case err != nil:
		return tipstaff.Errorf(tipstaff.WorkerDirectory, "worker %q cannot work in %s: %v", w.config.Name, dir, errors.Unwrap(err))
	case !info.IsDir():
		return tipstaff.Errorf(tipstaff.WorkerDirectory, "worker %q cannot work in %s: it is not a directory", w.config.Name, dir)
	}
	return nil
}

// tree refuses a directory in which something configures the CLI that it cannot be told to
// leave alone. With the settings of its user it may.
func (w *CLI) tree(o *Options) error {
	if w.of.obeys == nil || w.settings() == "user" {
		return nil
	}
	found, err := w.of.obeys(o)
	switch {
	case err != nil:
		return tipstaff.Errorf(tipstaff.WorkerDirectory, "%s cannot be searched for what configures %s: %v", o.Dir, w.of.name, err)
	case len(found) > 0:
		return tipstaff.Errorf(tipstaff.WorkerSettings, "%s obeys %s, and cannot be told to leave it alone", w.of.name, strings.Join(found, ", ")).
			WithHint("use a worker of another type, remove it from the tree, or set the worker's settings to user: then it is obeyed")
	}
	return nil
}

// present are those of the names that are in the tree of an invocation's directory.
func present(o *Options, names ...string) (found []string) {
	for _, d := range tree(o) {
		for _, name := range names {
			if file := filepath.Join(d, name); lexists(file) {
				found = append(found, file)
			}
		}
	}
	return found
}

// tree is the directory of an invocation and those above it, up to the root of its
// repository. Where there is none CLIs look in all that are above, in /tmp for example. The
// home of the user is no tree on the way: what lies there is their own.
func tree(o *Options) (dirs []string) {
	home := lookup(o.Env, "HOME")
	for d := o.Dir; ; d = filepath.Dir(d) {
		root := lexists(filepath.Join(d, ".git")) || d == filepath.Dir(d)
		if root || d == o.Dir || d != home {
			dirs = append(dirs, d)
		}
		if root {
			return dirs
		}
	}
}

func lexists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// Levels of containment, the weakest first.
var containments = []string{"group", "subreaper", "cgroup"}

func contained(least, level string) error {
	if least == "" {
		return nil
	}
	need := slices.Index(containments, least)
	if need < 0 {
		return tipstaff.Errorf(tipstaff.WorkerContainment, "%s is not a level of containment", tipstaff.Quote(least, 80)).WithHint("levels are %s", strings.Join(containments, ", "))
	}
	if slices.Index(containments, level) < need {
		return tipstaff.Errorf(tipstaff.WorkerContainment, "processes can be contained at level %s here; the worker asks for %s", level, least).
			WithHint("lower the limit containment, or run where that level is available")
	}
	return nil
}
