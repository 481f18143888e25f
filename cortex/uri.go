package cortex

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// TypeEvent is the type of the items that the executor writes itself.
const TypeEvent = "event"

var types = tipstaff.MemoryTypes()

const scheme = "cortex://"

// URI names an item: cortex://<type>/<ulid>.
type URI struct {
	Type string
	ID   tipstaff.ID
}

// NewURI names the item that the log's record seq, written at this time,
// remembers. The id's random part is the seq: items need no index to be found,
// and ascend as the log does.
func NewURI(typ string, at time.Time, seq int64) URI {
	u := URI{Type: typ}
	binary.BigEndian.PutUint64(u.ID[:8], uint64(at.UnixMilli())<<16)
	binary.BigEndian.PutUint64(u.ID[8:], uint64(seq))
	return u
}

// ParseURI reads the one spelling that String gives.
func ParseURI(s string) (URI, error) {
	typ, id, ok := strings.Cut(strings.TrimPrefix(s, scheme), "/")
	if !ok || !strings.HasPrefix(s, scheme) || !slices.Contains(types, typ) {
		return URI{}, noItem(s)
	}
	parsed, err := tipstaff.ParseID(id)
	if err != nil {
		return URI{}, noItem(s)
	}
	return URI{typ, parsed}, nil
}

func noItem(s string) error {
	return tipstaff.Errorf(tipstaff.InvalidArgument, "%.200q is not an item of the memory", s).
		WithHint("an item is cortex://<type>/<id>, with a type of %s", strings.Join(types, ", "))
}

func (u URI) String() string { return scheme + u.Type + "/" + u.ID.String() }

// Seq is the record that remembers the item; 0 if no record can have made this
// id.
func (u URI) Seq() int64 {
	if u.ID[6] != 0 || u.ID[7] != 0 || u.ID[8]&0x80 != 0 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(u.ID[8:]))
}
