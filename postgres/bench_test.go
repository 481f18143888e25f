package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// Steps of one run, and of 200 at once, beside bare inserts of the same bytes over the same
// kind of connection.
func BenchmarkSteps(b *testing.B) {
	record, hash := make([]byte, sizeOfStep(b)), make([]byte, 32)
	bare := func(b *testing.B) *conn {
		c, err := connect(b.Context(), config(b, address(b)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.close() })
		if err := c.script(`CREATE SCHEMA bare; CREATE TABLE bare.records (run bigint, seq bigint, kind text, bytes bytea, hash bytea, PRIMARY KEY (run, seq))`); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.script(`DROP SCHEMA bare CASCADE`) })
		return c
	}
	const insert = `INSERT INTO bare.records VALUES (?, ?, ?, ?, ?)`
	b.Run("bare/1", func(b *testing.B) {
		c := bare(b)
		for i := range b.N {
			if err := c.now(insert, int64(1), int64(i), "effect.finished", record, hash); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare/200", func(b *testing.B) {
		c := bare(b)
		for i := 0; i < b.N; i += 200 {
			_ = c.Exec(`BEGIN`)
			for k := range 200 {
				_ = c.Exec(insert, int64(k), int64(i), "effect.finished", record, hash)
			}
			if err := c.now(`COMMIT`); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, runs := range []int{1, 200} {
		b.Run(fmt.Sprint("steps/", runs), func(b *testing.B) {
			drive(b, runs, max(1, b.N/runs))
		})
	}
}

// drive measures runs that take so many steps each.
func drive(b *testing.B, runs, steps int) (s *Store, ids []string) {
	b.Helper()
	s = open(b, address(b), &Options{Folder: b.TempDir(), UserKey: true, Options: store.Options{Alive: func(flow.Owner, time.Time) bool { return true }}})
	b.Cleanup(func() { _ = s.Close() })
	for range runs {
		id := tipstaff.NewID(time.Now()).String()
		if err := s.Create(b.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, storetest.Begun(s.Keys())); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, id)
	}
	engine := flow.New(s, nil)
	var all, begun, stepped sync.WaitGroup
	begun.Add(runs)
	stepped.Add(runs)
	for _, id := range ids {
		all.Go(func() {
			out, err := engine.Drive(b.Context(), stepping(id, steps, &begun, &stepped))
			if err != nil || out.Status != flow.Completed {
				b.Errorf("%+v, %v", out, err)
			}
		})
	}
	begun.Wait() // taking up runs is not measured, nor is ending them
	b.ResetTimer()
	stepped.Wait()
	b.StopTimer()
	all.Wait()
	return s, ids
}

// sizeOfStep is how many bytes the record of a step has.
func sizeOfStep(b *testing.B) int {
	b.Helper()
	s, ids := drive(b, 1, 1)
	records, err := s.Records(b.Context(), ids[0], 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range records {
		if rec, err := journal.Parse(r.Bytes); err == nil && rec.Path == "root/s0" {
			return len(r.Bytes)
		}
	}
	b.Fatalf("none of %d records is that of a step", len(records))
	return 0
}

// stepping is a job of so many steps, one after the other, which begin when all have begun.
// Every thousand it begins its history afresh, as long programs do.
func stepping(run string, steps int, begun, stepped *sync.WaitGroup) flow.Job {
	value := flow.JSON(map[string]string{"text": strings.Repeat("word ", 35)})
	input := json.RawMessage(`{"uri":"mcp://builtin/read_file@1.0.0","args":{"path":"notes/today.txt"}}`)
	return flow.Job{Run: run, Root: "root", Owner: flow.Owner{Kind: "daemon"},
		Acts: map[string]flow.Activity{"tool.call": {Run: func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{Value: value}, nil }}},
		Flow: func(fc flow.Context, state json.RawMessage) (json.RawMessage, error) {
			done := 0
			if len(state) > 0 {
				if err := json.Unmarshal(state, &done); err != nil {
					return nil, err
				}
			}
			if done == 0 {
				begun.Done()
				begun.Wait()
			}
			for n := range 1000 {
				if done == steps {
					stepped.Done()
					return json.RawMessage(`{}`), nil
				}
				if _, err := fc.Do(flow.Call{Key: fmt.Sprint("s", n), Name: "tool.call", Class: flow.Read, Input: input}); err != nil {
					return nil, err
				}
				done++
			}
			return nil, flow.Continue(flow.JSON(done))
		}}
}
