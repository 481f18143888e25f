package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
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
