package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

const (
	protectedLimit = 5 * time.Microsecond // of one question
	fewCodeLimit   = time.Millisecond     // of the digests of a server with a few files
	muchCodeLimit  = 30 * time.Millisecond
)

// measureProtected: whether a run may write a file, which is asked before each is written; and
// the digests of what a server may load, which are compared before each start.
func measureProtected(_ context.Context, b *bench) ([]row, error) {
	dir := filepath.Join(b.dir, "protected")
	m, err := codeIn(dir, map[string]int{"few": 20, "much": workspace.MostFiles - 1})
	if err != nil {
		return nil, err
	}
	p := workspace.Protect(m, workspace.Around{Dir: dir, State: filepath.Join(dir, "state")})
	var all []float64
	const asked = 1000
	for range b.effort.starts {
		began := time.Now()
		for range asked {
			if why, protected := p.Protected(dir + "/out/deep/file.txt"); protected {
				return nil, fmt.Errorf("it is protected: %s", why)
			}
		}
		all = append(all, time.Since(began).Seconds()/asked)
	}
	mid := median(all)
	one := time.Duration(mid * float64(time.Second))
	rows := []row{{figure: "whether a run may write a file", value: mid, measured: fmt.Sprintf("%.1f µs", 1e6*mid),
		beside: fmt.Sprintf("median of %d × %d, links followed, three folders deep", b.effort.starts, asked), bound: goal("≤ "+protectedLimit.String(), one <= protectedLimit)}}
	for _, c := range []struct {
		server, figure string
		most           time.Duration
	}{{"few", "digests of a server's 20 files before it is started", fewCodeLimit}, {"much", "digests of a server's 5,000 files, known", muchCodeLimit}} {
		took, err := digestsOf(b, m, dir, c.server)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{figure: c.figure, value: took, measured: fmt.Sprintf("%.2f ms", 1e3*took),
			beside: "read again only where size, times or inode of a file are others", bound: goal("≤ "+c.most.String(), took <= c.most.Seconds())})
	}
	return rows, nil
}

// codeIn is a workspace with servers that have so many files.
func codeIn(dir string, servers map[string]int) (*workspace.Manifest, error) {
	manifest := "servers:\n  builtin: {roots: [.], tools: {write_file: {}}}\n"
	if err := os.MkdirAll(filepath.Join(dir, "out", "deep"), 0o755); err != nil {
		return nil, err
	}
	for name, files := range servers {
		manifest += fmt.Sprintf("  %s: {command: [sh, %s/main.sh], tools: {t: {effect: read}}}\n", name, name)
		for i := range files + 1 {
			at := filepath.Join(dir, name, fmt.Sprint(i/100), fmt.Sprint(i)+".sh")
			if i == files {
				at = filepath.Join(dir, name, "main.sh")
			}
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return nil, err
			}
			if err := os.WriteFile(at, fmt.Appendf(nil, "echo %d\n", i), 0o644); err != nil {
				return nil, err
			}
		}
	}
	m, problems := workspace.ParseIn(workspace.Beside(dir), workspace.FileName, []byte(manifest))
	if problems != nil {
		return nil, fmt.Errorf("%v", problems)
	}
	return m, os.WriteFile(filepath.Join(dir, workspace.FileName), []byte(manifest), 0o644)
}

// digestsOf is the median time that the digests of a server take, of processes that find them
// made by another. That a lock does not hold them is found out last.
func digestsOf(b *bench, m *workspace.Manifest, dir, server string) (float64, error) {
	l := new(tool.Lock).With(server, tool.LockedServer{LockedCode: tool.LockedCode{Beside: true, Files: map[string]string{"none": "none"}}, Tools: map[string]tool.LockedTool{"t": {}}})
	time.Sleep(200 * time.Millisecond) // until a change would show in the time of a file
	var all []float64
	for i := range b.effort.starts + 1 {
		servers := tool.Servers(m, tool.Launch{Workspace: dir, State: filepath.Join(dir, "state")})
		began := time.Now()
		if refused := l.Ready(server, servers[server]); refused == nil || refused.Code != tool.CodePackageChanged {
			return 0, fmt.Errorf("the digests of %s were not made: %v", server, refused)
		}
		if i > 0 {
			all = append(all, time.Since(began).Seconds())
		}
	}
	return median(all), nil
}
