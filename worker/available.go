package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// askTime is what a CLI has to print its version or its help.
const askTime = time.Minute

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// Available looks for the CLI and its version.
func (w *CLI) Available(ctx context.Context) (Info, error) {
	info, _, _, err := w.find(ctx, w.environ(), w.config.Starter)
	return info, err
}

// environ is an environment for a CLI that does no work.
func (w *CLI) environ() []string {
	return slices.Concat(Environ(w.of.name, os.Environ(), nil), w.config.Environ)
}

// find is Available in an environment. It also returns the row of the table that fits, and
// whether versions like this one were looked at.
func (w *CLI) find(ctx context.Context, env []string, s Starter) (info Info, r row, known bool, err error) {
	if info.Path, err = w.binary(env); err != nil {
		return info, r, false, err
	}
	if w.config.Accepts != nil {
		if err := w.config.Accepts(); err != nil {
			return info, r, false, err
		}
	}
	if w.of.command == "" { // Tipstaff itself
		r = w.rows[0]
		info.Version, info.Family = w.config.Version, r.family
		return info, r, true, nil
	}
	out, err := w.version(ctx, s, info.Path, env)
	if err != nil {
		return info, r, false, w.unavailable(fmt.Sprintf("%s --version: %v", info.Path, err))
	}
	if info.Version = versionNumber.FindString(out); info.Version == "" {
		return info, r, false, tipstaff.Errorf(tipstaff.WorkerUnsupportedVersion, "%s --version prints no version: %s", info.Path, tipstaff.Quote(out, 200)).
			WithHint("is this the CLI? %s", w.of.install)
	}
	r, known, ok := rowFor(w.rows, info.Version)
	if !ok {
		return info, r, false, tipstaff.Errorf(tipstaff.WorkerUnsupportedVersion, "%s is version %s of %s; the lowest that works is %s", info.Path, info.Version, w.of.name, w.rows[0].from).
			WithHint("update it: %s", w.of.install)
	}
	info.Family = r.family
	return info, r, known, nil
}

// Known is Available without starting the CLI: its version is what it said when it was last
// asked; "": it was not, or is another by now.
func (w *CLI) Known() (info Info, err error) {
	info.Path, err = w.binary(w.environ())
	switch {
	case w.of.command == "": // Tipstaff itself
		info.Version = w.config.Version
	case err == nil:
		info.Version = versionNumber.FindString(w.config.Versions.get(info.Path))
	}
	return info, err
}

// version is what the CLI says of its version.
func (w *CLI) version(ctx context.Context, s Starter, path string, env []string) (string, error) {
	if known := w.config.Versions.get(path); known != "" {
		return known, nil
	}
	stamp := stampOf(path)
	said, err := ask(ctx, s, path, []string{"--version"}, slices.Concat(env, w.of.always))
	if err == nil {
		w.config.Versions.put(path, stamp, said)
	}
	return said, err
}

// binary is the path of the CLI.
func (w *CLI) binary(env []string) (string, error) {
	command := w.Command()
	if strings.ContainsRune(command, filepath.Separator) {
		if err := executable(command); err != nil {
			return "", w.unavailable(fmt.Sprintf("%s: %v", command, err))
		}
		return filepath.Abs(command)
	}
	for _, dir := range filepath.SplitList(lookup(env, "PATH")) {
		if path := filepath.Join(dir, command); filepath.IsAbs(dir) && executable(path) == nil {
			return path, nil
		}
	}
	return "", w.unavailable(fmt.Sprintf("there is no %s on the PATH", command))
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("not a program")
	}
	return nil
}

func (w *CLI) unavailable(why string) error {
	return tipstaff.Errorf(tipstaff.WorkerUnavailable, "worker %q cannot run: %s", w.config.Name, why).WithHint("install %s: %s", w.of.name, w.of.install)
}

// ask runs a CLI for what it prints.
func ask(ctx context.Context, s Starter, path string, args, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	p, err := s.Start(Program{Path: path, Args: append([]string{path}, args...), Env: env, Dir: os.TempDir()})
	if err != nil {
		return "", err
	}
	stopped := make(chan bool, 1)
	go func() {
		select {
		case <-p.Exited():
			stopped <- false
		case <-ctx.Done():
			p.Stop(time.Second)
			stopped <- true
		}
	}()
	var out, complaint strings.Builder
	var reading sync.WaitGroup
	read := func(r io.Reader, into *strings.Builder) {
		_, _ = io.Copy(into, io.LimitReader(r, 1<<20))
		_, _ = io.Copy(io.Discard, r)
	}
	reading.Go(func() { read(p.Stderr(), &complaint) })
	reading.Go(func() { read(p.Stdout(), &out) })
	late := <-stopped
	ended := p.Wait()
	reading.Wait()
	closeReaders(p.Stdout(), p.Stderr())
	switch {
	case late:
		return "", fmt.Errorf("it did not end: %w", ctx.Err())
	case ended.Exit != (tipstaff.WorkerExit{}):
		return "", fmt.Errorf("%s: %s", exitText(ended.Exit), tipstaff.Quote(strings.TrimSpace(complaint.String()), 400))
	}
	if out.Len() == 0 { // opencode prints its help there
		return strings.TrimSpace(complaint.String()), nil
	}
	return strings.TrimSpace(out.String()), nil
}

func exitText(e tipstaff.WorkerExit) string {
	if e.Signal != "" {
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// CheckReport is what is found out about a worker before it runs.
type CheckReport struct {
	Info     Info            `json:"info"`
	Source   string          `json:"source"` // of what is known about its command line: tested, documented
	Problem  *tipstaff.Error `json:"problem,omitempty"`
	Warnings []string        `json:"warnings"`
	Missing  []string        `json:"missing_flags"` // that its help does not show
	Resumes  bool            `json:"resumes"`
	MakesID  string          `json:"makes_id"` // who makes the id of a session: tipstaff, cli
	Hook     bool            `json:"hook"`     // it asks before it acts; else the policy is compiled
	// Inexpressible are the rules of the policy that the CLI cannot be told: with the
	// posture auto it does not run.
	Inexpressible []string `json:"inexpressible"`
	Containment   string   `json:"containment"`
	NotInTurn     []string `json:"limits_not_enforced_in_turn"`
}

// Runs reports whether the worker can be started.
func (r CheckReport) Runs() bool { return r.Problem == nil && len(r.Missing) == 0 }

// Check finds out whether the worker can run: its version, the flags that it must have,
// and, given a policy, what of it the CLI cannot be told.
func (w *CLI) Check(ctx context.Context, p Policy) CheckReport {
	newest := w.rows[len(w.rows)-1]
	env := w.environ()
	report := CheckReport{Source: newest.source, Resumes: w.SupportsResumption(), MakesID: newest.makes, Hook: w.of.hook,
		Warnings: []string{}, Missing: []string{}, Inexpressible: []string{}, NotInTurn: []string{}, Containment: w.config.Starter.Containment()}
	if !w.of.midTurn {
		report.NotInTurn = []string{limitTokens, limitCost}
	}
	if newest.source == Documented {
		report.Warnings = append(report.Warnings, "its command line is taken from the vendor's documentation and was never tested")
	}
	if p != nil && !w.of.hook {
		v := judge(w.of, p)
		report.Inexpressible = append(append(report.Inexpressible, v.undecided()...), w.of.stance(Auto, v).cannot...)
	}
	info, r, known, err := w.find(ctx, env, w.config.Starter)
	report.Info = info
	if err != nil {
		report.Problem = asError(err)
		return report
	}
	report.Source, report.MakesID = r.source, r.makes
	if !known {
		report.Warnings = append(report.Warnings, newerText(info, r))
	}
	if r.help == nil {
		return report
	}
	help, err := ask(ctx, w.config.Starter, info.Path, r.help, env)
	if err != nil {
		report.Problem = asError(w.unavailable(fmt.Sprintf("%s %s: %v", info.Path, strings.Join(r.help, " "), err)))
		return report
	}
	for _, flag := range r.flags {
		if !regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(flag) + `($|[^\w-])`).MatchString(help) {
			report.Missing = append(report.Missing, flag)
		}
	}
	return report
}

func newerText(info Info, r row) string {
	return fmt.Sprintf("version %s is newer than all that are known (below %s): it is called like %s", info.Version, r.below, r.family)
}

// asError is err with a code.
func asError(err error) *tipstaff.Error {
	if e, ok := err.(*tipstaff.Error); ok {
		return e
	}
	if e, ok := err.(*flow.Error); ok { // refused before anything was started
		return tipstaff.Errorf(tipstaff.Refused, "%v", e)
	}
	return tipstaff.Errorf(tipstaff.Internal, "%v", err)
}
