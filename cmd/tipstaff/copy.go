package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/postgres"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/bucket"
	"github.com/tipstaff/tipstaff/store/files"
	"github.com/tipstaff/tipstaff/supervisor"
)

// storeName is what a command line calls a store.
type storeName struct {
	address string // of a database; "": it is in a folder
	dir     string // the folder .tipstaff that it is in
}

func parseStore(name string) (s storeName, err error) {
	if strings.Contains(name, "://") {
		return storeName{address: name}, nil
	}
	if s.dir, err = filepath.Abs(name); err == nil && filepath.Base(s.dir) != storeFolder {
		s.dir = filepath.Join(s.dir, storeFolder)
	}
	return s, err
}

// copyStore copies the runs of one store to another that has none.
func copyStore(ctx context.Context, o cli.OpenOptions, from, to string) (made tipstaff.StoreCopy, err error) {
	source, err := parseStore(from)
	if err != nil {
		return made, err
	}
	target, err := parseStore(to)
	if err != nil {
		return made, err
	}
	if source == target {
		return made, tipstaff.Errorf(tipstaff.InvalidArgument, "FROM and TO are the same store: nothing was copied").WithHint("name another folder or database to copy to")
	}
	keys, err := keysOf(source, target, o.Workspace)
	if err != nil {
		return made, err
	}
	blobs, err := openBucket(ctx, o.Blobs, false)
	if err != nil {
		return made, err
	}
	opened, err := openSource(ctx, source, filepath.Dir(keys), blobs)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, unusable(opened.Close())) }()
	made, err = fillTarget(ctx, target, keys, blobs, opened.rules)
	made.From = opened.name
	return made, unusable(err)
}

// keysOf is the folder of the keys that a copy goes on with: those of a source that is a
// folder; of a database, those that lie where the copy will be, else the workspace's.
func keysOf(source, target storeName, workspace string) (string, error) {
	if source.address == "" {
		return filepath.Join(source.dir, "keys"), nil
	}
	dir, err := folder(workspace)
	if err != nil {
		return "", err
	}
	own := filepath.Join(dir, storeFolder, "keys")
	places := []string{own}
	if target.address == "" {
		places = []string{filepath.Join(target.dir, "keys"), own}
	}
	for _, place := range places {
		if _, err := files.ReadPrivate(filepath.Join(place, "executor.key")); err == nil {
			return place, nil
		}
	}
	return "", tipstaff.Errorf(tipstaff.InvalidArgument, "the keys of the runs are not in %s: without them no run could be resumed in the copy", strings.Join(places, " nor in ")).
		WithHint("put the keys of a machine there that uses the database, or name its workspace with --workspace")
}

// openedStore is one that is copied from.
type openedStore struct {
	rules *store.Store
	name  string
	Close func() error
}

func openSource(ctx context.Context, s storeName, folder string, blobs bucket.Bucket) (*openedStore, error) {
	if s.address != "" {
		opened, err := postgres.Open(ctx, s.address, &postgres.Options{Folder: folder, ReadOnly: true, Lives: supervisor.Alive, Bucket: blobs})
		if err != nil {
			return nil, unusable(err)
		}
		return &openedStore{opened.Store, opened.Name(), opened.Close}, nil
	}
	if !sqlite.HasStore(s.dir) {
		return nil, tipstaff.Errorf(tipstaff.RunNotFound, "there is no store in %s: there is nothing to copy", s.dir).WithHint("name a workspace in which something was run, or its .tipstaff")
	}
	o := &sqlite.Options{ReadOnly: true}
	o.Alive = alive
	opened, err := sqlite.Open(s.dir, o)
	if err != nil {
		return nil, unusable(err)
	}
	return &openedStore{opened.Store, s.dir, opened.Close}, nil
}

// fillTarget makes the copy: all of it, or nothing.
func fillTarget(ctx context.Context, t storeName, keys string, blobs bucket.Bucket, from *store.Store) (made tipstaff.StoreCopy, err error) {
	if t.address == "" {
		return fillFolder(ctx, t.dir, keys, from)
	}
	to, err := openDatabase(ctx, cli.OpenOptions{Store: t.address}, filepath.Dir(keys), blobs, func() (string, error) { return runner.AnchorFile(filepath.Dir(filepath.Dir(keys))) })
	if err != nil {
		return made, err
	}
	made, err = to.Fill(ctx, from)
	made.To, made.Keys = to.Name(), keys
	return made, errors.Join(err, to.Close())
}

// fillFolder makes the copy in a folder, which gets the keys unless it has them.
func fillFolder(ctx context.Context, dir, keys string, from *store.Store) (made tipstaff.StoreCopy, err error) {
	made.Keys = filepath.Join(dir, "keys")
	if top := firstMissing(dir); top != "" {
		defer func() {
			if err != nil {
				_ = os.RemoveAll(top) // which it has made
			}
		}()
		err = makeWithKeys(dir, keys)
	} else {
		err = files.CopyKeys(keys, made.Keys)
	}
	if errors.Is(err, files.ErrOtherKey) {
		return made, tipstaff.Errorf(tipstaff.InvalidArgument, "the keys in %s are not those of the runs that are to be copied", made.Keys).
			WithHint("name another folder: runs go on only with the keys that they were begun with")
	}
	if err != nil {
		return made, err
	}
	to, err := openStore(dir, cli.OpenOptions{}, nil)
	if err != nil {
		return made, err
	}
	place := made.Keys
	made, err = to.Fill(ctx, from)
	made.To, made.Keys = dir, place
	return made, errors.Join(err, to.Close())
}

// makeWithKeys makes a folder with the keys or none: whoever opens a store without keys
// gets new ones.
func makeWithKeys(dir, keys string) error {
	aside := dir + ".copying"
	if err := os.RemoveAll(aside); err != nil { // of somebody who was killed
		return err
	}
	if err := files.CopyKeys(keys, filepath.Join(aside, "keys")); err != nil {
		return err
	}
	return os.Rename(aside, dir)
}

// firstMissing is the uppermost folder on the way to dir that is not there; "": dir is.
func firstMissing(dir string) (top string) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return top
		}
		top = dir
	}
}
