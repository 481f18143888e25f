package journal

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
)

// maxInt is the largest whole number that every JSON reader keeps exactly.
const maxInt = 1<<53 - 1

// Members of records, in the only order in which they may stand. Plain records
// and envelopes share one order, so that kind can be read before it is known
// which of the two a record is.
const (
	mAt = iota
	mBody
	mEpoch
	mFrom
	mHead
	mID
	mKey
	mKind
	mN
	mNote
	mPath
	mPrev
	mRun
	mSeq
	mSig
	mV
)

var memberNames = [...]string{"at", "body", "epoch", "from", "head", "id", "key", "kind", "n", "note", "path", "prev", "run", "seq", "sig", "v"}

// members as bit sets
const (
	ofBoth     = 1<<mAt | 1<<mBody | 1<<mKind | 1<<mPath | 1<<mRun | 1<<mSeq | 1<<mV
	ofPlain    = 1<<mEpoch | 1<<mN | 1<<mNote
	ofEnvelope = 1<<mFrom | 1<<mHead | 1<<mID | 1<<mKey | 1<<mPrev
)

// Parse takes a record's bytes apart, strictly: one object with the members of
// its kind in their order, no white space outside the body, each value in its
// one spelling, an envelope's body in RFC 8785 form. An envelope without sig is
// returned with an empty Sig: whether that is a fault is for the [Verifier] to
// say, in its place among the others.
//
// Errors wrap [ErrMalformed], [ErrVersion] or [ErrFieldMissing]; beside the last
// two the Record holds what could be read. Body shares b's memory.
func Parse(b []byte) (Record, error) {
	if !utf8.Valid(b) {
		return Record{}, malformed("it is not valid UTF-8")
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		return Record{}, malformed("it holds a line feed")
	}
	var p parser
	if err := p.readRecord(b); err != nil {
		return Record{}, err
	}
	return p.rec, p.complete()
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

type parser struct {
	rec       Record
	seen      int // members met, as a bit set
	versionOK bool
}

func (p *parser) readRecord(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return malformed("it is not an object")
	}
	if string(b) == "{}" {
		return nil // one object, with everything missing
	}
	for last, i := -1, 1; ; i++ {
		name, rest, _ := bytes.Cut(b[min(i+1, len(b)):], []byte{'"'})
		start := len(b) - len(rest) + 1
		if b[min(i, len(b)-1)] != '"' || len(rest) < 2 || rest[0] != ':' || rest[1] <= ' ' {
			return malformed("no member of a record stands at byte %d", i)
		}
		which := slices.Index(memberNames[:], string(name))
		switch {
		case which < 0:
			return malformed("member %.40q is unknown", name)
		case which <= last:
			return malformed("member %s is out of order", memberNames[which])
		}
		size, err := canon.End(b[start:])
		if err != nil {
			return malformed("%s: %v", memberNames[which], err)
		}
		last, i = which, start+size
		p.seen |= 1 << which
		if err := p.set(which, b[start:i]); err != nil {
			return err
		}
		switch {
		case i == len(b)-1 && b[i] == '}':
			return nil
		case i == len(b) || b[i] != ',':
			return malformed("no valid JSON at byte %d", i)
		}
	}
}

func (p *parser) set(which int, v []byte) (err error) {
	r := &p.rec
	switch which {
	case mAt:
		r.At, err = parseTime(v)
	case mBody:
		r.Body = v
	case mEpoch:
		r.Epoch, err = parseInt(which, v)
	case mN:
		var n int64
		n, err = parseInt(which, v)
		r.N = int(n)
	case mNote:
		if r.Note = string(v) == "true"; !r.Note {
			err = malformed("note is present and not true")
		}
	case mSeq:
		r.Seq, err = parseInt(which, v)
	case mV:
		if p.versionOK = string(v) == "1"; v[0] != '-' && (v[0] < '0' || v[0] > '9') {
			err = malformed("v is not a number")
		}
	default:
		err = p.setText(which, v)
	}
	return err
}

func (p *parser) setText(which int, v []byte) error {
	if v[0] != '"' {
		return malformed("%s is not a string", memberNames[which])
	}
	s := canon.Unquote(v)
	if len(s) != len(v)-2 && !bytes.Equal(canon.AppendString(nil, s), v) {
		return malformed("%s is not in its canonical spelling", memberNames[which])
	}
	r := &p.rec
	switch which {
	case mFrom:
		r.From = s
	case mHead:
		r.Head = s
	case mID:
		r.ID = s
	case mKey:
		r.Key = s
	case mKind:
		r.Kind = s
	case mPath:
		r.Path = s
	case mPrev:
		r.Prev = s
	case mRun:
		r.Run = s
	case mSig:
		r.Sig = s
	}
	return nil
}

// complete judges the members as a set, once kind is known.
func (p *parser) complete() error {
	required, foreign := ofBoth, ofEnvelope|1<<mSig
	if IsEnvelope(p.rec.Kind) {
		required, foreign = ofBoth|ofEnvelope, ofPlain
	}
	if extra := p.seen & foreign; extra != 0 && p.seen&(1<<mKind) != 0 {
		return malformed("a record of kind %s has no member %s", p.rec.Kind, namesOf(extra))
	}
	if err := p.checkForm(); err != nil {
		return err
	}
	if p.seen&(1<<mV) != 0 && !p.versionOK {
		return fmt.Errorf("%w: v is not %d, the one version this reader knows", ErrVersion, Version)
	}
	if missing := required &^ p.seen; missing != 0 {
		return fmt.Errorf("%w: %s", ErrFieldMissing, namesOf(missing))
	}
	return nil
}

// checkForm checks what kind and body say together: the body of an envelope is
// canonical, so that one content has one signature, and what looks like a
// reference in a payload's place is one. Without a kind nothing is asked.
func (p *parser) checkForm() error {
	if r := &p.rec; p.seen&(1<<mKind) != 0 && p.seen&(1<<mBody) != 0 {
		if IsEnvelope(r.Kind) {
			if form, err := canon.Form(r.Body); err != nil || !bytes.Equal(form, r.Body) {
				return malformed("the body of an envelope is not in RFC 8785 form")
			}
		}
		return checkReferences(r.Kind, r.Note, r.Body)
	}
	return nil
}

func namesOf(set int) string {
	var names []string
	for which, name := range memberNames {
		if set&(1<<which) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func parseInt(which int, v []byte) (int64, error) {
	n, ok := wholeNumber(v)
	if !ok {
		return 0, malformed("%s is not a whole number from 1 to %d", memberNames[which], int64(maxInt))
	}
	return n, nil
}

// wholeNumber reads a number from 1 to maxInt in its one spelling.
func wholeNumber(v []byte) (n int64, ok bool) {
	if len(v) == 0 || len(v) > 16 || v[0] == '0' {
		return 0, false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= maxInt
}

// parseTime reads a quoted time of exactly nine decimals and Z.
func parseTime(v []byte) (time.Time, error) {
	if len(v) != len(timeLayout)+2 || v[0] != '"' {
		return time.Time{}, malformed("at is not a time of nine decimals and Z")
	}
	v = v[1 : len(v)-1]
	for i, c := range []byte(timeLayout) {
		digit := v[i] >= '0' && v[i] <= '9'
		if wantDigit := c >= '0' && c <= '9'; wantDigit != digit || !wantDigit && v[i] != c {
			return time.Time{}, malformed("at is not a time of nine decimals and Z")
		}
	}
	num := func(from, to int) (n int) {
		for _, c := range v[from:to] {
			n = n*10 + int(c-'0')
		}
		return n
	}
	year, month, day := num(0, 4), time.Month(num(5, 7)), num(8, 10)
	hour, minute, sec := num(11, 13), num(14, 16), num(17, 19)
	t := time.Date(year, month, day, hour, minute, sec, num(20, 29), time.UTC)
	if _, m, d := t.Date(); m != month || d != day || hour > 23 || minute > 59 || sec > 59 {
		return time.Time{}, malformed("at is no time of the calendar: %s", v)
	}
	return t, nil
}
