package process

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The limit of a call of git is a setting, and one that is none is said by the first call.
func TestGitLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "90s": 90 * time.Second, "soon": 0, "-1s": 0, "0": 0} {
		t.Setenv(gitLimit, text)
		g := Git()
		if g == nil {
			t.Skip("there is no git")
		}
		_, err := g.Run(t.Context(), t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, nil, "version")
		wrong := text != "" && want == 0
		if g.Limit != want || (err != nil) != wrong || wrong && !strings.Contains(err.Error(), gitLimit) {
			t.Errorf("%q: %s, %v", text, g.Limit, err)
		}
	}
}
