package tipstaff

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Whatever an error has to say, as JSON it takes at most 6 KiB, its code stays, what the
// caller sent does not come back in full, and what is left out is counted.
func TestRepliesAreSmall(t *testing.T) {
	long := strings.Repeat("k", 1<<20)
	many := func(n int, text string) *Error {
		e := Errorf(InvalidProgram, "the document /srv/work/p.yaml is not valid").WithHint("look at /srv/work").WithCommand("`tipstaff run` it again")
		for i := range n {
			e.Problems = append(e.Problems, Problem{Code: "field_unknown", Path: fmt.Sprintf("nodes[%d].%s", i, text), File: "/srv/work/p.yaml", Message: fmt.Sprintf("unknown field %q", text)})
		}
		return e
	}
	details := Errorf(InspectOnly, "no")
	details.Details = map[string]string{"control": "inspect_only", "attempted": long}
	for name, e := range map[string]*Error{
		"problems": many(10_000, "x"), "long problems": many(25, long), "few": many(3, "x"),
		"a reason": Errorf(InvalidArgument, "reason: %q is too long", long), "details": details,
		"escapes": Errorf(InvalidArgument, "%s", strings.Repeat("\x1b\x00<", 900)),
		"emoji":   many(30, strings.Repeat("🙂 ", 3000)),
	} {
		r := e.Reply([]string{"/srv/work"}, false, nil)
		text, err := json.Marshal(r)
		if err != nil || len(text) > MaxReply || r.Code != e.Code || strings.Contains(string(text), strings.Repeat("k", maxQuoted+1)) ||
			strings.Contains(string(text), "/srv") || r.Command != "" {
			t.Errorf("%s: %d bytes, %v: %.300s", name, len(text), err, text)
		}
		shown := len(r.Problems)
		if last := shown - 1; len(e.Problems) > maxProblems {
			if want := fmt.Sprintf("%d more problems are not shown", len(e.Problems)-last); last < 1 || r.Problems[last].Message != want {
				t.Errorf("%s: of %d problems %d are shown, the last: %v", name, len(e.Problems), last, r.Problems[last])
			}
		} else if shown != len(e.Problems) {
			t.Errorf("%s: %d problems are shown", name, shown)
		}
	}
	if r := many(1, "x").Reply(nil, true, nil); r.Command == "" {
		t.Error("the command line is not told its commands")
	}
	if r := (&Error{Code: Internal, Err: fmt.Errorf("a secret")}).Reply(nil, true, nil); strings.Contains(r.Error(), "secret") {
		t.Errorf("the cause is told: %v", r)
	}
}
