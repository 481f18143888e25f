package journal

import "fmt"

// Part checks records from a place inside a journal onwards, for whoever is about
// to act on them: what does not fit is refused before it is obeyed. It looks for
// the faults that a [Verifier] looks for in single records and stops at the first.
//
// A Part is a value: a copy goes on from where the original stands.
type Part struct {
	v       Verifier
	checked Head // the signatures up to it are known to be good, if its hash is met
}

// NewPart makes a Part for the records of a run after a place whose hash the caller
// trusts; the zero Head is the beginning. Only the two keys given may sign.
// Signatures up to checked, whose hash covers them, are not looked at again.
func NewPart(run string, after, checked Head, user, executor PublicKey) Part {
	p := Part{checked: checked, v: Verifier{opts: Options{Trusted: []PublicKey{user, executor}}, inside: after.Seq > 0}}
	p.v.result = Result{Run: run, Seq: after.Seq, Head: after.Hash, User: user, Executor: executor}
	return p
}

// Head is the last record that was added.
func (p *Part) Head() Head { return Head{Seq: p.v.result.Seq, Hash: p.v.result.Head} }

// Add checks the next record against the hash and kind that are kept beside it. The
// error wraps a FaultCode.
func (p *Part) Add(b []byte, kind string, stored Hash) (Record, error) {
	r, err := Parse(b)
	if err != nil {
		return r, err
	}
	v := &p.v
	before, expected := v.result.Head, v.result.Seq+1
	v.result.Head, v.result.Seq = before.Next(b), expected
	if kind != r.Kind {
		return r, fmt.Errorf("%w: it is stored as %q and says %q", ErrUnknownKind, kind, r.Kind)
	}
	if err := v.checkPlace(r, expected, v.result.Head, &stored); err != nil {
		return r, err
	}
	if IsEnvelope(r.Kind) {
		if r.Seq > p.checked.Seq {
			if err = v.checkSigned(b, r); err == nil {
				err = v.checkEnvelope(r, before, v.settled)
			}
		}
		v.prev, v.inside, v.settled = Sum(b), false, r.Seq
	}
	if r.Seq == p.checked.Seq && stored != p.checked.Hash {
		return r, ErrUnmet
	}
	return r, err
}

// ErrUnmet is returned by [Part.Add] where the journal no longer passes through the
// place that was checked before: check it again from the start, signatures too.
const ErrUnmet FaultCode = "unmet"
