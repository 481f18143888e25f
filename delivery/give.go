package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// A worktree has what its commit has. What a project needs beside that lies in the checkout
// and is ignored by git: settings, certificates, installed packages. Some of it is copied or
// linked. It is never part of what is delivered.

// Limits of what is copied.
const (
	maxCopied      = 10_000
	maxIncludeFile = 64 << 10
)

var maxCopiedBytes int64 = 1 << 30 // shorter in tests

// includeFile names files to copy. Other tools that make worktrees read it, too.
const includeFile = ".worktreeinclude"

// given is what a worktree, or a clean checkout, was given.
type given struct {
	Placed  []string               `json:"placed,omitempty"` // paths that are no part of what is delivered
	Linked  []tipstaff.LinkedFile  `json:"linked,omitempty"`
	Ports   []int                  `json:"ports,omitempty"`
	Copied  int                    `json:"copied,omitempty"`
	Bytes   int64                  `json:"bytes,omitempty"`
	LeftOut []tipstaff.FileLeftOut `json:"left_out,omitempty"`
}

// maxLeftOut is how many files are named that were left out.
const maxLeftOut = 50

func (g *given) leaveOut(name, why string) {
	if len(g.LeftOut) < maxLeftOut {
		g.LeftOut = append(g.LeftOut, tipstaff.FileLeftOut{Path: named(name), Why: why})
	}
}

// give puts into a directory, which holds the files of a tree, what the preparation names.
// Whatever an attempt has left that was broken off is put there again.
func (r *Repo) give(ctx context.Context, dir, tree string, p document.Preparation) (g given, err error) {
	s, err := r.checkout("")
	if err != nil {
		return g, err
	}
	defer s.close()
	has, err := r.entries(ctx, tree)
	if err != nil {
		return g, err
	}
	from, err := filepath.EvalSymlinks(r.Checkout)
	if err != nil {
		return g, err
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return g, err
	}
	defer to.Close()
	if err := to.RemoveAll(copying); err != nil {
		return g, err
	}
	links, err := s.toLink(ctx, r, p.Link, &g)
	if err != nil {
		return g, err
	}
	for _, name := range links {
		if err := g.link(from, to, name, has); err != nil {
			return g, fmt.Errorf("%s cannot be linked: %w", named(name), err)
		}
	}
	files, err := s.toCopy(ctx, r, p.Copy, &g)
	if err != nil {
		return g, err
	}
	for _, name := range files {
		if err := g.copy(from, to, name, has); err != nil {
			return g, fmt.Errorf("%s cannot be copied: %w", named(name), errors.Join(err, to.RemoveAll(copying)))
		}
	}
	if p.LFS {
		if err := r.writeContents(ctx, dir, tree); err != nil {
			return g, err
		}
	}
	if p.Submodules {
		if err := r.writeSubmodules(ctx, dir, tree); err != nil {
			return g, err
		}
	}
	return g, nil
}

// toCopy are the files of the checkout that git ignores and that a pattern, or the include
// file, names.
func (s *scratch) toCopy(ctx context.Context, r *Repo, patterns []string, g *given) ([]string, error) {
	var files []string
	if len(patterns) > 0 {
		found, err := s.run(ctx, r.Checkout, nil, append([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"}, r.below(patterns)...)...)
		if err != nil {
			return nil, err
		}
		names := split(found)
		for _, p := range patterns {
			full := path.Join(r.Prefix, p)
			before := len(files)
			for _, name := range names {
				if document.MatchPath(full, name) || document.MatchPath(full+"/**", name) { // a folder stands for all in it
					files = append(files, name)
				}
			}
			if before == len(files) {
				why, err := s.whyNone(ctx, r, full)
				if err != nil {
					return nil, err
				}
				g.leaveOut(full, why)
			}
		}
	}
	included, err := s.included(ctx, r, g)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(append(files, included...), func(name string) bool { return ofOwnFolder(name) })
	slices.Sort(files)
	return slices.Compact(files), nil
}

// included are the ignored files that include files name: that of the workspace's folder, and
// of those around it as far as the checkout goes.
func (s *scratch) included(ctx context.Context, r *Repo, g *given) (all []string, err error) {
	for folder := path.Join(".", r.Prefix); ; folder = path.Dir(folder) {
		found, err := r.includedBy(ctx, folder, g)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			all = append(all, path.Join(folder, name))
		}
		if folder == "." {
			break
		}
	}
	others, err := s.notIgnored(ctx, r.Checkout, all)
	not := map[string]bool{}
	for _, name := range others {
		not[name] = true
	}
	return slices.DeleteFunc(all, func(name string) bool { return not[name] }), err
}

// includedBy are the files below a folder that its include file names.
func (r *Repo) includedBy(ctx context.Context, folder string, g *given) ([]string, error) {
	dir := filepath.Join(r.Checkout, filepath.FromSlash(folder))
	file := filepath.Join(dir, includeFile)
	info, err := os.Lstat(file)
	switch {
	case err != nil:
		return nil, ignoreMissing(err)
	case !info.Mode().IsRegular() || info.Size() > maxIncludeFile:
		g.leaveOut(path.Join(folder, includeFile), fmt.Sprintf("it is not read: it is no file, or longer than %d KiB", maxIncludeFile>>10))
		return nil, nil
	}
	s, err := r.scratch(dir, "") // its patterns are relative to where the working tree begins
	if err != nil {
		return nil, err
	}
	defer s.close()
	out, err := s.run(ctx, dir, nil, "ls-files", "-z", "--others", "--ignored", "--exclude-from="+file)
	return split(out), err
}

// toLink are the files and folders of the checkout that git ignores and that a pattern names.
func (s *scratch) toLink(ctx context.Context, r *Repo, patterns []string, g *given) (all []string, err error) {
	var names []string
	literal := func(p string) bool { return document.LiteralPath(path.Join(r.Prefix, p)) }
	if open := slices.DeleteFunc(slices.Clone(patterns), literal); len(open) > 0 {
		out, err := s.run(ctx, r.Checkout, nil, append([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--"}, r.below(open)...)...)
		if err != nil {
			return nil, err
		}
		names = split(out)
	}
	for _, p := range patterns {
		p = path.Join(r.Prefix, p)
		before := len(all)
		for _, name := range names {
			if name = strings.TrimSuffix(name, "/"); document.MatchPath(p, name) {
				all = append(all, name)
			}
		}
		if before < len(all) {
			continue
		}
		why, err := s.whyNone(ctx, r, p)
		switch {
		case err != nil:
			return nil, err
		case why == "":
			all = append(all, p)
		default:
			g.leaveOut(p, why)
		}
	}
	all = slices.DeleteFunc(all, ofOwnFolder)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// whyNone is why nothing of the checkout can be taken that a pattern names; "": it is there
// and ignored.
func (s *scratch) whyNone(ctx context.Context, r *Repo, pattern string) (string, error) {
	if !document.LiteralPath(pattern) {
		return "no ignored file of the checkout has such a name", nil
	}
	if _, err := os.Lstat(filepath.Join(r.Checkout, filepath.FromSlash(pattern))); err != nil {
		return "the checkout does not have it", nil
	}
	kept, err := s.notIgnored(ctx, r.Checkout, []string{pattern})
	if len(kept) > 0 {
		return "git does not ignore it: the worktree has it if it is committed", err
	}
	return "", err
}

// below are the places of the checkout where files can lie that match.
func (r *Repo) below(patterns []string) (places []string) {
	for _, p := range patterns {
		place := "."
		for segment := range strings.SplitSeq(path.Join(r.Prefix, p), "/") {
			if !document.LiteralPath(segment) {
				break
			}
			place = path.Join(place, segment)
		}
		places = append(places, place)
	}
	return places
}

func ofOwnFolder(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), document.OwnFolder)
}

// resolved is where a file of the checkout lies, below it, once links are followed. It may
// lead nowhere else, nor to what is git's or ours. What is given is recorded, and records are
// UTF-8: under another name the file would not be known again, and would be delivered.
func resolved(checkout, name string) (rel, why string) {
	full, err := filepath.EvalSymlinks(filepath.Join(checkout, filepath.FromSlash(name)))
	if err != nil {
		return "", "it is a link that leads nowhere"
	}
	rel, err = filepath.Rel(checkout, full)
	switch {
	case err != nil || !filepath.IsLocal(rel):
		return "", "it is a link that leads out of the checkout"
	case rel == "." || ofOwnFolder(filepath.ToSlash(rel)):
		return "", "it is a link into .git, .tipstaff or the checkout itself"
	case !utf8.ValidString(name + rel):
		return "", "its name is not UTF-8"
	}
	return rel, ""
}

// copying is the name of a file while it is copied. No other program gives such a name.
const copying = ".tipstaff-copying"

// copy puts one file into the directory.
func (g *given) copy(checkout string, to *os.Root, name string, has map[string]string) error {
	below := func(l tipstaff.LinkedFile) bool { return name == l.Path || strings.HasPrefix(name, l.Path+"/") }
	if _, there := has[name]; there || slices.ContainsFunc(g.Linked, below) {
		return nil // the commit has it, or it is there through a link
	}
	rel, why := resolved(checkout, name)
	if why != "" {
		g.leaveOut(name, why)
		return nil
	}
	source := filepath.Join(checkout, rel)
	info, err := os.Lstat(source)
	if err != nil {
		return ignoreMissing(err)
	}
	if !info.Mode().IsRegular() {
		g.leaveOut(name, "it is neither a file nor a folder")
		return nil
	}
	if g.Copied+1 > maxCopied || g.Bytes+info.Size() > maxCopiedBytes {
		return fmt.Errorf("with it there would be %s of %d MiB, and at most %s of %d MiB in all are copied: name fewer, or link them", tipstaff.Plural(g.Copied+1, "file"),
			(g.Bytes+info.Size())>>20, tipstaff.Plural(maxCopied, "file"), maxCopiedBytes>>20)
	}
	if err := copyInto(to, source, filepath.FromSlash(name), info); err != nil {
		return err
	}
	g.Placed, g.Copied, g.Bytes = append(g.Placed, name), g.Copied+1, g.Bytes+info.Size()
	return nil
}

// copyInto makes a copy, which has its name when it is whole.
func copyInto(to *os.Root, source, name string, info fs.FileInfo) error {
	if dir := filepath.Dir(name); dir != "." {
		if err := to.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	in, err := openRegular(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.OpenFile(copying, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, info.Size()+1))
	if err == nil && n != info.Size() {
		err = errors.New("it changed while it was copied")
	}
	if err := errors.Join(err, out.Chmod(info.Mode().Perm()|0o200), out.Close()); err != nil {
		return err
	}
	return to.Rename(copying, name)
}

// link puts a link into the directory.
func (g *given) link(checkout string, to *os.Root, name string, has map[string]string) error {
	if _, there := has[name]; there {
		g.leaveOut(name, "the commit has files there")
		return nil
	}
	rel, why := resolved(checkout, name)
	if why != "" {
		g.leaveOut(name, why)
		return nil
	}
	source, local := filepath.Join(checkout, rel), filepath.FromSlash(name)
	if dir := filepath.Dir(local); dir != "." {
		if err := to.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := to.RemoveAll(local); err != nil { // of an attempt before
		return err
	}
	if err := to.Symlink(source, local); err != nil {
		return err
	}
	g.Placed, g.Linked = append(g.Placed, name), append(g.Linked, tipstaff.LinkedFile{Path: name, Source: source})
	return nil
}
