package tipstaff

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID names a run, a gate or an envelope: a ULID, 26 upper-case characters that
// sort by the time they were made.
type ID [16]byte

var entropy = struct {
	sync.Mutex
	*ulid.MonotonicEntropy
}{MonotonicEntropy: ulid.Monotonic(rand.Reader, 0)}

// NewID makes an id for the given time. Ids made by one process ascend.
func NewID(at time.Time) ID {
	entropy.Lock()
	defer entropy.Unlock()
	return ID(ulid.MustNew(ulid.Timestamp(at), entropy.MonotonicEntropy))
}

// ParseID reads the canonical form alone: no lower case, no look-alikes.
func ParseID(s string) (ID, error) {
	u, err := ulid.ParseStrict(s)
	if err != nil || u.String() != s || u.IsZero() {
		return ID{}, Errorf(InvalidArgument, "%q is not an id", s).WithHint("an id has 26 upper-case characters, like 01JCQ8R4T5V6W7X8Y9Z0A1B2C3")
	}
	return ID(u), nil
}

func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	return ulid.ULID(id).String()
}

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Time is when the id was made, to the millisecond.
func (id ID) Time() time.Time { return ulid.Time(ulid.ULID(id).Time()) }

// MarshalText is String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is ParseID; the empty text is the zero id.
func (id *ID) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	*id, err = ParseID(string(b))
	return err
}
