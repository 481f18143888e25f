package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/postgres"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/temporal"
	"github.com/tipstaff/tipstaff/tool"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// storeFolder is where a workspace keeps its runs.
const storeFolder = ".tipstaff"

// backup copies a workspace's store, manifest and lock to dest.
func backup(ctx context.Context, name, dest string) (made tipstaff.Backup, err error) {
	workspace, err := folder(name)
	if err != nil {
		return made, err
	}
	if dest, err = filepath.Abs(dest); err != nil {
		return made, err
	}
	if _, err := os.Lstat(dest); !errors.Is(err, fs.ErrNotExist) {
		return made, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is there already: a backup needs a new folder", dest).
			WithHint("name one that does not exist, or move that one away")
	}
	if _, err := os.Stat(filepath.Join(workspace, storeFolder)); errors.Is(err, fs.ErrNotExist) {
		return made, tipstaff.Errorf(tipstaff.RunNotFound, "nothing was run in %s yet: there is nothing to copy", workspace).
			WithHint("name another workspace with --workspace")
	}
	store, err := sqlite.Open(filepath.Join(workspace, storeFolder), &sqlite.Options{ReadOnly: true})
	if err != nil {
		return made, unusable(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	made, err = store.Backup(ctx, dest, "tipstaff.yaml", tool.LockName)
	return made, unusable(err)
}

// unusable is a failure of the disk, or of the store on it.
func unusable(err error) error {
	if err == nil || errors.As(err, new(*tipstaff.Error)) {
		return err
	}
	code := tipstaff.StoreUnavailable
	switch {
	case errors.Is(err, store.ErrNewer):
		code = tipstaff.FormatNewer
	case errors.Is(err, flow.ErrStoreLost):
		code = tipstaff.StoreLost
	}
	return &tipstaff.Error{Code: code, Message: fmt.Sprint(err), Err: err}
}

// doctor examines a workspace: its manifest and lock, and its store, which may be elsewhere.
func doctor(ctx context.Context, o cli.OpenOptions) ([]tipstaff.Diagnostic, error) {
	dir, err := folder(o.Workspace)
	if err != nil {
		return nil, err
	}
	if o.Store != "" {
		var unscheduled func(context.Context, []string) ([]string, error)
		if o.Engine != "" {
			engine, err := temporal.Dial(ctx, o.Engine, temporal.Options{Getenv: os.Getenv})
			if err != nil {
				return nil, unusable(err)
			}
			defer engine.Close()
			unscheduled = engine.Unscheduled
		}
		found, err := postgres.Examine(ctx, o.Store, &postgres.Options{Folder: filepath.Join(dir, storeFolder), Lives: supervisor.Alive}, unscheduled)
		return slices.Concat(examineFiles(dir), found, lacking(ctx, dir, o)), err
	}
	var opts sqlite.Options
	opts.Alive = alive
	found, err := sqlite.Examine(ctx, filepath.Join(dir, storeFolder), &opts)
	return append(examineFiles(dir), found...), err
}

// lacking says what this machine lacks of what runs need that wait for a server.
func lacking(ctx context.Context, dir string, o cli.OpenOptions) []tipstaff.Diagnostic {
	store, err := postgres.Open(ctx, o.Store, &postgres.Options{Folder: filepath.Join(dir, storeFolder), ReadOnly: true, Lives: supervisor.Alive})
	if err != nil {
		return nil // the examination of the store says so
	}
	defer func() { _ = store.Close() }()
	found, _ := runner.New(runner.Config{Workspace: dir, Policy: o.Policy, Skills: o.Skills, Store: store, Keys: store.Keys(), Pool: store,
		Self: supervisor.Self, Models: openModel,
		Implicit: func() (*ws.Manifest, error) { return implicitManifest(dir) }}).Unable(ctx) // likewise
	return found
}

// examineFiles looks at the files that say what runs may do.
func examineFiles(dir string) (found []tipstaff.Diagnostic) {
	fault := func(code, where, remedy, format string, args ...any) {
		found = append(found, tipstaff.Diagnostic{Severity: tipstaff.SeverityError, Code: code, Where: where, Message: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	const manifest = "tipstaff.yaml"
	path := filepath.Join(dir, manifest)
	src, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a workspace need not have one
	case err != nil:
		fault("manifest", path, "give this user the right to read it", "it cannot be read: %v", err)
	default:
		m, problems := ws.ParseIn(ws.Beside(dir), manifest, src)
		if len(problems) == 0 {
			found = append(found, expiringTokens(path, m.Serving().Tokens, time.Now())...)
		}
		for _, p := range problems {
			fault("manifest", fmt.Sprintf("%s:%d:%d", filepath.Join(dir, p.File), p.Line, p.Column), "correct it; tipstaff tools verify checks it with its servers", "%s: %s", p.Code, p.Message)
		}
	}
	if err := requireTrust(dir); tipstaff.CodeOf(err) == tipstaff.WorkspaceUntrusted || tipstaff.CodeOf(err) == tipstaff.StateUnavailable {
		var e *tipstaff.Error
		errors.As(err, &e)
		found = append(found, tipstaff.Diagnostic{Severity: tipstaff.SeverityWarning, Code: string(e.Code), Where: dir, Message: "nothing that tipstaff.yaml names is started: " + e.Message, Remedy: e.Advice()})
	}
	if _, err := tool.ReadLock(dir); err != nil {
		fault("lock", filepath.Join(dir, tool.LockName), "restore it from version control, or move it away and accept the tools again with tipstaff tools pin", "%v", err)
	}
	return found
}

// expiryWarning is how long before it expires a token is told of.
const expiryWarning = 7 * 24 * time.Hour

// expiringTokens are tokens of a manifest that are refused, or soon will be.
func expiringTokens(path string, tokens []ws.Token, now time.Time) (found []tipstaff.Diagnostic) {
	for _, t := range tokens {
		at, err := t.Expiry()
		if err != nil || at.IsZero() || at.Sub(now) > expiryWarning {
			continue
		}
		when := "expires at"
		if !now.Before(at) {
			when = "expired at"
		}
		found = append(found, tipstaff.Diagnostic{Severity: tipstaff.SeverityWarning, Code: "token_expires", Where: path + ": serve.tokens." + t.User,
			Message: fmt.Sprintf("the token of %s %s %s", t.User, when, at.UTC().Format(time.RFC3339)),
			Remedy:  "set its variable to a new token, expires to a later time, and start the daemon again"})
	}
	return found
}
