package skill

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/tipstaff/tipstaff/document"
)

const (
	maxFiles     = 1000
	maxFileBytes = 64 << 20 // of all together
)

// readFiles takes the digests of the files beside those that are read: scripts,
// references, assets. They are for whoever follows the prose; a change of one is a change
// of the skill. What belongs to version control is left out.
func (s *Skill) readFiles(root *os.Root, ps *document.Problems) {
	left := int64(maxFileBytes)
	refused := func(code, format string, args ...any) error {
		ps.Add(code, document.Position{}, "", format, args...)
		return fs.SkipAll
	}
	err := fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return refused(codeFile, "%s cannot be read: %v", path, plain(err))
		case e.Name() == ".git":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir() || slices.Contains([]string{manifestFile, documentFile, planFile}, path):
			return nil
		case len(s.files) == maxFiles:
			return refused(document.CodeLimit, "the folder has more than %d files", maxFiles)
		}
		digest, n, err := digestFile(root, path, left)
		if left -= n; left < 0 {
			return refused(document.CodeLimit, "the files of the folder have more than %d bytes", maxFileBytes)
		}
		if err != nil {
			return refused(codeFile, "%s cannot be used: %v", path, plain(err))
		}
		if s.files == nil {
			s.files = map[string]string{}
		}
		s.files[path] = digest
		return nil
	})
	if err != nil {
		refused(codeFile, "the folder cannot be read: %v", plain(err))
	}
}

// digestFile is the digest of a file, and how many bytes were read of it: one more than
// most at most.
func digestFile(root *os.Root, path string, most int64) (digest string, n int64, err error) {
	info, err := root.Stat(path) // which follows a link, but not out of the folder
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, errors.New("it is neither a file nor a link to one")
	}
	f, err := root.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err = io.Copy(sum, io.LimitReader(f, most+1))
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), n, err
}

// plain is an error without the path, which is in the message.
func plain(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
