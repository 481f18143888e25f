package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A survey tries the mutants of one target.
type survey struct {
	target
	scratch  string
	unfit    []error // of tests that fail by themselves, and are left out
	mutants  []*mutant
	binaries []*binary
}

// A binary holds the tests of one package, with all mutants in it.
type binary struct {
	path, dir string
	args      []string
	tests     []test
}

// A test holds tests that are measured, and run, together: usually one.
type test struct {
	names     []string
	took, cpu time.Duration
	reaches   map[int]bool
}

// pace is the processor time up to which tests share a process: the quickest, then
// the quick ones. Slower ones run after them, each alone. Most mutants are killed by
// a test that is over at once.
var pace = []time.Duration{30 * time.Millisecond, 300 * time.Millisecond}

// together reports whether two tests share a process.
func together(a, b test) bool {
	rank := func(t test) int {
		return slices.IndexFunc(pace, func(most time.Duration) bool { return t.cpu <= most })
	}
	return rank(a) == rank(b) && rank(a) >= 0
}

// workers bounds how many mutants are tried at once.
var workers = 2

// prepare builds the tests, runs each alone with no mutant switched on, and notes
// which mutants it reaches.
func prepare(ctx context.Context, t target) (_ *survey, err error) {
	scratch, err := os.MkdirTemp("", "tipstaff-mutate-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(scratch)
		}
	}()
	s := &survey{target: t, scratch: scratch}
	mutants, overlay, err := load(ctx, t, s.scratch)
	if err != nil {
		return nil, err
	}
	s.mutants = mutants
	for i, pkg := range t.tests {
		b := &binary{path: filepath.Join(s.scratch, strconv.Itoa(i)+".test"), dir: pkg}
		if _, err := output(exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", b.path, "./"+pkg)); err != nil {
			return nil, err
		}
		b.args = append(b.args, t.args...)
		// Random tests try the same cases every time, and write none that failed into
		// the tree, from where they would be tried on other mutants.
		if usage, _ := exec.CommandContext(ctx, b.path, "-h").CombinedOutput(); bytes.Contains(usage, []byte("-rapid.nofailfile")) {
			b.args = append(b.args, "-rapid.seed=1", "-rapid.nofailfile")
		}
		if err := s.baseline(ctx, b); err != nil {
			return nil, err
		}
		s.binaries = append(s.binaries, b)
	}
	return s, nil
}

var (
	testName = regexp.MustCompile(`^(Test|Fuzz|Example)`)
	subtest  = regexp.MustCompile(`(?m)^=== RUN   ([^/\s]+/[^/\s]+)$`)
)

// baseline measures the tests of a binary. A slow one that has subtests counts as so
// many tests: few mutants need all of them.
func (s *survey) baseline(ctx context.Context, b *binary) error {
	listing := exec.CommandContext(ctx, b.path, "-test.list", ".")
	listing.Dir = b.dir
	out, err := output(listing)
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return !testName.MatchString(name) })
	if s.chunk > 0 {
		return s.chunks(ctx, b, names)
	}
	for _, name := range names {
		t, out, err := s.measure(ctx, b, name)
		if err != nil {
			return err
		}
		subtests := subtest.FindAllStringSubmatch(out, -1)
		if t.cpu <= pace[len(pace)-1] || len(subtests) < 2 {
			b.tests = append(b.tests, t)
			continue
		}
		for _, match := range subtests {
			t, _, err := s.measure(ctx, b, match[1])
			if err != nil {
				return err
			}
			b.tests = append(b.tests, t)
		}
	}
	slices.SortStableFunc(b.tests, func(x, y test) int { return cmp.Compare(x.cpu, y.cpu) })
	return nil
}

// chunks measures tests so many at a time: in large packages each alone would take longer
// than trying a few mutants. Of a chunk that fails without a mutant each test is measured
// alone, and what fails then is left out, and told.
func (s *survey) chunks(ctx context.Context, b *binary, names []string) error {
	for some := range slices.Chunk(names, s.chunk) {
		t, _, err := s.measure(ctx, b, some...)
		if err == nil {
			b.tests = append(b.tests, t)
			continue
		}
		for _, name := range some {
			switch t, _, err = s.measure(ctx, b, name); {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				s.unfit = append(s.unfit, err)
			default:
				b.tests = append(b.tests, t)
			}
		}
	}
	slices.SortStableFunc(b.tests, func(x, y test) int { return cmp.Compare(x.cpu, y.cpu) })
	return nil
}

// measure runs tests without a mutant.
func (s *survey) measure(ctx context.Context, b *binary, names ...string) (t test, out string, err error) {
	reached := filepath.Join(s.scratch, "reached")
	if err := os.WriteFile(reached, nil, 0o600); err != nil {
		return t, "", err
	}
	began := time.Now()
	c := s.command(ctx, b, names, "TIPSTAFF_MUTANTS_REACHED="+reached)
	c.Args = append(c.Args, "-test.v")
	said, err := c.CombinedOutput()
	if err != nil {
		return t, "", fmt.Errorf("%s of %s fails without a mutant: %w\n%s", strings.Join(names, ", "), b.dir, err, said)
	}
	t = test{names: names, took: time.Since(began), cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime(), reaches: map[int]bool{}}
	lines, err := os.ReadFile(reached)
	if err != nil {
		return t, "", err
	}
	for _, line := range strings.Fields(string(lines)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return t, "", err
		}
		t.reaches[id] = true
	}
	return t, string(said), nil
}

// command runs tests of a binary. It limits memory, for a mutant may fill it: the
// limit is one of address space, in KB.
func (s *survey) command(ctx context.Context, b *binary, names []string, env string) *exec.Cmd {
	patterns := make([]string, len(names))
	for i, name := range names {
		patterns[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
	}
	args := []string{"-c", `ulimit -v 8388608 2>/dev/null; exec nice "$0" "$@"`, b.path,
		"-test.failfast", "-test.run", strings.Join(patterns, "|")}
	c := exec.CommandContext(ctx, "sh", append(args, b.args...)...)
	c.Dir = b.dir
	c.Env = append(append(os.Environ(), s.env...), env)
	c.WaitDelay = time.Second // for children that hold the output
	return c
}

// try tries the mutants that are chosen, and prints, as it finds them, survivors that
// are not explained.
func (s *survey) try(ctx context.Context, chosen func(*mutant) bool, w io.Writer, reasons map[string]string) error {
	s.mutants = slices.DeleteFunc(s.mutants, func(m *mutant) bool { return !chosen(m) })
	queue := make(chan *mutant)
	errs := make([]error, workers)
	var wait sync.WaitGroup
	var printing sync.Mutex
	for i := range workers {
		wait.Go(func() {
			for m := range queue {
				if errs[i] == nil {
					m.fate, errs[i] = s.fate(ctx, m)
					if _, known := reasons[m.name]; m.survives() != known {
						printing.Lock()
						fmt.Fprintf(w, "%s: %s: %s\n", m.position, m.fate, m.name)
						printing.Unlock()
					}
				}
			}
		})
	}
	for _, m := range s.mutants {
		queue <- m
	}
	close(queue)
	wait.Wait()
	return errors.Join(errs...)
}

// fate runs the tests that reach a mutant until one fails.
func (s *survey) fate(ctx context.Context, m *mutant) (fate, error) {
	f := unreached
	for _, b := range s.binaries {
		var names []string
		var took time.Duration
		for i, t := range b.tests {
			if t.reaches[m.id] {
				names, took = append(names, t.names...), took+t.took
			}
			last := i == len(b.tests)-1
			if len(names) == 0 || !last && together(t, b.tests[i+1]) {
				continue
			}
			var err error
			if f, err = s.judge(ctx, b, names, took, m); err != nil || f != survived {
				return f, err
			}
			names, took = nil, 0
		}
	}
	return f, nil
}

// judge runs some tests on a mutant. A test that takes much longer than it did
// without has noticed.
func (s *survey) judge(ctx context.Context, b *binary, names []string, took time.Duration, m *mutant) (fate, error) {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second+5*took)
	defer cancel()
	err := s.command(limited, b, names, "TIPSTAFF_MUTANT="+strconv.Itoa(m.id)).Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return untried, ctx.Err()
	case limited.Err() != nil:
		return timedOut, nil
	case errors.As(err, &exit):
		return killed, nil
	case err != nil:
		return untried, err
	}
	return survived, nil
}

// report prints the figures, and says whether they are good enough.
func (s *survey) report(w io.Writer, reasons map[string]string) bool {
	count := map[fate]int{}
	explained, alive := 0, 0
	for _, m := range s.mutants {
		count[m.fate]++
		if m.survives() {
			alive++
			if reasons[m.name] != "" {
				explained++
			}
		}
	}
	share := 100 * float64(len(s.mutants)-alive) / float64(max(len(s.mutants), 1))
	fmt.Fprintf(w, "%s: %d mutants, %d killed (%d by time), %d survived, %d not reached, %d of these explained: %.1f %%\n",
		s.name, len(s.mutants), len(s.mutants)-alive, count[timedOut], count[survived], count[unreached], explained, share)
	return explained == alive && share >= floor
}

// stale prints the lines that explain mutants which do not exist, and says whether
// there are none.
func (s *survey) stale(w io.Writer, reasons map[string]string) bool {
	ok := true
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		exists := slices.ContainsFunc(s.mutants, func(m *mutant) bool { return m.name == name })
		if !exists && strings.HasPrefix(name, s.dir+"/") {
			ok = false
			fmt.Fprintf(w, "explained, yet there is no such mutant: %s\n", name)
		}
	}
	return ok
}

// readReasons reads the survivors that are explained: one to a line, the name of the
// mutant, " # ", the reason.
func readReasons(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	reasons := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, ok := strings.Cut(line, " # ")
		if !ok || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("%s:%d: no reason; a line is the name of a mutant, \" # \", and why it survives", path, n)
		}
		reasons[name] = why
	}
	return reasons, lines.Err()
}
