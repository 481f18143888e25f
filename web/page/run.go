package page

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// runPages show one run: its overview, nodes and timeline.
var runPages = pages{
	"GET /ui/runs/{run}":          (*view).overview,
	"GET /ui/runs/{run}/node":     (*view).node,
	"GET /ui/runs/{run}/timeline": (*view).timeline,
}

// runView is a view of a run. Its records are folded after its header was sent.
type runView struct {
	Run    tipstaff.Run
	Header runHeader
	v      *view
	at     int64 // the record that it is shown as of; 0: as it is now
}

// Flush sends what there is of the page: the rest takes longer.
func (p *runView) Flush() string {
	p.v.out.flush()
	return ""
}

// about is a view of the run as it is now.
func (v *view) about() *runView {
	return &runView{Run: v.run, Header: v.header(v.run), v: v}
}

// runView is a view of the run as of the record that the address names, if it does: then the
// header is folded, too.
func (v *view) runView() (*runView, error) {
	at, err := v.moment(v.run)
	if err != nil || at == 0 {
		return v.about(), err
	}
	p := &runView{Run: v.run, v: v, at: at}
	err = p.fold(func(f *fold) error {
		p.Header = v.header(asOf(v.run, f))
		p.Header.At = v.atBar(at, v.run.HeadSeq)
		return nil
	})
	return p, err
}

// fold calls f with the run as of the moment that is shown.
func (p *runView) fold(f func(*fold) error) error {
	return p.v.s.folds.with(p.v.ctx(), p.Run, p.at, f)
}

// failed is the error of a part, which stands in its place.
func (p *runView) failed(err error) string {
	if err == nil {
		return ""
	}
	p.v.s.o.Log.ErrorContext(p.v.ctx(), "a part of a page failed", "path", p.v.r.Pattern, "error", err.Error())
	if known, ok := errors.AsType[*tipstaff.Error](err); ok {
		return known.Message
	}
	return "This cannot be shown. The reason is written in the log of the daemon."
}

// find is the run that an address names.
func (v *view) find() (tipstaff.Run, error) {
	name := v.r.PathValue("run")
	run, err := v.runCalled(name)
	if err == nil && run.ID.String() != name && v.r.Method == http.MethodGet {
		at := url.URL{Path: strings.Replace(v.r.URL.Path, "/runs/"+name, "/runs/"+run.ID.String(), 1), RawQuery: v.r.URL.RawQuery}
		err = elsewhere(at.String())
	}
	if err == nil && run.State.Terminal() {
		v.w.Header().Set(finalHeader, "1")
	}
	return run, err
}

// runCalled is the run of an id, the only one whose id begins so, or for @ the newest.
func (v *view) runCalled(name string) (tipstaff.Run, error) {
	id, err := tipstaff.ParseID(name)
	if err != nil {
		req := tipstaff.ListRequest{Limit: 1}
		if name != "@" {
			req.Limit, req.Prefix = 2, strings.ToUpper(name)
		}
		page, err := v.s.control.Runs.List(v.ctx(), req)
		if err != nil || len(page.Runs) != 1 || name == "" {
			return tipstaff.Run{}, tipstaff.Errorf(tipstaff.RunNotFound, "there is no run %s", tipstaff.Quote(name, 40))
		}
		id = page.Runs[0].ID
	}
	return v.s.control.Runs.Get(v.ctx(), id)
}

// overview is the first view of a run.
func (v *view) overview() error {
	p, err := v.runView()
	if err != nil {
		return err
	}
	return v.show("run", nameOf(v.run), &runPage{runView: p})
}

// runPage is the overview of a run: its graph, if it is a pipeline, and its tree.
type runPage struct {
	*runView
}

// Tree is the run as a tree.
func (p *runPage) Tree() (t tree) {
	err := p.fold(func(f *fold) error {
		most := treeRows
		if p.Run.Program.Kind == tipstaff.ProgramPipeline && len(f.view.Roots[0].Children) > graphFits {
			most = treeBeside
		}
		t = treeOf(f.view.Rows(p.now(f)), most)
		return nil
	})
	t.Error = p.failed(err)
	return t
}

// now is the time by which durations are told: of a moment that has passed, its own.
func (p *runView) now(f *fold) time.Time {
	if p.at > 0 {
		return f.view.At
	}
	return p.v.now
}
