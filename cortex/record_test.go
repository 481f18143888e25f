package cortex

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/journal"
)

const runA = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"

// samples has one record of each kind, with the bytes that it has, written by
// hand.
var samples = []struct {
	record Record
	bytes  string
}{
	{Record{Seq: 77, At: noon, Run: runA, Path: "root/read", Body: &Remember{By: "executor", Digest: "sha256:d", Importance: 3,
		Item: "cortex://event/01M7FH87KV000000000000002D", Kind: "tool_call", Outcome: "completed", Server: "builtin", Skill: "skill://s@1.0.0",
		Text: "read \u2028 \"done\"", Tool: "mcp://builtin/read_file@1.0.0", Verb: "build"}},
		`{"at":"2026-11-15T12:00:00.123456789Z","body":{"by":"executor","digest":"sha256:d","importance":3,"item":"cortex://event/01M7FH87KV000000000000002D",` +
			`"kind":"tool_call","outcome":"completed","pinned":false,"server":"builtin","skill":"skill://s@1.0.0","text":"read ` + "\u2028" + ` \"done\"",` +
			`"tool":"mcp://builtin/read_file@1.0.0","verb":"build"},"kind":"remember","path":"root/read","run":"` + runA + `","seq":77,"v":1}`},
	{Record{Seq: 78, At: noon, Body: &Tombstone{By: "local:cli", Item: "cortex://fact/01M7FH87KV000000000000002D"}},
		`{"at":"2026-11-15T12:00:00.123456789Z","body":{"by":"local:cli","item":"cortex://fact/01M7FH87KV000000000000002D"},"kind":"tombstone","path":"","run":"","seq":78,"v":1}`},
	{Record{Seq: 79, At: noon, Run: runA, Body: &Attest{Began: Time(noon), Cited: []string{"cortex://fact/01M7FH87KV000000000000002D"}, CreatedBy: "executor", Outcome: Failure, Reason: "timeout"}},
		`{"at":"2026-11-15T12:00:00.123456789Z","body":{"began":"2026-11-15T12:00:00.123456789Z","cited":["cortex://fact/01M7FH87KV000000000000002D"],"created_by":"executor",` +
			`"outcome":"failure","reason":"timeout"},"kind":"attest","path":"","run":"` + runA + `","seq":79,"v":1}`},
	{Record{Seq: 80, At: noon, Run: runA, Body: &LearnWeights{Counted: []string{}, New: Cold, Prev: Cold, Skipped: true, SourceSeq: 79, Why: Neutral}},
		`{"at":"2026-11-15T12:00:00.123456789Z","body":{"counted":[],"delta":0,"new":[250000000,150000000,300000000,200000000,100000000],` +
			`"prev":[250000000,150000000,300000000,200000000,100000000],"skipped":true,"source_seq":79,"why":"neutral"},"kind":"learn_weights","path":"","run":"` + runA + `","seq":80,"v":1}`},
}

func TestRecordBytes(t *testing.T) {
	for _, s := range samples {
		got, err := s.record.Bytes()
		if err != nil || string(got) != s.bytes {
			t.Errorf("%s:\n%s\nwant\n%s\n%v", s.record.Kind(), got, s.bytes, err)
		}
		parsed, err := ParseRecord(got)
		if err != nil {
			t.Errorf("%s: %v", s.record.Kind(), err)
			continue
		}
		if again, err := parsed.Bytes(); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s read and written again:\n%s: %v", s.record.Kind(), again, err)
		}
	}
}

func TestStrictRecords(t *testing.T) {
	remember, attest, learn := samples[0].bytes, samples[2].bytes, samples[3].bytes
	for name, c := range map[string]struct {
		bytes string
		want  error
	}{
		"not an object":              {`[]`, journal.ErrMalformed},
		"another version":            {strings.Replace(remember, `"v":1}`, `"v":2}`, 1), journal.ErrVersion},
		"no seq":                     {strings.Replace(remember, `"seq":77,`, ``, 1), journal.ErrFieldMissing},
		"an epoch":                   {strings.Replace(remember, `,"kind":"remember"`, `,"epoch":1,"kind":"remember"`, 1), journal.ErrMalformed},
		"a kind of a run's journal":  {strings.Replace(remember, `"kind":"remember"`, `"kind":"plan.step"`, 1), journal.ErrUnknownKind},
		"an unknown member":          {strings.Replace(remember, `"by":`, `"age":1,"by":`, 1), journal.ErrBody},
		"members out of order":       {strings.Replace(attest, `"outcome":"failure","reason":"timeout"`, `"reason":"timeout","outcome":"failure"`, 1), journal.ErrBody},
		"an empty member":            {strings.Replace(remember, `"verb":"build"`, `"verb":""`, 1), journal.ErrBody},
		"an escape too many":         {strings.Replace(remember, "\u2028", `\u2028`, 1), journal.ErrBody},
		"another item's record":      {strings.Replace(remember, `"seq":77`, `"seq":78`, 1), journal.ErrBody},
		"another time's item":        {strings.Replace(remember, `12:00:00.123`, `12:00:00.124`, 1), journal.ErrBody},
		"a type that is not":         {strings.Replace(remember, `cortex://event/`, `cortex://dream/`, 1), journal.ErrBody},
		"an important event":         {strings.Replace(remember, `"importance":3`, `"importance":4`, 1), journal.ErrBody},
		"too important":              {strings.Replace(remember, `"importance":3,"item":"cortex://event`, `"importance":11,"item":"cortex://fact`, 1), journal.ErrBody},
		"no text":                    {strings.Replace(remember, "read \u2028 \\\"done\\\"", ``, 1), journal.ErrBody},
		"a long event":               {strings.Replace(remember, "read \u2028", strings.Repeat("x", 120), 1), journal.ErrBody},
		"an end of no run":           {strings.Replace(attest, runA, ``, 1), journal.ErrBody},
		"an unknown outcome":         {strings.Replace(attest, `"failure"`, `"maybe"`, 1), journal.ErrBody},
		"cited null":                 {strings.Replace(attest, `["cortex://fact/01M7FH87KV000000000000002D"]`, `null`, 1), journal.ErrBody},
		"cited something else":       {strings.Replace(attest, `"cortex://fact/01M7FH87KV000000000000002D"`, `"x"`, 1), journal.ErrBody},
		"a coarse time":              {strings.Replace(attest, `"began":"2026-11-15T12:00:00.123456789Z"`, `"began":"2026-11-15T12:00:00.12Z"`, 1), journal.ErrBody},
		"learned from another":       {strings.Replace(learn, `"source_seq":79`, `"source_seq":78`, 1), journal.ErrBody},
		"weights that are too heavy": {strings.Replace(learn, `"new":[250000000`, `"new":[250000001`, 1), journal.ErrBody},
		"a negative weight":          {strings.Replace(learn, `"new":[250000000,150000000`, `"new":[-50000000,450000000`, 1), journal.ErrBody},
		"four weights":               {strings.Replace(learn, `"new":[250000000,`, `"new":[`, 1), journal.ErrBody},
	} {
		if c.bytes == remember || c.bytes == attest || c.bytes == learn {
			t.Fatalf("%s changes nothing", name)
		}
		if r, err := ParseRecord([]byte(c.bytes)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v: %+v, want %v", name, err, r, c.want)
		}
	}
}

func TestWhatCannotBeReadIsNotWritten(t *testing.T) {
	for _, r := range []Record{
		{Seq: 1, At: noon, Body: &Remember{By: "b", Item: NewURI("fact", noon, 2).String(), Text: "x"}},
		{Seq: 1, At: noon, Body: &Remember{By: "b", Item: NewURI("fact", noon, 1).String(), Text: strings.Repeat("x", MaxText+1)}},
		{Seq: 1, At: noon, Body: &Remember{By: "b", Item: NewURI("fact", noon, 1).String(), Text: "\xff"}},
		{Seq: 1, At: noon, Body: &Tombstone{Item: "x"}},
		{Seq: 2, At: noon, Body: &LearnWeights{Counted: []string{}, SourceSeq: 1}},
	} {
		if b, err := r.Bytes(); err == nil {
			t.Errorf("%+v was written: %s", r.Body, b)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			return
		}
		if again, err := r.Bytes(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%q was read, and is written as %q: %v", b, again, err)
		}
		if m, ok := r.Item(); ok && (m.Seq != r.Seq || !m.CreatedAt.Equal(r.At)) {
			t.Errorf("%q makes %+v", b, m)
		}
	})
}
