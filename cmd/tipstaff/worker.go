package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/worker"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// listWorkers is every worker of a workspace, with what is bound to it as things are now.
func listWorkers(ctx context.Context, name string) ([]tipstaff.WorkerInfo, error) {
	dir, err := folder(name)
	if err != nil {
		return nil, err
	}
	m, err := ws.Read(dir)
	if err != nil {
		return nil, err
	}
	bound := map[string][]tipstaff.WorkerRole{}
	for _, name := range m.RoleNames() {
		by, where, err := m.WorkerFor(ws.WorkerChoice{Role: name, Environ: os.Environ()})
		if err != nil {
			return nil, err
		}
		w, _ := m.Worker(by)
		r, _ := m.Role(name)
		bound[by] = append(bound[by], tipstaff.WorkerRole{Name: name, Set: where, Posture: string(w.In(r))})
	}
	var list []tipstaff.WorkerInfo
	for _, name := range m.WorkerNames() {
		w, _ := m.Worker(name)
		info := tipstaff.WorkerInfo{Name: name, Type: w.Type, Set: "built in", Model: w.Model, Posture: string(w.In(worker.Role{})), Roles: append([]tipstaff.WorkerRole{}, bound[name]...)}
		if m != nil {
			if _, ok := m.Workers[name]; ok {
				info.Set = ws.FileName
			}
		}
		info.Command = cmp.Or(w.Command, programs[w.Type])
		info.Binary = findProgram(info.Command, dir)
		env, err := m.WorkerEnviron(name, os.Environ())
		switch {
		case err != nil:
			info.Trouble = err.Error()
		case info.Binary == "":
			info.Trouble = info.Command + " is not installed, or not on PATH"
		case w.Type == ws.TypeScripted && w.Script.Name == "":
			info.Trouble = "it has no script"
		default:
			info.Version = programVersion(ctx, info.Binary, env)
		}
		list = append(list, info)
	}
	return list, nil
}

// programs are what the types of workers are called as commands. Tipstaff itself is the
// scripted one.
var programs = map[string]string{
	ws.TypeClaude: "claude", ws.TypeCodex: "codex", ws.TypeCursor: "cursor-agent", ws.TypeGemini: "gemini", ws.TypeOpencode: "opencode", ws.TypeScripted: "tipstaff",
}

// findProgram is the path of a program: as it is written, below the workspace if that is
// no mere name, or on PATH; "": it is not there.
func findProgram(name, dir string) string {
	if name == programs[ws.TypeScripted] {
		self, _ := os.Executable() // one that cannot be found cannot be run
		return self
	}
	folders := filepath.SplitList(os.Getenv("PATH"))
	if strings.ContainsRune(name, '/') {
		folders = []string{dir}
		if filepath.IsAbs(name) {
			folders = []string{"/"}
		}
	}
	for _, in := range folders {
		path := filepath.Join(in, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

var versionForm = regexp.MustCompile(`\d+(\.\d+)+\S*`)

// programVersion is what a program prints of its version; "": nothing that looks like one.
func programVersion(ctx context.Context, path string, env []string) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	p, err := supervisor.Spawn(supervisor.Command{Path: path, Args: []string{path, "--version"}, Dir: os.TempDir(), Env: env, NoInput: true})
	if err != nil {
		return ""
	}
	said := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(p.Stdout(), 64<<10)) // what was read before an error counts
		said <- text
	}()
	var text []byte
	select {
	case text = <-said:
	case <-ctx.Done():
	}
	_ = p.Close() // it is ended, whatever it says
	return string(versionForm.Find(text))
}
