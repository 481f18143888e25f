package journal

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
)

// Limits of payloads: the members of a body that may be large.
const (
	MaxInline  = 64 << 10 // bytes a payload may have inside its record
	MaxPayload = 16 << 20 // and at all
)

const (
	refStart = `{"$blob":"`
	refSize  = `","size":`
)

// reference stands in a record for a payload that is kept as a blob.
type reference struct {
	digest Hash
	size   int64
}

func (r reference) append(dst []byte) []byte {
	dst = r.digest.append(append(dst, refStart...))
	dst = strconv.AppendInt(append(dst, refSize...), r.size, 10)
	return append(dst, '}')
}

// parseReference reads exactly the bytes that append writes.
func parseReference(v []byte) (reference, bool) {
	rest, ok := bytes.CutPrefix(v, []byte(refStart))
	if !ok {
		return reference{}, false
	}
	hash, rest, sized := bytes.Cut(rest, []byte(refSize))
	digits, ends := bytes.CutSuffix(rest, []byte("}"))
	digest, err := ParseHash(string(hash))
	size, whole := wholeNumber(digits) // no payload is empty
	return reference{digest, size}, sized && ends && err == nil && whole
}

// Detach hands every payload of body that is over MaxInline to put and leaves a
// reference in its place. A smaller object that has a member $blob is treated
// alike, so that a reference is never ambiguous. What put is given must be
// durable before the record is.
//
// Payloads are, of a note, the whole body; of an envelope, inputs, prose,
// subject and answer; of other records value, input, state and error.detail.
// One over MaxPayload is [ErrTooLarge]. Everything else stays, byte for byte.
func Detach(kind string, note bool, body []byte, put func([]byte) (Hash, error)) ([]byte, error) {
	if len(body) <= MaxInline && !maySpellBlob(body) {
		return body, nil
	}
	if err := canon.Check(body); err != nil {
		return nil, fmt.Errorf("%w: body of %s: %v", ErrMalformed, kind, err)
	}
	return rewrite(kind, note, body, func(v []byte) ([]byte, error) {
		if len(v) > MaxPayload {
			return nil, fmt.Errorf("%w: a payload of %s has %d bytes, %d are the most", ErrTooLarge, kind, len(v), MaxPayload)
		}
		if len(v) <= MaxInline && !hasBlobMember(v) {
			return nil, nil
		}
		digest, err := put(v)
		if err != nil {
			return nil, err
		}
		return reference{digest, int64(len(v))}.append(nil), nil
	})
}

// Attach puts back what Detach took out. A blob that get cannot give, or gives
// with other bytes, is an error: [ErrBlobMissing], [ErrBlobMismatch].
func Attach(kind string, note bool, body []byte, get func(Hash) ([]byte, error)) ([]byte, error) {
	if !bytes.Contains(body, []byte(refStart)) {
		return body, nil
	}
	return rewrite(kind, note, body, func(v []byte) ([]byte, error) {
		ref, ok := parseReference(v)
		if !ok {
			return nil, nil
		}
		return ref.fetch(get)
	})
}

// checkReferences refuses an object that has a member $blob in a payload's place
// and is no reference: Detach leaves none, and readers could differ about it.
func checkReferences(kind string, note bool, body []byte) error {
	if !maySpellBlob(body) {
		return nil
	}
	for v := range payloads(kind, note, body) {
		payload := body[v.Start:v.End]
		if _, ok := parseReference(payload); !ok && hasBlobMember(payload) {
			return malformed("a payload has a member $blob and is no reference to a blob: %.100s", payload)
		}
	}
	return nil
}

// fetch gets the blob and checks that it is the one named.
func (r reference) fetch(get func(Hash) ([]byte, error)) ([]byte, error) {
	blob, err := get(r.digest)
	if errors.Is(err, ErrBlobMismatch) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBlobMissing, r.digest, err)
	}
	if got := Sum(blob); got != r.digest {
		return nil, fmt.Errorf("%w: the bytes kept as %s are those of %s", ErrBlobMismatch, r.digest, got)
	}
	if r.size >= 0 && int64(len(blob)) != r.size {
		return nil, fmt.Errorf("%w: %s has %d bytes, its record says %d", ErrBlobMismatch, r.digest, len(blob), r.size)
	}
	return blob, nil
}

// Digests gives every blob that a record names: its payload references, and the
// documents that it names by digest.
func Digests(kind string, note bool, body []byte) ([]Hash, error) {
	refs, err := references(kind, note, body)
	if err != nil {
		return nil, err
	}
	var digests []Hash
	for _, r := range refs {
		digests = append(digests, r.digest)
	}
	return digests, nil
}

// anySize marks a blob that is named by its digest alone.
const anySize = -1

func references(kind string, note bool, body []byte) ([]reference, error) {
	named := namesDocuments(kind, body)
	if !named && !bytes.Contains(body, []byte(refStart)) {
		return nil, nil
	}
	if err := canon.Check(body); err != nil {
		return nil, fmt.Errorf("%w: body of %s: %v", ErrMalformed, kind, err)
	}
	var refs []reference
	for v := range payloads(kind, note, body) {
		if ref, ok := parseReference(body[v.Start:v.End]); ok {
			refs = append(refs, ref)
		}
	}
	if !named {
		return refs, nil
	}
	docs, err := documents(kind, body)
	return append(refs, docs...), err
}

// namesDocuments tells which records may name blobs by digest alone.
func namesDocuments(kind string, body []byte) bool {
	switch kind {
	case "effect.finished", "effect.failed", "effect.lost", "effect.given": // most of them name none
		return bytes.Contains(body, []byte(`"keep"`)) || bytes.Contains(body, []byte(`\u00`))
	case "run.correction_requested", "run.continued", "draft.updated":
		return bytes.Contains(body, []byte(hashPrefix)) || bytes.Contains(body, []byte(`\u00`)) // which may spell it
	}
	return IsEnvelope(kind)
}

// documents are the blobs that a record names by digest: programs, skills and
// frozen documents in envelopes, in corrections that were asked for and in drafts
// that were changed; outputs in envelopes; results in a state that goes on; what came
// with the result of a call.
func documents(kind string, body []byte) (refs []reference, err error) {
	add := func(name string, v []byte) {
		s, _ := stringValue(v)
		digest, e := ParseHash(s)
		if e != nil {
			err = fmt.Errorf("%w: %s: field %s: %w", ErrBody, kind, name, e)
			return
		}
		refs = append(refs, reference{digest, anySize})
	}
	keeps := kind == "run.continued" || strings.HasPrefix(kind, "effect.")
	for name, m := range members(body) {
		v := body[m.Start:m.End]
		switch {
		case !keeps && (name == "program_digest" || name == "skill_digest"), IsEnvelope(kind) && name == "outputs_digest":
			add(name, v)
		case !keeps && name == "frozen":
			for document, d := range members(v) {
				add("frozen."+document, v[d.Start:d.End])
			}
		case keeps && name == "keep":
			for d := range canon.Elements(v) {
				add(name, d)
			}
		}
	}
	return refs, err
}

// payloads yields the extent of every payload in body, which is valid JSON.
func payloads(kind string, note bool, body []byte) func(yield func(canon.Member) bool) {
	return func(yield func(canon.Member) bool) {
		if note {
			end := len(bytes.TrimRight(body, " \t\r\n"))
			yield(canon.Member{Start: len(body) - len(bytes.TrimLeft(body, " \t\r\n")), End: end})
			return
		}
		envelope := IsEnvelope(kind)
		for name, m := range members(body) {
			switch name {
			case "inputs", "prose", "subject", "answer":
				if envelope && !yield(m) {
					return
				}
			case "value", "input", "state":
				if !envelope && !yield(m) {
					return
				}
			case "error":
				if !envelope && !details(body, m, yield) {
					return
				}
			}
		}
	}
}

// details yields the detail of the error that stands at m.
func details(body []byte, m canon.Member, yield func(canon.Member) bool) bool {
	for name, d := range members(body[m.Start:m.End]) {
		if name == "detail" && !yield(canon.Member{Start: m.Start + d.Start, End: m.Start + d.End}) {
			return false
		}
	}
	return true
}

// rewrite replaces each payload by what replace returns for it; nil keeps it.
func rewrite(kind string, note bool, body []byte, replace func([]byte) ([]byte, error)) ([]byte, error) {
	var out []byte
	done := 0
	for v := range payloads(kind, note, body) {
		other, err := replace(body[v.Start:v.End])
		if err != nil {
			return nil, err
		}
		if other != nil {
			out = append(append(out, body[done:v.Start]...), other...)
			done = v.End
		}
	}
	if done == 0 {
		return body, nil
	}
	return append(out, body[done:]...), nil
}

// maySpellBlob is the quick test that nearly every body fails: without these
// bytes no member can be named $blob, however its name is escaped.
func maySpellBlob(body []byte) bool {
	return bytes.Contains(body, []byte(`$blob`)) || bytes.Contains(body, []byte(`\u00`))
}

// members yields the name and the place of each member of the object that b is; of
// anything else, nothing. b must be valid JSON.
func members(b []byte) iter.Seq2[string, canon.Member] {
	return func(yield func(string, canon.Member) bool) {
		for m, err := range canon.Members(b) {
			if err != nil || !yield(m.Name, m) {
				return
			}
		}
	}
}

func hasBlobMember(v []byte) bool {
	for name := range members(v) {
		if name == "$blob" {
			return true
		}
	}
	return false
}
