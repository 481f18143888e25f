package journal

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"time"
)

// Anchor is a line of an anchor file: where a run stood when it came to rest, kept
// where whoever can change the journal cannot change it too.
type Anchor struct {
	Run  string    `json:"run"`
	Seq  int64     `json:"seq"`
	Hash Hash      `json:"hash"`
	At   time.Time `json:"at"`
}

// Line is the anchor as one line of JSON, with its line feed.
func (a Anchor) Line() []byte {
	b, err := json.Marshal(a)
	if err != nil { // no member of it can fail
		panic(err)
	}
	return append(b, '\n')
}

// Anchors are the hashes that a run's journal must have at some of its records, by
// seq. More than one hash at a seq cannot be met: the run was cut and went on anew.
type Anchors map[int64][]Hash

// Last is the seq of the last record that is anchored; 0: none is.
func (a Anchors) Last() (last int64) {
	for seq := range a {
		last = max(last, seq)
	}
	return last
}

// ReadAnchors reads the lines of an anchor file that concern a run. Lines that were
// not written to their end are passed over; equal ones count once.
func ReadAnchors(file, run string) (Anchors, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	anchors := Anchors{}
	for line := range bytes.Lines(text) {
		var a Anchor
		if !bytes.Contains(line, []byte(run)) || json.Unmarshal(line, &a) != nil || a.Run != run {
			continue
		}
		if !slices.Contains(anchors[a.Seq], a.Hash) {
			anchors[a.Seq] = append(anchors[a.Seq], a.Hash)
		}
	}
	return anchors, nil
}
