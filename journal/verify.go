package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Options say what a journal is verified against. The zero value knows no key,
// so that every envelope is a fault.
type Options struct {
	// Run is the run that every record must belong to; "": that of the first one.
	Run string
	// Trusted are the keys that may sign. They come from the verifying side; those
	// that the journal publishes must be among them.
	Trusted []PublicKey
	// Kinds reports whether a kind is known; nil: every kind is. The envelope kinds
	// always are.
	Kinds func(kind string) bool
	// Open: a run without a terminal envelope is no fault.
	Open bool
	// Heads are where the journal must end, as others remember it.
	Heads []Head
	// Anchors gives what an anchor file says of a run; nil: nothing is compared.
	Anchors func(run string) Anchors
	// State, if not "", is what Lifecycle must arrive at.
	State string
	// Lifecycle folds an envelope into a state, from "". nil: State is not compared.
	Lifecycle func(state string, envelope Record) string
	// Blob gives a blob's bytes; nil: blobs are not looked at. An error that wraps
	// ErrBlobMismatch is reported as that, any other as ErrBlobMissing.
	Blob func(Hash) ([]byte, error)
	// Stopped is asked before each record and file of an export: its error ends the
	// verification. nil: nobody stops it.
	Stopped func() error
}

// stopped is what Stopped says.
func (o *Options) stopped() error {
	if o.Stopped == nil {
		return nil
	}
	return o.Stopped()
}

// Head is a place in a chain: the hash after record Seq.
type Head struct {
	Seq  int64
	Hash Hash
	// Of is who remembers it, for messages: the run row, head.json, the anchor.
	Of string
}

// Result is what a verification found.
type Result struct {
	Run       string
	Seq       int64 // of the last record
	Head      Hash  // of the chain there
	Envelopes int
	Terminal  string // kind of the terminal envelope; "" if there is none
	State     string // as Lifecycle folded it
	// User and Executor are the keys that intent.draft publishes, Fork what it says
	// about a base.
	User, Executor PublicKey
	Fork           *Fork
	Faults         []Fault // the first MaxFaults
	Total          int     // all of them
}

// OK reports whether nothing was found.
func (r Result) OK() bool { return r.Total == 0 }

// MaxFaults is how many faults a Result lists. All are counted.
const MaxFaults = 50

func (r *Result) add(f Fault) {
	r.Total++
	if len(r.Faults) < MaxFaults {
		r.Faults = append(r.Faults, f)
	}
}

// fault adds err, which wraps a FaultCode, as a fault.
func (r *Result) fault(seq int64, file string, err error) {
	var code FaultCode
	errors.As(err, &code)
	r.add(newFault(seq, code, file, err))
}

func newFault(seq int64, code FaultCode, file string, err error) Fault {
	return Fault{Seq: seq, Code: code, File: file, Message: strings.TrimPrefix(err.Error(), string(code)+": ")}
}

// Verifier checks a journal record by record, in one pass. It keeps nothing of
// what it has read but a few hashes and, if blobs are looked at, their digests.
//
// Of each record the first fault is named. Reading then goes on with what is
// there: one altered record does not make its neighbours malformed, and the next
// envelope that is signed settles the chain again, so that later ones are not
// blamed for it.
type Verifier struct {
	opts   Options
	result Result
	file   string // that the records are read from, for messages

	drafted bool      // an intent.draft was met
	prev    Hash      // of the last envelope's bytes
	inside  bool      // it began inside a journal and has met no envelope: prev is not known
	settled int64     // seq of the last envelope whose signature verified
	after   int64     // seq of the first record behind the terminal envelope; 0: none
	anchors Anchors   // of the run; nil: not asked for yet
	blobs   *blobUses // nil: nobody asks
}

// NewVerifier makes a Verifier; nil options are the zero ones.
func NewVerifier(opts *Options) *Verifier {
	v := &Verifier{}
	if opts != nil {
		v.opts = *opts
	}
	if v.opts.Blob != nil {
		v.blobs = newBlobUses()
	}
	v.result.Run = v.opts.Run
	return v
}

// Add checks the next record. stored is the hash kept beside it, where there is
// one. A stored hash that differs is a fault, and the chain goes on from it, so
// that one altered record is reported once. It returns what [Parse] makes of b, which is not
// kept.
func (v *Verifier) Add(b []byte, stored *Hash) (Record, error) {
	r, parsed := Parse(b)
	err := parsed
	expected := v.result.Seq + 1
	before := v.result.Head
	v.result.Head = before.Next(b)
	v.meet(r.Seq)
	if err == nil {
		v.publish(r)
		err = v.check(b, r, expected, before, stored)
		v.note(b, r)
	}
	if err != nil {
		v.result.fault(v.result.Seq, v.file, err)
	}
	if stored != nil {
		v.result.Head = *stored
	}
	v.checkAnchor()
	return r, parsed
}

// checkAnchor compares the record that was added last with what is anchored of it.
func (v *Verifier) checkAnchor() {
	r := &v.result
	if v.anchors == nil && v.opts.Anchors != nil {
		v.anchors = v.opts.Anchors(r.Run)
	}
	for _, h := range v.anchors[r.Seq] {
		if h != r.Head {
			r.fault(r.Seq, v.file, fmt.Errorf("%w: the hash here is %s, the anchor says %s", ErrTruncated, r.Head, h))
		}
	}
}

// meet counts a record: as its own seq says, else as the one that is due.
func (v *Verifier) meet(seq int64) {
	if v.result.Seq++; seq != 0 {
		v.result.Seq = seq
	}
	if v.result.Terminal != "" && v.after == 0 {
		v.after = v.result.Seq
	}
}

// check returns the first fault of a record that could be parsed. An envelope's
// signature is looked at in any case: if it verifies, what was signed is known to
// have been the chain before it, and the chain goes on from there.
func (v *Verifier) check(b []byte, r Record, expected int64, before Hash, stored *Hash) error {
	v.result.Run = or(v.result.Run, r.Run)
	after, settled := v.result.Head, v.settled
	var signed error
	if IsEnvelope(r.Kind) {
		signed = v.checkSigned(b, r)
		if head, err := ParseHash(r.Head); signed == nil && err == nil && r.Run == v.result.Run {
			v.settled = r.Seq
			if head != before {
				v.result.Head = head.Next(b)
			}
		}
	}
	if v.opts.Kinds != nil && !IsEnvelope(r.Kind) && !v.opts.Kinds(r.Kind) {
		return fmt.Errorf("%w: %q", ErrUnknownKind, r.Kind)
	}
	if err := v.checkPlace(r, expected, after, stored); err != nil {
		return err
	}
	if signed != nil || !IsEnvelope(r.Kind) {
		return signed
	}
	return v.checkEnvelope(r, before, settled)
}

// checkPlace compares a record with where it stands: the run, the seq, the chain,
// whose hash after it is after.
func (v *Verifier) checkPlace(r Record, expected int64, after Hash, stored *Hash) error {
	switch {
	case r.Run != v.result.Run:
		return fmt.Errorf("%w: it belongs to %q, this is the journal of %q", ErrOtherRun, r.Run, v.result.Run)
	case r.Seq != expected:
		return fmt.Errorf("%w: record %d stands where %d is due", ErrGap, r.Seq, expected)
	case stored != nil && *stored != after:
		return fmt.Errorf("%w: the stored hash is %s, that of the bytes %s", ErrHash, stored, after)
	}
	return nil
}

// checkSigned says whether a key that is published and trusted signed these bytes.
func (v *Verifier) checkSigned(b []byte, r Record) error {
	key, _, err := v.signer(r.Key)
	if err != nil {
		return err
	}
	if r.Sig == "" {
		return fmt.Errorf("%w: %s has no sig", ErrSignatureMissing, r.Kind)
	}
	return checkSignature(b, r.Sig, key)
}

// checkEnvelope looks at an envelope whose signature verifies. settled is the seq
// of the one before it.
func (v *Verifier) checkEnvelope(r Record, before Hash, settled int64) error {
	if _, role, _ := v.signer(r.Key); r.From != role {
		return fmt.Errorf("%w: from is %q, the key is the %s's", ErrWrongPrincipal, r.From, role)
	}
	if err := r.checkPrincipal(); err != nil {
		return err
	}
	if err := CheckBody(r.Kind, r.Body); err != nil {
		return err
	}
	if !v.inside && r.Prev != v.prev.String() {
		return fmt.Errorf("%w: it is %s, the previous envelope's hash is %s", ErrPrev, r.Prev, v.prev)
	}
	if r.Head != before.String() {
		return fmt.Errorf("%w: %s: it is %s, the chain's hash before it is %s", ErrHead, changedBetween(settled, r.Seq), r.Head, before)
	}
	return nil
}

// changedBetween says where the records lie that are not those that were signed.
// Both envelopes are whole: the later one names the earlier one's hash.
func changedBetween(settled, seq int64) string {
	if seq-settled < 2 {
		return "it was signed over other records"
	}
	if seq-settled == 2 {
		return fmt.Sprintf("record %d was changed since it was signed", seq-1)
	}
	return fmt.Sprintf("a record between %d and %d was changed, removed or added since they were signed", settled, seq)
}

// publish takes the keys of the first intent.draft; no later one replaces them.
func (v *Verifier) publish(r Record) {
	if r.Kind != draftKind || v.drafted {
		return
	}
	d := readDraft(r.Body)
	v.drafted = true
	v.result.User, v.result.Executor, v.result.Fork = d.user, d.executor, d.fork
}

// signer finds the key with this id among those that are published and trusted,
// and whose it is.
func (v *Verifier) signer(id string) (key PublicKey, role string, err error) {
	switch id {
	case v.result.User.ID().String():
		key, role = v.result.User, User
	case v.result.Executor.ID().String():
		key, role = v.result.Executor, Executor
	}
	if key.IsZero() {
		return key, "", fmt.Errorf("%w: %.80q is not among the keys that intent.draft publishes", ErrUnknownKey, id)
	}
	if !slices.Contains(v.opts.Trusted, key) {
		return key, "", fmt.Errorf("%w: the %s key %s is not trusted", ErrUnknownKey, role, id)
	}
	return key, role, nil
}

// note remembers what later records and the end are compared with.
func (v *Verifier) note(b []byte, r Record) {
	if v.blobs != nil {
		v.blobs.add(r, v.file)
	}
	if !IsEnvelope(r.Kind) {
		return
	}
	v.prev = Sum(b)
	v.result.Envelopes++
	if isTerminal(r.Kind) && v.result.Terminal == "" {
		v.result.Terminal = r.Kind
	}
	if v.opts.Lifecycle != nil {
		v.result.State = v.opts.Lifecycle(v.result.State, r)
	}
}

// Close checks what only the end can show and returns what was found.
func (v *Verifier) Close() Result {
	v.checkEnd()
	if v.opts.Blob != nil {
		v.blobs.check(v.opts.Blob, &v.result)
	}
	return v.result
}

func (v *Verifier) checkEnd() {
	r := &v.result
	if r.Terminal == "" && !v.opts.Open {
		r.fault(0, v.file, fmt.Errorf("%w: no intent.attest, intent.fail or intent.cancel ends the run", ErrUnterminated))
	}
	if v.after != 0 {
		r.fault(v.after, v.file, fmt.Errorf("%w: the run has ended with %s, and nothing may follow that", ErrTailUncovered, r.Terminal))
	}
	for _, h := range v.opts.Heads {
		if h.Seq != r.Seq || h.Hash != r.Head {
			r.fault(r.Seq, v.file, fmt.Errorf("%w: the journal ends at %d with %s, %s says %d with %s",
				ErrTruncated, r.Seq, r.Head, or(h.Of, "the expected head"), h.Seq, h.Hash))
		}
	}
	if r.Seq == 0 {
		v.checkAnchor() // nothing was added
	}
	if last := v.anchors.Last(); last > r.Seq {
		r.fault(r.Seq, v.file, fmt.Errorf("%w: the journal ends at %d, the anchor says that it had %d records", ErrTruncated, r.Seq, last))
	}
	if v.opts.Lifecycle != nil && v.opts.State != "" && r.State != v.opts.State {
		r.fault(0, v.file, fmt.Errorf("%w: the envelopes lead to %q, the run is stored as %q", ErrStateMismatch, r.State, v.opts.State))
	}
}
