package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// suite is one call of the program.
type suite struct {
	out      io.Writer
	terminal bool // somebody looks: lines of progress may be written over
	took     took
	memory   string // a folder in memory; "": there is none
	results  []result
}

// result is how a part went.
type result struct {
	part
	packages, tests, fails, skips int
	skipped                       map[string][]string
	faults                        []string
	took, processor               time.Duration
	err                           error
}

func (r result) failed() bool { return r.err != nil || r.fails > 0 }

func (s *suite) run(p part, i, of int) (r result) {
	last := "for the first time here"
	if d, ok := s.took[p.name]; ok {
		last = fmt.Sprintf("%v last time", time.Duration(d)*time.Second)
	}
	fmt.Fprintf(s.out, "\n== part %d of %d: %s: %s (%s)\n", i, of, p.name, p.about, last)
	r.part = p
	began := time.Now()
	if p.command != nil {
		s.runCommand(&r)
	} else if err := s.runTests(&r); err != nil {
		r.err = err
	}
	r.took = time.Since(began)
	if r.err != nil {
		fmt.Fprintf(s.out, "%s: %v\n", p.name, r.err)
	}
	if !r.failed() {
		s.took[p.name] = int(r.took.Seconds() + 0.5)
	}
	return r
}

// runCommand runs a part that is a program of its own and not go test.
func (s *suite) runCommand(r *result) {
	c := exec.Command(r.command[0], r.command[1:]...)
	c.Env = append(os.Environ(), r.env...)
	var said counter
	c.Stdout, c.Stderr = io.MultiWriter(s.out, &said), os.Stderr
	r.err = c.Run()
	r.processor = processor(c)
	r.tests, r.fails, r.skips = said.count()
}

// runTests compiles what a part of go test needs, and runs it.
func (s *suite) runTests(r *result) error {
	packages, err := r.list()
	if err != nil {
		return err
	}
	if err := s.compile(r, packages); err != nil {
		return err
	}
	selected, err := r.selected()
	if err != nil {
		return err
	}
	env, flags := append(os.Environ(), r.environ()...), r.flags
	if s.memory != "" && !r.disk {
		// What the go command makes is larger, and stays on the disk; the tests must not be told of that.
		env = append(env, "TMPDIR="+s.memory, "GOTMPDIR="+os.TempDir())
		flags = slices.Concat(flags, []string{"-exec=env -u GOTMPDIR"})
	}
	args := slices.Concat([]string{"test", "-json"}, r.build, flags, selected, packages)
	c := exec.Command(goCommand(), args...)
	c.Env = env
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	st := newStream(s.out, len(packages))
	stop := s.tick(st.now)
	read := st.read(out)
	io.Copy(io.Discard, out)
	err = c.Wait()
	stop()
	r.processor += processor(c)
	r.packages, r.tests, r.fails, r.skips, r.skipped, r.faults = st.packages, st.tests, st.failed, st.skips, st.skipped, st.faults
	switch {
	case read != nil:
		return read
	case st.broken:
		return fmt.Errorf("something failed that is no test: see above")
	case err != nil && st.failed == 0:
		return fmt.Errorf("go test: %w, and yet no test has failed", err)
	case st.tests == 0 && st.failed == 0:
		return fmt.Errorf("no test ran")
	}
	return nil
}

// compile compiles what the tests of packages import, and counts meanwhile.
func (s *suite) compile(r *result, packages []string) error {
	stale, err := goOutput(r.environ(), slices.Concat([]string{"list", "-deps", "-test"}, r.build,
		[]string{"-f", `{{if and .Stale (ne .Name "main") (not .ForTest)}}{{.ImportPath}}{{end}}`}, packages)...)
	if err != nil {
		return err
	}
	names := strings.Fields(stale)
	if len(names) < 5 {
		return nil
	}
	fmt.Fprintf(s.out, "compiling %s\n", plural(len(names), "package"))
	c := exec.Command(goCommand(), slices.Concat([]string{"build", "-v"}, r.build, names)...)
	c.Env = append(os.Environ(), r.environ()...)
	said, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	done, last := 0, ""
	progress := make(chan string, 1)
	stop := s.tick(func() string {
		select {
		case last = <-progress:
		default:
		}
		return last
	})
	var rest bytes.Buffer
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if line := lines.Text(); strings.ContainsAny(line, " :") || line == "" {
			fmt.Fprintln(&rest, line)
			continue
		}
		done++
		select {
		case <-progress:
		default:
		}
		progress <- fmt.Sprintf("compiled %d of %d", done, len(names))
	}
	err = c.Wait()
	stop()
	r.processor += processor(c)
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, rest.String())
	}
	return nil
}

// tick prints what now says every now and then, until it is stopped: for a person often and in
// one place, else seldom.
func (s *suite) tick(now func() string) (stop func()) {
	every := 20 * time.Second
	if s.terminal {
		every = time.Second
	}
	began, end, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for t := time.NewTicker(every); ; {
			select {
			case <-end:
				if s.terminal {
					fmt.Fprint(os.Stderr, "\r\033[K")
				}
				return
			case <-t.C:
				if what := now(); what == "" {
				} else if s.terminal {
					fmt.Fprintf(os.Stderr, "\r  %v: %.100s\033[K", round(time.Since(began)), what)
				} else {
					fmt.Fprintf(s.out, "  %v: %s\n", round(time.Since(began)), what)
				}
			}
		}
	}()
	return func() { close(end); <-ended }
}

// table prints how the parts went, what was skipped, and what failed.
func (s *suite) table() {
	fmt.Fprintln(s.out)
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\tpackages\ttests\tskipped\tfailed\ttook\tprocessor\t")
	var sum result
	row := func(name string, r result) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%v\t%v\t", name, r.packages, r.tests, r.skips, r.fails, round(r.took), round(r.processor))
		if r.err != nil {
			fmt.Fprint(w, "FAILED")
		}
		fmt.Fprintln(w)
	}
	skipped := map[string][]string{}
	for _, r := range s.results {
		row(r.name, r)
		sum.packages += r.packages
		sum.tests += r.tests
		sum.skips += r.skips
		sum.fails += r.fails
		sum.took += r.took
		sum.processor += r.processor
		if r.err != nil && sum.err == nil {
			sum.err = r.err
		}
		for why, tests := range r.skipped {
			skipped[why] = append(skipped[why], tests...)
		}
	}
	if len(s.results) > 1 {
		row("all", sum)
	}
	w.Flush()
	printSkips(s.out, skipped)
	for _, r := range s.results {
		for _, f := range r.faults {
			fmt.Fprintf(s.out, "failed: %s: %s\n", r.name, f)
		}
		if r.err != nil {
			first, _, _ := strings.Cut(r.err.Error(), "\n")
			fmt.Fprintf(s.out, "failed: %s: %s\n", r.name, first)
		}
	}
	fmt.Fprintf(s.out, "tests: %d passed, %d failed, %d skipped\n", sum.tests, sum.fails, sum.skips)
}

// took remembers how many seconds each part took when it last passed.
type took map[string]int

var tookFile = filepath.Join(".cache", "took.json")

func readTook() took {
	t := took{}
	if b, err := os.ReadFile(tookFile); err == nil {
		_ = json.Unmarshal(b, &t) // a broken file remembers nothing
	}
	return t
}

func (t took) write() {
	b, err := json.MarshalIndent(t, "", "\t")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(tookFile), 0o755)
	}
	if err == nil {
		err = os.WriteFile(tookFile, b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "how long the parts took will not be known the next time:", err)
	}
}

// counter finds how many tests passed in what other runners of tests print.
type counter struct{ bytes.Buffer }

var counted = regexp.MustCompile(`(\d+) (passed|failed|skipped)`)

func (c *counter) count() (passed, failed, skipped int) {
	for _, m := range counted.FindAllStringSubmatch(c.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		switch m[2] {
		case "passed":
			passed += n
		case "failed":
			failed += n
		case "skipped":
			skipped += n
		}
	}
	return passed, failed, skipped
}

// processor returns the processor time of a process that has ended and of those it waited for.
func processor(c *exec.Cmd) time.Duration {
	if c.ProcessState == nil {
		return 0
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

func goCommand() string {
	if g := os.Getenv("GO"); g != "" {
		return g
	}
	return "go"
}

// goOutput returns what a go command prints.
func goOutput(env []string, args ...string) (string, error) {
	c := exec.Command(goCommand(), args...)
	c.Env = append(os.Environ(), env...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return string(out), nil
}
