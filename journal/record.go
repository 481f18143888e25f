package journal

import (
	"bytes"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/canon"
)

// Record is one record of a run's journal, taken apart. Its bytes are what
// counts; a Record is only a way to make or to look at them.
type Record struct {
	At    time.Time // to the nanosecond
	Body  []byte    // one JSON value without a line feed
	Epoch int64     // of the owner that wrote it; 0: written by another
	Kind  string
	N     int    // ≥ 1: emitted by the program, its n-th at this path
	Note  bool   // replay skips it
	Path  string // who in the program made it; "" is the run itself
	Run   string
	Seq   int64 // from 1, without gaps

	// Of envelopes alone:
	From string // who signed: user or executor
	ID   string
	Key  string // digest of the signer's public key
	Prev string // hash of the previous envelope's bytes
	Head string // the chain's hash before this record
	Sig  string // base64 of the ed25519 signature
}

// Version is what every record's v says.
const Version = 1

// timeLayout has exactly nine decimals, so that equal times have equal bytes.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// ValidBody reports whether b can be the body of a record: one JSON value, without
// a line feed.
func ValidBody(b []byte) bool {
	return bytes.IndexByte(b, '\n') < 0 && canon.Check(b) == nil
}

// AppendTo appends the bytes of a plain record. The body stands as it is given;
// an empty one is written {}. Envelopes are made by [PrivateKey.Seal].
func (r *Record) AppendTo(dst []byte) []byte {
	dst = append(dst, `{"at":"`...)
	dst = r.At.UTC().AppendFormat(dst, timeLayout)
	dst = append(dst, `","body":`...)
	dst = r.appendBody(dst)
	if r.Epoch != 0 {
		dst = appendInt(dst, `,"epoch":`, r.Epoch)
	}
	dst = appendText(dst, `,"kind":`, r.Kind)
	if r.N != 0 {
		dst = appendInt(dst, `,"n":`, int64(r.N))
	}
	if r.Note {
		dst = append(dst, `,"note":true`...)
	}
	dst = appendText(dst, `,"path":`, r.Path)
	dst = appendText(dst, `,"run":`, r.Run)
	dst = appendInt(dst, `,"seq":`, r.Seq)
	return append(dst, recordEnd...)
}

// recordEnd closes every record.
const recordEnd = `,"v":1}`

func (r *Record) appendBody(dst []byte) []byte {
	if len(r.Body) == 0 {
		return append(dst, '{', '}')
	}
	return append(dst, r.Body...)
}

func appendText(dst []byte, name, s string) []byte {
	return canon.AppendString(append(dst, name...), s)
}

func appendInt(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(dst, name...), n, 10)
}
