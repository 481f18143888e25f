package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	paintInbox   = 300 * time.Millisecond // until something is seen of it
	paintRun     = 500 * time.Millisecond
	paintGates   = 100
	paintAsks    = 4                      // requests by then
	visibleSame  = 150 * time.Millisecond // from a record to its row
	visibleOther = 400 * time.Millisecond // of another process
	answerLimit  = 100 * time.Millisecond // from a key to what it does
	heapMost     = 25e6
	heapGrowth   = 3e6
	elementsMost = 6000
	checkLimit   = 8 * time.Second
	signedEvery  = 100 // steps of the long run
	seenSteps    = 400 // enough for a browser to be there before the last
)

// browsed: what a person sees, in a real browser. Without one nothing is measured.
func (p *pageReader) browsed(b *bench) (rows []row, err error) {
	scripts, err := osexec.CommandContext(p.ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tipstaff/tipstaff").Output()
	if err != nil {
		return nil, err
	}
	root := strings.TrimSpace(string(scripts))
	if there, _ := os.ReadFile(filepath.Join(root, ".cache/web/there")); !bytes.HasPrefix(there, []byte("yes")) {
		fmt.Fprint(b.progress, " no browser: scripts/web.sh says what is missing …")
		return nil, nil
	}
	// In a browser takes a figure of test/page/browser/measure.mjs.
	look := func(to any, args ...string) error {
		node := osexec.CommandContext(p.ctx, "node", append([]string{filepath.Join(root, "test/page/browser/figures.mjs")}, args...)...)
		node.Env = append(os.Environ(), "TIPSTAFF_PAGE="+p.page, "TIPSTAFF_FOLDER="+p.dir, "TIPSTAFF_BINARY="+p.binary,
			"TIPSTAFF_MODULES="+filepath.Join(root, ".cache/web"), "TIPSTAFF_CHROMIUM=/usr/bin/chromium")
		node.Stderr = &strings.Builder{}
		out, err := node.Output()
		if err != nil {
			return fmt.Errorf("%v: %w", args, explain(node, err))
		}
		return json.Unmarshal(out, to)
	}
	for _, f := range []struct{ name, text string }{{"steps.json", string(slowCalls(seenSteps, 50*time.Millisecond))}, {"flood.yaml", floodDocument(40)}} {
		if err := os.WriteFile(filepath.Join(p.dir, f.name), []byte(f.text), 0o644); err != nil {
			return nil, err
		}
	}
	for _, measure := range []func(*bench, func(any, ...string) error) ([]row, error){p.painted, p.seen, p.flooded, p.proven} {
		rows, err := measure(b, look)
		b.add(rows...)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// floodDocument is a pipeline that goes round and round, some two hundred records a second.
func floodDocument(stages int) string {
	var doc strings.Builder
	fmt.Fprintf(&doc, "name: flood\nmax_iterations: %d\nmax_agent_hops: %d\nagents:\n", manyHops, manyHops)
	for i := range stages {
		fmt.Fprintf(&doc, "  - {name: stage%d, stage_order: %d, scripted: {repeat: last, answers: [{output: {n: 1}, delay_ms: 20}]}, default_next: stage%d}\n", i, i+1, (i+1)%stages)
	}
	return doc.String()
}

func (p *pageReader) painted(b *bench, look func(any, ...string) error) (rows []row, err error) {
	for range paintGates {
		if _, err := p.begin("", []byte(`{kind: plan, version: 1, root: {id: ok, kind: gate, question: "Go on?"}}`)); err != nil {
			return nil, err
		}
	}
	for _, c := range []struct {
		what, path string
		limit      time.Duration
	}{{fmt.Sprintf("the inbox with %d gates", paintGates), "/ui/", paintInbox}, {"the page of a long run", p.run, paintRun}} {
		var got struct {
			MS, Cold float64
			Requests int
		}
		if err := look(&got, "paint", c.path, strconv.Itoa(b.rounds)); err != nil {
			return nil, err
		}
		rows = append(rows, pageRow("first contentful paint of "+c.what, inMilliseconds(got.MS), c.limit, fmt.Sprintf("median of %d, the slowest %.0f ms", b.rounds, got.Cold)))
		if c.path == "/ui/" {
			rows = append(rows, row{figure: "requests until the first paint", value: float64(got.Requests), measured: strconv.Itoa(got.Requests), bound: goal("≤ 4", got.Requests <= paintAsks)})
		}
	}
	return rows, nil
}

func inMilliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// seen: from a record to its row in the journal, of a run that the daemon drives, and of one of
// another process.
func (p *pageReader) seen(_ *bench, look func(any, ...string) error) (rows []row, err error) {
	run, err := p.begin("", slowCalls(seenSteps, 50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		who, of string
		limit   time.Duration
	}{{"the daemon", run, visibleSame}, {"another process", "steps.json", visibleOther}} {
		var got struct {
			Rows        int
			Median, P99 float64
		}
		if err := look(&got, "visible", c.of); err != nil {
			return nil, err
		}
		r := pageRow("a record of "+c.who+", until it is visible in a browser", inMilliseconds(got.Median), c.limit, fmt.Sprintf("of %d rows; p99 %.0f ms, limit %s", got.Rows, got.P99, milliseconds(c.limit+250*time.Millisecond)))
		rows = append(rows, r)
	}
	return rows, nil
}

// flooded: a page on a run of some 200 records a second, for as long as was asked.
func (p *pageReader) flooded(b *bench, look func(any, ...string) error) ([]row, error) {
	var got struct {
		Rate, P95, Bytes, Grew float64
		Keys, Elements         int
	}
	if err := look(&got, "flood", "flood.yaml", strconv.FormatFloat(b.flood.Seconds(), 'f', 0, 64)); err != nil {
		return nil, err
	}
	of := fmt.Sprintf("%s of %.0f records a second", b.flood, got.Rate)
	return []row{
		pageRow("from a key to what it does in a browser, p95", inMilliseconds(got.P95), answerLimit, fmt.Sprintf("%s; %d keys", of, got.Keys)),
		{figure: "heap of the page's script", value: got.Bytes, measured: megabytes(got.Bytes), beside: "after " + of, bound: limit("< 25 MB", got.Bytes < heapMost)},
		{figure: "what it has grown by since a fifth of that time", value: max(1, got.Grew), measured: megabytes(got.Grew), beside: of, bound: limit("< 3 MB", got.Grew < heapGrowth)},
		{figure: "elements of that page", value: float64(got.Elements), measured: count(float64(got.Elements)), bound: limit("≤ 6,000", got.Elements <= elementsMost)},
	}, nil
}

// proven: the check of a long run in a browser.
func (p *pageReader) proven(_ *bench, look func(any, ...string) error) ([]row, error) {
	var got struct {
		MS, Longest float64
		Said        string
	}
	if err := look(&got, "proven", filepath.Base(p.run)); err != nil {
		return nil, err
	}
	return []row{pageRow("the check of a long run in a browser", inMilliseconds(got.MS), checkLimit, fmt.Sprintf("%s The page was busy for at most %.0f ms.", got.Said, got.Longest))}, nil
}
