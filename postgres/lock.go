package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// locks are those of one transaction. A batch of ops asks for them one after the other, and
// others ask for the same ones in another order. So that no two wait for each other, only
// a lock that comes after all that are held is waited for. Another is taken if it is free; if
// not, the transaction is given up, and takes all that it asked for at its beginning when it
// is tried again.
type locks struct {
	asked   map[int64]bool
	pending []int64 // of these, those that are yet to be taken
	last    int64   // the greatest that is held
}

// lockKey is what a name is locked by. What most transactions ask for last comes last.
func lockKey(name string) int64 {
	switch name {
	case "memory":
		return math.MaxInt64 - 1
	case "inbox":
		return math.MaxInt64
	}
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 2)
}

// begin forgets the locks of the last transaction, and asks for some.
func (l *locks) begin(keys []int64) {
	*l = locks{asked: map[int64]bool{}, last: math.MinInt64}
	for _, k := range keys {
		l.ask(k)
	}
}

func (l *locks) ask(key int64) {
	if !l.asked[key] {
		l.asked[key] = true
		l.pending = append(l.pending, key)
	}
}

// take is the statement that takes what is pending; "": nothing is.
func (l *locks) take() (query string, keys []byte) {
	if len(l.pending) == 0 {
		return "", nil
	}
	slices.Sort(l.pending)
	query = `SELECT pg_advisory_xact_lock(k) FROM unnest(CAST(? AS bigint[])) AS k`
	if l.pending[0] < l.last {
		query = `SELECT try_locks(CAST(? AS bigint[]))`
	}
	var elements [][]byte
	for _, k := range l.pending {
		elements = append(elements, binary.BigEndian.AppendUint64(nil, uint64(k)))
	}
	l.last = max(l.last, l.pending[len(l.pending)-1])
	l.pending = nil
	return query, array(pgtype.Int8OID, elements)
}

// all are those that the transaction has asked for.
func (l *locks) all() []int64 { return slices.Collect(maps.Keys(l.asked)) }
