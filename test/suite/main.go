// Command suite runs the tests in parts, one after another, and says where it is: which part of
// how many, how long it took the last time, what is compiled, which packages are done. In the end
// comes a table of the parts, and what was skipped and why, which go test tells only together with
// everything else.
//
//	suite test        what make test runs
//	suite soak        what make soak runs
//	suite PART…       these parts
//	suite -list       the parts
//	suite -           reads what go test -json writes
//
// It exits with 0 if every part has run and no test failed, with 1 if not, and with 2 if it was
// called wrongly. A part in which no test ran has failed.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

const usage = "usage: suite test | soak | PART… | -list | -"

func run(words []string) int {
	if slices.Equal(words, []string{"-"}) {
		return readOne()
	}
	if slices.Equal(words, []string{"-list"}) {
		for _, p := range parts {
			fmt.Printf("%-14s %s\n", p.name, p.about)
		}
		return 0
	}
	chosen, err := choose(words)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	memory, remove := inMemory()
	defer remove()
	s := &suite{out: os.Stdout, terminal: isTerminal(os.Stderr), took: readTook(), memory: memory}
	for i, p := range chosen {
		s.results = append(s.results, s.run(p, i+1, len(chosen)))
	}
	s.took.write()
	s.table()
	if slices.ContainsFunc(s.results, result.failed) {
		return 1
	}
	return 0
}

// choose returns the parts that the command line names.
func choose(words []string) (chosen []part, err error) {
	switch {
	case len(words) == 0:
		return nil, fmt.Errorf("%s", usage)
	case len(words) == 1 && (words[0] == "test" || words[0] == "soak"):
		for _, p := range parts {
			if slices.Contains(p.in, words[0]) {
				chosen = append(chosen, p)
			}
		}
		return chosen, nil
	}
	for _, w := range words {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == w })
		if i < 0 {
			return nil, fmt.Errorf("unknown part %q; suite -list prints those there are\n%s", w, usage)
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}

// readOne reports on the one stream of go test -json on standard input.
func readOne() int {
	s := newStream(os.Stdout, 0)
	err := s.read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	printSkips(os.Stdout, s.skipped)
	if err != nil || s.broken || s.failed > 0 || s.packages == 0 {
		return 1
	}
	return 0
}

// round makes durations of minutes readable.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// short returns the folder of a package of this module.
func short(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
}

const module = "github.com/tipstaff/tipstaff"
