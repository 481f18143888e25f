package canon

import (
	"encoding/json"
	"testing"
)

// What is taken as plain is what any reader of JSON finds there.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{"a":1,"b":{"c":[2]}}`, `{"a":1,}`, `{"a" :1}`, `{"a": 1}`, `{"a":1} `, `{"a":"\"}"}`, `{"a\"":1}`, `[1]`, `{"a":0,"b":01}`, `{"a":1"b":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		found := map[string]string{}
		plain := true
		if !Plain(b, func(name, value []byte) bool {
			plain = plain && IsPlain(name)
			found[string(name)] = string(value)
			return true
		}) || !plain {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatalf("%q is no JSON: %v", b, err)
		}
		for name, value := range want {
			if found[name] != string(value) {
				t.Errorf("%q: %s, want %s", name, found[name], value)
			}
		}
		if len(found) != len(want) {
			t.Errorf("%v, want %v", found, want)
		}
	})
}
