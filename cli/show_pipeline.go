package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tipstaff/tipstaff"
)

// Drawings of pipelines.
var graphFormats = []string{"mermaid", "dot"}

// showGraph prints the run's pipeline with how often each edge was taken.
func (o *showOptions) showGraph(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) error {
	drawn, err := svc.Graph(ctx, run, o.graph)
	if err != nil {
		return err
	}
	_, err = o.out.Write(drawn)
	return err
}

func (o *showOptions) showCheckpoints(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) error {
	list, err := svc.Checkpoints(ctx, run)
	if err != nil {
		return err
	}
	return printRows(o.app, list, "CHECKPOINT\tSTAGE\tTURN\tITERATION\tSEQ\tCREATED\tLABELS", func(c tipstaff.Checkpoint) string {
		return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%s\t%s", clean(c.ID), clean(c.Stage), c.Turn, c.Iteration, c.Seq, timeText(c.CreatedAt),
			clean(strings.Join(c.Labels, ", ")))
	})
}

func (o *showOptions) showTransitions(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) error {
	list, err := tipstaff.Transitions(ctx, svc, run)
	if err != nil {
		return err
	}
	return printRows(o.app, list, "SEQ\tTURN\tITERATION\tFROM\tTO\tREASON\tRULE\tEDGE", func(t tipstaff.StageTransition) string {
		return fmt.Sprintf("%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s", t.Seq, t.Turn, t.Iteration, clean(t.From), clean(t.To), clean(t.Reason),
			present(int64(t.Rule)), present(t.EdgeCount))
	})
}

// present is a number that is there; 0 is none.
func present(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// printRows prints a list: a table for people, or with --json one object a line.
func printRows[T any](a *app, list []T, head string, row func(T) string) error {
	if a.json {
		for _, item := range list {
			if err := a.writeJSON(item); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		fmt.Fprintln(a.err, "there are none")
		return nil
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, head)
	for _, item := range list {
		fmt.Fprintln(w, row(item))
	}
	_ = w.Flush() // a Builder takes everything
	for _, l := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if _, err := io.WriteString(a.out, strings.TrimRight(l, " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
