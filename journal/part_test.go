package journal

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// stored is a journal as a store keeps it: each record with its kind and its hash.
type stored struct {
	bytes []byte
	kind  string
	hash  Hash
}

// storedFrom is what a store has of a book's records, whose hashes fit.
func storedFrom(t *testing.T, records [][]byte) (rows []stored) {
	t.Helper()
	var h Hash
	for _, b := range records {
		r, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		h = h.Next(b)
		rows = append(rows, stored{b, r.Kind, h})
	}
	return rows
}

// placeAfter is the place after n of these records.
func placeAfter(rows []stored, n int) Head {
	if n == 0 {
		return Head{}
	}
	return Head{Seq: int64(n), Hash: rows[n-1].hash}
}

// firstFault adds rows until one is refused. 0: none was.
func firstFault(part Part, rows []stored) (seq int64, err error) {
	for _, row := range rows {
		if r, err := part.Add(row.bytes, row.kind, row.hash); err != nil {
			return max(r.Seq, 1), err
		}
	}
	return 0, nil
}

// From wherever one begins, and whatever was checked before, a whole journal passes.
func TestPartOfAWholeRun(t *testing.T) {
	b, _ := wholeRun(t)
	rows := storedFrom(t, b.records)
	for from := range len(rows) {
		for checked := range len(rows) + 1 {
			part := NewPart(testRun, placeAfter(rows, from), placeAfter(rows, checked), b.user.Public(), b.executor.Public())
			if got := part.Head(); got != placeAfter(rows, from) {
				t.Errorf("from %d: it stands at %+v", from, got)
			}
			if seq, err := firstFault(part, rows[from:]); err != nil {
				t.Errorf("from %d, checked up to %d: record %d: %v", from, checked, seq, err)
			}
		}
	}
}

func TestPartReturnsWhatItAdds(t *testing.T) {
	b, _ := wholeRun(t)
	rows := storedFrom(t, b.records)
	part := NewPart(testRun, Head{}, Head{}, b.user.Public(), b.executor.Public())
	for i, row := range rows {
		r, err := part.Add(row.bytes, row.kind, row.hash)
		if err != nil || r.Seq != int64(i+1) || r.Kind != row.kind || part.Head() != placeAfter(rows, i+1) {
			t.Errorf("record %d: %d, %s, %v; it stands at %+v", i+1, r.Seq, r.Kind, err, part.Head())
		}
	}
}

// A copy of a Part goes on from where the original stands, and does not move it.
func TestPartIsAValue(t *testing.T) {
	b, _ := wholeRun(t)
	rows := storedFrom(t, b.records)
	part := NewPart(testRun, Head{}, Head{}, b.user.Public(), b.executor.Public())
	for _, row := range rows[:atGate] {
		if _, err := part.Add(row.bytes, row.kind, row.hash); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if seq, err := firstFault(part, rows[atGate:]); err != nil {
			t.Errorf("record %d: %v", seq, err)
		}
	}
	if part.Head() != placeAfter(rows, atGate) {
		t.Errorf("the original stands at %+v", part.Head())
	}
}

// TestPartRefuses damages a run and mends what whoever can write to a store could
// mend, its hashes, unless they are the damage.
func TestPartRefuses(t *testing.T) {
	resigned := func(t *testing.T, b *book, key *PrivateKey, at int, change func(*Record)) {
		r, err := Parse(b.records[at])
		if err != nil {
			t.Fatal(err)
		}
		change(&r)
		b.records[at] = b.sign(key, r)
	}
	for _, c := range []struct {
		name     string
		from     int // records before the part
		checked  int // records whose signatures were checked before
		at       int // of the record that is refused, from 0
		want     FaultCode
		says     string
		harm     func(t *testing.T, b *book)       // before it is stored
		harmRows func(t *testing.T, rows []stored) // afterwards
	}{
		{name: "a record that is none", at: 0, want: ErrMalformed, harmRows: func(_ *testing.T, rows []stored) { rows[0].bytes = []byte("{") }},
		{name: "another kind beside it", at: atStarted, want: ErrUnknownKind, says: `it is stored as "run.parked" and says "run.started"`,
			harmRows: func(_ *testing.T, rows []stored) { rows[atStarted].kind = "run.parked" }},
		{name: "another hash beside it", at: atStarted, want: ErrHash, harmRows: func(_ *testing.T, rows []stored) { rows[atStarted].hash = Sum(nil) }},
		{name: "other bytes and the old hash", at: atStarted, want: ErrHash, harmRows: func(t *testing.T, rows []stored) {
			rows[atStarted].bytes = replaceIn(t, rows[atStarted].bytes, "4711", "4712")
		}},
		{name: "the record of another run", at: atStarted, want: ErrOtherRun, harm: func(t *testing.T, b *book) {
			b.records[atStarted] = replaceIn(t, b.records[atStarted], testRun, otherRun)
		}},
		{name: "a record left out", from: atStarted, at: atFinished, want: ErrGap, says: "record 7 stands where 6 is due", harm: func(_ *testing.T, b *book) {
			b.records = slices.Delete(b.records, atIntended, atIntended+1)
		}},
		{name: "a record twice", from: 1, at: atIntended, want: ErrGap, says: "record 6 stands where 7 is due", harm: func(_ *testing.T, b *book) {
			b.records = slices.Insert(b.records, atIntended, b.records[atIntended])
		}},
		{name: "an envelope with another's signature", at: atAccept, want: ErrSignatureInvalid, harm: func(t *testing.T, b *book) {
			b.records[atAccept] = replaceIn(t, b.records[atAccept], `"command"`, `"consent"`)
		}},
		{name: "such an envelope, the first of the part", from: atAccept, at: atAccept, want: ErrSignatureInvalid, harm: func(t *testing.T, b *book) {
			b.records[atAccept] = replaceIn(t, b.records[atAccept], `"command"`, `"consent"`)
		}},
		{name: "such an envelope, one beyond what was checked", checked: atAccept, at: atAccept, want: ErrSignatureInvalid, harm: func(t *testing.T, b *book) {
			b.records[atAccept] = replaceIn(t, b.records[atAccept], `"command"`, `"consent"`)
		}},
		{name: "the key of a stranger", at: atGate, want: ErrUnknownKey, harm: func(t *testing.T, b *book) {
			resigned(t, b, testKey(t, 9), atGate, func(r *Record) { r.Key = "" })
		}},
		{name: "a draft that publishes a stranger's key", at: atDraft, want: ErrUnknownKey, harm: func(t *testing.T, b *book) {
			resigned(t, b, testKey(t, 9), atDraft, func(r *Record) {
				r.Key, r.Body = "", replaceIn(t, r.Body, b.executor.Public().String(), testKey(t, 9).Public().String())
			})
		}},
		{name: "the user's envelope from the executor alone", at: atResolve, want: ErrWrongPrincipal, harm: func(t *testing.T, b *book) {
			resigned(t, b, b.executor, atResolve, func(r *Record) { r.Key, r.From = "", Executor })
		}},
		{name: "an envelope without a field", at: atResolve, want: ErrBody, harm: func(t *testing.T, b *book) {
			resigned(t, b, b.user, atResolve, func(r *Record) { r.Body = replaceIn(t, r.Body, `,"via":"command"`, ``) })
		}},
		{name: "an envelope that follows another", at: atResolve, want: ErrPrev, harm: func(t *testing.T, b *book) {
			resigned(t, b, b.user, atResolve, func(r *Record) { r.Prev = Sum(nil).String() })
		}},
		{name: "such an envelope, the second of the part", from: atGate, at: atResolve, want: ErrPrev, harm: func(t *testing.T, b *book) {
			resigned(t, b, b.user, atResolve, func(r *Record) { r.Prev = Sum(nil).String() })
		}},
		{name: "such an envelope, after one whose signature was checked", checked: atGate + 1, at: atResolve, want: ErrPrev, harm: func(t *testing.T, b *book) {
			resigned(t, b, b.user, atResolve, func(r *Record) { r.Prev = Sum(nil).String() })
		}},
		{name: "a draft that follows something", at: atDraft, want: ErrPrev, harm: func(t *testing.T, b *book) {
			resigned(t, b, b.executor, atDraft, func(r *Record) { r.Prev = Sum(nil).String() })
		}},
		{name: "a plain record altered before the next envelope", at: atResolve, want: ErrHead, says: "record 10 was changed since it was signed",
			harm: func(t *testing.T, b *book) {
				b.records[atResolve-1] = replaceIn(t, b.records[atResolve-1], `"wall_ms":12`, `"wall_ms":13`)
			}},
		{name: "one of several altered before the next envelope", at: atGate, want: ErrHead, says: "a record between 4 and 9 was changed",
			harm: func(t *testing.T, b *book) {
				b.records[atIntended] = replaceIn(t, b.records[atIntended], "a.txt", "b.txt")
			}},
		{name: "another journal up to where it was checked", checked: atGate + 1, at: atGate, want: ErrUnmet, harm: func(t *testing.T, b *book) {
			b.records[atStarted] = replaceIn(t, b.records[atStarted], "4711", "4712")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := wholeRun(t)
			checked := placeAfter(storedFrom(t, b.records), c.checked)
			if c.harm != nil {
				c.harm(t, b)
			}
			rows := storedFrom(t, b.records)
			if c.harmRows != nil {
				c.harmRows(t, rows)
			}
			part := NewPart(testRun, placeAfter(rows, c.from), checked, testKey(t, 1).Public(), testKey(t, 2).Public())
			seq, err := firstFault(part, rows[c.from:])
			if !errors.Is(err, c.want) || seq != int64(c.at+1) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("record %d: %v; want %s %s at %d", seq, err, c.want, c.says, c.at+1)
			}
		})
	}
}

// Signatures up to the place that was checked before are not looked at again, as the
// hash there covers them.
func TestPartLooksAtNoSignatureTwice(t *testing.T) {
	b, _ := wholeRun(t)
	b.records[atAccept] = replaceIn(t, b.records[atAccept], `"command"`, `"consent"`)
	rows := storedFrom(t, b.records)
	part := NewPart(testRun, Head{}, placeAfter(rows, atAccept+1), b.user.Public(), b.executor.Public())
	if seq, err := firstFault(part, rows[:atAccept+1]); err != nil {
		t.Errorf("record %d: %v", seq, err)
	}
}
