package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// compared are the figures that an earlier commit is compared by: they show what the engine,
// the store, the loop, the executor of pipelines and the daemon cost, and take seconds.
var compared = []string{"steps", "concurrent", "plan", "memory log", "turn", "loop", "site"}

const (
	comparedRounds = 5
	// comparedEffort keeps one round of all figures, of both sides, below a minute.
	comparedEffort = "rounds=3,round=300ms,runs=100,calls=300,loops=300,followed=60,crowding=100,started=150,starts=4"
	stopsWithin    = 30 * time.Second // a bench that is asked to
)

// against measures the bench of an earlier commit and this one in turns, and returns the exit
// code. Absolute figures vary with the machine and with what else it does; two programs that
// take turns on it meet the same.
func (b *bench) against(ctx context.Context, ref, parent string) (code int) {
	c, remove, err := b.prepare(ctx, ref, parent)
	if err == nil {
		code, err = c.run(ctx)
	}
	if err = errors.Join(err, remove()); err != nil {
		fmt.Fprintln(b.progress, err)
		return exitUnmeasured
	}
	return code
}

// comparison is two programs that are measured in turns.
type comparison struct {
	ref             string
	figures         []string
	take            func(ctx context.Context, s side, figure string) (string, error) // what its bench prints
	table, progress io.Writer
}

// side is one of them.
type side int

const (
	oldSide side = iota
	newSide
)

func (s side) String() string { return [...]string{"old", "new"}[s] }

// run prints each row as soon as its rounds are measured. A row that is slower counts only if
// it is slower again in as many further rounds.
func (c *comparison) run(ctx context.Context) (code int, err error) {
	start := time.Now()
	printCompared(c.table, "row", "old: worst, median, best", "new: worst, median, best", "spread", "ratio", "verdict")
	var slower []string
	var spreads []float64
	for _, figure := range c.figures {
		pairs, err := c.measure(ctx, figure)
		if err != nil {
			return 0, err
		}
		var doubtful []string
		for _, p := range pairs {
			p.print(c.table, p.figure, p.verdict())
			if p.comparable() {
				spreads = append(spreads, spread(p.old))
			}
			if p.slower() {
				doubtful = append(doubtful, p.figure)
			}
		}
		if len(doubtful) == 0 {
			continue
		}
		fmt.Fprintf(c.progress, "%s: a row is slower, so it is measured again\n", figure)
		if pairs, err = c.measure(ctx, figure); err != nil {
			return 0, err
		}
		for _, name := range doubtful {
			i := slices.IndexFunc(pairs, func(p pair) bool { return p.figure == name && p.comparable() })
			if i < 0 {
				return 0, fmt.Errorf("%s: %q was not measured again", figure, name)
			}
			verdict := "not slower"
			if pairs[i].slower() {
				verdict = "SLOWER, twice"
				slower = append(slower, name)
			}
			pairs[i].print(c.table, "  again: "+name, verdict)
		}
	}
	if len(spreads) == 0 {
		return 0, fmt.Errorf("the bench of %s has no row that could be compared", c.ref)
	}
	c.conclude(slower, spreads, time.Since(start))
	if len(slower) > 0 {
		return exitBroken, nil
	}
	return exitKept, nil
}

// conclude says what was found, and how much the rounds of the old side differ among
// themselves: that is the noise in which it was found.
func (c *comparison) conclude(slower []string, spreads []float64, took time.Duration) {
	middle := median(spreads) // sorts them
	fmt.Fprintf(c.table, "\nRows compared: %d, in %s. The rounds of %s spread by %.0f %% of their median, of the calmest row by %.0f %%, of the wildest by %.0f %%.\n",
		len(spreads), took.Round(time.Second), c.ref, 100*middle, 100*spreads[0], 100*spreads[len(spreads)-1])
	if len(slower) == 0 {
		fmt.Fprintf(c.table, "No row is slower than %s: twice below %g × its median.\n", c.ref, slowerBelow)
	}
	if i := slices.IndexFunc(spreads, func(s float64) bool { return s > noisyAbove }); i >= 0 {
		fmt.Fprintf(c.table, "Noisy rows: %d. Their old rounds spread by more than half of their median, so a slow-down may hide there. Try again on a quieter machine.\n", len(spreads)-i)
	}
	for _, name := range slower {
		fmt.Fprintf(c.table, "slower than %s: %s\n", c.ref, name)
	}
}

// measure takes the rounds of a figure, now the one side first and now the other, and returns
// its rows in the order in which they were first seen.
func (c *comparison) measure(ctx context.Context, figure string) (pairs []pair, err error) {
	for n := range comparedRounds {
		order := []side{oldSide, newSide}
		if n%2 == 1 {
			slices.Reverse(order)
		}
		fmt.Fprintf(c.progress, "%s, round %d of %d:", figure, n+1, comparedRounds)
		for _, s := range order {
			start := time.Now()
			out, err := c.take(ctx, s, figure)
			if err != nil {
				fmt.Fprintln(c.progress)
				return nil, fmt.Errorf("%s of the %s side: %w", figure, s, err)
			}
			fmt.Fprintf(c.progress, " %s %.1f s", s, time.Since(start).Seconds())
			for _, r := range readTable(out) {
				pairs = addReading(pairs, s, r)
			}
		}
		fmt.Fprintln(c.progress)
	}
	return pairs, nil
}

// prepare builds both sides in a folder below .cache, which remove takes away. Unless parent
// names another, they also measure the disk there.
func (b *bench) prepare(ctx context.Context, ref, parent string) (_ *comparison, remove func() error, err error) {
	remove = func() error { return nil }
	module, err := moduleDir(ctx)
	if err != nil {
		return nil, remove, err
	}
	commit, err := output(osexec.CommandContext(ctx, "git", "-C", module, "rev-parse", "--verify", "--quiet", "--short", ref+"^{commit}"))
	if err != nil {
		return nil, remove, fmt.Errorf("%q is no commit of this repository: %w", ref, err)
	}
	cache := filepath.Join(module, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, remove, err
	}
	if b.dir, err = os.MkdirTemp(cache, "against-"); err != nil {
		return nil, remove, err
	}
	remove = func() error { return os.RemoveAll(b.dir) }
	programs, err := b.programs(ctx, module, commit)
	if err != nil {
		return nil, remove, err
	}
	data, err := os.MkdirTemp(cmp.Or(parent, b.dir), "data-")
	if err != nil {
		return nil, remove, err
	}
	remove = func() error { return errors.Join(os.RemoveAll(data), os.RemoveAll(b.dir)) }
	machine, err := b.machine(data)
	if err != nil {
		return nil, remove, err
	}
	c := &comparison{ref: commit, table: b.table, progress: b.progress}
	for _, name := range compared {
		if b.wanted(name) {
			c.figures = append(c.figures, name)
		}
	}
	c.take = func(ctx context.Context, s side, figure string) (string, error) {
		return programs[s].take(ctx, figure, data)
	}
	fmt.Fprintf(c.table, "%s\n%s is old, and what is checked out here is new; %d rounds of each, in turns; worst, median and best of them.\n"+
		"The ratio is that of the best new round to the median old one: 0.5 is half as fast.\n\n", machine, commit, comparedRounds)
	return c, remove, nil
}

// programs are the two sides. The command of this one is built unless it was named.
func (b *bench) programs(ctx context.Context, module, commit string) (sides [2]program, err error) {
	self, err := os.Executable()
	if err != nil {
		return sides, err
	}
	fmt.Fprintln(b.progress, "building the command and, of "+commit+", the command and its bench …")
	ours, err := b.command(ctx)
	if err != nil {
		return sides, err
	}
	sides[newSide] = program{bench: self, tipstaff: ours, flags: []string{"-effort", comparedEffort}}
	src := filepath.Join(b.dir, "src")
	git := func(ctx context.Context, args ...string) error {
		_, err := output(osexec.CommandContext(ctx, "git", append([]string{"-C", module, "worktree"}, args...)...))
		return err
	}
	if err := git(ctx, "add", "--detach", "--quiet", src, commit); err != nil {
		return sides, err
	}
	defer func() { err = errors.Join(err, git(context.WithoutCancel(ctx), "remove", "--force", src)) }()
	sides[oldSide], err = buildOld(ctx, src, filepath.Join(b.dir, "old"))
	return sides, err
}

// buildOld builds the bench and the command of a folder. A bench that cannot be told how much
// to do is built once more with a file that changes its settings, and nothing else of it.
func buildOld(ctx context.Context, src, to string) (program, error) {
	build := func(packages ...string) error {
		c := osexec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", to + string(filepath.Separator)}, packages...)...)
		c.Dir, c.Env = src, append(os.Environ(), "CGO_ENABLED=0")
		_, err := output(c)
		return err
	}
	p := program{bench: filepath.Join(to, "bench"), tipstaff: filepath.Join(to, "tipstaff")}
	if err := build("./cmd/bench", "./cmd/tipstaff"); err != nil {
		return p, err
	}
	usage, err := osexec.CommandContext(ctx, p.bench, "-h").CombinedOutput()
	if err != nil {
		return p, fmt.Errorf("%s -h: %w: %s", p.bench, err, usage)
	}
	if strings.Contains(string(usage), "\n  -effort ") {
		p.flags = []string{"-effort", comparedEffort}
		return p, nil
	}
	settings, err := settingsFile(comparedEffort)
	if err == nil {
		err = os.WriteFile(filepath.Join(src, "cmd", "bench", "settings_of_comparison.go"), []byte(settings), 0o644)
	}
	if err == nil {
		err = build("./cmd/bench")
	}
	if err != nil {
		return p, fmt.Errorf("the bench of that commit cannot be told how much to do: %w", err)
	}
	return p, nil
}

// settingsFile is a Go file that sets what -effort would.
func settingsFile(text string) (string, error) {
	e := &effort{}
	if err := e.set(text); err != nil {
		return "", err
	}
	var file strings.Builder
	file.WriteString("package main\n\nfunc init() {\n")
	for _, name := range effortNames() {
		value := int(e.round)
		if name != "round" {
			value = *e.counts()[name]
		}
		if value > 0 {
			fmt.Fprintf(&file, "\tfull.%s = %d\n", name, value)
		}
	}
	file.WriteString("}\n")
	return file.String(), nil
}

// program is a bench, and the command that it measures.
type program struct {
	bench, tipstaff string
	flags           []string
}

// take measures one figure and returns the table. A limit that is broken is no error here:
// only the sides are compared.
func (p program) take(ctx context.Context, figure, dir string) (string, error) {
	args := append([]string{"-run", "^" + regexp.QuoteMeta(figure) + "$", "-tipstaff", p.tipstaff, "-dir", dir}, p.flags...)
	c := osexec.CommandContext(ctx, p.bench, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it has processes and a folder of its own
	c.WaitDelay = stopsWithin
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	return benchOutput(string(out), said.String(), c.ProcessState.ExitCode(), err)
}

// benchOutput is what a bench printed, unless it failed for another reason than a limit. Of a
// figure that it does not know it printed nothing.
func benchOutput(out, said string, code int, err error) (string, error) {
	switch {
	case err == nil, code == exitBroken && brokenLimit.MatchString(out):
		return out, nil
	case code == exitInvalid && strings.HasPrefix(said, noFigure):
		return "", nil
	default:
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
	}
}

// brokenLimit is the verdict in a table, of earlier commits too.
var brokenLimit = regexp.MustCompile(`(?m)^\| .*\| ` + broken + ` +\|`)

// output runs a command and returns what it printed, without the line's end.
func output(c *osexec.Cmd) (string, error) {
	c.Stderr = &strings.Builder{}
	out, err := c.Output()
	return strings.TrimSpace(string(out)), explain(c, err)
}
