package journal

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAnchorIsOneLine(t *testing.T) {
	a := Anchor{Run: testRun, Seq: 13, Hash: Sum([]byte("x")), At: testStart}
	want := `{"run":"` + testRun + `","seq":13,"hash":"` + Sum([]byte("x")).String() + `","at":"2026-11-15T02:30:00.123456789Z"}` + "\n"
	if got := string(a.Line()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Of an anchor file only whole lines of the run count, and equal ones once.
func TestReadAnchors(t *testing.T) {
	line := func(run string, seq int64, of string) string {
		return string(Anchor{Run: run, Seq: seq, Hash: Sum([]byte(of)), At: testStart}.Line())
	}
	first, second := line(testRun, 3, "a"), line(testRun, 7, "b")
	for _, c := range []struct {
		name, text string
		want       map[int64][]string // what was hashed, by seq
		last       int64
	}{
		{"an empty file", "", nil, 0},
		{"two rests", first + second, map[int64][]string{3: {"a"}, 7: {"b"}}, 7},
		{"two rests, the later first", second + first, map[int64][]string{3: {"a"}, 7: {"b"}}, 7},
		{"the same line twice", first + first, map[int64][]string{3: {"a"}}, 3},
		{"a run that was cut and went on", first + line(testRun, 3, "c"), map[int64][]string{3: {"a", "c"}}, 3},
		{"another run's alone", line(otherRun, 9, "d"), nil, 0},
		{"another run's between", first + line(otherRun, 9, "d") + second, map[int64][]string{3: {"a"}, 7: {"b"}}, 7},
		{"another run's that names this one", strings.Replace(line(otherRun, 9, "d"), `{`, `{"note":"`+testRun+`",`, 1), nil, 0},
		{"the last line torn", first + second[:len(second)-5], map[int64][]string{3: {"a"}}, 3},
		{"a line torn and written again", second[:40] + "\n" + second, map[int64][]string{7: {"b"}}, 7},
		{"a hash that is none", first + strings.Replace(second, "sha256:", "sha255:", 1), map[int64][]string{3: {"a"}}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "anchors")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadAnchors(file, testRun)
			if err != nil {
				t.Fatal(err)
			}
			want := Anchors{}
			for seq, texts := range c.want {
				for _, text := range texts {
					want[seq] = append(want[seq], Sum([]byte(text)))
				}
			}
			if !maps.EqualFunc(got, want, slices.Equal) || got.Last() != c.last {
				t.Errorf("%v up to %d, want %v up to %d", got, got.Last(), want, c.last)
			}
		})
	}
	if _, err := ReadAnchors(filepath.Join(t.TempDir(), "none"), testRun); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
