package journal

import "errors"

// blobUses gathers the blobs that records name, each with the first of them.
type blobUses struct {
	uses  []blobUse
	known map[reference]bool
}

type blobUse struct {
	reference
	seq  int64
	file string
}

func newBlobUses() *blobUses { return &blobUses{known: map[reference]bool{}} }

// add takes what a record names. What is ill-formed in it is a fault of its
// body, which its verifier names.
func (u *blobUses) add(r Record, file string) {
	refs, _ := references(r.Kind, r.Note, r.Body)
	for _, ref := range refs {
		if !u.known[ref] {
			u.known[ref] = true
			u.uses = append(u.uses, blobUse{ref, r.Seq, file})
		}
	}
}

// check adds to result the blobs that are missing, then those that differ.
func (u *blobUses) check(get func(Hash) ([]byte, error), result *Result) {
	var differ []Fault
	for _, use := range u.uses {
		_, err := use.fetch(get)
		switch {
		case err == nil:
		case errors.Is(err, ErrBlobMismatch):
			differ = append(differ, newFault(use.seq, ErrBlobMismatch, use.file, err))
		default:
			result.add(newFault(use.seq, ErrBlobMissing, use.file, err))
		}
	}
	for _, f := range differ {
		result.add(f)
	}
}
