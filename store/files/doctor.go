package files

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// ExamineKeys compares the files of keys with each other and with the keys that the
// database knows: those that ever signed here.
func ExamineKeys(ctx context.Context, x *store.Examination, q store.Querier, dir string) {
	known := map[journal.PublicKey]bool{}
	made := map[string]bool{}
	err := q.Query(ctx, func(r store.Row) error {
		made[r.Text(0)] = true
		if b := r.Bytes(1); len(b) == len(journal.PublicKey{}) {
			known[journal.PublicKey(b)] = true
		}
		return nil
	}, `SELECT name, public FROM keys`)
	if err != nil {
		x.Query(err)
		return
	}
	for _, name := range []string{journal.User, journal.Executor} {
		if made[name] {
			examineKey(x, filepath.Join(dir, name), known)
		}
	}
}

// examineKey looks at one pair.
func examineKey(x *store.Examination, base string, known map[journal.PublicKey]bool) {
	private, err := ReadPrivate(base + ".key")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.Error("key_missing", base+".key", "restore it from a backup; else the next command makes a new one, and unfinished runs can only be forked", "the private key is gone")
		return
	case err != nil:
		x.Error("key_unusable", base+".key", "restore it from a backup", "%v", err)
		return
	case !known[private.Public()]:
		x.Error("key_foreign", base+".key", "restore the key from a backup; the next command would trust this one", "it is not a key that was made here")
	}
	again := "rm -f " + base + ".pub: the next command makes it again"
	switch public, err := ReadPublic(base + ".pub"); {
	case errors.Is(err, fs.ErrNotExist):
		x.Warn("key_missing", base+".pub", "tipstaff ls writes it again", "the public key is gone")
	case err != nil:
		x.Error("key_unusable", base+".pub", again, "%v", err)
	case public != private.Public():
		x.Error("key_mismatch", base+".pub", again, "it does not belong to the private key beside it")
	}
}
