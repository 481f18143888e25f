package flow

import (
	"encoding/json"
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
