package runner

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// pages is a source of n empty records; the one after which it fails is 0 for
// none.
type pages struct{ n, fails int }

func (p *pages) Records(ctx context.Context, _ string, after int64, limit int) (list []flow.Stored, _ error) {
	for seq := int(after) + 1; seq <= p.n && len(list) < limit; seq++ {
		if seq == p.fails {
			return nil, errors.New("torn")
		}
		list = append(list, flow.Stored{Seq: int64(seq)})
	}
	return list, ctx.Err()
}

func (p *pages) Blob(context.Context, string) ([]byte, error) { return nil, flow.ErrNoBlob }

func TestEveryRecordIsGivenOnceAndInOrder(t *testing.T) {
	for _, n := range []int{0, 1, pageSize - 1, pageSize, pageSize + 1, 3 * pageSize} {
		seq := int64(0)
		err := eachRecord(context.Background(), &pages{n: n}, "", 0, func(s flow.Stored) error {
			if seq++; s.Seq != seq {
				t.Fatalf("%d came as the %d. of %d", s.Seq, seq, n)
			}
			return nil
		})
		if err != nil || seq != int64(n) {
			t.Errorf("%d of %d came: %v", seq, n, err)
		}
	}
}

func TestReadingEndsWithTheFirstError(t *testing.T) {
	err := eachRecord(context.Background(), &pages{n: 3 * pageSize, fails: 2*pageSize + 1}, "", 0, func(flow.Stored) error { return nil })
	if err == nil || err.Error() != "torn" {
		t.Errorf("an unreadable page: %v", err)
	}
	given := 0
	err = eachRecord(context.Background(), &pages{n: 3 * pageSize}, "", 0, func(flow.Stored) error {
		if given++; given == 5 {
			return errEnough
		}
		return nil
	})
	if err != errEnough || given != 5 {
		t.Errorf("%d were given, and then %v", given, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = eachRecord(ctx, &pages{n: 20 * pageSize}, "", 0, func(flow.Stored) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that was cancelled: %v", err)
	}
}

// A record is the same event whichever way it was read.
func TestReadingGivesTheEventThatParsingGives(t *testing.T) {
	for _, raw := range []string{
		`{"at":"2026-01-02T03:04:05.000000006Z","body":{"x":1},"epoch":2,"kind":"plan.step","n":1,"path":"root/a","run":"01J00000000000000000000000","seq":7,"v":1}`,
		`{"at":"2026-01-02T03:04:05.000000006Z","body":{},"kind":"plan.output","note":true,"path":"é","run":"01J00000000000000000000000","seq":7,"v":1}`,
		`{"at":"2026-01-02T03:04:05.000000006Z","body":{},"from":"user","head":"h","id":"01J00000000000000000000001","key":"k","kind":"intent.accept","path":"","prev":"p","run":"01J00000000000000000000000","seq":3,"sig":"s","v":1}`,
		`{"at":"2026-01-02T03:04:05.000000006Z","body":{},"kind":"plan.step","path":"","run":"no run","seq":7,"v":1}`,
		`{"at":"2026-01-02T03:04:05.000000006Z","body":{},"kind":"not.known","path":"","run":"01J00000000000000000000000","seq":7,"v":1}`,
		`{"at":"2026-01-02T03:04:05.000000006Z","body":{},"kind":"plan.step","path":"","run":"01J00000000000000000000000","seq":7,"v":2}`,
		` {"v":1,"at":"2026-01-02T03:04:05Z","body":{},"kind":"plan.step","path":"","run":"01J00000000000000000000000","seq":7} `,
		`{"at":`,
	} {
		r := reading{Stored: flow.Stored{Bytes: []byte(raw)}}
		r.record, r.err = journal.Parse(r.Bytes)
		got, gotErr := r.event()
		want, wantErr := tipstaff.ParseEvent(r.Bytes)
		if !reflect.DeepEqual(got, want) || tipstaff.CodeOf(gotErr) != tipstaff.CodeOf(wantErr) {
			t.Errorf("%s\n is %+v, %v\nnot %+v, %v", raw, got, gotErr, want, wantErr)
		}
	}
}
