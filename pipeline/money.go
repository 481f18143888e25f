package pipeline

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff"
)

// ParseMoney reads a decimal with at most nine digits after its point, "0.50".
func ParseMoney(text string) (Money, error) {
	n, err := tipstaff.ParseBound(tipstaff.BoundCostUSD, text)
	return Money(n), err
}

// String is the amount as ParseMoney reads it, with at least two decimals.
func (m Money) String() string {
	return tipstaff.FormatBound(tipstaff.BoundCostUSD, int64(m))
}

// MarshalJSON writes a string: a number would be rounded by whoever reads it.
func (m Money) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

// UnmarshalJSON reads such a string.
func (m *Money) UnmarshalJSON(raw []byte) error {
	var text string
	err := json.Unmarshal(raw, &text)
	if err != nil {
		return err
	}
	*m, err = ParseMoney(text)
	return err
}
