package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// VerifyExport checks an export as a [Verifier] checks records, and beyond that
// every file in it: bases against what the forks signed, blobs against their
// names and against what the records name, keys against intent.draft, head.json
// against the records, and that there is no other file. Whoever made the folder
// may be hostile: only regular files are opened, no link in it is followed, and no
// more of a file is read than can be right.
//
// Options.Blob is not used: the blobs are the folder's own. The error is non-nil
// only if the folder cannot be read.
func VerifyExport(dir string, opts *Options) (Result, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Result{}, err
	}
	if info, err := os.Stat(dir); err != nil {
		return Result{}, err
	} else if !info.IsDir() {
		return Result{}, fmt.Errorf("%s is not a folder; an export is one", dir)
	}
	x := examiner{dir: dir, blobs: newBlobUses(), expected: map[string]bool{recordsFile: true, headFile: true}}
	if opts != nil {
		x.opts = *opts
	}
	return x.examine()
}

type examiner struct {
	dir      string
	opts     Options
	expected map[string]bool // files accounted for, with slashes
	blobs    *blobUses
	result   Result
}

func (x *examiner) examine() (Result, error) {
	v := x.verifier(x.opts, recordsFile)
	if err := x.addAll(v, recordsFile); err != nil {
		return Result{}, err
	}
	x.result = v.Close()
	if err := x.checkHead(); err != nil {
		return Result{}, err
	}
	if err := x.checkBases(); err != nil {
		return Result{}, err
	}
	if err := x.checkKeys(); err != nil {
		return Result{}, err
	}
	if err := x.checkBlobs(); err != nil {
		return Result{}, err
	}
	return x.result, x.checkFiles()
}

// verifier leaves the blobs to the end, when all files have named theirs.
func (x *examiner) verifier(opts Options, file string) *Verifier {
	opts.Blob = nil
	v := NewVerifier(&opts)
	v.file, v.blobs = file, x.blobs
	return v
}

// addAll checks every line of a file. A last line that was cut off, or is too long
// to be read, is a record with that fault.
func (x *examiner) addAll(v *Verifier, name string) error {
	for b, err := range lines(x.dir, name) {
		if err := x.opts.stopped(); err != nil {
			return err
		}
		switch {
		case errors.Is(err, ErrMalformed):
			v.cutOff(b, err)
		case err != nil:
			return err
		default:
			v.Add(b, nil)
		}
	}
	return nil
}

func (v *Verifier) cutOff(b []byte, err error) {
	if b != nil {
		v.result.Head = v.result.Head.Next(b)
	}
	v.meet(0)
	v.result.fault(v.result.Seq, v.file, err)
}

// checkHead compares head.json, byte for byte, with what the records give.
func (x *examiner) checkHead() error {
	r := &x.result
	want := headJSON(r.Run, Head{Seq: r.Seq, Hash: r.Head}, r.Envelopes)
	got, err := readRegular(x.dir, headFile, len(want))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch {
	case err != nil:
		r.fault(r.Seq, headFile, fmt.Errorf("%w: nothing says where the records should end: %v", ErrTruncated, err))
	case !bytes.Equal(got, want):
		r.fault(r.Seq, headFile, fmt.Errorf("%w: it does not say what the records do: %q", ErrTruncated, want))
	}
	return nil
}

// checkBases follows the forks down. Each base must end, with the very hash, at
// the record that the fork's signed draft names.
func (x *examiner) checkBases() error {
	seen := map[string]bool{x.result.Run: true}
	for fork := x.result.Fork; fork != nil && !seen[fork.Run]; {
		seen[fork.Run] = true
		file := baseFile(fork.Run)
		x.expected[file] = true
		v := x.verifier(Options{
			Run: fork.Run, Trusted: x.opts.Trusted, Kinds: x.opts.Kinds, Open: true,
			Heads: []Head{{fork.Seq, fork.Hash, "fork_of"}},
		}, file)
		if err := x.addAll(v, file); err != nil {
			return err
		}
		base := v.Close()
		x.merge(base)
		fork = base.Fork
	}
	return nil
}

func (x *examiner) merge(base Result) {
	for _, f := range base.Faults {
		x.result.add(f)
	}
	x.result.Total += base.Total - len(base.Faults)
}

// checkKeys compares the key files with the keys that intent.draft publishes.
func (x *examiner) checkKeys() error {
	published := draft{user: x.result.User, executor: x.result.Executor}
	for _, k := range published.keyFiles() {
		file := keysDir + "/" + k.name
		x.expected[file] = true
		got, err := readRegular(x.dir, file, len(k.key.File()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !bytes.Equal(got, k.key.File()) {
			x.result.fault(0, file, fmt.Errorf("%w: it does not hold the key that intent.draft publishes, %s", ErrUnknownKey, k.key))
		}
	}
	return nil
}

func (x *examiner) checkBlobs() (stopped error) {
	for _, use := range x.blobs.uses {
		x.expected[blobsDir+"/"+use.digest.Hex()] = true
	}
	x.blobs.check(func(digest Hash) ([]byte, error) {
		if stopped == nil {
			stopped = x.opts.stopped()
		}
		if stopped != nil {
			return nil, stopped
		}
		return readBlob(x.dir, digest)
	}, &x.result)
	return stopped
}

// checkFiles names everything that no record accounts for.
func (x *examiner) checkFiles() error {
	return filepath.WalkDir(x.dir, func(path string, e fs.DirEntry, err error) error {
		if err := cmp.Or(err, x.opts.stopped()); err != nil {
			return err
		}
		rel, err := filepath.Rel(x.dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case e.IsDir() && (name == "." || name == baseDir || name == blobsDir || name == keysDir):
			return nil
		case x.expected[name] && e.Type().IsRegular():
			return nil
		}
		x.result.add(Fault{Code: ErrFileUnexpected, File: name, Message: unexpected(e)})
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

func unexpected(e fs.DirEntry) string {
	switch kind := e.Type(); {
	case kind&fs.ModeSymlink != 0:
		return "it is a symbolic link, which is not followed"
	case kind&fs.ModeNamedPipe != 0:
		return "it is a named pipe, which is not opened"
	case kind&^fs.ModeDir != 0:
		return "it is no regular file, and is not opened"
	}
	return "no record accounts for it"
}
