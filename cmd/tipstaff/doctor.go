package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/tool"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// doctor examines a workspace: its manifest and lock, and its store.
func doctor(ctx context.Context, name string) ([]tipstaff.Diagnostic, error) {
	dir, err := folder(name)
	if err != nil {
		return nil, err
	}
	found, err := sqlite.Examine(ctx, filepath.Join(dir, storeFolder), &sqlite.Options{Alive: alive})
	return append(examineFiles(dir), found...), err
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
		_, problems := ws.ParseIn(ws.Beside(dir), manifest, src)
		for _, p := range problems {
			fault("manifest", fmt.Sprintf("%s:%d:%d", filepath.Join(dir, p.File), p.Line, p.Column), "correct it; tipstaff tools verify checks it with its servers", "%s: %s", p.Code, p.Message)
		}
	}
	if _, err := tool.ReadLock(dir); err != nil {
		fault("lock", filepath.Join(dir, tool.LockName), "restore it from version control, or move it away and accept the tools again with tipstaff tools pin", "%v", err)
	}
	return found
}
