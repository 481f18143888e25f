package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
)

// An export may be somebody's trap: nothing in it blocks, leads elsewhere, is read
// without bound, or is told who should not see it.
func TestHostileExports(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(`root: {id: a, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: 1, expr: value}}`)
	const secret = "root:x:0:0"
	elsewhere := t.TempDir()
	b.check(os.WriteFile(filepath.Join(elsewhere, "secret"), []byte(secret+"\n"), 0o600))
	for name, trap := range map[string]func(at func(string) string) error{
		"a pipe for the head": func(at func(string) string) error {
			return replaced(at("head.json"), func(p string) error { return syscall.Mkfifo(p, 0o600) })
		},
		"a pipe for the records": func(at func(string) string) error {
			return replaced(at("records.ndjson"), func(p string) error { return syscall.Mkfifo(p, 0o600) })
		},
		"a pipe for a key": func(at func(string) string) error {
			return replaced(at("keys/user.pub"), func(p string) error { return syscall.Mkfifo(p, 0o600) })
		},
		"a link for the head": func(at func(string) string) error {
			return replaced(at("head.json"), func(p string) error { return os.Symlink(filepath.Join(elsewhere, "secret"), p) })
		},
		"a hard link for the head": func(at func(string) string) error {
			return replaced(at("head.json"), func(p string) error { return os.Link(filepath.Join(elsewhere, "secret"), p) })
		},
		"a hard link for a key": func(at func(string) string) error {
			return replaced(at("keys/user.pub"), func(p string) error { return os.Link(filepath.Join(elsewhere, "secret"), p) })
		},
		"a link for the keys": func(at func(string) string) error {
			return replaced(at("keys"), func(p string) error { return os.Symlink(elsewhere, p) })
		},
		"a link for the blobs": func(at func(string) string) error {
			return replaced(at("blobs"), func(p string) error { return os.Symlink(elsewhere, p) })
		},
		"records of 1.5 GiB": func(at func(string) string) error { return os.Truncate(at("records.ndjson"), 3<<29) },
		"a head of 1.5 GiB":  func(at func(string) string) error { return os.Truncate(at("head.json"), 3<<29) },
		"records without an end": func(at func(string) string) error {
			return appended(at("records.ndjson"), bytes.Repeat([]byte("\n"), 1<<16))
		},
		"records that are too much": func(at func(string) string) error {
			line := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 20<<20)...), "\"}\n"...)
			for range 5 {
				if err := appended(at("records.ndjson"), line); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "export")
			b.check(runner.Export(cli(), b.Runner, run, dir))
			b.check(trap(func(name string) string { return filepath.Join(dir, name) }))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ctx, cancel := context.WithTimeout(cli(), time.Minute)
			defer cancel()
			rep, err := b.Verify(ctx, tipstaff.VerifyRequest{Dir: dir})
			runtime.ReadMemStats(&after)
			if ctx.Err() != nil || err == nil && rep.Integrity.OK {
				t.Errorf("%v %+v", err, rep.Integrity)
			}
			told, _ := json.Marshal(rep)
			if text := string(told); strings.Contains(text, secret) || err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("it tells what it should not have read: %s %v", told, err)
			}
			if used := int64(after.HeapSys-before.HeapSys) >> 20; used > 512 { // which never shrinks
				t.Errorf("it took %d MiB", used)
			}
			stopped, stop := context.WithCancel(cli())
			stop()
			if _, err := b.Verify(stopped, tipstaff.VerifyRequest{Dir: dir}); !errors.Is(err, context.Canceled) {
				t.Errorf("told to stop: %v", err)
			}
		})
	}
}

func replaced(path string, by func(string) error) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return by(path)
}

func appended(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// An export goes to a new folder only, whatever stands in its place.
func TestExportIntoATrap(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(`root: {id: a, kind: gate, question: "Go?"}`)
	target := t.TempDir()
	for name, lay := range map[string]func(string) error{
		"a folder": func(p string) error { return os.Mkdir(p, 0o700) }, "a link": func(p string) error { return os.Symlink(target, p) },
		"a link to nothing": func(p string) error { return os.Symlink(filepath.Join(target, "none"), p) }, "a pipe": func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		dir := filepath.Join(t.TempDir(), "out")
		b.check(lay(dir))
		if err := runner.Export(cli(), b.Runner, run, dir); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(target); err != nil || len(left) > 0 {
		t.Errorf("something was written through a link: %v, %v", left, err)
	}
}
