package sqlite

import (
	"errors"
	"fmt"
	"syscall"

	sqlite3 "modernc.org/sqlite"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

var errClosed = errors.New("the store is closed")

// fault is what a failed statement means for the store.
type fault int

const (
	noFault  fault = iota
	ordinary       // of the statement alone: a constraint, bad SQL
	busy           // another process holds the file
	full           // no space left on the disk
	broken         // reading, writing or syncing failed: the page cache is no proof
	damaged        // what was read is no database, or not a whole one
	locked         // the file cannot be written for lack of permission
)

// Result codes of SQLite; the low byte is the class.
const (
	codeNoMem    = 7
	codeReadOnly = 8
	codeIOErr    = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeBusy     = 5
	codeNotADB   = 26
	codeIOErrShm = codeIOErr | 19<<8 // no space for the shared memory file
)

func faultOf(err error) fault {
	if err == nil {
		return noFault
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return full
	}
	var e *sqlite3.Error
	if !errors.As(err, &e) {
		return ordinary
	}
	switch code := e.Code(); code & 0xff {
	case codeBusy:
		return busy
	case codeFull:
		return full
	case codeIOErr:
		if code == codeIOErrShm {
			return full
		}
		return broken
	case codeNoMem, codeCantOpen:
		return broken
	case codeCorrupt, codeNotADB:
		return damaged
	case codeReadOnly:
		return locked
	}
	return ordinary
}

// explain turns a failure of the database file into one that says which file it
// is and what to do. Other errors are returned as they are.
func explain(path string, err error) error {
	switch faultOf(err) {
	case busy:
		return fmt.Errorf("%w: %s: end the process that holds it, or try again (%w)", flow.ErrStoreBusy, path, err)
	case full:
		return fmt.Errorf("%w: %s: make space and resume; what was acknowledged is safe (%w)", flow.ErrStoreFull, path, err)
	case broken:
		return fmt.Errorf("%w: %s: check the disk, then start again; what was acknowledged is safe (%w)", flow.ErrStoreDown, path, err)
	case damaged:
		return fmt.Errorf("%w: %w: %s: tipstaff doctor says what is damaged; restore a copy made by tipstaff backup (%w)", flow.ErrReadOnly, store.ErrDamaged, path, err)
	case locked:
		return fmt.Errorf("%w: %s: give this user the right to write the file and its folder (%w)", flow.ErrReadOnly, path, err)
	}
	return err
}
