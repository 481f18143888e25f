package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write makes a module with one package, p, and moves there.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("CGO_ENABLED", "0") // as make build does, which has compiled what this needs
	t.Setenv("GOFLAGS", "-trimpath")
	if err := os.Mkdir("p", 0o700); err != nil {
		t.Fatal(err)
	}
	files["../go.mod"] = "module example.com/m\n\ngo 1.26\n"
	for name, text := range files {
		if err := os.WriteFile(filepath.Join("p", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFates(t *testing.T) {
	write(t, map[string]string{
		"p.go": `package p

func Over(n, most int) bool { return n > most }

func Sum(list []int) (sum int) {
	for _, n := range list {
		if n < 0 {
			continue
		}
		sum += n
	}
	return sum
}

func Unused(a, b bool) bool { return a && !b }
`,
		"p_test.go": `package p

import "testing"

func TestOver(t *testing.T) {
	if Over(1, 3) || !Over(3, 1) {
		t.Error("the limit itself is not tried")
	}
}

func TestSum(t *testing.T) {
	if got := Sum([]int{1, -2, 3}); got != 4 {
		t.Error(got)
	}
}
`,
	})
	s, err := prepare(t.Context(), target{name: "p", dir: "p", tests: []string{"p"}})
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(s.scratch)
	var out strings.Builder
	reasons := map[string]string{"p/p.go Sum: n < 0 -> n <= 0": "0 adds nothing"}
	if err := s.try(t.Context(), func(*mutant) bool { return true }, &out, reasons); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got != 4 || !strings.Contains(out.String(), "p/p.go:3:38: survived: p/p.go Over: n > most -> n >= most\n") {
		t.Errorf("%d lines, want the four survivors that are not explained:\n%s", got, out.String())
	}
	got := map[string]fate{}
	for _, m := range s.mutants {
		got[m.name] = m.fate
	}
	if diff := cmp.Diff(map[string]fate{
		"p/p.go Over: n > most -> n <= most":    killed,
		"p/p.go Over: n > most -> n >= most":    survived,
		"p/p.go Sum: if n < 0 -> if false":      killed,
		"p/p.go Sum: n < 0 -> n >= 0":           killed,
		"p/p.go Sum: n < 0 -> n <= 0":           survived, // adding 0, or not
		"p/p.go Sum: remove continue":           killed,
		"p/p.go Sum: remove sum += n":           killed,
		"p/p.go Sum: sum += n -> -=":            killed,
		"p/p.go Unused: a && !b -> (a) || (!b)": unreached,
		"p/p.go Unused: a -> !a":                unreached,
		"p/p.go Unused: b -> !b":                unreached,
	}, got); diff != "" {
		t.Error(diff)
	}
	if s.report(&out, reasons) {
		t.Error("survivors that are not explained pass")
	}
	if want := "p: 11 mutants, 6 killed (0 by time), 2 survived, 3 not reached, 1 of these explained: 54.5 %"; !strings.Contains(out.String(), want) {
		t.Errorf("report:\n%swant %s", out.String(), want)
	}
	if s.stale(&out, map[string]string{"p/p.go Over: n == most -> n != most": "why"}) {
		t.Error("an explanation of no mutant passes")
	}
}

// TestEveryKindCompiles builds one of each construct that is mutated, nested in each
// other, and of those that must be left alone.
func TestEveryKindCompiles(t *testing.T) {
	write(t, map[string]string{
		"p.go": `package p

import "time"

const size = 3 * 4

type flag bool

type grid [size + 1]int

var late = time.Second*time.Duration(size) > time.Minute

func number[T ~int | ~uint8](a, b T) T { return a + b }

func Everything(m map[string]int8, on flag, u uint, f float64, s string, ok func() bool) (n int, err error) {
	on = !on
	defer func() { _ = recover() }()
	for i := 0; i < 10 && (ok() || !ok()); i++ {
		switch {
		case i%2 == 0, len(s)-1 > i*2:
			m[s]++
			m[s] += 1 + int8(i/3)
			u -= 1
			f *= 2
			continue
		case s+"x" == "ax":
			break
		}
		switch i {
		case size - 1:
			if late {
				return n + 1, nil
			}
		}
		n -= func() int {
			if i > 3 {
				return 1
			}
			panic(s)
		}()
		if bool(on) && f/2 > 1 { break }
	}
	ok()
	return number(n, 2), err
}

func Is() (bool, flag) { return true, false }
`,
		"p_test.go": `package p

import "testing"

func TestEverything(t *testing.T) {
	n, _ := Everything(map[string]int8{}, true, 5, 4, "", func() bool { return true })
	if n != 0 {
		t.Error(n, "although the first odd number panics")
	}
}
`,
	})
	s, err := prepare(t.Context(), target{name: "p", dir: "p", tests: []string{"p"}})
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(s.scratch)
	for _, m := range s.mutants {
		if strings.Contains(m.name, "size +") || strings.Contains(m.name, `s+"x" -> `) || strings.Contains(m.name, "remove panic") {
			t.Errorf("%s is no mutant", m.name)
		}
	}
}

func TestReasonsAreRequired(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	for text, good := range map[string]bool{
		"# a comment\n\np.go F: a -> b # why\n": true,
		"p.go F: a -> b\n":                      false,
		"p.go F: a -> b # \n":                   false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readReasons(path); (err == nil) != good || good && got["p.go F: a -> b"] != "why" {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// A sample is the same every time, and a larger one has the smaller one in it.
func TestSamplesAreFixed(t *testing.T) {
	write(t, map[string]string{
		"p.go": `package p

func Over(n, most int) bool { return n > most }

func Sum(a, b int) int { return a + b }
`,
		"p_test.go": `package p

import "testing"

func TestOver(t *testing.T) {
	if Over(1, 3) || !Over(3, 1) {
		t.Error("the limit itself is not tried")
	}
}
`,
	})
	all, err := whole(t.Context())
	if err != nil || len(all) != 1 || all[0].dir != "p" {
		t.Fatalf("the product is %+v, %v", all, err)
	}
	two, err := draw(t.Context(), all, 2)
	if err != nil {
		t.Fatal(err)
	}
	three, err := draw(t.Context(), all, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(two["p"]) != 2 || len(three["p"]) != 3 || !slices.Equal(two["p"], three["p"][:2]) {
		t.Errorf("two are %q, all are %q", two["p"], three["p"])
	}
	var out strings.Builder
	if err := trySample(t.Context(), 10, &out, map[string]string{"p/p.go Over: n > most -> n >= most": "why"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"p/p.go Over: n > most -> n <= most: killed\n", "p/p.go Over: n > most -> n >= most (explained): survived\n",
		"p/p.go Sum: a + b -> a - b: not reached\n", "sample of 3: 1 killed (0 by time), 1 survived, 1 not reached, 0 not tried: 33.3 % killed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}
