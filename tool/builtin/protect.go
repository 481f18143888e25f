package builtin

import (
	"errors"
	"path/filepath"
)

// ownFolder is Tipstaff's own in a workspace.
const ownFolder = ".tipstaff"

// WorktreesFolder is where, in the folder of what is kept for a user, runs have their worktrees.
const WorktreesFolder = "worktrees"

// Protection says what no tool touches. Its paths are absolute; links in them are followed.
// Package workspace makes it of a manifest.
type Protection interface {
	// Hidden says why no tool reads what is at a path; false: it may be read.
	Hidden(path string) (why string, hidden bool)
	// Unwritable says why no tool writes it.
	Unwritable(path string) (why string, unwritable bool)
	// Protected is Unwritable for programs, of which nobody knows what they write: they are
	// started in no folder where nothing may be made.
	Protected(path string) (why string, protected bool)
}

// everything is protected where nothing says what is not.
type everything struct{}

const whyEverything = "nothing says what is protected here"

func (everything) Hidden(string) (string, bool)     { return whyEverything, true }
func (everything) Unwritable(string) (string, bool) { return whyEverything, true }
func (everything) Protected(string) (string, bool)  { return whyEverything, true }

// readable refuses to read what is hidden.
func (s *Server) readable(f *folder, name string) error {
	if why, hidden := s.options.Protection.Hidden(filepath.Join(f.real, name)); hidden {
		return errors.New(why)
	}
	return nil
}

// writable refuses to write what is protected.
func (s *Server) writable(f *folder, name string) error {
	if why, protected := s.options.Protection.Unwritable(filepath.Join(f.real, name)); protected {
		return errors.New(why)
	}
	return nil
}

// startable refuses a folder in which a program would make what is protected, whatever it is
// called. That is all that can be refused of a program without a box.
func (s *Server) startable(dir string) error {
	if why, protected := s.options.Protection.Protected(filepath.Join(dir, ".tipstaff-made-here")); protected {
		return errors.New(why)
	}
	return nil
}
