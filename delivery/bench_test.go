package delivery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// large is a repository of 10,000 files.
func large(t testing.TB) *bed {
	b := newBed(t)
	for i := range 10000 {
		b.write(fmt.Sprintf("d%02d/e%d/f%d.txt", i/100, i/10%10, i), fmt.Sprintf("file %d\nwith a second line\n", i))
	}
	b.user("add", "-A")
	b.user("commit", "-qm", "large")
	return b
}

// rework edits, adds and removes some files.
func rework(b *bed, dir string) {
	for i := range 20 {
		writeFile(b.t, fmt.Sprintf("%s/d%02d/e0/f%d.txt", dir, i, i*100), "edited\n")
		writeFile(b.t, fmt.Sprintf("%s/new/%d", dir, i), "new\n")
	}
	remove(b, dir+"/d50/e0/f5000.txt")
}

// ours makes a worktree, has changes made there, and commits them.
func ours(b *bed, r *Repo, path string) (took time.Duration) {
	ctx := context.Background()
	start := time.Now()
	base, err := r.Resolve(ctx, "HEAD")
	must(b, err)
	w, err := r.AddWorktree(ctx, path, base)
	must(b, err)
	r = r.With(w)
	took = time.Since(start)
	rework(b, path)
	start = time.Now()
	d, err := r.Snapshot(ctx, w)
	must(b, err)
	commit, err := r.Commit(ctx, Commit{Base: base, Tree: d.Tree, Title: "x", At: someTime})
	must(b, err)
	must(b, r.Publish(ctx, Branch(filepath.Base(path), "x"), commit))
	took += time.Since(start)
	if len(d.Files) != 41 {
		b.t.Fatal(summary(d))
	}
	return took
}

// bare does the same with git alone, as one would by hand.
func bare(b *bed, path string) (took time.Duration) {
	start := time.Now()
	b.user("worktree", "add", "-q", "-b", filepath.Base(path), path)
	took = time.Since(start)
	rework(b, path)
	start = time.Now()
	b.userIn(path, "add", "-A")
	b.userIn(path, "commit", "-q", "-m", "x")
	b.userIn(path, "diff-tree", "-r", "-p", "-M", "HEAD~1", "HEAD")
	b.userIn(path, "diff-tree", "-r", "-M", "--raw", "--numstat", "HEAD~1", "HEAD")
	return took + time.Since(start)
}

// A worktree, its diff and its commit cost less than 100 ms beyond what git takes itself.
func BenchmarkWorktreeDiffCommit(b *testing.B) {
	bed := large(b)
	r := bed.open()
	root := filepath.Join(filepath.Dir(bed.dir), "state")
	must(bed, os.Mkdir(root, 0o700))
	bare(bed, filepath.Join(root, "warm-bare"))
	ours(bed, r, filepath.Join(root, "warm-ours"))
	var git, all, gitCPU, allCPU time.Duration
	n := 0
	for b.Loop() {
		before := cpu()
		git += bare(bed, filepath.Join(root, fmt.Sprintf("b%d", n)))
		between := cpu()
		all += ours(bed, r, filepath.Join(root, fmt.Sprintf("o%d", n)))
		gitCPU, allCPU = gitCPU+between-before, allCPU+cpu()-between
		n++
	}
	b.ReportMetric(float64(gitCPU.Milliseconds())/float64(n), "git-cpu-ms/op")
	b.ReportMetric(float64(allCPU.Milliseconds())/float64(n), "ours-cpu-ms/op")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(git.Milliseconds())/float64(n), "git-ms/op")
	b.ReportMetric(float64(all.Milliseconds())/float64(n), "ours-ms/op")
	b.ReportMetric(float64((all-git).Milliseconds())/float64(n), "more-ms/op")
}

// cpu is what the programs that we have started have used: on a machine that is shared it
// tells more than the clock.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A second look at a worktree, and a look at the user's repository.
func BenchmarkLook(b *testing.B) {
	bed := large(b)
	r := bed.open()
	w := bed.worktree(r)
	rework(bed, w.Path)
	bed.snapshot(r, w)
	b.Run("snapshot", func(b *testing.B) {
		measured(b, func() { bed.snapshot(r, w) })
	})
	b.Run("fingerprint", func(b *testing.B) {
		measured(b, func() { bed.fingerprint(r) })
	})
	b.Run("git status", func(b *testing.B) {
		measured(b, func() { bed.user("status", "--porcelain", "-uall") })
	})
}

func measured(b *testing.B, f func()) {
	n, before := 0, cpu()
	for b.Loop() {
		f()
		n++
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(n)/1000, "cpu-ms/op")
}
