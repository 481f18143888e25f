package page

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff"
)

// elementsMost is how many elements a page may have, however large its run is.
const elementsMost = 6000

// wide is a plan with many steps below one, each of which fails once and is tried again.
func wide(s *told, steps int) {
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	for i := range steps {
		path, long := fmt.Sprintf("root/s%d", i), "long "
		if i%50 == 0 {
			long = strings.Repeat(long, 1000)
		}
		s.tell(tipstaff.KindEffectIntended, path, map[string]any{"name": "tool.call", "class": "read", "attempt": 1, "reserve": map[string]any{"tool_calls": 1}})
		s.tell(tipstaff.KindEffectFailed, path, map[string]any{"attempt": 1, "error": map[string]any{"code": "tool_error", "message": long}})
		s.tell(tipstaff.KindEffectIntended, path, map[string]any{"name": "tool.call", "class": "read", "attempt": 2, "reserve": map[string]any{"tool_calls": 1}})
		s.tell(tipstaff.KindEffectFinished, path, map[string]any{"attempt": 2, "error": map[string]any{"code": "tool_error", "message": "again"}})
	}
}

// tall is a pipeline with many stages, twice as many edges, and loops.
func tall(s *told, stages int) {
	s.shape = tipstaff.Graph{Name: "tall", MaxIterations: 9}
	name := func(i int) string { return fmt.Sprintf("stage%d", i) }
	for i := range stages {
		s.shape.Stages = append(s.shape.Stages, tipstaff.GraphStage{Name: name(i), Kind: "model", Entry: i == 0})
		s.shape.Edges = append(s.shape.Edges, tipstaff.GraphEdge{From: name(i), To: name(max(0, i-i%7)), Kind: tipstaff.EdgeRoute, Back: true, Limit: 2})
		if i > 0 {
			s.shape.Edges = append(s.shape.Edges, tipstaff.GraphEdge{From: name(i - 1), To: name(i), Kind: tipstaff.EdgeRoute})
		}
	}
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	for i := range stages {
		s.move(name(max(0, i-1)), name(i), "default", 0, 1)
		s.tell(tipstaff.KindStageStarted, name(i)+"#1", map[string]any{"stage": name(i), "visit": 1, "attempt": 1})
		s.tell(tipstaff.KindStageFinished, name(i)+"#1", map[string]any{"stage": name(i), "visit": 1, "outcome": "success", "attempts": 1, "duration_ms": 1500})
	}
}

// A graph that does not fit has an overview of all of its stages; one that fits has none.
func TestOverviewOfALargeGraph(t *testing.T) {
	for stages, want := range map[int]int{graphFits: 0, graphFits + 1: graphFits + 1} {
		s := newTold(t, tipstaff.ProgramPipeline)
		tall(s, stages)
		root, _ := s.visitor(t).open("")
		shown := 0
		for _, o := range find(root, class("overview")) {
			for _, p := range find(o, func(n *html.Node) bool { return n.Data == "path" }) {
				shown += strings.Count(attr(p, "d"), "z")
			}
		}
		if shown != want {
			t.Errorf("of %d stages the overview shows %d, want %d", stages, shown, want)
		}
	}
}

// shownOf is what pages show of a run as of a record.
func shownOf(t interface{ Fatal(...any) }, k *folds, s *told, at int64) (shown [3]any) {
	err := k.with(context.Background(), s.run, at, func(f *fold) error {
		status, err := json.Marshal(&f.view.Fold)
		if err != nil {
			return err
		}
		shown = [3]any{f.view.Clone().Rows(s.now), f.view.Timeline(tipstaff.TimelineQuery{}, s.now), string(status)}
		if s.shape.Name != "" {
			g, err := f.follow(context.Background(), s)
			shown[1] = g
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// A run as of any record is what the records up to it tell, whichever copy it goes on from,
// and no more records are read for it than lie between two copies.
func TestMomentsGoOnFromCopies(t *testing.T) {
	for kind, fill := range map[string]func(*told){"plan": func(s *told) { work(s); wide(s, 20) }, tipstaff.ProgramPipeline: func(s *told) { tall(s, 30) }} {
		s := newTold(t, kind)
		fill(s)
		rapid.Check(t, func(t *rapid.T) {
			k := newFolds(s)
			k.every = 7
			shownOf(t, k, s, s.run.HeadSeq)
			for _, at := range rapid.SliceOfN(rapid.Int64Range(0, s.run.HeadSeq), 1, 6).Draw(t, "moments") {
				s.asked = 0
				got := shownOf(t, k, s, at)
				if read := s.asked; at > 0 && kind == "plan" && read >= 7 {
					t.Fatalf("at %d: %d records were read", at, read)
				}
				if want := shownOf(t, newFolds(s), s, at); !reflect.DeepEqual(got, want) {
					t.Fatalf("at %d: %+v, want %+v", at, got, want)
				}
			}
		})
	}
}

// Above 300 stages there is the table alone.
func TestGraphsTooLargeToDraw(t *testing.T) {
	for stages, want := range map[int]int{graphStages: graphStages, graphStages + 1: 0} {
		s := newTold(t, tipstaff.ProgramPipeline)
		tall(s, stages)
		root, _ := s.visitor(t).open("")
		if drawn := len(find(root, func(n *html.Node) bool { return n.Data == "g" && class("stage")(n) })); drawn != want {
			t.Errorf("of %d stages %d are drawn, want %d", stages, drawn, want)
		}
		rows := 0
		for _, d := range find(root, class("edges")) {
			rows += len(find(d, func(n *html.Node) bool { return n.Data == "tr" }))
		}
		if rows != 1+graphRows {
			t.Errorf("the table of %d stages has %d rows, want a window of %d", stages, rows-1, graphRows)
		}
	}
}
