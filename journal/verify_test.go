package journal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/canon"
)

func signRaw(key *PrivateKey, signed []byte) []byte { return ed25519.Sign(key.key, signed) }

func TestWholeRunVerifies(t *testing.T) {
	b, l := wholeRun(t)
	got := verify(b.records, b.options(l))
	if !got.OK() {
		t.Fatal(got.Faults)
	}
	if got.Run != testRun || got.Seq != 13 || got.Head != b.head || got.Envelopes != 7 || got.Terminal != "intent.attest" {
		t.Errorf("unexpected summary: %+v", got)
	}
	if got.User != b.user.Public() || got.Executor != b.executor.Public() || got.Fork != nil {
		t.Errorf("unexpected draft: %+v", got)
	}
}

// Places in the records of wholeRun, from 0.
const (
	atDraft    = 0
	atAccept   = 2
	atStarted  = 4
	atIntended = 5
	atFinished = 6
	atGate     = 8
	atResolve  = 10
	atAttest   = 12
)

// replaceIn changes the first occurrence of old in a record.
func replaceIn(t testing.TB, record []byte, old, with string) []byte {
	t.Helper()
	if !bytes.Contains(record, []byte(old)) {
		t.Fatalf("%q does not occur in %s", old, record)
	}
	return bytes.Replace(record, []byte(old), []byte(with), 1)
}

// TestDamage has one damage for every fault of a record. The fault named is the
// first that the damaged record has; later envelopes notice by prev or head.
func TestDamage(t *testing.T) {
	type run struct {
		b       *book
		records [][]byte
		opts    *Options
	}
	edit := func(at int, old, with string) func(*testing.T, *run) {
		return func(t *testing.T, r *run) { r.records[at] = replaceIn(t, r.records[at], old, with) }
	}
	// resign gives record at another content and a signature that fits it.
	resign := func(at int, key func(*book) *PrivateKey, change func(*Record)) func(*testing.T, *run) {
		return func(t *testing.T, r *run) {
			rec, err := Parse(r.records[at])
			if err != nil {
				t.Fatal(err)
			}
			change(&rec)
			r.records[at] = r.b.sign(key(r.b), rec)
		}
	}
	executor := func(b *book) *PrivateKey { return b.executor }
	user := func(b *book) *PrivateKey { return b.user }
	body := func(old, with string) func(*Record) {
		return func(rec *Record) { rec.Body = replaceIn(t, rec.Body, old, with) }
	}

	for _, tc := range []struct {
		name   string
		at     int // of the record that is blamed first
		first  FaultCode
		others []FaultCode
		damage func(*testing.T, *run)
	}{
		{"not JSON", atIntended, ErrMalformed, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, `{"at"`, `["at"`)},
		{"white space outside the body", atIntended, ErrMalformed, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, `,"seq":6`, `, "seq":6`)},
		{"members out of order", atIntended, ErrMalformed, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, `"seq":6,"v":1`, `"v":1,"seq":6`)},
		{"a member unknown", atIntended, ErrMalformed, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, `,"v":1}`, `,"v":1,"w":1}`)},
		{"an envelope's member on a plain record", atIntended, ErrMalformed, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, `,"v":1}`, `,"sig":"","v":1}`)},
		{"an owner's member on an envelope", atAccept, ErrMalformed, []FaultCode{ErrPrev, ErrHead, ErrTruncated}, edit(atAccept, `,"from"`, `,"epoch":1,"from"`)},
		{"two objects", atIntended, ErrMalformed, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, `,"v":1}`, `,"v":1}{}`)},
		{"another version", atIntended, ErrVersion, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, `"v":1}`, `"v":2}`)},
		{"an envelope of another version", atAccept, ErrVersion, []FaultCode{ErrPrev, ErrHead, ErrTruncated}, edit(atAccept, `"v":1}`, `"v":2}`)},
		{"a member missing", atIntended, ErrFieldMissing, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, `,"path":"root/read"`, ``)},
		{"an envelope's member missing", atAccept, ErrFieldMissing, []FaultCode{ErrPrev, ErrHead, ErrTruncated}, edit(atAccept, `"from":"user",`, ``)},
		{"a kind nobody knows", atIntended, ErrUnknownKind, []FaultCode{ErrHead, ErrTruncated}, func(t *testing.T, r *run) {
			r.opts.Kinds = func(kind string) bool { return kind != "effect.imagined" }
			r.records[atIntended] = replaceIn(t, r.records[atIntended], "effect.intended", "effect.imagined")
		}},
		{"another run", atIntended, ErrOtherRun, []FaultCode{ErrHead, ErrTruncated}, edit(atIntended, testRun, otherRun)},
		{"a deleted record", atFinished, ErrGap, []FaultCode{ErrHead, ErrTruncated}, func(t *testing.T, r *run) {
			r.records = slices.Delete(r.records, atIntended, atIntended+1)
		}},
		{"swapped records", atFinished, ErrGap, []FaultCode{ErrHead, ErrTruncated}, func(t *testing.T, r *run) {
			r.records[atIntended], r.records[atFinished] = r.records[atFinished], r.records[atIntended]
		}},
		{"a record twice", atIntended, ErrGap, []FaultCode{ErrHead, ErrTruncated}, func(t *testing.T, r *run) {
			r.records = slices.Insert(r.records, atIntended, r.records[atIntended])
		}},
		{"the key of a stranger", atResolve, ErrUnknownKey, []FaultCode{ErrPrev, ErrTruncated},
			resign(atResolve, func(b *book) *PrivateKey { return testKey(t, 9) }, func(rec *Record) { rec.Key = "" })},
		{"a draft that publishes a stranger's key", atDraft, ErrUnknownKey, []FaultCode{ErrPrev, ErrHead, ErrTruncated},
			resign(atDraft, func(b *book) *PrivateKey { return testKey(t, 9) }, func(rec *Record) {
				rec.Key = ""
				rec.Body = replaceIn(t, rec.Body, testKey(t, 2).Public().String(), testKey(t, 9).Public().String())
			})},
		{"no signature", atResolve, ErrSignatureMissing, []FaultCode{ErrPrev, ErrTruncated}, func(t *testing.T, r *run) {
			b := r.records[atResolve]
			r.records[atResolve] = slices.Concat(b[:len(b)-tailLen], b[len(b)-len(recordEnd):])
		}},
		{"a short signature", atResolve, ErrSignatureInvalid, []FaultCode{ErrPrev, ErrTruncated}, edit(atResolve, `==","v"`, `","v"`)},
		{"the signature of other bytes", atResolve, ErrSignatureInvalid, []FaultCode{ErrPrev, ErrTruncated}, edit(atResolve, `"approve"`, `"deny"`)},
		{"a signature with spare bits", atResolve, ErrSignatureInvalid, []FaultCode{ErrPrev, ErrTruncated}, func(t *testing.T, r *run) {
			r.records[atResolve] = withSpareBits(t, r.records[atResolve])
		}},
		{"a user's kind signed by the executor alone", atAccept, ErrWrongPrincipal, []FaultCode{ErrPrev, ErrHead, ErrTruncated},
			resign(atAccept, executor, func(rec *Record) { rec.Key, rec.From = "", Executor })},
		{"the executor posing as the user", atAccept, ErrWrongPrincipal, []FaultCode{ErrPrev, ErrHead, ErrTruncated},
			resign(atAccept, executor, func(rec *Record) { rec.Key = "" })},
		{"an executor's kind signed by the user", atGate, ErrWrongPrincipal, []FaultCode{ErrPrev, ErrHead, ErrTruncated},
			resign(atGate, user, func(rec *Record) { rec.Key, rec.From = "", User })},
		{"the user on behalf of another", atResolve, ErrWrongPrincipal, []FaultCode{ErrPrev, ErrHead, ErrTruncated},
			resign(atResolve, user, body(`,"subject_digest"`, `,"on_behalf_of":"token:bob","subject_digest"`))},
		{"a body with an unknown field", atResolve, ErrBody, []FaultCode{ErrPrev, ErrHead, ErrTruncated},
			resign(atResolve, user, body(`"via":"command"`, `"via":"command","wia":1`))},
		{"a body with a missing field", atResolve, ErrBody, []FaultCode{ErrPrev, ErrHead, ErrTruncated},
			resign(atResolve, user, body(`,"via":"command"`, ``))},
		{"another previous envelope", atResolve, ErrPrev, []FaultCode{ErrHead, ErrTruncated},
			resign(atResolve, user, func(rec *Record) { rec.Prev = Hash{}.String() })},
		{"another head", atResolve, ErrHead, []FaultCode{ErrPrev, ErrTruncated},
			resign(atResolve, user, func(rec *Record) { rec.Head = Hash{}.String() })},
		{"an altered value", atGate, ErrHead, []FaultCode{ErrTruncated}, edit(atIntended, `"a.txt"`, `"b.txt"`)},
		{"an altered time", atGate, ErrHead, []FaultCode{ErrTruncated}, edit(atStarted, `2026-11-15`, `2026-11-16`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, l := wholeRun(t)
			r := &run{b, clone(b.records), b.options(l)}
			tc.damage(t, r)
			res := verify(r.records, r.opts)
			if len(res.Faults) == 0 {
				t.Fatal("the damage was not found")
			}
			first := res.Faults[0]
			if first.Code != tc.first || first.Seq != int64(tc.at+1) {
				t.Errorf("first fault is %v, want %s at %d", first, tc.first, tc.at+1)
			}
			for _, f := range res.Faults[1:] {
				if f.Code != tc.first && !slices.Contains(tc.others, f.Code) {
					t.Errorf("unexpected consequence: %v", f)
				}
			}
		})
	}
}

// What was changed lies between two envelopes that are whole, and is looked for there.
func TestFaultsSayWhereToLook(t *testing.T) {
	for _, c := range []struct {
		name, want string
		damage     func(b *book)
	}{
		{"one record between two envelopes", "record 10 was changed since it was signed", func(b *book) {
			b.records[atResolve-1] = replaceIn(t, b.records[atResolve-1], `"wall_ms":12`, `"wall_ms":13`)
		}},
		{"one of several", "a record between 4 and 9 was changed, removed or added since they were signed", func(b *book) {
			b.records[atIntended] = replaceIn(t, b.records[atIntended], "a.txt", "b.txt")
		}},
		{"none", "it was signed over other records", func(b *book) {
			r, err := Parse(b.records[atAccept])
			if err != nil {
				t.Fatal(err)
			}
			r.Head = Sum(nil).String()
			b.records[atAccept] = b.sign(b.user, r)
		}},
		{"the key of a stranger", "is not among the keys that intent.draft publishes", func(b *book) {
			r, err := Parse(b.records[atAccept])
			if err != nil {
				t.Fatal(err)
			}
			r.Key = ""
			b.records[atAccept] = b.sign(testKey(t, 9), r)
		}},
	} {
		b, l := wholeRun(t)
		opts := b.options(l)
		c.damage(b)
		if res := verify(b.records, opts); res.OK() || !strings.Contains(res.Faults[0].Message, c.want) {
			t.Errorf("%s: %v, want %s", c.name, res.Faults, c.want)
		}
	}
}

// Only an envelope that is signed tells what the chain before it was.
func TestForgedEnvelopeSettlesNothing(t *testing.T) {
	b, l := wholeRun(t)
	opts := b.options(l)
	b.records[atAttest-1] = replaceIn(t, b.records[atAttest-1], `"seq":11}`, `"seq":12}`)
	b.records[atAttest] = replaceIn(t, b.records[atAttest], `"success"`, `"failure"`)
	var head Hash
	for _, r := range b.records {
		head = head.Next(r)
	}
	res := verify(b.records, opts)
	wantCodes(t, res.Faults, ErrSignatureInvalid, ErrTruncated)
	if res.Head != head {
		t.Errorf("the chain ends with %s, its bytes with %s", res.Head, head)
	}
}

// withSpareBits spells the same signature with other base64 characters: the last
// one before the padding carries four bits that mean nothing.
func withSpareBits(t *testing.T, envelope []byte) []byte {
	t.Helper()
	out := bytes.Clone(envelope)
	at := len(out) - len(recordEnd) - len(`=="`) - 1
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	out[at] = alphabet[strings.IndexByte(alphabet, out[at])+1]
	sig := func(b []byte) []byte {
		raw, err := base64.StdEncoding.DecodeString(string(b[len(b)-len(recordEnd)-1-sigLen : len(b)-len(recordEnd)-1]))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if !bytes.Equal(sig(out), sig(envelope)) {
		t.Fatal("the signature itself was changed")
	}
	return out
}

func TestEndFaults(t *testing.T) {
	lifecycle := func(state string, e Record) string {
		if e.Kind == "intent.attest" {
			return "completed"
		}
		return "executing"
	}
	for _, tc := range []struct {
		name   string
		want   []FaultCode
		damage func(b *book, l *library, opts *Options)
	}{
		{"cut before the end", []FaultCode{ErrUnterminated, ErrTruncated}, func(b *book, _ *library, _ *Options) {
			b.records = b.records[:atAttest]
		}},
		{"cut, but open", []FaultCode{ErrTruncated}, func(b *book, _ *library, opts *Options) {
			b.records, opts.Open = b.records[:atAttest], true
		}},
		{"cut, and nobody remembers the head", nil, func(b *book, _ *library, opts *Options) {
			b.records, opts.Open, opts.Heads = b.records[:atAttest], true, nil
		}},
		{"empty", []FaultCode{ErrUnterminated, ErrTruncated}, func(b *book, _ *library, _ *Options) {
			b.records = nil
		}},
		{"a record after the end", []FaultCode{ErrTailUncovered, ErrTruncated}, func(b *book, _ *library, _ *Options) {
			b.plain("run.started", "", `{}`)
		}},
		{"a record after the end, head and all", []FaultCode{ErrTailUncovered}, func(b *book, l *library, opts *Options) {
			b.plain("run.started", "", `{}`)
			opts.Heads = b.options(l).Heads
		}},
		{"cut short and signed again with the real keys, against an anchor", []FaultCode{ErrTruncated}, func(b *book, l *library, _ *Options) {
			*b = *newBook(b.t, b.run)
			b.begin(l, "")
			b.end(l)
		}},
		{"as anchored", nil, func(b *book, l *library, opts *Options) {
			opts.Anchors = func(string) Anchors {
				return Anchors{1: {Hash{}.Next(b.records[0])}, int64(len(b.records)): {opts.Heads[0].Hash}}
			}
		}},
		{"another hash than the anchor's", []FaultCode{ErrTruncated}, func(_ *book, _ *library, opts *Options) {
			opts.Anchors = func(string) Anchors { return Anchors{2: {Sum(nil)}} }
		}},
		{"anchored twice at one record", []FaultCode{ErrTruncated}, func(b *book, _ *library, opts *Options) {
			opts.Anchors = func(string) Anchors { return Anchors{1: {Hash{}.Next(b.records[0]), Sum(nil)}} }
		}},
		{"an open end before the anchor", []FaultCode{ErrTruncated}, func(b *book, _ *library, opts *Options) {
			b.records, opts.Open, opts.Heads = b.records[:atAttest], true, nil
			opts.Anchors = func(string) Anchors { return Anchors{atAttest + 1: {Sum(nil)}} }
		}},
		{"an end before the anchor", []FaultCode{ErrTruncated}, func(b *book, _ *library, opts *Options) {
			opts.Anchors = func(string) Anchors { return Anchors{int64(len(b.records)) + 1: {Sum(nil)}} }
		}},
		{"nothing of what is anchored", []FaultCode{ErrTruncated}, func(b *book, _ *library, opts *Options) {
			b.records, opts.Open, opts.Heads = nil, true, nil
			opts.Anchors = func(string) Anchors { return Anchors{1: {Sum(nil)}} }
		}},
		{"another state", []FaultCode{ErrStateMismatch}, func(_ *book, _ *library, opts *Options) {
			opts.State, opts.Lifecycle = "failed", lifecycle
		}},
		{"the same state", nil, func(_ *book, _ *library, opts *Options) {
			opts.State, opts.Lifecycle = "completed", lifecycle
		}},
		{"a state that nobody folds", nil, func(_ *book, _ *library, opts *Options) {
			opts.State = "failed"
		}},
		{"a state that nobody remembers", nil, func(_ *book, _ *library, opts *Options) {
			opts.Lifecycle = lifecycle
		}},
		{"a payload is gone", []FaultCode{ErrBlobMissing}, func(_ *book, l *library, _ *Options) {
			delete(l.blobs, largest(l))
		}},
		{"a payload was altered", []FaultCode{ErrBlobMismatch}, func(_ *book, l *library, _ *Options) {
			l.blobs[largest(l)][7]++
		}},
		{"the program is gone", []FaultCode{ErrBlobMissing}, func(_ *book, l *library, _ *Options) {
			delete(l.blobs, Sum([]byte(`{"kind":"plan","root":{"id":"read","kind":"tool_call"},"version":1}`)))
		}},
		{"a frozen document was altered", []FaultCode{ErrBlobMismatch}, func(_ *book, l *library, _ *Options) {
			l.blobs[Sum([]byte(`{"tools":[]}`))] = []byte(`{"tools":[1]}`)
		}},
		{"the outputs are gone", []FaultCode{ErrBlobMissing}, func(_ *book, l *library, _ *Options) {
			delete(l.blobs, Sum([]byte(`{}`)))
		}},
		{"the store itself says a blob differs", []FaultCode{ErrBlobMismatch}, func(_ *book, l *library, opts *Options) {
			opts.Blob = func(h Hash) ([]byte, error) {
				if h == largest(l) {
					return nil, fmt.Errorf("reading: %w", ErrBlobMismatch)
				}
				return l.blob(h)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, l := wholeRun(t)
			opts := b.options(l)
			tc.damage(b, l, opts)
			wantCodes(t, verify(b.records, opts).Faults, tc.want...)
		})
	}
}

// largest is the digest of the one detached payload of wholeRun.
func largest(l *library) (largest Hash) {
	for h, b := range l.blobs {
		if len(b) > len(l.blobs[largest]) {
			largest = h
		}
	}
	return largest
}

// A reference's size is signed over too, so it must tell the truth.
func TestReferenceWithAnotherSize(t *testing.T) {
	b, l := newBook(t, testRun), newLibrary()
	b.begin(l, "")
	payload := []byte(`{"$blob":1}`)
	digest, _ := l.put(payload)
	b.plain("effect.finished", "root/read", `{"value":`+string(reference{digest, int64(len(payload)) + 1}.append(nil))+`}`)
	b.end(l)
	wantCodes(t, verify(b.records, b.options(l)).Faults, ErrBlobMismatch)
}

func TestStoredHashes(t *testing.T) {
	b, l := wholeRun(t)
	hashes := make([]Hash, len(b.records))
	var h Hash
	for i, r := range b.records {
		h = h.Next(r)
		hashes[i] = h
	}
	stored := func(records [][]byte) Result {
		v := NewVerifier(b.options(l))
		for i, r := range records {
			v.Add(r, &hashes[i])
		}
		return v.Close()
	}
	if res := stored(b.records); !res.OK() {
		t.Fatal(res.Faults)
	}
	altered := clone(b.records)
	altered[atIntended] = replaceIn(t, altered[atIntended], `"a.txt"`, `"b.txt"`)
	res := stored(altered)
	if res.Total != 1 || res.Faults[0].Code != ErrHash || res.Faults[0].Seq != atIntended+1 {
		t.Errorf("one altered record gives %v, want one hash fault at it", res.Faults)
	}
	// Whoever also mends the hashes meets the next signature.
	h = Hash{}
	for i, r := range altered {
		h = h.Next(r)
		hashes[i] = h
	}
	wantCodes(t, stored(altered).Faults, ErrHead, ErrTruncated)
}

// A whole journal, made anew by someone without the keys, from the same program.
func TestForgedWithOtherKeys(t *testing.T) {
	b, l := wholeRun(t)
	opts := b.options(l)
	forged := newBook(t, testRun)
	forged.user, forged.executor = testKey(t, 7), testKey(t, 8)
	forged.begin(l, "")
	forged.work(l)
	forged.end(l)
	opts.Heads = forged.options(l).Heads
	res := verify(forged.records, opts)
	wantCodes(t, res.Faults, ErrUnknownKey)
	if res.Total != res.Envelopes {
		t.Errorf("%d faults for %d envelopes", res.Total, res.Envelopes)
	}
}

// No key of the journal's own choosing is trusted.
func TestNothingTrusted(t *testing.T) {
	b, _ := wholeRun(t)
	wantCodes(t, verify(b.records, nil).Faults, ErrUnknownKey)
}

// A later draft must not be able to bring in other keys.
func TestSecondDraftPublishesNothing(t *testing.T) {
	b, l := newBook(t, testRun), newLibrary()
	b.begin(l, "")
	stranger := testKey(t, 9)
	rec := b.envelope("intent.draft", Executor, strings.ReplaceAll(b.draftBody(l, ""), b.executor.Public().String(), stranger.Public().String()))
	canonical, err := canon.Form(rec.Body)
	if err != nil {
		t.Fatal(err)
	}
	rec.Body = canonical
	b.storeEnvelope(b.sign(stranger, rec))
	opts := b.options(l)
	opts.Open, opts.Trusted = true, append(opts.Trusted, stranger.Public())
	wantCodes(t, verify(b.records, opts).Faults, ErrUnknownKey)
}

func TestOnBehalfOf(t *testing.T) {
	b, l := newBook(t, testRun), newLibrary()
	b.begin(l, "")
	b.seal("intent.cancel", Executor, `{"reason":"stop","via":"http","cited":[],"evidence":{},"on_behalf_of":"token:alice"}`)
	if res := verify(b.records, b.options(l)); !res.OK() || res.Terminal != "intent.cancel" {
		t.Errorf("an executor's envelope on behalf of a token: %v", res.Faults)
	}
}

func TestFaultsAreCappedAndCounted(t *testing.T) {
	v := NewVerifier(&Options{Open: true})
	for range 120 {
		v.Add([]byte("{"), nil)
	}
	if res := v.Close(); len(res.Faults) != MaxFaults || res.Total != 120 {
		t.Errorf("%d listed of %d, want %d of 120", len(res.Faults), res.Total, MaxFaults)
	}
}

func TestFaultIsItsCode(t *testing.T) {
	f := Fault{Seq: 3, Code: ErrGap, File: "records.ndjson", Message: "record 3 stands where 2 is due"}
	if !errors.Is(f, ErrGap) || errors.Is(f, ErrHead) {
		t.Error("a fault must be its code and no other")
	}
	if want := "gap records.ndjson seq 3: record 3 stands where 2 is due"; f.Error() != want {
		t.Errorf("got %q, want %q", f, want)
	}
}

// FuzzVerify changes a journal anywhere; whatever comes of it must not pass.
func FuzzVerify(f *testing.F) {
	b, l := wholeRun(f)
	whole := bytes.Join(b.records, []byte("\n"))
	f.Add(uint(3), uint(0), []byte("x"))
	f.Add(uint(700), uint(1), []byte(""))
	f.Add(uint(len(whole)-20), uint(20), []byte("A"))
	f.Add(uint(0), uint(len(b.records[0])+1), []byte(""))
	f.Add(uint(len(whole)), uint(0), []byte("\n"+string(b.records[4])))
	f.Fuzz(func(t *testing.T, at, cut uint, put []byte) {
		at %= uint(len(whole) + 1)
		cut %= uint(len(whole)) - at + 1
		changed := slices.Concat(whole[:at], put, whole[at+cut:])
		if bytes.Equal(changed, whole) {
			return
		}
		if res := verify(bytes.Split(changed, []byte("\n")), b.options(l)); res.OK() {
			t.Fatalf("accepted, although %d bytes at %d became %q", cut, at, put)
		}
	})
}

// Every single changed byte is found, the head being remembered or not: the last
// record is an envelope, so everything is under a signature.
func TestEveryByteCounts(t *testing.T) {
	b, l := newBook(t, testRun), newLibrary()
	b.begin(l, "")
	b.end(l)
	opts := b.options(l)
	opts.Heads, opts.Blob = nil, nil
	for i := range b.records {
		step := 1
		if isEnvelopeRecord(t, b.records[i]) {
			step = 7 // verifying signatures is slow
		}
		for at := 0; at < len(b.records[i]); at += step {
			records := slices.Clone(b.records)
			records[i] = bytes.Clone(records[i])
			records[i][at] ^= 1
			if verify(records, opts).OK() {
				t.Fatalf("record %d byte %d was changed and not found", i+1, at)
			}
		}
	}
}

func isEnvelopeRecord(t *testing.T, b []byte) bool {
	t.Helper()
	r, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return IsEnvelope(r.Kind)
}
