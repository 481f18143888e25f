package journal

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"
)

// book writes a journal as a store would.
type book struct {
	t              testing.TB
	user, executor *PrivateKey
	run            string
	records        [][]byte
	head, prev     Hash
	ids            int
}

// library holds runs and the blobs they share.
type library struct {
	books map[string]*book
	blobs map[Hash][]byte
}

const (
	testRun  = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"
	otherRun = "01JCQ8R4T5V6W7X8Y9Z0A1B2C4"
	forkRun  = "01JCQ8R4T5V6W7X8Y9Z0A1B2C5"
)

var testStart = time.Date(2026, 11, 15, 2, 30, 0, 123456789, time.UTC)

func testKey(t testing.TB, fill byte) *PrivateKey {
	t.Helper()
	key, err := NewPrivateKey(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newBook(t testing.TB, run string) *book {
	return &book{t: t, run: run, user: testKey(t, 1), executor: testKey(t, 2)}
}

func newLibrary() *library {
	return &library{books: map[string]*book{}, blobs: map[Hash][]byte{}}
}

func (l *library) put(b []byte) (Hash, error) {
	l.blobs[Sum(b)] = bytes.Clone(b)
	return Sum(b), nil
}

func (l *library) document(text string) string {
	h, _ := l.put([]byte(text))
	return h.String()
}

func (l *library) blob(h Hash) ([]byte, error) {
	if b, ok := l.blobs[h]; ok {
		return b, nil
	}
	return nil, errors.New("not in the library")
}

func (l *library) source(run string) Source {
	return Source{Run: run, Blob: l.blob, Records: func(run string, upTo int64) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			b, ok := l.books[run]
			if !ok {
				yield(nil, fmt.Errorf("no run %s", run))
				return
			}
			for i, r := range b.records {
				if upTo > 0 && int64(i) >= upTo || !yield(r, nil) {
					return
				}
			}
		}
	}}
}

func (b *book) seq() int64 { return int64(len(b.records)) + 1 }

func (b *book) at() time.Time { return testStart.Add(time.Duration(b.seq()) * time.Millisecond) }

func (b *book) store(record []byte) {
	b.records = append(b.records, record)
	b.head = b.head.Next(record)
}

func (b *book) plain(kind, path, body string) {
	r := Record{At: b.at(), Body: []byte(body), Epoch: 1, Kind: kind, Path: path, Run: b.run, Seq: b.seq()}
	b.store(r.AppendTo(nil))
}

func (b *book) note(kind, path, body string) {
	r := Record{At: b.at(), Body: []byte(body), Epoch: 1, Kind: kind, Note: true, Path: path, Run: b.run, Seq: b.seq()}
	b.store(r.AppendTo(nil))
}

// envelope is what seal will sign, for tests that want it otherwise.
func (b *book) envelope(kind, from, body string) Record {
	b.ids++
	return Record{At: b.at(), Body: []byte(body), From: from, ID: fmt.Sprintf("01JCQ8R4T5V6W7X8Y9Z0A1C%03d", b.ids), Kind: kind,
		Prev: b.prev.String(), Head: b.head.String(), Run: b.run, Seq: b.seq()}
}

func (b *book) seal(kind, from, body string) {
	b.t.Helper()
	key := b.executor
	if from == User {
		key = b.user
	}
	sealed, err := key.Seal(b.envelope(kind, from, body))
	if err != nil {
		b.t.Fatal(err)
	}
	b.storeEnvelope(sealed)
}

func (b *book) storeEnvelope(sealed []byte) {
	b.store(sealed)
	b.prev = Sum(sealed)
}

// sign makes an envelope of anything, unlike Seal, which refuses.
func (b *book) sign(key *PrivateKey, r Record) []byte {
	if r.Key == "" {
		r.Key = key.Public().ID().String()
	}
	signed := r.appendUnsigned(nil)
	return appendSignature(signed, signRaw(key, signed))
}

func (b *book) trusted() []PublicKey {
	return []PublicKey{b.user.Public(), b.executor.Public()}
}

func (b *book) options(l *library) *Options {
	return &Options{Run: b.run, Trusted: b.trusted(), Blob: l.blob,
		Heads: []Head{{Seq: int64(len(b.records)), Hash: b.head, Of: "the book"}}}
}

func (b *book) draftBody(l *library, extra string) string {
	program := l.document(`{"kind":"plan","root":{"id":"read","kind":"tool_call"},"version":1}`)
	return fmt.Sprintf(`{"program_kind":"plan","program_digest":%q,"inputs":{"file":"a.txt"},"bounds":{"tool_calls":20},
		"user":"local","origin":"cli","keys":{"user":%q,"executor":%q},"frozen":{"manifest":%q}%s}`,
		program, b.user.Public(), b.executor.Public(), l.document(`{"tools":[]}`), extra)
}

// begin writes what starting a given program writes.
func (b *book) begin(l *library, extra string) {
	b.t.Helper()
	l.books[b.run] = b
	program := l.document(`{"kind":"plan","root":{"id":"read","kind":"tool_call"},"version":1}`)
	intent := Sum([]byte("{}")).String()
	b.seal("intent.draft", Executor, b.draftBody(l, extra))
	b.seal("intent.compiled", Executor, fmt.Sprintf(`{"intent_hash":%q,"program_digest":%q,"attempts":0}`, intent, program))
	b.seal("intent.accept", User, fmt.Sprintf(`{"intent_hash":%q,"program_digest":%q,"revision":1,"bounds":{},"via":"command"}`, intent, program))
	b.seal("plan.proposed", Executor, fmt.Sprintf(`{"intent_hash":%q,"program_digest":%q,"revision":1,"accepted_by":"01JCQ8R4T5V6W7X8Y9Z0A1C003"}`, intent, program))
	b.plain("run.started", "", `{"epoch":1,"kind":"foreground","pid":4711}`)
}

// work writes a read with a large result, a gate and its decision.
func (b *book) work(l *library) {
	b.t.Helper()
	digest := Sum([]byte("x")).String()
	b.plain("effect.intended", "root/read", fmt.Sprintf(`{"name":"tool.call","class":"read","attempt":1,"digest":%q,"input":{"path":"a.txt"}}`, digest))
	large := fmt.Sprintf(`{"name":"tool.call","attempt":1,"digest":%q,"value":{"text":"%s"},"ms":3}`, digest, strings.Repeat("long ", 20000))
	body, err := Detach("effect.finished", false, []byte(large), l.put)
	if err != nil {
		b.t.Fatal(err)
	}
	b.plain("effect.finished", "root/read", string(body))
	b.note("worker.event", "root/read", `{"line":"tick"}`)
	b.seal("policy.gate", Executor, fmt.Sprintf(`{"gate":"01JCQ8R4T5V6W7X8Y9Z0A1B2G1","gate_kind":"question","question":"Go on?","subject":{},"actions":["approve","deny"],"deny":"deny","digest":%q}`, digest))
	b.plain("run.parked", "", `{"gates":["01JCQ8R4T5V6W7X8Y9Z0A1B2G1"],"wall_ms":12}`)
	b.seal("policy.gate.resolve", User, fmt.Sprintf(`{"gate":"01JCQ8R4T5V6W7X8Y9Z0A1B2G1","action":"approve","subject_digest":%q,"via":"command"}`, digest))
	b.plain("gate.taken", "root/ok", `{"gate":"01JCQ8R4T5V6W7X8Y9Z0A1B2G1","seq":11}`)
}

func (b *book) end(l *library) {
	b.t.Helper()
	b.seal("intent.attest", Executor, fmt.Sprintf(`{"outcome":"success","outputs_digest":%q,"cited":[],"evidence":{}}`, l.document(`{}`)))
}

// wholeRun is a run from draft to attestation: 13 records, 7 of them envelopes.
func wholeRun(t testing.TB) (*book, *library) {
	b, l := newBook(t, testRun), newLibrary()
	b.begin(l, "")
	b.work(l)
	b.end(l)
	return b, l
}

// forkOf continues base after record at.
func forkOf(l *library, base *book, at int64, run string) *book {
	b := newBook(base.t, run)
	var hash Hash
	for _, r := range base.records[:at] {
		hash = hash.Next(r)
	}
	b.begin(l, fmt.Sprintf(`,"fork_of":{"run":%q,"seq":%d,"hash":%q}`, base.run, at, hash))
	b.plain("run.forked", "", fmt.Sprintf(`{"from_run":%q,"seq":%d}`, base.run, at))
	b.end(l)
	return b
}

// verify checks records with opts and returns the result.
func verify(records [][]byte, opts *Options) Result {
	v := NewVerifier(opts)
	for _, r := range records {
		v.Add(r, nil)
	}
	return v.Close()
}

// codes are the distinct fault codes of a result, sorted.
func codes(faults []Fault) []string {
	var out []string
	for _, f := range faults {
		out = append(out, string(f.Code))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func wantCodes(t *testing.T, faults []Fault, want ...FaultCode) {
	t.Helper()
	var names []string
	for _, c := range want {
		names = append(names, string(c))
	}
	slices.Sort(names)
	if got := codes(faults); !slices.Equal(got, names) {
		t.Errorf("faults are %v, want %v:\n%v", got, names, faults)
	}
}

func clone(records [][]byte) [][]byte {
	out := make([][]byte, len(records))
	for i, r := range records {
		out[i] = bytes.Clone(r)
	}
	return out
}
