package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/filestamp"
)

// What is linked lies in the checkout, and whoever works in the worktree can write it: what
// the next check starts, too. So its digest is taken when the link is made, and compared
// before each check and after each invocation of a worker.

// Limits of what is linked. More than that is not read: nobody waits for the digest of a folder
// that has no end.
const maxLinkedFiles = 500_000

var maxLinkedBytes int64 = 16 << 30 // less in tests

// LinkedChanged tells what of a worktree's links leads to other content than when they were
// made. An error is that of ctx.
func (g *Git) LinkedChanged(ctx context.Context, w Worktree) (notices []tipstaff.Notice, err error) {
	for _, l := range w.Linked {
		now, err := g.digests.tree(ctx, l.Source)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil && now == l.Digest:
			continue
		}
		why := "it holds other files than when the run began"
		if err != nil {
			why = "it cannot be read: " + err.Error()
		}
		notices = append(notices, tipstaff.Notice{Code: tipstaff.LinkedChanged, Message: named(l.Path) + ", which the worktree has a link to, has changed: " + why +
			". Checks that would use it count as failed. If you have changed it yourself, start a new run; if not, restore " + l.Source})
	}
	return notices, nil
}

// tree names what a file or folder holds: names, types, modes and content. It follows no links
// and opens nothing but files.
func (k *digests) tree(ctx context.Context, root string) (string, error) {
	sum, files, size := sha256.New(), 0, int64(0)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if files++; files > maxLinkedFiles {
			return fmt.Errorf("it has more than %d files: link a folder with fewer", maxLinkedFiles)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%d %s %v ", len(rel), filepath.ToSlash(rel), info.Mode())
		switch {
		case info.Mode().IsRegular():
			if size += info.Size(); size > maxLinkedBytes {
				return fmt.Errorf("it is too large: more than %d MiB are not compared, so link a folder with less", maxLinkedBytes>>20)
			}
			digest, err := k.digest(ctx, name, info)
			sum.Write(digest[:])
			return err
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			fmt.Fprintf(sum, "%d %s", len(target), target)
			return err
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// digests keeps the digest of a file, which need not be read again as long as its size, times
// and inode are the same. Its time of change can be set by nobody.
type digests struct {
	mu  sync.Mutex
	all map[string]digested
}

type digested struct {
	stamp  filestamp.Stamp
	digest [sha256.Size]byte
}

// mostDigests is how many are kept.
const mostDigests = 2 * maxLinkedFiles

func (k *digests) digest(ctx context.Context, name string, info fs.FileInfo) (digest [sha256.Size]byte, err error) {
	at := filestamp.Of(info)
	settled := at.Settled()
	k.mu.Lock()
	had, ok := k.all[name]
	k.mu.Unlock()
	if ok && had.stamp == at {
		return had.digest, nil
	}
	if digest, err = filestamp.Digest(ctx, name, info.Size()); err != nil {
		return digest, err
	}
	if !settled { // it may change again without a trace
		return digest, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= mostDigests {
		k.all = map[string]digested{}
	}
	k.all[name] = digested{at, digest}
	return digest, nil
}

// linkedFirst are notices with those first that put in question what checks have found, each
// once.
func linkedFirst(notices []tipstaff.Notice) []tipstaff.Notice {
	var first, rest []tipstaff.Notice
	for _, n := range notices {
		switch {
		case n.Code != tipstaff.LinkedChanged:
			rest = append(rest, n)
		case !slices.ContainsFunc(first, func(m tipstaff.Notice) bool { return m.Message == n.Message }):
			first = append(first, n)
		}
	}
	if len(first) == 0 {
		return notices
	}
	return append(first, rest...)
}
