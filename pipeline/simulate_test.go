package pipeline

import (
	"encoding/json"
	"errors"
	"hash/fnv"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/simtest"
)

// Whole pipelines under every schedule: the executor itself, scripted stages, and
// stages whose calls the simulator performs.
func TestSimulated(t *testing.T) { simtest.Simulate(t, simtest.Memory, simulated, 2*time.Second) }

// simulated makes a case of a random pipeline.
func simulated(pick *simtest.Choices) *simtest.Case {
	p, problems := Check("p.json", randomPipeline(pick.Of), Resolver{})
	if len(problems) > 0 {
		panic(problems[0].Message)
	}
	salt := byte(pick.Of(256))
	b := bedOf(p)
	b.in.Goals = []string{"one", "two"}
	return &simtest.Case{
		Text: string(p.Canonical()), Input: json.RawMessage("null"), Limits: b.limits(), Own: Activities(), Acts: []string{"act"}, Cancels: true,
		Flow: func(fc flow.Context, state json.RawMessage) (_ json.RawMessage, err error) {
			s := State{Envelope: NewEnvelope(p, b.in)}
			if string(state) != "null" {
				if s, err = Restore(state); err != nil {
					return nil, err
				}
			}
			if err = Execute(fc, p, &s, acting(salt)); err != nil {
				return nil, err
			}
			return EncodeEnvelope(s.Envelope), nil
		},
		Behave: func(path string) simtest.Behaviour {
			r := chance(path, salt)
			return simtest.Behaviour{
				End:   []int{simtest.Answers, simtest.Answers, simtest.Answers, simtest.Bad, simtest.Lost}[r%5],
				Fails: r / 8 % 2, Stops: r/16%2 == 1, Prompt: r/32%2 == 1,
			}
		},
		Answer: func(kind, action string) json.RawMessage {
			switch action {
			case actionExtend:
				return json.RawMessage(`{"iterations":1,"agent_hops":1,"model_calls":1,"edge_limits":1,"max_visits":1,"max_stages":1}`)
			case actionAnswer:
				return json.RawMessage(`{"n":1.0}`)
			}
			return nil
		},
	}
}

// chance is a number that follows from a path.
func chance(path string, salt byte) int {
	h := fnv.New32a()
	h.Write(append([]byte(path), salt))
	return int(h.Sum32() >> 8)
}

// acting performs a stage by one call, whose class follows from where it stands.
func acting(salt byte) Perform {
	return func(fc flow.Context, s Stage) (Result, error) {
		class := []flow.Class{flow.Read, flow.Once, flow.Idempotent}[chance(fc.Path(), salt+1)%3]
		c := flow.Call{Key: "act#1", Name: "act", Class: class, Input: flow.JSON(fc.Path()), Ask: s.AskBounds}
		if class != flow.Once {
			c.Retry = flow.Retry{Max: 1, Backoff: time.Millisecond}
		}
		r, err := fc.Do(c)
		var e *flow.Error
		switch {
		case errors.As(err, &e) && e.Code != flow.CodeBoundExceeded:
			return Result{}, &StageError{Code: e.Code, Message: e.Message}
		case err != nil:
			return Result{}, err
		}
		k := int64(chance(string(r.Value), salt) % 4)
		return Result{Output: map[string]any{"from": string(r.Value), "k": k}, Once: class == flow.Once}, nil
	}
}
