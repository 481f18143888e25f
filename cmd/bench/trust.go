package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/trust"
	"github.com/tipstaff/tipstaff/workspace"
)

const trustLimit = time.Millisecond

// measureTrust: whether a workspace is trusted, of a user who trusts hundreds: manifest, lock
// and record are read each time.
func measureTrust(_ context.Context, b *bench) ([]row, error) {
	const folders, servers = 200, 10
	dir := filepath.Join(b.dir, "trust")
	var manifest strings.Builder
	manifest.WriteString("servers:\n")
	for i := range servers {
		fmt.Fprintf(&manifest, "  s%d: {command: [server, --port, \"%d\"], tools: {t: {effect: read}}}\n", i, i)
	}
	k := &trust.Keeper{State: func() (string, error) { return filepath.Join(dir, "state"), nil }}
	last := ""
	for i := range folders {
		last = filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(last, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(last, workspace.FileName), []byte(manifest.String()), 0o644); err != nil {
			return nil, err
		}
		starts, err := trust.Starts(last)
		if err != nil {
			return nil, err
		}
		now, err := k.Of(last, starts)
		if err == nil {
			err = k.Record(now, time.Now())
		}
		if err != nil {
			return nil, err
		}
	}
	var all []float64
	for range 10 * b.effort.starts {
		began := time.Now()
		starts, err := trust.Starts(last)
		if err == nil {
			err = k.Check(last, starts)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, time.Since(began).Seconds())
	}
	mid := median(all)
	took := time.Duration(mid * float64(time.Second))
	return []row{{figure: "whether a workspace is trusted", value: mid, measured: took.Round(time.Microsecond).String(),
		beside: fmt.Sprintf("median of %d; %d servers, and %d workspaces that are trusted", len(all), servers, folders),
		bound:  goal("< "+trustLimit.String(), took < trustLimit)}}, nil
}
