package grpc

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// client.js is a client in another language, made from core.proto by other people's
// code. Here is what it must have seen.
func TestNode(t *testing.T) {
	t.Parallel()
	modules := installed(t, "node_modules")
	proto, err := filepath.Abs("../../pb/tipstaff/core/v1/core.proto")
	if err != nil {
		t.Fatal(err)
	}
	d := serve(t)
	var out, errs bytes.Buffer
	node := exec.Command("node", "client.js", modules, proto, d.addr, d.authorization())
	node.Stdout, node.Stderr = &out, &errs
	if err := node.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	var seen struct {
		Metadata, MaxCost, TokensOut, Half string
		Executed, Watched                  []string
		End                                struct {
			Final          bool
			Reason, Critic string
		}
		Left struct {
			Terminated bool
			Condition  string
		}
		Cancelled struct {
			Terminated bool
			Reason     string
		}
		Refused codes.Code
		Listed  struct {
			Total                 int
			Run, Question, Status string
			ByKind                map[string]int
			Runs, Threads         []string
		}
		Answered struct {
			Type string
			Left int
		}
		Faults []struct {
			Code    codes.Code
			Details []int // bytes
		}
	}
	decodeJSON(t, out.String(), &seen)
	if want := `{"half":1.0,"n":9007199254740993,"text":"héllo"}`; seen.Metadata != want {
		t.Errorf("the metadata came back as %s, not %s", seen.Metadata, want)
	}
	if seen.MaxCost != "5000000000" || seen.TokensOut != "9007199254740993" {
		t.Errorf("the numbers came back as %s and %s", seen.MaxCost, seen.TokensOut)
	}
	if !seen.End.Final || seen.End.Reason != "completed" || seen.End.Critic != `{"verdict":"again"}` {
		t.Errorf("the end is %+v", seen.End)
	}
	half := slices.IndexFunc(seen.Executed, func(e string) bool { return strings.HasPrefix(e, seen.Half+" ") })
	if half <= 0 || !slices.Equal(seen.Watched, seen.Executed[half+1:]) {
		t.Errorf("from event %d of\n%s\nit watched\n%s", half, strings.Join(seen.Executed, "\n"), strings.Join(seen.Watched, "\n"))
	}
	if seen.Left.Terminated || seen.Left.Condition != "running" {
		t.Errorf("when its caller had left, the run was %+v", seen.Left)
	}
	if seen.Cancelled.Reason != "user_cancelled" {
		t.Errorf("it was cancelled as %+v", seen.Cancelled)
	}
	if seen.Refused != codes.NotFound {
		t.Errorf("an Envelope that nobody made is %s", seen.Refused)
	}
	if l := seen.Listed; l.Total != 1 || l.Question != "Shall it?" || l.Status != "awaiting_decision" || l.ByKind["confirmation"] != 1 || !slices.Equal(l.Runs, []string{l.Run}) || !slices.Equal(l.Threads, l.Runs) {
		t.Errorf("the lists say %+v", l)
	}
	if seen.Answered.Type != "PIPELINE_COMPLETED" || seen.Answered.Left != 0 {
		t.Errorf("after the answer: %+v", seen.Answered)
	}
	for _, f := range seen.Faults {
		if f.Code != codes.InvalidArgument || len(f.Details) != 1 || f.Details[0] > 6<<10 {
			t.Errorf("a document with faults is answered with %s and details of %v bytes", f.Code, f.Details)
		}
	}
}
