package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// TestStories runs the stories under testdata/run over the memory engine. The
// commands of a story:
//
//	pipeline                the document
//	input [goals=(a,b)]     what the run is given; before its first drive
//	stages                  per line an attempt, a colon and what it brings: JSON, or !code
//	                        and a message. In front of that may stand, in brackets: calls=N
//	                        (of models or tools), once, retry, hang. What is not listed
//	                        brings {"from": PATH}
//	drive                   one drive; prints what it recorded and how it ended
//	decide KEY ACTION       answers a gate. Input: lines "feedback: …" and "note: …", and the
//	                        answer, as JSON
//	cancel                  asks for the end of the run
//	state                   prints the Envelope
//	told PATH               prints what an attempt was given
//	rollback TURN [output.KEY=JSON]… [raise.NAME=N]…
//	                        makes a new run from the boundary of a turn
//
// Every drive is replayed over its records alone.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/run", func(t *testing.T, file string) {
		s := &story{}
		datadriven.RunTest(t, file, s.command)
	})
}

type story struct {
	*bed
	shown int
}

func (s *story) command(t *testing.T, c *datadriven.TestData) string {
	switch c.Cmd {
	case "pipeline":
		s.bed, s.shown = newBed(t, c.Input), 0
	case "input":
		s.in.RawInput = c.Input
		for _, a := range c.CmdArgs {
			s.in.Goals = append(s.in.Goals, a.Vals...)
		}
	case "stages":
		s.world.by = deeds(t, c.Input)
	case "drive":
		out := s.take(t)
		told := s.story(s.shown)
		s.shown = len(s.all())
		return told + s.end(out) + "\n"
	case "decide":
		s.decide(t, c.CmdArgs[0].Key, decision(c.CmdArgs[1].Key, c.Input))
	case "cancel":
		s.cancel(t)
	case "state":
		return s.state()
	case "told":
		st := s.world.saw[c.CmdArgs[0].Key]
		if st.Response != nil {
			st.Response.InterruptID = ""
		}
		return fmt.Sprintf("prompt %q\nargs %s\ninput %s\nfeedback %q\nresponse %s\n", st.Prompt, st.Args, st.Input, st.Feedback, flow.JSON(st.Response))
	case "rollback":
		s.rollback(t, c)
		s.shown = 0
	default:
		t.Fatalf("unknown command %s", c.Cmd)
	}
	return "ok\n"
}

func decision(action, input string) flow.Decision {
	d := flow.Decision{Action: action, By: "ada"}
	for _, line := range strings.Split(input, "\n") {
		if text, ok := strings.CutPrefix(line, "feedback: "); ok {
			d.Feedback = text
		} else if text, ok := strings.CutPrefix(line, "note: "); ok {
			d.Note = text
		} else {
			d.Answer = json.RawMessage(strings.TrimSpace(line))
		}
	}
	return d
}

func (s *story) rollback(t *testing.T, c *datadriven.TestData) {
	turn, err := strconv.ParseInt(c.CmdArgs[0].Key, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	r := Rollback{Turn: turn, By: "ada", Outputs: map[string]map[string]any{}, Raised: map[string]int64{}}
	for _, a := range c.CmdArgs[1:] {
		what, name, _ := strings.Cut(a.Key, ".")
		switch what {
		case "output":
			if r.Outputs[name], err = DecodeObject([]byte(a.Vals[0])); err != nil {
				t.Fatal(err)
			}
		case "raise":
			if r.Raised[name], err = strconv.ParseInt(a.Vals[0], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.rollBack(t, r)
}

// deeds reads what attempts bring.
func deeds(t *testing.T, input string) map[string]deed {
	by := map[string]deed{}
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		path, brings, _ := strings.Cut(line, ": ")
		var d deed
		retry := false
		if rest, ok := strings.CutPrefix(brings, "["); ok {
			var words string
			words, brings, _ = strings.Cut(rest, "]")
			for _, w := range strings.Fields(words) {
				switch name, n, _ := strings.Cut(w, "="); name {
				case "calls":
					d.calls, _ = strconv.Atoi(n)
				case "once":
					d.once = true
				case "hang":
					d.hang = true
				case "retry":
					retry = true
				default:
					t.Fatalf("unknown word %s", w)
				}
			}
		}
		brings = strings.TrimSpace(brings)
		if code, ok := strings.CutPrefix(brings, "!"); ok {
			code, message, _ := strings.Cut(code, " ")
			d.err = &StageError{Code: code, Message: message, Retryable: retry, Denied: code == "denied"}
		} else if brings != "" {
			var err error
			if d.output, err = DecodeObject([]byte(brings)); err != nil {
				t.Fatal(err)
			}
		}
		by[path] = d
	}
	return by
}

// rollBack goes on in a new run from a boundary of this one, as whoever stores runs
// would have it.
func (b *bed) rollBack(t testing.TB, r Rollback) {
	t.Helper()
	old := append(append([]flow.Record{}, b.base...), b.all()...)
	n := 0
	for i, rec := range old {
		if rec.Kind == "turn.merged" && read[tipstaff.TurnMerged](rec).Turn == r.Turn {
			n = i + 1
		}
	}
	if n == 0 {
		t.Fatalf("there is no turn %d", r.Turn)
	}
	e := b.env
	r.From, r.Checkpoint = b.run, fmt.Sprintf("cp_%s_%d", e.RunID, r.Turn)
	b.forks++
	r.RunID = fmt.Sprintf("01JCQ8R4T5V6W7X8Y9Z0A1B%03d", b.forks)
	r.EnvelopeID, r.ThreadID = e.EnvelopeID, e.ThreadID
	r.Counters = e.Counters(b.transitions())
	used := flow.Totals(flow.History{Base: b.base, Records: b.all()}, b.limits()).Used
	b.rolls = append(slices.DeleteFunc(b.rolls, func(earlier Rollback) bool { return earlier.Turn >= r.Turn }), r)
	b.run, b.base = r.RunID, old[:n]
	log := flow.NewMem()
	if err := log.Write(b.run, flow.Draft{Kind: "run.forked", Body: flow.JSON(map[string]any{"counters": used})}); err != nil {
		t.Fatal(err)
	}
	b.log = log
}

// transitions is the number of the last one.
func (b *bed) transitions() (n int64) {
	for _, r := range append(append([]flow.Record{}, b.base...), b.all()...) {
		if r.Kind == "transition" {
			n = max(n, read[tipstaff.Transitioned](r).N)
		}
	}
	return n
}
