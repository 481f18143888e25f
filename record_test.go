package tipstaff

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	plainRecord = `{"at":"2026-11-15T10:00:00.123456789Z","body":{"name":"tool.call","value":{"text":"a \"}]\\\" b"}},` +
		`"epoch":2,"kind":"effect.finished","n":1,"note":true,"path":"root/read","run":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3","seq":7,"v":1}`
	envelopeRecord = `{"at":"2026-11-15T10:00:00.000000000Z","body":{"reason":"tool_error"},"from":"executor","head":"sha256:00",` +
		`"id":"01JCQ8R4T5V6W7X8Y9Z0A1B2C4","key":"sha256:11","kind":"intent.fail","path":"","prev":"sha256:22",` +
		`"run":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3","seq":9,"sig":"c2ln","v":1}`
)

func TestParseEventReadsEveryMember(t *testing.T) {
	run, _ := ParseID("01JCQ8R4T5V6W7X8Y9Z0A1B2C3")
	id, _ := ParseID("01JCQ8R4T5V6W7X8Y9Z0A1B2C4")
	for _, c := range []struct {
		raw  string
		want Event
	}{
		{plainRecord, Event{V: 1, Seq: 7, Kind: KindEffectFinished, At: time.Date(2026, 11, 15, 10, 0, 0, 123456789, time.UTC),
			Run: run, Path: "root/read", Epoch: 2, N: 1, Note: true,
			Body: json.RawMessage(`{"name":"tool.call","value":{"text":"a \"}]\\\" b"}}`)}},
		{envelopeRecord, Event{V: 1, Seq: 9, Kind: KindIntentFail, At: time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC),
			Run: run, Body: json.RawMessage(`{"reason":"tool_error"}`),
			ID: id, From: "executor", Prev: "sha256:22", Head: "sha256:00", Key: "sha256:11", Sig: "c2ln"}},
	} {
		got, err := ParseEvent([]byte(c.raw))
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Raw) != c.raw {
			t.Errorf("Raw = %s", got.Raw)
		}
		got.Raw = nil
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("got  %+v\nwant %+v", got, c.want)
		}
	}
}

func TestParseEventRefuses(t *testing.T) {
	change := func(old, new string) string { return strings.Replace(plainRecord, old, new, 1) }
	for _, c := range []struct {
		name, raw string
		code      Code
	}{
		{"nothing", ``, Internal},
		{"no JSON", plainRecord[1:], Internal},
		{"two objects", plainRecord + plainRecord, Internal},
		{"a list", `[` + plainRecord + `]`, Internal},
		{"an empty object", `{}`, Internal},
		{"an unknown member", change(`"n":1`, `"m":1`), Internal},
		{"a member twice", change(`"n":1`, `"n":1,"n":1`), Internal},
		{"no path", change(`"path":"root/read",`, ``), Internal},
		{"seq 0", change(`"seq":7`, `"seq":0`), Internal},
		{"a fractional seq", change(`"seq":7`, `"seq":7.5`), Internal},
		{"a seq in quotes", change(`"seq":7`, `"seq":"7"`), Internal},
		{"a lower-case run", change(`01JCQ8`, `01jcq8`), Internal},
		{"a time without zone", change(`789Z`, `789`), Internal},
		{"a kind that is no string", change(`"effect.finished"`, `5`), Internal},
		{"a note that is no truth value", change(`"note":true`, `"note":null`), Internal},
		{"another version", change(`"v":1`, `"v":2`), FormatNewer},
		{"an unknown kind", change(`effect.finished`, `effect.undone`), FormatNewer},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := ParseEvent([]byte(c.raw))
			if CodeOf(err) != c.code || err == nil {
				t.Fatalf("error %v, want code %s", err, c.code)
			}
			if newer := c.code == FormatNewer; newer != (e.Seq == 7) {
				t.Errorf("event %+v", e)
			}
		})
	}
}

func BenchmarkParseEvent(b *testing.B) {
	raw := []byte(plainRecord)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := ParseEvent(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshalEvent(b *testing.B) {
	raw := []byte(plainRecord)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		var e Event
		if err := json.Unmarshal(raw, &e); err != nil {
			b.Fatal(err)
		}
	}
}
