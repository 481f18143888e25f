package journal

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
)

// An envelope's bytes end in ,"sig":"<88 characters>","v":1}. So what was signed
// can be cut out of them, and no verifier needs to encode anything.
const (
	sigStart = `,"sig":"`
	sigLen   = 88
	sigTotal = len(sigStart) + sigLen + len(`"`) // 97
	tailLen  = sigTotal + len(recordEnd)         // 104
)

// strictBase64 refuses spare bits: one signature has one spelling.
var strictBase64 = base64.StdEncoding.Strict()

// Seal makes the bytes of a signed envelope out of r, whose At, Body, From, ID,
// Kind, Path, Prev, Head, Run and Seq are given. The body may be any JSON; it is
// brought into canonical form. Key and Sig are set by this call.
//
// Errors wrap [ErrUnknownKind], [ErrBody], [ErrWrongPrincipal] or
// [ErrFieldMissing].
func (k *PrivateKey) Seal(r Record) ([]byte, error) {
	if !IsEnvelope(r.Kind) {
		return nil, fmt.Errorf("%w: %q is no kind of envelope", ErrUnknownKind, r.Kind)
	}
	body, err := canon.Form(r.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrBody, r.Kind, err)
	}
	r.Body, r.Key = body, k.Public().ID().String()
	if err := r.checkSealable(); err != nil {
		return nil, err
	}
	signed := r.appendUnsigned(make([]byte, 0, len(body)+512))
	return appendSignature(signed, ed25519.Sign(k.key, signed)), nil
}

// appendSignature puts sig where it belongs: before the end that every record has.
func appendSignature(signed, sig []byte) []byte {
	b := append(signed[:len(signed)-len(recordEnd)], sigStart...)
	b = strictBase64.AppendEncode(b, sig)
	b = append(b, '"')
	return append(b, recordEnd...)
}

// appendUnsigned appends the bytes that are signed: the RFC 8785 form without
// sig. Every part of it is canonical, and the members stand in order.
func (r *Record) appendUnsigned(dst []byte) []byte {
	dst = append(dst, `{"at":"`...)
	dst = r.At.UTC().AppendFormat(dst, timeLayout)
	dst = append(dst, `","body":`...)
	dst = append(dst, r.Body...)
	dst = appendText(dst, `,"from":`, r.From)
	dst = appendText(dst, `,"head":`, r.Head)
	dst = appendText(dst, `,"id":`, r.ID)
	dst = appendText(dst, `,"key":`, r.Key)
	dst = appendText(dst, `,"kind":`, r.Kind)
	dst = appendText(dst, `,"path":`, r.Path)
	dst = appendText(dst, `,"prev":`, r.Prev)
	dst = appendText(dst, `,"run":`, r.Run)
	dst = appendInt(dst, `,"seq":`, r.Seq)
	return append(dst, recordEnd...)
}

// checkSealable refuses what a verifier would refuse.
func (r *Record) checkSealable() error {
	if err := r.checkPrincipal(); err != nil {
		return err
	}
	if err := CheckBody(r.Kind, r.Body); err != nil {
		return err
	}
	if r.ID == "" || r.Run == "" || r.Seq < 1 || r.At.IsZero() {
		return fmt.Errorf("%w: an envelope needs at, id, run and seq", ErrFieldMissing)
	}
	if _, err := ParseHash(r.Prev); err != nil {
		return fmt.Errorf("%w: prev: %v", ErrFieldMissing, err)
	}
	if _, err := ParseHash(r.Head); err != nil {
		return fmt.Errorf("%w: head: %v", ErrFieldMissing, err)
	}
	return nil
}

// checkPrincipal says whether From may sign this. The user signs the user's
// kinds and nothing else, and speaks for no other; the executor signs its own,
// and the user's only on behalf of someone it names.
func (r *Record) checkPrincipal() error {
	by, named := envelopes[r.Kind].by, r.onBehalfOf() != ""
	switch {
	case r.From == Executor && (by == Executor || named):
		return nil
	case r.From == Executor:
		return fmt.Errorf("%w: %s is the user's: the executor signs it only with on_behalf_of", ErrWrongPrincipal, r.Kind)
	case r.From == User && by == User && !named:
		return nil
	case r.From == User && by == User:
		return fmt.Errorf("%w: %s is signed by the user and yet on_behalf_of another", ErrWrongPrincipal, r.Kind)
	case r.From == User:
		return fmt.Errorf("%w: %s is the executor's, the user may not sign it", ErrWrongPrincipal, r.Kind)
	}
	return fmt.Errorf("%w: from is %q, neither user nor executor", ErrWrongPrincipal, r.From)
}

func (r *Record) onBehalfOf() (who string) {
	for name, m := range members(r.Body) {
		if name == "on_behalf_of" {
			who, _ = stringValue(r.Body[m.Start:m.End])
		}
	}
	return who
}

// checkSignature verifies the envelope b, whose sig is given, by key.
func checkSignature(b []byte, sig string, key PublicKey) error {
	if len(sig) != sigLen || strings.ContainsAny(sig, "\r\n") {
		return fmt.Errorf("%w: sig is not 88 characters of base64", ErrSignatureInvalid)
	}
	raw, err := strictBase64.DecodeString(sig)
	if err != nil || len(raw) != ed25519.SignatureSize {
		return fmt.Errorf("%w: sig is not the base64 of 64 bytes", ErrSignatureInvalid)
	}
	signed := make([]byte, 0, len(b)-sigTotal)
	signed = append(signed, b[:len(b)-tailLen]...)
	signed = append(signed, b[len(b)-len(recordEnd):]...)
	if !ed25519.Verify(key[:], signed, raw) {
		return fmt.Errorf("%w: it does not fit these bytes and key %s", ErrSignatureInvalid, key.ID())
	}
	return nil
}
