package tipstaff

import (
	"encoding/json"
	"errors"
	"testing"
)

// acceptanceScript is a run up to its plan.proposed, each envelope with a body.
type acceptanceScript []Event

func env(kind Kind, id byte, from, body string) Event {
	return Event{Kind: kind, ID: testID(id), From: from, Body: json.RawMessage(body)}
}

func (s acceptanceScript) last() error {
	var a Acceptances
	var err error
	for i := range s {
		err = a.Apply(&s[i])
	}
	return err
}

func proposedBy(id byte, intent, program string) Event {
	return env(KindPlanProposed, 99, "executor", `{"intent_hash":"`+intent+`","program_digest":"`+program+`","revision":1,"accepted_by":"`+testID(id).String()+`"}`)
}

func TestPlanProposedNeedsExactlyThisAcceptance(t *testing.T) {
	accept := env(KindIntentAccept, 1, "user", `{"intent_hash":"I","program_digest":"P","revision":1}`)
	accept2 := env(KindIntentAccept, 2, "user", `{"intent_hash":"I","program_digest":"Q","revision":2}`)
	gate := env(KindPolicyGate, 3, "executor", `{"gate":"G","gate_kind":"confirmation","subject":{"intent_hash":"I","program_digest":"Q","reasons":[]}}`)
	question := env(KindPolicyGate, 3, "executor", `{"gate":"G","gate_kind":"question","subject":{"intent_hash":"I","program_digest":"Q"}}`)
	correct := func(material string) Event {
		return env(KindIntentCorrect, 5, "executor", `{"intent_hash":"I","program_digest":"R","revision":2,"material":`+material+`}`)
	}
	resolve := func(from, rest string) Event {
		return env(KindPolicyGateResolve, 4, from, `{"gate":"G",`+rest+`}`)
	}
	for _, c := range []struct {
		name   string
		script acceptanceScript
		ok     bool
	}{
		{"accepted", acceptanceScript{accept, proposedBy(1, "I", "P")}, true},
		{"never accepted", acceptanceScript{proposedBy(1, "I", "P")}, false},
		{"another program", acceptanceScript{accept, proposedBy(1, "I", "Q")}, false},
		{"another intent", acceptanceScript{accept, proposedBy(1, "J", "P")}, false},
		{"another envelope's acceptance", acceptanceScript{accept, accept2, proposedBy(1, "I", "Q")}, false},
		{"an envelope that accepts nothing", acceptanceScript{accept, proposedBy(99, "I", "P")}, false},
		{"no envelope named", acceptanceScript{accept, env(KindPlanProposed, 9, "executor", `{"intent_hash":"I","program_digest":"P"}`)}, false},
		{"an unreadable proposal", acceptanceScript{accept, env(KindPlanProposed, 9, "executor", `[`)}, false},
		{"accepted by the executor for nobody", acceptanceScript{env(KindIntentAccept, 1, "executor", `{"intent_hash":"I","program_digest":"P"}`), proposedBy(1, "I", "P")}, false},
		{"accepted by the executor for a user", acceptanceScript{env(KindIntentAccept, 1, "executor", `{"intent_hash":"I","program_digest":"P","on_behalf_of":"token:a"}`), proposedBy(1, "I", "P")}, true},
		{"an acceptance of nothing", acceptanceScript{env(KindIntentAccept, 1, "user", `{}`), proposedBy(1, "", "")}, false},
		{"a correction, confirmed", acceptanceScript{accept, gate, resolve("user", `"action":"accept"`), proposedBy(4, "I", "Q")}, true},
		{"a correction, not confirmed", acceptanceScript{accept, gate, proposedBy(4, "I", "Q")}, false},
		{"a correction on the old acceptance", acceptanceScript{accept, gate, resolve("user", `"action":"accept"`), proposedBy(1, "I", "Q")}, false},
		{"a correction, the old program kept", acceptanceScript{accept, gate, resolve("user", `"action":"keep"`), proposedBy(1, "I", "P")}, true},
		{"a correction, kept and yet proposed", acceptanceScript{accept, gate, resolve("user", `"action":"keep"`), proposedBy(4, "I", "Q")}, false},
		{"a gate decided twice", acceptanceScript{accept, gate, resolve("user", `"action":"keep"`), resolve("user", `"action":"accept"`), proposedBy(4, "I", "Q")}, false},
		{"a gate of another kind", acceptanceScript{accept, question, resolve("user", `"action":"accept"`), proposedBy(4, "I", "Q")}, false},
		{"a gate that was superseded", acceptanceScript{accept, gate, resolve("user", `"action":"accept","via":"superseded"`), proposedBy(4, "I", "Q")}, false},
		{"a material correction that nobody confirmed", acceptanceScript{accept, proposedBy(1, "I", "P"), correct("true"), proposedBy(1, "I", "R")}, false},
		{"a correction that does not say whether it is material", acceptanceScript{accept, proposedBy(1, "I", "P"), correct("null"), proposedBy(1, "I", "R")}, false},
		{"a correction within what was accepted, kept", acceptanceScript{accept, proposedBy(1, "I", "P"), correct("false"), gate, resolve("user", `"action":"keep"`), proposedBy(1, "I", "R")}, true},
		{"a correction within what never took effect", acceptanceScript{accept, correct("false"), proposedBy(1, "I", "R")}, false},
		{"the first program, kept beside a correction of it", acceptanceScript{accept, proposedBy(1, "I", "P"), correct("false"), gate, resolve("user", `"action":"keep"`), proposedBy(1, "I", "P")}, true},
		{"a first program, accepted at a gate", acceptanceScript{gate, env(KindIntentAccept, 1, "user", `{"intent_hash":"I","program_digest":"Q","revision":1,"gate":"G"}`), proposedBy(1, "I", "Q")}, true},
		{"a first program other than the gate showed", acceptanceScript{gate, env(KindIntentAccept, 1, "user", `{"intent_hash":"I","program_digest":"P","revision":1,"gate":"G"}`), proposedBy(1, "I", "P")}, false},
		{"a first program, accepted at no gate of the run", acceptanceScript{gate, env(KindIntentAccept, 1, "user", `{"intent_hash":"I","program_digest":"Q","revision":1,"gate":"H"}`), proposedBy(1, "I", "Q")}, false},
		{"a gate decided by the executor alone", acceptanceScript{accept, gate, resolve("executor", `"action":"accept"`), proposedBy(4, "I", "Q")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.script.last()
			if c.ok && err != nil {
				t.Error(err)
			}
			if !c.ok && !errors.Is(err, ErrNotAccepted) {
				t.Errorf("error %v, want ErrNotAccepted", err)
			}
		})
	}
}
