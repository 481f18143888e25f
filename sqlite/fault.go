package sqlite

import (
	"errors"
	"fmt"
	"syscall"

	sqlite3 "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

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
	switch code := e.Code(); code & 0xff { // the low byte is the class
	case lib.SQLITE_BUSY:
		return busy
	case lib.SQLITE_FULL:
		return full
	case lib.SQLITE_IOERR:
		if code == lib.SQLITE_IOERR_SHMSIZE { // no space for the shared memory file
			return full
		}
		return broken
	case lib.SQLITE_NOMEM, lib.SQLITE_CANTOPEN:
		return broken
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return damaged
	case lib.SQLITE_READONLY:
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
