package builtin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Codes of calls that a tool refuses before it does anything.
const (
	CodeUncleanPath    = "unclean_path"
	CodeProgramChanged = "program_changed"
)

// Demand is what a call must meet besides what its arguments say.
type Demand struct {
	// CleanPaths: no absolute path leads into the first root.
	CleanPaths bool
	// Program is the digest of the program that is started. "": any will do.
	Program string
}

// refusedError is a call that was refused before it did anything.
type refusedError struct{ code, text string }

func (e *refusedError) Error() string { return e.text }

// NoProgram is the digest of a program that cannot be found or read.
const NoProgram = "none"

// Digests are those of the declared programs, by name.
func (s *Server) Digests() map[string]string {
	digests := map[string]string{}
	for _, name := range s.options.Programs {
		digests[name] = NoProgram
		if path, err := s.program(name); err == nil {
			if digest, err := programDigest(path); err == nil {
				digests[name] = digest
			}
		}
	}
	return digests
}

func programDigest(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", reason(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", reason(err)
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a regular file")
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", reason(err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// unchangedProgram refuses a program that is not the one with which the run was
// made. It is looked at a moment before it is started.
func unchangedProgram(name, path, want string) error {
	digest, err := programDigest(path)
	switch {
	case err != nil:
		return fmt.Errorf("the program %q cannot be read: %w", name, err)
	case want == NoProgram:
		return &refusedError{CodeProgramChanged, fmt.Sprintf("the program %q (%s) was not there when the run was made, so that nobody has approved it: start a new run", name, path)}
	case digest != want:
		return &refusedError{CodeProgramChanged, fmt.Sprintf("the program %q (%s) has changed since the run was made: its digest is %s, and %s was approved; look at it, then start a new run", name, path, digest, want)}
	}
	return nil
}
