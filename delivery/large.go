package delivery

import (
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A change that is applied has pointers where git LFS keeps the content. The checkout has either
// the contents, which are compared with size and digest of the pointers and are written in their
// place, or, where somebody has not fetched them, pointers too.

// findLarge notes of changes the pointers on each side, by the attributes of that side.
func (s *scratch) findLarge(ctx context.Context, base, commit string, changes []change) error {
	var ids []string
	for _, c := range changes {
		for _, side := range [][2]string{{c.modeBefore, c.before}, {c.mode, c.now}} {
			if strings.HasPrefix(side[0], "100") {
				ids = append(ids, side[1])
			}
		}
	}
	pointers, err := s.pointers(ctx, ids)
	if err != nil {
		return err
	}
	for _, side := range []struct {
		tree string
		of   func(*change) (mode, id string, large **lfsPointer)
	}{
		{base, func(c *change) (string, string, **lfsPointer) { return c.modeBefore, c.before, &c.largeBefore }},
		{commit, func(c *change) (string, string, **lfsPointer) { return c.mode, c.now, &c.large }},
	} {
		var names []string
		for i := range changes {
			if mode, id, _ := side.of(&changes[i]); strings.HasPrefix(mode, "100") && pointers[id].oid != "" {
				names = append(names, changes[i].path)
			}
		}
		under, err := s.repo.underLFSIn(ctx, side.tree, names)
		if err != nil {
			return err
		}
		for i := range changes {
			if _, id, large := side.of(&changes[i]); under[changes[i].path] {
				p := pointers[id]
				*large = &p
			}
		}
	}
	return nil
}

// underLFSIn are those of some files whose content git LFS keeps, by the attributes of a tree.
func (r *Repo) underLFSIn(ctx context.Context, tree string, names []string) (map[string]bool, error) {
	if len(names) == 0 {
		return nil, nil
	}
	s, err := r.scratch("", "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.env = append(s.env, "GIT_INDEX_FILE="+filepath.Join(s.dir, "index"))
	if _, err := s.run(ctx, "", nil, "read-tree", tree); err != nil {
		return nil, err
	}
	return s.underLFS(ctx, names)
}

// holdsLarge reports whether a file of the checkout has the content that a pointer names.
func (s *scratch) holdsLarge(ctx context.Context, name string, info fs.FileInfo, mode string, p lfsPointer) bool {
	if info.Size() != p.size || s.tellsModes() && (info.Mode()&0o100 != 0) != (mode == modeExecutable) {
		return false
	}
	at := s.repo.inCheckout(name)
	digest, err := s.repo.git.digests.digest(ctx, at, info)
	if err != nil || hex.EncodeToString(digest[:]) != p.oid {
		return false
	}
	if s.large == nil {
		s.large = map[string]string{}
	}
	s.large[p.oid] = at
	return true
}

// tellsModes reports whether the checkout can tell what may be started.
func (s *scratch) tellsModes() bool {
	return !slices.Contains(s.repo.passive, setting{"core.filemode", "false"})
}

// withoutLarge takes out of a status files of a change that git takes for changed only because
// it starts no filter for us: what they hold is what the index names.
func (s *scratch) withoutLarge(ctx context.Context, status map[string]string, changes []change) error {
	ids := map[string]string{} // of the index
	for _, c := range changes {
		fields := strings.Fields(status[c.path]) // 1 XY sub mH mI mW hH hI
		if (c.largeBefore != nil || c.large != nil) && len(fields) == 8 && fields[1] == ".M" {
			ids[c.path] = fields[7]
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var all []string
	for _, id := range ids {
		all = append(all, id)
	}
	pointers, err := s.pointers(ctx, all)
	if err != nil {
		return err
	}
	for name, id := range ids {
		mode := strings.Fields(status[name])[4]
		if info, err := os.Lstat(s.repo.inCheckout(name)); err == nil && info.Mode().IsRegular() && pointers[id].oid != "" && s.holdsLarge(ctx, name, info, mode, pointers[id]) {
			delete(status, name)
		}
	}
	return nil
}

// largeAt is a file with a content; "": nobody has it.
func (s *scratch) largeAt(p lfsPointer) string {
	if at := s.repo.lfsAt(p); at != "" {
		return at
	}
	return s.large[p.oid]
}

// unfetched are the changed files whose contents nobody has. Of what the checkout itself has
// pointers alone, and is moved or can be started now, a pointer is what is to be there.
func (s *scratch) unfetched(changes []change) (names []string) {
	before := map[lfsPointer]bool{}
	for _, c := range changes {
		if c.largeBefore != nil {
			before[*c.largeBefore] = true
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.large == nil || s.largeAt(*c.large) != "" {
			continue
		}
		if before[*c.large] {
			c.large = nil
		} else {
			names = append(names, named(c.path))
		}
	}
	return names
}

// bringLarge puts the new contents of a change where the user's repository has its own.
func (s *scratch) bringLarge(ctx context.Context, changes []change) error {
	var ids []string
	for _, c := range changes {
		if c.large != nil {
			ids = append(ids, c.now)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return s.repo.bringContents(ctx, s, ids)
}

// writeLarge puts the contents of a change in the place of the pointers that git has written.
func (s *scratch) writeLarge(ctx context.Context, dir string, changes []change) error {
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, c := range changes {
		if c.large == nil {
			continue
		}
		if err := writeContent(ctx, to, dir, filepath.FromSlash(c.path), s.largeAt); err != nil {
			return fmt.Errorf("%s: %w", named(c.path), err)
		}
	}
	return nil
}
