package tipstaff

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func membersOf(body string) (names []string, ok bool) {
	e := Event{Body: json.RawMessage(body)}
	ok = e.Members(func(name string, value json.RawMessage) bool {
		names = append(names, name+"="+string(value))
		return true
	})
	return names, ok
}

func TestMembersOfABody(t *testing.T) {
	names, ok := membersOf(" { \"a\" : {\"b\":[1, -2.5e+3, \"}\\\"\"]} ,\n\"c\":null,\"\":true } ")
	if want := `a={"b":[1, -2.5e+3, "}\""]} c=null =true`; !ok || strings.Join(names, " ") != want {
		t.Errorf("%q %v", names, ok)
	}
	if names, ok := membersOf("{}"); len(names) > 0 || !ok {
		t.Errorf("of an empty object: %q %v", names, ok)
	}
	for _, body := range []string{"", "null", "[]", `"a"`, "1", "{", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1}{`, `{"a":01}`, `{"a":1.}`, `{"a":-}`,
		`{"a":"` + "\n" + `"}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":tru}`, `{"a":[1}`, `{"a":1 "b":2}`, "{\"a\":1}\x00"} {
		if names, ok := membersOf(body); ok {
			t.Errorf("%q is an object with %q", body, names)
		}
	}
	stopped := (&Event{Body: json.RawMessage(`{"a":1,"b":2}`)}).Members(func(name string, _ json.RawMessage) bool { return name != "a" })
	if stopped {
		t.Error("a walk that was broken off is said to have come to its end")
	}
}

// FuzzMembers: what is an object, and what its members are, is as encoding/json
// has it.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` {"a":[{}],"b":"\u00e9\\"} `, `{"a":1,}`, `[]`, `{"a":1e9,"a":-0}`, `{"a":"\ud800"}`, `nullx`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := map[string]json.RawMessage{}
		ok := (&Event{Body: body}).Members(func(name string, value json.RawMessage) bool {
			got[name] = value
			return true
		})
		object := json.Valid(body) && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
		if ok != object {
			t.Fatalf("%q: %v", body, ok)
		}
		if !ok {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d members, not %d", body, len(got), len(want))
		}
		for name, value := range want {
			if !bytes.Equal(bytes.TrimSpace(value), got[name]) {
				t.Fatalf("%q: %s is %q, not %q", body, name, got[name], value)
			}
		}
	})
}
