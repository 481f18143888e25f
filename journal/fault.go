package journal

import "fmt"

// FaultCode names one thing that can be wrong with a journal. It is an error, so
// that errors.Is(err, ErrGap) works, and prints as verifiers in every language
// print it.
type FaultCode string

// Faults of one record, in the order in which they are looked for. The first
// that is found is the one that is named.
const (
	ErrMalformed        FaultCode = "malformed"         // not one object; a member unknown or out of order
	ErrVersion          FaultCode = "version"           // v is not 1
	ErrFieldMissing     FaultCode = "field_missing"     // a member is absent
	ErrUnknownKind      FaultCode = "unknown_kind"      // not among the kinds the reader knows
	ErrOtherRun         FaultCode = "other_run"         // it belongs to another run
	ErrGap              FaultCode = "gap"               // seq is not one more than before
	ErrHash             FaultCode = "hash"              // the stored hash is not that of the bytes
	ErrUnknownKey       FaultCode = "unknown_key"       // not published by intent.draft, or not trusted
	ErrSignatureMissing FaultCode = "signature_missing" // an envelope without sig
	ErrSignatureInvalid FaultCode = "signature_invalid" // sig does not fit bytes and key
	ErrWrongPrincipal   FaultCode = "wrong_principal"   // this key may not sign this
	ErrBody             FaultCode = "body"              // a field of the body is missing, unknown or ill-formed
	ErrPrev             FaultCode = "prev"              // not the hash of the previous envelope
	ErrHead             FaultCode = "head"              // not the chain's hash before this envelope
)

// Faults of a journal as a whole.
const (
	ErrUnterminated       FaultCode = "unterminated"        // no terminal envelope
	ErrTailUncovered      FaultCode = "tail_uncovered"      // records follow the terminal envelope
	ErrTruncated          FaultCode = "truncated"           // the head is not the expected one
	ErrUnanchored         FaultCode = "unanchored"          // the anchor file does not name a run that asks for it
	ErrStateMismatch      FaultCode = "state_mismatch"      // the envelopes lead to another state
	ErrBlobMissing        FaultCode = "blob_missing"        // a record names a blob that is not there
	ErrBlobMismatch       FaultCode = "blob_mismatch"       // a blob's bytes are not those of its digest
	ErrFileUnexpected     FaultCode = "file_unexpected"     // a file that no record accounts for
	ErrProjectionMismatch FaultCode = "projection_mismatch" // an envelope's file differs from the envelope
)

// Refusals of what would be written.
const (
	ErrTooLarge     FaultCode = "result_too_large" // a payload over MaxPayload
	ErrNumberUnsafe FaultCode = "number_unsafe"    // a number that canonical JSON would change
)

func (c FaultCode) Error() string { return string(c) }

// Fault is one finding of a verification.
type Fault struct {
	Seq     int64     `json:"seq,omitempty"` // of the record; 0: of the journal as a whole
	Code    FaultCode `json:"code"`
	File    string    `json:"file,omitempty"` // in an export or a folder of envelope files
	Message string    `json:"message"`
}

func (f Fault) Error() string {
	where := ""
	if f.File != "" {
		where += " " + f.File
	}
	if f.Seq != 0 {
		where += fmt.Sprintf(" seq %d", f.Seq)
	}
	return fmt.Sprintf("%s%s: %s", f.Code, where, f.Message)
}

// Unwrap is the code, for errors.Is.
func (f Fault) Unwrap() error { return f.Code }
