package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A sample is mutants of the whole product, always the same ones as long as their code stays:
// those whose names have the smallest digests. What the same sample comes to before and after
// a change of the tests says what the change has cost.

// left are packages that no sample is taken of: they hold no code of the product, are
// generated, or have tests that need a server of others.
var left = []string{"cmd/", "docs", "e2e", "examples/", "pb", "postgres", "store/bucket", "temporal", "test/"}

// beside are packages whose tests notice what the own tests of a package are not for.
var beside = map[string][]string{
	"store":           {"sqlite"},
	"supervisor":      {"tool/builtin"},
	"process":         {"supervisor"},
	"supervisor/reap": {"supervisor"},
}

// whole is the product, package by package: the targets as they are declared, and the rest
// with its own tests.
func whole(ctx context.Context) (all []target, err error) {
	out, err := output(exec.CommandContext(ctx, "go", "list", "-f", "{{.Module.Dir}}\t{{.Dir}}\t{{len .GoFiles}}\t{{join .Imports \",\"}}", "./..."))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		dir := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(fields[1], fields[0]), "/"), ".")
		imports := strings.Split(fields[3], ",")
		if fields[2] == "0" || slices.Contains(imports, "testing") || strings.HasSuffix(dir, "test") ||
			slices.ContainsFunc(left, func(p string) bool { return dir == p || strings.HasPrefix(dir, strings.TrimSuffix(p, "/")+"/") }) {
			continue
		}
		all = append(all, targetOf(dir))
	}
	return all, nil
}

// targetOf returns the target of a package: the one that is declared, but for all of its
// files, or one with the package's own tests.
func targetOf(dir string) target {
	t := target{name: dir, dir: dir, tests: append([]string{dir}, beside[dir]...), args: []string{"-test.short"}, chunk: 20}
	if i := slices.IndexFunc(targets, func(t target) bool { return t.dir == dir }); i >= 0 {
		declared := targets[i]
		t.tests, t.args, t.env = declared.tests, append(t.args, declared.args...), declared.env
	}
	return t
}

// draw returns the names of the n mutants that are in the sample, by target.
func draw(ctx context.Context, from []target, n int) (map[string][]string, error) {
	type lot struct {
		digest [sha256.Size]byte
		target string
		mutant string
	}
	var lots []lot
	for _, t := range from {
		folder, err := os.MkdirTemp("", "tipstaff-mutate-")
		if err != nil {
			return nil, err
		}
		mutants, _, err := load(ctx, t, folder)
		if gone := os.RemoveAll(folder); err != nil || gone != nil {
			return nil, fmt.Errorf("%s: %w", t.name, cmp.Or(err, gone))
		}
		for _, m := range mutants {
			lots = append(lots, lot{sha256.Sum256([]byte(m.name)), t.name, m.name})
		}
	}
	slices.SortFunc(lots, func(a, b lot) int { return bytes.Compare(a.digest[:], b.digest[:]) })
	drawn := map[string][]string{}
	for _, l := range lots[:min(n, len(lots))] {
		drawn[l.target] = append(drawn[l.target], l.mutant)
	}
	return drawn, nil
}

// trySample tries a sample of n mutants and prints what became of each, one to a line and
// in order, so that two outputs can be compared.
func trySample(ctx context.Context, n int, w io.Writer, reasons map[string]string) error {
	all, err := whole(ctx)
	if err != nil {
		return err
	}
	drawn, err := draw(ctx, all, n)
	if err != nil {
		return err
	}
	began := time.Now()
	count := map[fate]int{}
	tried := 0
	for _, t := range all {
		if len(drawn[t.name]) == 0 {
			continue
		}
		fates, err := tryDrawn(ctx, t, drawn[t.name], w)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // of one package: the others can be tried
			fmt.Fprintf(w, "%s: none of %d mutants was tried: %v\n", t.name, len(drawn[t.name]), err)
		}
		slices.Sort(drawn[t.name])
		for _, name := range drawn[t.name] {
			f := cmp.Or(fates[name], "not tried")
			count[f]++
			if tried++; reasons[name] != "" {
				name += " (explained)"
			}
			fmt.Fprintf(w, "%s: %s\n", name, f)
		}
	}
	dead := count[killed] + count[timedOut]
	fmt.Fprintf(w, "sample of %d: %d killed (%d by time), %d survived, %d not reached, %d not tried: %.1f %% killed, in %v, %v each\n", tried, dead, count[timedOut], count[survived],
		count[unreached], count["not tried"], 100*float64(dead)/float64(max(tried, 1)), time.Since(began).Round(time.Second), (time.Since(began) / time.Duration(max(tried, 1))).Round(time.Second/10))
	return nil
}

// tryDrawn tries some mutants of a target and returns what became of them.
func tryDrawn(ctx context.Context, t target, drawn []string, w io.Writer) (map[string]fate, error) {
	began := time.Now()
	s, err := prepare(ctx, t)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(s.scratch)
	prepared := time.Since(began)
	for _, err := range s.unfit {
		said := err.Error()
		fmt.Fprintf(w, "# %s: %s\n", t.name, said[max(0, len(said)-2000):])
	}
	err = s.try(ctx, func(m *mutant) bool { return slices.Contains(drawn, m.name) }, io.Discard, nil)
	fates := map[string]fate{}
	for _, m := range s.mutants {
		fates[m.name] = m.fate
	}
	fmt.Fprintf(w, "# %s: %d mutants in %v, after %v of preparation\n", t.name, len(s.mutants), (time.Since(began) - prepared).Round(time.Second), prepared.Round(time.Second))
	return fates, err
}
