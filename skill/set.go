package skill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Set is a folder of skills, <dir>/<id>/. It is read anew by every call, so that
// it needs no closing and shows what is there now. The nil Set is empty.
type Set struct{ dir string }

// Entry is one folder of a set: a skill, or why it is none.
type Entry struct {
	ID    string // the folder's name
	Skill *Skill // nil: Err says why
	Err   error
}

// Open returns the skills of a folder, which must exist.
func Open(dir string) (*Set, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the skills folder cannot be read: %v", err), Err: err}
	}
	if !info.IsDir() {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not a folder of skills", dir)
	}
	return &Set{dir}, nil
}

// Dir is the folder.
func (s *Set) Dir() string {
	if s == nil {
		return ""
	}
	return s.dir
}

// List is every folder of the set, by name. Hidden ones, and plain files, are
// not meant to be skills.
func (s *Set) List() ([]Entry, error) {
	if s == nil {
		return nil, nil
	}
	found, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the skills folder cannot be read: %v", err), Err: err}
	}
	var entries []Entry
	for _, e := range found {
		if strings.HasPrefix(e.Name(), ".") || e.Type().IsRegular() {
			continue
		}
		loaded, err := s.load(e.Name())
		entries = append(entries, Entry{ID: e.Name(), Skill: loaded, Err: err})
	}
	return entries, nil
}

// Lookup is the skill of that URI. No such folder is ErrUnknown, another version
// in it ErrMismatch, and one whose files are at fault ErrInvalid.
func (s *Set) Lookup(u tipstaff.SkillURI) (*Skill, error) {
	if !tipstaff.IsSkillID(u.ID) { // a URI that was not made by ParseSkillURI
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("%s is not the id of a skill", tipstaff.Quote(u.ID, 120)), Err: tipstaff.ErrInvalidURI}
	}
	if s == nil {
		return nil, unknown(u, "there is no folder of skills")
	}
	found, err := s.load(u.ID)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, unknown(u, filepath.Join(s.dir, u.ID)+" does not exist")
	case err != nil:
		return nil, err
	case found.Version != u.Version:
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Err: ErrMismatch,
			Message: fmt.Sprintf("%s holds version %s, not %s", filepath.Join(s.dir, u.ID), found.Version, u.Version)}
	}
	return found, nil
}

func unknown(u tipstaff.SkillURI, why string) error {
	return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("there is no skill %s: %s", u, why), Err: ErrUnknown}
}

// load reads one folder without leaving the set's.
func (s *Set) load(id string) (*Skill, error) {
	dir := filepath.Join(s.dir, id)
	outer, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	defer outer.Close()
	root, err := outer.OpenRoot(id)
	return loadFrom(root, err, dir, id)
}
