// Command mutate changes the code one place at a time and runs the tests on each
// change: a change that no test notices is a line that no test checks.
//
// All mutants of a package are compiled into one build, and an environment variable
// switches one of them on, so that a mutant costs a run of the tests that reach it
// and no compilation. The build goes through an overlay: no file of the tree is
// touched. Start at mutant.go for what is changed, at survey.go for how it is judged.
//
// Survivors are listed in survivors.txt, each with the reason why it lives. A
// survivor that is not listed, a line there that names no mutant, and a package of
// whose mutants fewer than 90 % are killed make the command fail. A mutant that is
// listed and killed is printed and fails nothing: some depend on timing.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// A target is code to be mutated, and the tests that are to notice.
type target struct {
	name  string
	dir   string   // of the package that is mutated
	files []string // of that package; none: all
	tests []string // packages, in the order in which they are run
	args  []string // for the test binaries
	env   []string
	chunk int // how many tests are measured together; 0: each alone, and slow ones by their subtests
}

var targets = []target{
	{name: "journal", dir: "journal", tests: []string{"journal"}, args: []string{"-test.skip=Python|CoreVerifier"}}, // these test the verifier in Python, slowly
	{name: "policy", dir: "policy", tests: []string{"policy"}},
	{name: "sqlguard", dir: "policy/sqlguard", tests: []string{"policy/sqlguard"}},
	{name: "plan", dir: "plan", tests: []string{"plan"}},
	{name: "gate", dir: "tool", tests: []string{"tool"}, args: []string{"-test.short"},
		files: []string{"definition.go", "gate.go", "lock.go", "lock_change.go"}},
	{name: "flow", dir: "flow", tests: []string{"flow", "flow/simtest", "flow/flowtest"}, args: []string{"-test.short"},
		env: []string{"TIPSTAFF_SIM=2s", "TIPSTAFF_SIM_SEED=1"}},
}

// floor is the share of mutants, in percent, that tests must kill.
const floor = 90

func main() {
	every := flag.Int("every", 1, "try one in `n` mutants")
	only := flag.String("only", "", "try only the mutants that `file` names: the output of an earlier run")
	size := flag.Int("sample", 0, "try `n` mutants of the whole product, the same ones every time; 0: those of the targets")
	flag.IntVar(&workers, "at-once", workers, "try `n` mutants at the same time")
	list := flag.String("explained", "test/mutate/survivors.txt", "`file` of the survivors that are explained")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: mutate [flags] [%s]...\n", strings.Join(names(), "|"))
		flag.PrintDefaults()
	}
	flag.Parse()
	for _, name := range flag.Args() {
		if !slices.Contains(names(), name) {
			fmt.Fprintf(os.Stderr, "mutate: no target %q; there are %s\n", name, strings.Join(names(), ", "))
			os.Exit(2)
		}
	}
	if *every < 1 || *size < 0 || workers < 1 {
		fmt.Fprintln(os.Stderr, "mutate: -every and -at-once must be at least 1, -sample at least 0")
		os.Exit(2)
	}
	if *size > 0 && (flag.NArg() > 0 || *every > 1 || *only != "") {
		fmt.Fprintln(os.Stderr, "mutate: a sample is of the whole product, so -sample goes with no target, nor with -every or -only")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, flag.Args(), *every, *size, *only, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

func names() (all []string) {
	for _, t := range targets {
		all = append(all, t.name)
	}
	return all
}

// run reports whether every target that was asked for holds. Of a sample it prints what it
// comes to, which is for whoever compares two of them to judge.
func run(ctx context.Context, asked []string, every, size int, only, list string) (ok bool, err error) {
	reasons, err := readReasons(list)
	if err != nil {
		return false, err
	}
	if size > 0 {
		return true, trySample(ctx, size, os.Stdout, reasons)
	}
	var named []byte
	if only != "" {
		if named, err = os.ReadFile(only); err != nil {
			return false, err
		}
	}
	chosen := func(m *mutant) bool {
		return m.id%every == 0 && (only == "" || bytes.Contains(named, []byte(": "+m.name+"\n")))
	}
	ok = true
	for _, t := range targets {
		if len(asked) > 0 && !slices.Contains(asked, t.name) {
			continue
		}
		s, err := prepare(ctx, t)
		if err != nil {
			return false, fmt.Errorf("%s: %w", t.name, err)
		}
		ok = s.stale(os.Stdout, reasons) && ok
		err = s.try(ctx, chosen, os.Stdout, reasons)
		if err == nil {
			ok = s.report(os.Stdout, reasons) && ok
		}
		if err := os.RemoveAll(s.scratch); err != nil {
			return false, err
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return ok, nil
}
