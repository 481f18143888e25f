package runner_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// The files of a run follow from the store: they are written when it rests, and again when
// they are missing; no answer is read from them.
func TestFilesOfARunFollowFromTheStore(t *testing.T) {
	b := newBed(t)
	b.Folders = b.store
	run, driven := b.run(`root: {id: root, kind: sequential, children: [{id: ok, kind: gate, question: "Well?"}]}`)
	folder := filepath.Join(b.dir, ".tipstaff", "runs", run.String())
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	head := func() (h struct {
		Seq          int64 `json:"head_seq"`
		Verification struct {
			Hash string `json:"head_hash"`
		}
	}) {
		b.check(b.Flush())
		b.check(json.Unmarshal(read(tipstaff.EvidenceName), &h))
		return h
	}
	if got, parked := head(), b.get(run); driven.Outcome != "parked" || got.Seq != parked.HeadSeq || got.Verification.Hash != parked.Head {
		t.Errorf("parked at %d %s, the evidence is of %+v", parked.HeadSeq, parked.Head, got)
	}
	decided, err := b.decide(run, driven.Gates[0], "approve")
	b.check(err)
	b.check(b.Flush())
	name := "decisions/" + driven.Gates[0] + ".json"
	if got := read(name); !bytes.Equal(got, decided.Raw) {
		t.Errorf("the decision is stored as %s, and returned as %s", got, decided.Raw)
	}
	b.resume(run)
	b.check(b.Flush())
	ended := b.get(run)
	if got := head(); got.Seq != ended.HeadSeq || got.Verification.Hash != ended.Head {
		t.Errorf("ended at %d %s, the evidence is of %+v", ended.HeadSeq, ended.Head, got)
	}
	before := read(tipstaff.EvidenceName)
	b.check(os.RemoveAll(filepath.Dir(folder)))
	if got := b.get(run); got.Head != ended.Head || len(got.OpenGates) != 0 {
		t.Errorf("without its files the run is %+v", got)
	}
	b.check(b.Repair(cli()))
	if after := read(tipstaff.EvidenceName); !bytes.Equal(after, before) || !bytes.Equal(read(name), decided.Raw) {
		t.Errorf("written again it is %s, was %s", after, before)
	}
	// One that was changed stays, and verify says so.
	b.check(os.WriteFile(filepath.Join(folder, name), []byte("{}"), 0o600))
	b.check(os.Remove(filepath.Join(folder, tipstaff.EvidenceName)))
	b.check(b.Repair(cli()))
	report, err := b.Verify(cli(), tipstaff.VerifyRequest{Run: run})
	if err != nil || report.Integrity.OK || report.Integrity.Problems[0].Code != "projection_mismatch" || string(read(name)) != "{}" {
		t.Errorf("%+v, %v", report.Integrity, err)
	}
	b.forged[run.String()] = true
}
