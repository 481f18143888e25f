package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/web/page"
)

const (
	pageFirst   = 50 * time.Millisecond // of a run of 100,000 records, when nobody has looked at it yet
	pageCold    = 2 * time.Second
	pageWarm    = 150 * time.Millisecond
	pageSearch  = 1500 * time.Millisecond
	pageJump    = 150 * time.Millisecond
	pageAssets  = 90_000 // bytes
	pageMemory  = 40e6   // of 20 open pages
	pageStreams = 8      // of one session
	searchBlock = 20_000 // records that one request looks at
)

// measurePage: what browsers wait for, and what it costs a run that many look at.
func measurePage(ctx context.Context, b *bench) (_ []row, err error) {
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "page")
	if err := newWorkspace(dir); err != nil {
		return nil, err
	}
	run, records, err := longRun(ctx, filepath.Join(dir, ".tipstaff"), b.records)
	if err != nil {
		return nil, err
	}
	d, err := startDaemon(ctx, binary, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	p := &pageReader{site: &site{daemon: d, binary: binary, dir: dir, ctx: ctx, http: &http.Client{}}, run: "/ui/runs/" + run, records: records}
	for _, measure := range []func(*bench) ([]row, error){p.opening, p.finding, p.assets, p.layout, p.watched, p.browsed} {
		rows, err := measure(b)
		b.add(rows...)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// longRun stores a run of so many steps, a hundredth of which is signed.
func longRun(ctx context.Context, dir string, many int) (run string, records int64, err error) {
	bed, err := newBed(dir)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	if run, err = bed.create(ctx); err != nil {
		return "", 0, err
	}
	program := flow.Digest(empty)
	signed := func(fc flow.Context, done int) {
		if done%signedEvery == 0 {
			fc.Emit(flow.Event{Kind: string(tipstaff.KindPlanProposed), From: journal.Executor, Body: object{"intent_hash": program, "program_digest": program, "revision": 1, "accepted_by": run}})
		}
	}
	if err := bed.drive(ctx, run, steps(func(done int) bool { return done < many }, signed)); err != nil {
		return "", 0, err
	}
	row, err := bed.Run(ctx, run)
	return run, row.Head, errors.Join(err, bed.Flush(ctx))
}

// pageReader is a person with a browser.
type pageReader struct {
	*site
	page    string // where the page is
	run     string // the address of the long run
	records int64
}

// signIn is a session of its own.
func (p *pageReader) signIn() (*http.Client, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	c := p.browser()
	c.Jar, c.CheckRedirect = jar, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if p.page == "" {
		_, body, err := p.handIn(c, "http://"+p.daemon.site)
		if p.page = pageName.FindString(body); err != nil || p.page == "" {
			return nil, cmp.Or(err, fmt.Errorf("the page does not say where it is: %.300s", body))
		}
	}
	status, _, err := p.handIn(c, p.page)
	if err == nil && status != http.StatusSeeOther {
		err = fmt.Errorf("signing in is answered %d", status)
	}
	return c, err
}

// browser takes every name for this machine, as browsers do with those that end on .localhost.
func (p *pageReader) browser() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, p.daemon.site)
	}}}
}

// pageName is where the page is, which is told to whoever has shown a token.
var pageName = regexp.MustCompile(`http://[0-9a-f]{20}\.localhost:[0-9]+`)

// handIn hands the token in.
func (p *pageReader) handIn(c *http.Client, at string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(p.ctx, "POST", at+"/ui/signin", strings.NewReader(url.Values{"token": {p.token}}.Encode()))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", at)
	res, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), cmp.Or(err, res.Body.Close())
}

// open reads a page, and tells how long its first byte and all of it took.
func (p *pageReader) open(c *http.Client, path string) (first, all time.Duration, body string, err error) {
	began := time.Now()
	ctx := httptrace.WithClientTrace(p.ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Since(began) }})
	req, err := http.NewRequestWithContext(ctx, "GET", p.page+path, nil)
	if err != nil {
		return 0, 0, "", err
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is answered %s", path, res.Status)
	}
	return first, time.Since(began), string(text), err
}

// pageRow is a duration beside its limit.
func pageRow(figure string, took time.Duration, limit time.Duration, beside string) row {
	return row{figure: figure, value: took.Seconds(), measured: milliseconds(took), beside: beside, bound: goal("< "+milliseconds(limit), took < limit)}
}

// opening: the page of a long run, when nobody has looked at it yet and when somebody has.
func (p *pageReader) opening(b *bench) ([]row, error) {
	c, err := p.signIn()
	if err != nil {
		return nil, err
	}
	first, cold, body, err := p.open(c, p.run)
	if err != nil {
		return nil, err
	}
	var warm []float64
	for range b.rounds {
		_, took, _, err := p.open(c, p.run)
		if err != nil {
			return nil, err
		}
		warm = append(warm, took.Seconds())
	}
	_, past, _, err := p.open(c, p.run+"?at="+strconv.FormatInt(p.records/2, 10))
	if err != nil {
		return nil, err
	}
	_, near, _, err := p.open(c, p.run+"?at="+strconv.FormatInt(p.records/2-1, 10))
	if err != nil {
		return nil, err
	}
	of := fmt.Sprintf("a run of %s records, %s elements", count(float64(p.records)), count(float64(strings.Count(body, "<")-strings.Count(body, "</"))))
	return []row{
		pageRow("page of a long run, first byte, cold", first, pageFirst, of),
		pageRow("page of a long run, cold", cold, pageCold, of),
		pageRow("page of a long run, warm", time.Duration(median(warm)*float64(time.Second)), pageWarm, of),
		{figure: "page of a long run as of its middle", value: near.Seconds(), measured: milliseconds(near), beside: "the record before the one that was looked at; the first look took " + milliseconds(past)},
	}, nil
}

// finding: a search through all records, and a jump to one of them.
func (p *pageReader) finding(b *bench) ([]row, error) {
	c, err := p.signIn()
	if err != nil {
		return nil, err
	}
	var search time.Duration
	for after := int64(0); after < p.records; after += searchBlock {
		_, took, _, err := p.open(c, fmt.Sprintf("%s/journal?q=nobody+wrote+this&after=%d", p.run, after))
		if err != nil {
			return nil, err
		}
		search += took
	}
	var jumps []float64
	for i := range int64(b.rounds) {
		_, took, _, err := p.open(c, fmt.Sprintf("%s/journal?after=%d", p.run, p.records*(i+1)/int64(b.rounds+1)))
		if err != nil {
			return nil, err
		}
		jumps = append(jumps, took.Seconds())
	}
	return []row{
		pageRow("search through all records of a long run", search, pageSearch, count(float64(p.records))+" records"),
		pageRow("jump to a record of a long run", time.Duration(median(jumps)*float64(time.Second)), pageJump, "journal, 100 rows"),
	}, nil
}

var assetNames = regexp.MustCompile(`/ui/assets/[0-9a-f]+/[a-z-]+\.(?:css|js|svg)|"\./([a-z-]+\.js)"`)

// assets: all that a browser loads besides a page.
func (p *pageReader) assets(*bench) ([]row, error) {
	c := p.browser()
	_, _, body, err := p.open(c, "/ui/signin")
	if err != nil {
		return nil, err
	}
	had, size, sent := map[string]bool{}, 0, int64(0)
	var read func(folder, text string) error
	read = func(folder, text string) error {
		for _, m := range assetNames.FindAllStringSubmatch(text, -1) {
			path := m[0]
			if m[1] != "" {
				path = folder + "/" + m[1]
			}
			if had[path] {
				continue
			}
			had[path] = true
			_, _, content, err := p.open(c, path)
			if err != nil {
				return err
			}
			n, err := p.sent(path)
			if err != nil {
				return err
			}
			sent += n
			if size += len(content); strings.HasSuffix(path, ".js") {
				if err := read(path[:strings.LastIndexByte(path, '/')], content); err != nil {
					return err
				}
			}
		}
		return nil
	}
	first := assetNames.FindString(body)
	check := first[:strings.LastIndexByte(first, '/')] + "/verify.js" // which one page alone asks for
	if err := read("", body+check); err != nil {
		return nil, err
	}
	return []row{{figure: "all assets of the page", value: float64(sent), measured: fmt.Sprintf("%.1f kB", float64(sent)/1e3), beside: fmt.Sprintf("as they are sent; %d files, %.1f kB", len(had), float64(size)/1e3), bound: limit("< 90 kB", sent < pageAssets)}}, nil
}

// sent is how many bytes a browser is sent.
func (p *pageReader) sent(path string) (int64, error) {
	req, err := http.NewRequestWithContext(p.ctx, "GET", "http://"+p.daemon.site+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", "gzip") // so that the client leaves it as it is
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return io.Copy(io.Discard, res.Body)
}

// layout: pipelines of 60 and of 300 stages, with twice as many edges, some of which lead back.
func (p *pageReader) layout(b *bench) (rows []row, err error) {
	for _, c := range []struct {
		stages int
		limit  time.Duration
	}{{60, 5 * time.Millisecond}, {300, 50 * time.Millisecond}} {
		d := page.Diagram{Nodes: make([]page.DiagramNode, c.stages)}
		for i := range c.stages - 1 {
			d.Edges = append(d.Edges, page.DiagramEdge{From: i, To: i + 1}, page.DiagramEdge{From: i, To: min(c.stages-1, max(0, i+i*7%12-4))})
		}
		var took []float64
		for range b.rounds {
			began := time.Now()
			page.Arrange(d)
			took = append(took, time.Since(began).Seconds())
		}
		mid := time.Duration(median(took) * float64(time.Second))
		rows = append(rows, row{figure: fmt.Sprintf("layout of %d stages", c.stages), value: mid.Seconds(), measured: fmt.Sprintf("%.1f ms", mid.Seconds()*1e3), beside: fmt.Sprintf("%d edges", len(d.Edges)), bound: goal("< "+milliseconds(c.limit), mid < c.limit)})
	}
	return rows, nil
}

// watched: what pages that are open cost a run of 200 records a second, and the daemon.
func (p *pageReader) watched(b *bench) (rows []row, err error) {
	plan := slowCalls(b.followed, 5*time.Millisecond)
	took := func(pages int) (float64, float64, error) {
		before := p.resident()
		run, err := p.begin("", plan)
		if err != nil {
			return 0, 0, err
		}
		ctx, leave := context.WithCancel(p.ctx)
		defer leave()
		var c *http.Client
		for i := range pages {
			if i%pageStreams == 0 {
				if c, err = p.signIn(); err != nil {
					return 0, 0, err
				}
			}
			if err := p.look(ctx, c, run); err != nil {
				return 0, 0, err
			}
		}
		if _, err := p.follow("", run); err != nil {
			return 0, 0, err
		}
		wall, err := p.wall("", run)
		return wall, p.resident() - before, err
	}
	for _, c := range []struct {
		pages int
		limit float64
	}{{20, 1.02}, {200, 1.05}} {
		var alone, seen, grew []float64
		for range turns(b.rounds) {
			a, _, err := took(0)
			if err != nil {
				return nil, err
			}
			s, more, err := took(c.pages)
			if err != nil {
				return nil, err
			}
			alone, seen, grew = append(alone, a), append(seen, s), append(grew, more)
		}
		r, bytes := median(seen)/median(alone), max(1, grew[0])
		rows = append(rows, row{figure: fmt.Sprintf("a run with %d open pages", c.pages), value: r, measured: times(r), beside: fmt.Sprintf("the time that it takes alone, %.2f s", median(alone)), bound: goal(fmt.Sprintf("< %.2f ×", c.limit), r < c.limit)})
		if c.pages == 20 {
			rows = append(rows, row{figure: "memory of 20 open pages", value: bytes, measured: megabytes(bytes), beside: "of the daemon, resident", bound: goal("< 40 MB", bytes < pageMemory)})
		}
	}
	return rows, nil
}

// look opens the stream of a page, and reads it until ctx ends.
func (p *pageReader) look(ctx context.Context, c *http.Client, run string) error {
	at := url.Values{"page": {"/ui/runs/" + run}, "run": {run}, "parts": {"header,tree"}}
	req, err := http.NewRequestWithContext(ctx, "GET", p.page+"/ui/stream?"+at.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode == http.StatusNoContent { // the run has ended: there is nothing to follow
		return res.Body.Close()
	}
	if res.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("a stream is answered %s", res.Status), res.Body.Close())
	}
	go func() {
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
	}()
	return nil
}
