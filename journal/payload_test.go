package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// text is a JSON string of exactly n bytes, quotes included.
func text(n int) string { return `"` + strings.Repeat("a", n-2) + `"` }

func TestDetachWhatAndWhen(t *testing.T) {
	big := text(MaxInline + 1)
	for _, tc := range []struct {
		name, kind string
		note       bool
		body       string
		want       []string // what is taken out, in order
	}{
		{"64 KiB stay", "effect.finished", false, `{"value":` + text(MaxInline) + `}`, nil},
		{"one byte more goes", "effect.finished", false, `{"value":` + big + `}`, []string{big}},
		{"input and value", "effect.finished", false, `{"input":` + big + `,"attempt":1,"value":` + big + `}`, []string{big, big}},
		{"state", "run.continued", false, `{"state":` + big + `}`, []string{big}},
		{"the detail of an error", "effect.failed", false, `{"error":{"code":"x","detail":` + big + `}}`, []string{big}},
		{"not its message", "effect.failed", false, `{"error":{"code":"x","message":` + big + `}}`, nil},
		{"not another member", "effect.finished", false, `{"other":` + big + `}`, nil},
		{"not a member further down", "effect.finished", false, `{"a":{"value":` + big + `}}`, nil},
		{"a note, whole", "worker.event", true, `{"line":` + big + `}`, []string{`{"line":` + big + `}`}},
		{"a note that is no object", "worker.event", true, big, []string{big}},
		{"the inputs of an envelope", "intent.draft", false, `{"inputs":` + big + `,"prose":` + big + `}`, []string{big, big}},
		{"subject and answer", "policy.gate.resolve", false, `{"subject":` + big + `,"answer":` + big + `}`, []string{big, big}},
		{"not the value of an envelope", "policy.gate", false, `{"value":` + big + `}`, nil},
		{"not the inputs of a plain record", "plan.step", false, `{"inputs":` + big + `}`, nil},
		{"a small object with $blob", "effect.finished", false, `{"value":{"$blob":1}}`, []string{`{"$blob":1}`}},
		{"whose name is escaped", "effect.finished", false, `{"value":{"\u0024bl\u006fb":1}}`, []string{`{"\u0024bl\u006fb":1}`}},
		{"under an escaped name", "effect.finished", false, `{"v\u0061lue":{"$blob":1}}`, []string{`{"$blob":1}`}},
		{"not a string that says $blob", "effect.finished", false, `{"value":"$blob"}`, nil},
		{"not one further down", "effect.finished", false, `{"value":[{"$blob":1}]}`, nil},
		{"a note with $blob", "worker.event", true, ` {"$blob":1} `, []string{`{"$blob":1}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLibrary()
			var taken []string
			put := func(b []byte) (Hash, error) {
				taken = append(taken, string(b))
				return l.put(b)
			}
			out, err := Detach(tc.kind, tc.note, []byte(tc.body), put)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(taken, tc.want) {
				t.Fatalf("%d payloads were taken out, want %d", len(taken), len(tc.want))
			}
			digests, err := Digests(tc.kind, tc.note, out)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range tc.want {
				if digests[i] != Sum([]byte(w)) {
					t.Errorf("digest %d is %s", i, digests[i])
				}
			}
			if len(tc.want) == 0 && string(out) != tc.body {
				t.Error("nothing was taken out, and yet the body changed")
			}
			back, err := Attach(tc.kind, tc.note, out, l.blob)
			if err != nil || string(back) != tc.body {
				t.Errorf("put back it differs: %v", err)
			}
		})
	}
}

func TestReferenceSpelling(t *testing.T) {
	l := newLibrary()
	out, err := Detach("effect.finished", false, []byte(`{"attempt":1,"value":{"$blob":7},"ms":2}`), l.put)
	want := fmt.Sprintf(`{"attempt":1,"value":{"$blob":"%s","size":11},"ms":2}`, Sum([]byte(`{"$blob":7}`)))
	if err != nil || string(out) != want {
		t.Errorf("got  %s, %v\nwant %s", out, err, want)
	}
}

// Canonical form must not turn somebody's input into a reference.
func TestForgedReferenceInEnvelope(t *testing.T) {
	b, l := newBook(t, testRun), newLibrary()
	secret := l.document(`"somebody else's"`)
	forged := fmt.Sprintf(`{"size":17,"\u0024blob":%q}`, secret)
	body, err := Detach("intent.draft", false, []byte(strings.Replace(b.draftBody(l, ""), `{"file":"a.txt"}`, forged, 1)), l.put)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := b.executor.Seal(b.envelope("intent.draft", Executor, string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(sealed)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Attach(r.Kind, r.Note, r.Body, l.blob)
	if err != nil || !bytes.Contains(back, []byte(forged)) {
		t.Errorf("the input came back as something else: %s, %v", back, err)
	}
}

func TestTooLarge(t *testing.T) {
	l := newLibrary()
	if _, err := Detach("effect.finished", false, []byte(`{"value":`+text(MaxPayload)+`}`), l.put); err != nil {
		t.Errorf("16 MiB: %v", err)
	}
	if _, err := Detach("effect.finished", false, []byte(`{"value":`+text(MaxPayload+1)+`}`), l.put); !errors.Is(err, ErrTooLarge) {
		t.Errorf("16 MiB and one byte: %v, want %s", err, ErrTooLarge)
	}
	if ErrTooLarge.Error() != "result_too_large" {
		t.Errorf("it prints as %q", ErrTooLarge)
	}
}

func TestDetachPassesErrorsOn(t *testing.T) {
	full := errors.New("disk full")
	_, err := Detach("effect.finished", false, []byte(`{"value":{"$blob":1}}`), func([]byte) (Hash, error) { return Hash{}, full })
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if _, err := Detach("effect.finished", false, []byte(`{"value":{"$blob":1}`), nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("what is no JSON gives %v", err)
	}
}

func TestAttachChecksBlobs(t *testing.T) {
	l := newLibrary()
	body, err := Detach("effect.finished", false, []byte(`{"value":{"$blob":1}}`), l.put)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Attach("effect.finished", false, body, func(Hash) ([]byte, error) { return []byte(`{"$blob":2}`), nil }); !errors.Is(err, ErrBlobMismatch) {
		t.Errorf("other bytes: %v", err)
	}
	if _, err := Attach("effect.finished", false, body, newLibrary().blob); !errors.Is(err, ErrBlobMissing) {
		t.Errorf("no bytes: %v", err)
	}
	differs := func(Hash) ([]byte, error) { return nil, fmt.Errorf("reading: %w", ErrBlobMismatch) }
	if _, err := Attach("effect.finished", false, body, differs); !errors.Is(err, ErrBlobMismatch) || errors.Is(err, ErrBlobMissing) {
		t.Errorf("bytes that the store itself says are others: %v", err)
	}
}

func TestDigestsOfEnvelopes(t *testing.T) {
	d := func(s string) string { return Sum([]byte(s)).String() }
	body := fmt.Sprintf(`{"program_digest":%q,"skill_digest":%q,"inputs":{"$blob":%q,"size":3},"frozen":{"policy":%q,"manifest":%q},"intent_hash":%q}`,
		d("program"), d("skill"), d("inputs"), d("policy"), d("manifest"), d("intent"))
	got, err := Digests("intent.draft", false, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range []string{"inputs", "program", "skill", "policy", "manifest", "intent"} {
		if slices.Contains(got, Sum([]byte(name))) {
			names = append(names, name)
		}
	}
	if want := []string{"inputs", "program", "skill", "policy", "manifest"}; !slices.Equal(names, want) || len(got) != len(want) {
		t.Errorf("%v of %d, want %v", names, len(got), want)
	}
	if _, err := Digests("intent.draft", false, []byte(`{"program_digest":"sha256:ab"}`)); !errors.Is(err, ErrBody) {
		t.Errorf("a digest that is none: %v", err)
	}
	if got, err := Digests("plan.step", false, []byte(fmt.Sprintf(`{"program_digest":%q}`, d("x")))); err != nil || got != nil {
		t.Errorf("a plain record names no program: %v, %v", got, err)
	}
}

// The common case must cost nothing: nearly every record takes it.
func TestDetachSmallDoesNotAllocate(t *testing.T) {
	r := plainRecord(1)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Detach(r.Kind, false, r.Body, nil); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDetachAttach: what is taken out comes back, byte for byte, and nothing that
// looks like a reference is left for a reader to mistake.
func FuzzDetachAttach(f *testing.F) {
	for _, s := range []string{`{"value":{"$blob":"x"}}`, `{"error":{"detail":{"\u0024blob":1}},"input":{"$blob":2}}`, `{"inputs":{"$blob":{}},"subject":1}`,
		`[{"$blob":1}]`, ` { "state" : { "$blob" : 1 } } `, `{"value":{"$blob":1},"value":{"$blob":2}}`} {
		f.Add("effect.finished", false, []byte(s))
		f.Add("intent.draft", false, []byte(s))
		f.Add("worker.event", true, []byte(s))
	}
	f.Fuzz(func(t *testing.T, kind string, note bool, body []byte) {
		if !json.Valid(body) {
			return
		}
		l := newLibrary()
		out, err := Detach(kind, note, body, l.put)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q became %q", body, out)
		}
		back, err := Attach(kind, note, out, l.blob)
		if err != nil || !bytes.Equal(back, body) {
			t.Fatalf("%q came back as %q: %v", body, back, err)
		}
		refs, err := references(kind, note, out)
		if err == nil && !IsEnvelope(kind) && len(refs) < len(l.blobs) {
			t.Fatalf("%d blobs, %d references", len(l.blobs), len(refs))
		}
	})
}

// A correction names the documents of a program that may never be in force, a state
// that goes on the results it rests on, and a result the media that came with it: an
// export must have them.
func TestDigestsOfPlainRecordsThatNameDocuments(t *testing.T) {
	d := func(s string) Hash { return Sum([]byte(s)) }
	for _, c := range []struct {
		kind, body string
		want       []Hash
	}{
		{"run.correction_requested", fmt.Sprintf(`{"program_digest":%q,"frozen":{"tools":%q},"reason":"r"}`, d("p"), d("t")), []Hash{d("p"), d("t")}},
		{"run.continued", fmt.Sprintf(`{"state":{"$blob":%q,"size":9},"keep":[%q,%q]}`, d("s"), d("a"), d("b")), []Hash{d("s"), d("a"), d("b")}},
		{"run.continued", `{"state":{},"used":{}}`, nil},
		{"effect.finished", fmt.Sprintf(`{"value":{"$blob":%q,"size":9},"keep":[%q,%q],"program_digest":%q}`, d("s"), d("a"), d("b"), d("p")), []Hash{d("s"), d("a"), d("b")}},
		{"effect.finished", fmt.Sprintf(`{"value":1,"k\u0065ep":[%q]}`, d("a")), []Hash{d("a")}},
		{"effect.failed", fmt.Sprintf(`{"keep":[%q]}`, d("a")), []Hash{d("a")}},
		{"effect.lost", fmt.Sprintf(`{"keep":[%q]}`, d("a")), []Hash{d("a")}},
		{"effect.given", fmt.Sprintf(`{"keep":[%q]}`, d("a")), []Hash{d("a")}},
		{"effect.suspended", fmt.Sprintf(`{"keep":[%q]}`, d("a")), nil},
		{"run.correction_requested", ``, nil},
		{"run.parked", fmt.Sprintf(`{"keep":[%q]}`, d("a")), nil},
	} {
		got, err := Digests(c.kind, false, []byte(c.body))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %v, %v", c.kind, c.body, got, err)
		}
	}
	if _, err := Digests("run.continued", false, []byte(`{"keep":["sha256:ab"]}`)); !errors.Is(err, ErrBody) {
		t.Errorf("a digest that is none: %v", err)
	}
}
