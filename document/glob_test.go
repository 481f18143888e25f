package document_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/document"
)

// slowMatch says what a pattern means, one ** after another.
func slowMatch(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		return slowMatch(pattern[1:], name) || len(name) > 0 && slowMatch(pattern, name[1:])
	}
	if len(name) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return ok && err == nil && slowMatch(pattern[1:], name[1:])
}

func FuzzMatchPath(f *testing.F) {
	for _, pattern := range []string{"a", "**", "a/**", "**/b", "**/a/**/b", "*/**/?/**", "a/**/**/b", "[", "", "/", "**/[", "[a-b]/**/x*"} {
		for _, name := range []string{"", "a", "b", "a/b", "a/x/b", "a/b/a/b", "x/a/y/a/b/b", "/", "a//b"} {
			f.Add(pattern, name)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.Count(pattern, "**") > 4 || strings.Count(name, "/") > 12 {
			t.Skip("the slow one would not end")
		}
		if got, want := document.MatchPath(pattern, name), slowMatch(strings.Split(pattern, "/"), strings.Split(name, "/")); got != want {
			t.Errorf("%q of %q: %v", pattern, name, got)
		}
	})
}

// Patterns come with documents of others: none takes its time.
func TestManyStarsTakeNoTime(t *testing.T) {
	name := strings.Repeat("a/", 60) + "b"
	done := make(chan bool, 1)
	go func() { done <- document.MatchPath(strings.Repeat("**/a/", 40)+"c", name) }()
	select {
	case matches := <-done:
		if matches {
			t.Error("it ends with another name")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it tries every way to share the segments")
	}
}
