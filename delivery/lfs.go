package delivery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/filestamp"
)

// Of a file that git LFS keeps a tree has a pointer: a few lines that name its content by
// size and digest. A worktree that asks for it has the contents instead, as far as the
// checkout has them; what is recorded of it are pointers again. No filter is started for
// that: contents are files that are named by their digest. New ones lie beside the worktree
// until what names them is published.

// lfsPointer names a content.
type lfsPointer struct {
	oid  string // SHA-256, in hexadecimal
	size int64
}

// lfsVersion begins every pointer.
const lfsVersion = "version https://git-lfs.github.com/spec/v1\n"

// maxPointer is how long a pointer may be.
const maxPointer = 1024

func (p lfsPointer) text() []byte {
	return fmt.Appendf(nil, "%soid sha256:%s\nsize %d\n", lfsVersion, p.oid, p.size)
}

// parsePointer reads what the filter of git LFS would store of a file.
func parsePointer(text []byte) (p lfsPointer, ok bool) {
	rest, is := strings.CutPrefix(string(text), lfsVersion)
	if !is || len(text) > maxPointer {
		return p, false
	}
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "oid":
			p.oid = strings.TrimPrefix(value, "sha256:")
		case "size":
			size, err := strconv.ParseInt(value, 10, 64)
			if p.size = size; err != nil {
				return p, false
			}
		}
	}
	sum, err := hex.DecodeString(p.oid)
	return p, err == nil && len(sum) == sha256.Size && p.size >= 0 && p.oid == strings.ToLower(p.oid)
}

// in is where a folder of contents has one.
func (p lfsPointer) in(dir string) string { return filepath.Join(dir, p.oid[:2], p.oid[2:4], p.oid) }

// lfs is where new contents of a worktree lie.
func (w Worktree) lfs() string { return w.Path + ".lfs" }

// lfsKept is where the user's repository has contents.
func (r *Repo) lfsKept() string {
	storage := "lfs"
	for _, s := range r.passive {
		if s.key == "lfs.storage" {
			storage = cmp.Or(s.value, storage)
		}
	}
	if !filepath.IsAbs(storage) {
		storage = filepath.Join(r.Common, storage)
	}
	return filepath.Join(storage, "objects")
}

// lfsAt is the file with a content; "": there is none.
func (r *Repo) lfsAt(p lfsPointer) string {
	dirs := []string{r.lfsKept()}
	if r.worktree != "" {
		dirs = append(dirs, Worktree{Path: r.worktree}.lfs())
	}
	for _, dir := range dirs {
		if info, err := os.Lstat(p.in(dir)); err == nil && info.Mode().IsRegular() && info.Size() == p.size {
			return p.in(dir)
		}
	}
	return ""
}

// underLFS are those of some files whose content git LFS keeps, by the attributes in an index.
func (s *scratch) underLFS(ctx context.Context, names []string) (under map[string]bool, err error) {
	under = map[string]bool{}
	if len(names) == 0 {
		return under, nil
	}
	filters, err := s.filters(ctx, names)
	for i, name := range names {
		if err == nil && filters[i] == "lfs" {
			under[name] = true
		}
	}
	return under, err
}

// writeContents puts contents in the place of the pointers of a tree, whose files lie in a
// directory.
func (r *Repo) writeContents(ctx context.Context, dir, tree string) error {
	s, err := r.scratch("", "")
	if err != nil {
		return err
	}
	defer s.close()
	s.env = append(s.env, "GIT_INDEX_FILE="+filepath.Join(s.dir, "index"))
	if _, err := s.run(ctx, "", nil, "read-tree", tree); err != nil {
		return err
	}
	entries, err := r.entries(ctx, tree)
	if err != nil {
		return err
	}
	var names []string
	for name, what := range entries {
		if what == isFile {
			names = append(names, name)
		}
	}
	under, err := s.underLFS(ctx, names)
	if err != nil {
		return err
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for name := range under {
		if err := writeContent(ctx, to, dir, filepath.FromSlash(name), r.lfsAt); err != nil {
			return fmt.Errorf("%s: %w", named(name), err)
		}
	}
	return nil
}

// writeContent puts a content in the place of the pointer to it. at is where it is; "": nowhere.
func writeContent(ctx context.Context, to *os.Root, dir, name string, at func(lfsPointer) string) error {
	info, err := to.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPointer {
		return ignoreMissing(err)
	}
	text, err := to.ReadFile(name)
	if err != nil {
		return err
	}
	p, ok := parsePointer(text)
	if !ok {
		return nil
	}
	from := at(p)
	if from == "" {
		return errors.New("the checkout does not have what git LFS keeps of it: `git lfs fetch` there brings it")
	}
	there, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := copyInto(to, from, name, contentInfo{there, info.Mode()}); err != nil {
		return err
	}
	if digest, err := filestamp.Digest(ctx, filepath.Join(dir, name), p.size); err != nil || hex.EncodeToString(digest[:]) != p.oid {
		return errors.Join(fmt.Errorf("%s does not hold what its name says: `git lfs fsck` in the checkout tells more", from), err)
	}
	return nil
}

// contentInfo is a content with the mode of the file whose place it takes.
type contentInfo struct {
	fs.FileInfo
	mode fs.FileMode
}

func (c contentInfo) Mode() fs.FileMode { return c.mode }

// stageContents brings an index to files whose content git LFS keeps: it gets their pointers,
// and what is new of their contents is kept beside the worktree. It returns the other files.
func (s *scratch) stageContents(ctx context.Context, w Worktree, names []string) (others []string, err error) {
	var attributes, rest []string
	for _, name := range names { // which say what is whose
		if path.Base(name) == ".gitattributes" {
			attributes = append(attributes, name)
		} else {
			rest = append(rest, name)
		}
	}
	if err := s.add(ctx, w.Path, attributes); err != nil {
		return nil, err
	}
	under, err := s.underLFS(ctx, rest)
	if err != nil {
		return nil, err
	}
	var paths, modes, staged []string
	for _, name := range rest {
		if !under[name] {
			others = append(others, name)
			continue
		}
		file := filepath.Join(w.Path, filepath.FromSlash(name))
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() {
			others = append(others, name)
			continue
		}
		p, is, err := s.repo.keepContent(ctx, w, file, info)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", named(name), err)
		}
		if is { // a pointer already
			others = append(others, name)
			continue
		}
		pointer := filepath.Join(s.dir, "pointer-"+strconv.Itoa(len(paths)))
		if err := os.WriteFile(pointer, p.text(), 0o600); err != nil {
			return nil, err
		}
		mode := "100644"
		if info.Mode()&0o100 != 0 {
			mode = modeExecutable
		}
		paths, modes, staged = append(paths, pointer), append(modes, mode), append(staged, name)
	}
	if len(paths) == 0 {
		return others, nil
	}
	out, err := s.run(ctx, w.Path, []byte(strings.Join(paths, "\n")+"\n"), "hash-object", "-w", "--no-filters", "--stdin-paths")
	ids := strings.Fields(string(out))
	if err == nil && len(ids) != len(paths) {
		err = fmt.Errorf("git hash-object printed %d names for %d files", len(ids), len(paths))
	}
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		staged[i] = modes[i] + " " + id + "\t" + staged[i]
	}
	_, err = s.run(ctx, w.Path, joined(staged), "update-index", "-z", "--index-info")
	return others, err
}

// keepContent is the pointer of a file, whose content is kept if nobody has it. is: the file
// is a pointer itself.
func (r *Repo) keepContent(ctx context.Context, w Worktree, file string, info fs.FileInfo) (p lfsPointer, is bool, err error) {
	if info.Size() <= maxPointer {
		text, err := readSmall(file)
		if err != nil {
			return p, false, err
		}
		if _, is := parsePointer(text); is || len(text) == 0 { // of nothing there is no pointer
			return p, true, nil
		}
	}
	digest, err := r.git.digests.digest(ctx, file, info)
	p = lfsPointer{hex.EncodeToString(digest[:]), info.Size()}
	if err != nil || r.With(w).lfsAt(p) != "" {
		return p, false, err
	}
	in, err := openRegular(file)
	if err != nil {
		return p, false, err
	}
	defer in.Close()
	p, err = keepIn(w.lfs(), in)
	return p, false, err
}

// keepIn puts a content into a folder of contents, under the name that it turns out to have.
func keepIn(dir string, in io.Reader) (p lfsPointer, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return p, err
	}
	temp, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return p, err
	}
	defer os.Remove(temp.Name())
	sum := sha256.New()
	p.size, err = io.Copy(io.MultiWriter(temp, sum), in)
	p.oid = hex.EncodeToString(sum.Sum(nil))
	err = errors.Join(err, temp.Chmod(0o444), temp.Sync(), temp.Close())
	if err == nil {
		err = os.MkdirAll(filepath.Dir(p.in(dir)), 0o755)
	}
	if err == nil {
		err = os.Rename(temp.Name(), p.in(dir))
	}
	return p, err
}

// bringContents puts what some objects name, and lies beside the worktree, where the user's
// repository has its contents.
func (r *Repo) bringContents(ctx context.Context, s *scratch, names []string) error {
	beside := Worktree{Path: r.worktree}.lfs()
	if !exists(beside) {
		return nil
	}
	pointers, err := s.pointers(ctx, names)
	if err != nil {
		return err
	}
	for _, p := range pointers {
		if p.oid == "" || exists(p.in(r.lfsKept())) || !exists(p.in(beside)) {
			continue
		}
		in, err := openRegular(p.in(beside))
		if err != nil {
			return err
		}
		now, err := keepIn(r.lfsKept(), in)
		if err = errors.Join(err, in.Close()); err == nil && now != p {
			err = fmt.Errorf("%s is no longer what was recorded", p.in(beside))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pointers are those of some objects that are pointers. What is empty git LFS stores as it is.
func (s *scratch) pointers(ctx context.Context, ids []string) (map[string]lfsPointer, error) {
	sizes, err := s.sizes(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := map[string]lfsPointer{}
	small := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		if sizes[id] == 0 {
			all[id] = lfsPointer{}
		}
		return sizes[id] == 0 || sizes[id] > maxPointer
	})
	texts, err := s.contents(ctx, small)
	for i, text := range texts {
		if p, ok := parsePointer(text); ok {
			all[small[i]] = p
		}
	}
	return all, err
}

// contentHolds reports, of objects that are pointers, in which of their contents that lie beside
// the worktree a credential stands.
func (r *Repo) contentHolds(ctx context.Context, changes []change, holds func([]byte) bool) (map[string]bool, error) {
	beside := Worktree{Path: r.worktree}.lfs()
	if !exists(beside) {
		return nil, nil
	}
	s, err := r.scratch("", "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	var ids []string
	for _, c := range changes {
		if c.Status != tipstaff.FileDeleted && !c.Submodule {
			ids = append(ids, c.now)
		}
	}
	pointers, err := s.pointers(ctx, ids)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for id, p := range pointers {
		if p.oid == "" || !exists(p.in(beside)) {
			continue
		}
		f, err := openRegular(p.in(beside))
		if err != nil {
			return nil, err
		}
		found[id], err = pieceHolds(f, holds)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return found, nil
}
