package journal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/canon"
)

// bodyOf gives each kind a body with every field it may have, but on_behalf_of.
func bodyOf(t testing.TB, kind string) map[string]any {
	digest := Sum([]byte("x")).String()
	fork := map[string]any{"run": otherRun, "seq": 3, "hash": digest}
	keys := map[string]any{"user": testKey(t, 1).Public(), "executor": testKey(t, 2).Public()}
	question := map[string]any{"id": "q", "prompt": "?", "type": "string", "options": []string{}, "default": nil, "required": true}
	all := map[string]map[string]any{
		"intent.draft": {"program_kind": "plan", "program_digest": digest, "prose": "p", "skill": "s", "skill_digest": digest, "inputs": 1, "bounds": 1, "user": "u", "by": "token:u",
			"origin": "cli", "keys": keys, "frozen": map[string]any{"manifest": digest}, "title": "t", "labels": 1, "trace": "t",
			"parent": map[string]any{"run": otherRun, "relation": "fork"}, "fork_of": fork, "hold": true, "rollback": 1, "rules": 1, "asks": "once",
			"pipeline": map[string]any{"envelope_id": "e", "request_id": "r", "thread_id": "t", "version": 1}},
		"intent.compiled":     {"intent": 1, "intent_hash": digest, "program_digest": digest, "model": "m", "attempts": 1},
		"intent.clarify":      {"gate": "g", "round": 1, "questions": []any{question}},
		"intent.answer":       {"gate": "g", "answers": 1, "via": "http", "client": "c"},
		"intent.accept":       {"intent_hash": digest, "program_digest": digest, "revision": 1, "bounds": 1, "via": "http", "client": "c", "gate": "g"},
		"plan.proposed":       {"intent_hash": digest, "program_digest": digest, "revision": 1, "accepted_by": "id"},
		"intent.correct":      {"target": "plan", "reason": "r", "material": true, "reasons": 1, "intent_hash": digest, "program_digest": digest, "revision": 2},
		"intent.dispatch":     {"child": "c", "skill": "s", "skill_digest": digest, "bounds": 1},
		"intent.attest":       {"outcome": "success", "outputs_digest": digest, "cited": 1, "evidence": 1, "terminal_reason": "r", "termination_reason": "t"},
		"intent.fail":         {"reason": "timeout", "code": "c", "message": "m", "bound": "b", "cited": 1, "evidence": 1, "terminal_reason": "r", "termination_reason": "t"},
		"intent.cancel":       {"reason": "r", "via": "http", "gate": "g", "cited": 1, "evidence": 1, "terminal_reason": "r", "termination_reason": "t"},
		"policy.gate":         {"gate": "g", "gate_kind": "question", "question": "?", "subject": 1, "actions": 1, "deny": "deny", "digest": digest, "expires_at": "t"},
		"policy.gate.resolve": {"gate": "g", "action": "a", "answer": 1, "feedback": "f", "note": "n", "decided_by": "d", "subject_digest": digest, "fail_reason": "r", "via": "http", "client": "c"},
	}
	return all[kind]
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// who may sign what, written down once more, independently of the table.
var usersKinds = []string{"intent.answer", "intent.accept", "intent.cancel", "policy.gate.resolve"}

var allKinds = append([]string{"intent.draft", "intent.compiled", "intent.clarify", "plan.proposed", "intent.correct", "intent.dispatch",
	"intent.attest", "intent.fail", "policy.gate"}, usersKinds...)

func TestThirteenKinds(t *testing.T) {
	if len(allKinds) != 13 || len(envelopes) != 13 {
		t.Fatalf("%d kinds here, %d in the table", len(allKinds), len(envelopes))
	}
	for _, kind := range allKinds {
		if !IsEnvelope(kind) {
			t.Errorf("%s is not an envelope", kind)
		}
	}
	for _, kind := range []string{"", "plan.step", "plan.output", "run.started", "intent.draft "} {
		if IsEnvelope(kind) {
			t.Errorf("%q is an envelope", kind)
		}
	}
}

func TestPrincipals(t *testing.T) {
	for _, kind := range allKinds {
		users := slices.Contains(usersKinds, kind)
		for _, from := range []string{User, Executor, "", "nobody"} {
			for _, named := range []bool{false, true} {
				if named && !users && kind != "intent.correct" {
					continue // has no such field
				}
				body := bodyOf(t, kind)
				if named || kind == "intent.correct" {
					body["on_behalf_of"] = "token:alice"
				}
				allowed := users && (from == User && !named || from == Executor && named) || !users && from == Executor
				b := newBook(t, testRun)
				_, err := b.executor.Seal(b.envelope(kind, from, string(encode(t, body))))
				if allowed && err != nil || !allowed && !errors.Is(err, ErrWrongPrincipal) {
					t.Errorf("%s from %q, named %v: %v", kind, from, named, err)
				}
			}
		}
	}
}

func TestCheckBodyFields(t *testing.T) {
	optional := map[string][]string{
		"intent.draft":        {"program_digest", "prose", "skill", "skill_digest", "title", "labels", "trace", "parent", "fork_of", "hold", "pipeline", "rollback", "by", "rules", "asks"},
		"intent.compiled":     {"intent", "intent_hash", "program_digest", "model"},
		"intent.answer":       {"client"},
		"intent.accept":       {"gate", "client"},
		"intent.attest":       {"terminal_reason", "termination_reason"},
		"intent.fail":         {"code", "bound", "terminal_reason", "termination_reason"},
		"intent.cancel":       {"gate", "terminal_reason", "termination_reason"},
		"policy.gate":         {"expires_at"},
		"policy.gate.resolve": {"answer", "feedback", "note", "decided_by", "fail_reason", "client"},
	}
	for _, kind := range allKinds {
		whole := bodyOf(t, kind)
		if kind == "intent.correct" {
			whole["on_behalf_of"] = "local:cli"
		}
		if err := CheckBody(kind, encode(t, whole)); err != nil {
			t.Errorf("%s with every field: %v", kind, err)
		}
		for name, value := range whole {
			delete(whole, name)
			err := CheckBody(kind, encode(t, whole))
			if may := slices.Contains(optional[kind], name); may && err != nil || !may && !errors.Is(err, ErrBody) {
				t.Errorf("%s without %s: %v", kind, name, err)
			}
			whole[name] = value
		}
		whole["unheard_of"] = 1
		if err := CheckBody(kind, encode(t, whole)); !errors.Is(err, ErrBody) {
			t.Errorf("%s with an unknown field: %v", kind, err)
		}
	}
	if err := CheckBody("plan.step", []byte(`{}`)); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("plan.step: %v", err)
	}
}

func TestCheckBodyNamesTheField(t *testing.T) {
	key := testKey(t, 1).Public().String()
	for _, tc := range []struct {
		kind, field string
		value       any
		want        string
	}{
		{"intent.draft", "program_digest", "sha256:ab", "program_digest"},
		{"intent.draft", "keys", map[string]any{"user": key}, "keys.executor"},
		{"intent.draft", "keys", map[string]any{"user": key, "executor": "AB"}, "keys.executor"},
		{"intent.draft", "keys", map[string]any{"user": key, "executor": key}, "keys.user and keys.executor"},
		{"intent.draft", "keys", "x", "keys is not an object"},
		{"intent.draft", "frozen", map[string]any{"policy": 1}, "frozen.policy"},
		{"intent.draft", "fork_of", map[string]any{"run": "../x", "seq": 1, "hash": Sum(nil)}, "fork_of.run"},
		{"intent.draft", "fork_of", map[string]any{"run": "R", "seq": 0, "hash": Sum(nil)}, "fork_of.seq"},
		{"intent.draft", "fork_of", map[string]any{"run": "R", "seq": 1, "hash": "h"}, "fork_of.hash"},
		{"intent.draft", "parent", map[string]any{"run": "R", "relation": "fork", "x": 1}, "parent.x"},
		{"intent.draft", "pipeline", map[string]any{"envelope_id": "", "request_id": "r", "thread_id": "t", "version": 1}, "pipeline.envelope_id"},
		{"intent.clarify", "questions", []any{map[string]any{"id": "q"}}, "questions[0].prompt"},
		{"intent.clarify", "questions", 1, "questions is not a list"},
		{"intent.accept", "on_behalf_of", "", "on_behalf_of"},
	} {
		body := bodyOf(t, tc.kind)
		body[tc.field] = tc.value
		err := CheckBody(tc.kind, encode(t, body))
		if !errors.Is(err, ErrBody) || !bytes.Contains([]byte(err.Error()), []byte(tc.want)) {
			t.Errorf("%s with %s = %v: %v, want it to say %q", tc.kind, tc.field, tc.value, err, tc.want)
		}
	}
	for _, body := range []string{``, `[]`, `{"gate":1,"gate":1}`, `{"gate":`} {
		if err := CheckBody("intent.answer", []byte(body)); !errors.Is(err, ErrBody) {
			t.Errorf("body %q: %v", body, err)
		}
	}
}

func TestSealRoundTrip(t *testing.T) {
	key := testKey(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		message := rapid.String().Draw(t, "message")
		body := encodeRapid(t, map[string]any{"reason": "r", "message": message, "cited": []int{}, "evidence": map[string]any{}})
		want := Record{
			At:   time.Unix(0, rapid.Int64Range(1, 4e18).Draw(t, "at")).UTC(),
			From: Executor, ID: rapid.StringN(1, -1, -1).Draw(t, "id"), Kind: "intent.fail", Path: rapid.String().Draw(t, "path"),
			Run: rapid.StringN(1, -1, -1).Draw(t, "run"), Seq: rapid.Int64Range(1, maxInt).Draw(t, "seq"),
			Prev: Sum([]byte(message)).String(), Head: Hash{}.String(), Body: body,
		}
		sealed, err := key.Seal(want)
		if err != nil {
			t.Fatal(err)
		}
		if whole, err := canon.Form(sealed); err != nil || !bytes.Equal(whole, sealed) {
			t.Fatalf("not in canonical form: %v\n%s\n%s", err, sealed, whole)
		}
		got, err := Parse(sealed)
		if err != nil {
			t.Fatal(err)
		}
		want.Key, want.Sig = key.Public().ID().String(), got.Sig
		if want.Body, err = canon.Form(body); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if err := checkSignature(sealed, got.Sig, key.Public()); err != nil {
			t.Fatal(err)
		}
	})
}

func encodeRapid(t *rapid.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The rule by which others verify: cut 97 bytes out, keep the last 7.
func TestSignedBytes(t *testing.T) {
	b, _ := wholeRun(t)
	for _, e := range [][]byte{b.records[atDraft], b.records[atAccept]} {
		if tail := e[len(e)-104:]; !bytes.HasPrefix(tail, []byte(`,"sig":"`)) || !bytes.HasSuffix(tail, []byte(`","v":1}`)) {
			t.Fatalf("the last 104 bytes are %s", tail)
		}
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(e, &whole); err != nil {
			t.Fatal(err)
		}
		delete(whole, "sig")
		want, err := canon.Form(encode(t, whole))
		if err != nil {
			t.Fatal(err)
		}
		if signed := slices.Concat(e[:len(e)-104], e[len(e)-7:]); !bytes.Equal(signed, want) {
			t.Errorf("what is cut out is not the canonical form without sig:\n%s\n%s", signed, want)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	b := newBook(t, testRun)
	good := func() Record { return b.envelope("intent.answer", User, string(encode(t, bodyOf(t, "intent.answer")))) }
	if _, err := b.user.Seal(good()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*Record)
		want   FaultCode
	}{
		{"a plain kind", func(r *Record) { r.Kind = "plan.step" }, ErrUnknownKind},
		{"no body", func(r *Record) { r.Body = nil }, ErrBody},
		{"duplicate names", func(r *Record) { r.Body = []byte(`{"gate":1,"gate":1}`) }, ErrBody},
		{"no id", func(r *Record) { r.ID = "" }, ErrFieldMissing},
		{"no run", func(r *Record) { r.Run = "" }, ErrFieldMissing},
		{"no seq", func(r *Record) { r.Seq = 0 }, ErrFieldMissing},
		{"no time", func(r *Record) { r.At = time.Time{} }, ErrFieldMissing},
		{"no prev", func(r *Record) { r.Prev = "" }, ErrFieldMissing},
		{"no head", func(r *Record) { r.Head = "zeros" }, ErrFieldMissing},
	} {
		r := good()
		tc.change(&r)
		if _, err := b.user.Seal(r); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

func ExamplePrivateKey_Seal() {
	executor, err := NewPrivateKey(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	if err != nil {
		panic(err)
	}
	envelope, err := executor.Seal(Record{
		At: time.Date(2026, 11, 15, 2, 30, 0, 0, time.UTC), From: Executor, ID: "01JCQ8R4T5V6W7X8Y9Z0A1C001",
		Kind: "intent.fail", Run: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3", Seq: 1, Prev: Hash{}.String(), Head: Hash{}.String(),
		Body: []byte(`{"reason": "timeout", "message": "too slow", "cited": [], "evidence": {}}`),
	})
	fmt.Println(err)
	fmt.Printf("%s\n", envelope[:105])
	// Output:
	// <nil>
	// {"at":"2026-11-15T02:30:00.000000000Z","body":{"cited":[],"evidence":{},"message":"too slow","reason":"ti
}
