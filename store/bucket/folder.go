package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store/files"
)

// folder is a Bucket whose objects are files.
type folder string

func openFolder(u *url.URL) (Bucket, error) {
	if u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, errors.New("the address of a folder is file:// and its absolute path, like file:///shared/folder")
	}
	return folder(filepath.Clean(u.Path)), nil
}

func (f folder) String() string { return (&url.URL{Scheme: "file", Path: string(f)}).String() }

func (f folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

// Check implements [Bucket]. The folder itself is never made: where a file system is not
// mounted, payloads would go to the disk of one machine.
func (f folder) Check(context.Context) error {
	info, err := os.Stat(string(f))
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return fmt.Errorf("%s: %w: see that the folder is there and mounted (%v)", f, ErrUnreachable, err) // not that an object is missing
	}
	return nil
}

// explain says what a failure means. A file that is missing is one thing, and a folder
// another.
func (f folder) explain(err error) error {
	if err == nil {
		return nil
	}
	if away := f.Check(context.Background()); away != nil {
		return away
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", f, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: give this user the right to write there (%w)", f, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: %w: make space there (%w)", f, ErrFull, err)
	}
	return fmt.Errorf("%s: %w: check the file system (%w)", f, ErrUnreachable, err)
}

// Put implements [Bucket].
func (f folder) Put(_ context.Context, name string, data []byte) error {
	if err := f.Check(context.Background()); err != nil {
		return err
	}
	path := f.path(name)
	err := os.Mkdir(filepath.Dir(path), 0o700)
	switch {
	case err == nil:
		err = files.SyncDir(string(f))
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	if err == nil {
		err = files.Write(path, data, 0o600)
	}
	return f.explain(err)
}

// Get implements [Bucket].
func (f folder) Get(_ context.Context, name string) ([]byte, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, f.explain(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, journal.MaxPayload+1))
	return data, f.explain(err)
}

// Size implements [Bucket].
func (f folder) Size(_ context.Context, name string) (int64, error) {
	info, err := os.Stat(f.path(name))
	if err != nil {
		return 0, f.explain(err)
	}
	return info.Size(), nil
}

// Remove implements [Bucket].
func (f folder) Remove(_ context.Context, name string) error {
	if err := f.explain(os.Remove(f.path(name))); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
