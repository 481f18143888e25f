package flow

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Existing journals hold what encoding/json makes of an Effect.
func TestEffectsAreEncodedAsByReflection(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"once", "a\xffb", "\u2028<>&\x00\"\\"}))
	use := rapid.MapOfN(text, rapid.Int64(), 0, 9)
	value := rapid.SampledFrom([]json.RawMessage{nil, []byte(`null`), []byte(`{"a":[1.50,"\u00e9<"]}`)})
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64().Draw(t, "ms")
		b := Effect{Name: text.Draw(t, "name"), Class: Class(text.Draw(t, "class")), Attempt: rapid.Int().Draw(t, "attempt"), Digest: text.Draw(t, "digest"),
			Input: value.Draw(t, "input"), Reserve: use.Draw(t, "reserve"), Value: value.Draw(t, "value"), Use: use.Draw(t, "use"), Wanted: use.Draw(t, "wanted"), By: text.Draw(t, "by")}
		if ms%2 == 0 {
			b.Ms = &ms
			b.Error = &Error{Code: b.Name, Detail: b.Value, After: time.Duration(ms)}
			b.RetryAt = Time{time.UnixMilli(ms % 1e12)}
		}
		if got, want := string(b.encode()), string(JSON(b)); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

// Bodies that the engine writes and those that anybody else does are read alike.
func FuzzReadBodies(f *testing.F) {
	ms := int64(0)
	for _, b := range []Effect{{}, {Name: "a", Class: Once, Attempt: 1, Digest: "sha256:0", Input: json.RawMessage(`{"a":"}"}`), Reserve: Use{"tokens": 1, "b": 20}},
		{Name: "a", Attempt: 12, Value: json.RawMessage(`null`), Ms: &ms, Use: Use{"b": 0}, By: "x"}, {Error: &Error{Code: "no", Message: "m", Bound: "b", Retry: true, NotSent: true, Answered: true}},
		{Error: &Error{Code: "no", Message: "\"", Detail: json.RawMessage("1"), After: time.Second}, Wanted: Use{"a": 3}, RetryAt: Time{time.Now()}, Keep: []string{"x"}}} {
		f.Add([]byte(b.encode()))
	}
	f.Add([]byte(JSON(GateOpened{Gate: "G", Kind: "question", Question: "Go?", Subject: json.RawMessage(`{}`), Actions: []string{"a", "b"}, Deny: "b", Digest: "d", ExpiresAt: Time{time.Now()}})))
	f.Add([]byte(JSON(GateResolved{Gate: "G", Action: "a", Answer: json.RawMessage(`[1]`), Feedback: "f", Note: "n", SubjectDigest: "d", Via: "command", Client: "c", OnBehalfOf: "o", FailReason: "r", DecidedBy: "x"})))
	for _, s := range []string{`{}`, ``, `null`, `[]`, `{"name":"a","name":"b"}`, `{"Name":"a"}`, `{"name":"\u0061"}`, `{"attempt":01}`, `{"attempt":-1}`, `{"attempt":1.0}`, `{"attempt":1e2}`, `{"attempt":99999999999999999999}`,
		`{"ms":null}`, `{"use":{}}`, `{"use":null}`, `{"use":{"a":1,"a":2}}`, `{"use":{"a":"1"}}`, `{"value": 1}`, `{"value":1} `, `{"value":1}x`, `{"value":1,}`, `{"value"}`, `{"error":null}`, `{"error":{"code":1}}`, `{"error":{"retry":false}}`,
		`{"error":{}}`, `{"other":1}`, `{"class":""}`, "{\"name\":\"\xff\"}", `{"name":"a","attempt":2`, `{"actions":[]}`, `{"actions":null}`, `{"actions":["a",1]}`, `{"actions":["a"],"actions":["b"]}`, `{"answer":null}`, `{"expires_at":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		readsAlike[Effect](t, body)
		readsAlike[GateOpened](t, body)
		readsAlike[GateResolved](t, body)
	})
}

func readsAlike[T any, P interface {
	*T
	member(name, value []byte) bool
}](t *testing.T, body []byte) {
	var want T
	bad := json.Unmarshal(body, &want)
	got, err := readAs[T, P](body)
	if (err != nil) != (bad != nil) {
		t.Fatalf("%T: %v, want %v", got, err, bad)
	}
	if bad == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
