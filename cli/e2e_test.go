package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff"
)

type trialReport struct {
	Passed int `json:"passed"`
}

func (r trialReport) OK() bool         { return r.Passed == 75 }
func (r trialReport) Text(w io.Writer) { fmt.Fprintf(w, "%d of 75\n", r.Passed) }

// The exit code says whether all of it holds, and the report is written in any case.
func TestEndToEnd(t *testing.T) {
	for passed, code := range map[int]int{75: exitDone, 74: exitFailed} {
		b, file := newBench(t), filepath.Join(t.TempDir(), "report.json")
		b.env.EndToEnd = func(_ context.Context, o EndToEndOptions) (EndToEndReport, error) {
			equal(t, "options", fmt.Sprint(o), "{w true true}")
			return trialReport{passed}, nil
		}
		b.run(t, code, "e2e", "--live", "--sabotage", "--report", file, "--workspace", "w")
		equal(t, "stdout", b.out.String(), fmt.Sprintf("%d of 75\n", passed))
		written, _ := os.ReadFile(file)
		equal(t, "report", string(written), fmt.Sprintf("{\n  \"passed\": %d\n}\n", passed))
	}
	b := newBench(t)
	b.env.EndToEnd = func(context.Context, EndToEndOptions) (EndToEndReport, error) {
		return nil, tipstaff.Errorf(tipstaff.Refused, "there is no loopback")
	}
	b.run(t, exitRefused, "e2e")
}
