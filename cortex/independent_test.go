package cortex

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// testdata/independent.py has the same arithmetic in another language, by other
// means. What it says is kept beside it, so that machines without Python, and of
// other kinds, are compared as well.

func TestIndependentComputationIsUpToDate(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not on PATH")
	}
	said, err := exec.Command(python, "-B", "testdata/independent.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("testdata/independent.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(said, kept) {
		t.Error("independent.txt is not what independent.py prints")
	}
}

func TestArithmeticAgreesWithAnIndependentOne(t *testing.T) {
	kept, err := os.ReadFile("testdata/independent.txt")
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for line := range strings.Lines(string(kept)) {
		fields := strings.Fields(line)
		check, ok := computations[fields[0]]
		if !ok {
			t.Fatalf("nothing is known of %q", line)
		}
		if got := check(numbers(fields[1:])); got != "" {
			t.Errorf("%s: we have %s", strings.TrimSpace(line), got)
		}
		checked[fields[0]]++
	}
	for name := range computations {
		if checked[name] < 200 {
			t.Errorf("%s was compared %d times", name, checked[name])
		}
	}
}

// numbers are the fields that are, up to the first that is none.
func numbers(fields []string) []int64 {
	var all []int64
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			break
		}
		all = append(all, n)
	}
	return all
}

// computations do what a line tells and return what differs; "" is nothing.
var computations = map[string]func([]int64) string{
	"fade":   func(n []int64) string { return differs(fade(time.Duration(n[0])), n[1]) },
	"growth": func(n []int64) string { return differs(growth(n[0]), n[1]) },
	"score": func(n []int64) string {
		w := Weights(n[5:10])
		s := Standing{LastUse: noon.Add(-time.Duration(n[0])), Accesses: n[1], Citations: n[2], Importance: int(n[3]), Pinned: n[4] == 1}
		return differs(int64(w.Score(s, noon)), n[10])
	},
	"learn": func(n []int64) string {
		delta, w := n[0], Weights(n[1:6])
		counted := make([]Factors, n[6])
		rest := n[7:]
		for i := range counted {
			counted[i], rest = Factors(rest[:4]), rest[4:]
		}
		got, ok := w.learn(delta, counted)
		switch {
		case ok != (len(rest) == 5):
			return "learned: " + strconv.FormatBool(ok)
		case ok && got != Weights(rest):
			return stringOf(got)
		}
		return ""
	},
}

func stringOf(w Weights) string {
	var texts []string
	for _, v := range w {
		texts = append(texts, strconv.FormatInt(v, 10))
	}
	return strings.Join(texts, " ")
}

func differs(got, want int64) string {
	if got == want {
		return ""
	}
	return strconv.FormatInt(got, 10)
}
