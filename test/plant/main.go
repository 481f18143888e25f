// Command plant puts bugs into the code, one at a time, and says which suite finds each of
// them and how fast. It shows that the tests which docs/guarantees.md names bite, and which
// suites a shorter run of them must not leave out.
//
// A bug is the slip of a tired engineer: a text of one file and what stands in its place.
// The build goes through an overlay, so no file of the tree is touched. Suites are tried in
// the order of what they cost, until one fails. Start at bug.go for what a bug is, at try.go
// for how it is looked for; the bugs themselves stand in the files named list_*.go.
//
// A bug that no suite finds makes the command fail. So does one whose text is not in the code
// any more, that does not compile, or whose suite fails without it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "plant these bugs alone, by their `ids`, separated by space")
	list := flag.Bool("list", false, "print the bugs and plant none")
	flag.Parse()
	bugs, err := chosen(*only)
	if err == nil && *list {
		printList(os.Stdout, bugs)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := &trial{root: ".", sound: map[string]string{}}
	found := t.run(ctx, bugs, os.Stdout)
	if err := t.close(); err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
	}
	if !found {
		os.Exit(1)
	}
}

// chosen returns all bugs, or those of some ids.
func chosen(ids string) (some []bug, err error) {
	all := bugs()
	if ids == "" {
		return all, nil
	}
	for id := range strings.FieldsSeq(ids) {
		i := slices.IndexFunc(all, func(b bug) bool { return b.id == id })
		if i < 0 {
			return nil, fmt.Errorf("no bug %q; -list prints them", id)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// printList prints a bug in three lines: what it is, the promise that it breaks, where.
func printList(w io.Writer, bugs []bug) {
	for _, b := range bugs {
		fmt.Fprintf(w, "%s  %s%s\n   breaks  %s\n   in      %s\n", b.id, b.slip, b.onlyText(), b.promise(), b.file)
	}
	fmt.Fprintf(w, "%d bugs\n", len(bugs))
}

// run plants bugs, one after another, and reports whether all of them were found.
func (t *trial) run(ctx context.Context, bugs []bug, w io.Writer) bool {
	began, byLevel, faults := time.Now(), map[level]int{}, 0
	for _, b := range bugs {
		found, err := t.try(ctx, b)
		if ctx.Err() != nil {
			fmt.Fprintln(w, "interrupted")
			return false
		}
		if err != nil {
			faults++
			fmt.Fprintf(w, "FAULT    %d  %-28s %v\n", b.guarantee, b.id, err)
			continue
		}
		byLevel[found.suite.level]++
		fmt.Fprintf(w, "found    %d  %-28s %6.1f s  %-14s %s: %s%s\n", b.guarantee, b.id, found.took.Seconds(), found.suite.level, found.suite.pkg, found.test, b.onlyText())
	}
	fmt.Fprintf(w, "%d bugs, %d found, in %v", len(bugs), len(bugs)-faults, time.Since(began).Round(time.Second))
	for _, l := range levels {
		if n := byLevel[l]; n > 0 {
			fmt.Fprintf(w, "; %s %d", l, n)
		}
	}
	fmt.Fprintln(w)
	return faults == 0
}
