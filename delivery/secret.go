package delivery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// How a file is read that no patch shows: together with others as far as they are small, and
// else in pieces that share an end, in which a credential is found that two of them have a part
// of.
const (
	readAtOnce  = 4 << 20
	pieceSize   = 1 << 20
	pieceShared = 64 << 10
)

// leftOut stands in a patch in place of lines that hold a credential.
const leftOut = "(The lines are left out: they hold a credential that the run knows.)\n"

// conceal takes credentials out of what is recorded of a comparison. It returns the files
// into which one came: by their names, or by what was added to them. What the patch does not
// show is read as it was recorded: in the worktree it may be something else by now.
func (d *Diff) conceal(ctx context.Context, r *Repo, clean func([]byte) []byte) (holding []string, err error) {
	holds := func(text []byte) bool { return !bytes.Equal(clean(text), text) }
	sections := tipstaff.PatchParts(d.Patch)
	var patch []byte
	unseen, in := []string{}, make([]bool, len(d.changes))
	for i, c := range d.changes {
		shown := sections[:min(c.PatchParts(), len(sections))]
		sections = sections[len(shown):]
		found := holds([]byte(c.path))
		for _, section := range shown {
			text, added := concealed(section, holds)
			patch, found = append(patch, text...), found || added
		}
		in[i] = found
		if (c.Binary || len(shown) < c.PatchParts()) && c.Status != tipstaff.FileDeleted && !c.Submodule && !found {
			unseen = append(unseen, c.now)
		}
	}
	held, err := r.holding(ctx, unseen, holds)
	if err != nil {
		return nil, err
	}
	kept, err := r.contentHolds(ctx, d.changes, holds)
	if err != nil {
		return nil, err
	}
	for i, c := range d.changes {
		f := &d.Files[i]
		f.Path, f.Old = string(clean([]byte(f.Path))), string(clean([]byte(f.Old)))
		if in[i] || held[c.now] || kept[c.now] {
			holding = append(holding, f.Path)
		}
	}
	for _, section := range sections { // of files that git counts otherwise: nothing is shown of what nobody has looked at
		text, _ := concealed(section, holds)
		patch = append(patch, text...)
	}
	d.Patch = clean(patch)
	return holding, nil
}

// concealed is a section without its lines if they hold a credential. added: those hold one
// that were added.
func concealed(section []byte, holds func([]byte) bool) (text []byte, added bool) {
	begin := bytes.Index(section, []byte("\n@@ "))
	if begin < 0 {
		return section, false
	}
	var before, after, fresh []byte
	for line := range bytes.Lines(section[begin+1:]) {
		switch line[0] {
		case '+':
			after, fresh = append(after, line[1:]...), append(fresh, line[1:]...)
		case '-':
			before = append(before, line[1:]...)
		default:
			before, after = append(before, line[1:]...), append(after, line[1:]...)
		}
	}
	if holds(before) || holds(after) {
		return append(bytes.Clone(section[:begin+1]), leftOut...), holds(fresh)
	}
	return section, false
}

// holding are those of some objects in which a credential stands.
func (r *Repo) holding(ctx context.Context, ids []string, holds func([]byte) bool) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	s, err := r.scratch("", "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	sizes, err := s.sizes(ctx, ids)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for len(ids) > 0 {
		n, total := 0, int64(0)
		for n < len(ids) && total+sizes[ids[n]] <= readAtOnce {
			total += sizes[ids[n]] + 1
			n++
		}
		if n == 0 {
			if found[ids[0]], err = s.largeHolds(ctx, ids[0], holds); err != nil {
				return nil, err
			}
			ids = ids[1:]
			continue
		}
		texts, err := s.contents(ctx, ids[:n])
		if err != nil {
			return nil, err
		}
		for i, text := range texts {
			found[ids[i]] = found[ids[i]] || holds(text)
		}
		ids = ids[n:]
	}
	return found, nil
}

// largeHolds has git write an object into a file, and reads that.
func (s *scratch) largeHolds(ctx context.Context, id string, holds func([]byte) bool) (bool, error) {
	name, err := s.run(ctx, "", nil, "unpack-file", id)
	if err != nil {
		return false, err
	}
	path := filepath.Join(s.dir, strings.TrimSuffix(string(name), "\n"))
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	found, err := pieceHolds(f, holds)
	return found, errors.Join(err, f.Close(), os.Remove(path))
}

// pieceHolds reads in pieces whether a credential stands in a file.
func pieceHolds(f io.Reader, holds func([]byte) bool) (bool, error) {
	piece := make([]byte, pieceShared+pieceSize)
	kept := 0
	for {
		n, err := io.ReadFull(f, piece[kept:])
		if holds(piece[:kept+n]) {
			return true, nil
		}
		switch {
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			return false, nil
		case err != nil:
			return false, err
		}
		kept = copy(piece, piece[len(piece)-pieceShared:])
	}
}
